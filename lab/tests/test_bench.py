"""`tproper bench`: one rule for every method, killed and resumed, a user's own loss and labels, the leaderboard."""

import json
import math
import pickle
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from test_commands import records, run_here, start, wait_for

import tproper as tp
import tproper_lab as lab
from tproper_lab import comparing, figures, label_files, leaderboard, real_labels
from tproper_lab.comparing import (
    Budget,
    as_stored,
    best_rate,
    chosen_methods,
    config_of,
    named_methods,
    pose,
    run_bench,
)
from tproper_lab.datasets import load
from tproper_lab.engine import Pixels
from tproper_lab.methods import METHODS, Method, from_function, register
from tproper_lab.own import register_own
from tproper_lab.problems import Problem
from tproper_lab.protocol import RULES, SEARCH_SEED, Trial
from tproper_lab.ray_engine import LabWork
from tproper_lab.report import write_leaderboard_alone, write_report
from tproper_lab.runner import Runner, Stop
from tproper_lab.store import Store

SMALL = ["complementary", "--data", "digits", "--models", "linear", "--methods", "forward,scl_exp", "--trials", "2",
         "--epochs", "4", "--search-epochs", "2", "--lr", "0.3,1", "--device", "cpu"]  # fmt: skip
BUDGET = Budget((0.1, 0.3), 8, 2)


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    done = run_here("bench", *SMALL, "--out", folder)
    assert done.exit_code == 0, done.output
    return folder


def test_counts_of_people_are_scored_to_the_end(tmp_path, monkeypatch):
    counts = np.random.default_rng(0).integers(1, 9, (360, 10))
    monkeypatch.setattr(lab, "cifar10h_counts", lambda folder: label_files.cifar10h_counts(folder, {}))
    np.save(tmp_path / "cifar10h-counts.npy", counts)
    done = run_here("bench", *SMALL, "--soft", tmp_path, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    reported = [r for r in records(tmp_path / "run") if r["seed"] < SEARCH_SEED]
    entropies = [r["selections"]["weak"]["raw"]["soft_log_loss"] for r in reported]
    shares = counts / counts.sum(axis=1, keepdims=True)
    least = -(shares * np.log(shares)).sum(axis=1).mean()  # the entropy of the people's own answers
    assert len(entropies) == 4
    assert min(entropies) > least


def same(found, expected):
    """Equal but for rounding: a stack of another size sums in another order, and a bin's edge may fall between."""
    assert [r["id"] for r in found] == [r["id"] for r in expected]
    for a, b in zip(found, expected, strict=True):
        assert a["config"] == b["config"]
        for name in ("risk", "valid", "weak"):
            assert a[name] == pytest.approx(b[name], rel=1e-4, abs=2e-2 if name == "valid" else 0), name
        for rule in ("clean", "weak"):
            for part in ("raw", "by_weak"):
                mine, other = a["selections"][rule].get(part), b["selections"][rule].get(part)
                assert (mine is None) == (other is None)
                if mine is not None and a["selections"][rule]["epoch"] == b["selections"][rule]["epoch"]:
                    assert mine["log_loss"] == pytest.approx(other["log_loss"], rel=1e-3), part


def test_search_trials_and_reported_ones_are_stored(undisturbed):
    rows = records(undisturbed)
    searched = [r for r in rows if r["seed"] >= SEARCH_SEED]
    reported = [r for r in rows if r["seed"] < SEARCH_SEED]
    assert {r["loss"] for r in reported} == {"forward", "scl_exp"}
    assert {r["config"]["protocol"]["max_epochs"] for r in searched} == {2}
    assert {r["config"]["protocol"]["max_epochs"] for r in reported} == {4}
    for loss in ("forward", "scl_exp"):
        risks = {r["lr"]: min(r["weak"]) for r in searched if r["loss"] == loss}
        assert {0.3, 1.0} <= set(risks)
        used = {r["lr"] for r in reported if r["loss"] == loss}
        assert used == {min(risks, key=lambda rate: math.inf if risks[rate] is None else risks[rate])}
    page = (undisturbed / "report/leaderboard.md").read_text()
    assert page.startswith("# Leaderboard\n")
    assert "## complementary: digits, linear" in page
    assert "| SCL-EXP | the kind of label | clean |" in page


def test_killed_and_resumed_it_finds_the_same_records(undisturbed, tmp_path):
    args = ["bench", *SMALL, "--out", tmp_path, "--checkpoint-seconds", "0"]
    process = start(*args)
    folder = tmp_path / "checkpoints"
    wait_for(lambda: folder.is_dir() and any(folder.glob("*.safetensors")), process)
    process.kill()
    process.wait()
    assert len(records(tmp_path)) < len(records(undisturbed))
    done = run_here(*args)
    assert done.exit_code == 0, done.output
    same(records(tmp_path), records(undisturbed))
    assert not [p for p in folder.iterdir() if not p.name.startswith(".")]


def test_time_limit_stops_cleanly_and_exported_records_go_on(undisturbed, tmp_path):
    done = run_here("bench", *SMALL, "--out", tmp_path / "a", "--minutes", "0")
    assert done.exit_code == 75
    exported = tmp_path / "bench.jsonl"
    assert run_here("bench", *SMALL, "--out", undisturbed, "--export", exported).exit_code == 0
    fresh = run_here("bench", *SMALL, "--out", tmp_path / "b", "--records", exported)
    assert fresh.exit_code == 0, fresh.output
    assert records(tmp_path / "b") == records(undisturbed)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["complementry"], "transition: expected one of binary, case_control_pu, coarse, complementary"),
        (["complementary", "--methods", "sgd"], "method: expected one of"),
        (["complementary", "--methods", "rc"], "method: expected one for complementary labels"),
        (["complementary", "--methods", ","], "methods: expected names of methods, or all, got ','"),
        (
            ["complementary", "--models", "resnet20"],
            "--models: expected models for the data set digits, got resnet20; linear and mlp take",
        ),
        (
            ["complementary", "--lr", "fast"],
            "--lr: expected positive numbers within float32's range, separated by commas, got 'fast'",
        ),
        (["complementary", "--lr", "0.1,-1"], "--lr: expected positive numbers"),
        (["complementary", "--select", "best"], "--select: expected one or more of clean, weak, got best"),
        (["complementary", "--method-file", "mine.py"], "method: expected file.py:function, got 'mine.py'"),
        (["complementary", "--soft", "."], "expected cifar10h"),
        (["llava:1"], "expected the folder with the label files for llava:1; give --labels FOLDER"),
        (["mine", "--labels", "mine.npy"], "expected the T that the labels of mine.npy follow; give --transition SPEC"),
        (["mine", "--labels", "no.npy", "--transition", "pair:0.1"], "labels: cannot read no.npy"),
        (["complementary", "--transition", "partial:0.3"], "expected a T with labels like those of complementary"),
        (["pu:0.5", "--merge", "0+1|2"], "merged: expected groups of all 10 classes of digits, each class once"),
        (["symmetric:0.1", "--merge", "abc"], "merged: expected groups of all 10 classes of digits, each class once"),
        (["complementary", "--weight-decay", "inf"], "--weight-decay: expected positive numbers within float32's"),
        (["complementary", "--weight-decay", "1e300"], "--weight-decay: expected positive numbers within float32's"),
        (["complementary", "--learned-lr", "inf"], "--learned-lr: expected positive numbers within float32's range"),
        (["complementary", "--methods", "forward:"], "method: expected settings after the colon, or none, got"),
        (["complementary", "--dataset", "mnist"], "expected a directory with the data, got digits"),
    ],
)
def test_mistakes_are_one_sentence_and_nothing_is_made(args, sentence, tmp_path):
    done = run_here("bench", *args, "--data", "digits", "--out", tmp_path / "run")
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.output.split())
    assert "Traceback" not in done.output
    assert not (tmp_path / "run").exists()


# --- the plan ---------------------------------------------------------------------------------------


def fake_run(seen, risk):
    """Records without training: the weak risk is a function of the method and its rate."""
    rows = {}

    def train(trials):
        seen.append([t for t in trials if t.id not in rows])
        for t in trials:
            value = risk(t.config.loss, t.config.lr)
            rows[t.id] = {
                "seed": t.seed, "config_key": t.config.key, "lr": t.config.lr, "loss": t.config.loss,
                "weak": [9.0, value],
            }  # fmt: skip
        return list(rows.values())

    return train


def test_every_method_gets_the_same_search_and_goes_beyond_an_end(digits):
    posed = pose("complementary", digits)
    configs = [config_of(name, "linear", "digits", posed, BUDGET) for name in ("forward", "bc", "ga")]
    optima = {"forward": 0.2, "bc": 0.0006, "ga": 1e-9}

    def risk(loss, rate):
        return None if loss == "ga" else abs(math.log(rate / optima[loss]))

    seen = []
    best = run_bench(configs, BUDGET, fake_run(seen, risk))
    assert {c.loss: c.lr for c in best} == {"forward": 0.3, "bc": 0.001, "ga": 0.0001}
    first = {(t.config.loss, t.config.lr) for t in seen[0]}
    assert first == {(loss, rate) for loss in optima for rate in BUDGET.rates}
    assert [t.seed for t in seen[-1]] == [s for s in range(3) for _ in configs]
    assert {t.config.protocol.max_epochs for t in seen[-1]} == {8}
    assert run_bench(configs, BUDGET, lambda trials: None) is None
    alone = []
    fixed = Budget((0.5,), 8, 2, trials=1)
    assert [c.lr for c in run_bench(configs, fixed, fake_run(alone, risk))] == [0.5] * 3
    assert len(alone) == 1  # one rate: nothing to search


def test_a_search_without_records_is_said(digits):
    posed = pose("complementary", digits)
    config = config_of("forward", "linear", "digits", posed, BUDGET)
    with pytest.raises(ValueError, match="2 of 2 search configurations of forward have no record"):
        best_rate(config, BUDGET.rates, BUDGET, [])


def test_names_of_methods(digits):
    T = tp.complementary(10)
    assert chosen_methods(named_methods("forward, gls:0.3,2,bc"), T) == (["forward", "gls:0.3,2", "bc"], {})
    everything, left_out = chosen_methods(["all", "forward"], T)
    assert len(everything) == len(set(everything)) >= 8
    assert not left_out
    everything, left_out = chosen_methods(["all"], tp.coarse_labels([[0, 1], [2, 3]]))
    assert "forward" in everything
    assert "bc" in left_out
    learner = config_of("adapted", "linear", "digits", pose("complementary", digits), BUDGET)
    assert learner.learned_lr == BUDGET.learned_lr
    assert config_of("bc", "linear", "digits", pose("complementary", digits), BUDGET).learned_lr == 0.0


def test_what_a_problem_says_of_t(digits, tmp_path):
    wrong = pose("symmetric:0.3", digits, told="symmetric:0.1")
    assert (wrong.problem.source, wrong.told.name) == ("wrong", "symmetric_noise(10, 0.1)")
    assert "T wrong" in wrong.about
    estimated = pose("symmetric:0.3", digits, told="symmetric:0.31", source="estimated")
    assert estimated.problem.source == "estimated"
    assert wrong.problem != estimated.problem
    np.save(tmp_path / "true.npy", np.where(np.arange(len(digits.train_labels)) < 144, digits.train_labels, 0))
    said = pose("mine", digits, tmp_path / "true.npy", "complementary").about
    zeros = 100 * (1 - (1 - np.mean(digits.train_labels[144:] == 0)) * (1 - 144 / len(digits.train_labels)))
    assert said.endswith(f"complementary(10), under which {zeros:.1f}% of them are impossible, given the true classes")


def test_a_search_trial_is_longer_than_the_warm_up_where_it_can_be():
    assert [comparing.search_epochs(n) for n in (1, 4, 8, 24, 30, 60)] == [1, 4, 6, 6, 7, 15]


def test_an_estimated_t_is_kept_with_its_records(digits, tmp_path, monkeypatch):
    """Another estimator, or another machine, would make another problem of the same labels."""
    answers = np.stack([tp.symmetric_noise(10, 0.2).sample(digits.train_labels, seed) for seed in range(3)], axis=1)
    np.savez(tmp_path / "mine.npz", labels=answers)
    name, shift = "file:mine.npz:noisy:1:T=estimated", 0.0

    def estimate(*args, **options):
        T = np.full((10, 10), 0.02) + 0.8 * np.eye(10)
        T[0], T[1] = T[0] - shift, T[1] + shift
        return SimpleNamespace(transitions=[tp.Transition(T)])

    monkeypatch.setattr(real_labels, "estimate_annotators", estimate)
    args = ["bench", name, "--labels", tmp_path, "--data", "digits", "--methods", "forward", "--models", "linear",
            "--trials", "1", "--epochs", "1", "--lr", "1", "--out", tmp_path]  # fmt: skip
    first = run_here(*args)
    assert first.exit_code == 0, first.output
    (record,) = records(tmp_path)
    shift = 1e-5
    again = run_here(*args)
    assert records(tmp_path) == [record], again.output
    note = f"T is the one in this problem's records, estimated at revision {record['revision']}; an estimate made now "
    assert f"{note}differs by up to 1e-05" in " ".join(again.output.split())
    assert (
        f"T estimated at revision {record['revision']}; 1 epoch, weight"
        in (tmp_path / "report/leaderboard.md").read_text()
    )
    shift = 1e-15
    posed = pose(name, digits, tmp_path)
    stored, note = as_stored(posed, [*made("forward", [0.5]), record])
    assert (stored.problem.told, note) == (record["config"]["problem"]["told"], "")
    assert as_stored(posed, made("forward", [0.5])) == (posed, "")


# --- one's own loss and labels ----------------------------------------------------------------------

GUIDE = Path(__file__).parents[2] / "docs" / "bench.md"


def test_own_loss_and_own_labels_in_twelve_lines(tmp_path, monkeypatch):
    """The guide's own lines: a Python file, and the commands that use it."""
    monkeypatch.chdir(tmp_path)
    known = dict(METHODS)
    python, shell = re.findall(r"```(?:python|sh) own\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    lines = [line for line in (python + shell).splitlines() if line.strip()]
    assert len(lines) <= 12
    Path("mine.py").write_text(python)
    try:
        for line in shell.replace("\\\n", " ").splitlines():
            if line.startswith("python "):
                exec(compile(Path("mine.py").read_text(), "mine.py", "exec"), {"__name__": "__main__"})
            else:
                done = run_here(*line.split()[1:])
                assert done.exit_code == 0, done.output
    finally:
        METHODS.clear()
        METHODS.update(known)
    page = Path("runs/bench/report/leaderboard.md").read_text()
    assert re.search(r"\| my_loss \| [^|]+ \| clean \|", page)
    assert re.search(r"\| forward log \| [^|]+ \| clean \|", page)
    rows = records(Path("runs/bench"))
    assert {bool(r["config"].get("code")) for r in rows if r["loss"] == "my_loss"} == {True}
    assert {r["config"]["problem"]["source"] for r in rows} == {"given"}


def test_a_changed_loss_is_another_trial(tmp_path, digits):
    known = dict(METHODS)
    try:
        codes = []
        for body in ("scores.sum(-1)", "2 * scores.sum(-1)"):
            (tmp_path / "mine.py").write_text(f"def mine(scores, labels):\n    return {body}\n")
            codes.append(register_own(f"{tmp_path / 'mine.py'}:mine")[1])
        assert codes[0] != codes[1]
        posed = pose("complementary", digits)
        keys = {config_of("mine", "linear", "digits", posed, BUDGET, code).key for code in codes}
        assert len(keys) == 2
        (tmp_path / "theirs.py").write_text("def forward(scores, labels):\n    return scores\n")
        with pytest.raises(ValueError, match="expected a name that is not taken, got 'forward'; rename the function"):
            register_own(f"{tmp_path / 'theirs.py'}:forward")
        with pytest.raises(ValueError, match="expected a function other in"):
            register_own(f"{tmp_path / 'mine.py'}:other")
    finally:
        METHODS.clear()
        METHODS.update(known)


# --- the leaderboard --------------------------------------------------------------------------------


def made(method, accuracies, lr=0.1, problem=None, log_losses=None, learned_lr=0.01, code=""):
    """Records of reported trials with these scores."""
    problem = problem or Problem("complementary", "complementary")
    posed = comparing.Posed(problem, tp.complementary(10), {}, "")
    budget = Budget((lr,), 8, 2, learned_lr=learned_lr)
    config = config_of(method, "linear", "digits", posed, budget, code)
    out = []
    for seed, accuracy in enumerate(accuracies):
        trial = Trial(config, seed)
        scores = {
            "accuracy": accuracy,
            "log_loss": (log_losses or [1 - a for a in accuracies])[seed],
            "brier": 0.5,
            "ece": 0.1,
        }
        part = {"epoch": 3, "raw": scores, "by_weak": {"method": "temperature", **scores}}
        out.append({
            "id": trial.id, "config_key": config.key, "seed": seed, "dataset": "digits", "model": "linear",
            "loss": method, "lr": lr, "config": config.as_dict(), "software": "torch", "machine": "m", "revision": "r",
            "selections": {"clean": part, "weak": part},
        })  # fmt: skip
    return out


def board(records, verdicts=None, rules=RULES):
    return leaderboard.leaderboard(leaderboard.judge(records, verdicts or leaderboard.Verdicts()), rules)


def test_the_picture_shows_every_method_that_has_its_scores():
    records = made("forward", [0.5, 0.6]) + made("nn", [0.7, 0.8]) + made("op", [0.7, 0.8], log_losses=[1.0, None])
    (judged,) = leaderboard.judge(records, leaderboard.Verdicts())
    shown = judged.standings("weak")
    assert [(s.name, s.certified) for s in shown] == [("forward log", True), ("BC + NN", False)]
    assert shown[0].accuracy == pytest.approx((0.55, 0.05))
    figure = figures.standings({judged.title: shown}, "weak")
    left, right = figure.axes
    assert [t.get_text() for t in left.get_yticklabels()] == ["forward log", "BC + NN"]
    assert right.get_xscale() == "log"


def test_a_proper_bounded_leader_is_said_and_so_is_one_that_is_not():
    records = [*made("forward", [0.70, 0.72]), *made("nn", [0.60, 0.62])]
    (table,) = board(records)
    assert "forward log, a proper bounded loss, leads by every score, 4 times of 4 clearly: 71.00 ± 1.00" in table.note
    records = [*made("forward", [0.70, 0.72]), *made("nn", [0.80, 0.80], log_losses=[0.9, 0.9])]
    (table,) = board(records)
    assert (
        "By accuracy, epoch chosen by weak labels, BC + NN leads (80.00 ± 0.00), "
        "which is not certified proper and bounded; "
        "the best that is, forward log, is 9.00 ± 1.00 behind, which is within the scatter of trials." in table.note
    )
    assert "By calibrated log loss, epoch chosen by weak labels, forward log leads (0.290 ± 0.010)" in table.note
    assert [row[0] for row in table.rows] == ["BC + NN", "", "forward log", ""]
    assert table.rows[0][3] == "80.00 ± 0.00"
    assert table.rows[2][-1] == "proper, bounded (exact)"


def test_blocks_are_problems_and_a_trial_that_diverged_has_no_mean():
    other = Problem("symmetric:0.3", "symmetric:0.3")
    broken = made("bc", [0.1, 0.1])
    broken[1]["selections"] = {r: {"epoch": 1, "raw": {"accuracy": 0.1, "log_loss": None}} for r in ("clean", "weak")}
    records = [*made("forward", [0.7, 0.7]), *broken, *made("forward", [0.9, 0.9], problem=other)]
    summary, proper, first, second = board(records, rules=["weak"])
    assert [row[:2] for row in summary.rows] == [[first.title, "the kind of label"], ["", ""]]  # then one is alone
    assert "leads" not in second.note
    assert "Of 1 such comparisons" in summary.note
    assert "is ahead in 1, behind in 0, level in 0" in summary.note
    assert summary.rows[0][2:] == [
        "accuracy",
        "forward log, 70.00 ± 0.00",
        "BC, 10.00 ± 0.00",
        "+60.00 ± 0.00",
        "ahead",
    ]
    assert summary.rows[1][4:] == ["-", "-", ""]
    assert [row[-1] for row in proper.rows] == ["1 of 2", "1 of 1"]
    assert (first.title, second.title) == ("complementary: digits, linear", "symmetric:0.3: digits, linear")
    assert [row[2] for row in first.rows] == ["weak", "weak"]
    assert first.rows[1][3:6] == ["10.00 ± 0.00", "-", "-"]


@pytest.mark.parametrize(
    ("theirs", "verdict", "difference"),
    [
        ([0.60, 0.64, 0.62], "ahead", "+10.00 ± 0.00"),  # seed by seed the same difference, whatever seeds scatter
        ([0.80, 0.84, 0.82], "behind", "-10.00 ± 0.00"),
        ([0.62, 0.62, 0.62], "ahead", "+10.00 ± 1.15"),
        ([0.82, 0.82, 0.82], "level", "-10.00 ± 1.15"),  # of eight methods, with three trials each
    ],
)
def test_a_lead_is_what_seeds_have_in_common_and_no_luck(theirs, verdict, difference):
    losers = [made(name, [0.1, 0.1, 0.1]) for name in ("bc", "ga", "op", "pc", "l_w", "scl_exp", "mcl_mae", "mcl_exp")]
    records = [*made("forward", [0.70, 0.74, 0.72]), *made("nn", theirs), *(r for rows in losers for r in rows)]
    other = made("forward", [0.9, 0.9], problem=Problem("symmetric:0.3", "symmetric:0.3"))
    summary, *_ = board([*records, *other], rules=["weak"])
    assert summary.rows[0][-2:] == [difference, verdict]


def test_of_several_rates_the_one_that_the_search_has_chosen_is_shown():
    slow, fast = made("forward", [0.5, 0.6], lr=0.1), made("forward", [0.7, 0.8], lr=0.3)
    searches = []
    for rows, risk in ((slow, 2.1), (fast, 2.0)):
        searches.append({**rows[0], "seed": SEARCH_SEED, "weak": [9.0, risk]})
    other = made("nn", [0.3, 0.3])
    (table,) = board([*slow, *fast, *searches, *other])
    assert [row[3] for row in table.rows if row[0] == "forward log"] == ["75.00 ± 5.00"]
    searches[0]["weak"] = [9.0, 1.0]
    (table,) = board([*slow, *fast, *searches, *other])
    assert [row[3] for row in table.rows if row[0] == "forward log"] == ["55.00 ± 5.00"]
    searches[0]["weak"] = [None, None]  # it left the numbers
    (table,) = board([*fast, *searches[:1], *other])
    assert [row[3] for row in table.rows if row[0] == "forward log"] == ["75.00 ± 5.00"]  # the only one there is


def test_blocks_of_one_name_are_told_apart():
    a, b = (Problem("x", "symmetric:0.3", told=f"symmetric:{p}", source="wrong") for p in (0.1, 0.2))
    records = [*made("forward", [0.5, 0.6], problem=a), *made("forward", [0.5, 0.6], problem=b)]
    *_, first, second = board(records)
    assert first.title != second.title


def test_methods_of_one_title_are_told_apart():
    records = made("adapted", [0.5, 0.6]) + made("adapted", [0.6, 0.7], learned_lr=0.1) + made("forward", [0.4, 0.5])
    (table,) = board(records)
    assert [row[0] for row in table.rows if row[0]] == [
        "forward, T learned (T learned at rate 0.1)",
        "forward, T learned (T learned at rate 0.01)",
        "forward log",
    ]
    assert "forward, T learned (T learned at rate 0.1) leads" in table.note


def test_a_loss_whose_code_is_elsewhere_is_said_to_be_undecided():
    def mine(scores, labels):
        return scores.square().sum(-1)

    known = dict(METHODS)
    try:
        register(from_function(mine))
        records = made("mine", [0.5, 0.6], code="a" * 64) + made("mine", [0.6, 0.7], code="b" * 64)
    finally:
        METHODS.clear()
        METHODS.update(known)
    (table,) = board(records, leaderboard.Verdicts(decide=True))
    assert [row[0] for row in table.rows if row[0]] == ["mine (code bbbbbb)", "mine (code aaaaaa)"]
    assert table.note.endswith(
        "Records do not hold the code of a user's own loss (mine (code bbbbbb), mine (code aaaaaa)), so "
        "`report --certify` cannot decide it; in Python, `tproper_lab.from_function(loss).card(T)` does."
    )


def test_kept_certificates_that_are_something_else_are_said(tmp_path):
    (tmp_path / "certificates.json").write_text("[1")
    with pytest.raises(ValueError, match="expected kept certificates, got something else; remove it"):
        leaderboard.Verdicts(tmp_path / "certificates.json")


@pytest.mark.kept
def test_the_documentation_shows_what_the_records_say(tmp_path):
    """`tproper report lab/results --certify --leaderboard docs/leaderboard.md` makes the page again."""
    results = GUIDE.parents[1] / "lab" / "results"
    write_leaderboard_alone(results, tmp_path / "leaderboard.md")
    text = (tmp_path / "leaderboard.md").read_text()
    assert (GUIDE.parent / "leaderboard.md").read_text() == text
    assert "not decided here" not in text


def test_slow_certificates_are_made_on_request_and_kept(tmp_path, monkeypatch):
    calls = []
    card = leaderboard.Card("scl_exp", "SCL-EXP", "r", "T", False, True, "numerical", "not proper")
    monkeypatch.setattr(Method, "card", lambda self, T: calls.append(self.name) or card)
    records = made("scl_exp", [0.7, 0.8])
    kept = tmp_path / "certificates.json"

    def verdict(decide):
        (table,) = board(records, leaderboard.Verdicts(kept, decide))
        return table.rows[0][-1]

    assert verdict(False) == "not decided here"
    assert verdict(True) == "not proper, bounded (numerical)"
    assert verdict(False) == "not proper, bounded (numerical)"
    assert calls == ["scl_exp"]
    assert len(json.loads(kept.read_text())) == 1


def test_the_leaderboard_alone(undisturbed, tmp_path):
    done = run_here("report", undisturbed, "--leaderboard", tmp_path / "board.md", "--select", "weak")
    assert done.exit_code == 0, done.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["board.md", "board.png"]
    text = (tmp_path / "board.md").read_text()
    assert "![board](board.png)" in text
    (tmp_path / "mine.png").write_text("mine")
    taken = run_here("report", undisturbed, "--leaderboard", tmp_path / "mine.md")
    assert (taken.exit_code, (tmp_path / "mine.png").read_text()) == (2, "mine")
    assert "mine.png: expected no file before the leaderboard beside it" in taken.output
    assert text.startswith("# Leaderboard\n")
    assert "| clean |" not in text
    both = run_here("report", undisturbed, "--leaderboard", tmp_path / "board.md", "--out", tmp_path)
    assert both.exit_code == 2
    assert "--leaderboard: expected it or --out, got both" in both.output


def test_a_leaderboard_does_not_replace_another_file(undisturbed, tmp_path):
    (tmp_path / "leaderboard.md").write_text("mine\n")
    with pytest.raises(ValueError, match="expected an older report, got another file"):
        write_report(undisturbed, tmp_path)


def test_published_labels_are_posed_with_their_t(digits, tmp_path):
    rng = np.random.default_rng(0)
    z = digits.train_labels
    labels = np.where(rng.random(len(z)) < 0.2, rng.integers(0, 10, len(z)), z)
    np.savez(tmp_path / "mine.npz", labels=labels)
    posed = pose("file:mine.npz:noisy", digits, labels=tmp_path)
    assert posed.problem.source == "given"
    assert np.array_equal(posed.given[posed.problem.digest], labels)
    with pytest.raises(ValueError, match="without a T or groups of its own"):
        pose("file:mine.npz:noisy", digits, labels=tmp_path, told="pair:0.1")


def test_a_worker_gets_labels_and_losses_that_only_the_user_has(digits, tmp_path):
    """What Ray sends to workers is enough to run a user's own problem, and gives the records of a local run."""
    known = dict(METHODS)
    (tmp_path / "mine.py").write_text("def mine(scores, labels):\n    return scores.square().mean(-1)\n")
    np.save(tmp_path / "labels.npy", digits.train_labels)
    place = f"{tmp_path / 'mine.py'}:mine"
    try:
        _, code = register_own(place)
        posed = pose("mine", digits, tmp_path / "labels.npy", "identity")
        budget = Budget((0.1,), 2, 1, trials=1)
        trials = [
            Trial(config_of(name, "linear", "digits", posed, budget, c), 0) for name, c in (("mine", code), ("ce", ""))
        ]
        METHODS.pop("mine")
        work = pickle.loads(pickle.dumps(LabWork(device="cpu", given=posed.given, own=(place,))))
        rows = work(trials)
    finally:
        METHODS.clear()
        METHODS.update(known)
    assert sorted(r["id"] for r in rows) == sorted(t.id for t in trials)
    store = Store(tmp_path / "run")
    Runner(digits, Pixels(digits, torch.device("cpu")), store, 2, given=posed.given).run(trials[1:], Stop())
    same([r for r in rows if r["loss"] == "ce"], store.records())
    store.close()


def test_own_losses_that_cannot_be_run_are_refused_in_a_sentence(tmp_path):
    broken, first, second = tmp_path / "broken.py", tmp_path / "first.py", tmp_path / "second.py"
    broken.write_text("def mine(scores, labels)\n    return 0\n")
    for path in (first, second):
        path.write_text("def mine(scores, labels):\n    return scores.square().mean((1, 2))\n")
    files = [f"--method-file={path}:mine" for path in (first, second)]
    for arguments, message in (
        ([f"--method-file={broken}:mine"], "broken.py cannot be run: SyntaxError"),
        (files, "expected functions of different names, got mine, mine"),
        (["--transition-is", "estimated"], "--transition-is: expected it beside --transition, got it alone"),
    ):
        done = run_here("bench", *SMALL, *arguments, "--out", tmp_path / "run")
        assert done.exit_code == 2
        assert message in done.output
        assert not (tmp_path / "run").exists()
