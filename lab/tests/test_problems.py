"""Any weak label in the lab: drawn or given, T known or not, by any method, chosen by clean and by weak labels."""

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from blobs import blobs
from test_engine import CPU, advance

import tproper as tp
from tproper.solvers import calibrated_risks
from tproper_lab import methods, problems, runner
from tproper_lab.choosing import WeakRisk, compare
from tproper_lab.engine import Pixels, Stack
from tproper_lab.objectives import KERNEL, StackObjective, kernel_settings
from tproper_lab.problems import Problem, _check_told, drawn_problem, given_problem, labels_digest, read_labels, resolve
from tproper_lab.protocol import Protocol, Trial, TrialConfig
from tproper_lab.records import check_record
from tproper_lab.runner import Runner, Stop
from tproper_lab.stacking import stacked
from tproper_lab.store import Store

PROTOCOL = Protocol(batch_size=50, max_epochs=4, schedule="cosine")
SPECS = ["complementary", "symmetric:0.3", "pair:0.3", "partial:0.3", "multi_complementary:2", "pu:0.5"]


def bench_trial(method, problem, seed=0, lr=0.1, protocol=PROTOCOL, **more):
    return Trial(TrialConfig("digits", "mlp", method, lr, protocol=protocol, problem=problem, **more), seed)


def make_stack(data, trials, given=None):
    task = resolve(trials[0].config.problem, data, given)
    model = stacked("mlp", task.data.shape, task.data.num_classes, CPU)
    stack = Stack(task.data, Pixels(data, CPU), model, PROTOCOL, len(trials), task)
    for slot, t in enumerate(trials):
        stack.put(slot, t)
    return stack


def drawn(spec, data):
    return drawn_problem(spec, data, merged="0+1|2+3" if spec == "pu:0.5" else "")


# --- problems ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS)
def test_labels_are_drawn_from_the_seed_and_follow_t(spec, small_data):
    data = replace(small_data, train_labels=np.arange(600) % 4)
    task = resolve(drawn(spec, data), data)
    labels = task.weak_labels(3)
    assert np.array_equal(labels, task.weak_labels(3))
    assert not np.array_equal(labels, task.weak_labels(4))
    rows = np.asarray(task.told.row_index(task.told.encode(labels)))
    counts = np.zeros((task.told.num_weak_labels, task.data.num_classes))
    np.add.at(counts, (rows, task.data.train_labels), 1)
    T = task.told.matrix()
    n = counts.sum(axis=0)
    assert (np.abs(counts / n - T) < 5 * np.sqrt(T * (1 - T) / n) + 1e-12).all()


def test_two_classes_come_from_merging(small_data):
    with pytest.raises(ValueError, match="merged: expected two groups of the 4 classes of digits, got none"):
        drawn_problem("pu:0.5", small_data)
    ten = drawn_problem("pu:0.5", replace(small_data, num_classes=10))
    assert ten.merged == problems.TWO_CLASSES["digits"]
    task = resolve(drawn_problem("pu:0.5", small_data, merged="0+3|1+2"), small_data)
    assert task.data.num_classes == 2
    assert np.array_equal(task.data.test_labels == 0, np.isin(small_data.test_labels, (0, 3)))


@pytest.mark.parametrize(
    "problem",
    [
        Problem("complementary", "complementary"),
        Problem("a", "symmetric:0.3", told="symmetric:0.1", source="wrong"),
        Problem("b", digest="ab", told='{"family": "matrix"}', source="estimated", merged="0+1|2+3"),
    ],
)
def test_a_problem_is_part_of_the_key_and_survives_json(problem):
    config = TrialConfig("digits", "mlp", "forward", 0.1, problem=problem, learned_lr=0.01, code="c0de")
    assert TrialConfig.from_dict(json.loads(json.dumps(config.as_dict()))) == config
    others = [replace(config, problem=None, loss="forward"), replace(config, learned_lr=0.0), replace(config, code="")]
    assert config.key not in {c.key for c in others}
    plain = TrialConfig("digits", "mlp", "forward", 0.1)
    assert set(plain.as_dict()) == {
        "dataset", "model", "loss", "lr", "weight_decay", "k", "alpha", "protocol",
    }  # fmt: skip


def test_wrong_problems_are_refused(small_data):
    for fields, sentence in [
        ({"name": "x"}, "either a T to draw labels from or the digest"),
        ({"name": "x", "digest": "ab"}, "expected the T that given labels are taken to follow"),
        ({"name": "x", "labels": "pair:0.1", "source": "guessed"}, "expected source to be one of known, wrong, given"),
        (
            {"name": "x", "labels": "pair:0.1", "source": "wrong"},
            "expected a T for the methods unless its source is 'known', got source 'wrong' without one",
        ),
    ]:
        with pytest.raises(ValueError, match=sentence):
            Problem(**fields)
    with pytest.raises(ValueError, match=r"one row for each of the 600 training images of digits, got 7 rows"):
        given_problem("x", np.zeros(7, dtype=int), "pair:0.1", small_data)
    with pytest.raises(ValueError, match=r"labels: expected the file of the problem x \(SHA-256 ab\)"):
        resolve(Problem("x", digest="ab", told="pair:0.1", source="given"), small_data)
    with pytest.raises(ValueError, match=r"expected labels in \[0, 4\)|expected .* got 9"):
        given_problem("x", np.full(600, 9), "pair:0.1", small_data)
    wrong = Problem("x", "pair:0.1", told="partial:0.3", source="wrong")
    with pytest.raises(ValueError, match="expected a T with labels like those of pair_noise"):
        resolve(wrong, small_data)


@pytest.mark.parametrize("spec", ["pair:0.2", "partial:0.3"])
@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_labels_from_a_file(spec, suffix, small_data, tmp_path):
    T = problems.make_transition(spec, 4)
    labels = T.sample(small_data.train_labels, seed=1)
    path = tmp_path / f"labels.{suffix}"
    if suffix == "npy":
        np.save(path, labels)
    else:
        np.savetxt(path, labels.astype(int), fmt="%d", delimiter=",")
    problem = given_problem("mine", read_labels(path), spec, small_data)
    assert problem.digest == labels_digest(labels)
    task = resolve(problem, small_data, {problem.digest: read_labels(path)})
    assert np.array_equal(task.weak_labels(0), labels)
    assert np.array_equal(task.weak_labels(1), labels)
    with pytest.raises(ValueError, match=r"labels: expected a \.npy or \.csv file, got labels.pkl"):
        read_labels("labels.pkl")


def test_an_estimated_t_is_told_as_its_matrix(small_data):
    T = tp.Transition.from_counts(np.eye(4) * 50 + 3)
    problem = given_problem("mine", small_data.train_labels, T, small_data, source="estimated")
    told = resolve(problem, small_data, {problem.digest: small_data.train_labels}).told
    assert np.array_equal(told.matrix(), T.matrix())
    assert "concentration" not in problem.told


# --- choosing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [*SPECS[:5], "annotators"])
def test_the_stacked_weak_risk_is_that_of_learn(spec):
    rng = np.random.default_rng(0)
    K, n = 4, 300
    T = tp.annotators([tp.symmetric_noise(K, 0.3), tp.pair_noise(K, 0.4)]) if spec == "annotators" else None
    T = problems.make_transition(spec, K) if T is None else T
    z = rng.integers(0, K, (3, n))
    scores = rng.normal(0, 1, (3, n, K)) + 2 * np.eye(K)[z]
    scores *= np.array([0.3, 1.0, 6.0])[:, None, None]  # too careful, right, too sure
    labels = torch.stack([T.encode(T.sample(classes, seed=1)) for classes in z])
    found = WeakRisk(T, CPU).calibrated(torch.tensor(scores, dtype=torch.float32), labels)
    for s in range(3):
        risks, _ = calibrated_risks(scores[s].astype(np.float32).astype(np.float64), labels[s], T)
        assert found[s].mean().item() == pytest.approx(risks.mean(), abs=2e-6)


def test_a_trial_that_left_the_numbers_has_no_weak_risk():
    T = tp.complementary(3)
    scores = torch.zeros(2, 5, 3)
    scores[0, 2] = torch.nan
    found = WeakRisk(T, CPU).calibrated(scores, torch.zeros(2, 5, dtype=torch.int64))
    assert torch.isnan(found[0]).any()
    assert torch.isfinite(found[1]).all()
    risk, keeps, least = compare(found, torch.full((2, 5), torch.inf, dtype=torch.float64))
    assert keeps.tolist() == [False, True]
    assert torch.isinf(least[0]).all()
    assert torch.isnan(risk[0])


# --- methods in a stack -----------------------------------------------------------------------------


class Learner(methods.Softmax):
    """Forward correction with a T that is learned: its columns are softmax of logits."""

    def __init__(self, transition):
        self.size = transition.num_weak_labels, transition.num_classes

    def start(self, trials, device):
        return torch.eye(*self.size, device=device).expand(trials, *self.size).clone()

    def __call__(self, scores, labels, learned):
        weak = torch.softmax(scores, -1) @ torch.softmax(learned, 1).transpose(1, 2)
        return -weak.gather(2, labels[..., None])[..., 0].log().mean(1)


def cross_entropy(scores, labels):
    return -torch.log_softmax(scores, -1).gather(2, labels[..., None])[..., 0]


@pytest.fixture
def own_methods(monkeypatch):
    known = dict(methods.METHODS)
    monkeypatch.setattr(methods, "METHODS", known)
    learner = methods.Method("learner", "learner", "test", frozenset(methods.SETTINGS), Learner, words="a test")
    methods.register(learner)
    methods.register(
        methods.from_function(lambda v, y: -torch.log_softmax(v, -1).gather(2, y[..., None])[..., 0], "own_ce")
    )


def test_which_losses_the_stacked_kernel_computes():
    T = tp.symmetric_noise(4, 0.3)
    settings = {
        name: kernel_settings(methods.find_method(name).build(T)) for name in ("forward", "bc", "ga", "gls:0.3,1.5")
    }
    assert settings == {"bc": (0, 0, 2), "ga": (1, 0, 2), "gls:0.3,1.5": (2, 0.3, 1.5), "forward": (3, 0, 2)}
    for name in ("forward:brier", "backward_brier", "nn"):
        assert kernel_settings(methods.find_method(name).build(T)) is None
    assert kernel_settings(methods.find_method("forward").build(tp.partial_labels(4, 0.3))) is None


@pytest.mark.parametrize("spec", SPECS)
def test_methods_of_the_library_in_a_stack_are_the_core_losses(spec, small_data):
    problem = drawn(spec, small_data)
    names = ["forward", "bc", "gls:0.3,2", "ga", "nn", "backward_brier", "forward:brier"]
    stack = make_stack(small_data, [bench_trial(name, problem, seed) for seed, name in enumerate(names)])
    T, K = stack.task.told, stack.task.data.num_classes
    scores = 2 * torch.randn(len(names), 40, K, generator=torch.Generator().manual_seed(0))
    labels = stack.weak[:, :40]
    risk, slope, _ = stack.objective.with_gradient(scores, labels)
    for s, name in enumerate(names):
        alone = scores[s].double().requires_grad_()
        expected = methods.find_method(name).build(T).core(alone, labels[s])
        (gradient,) = torch.autograd.grad(expected, alone)
        assert risk[s].item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-5), name
        assert torch.allclose(slope[s].double(), gradient, rtol=1e-3, atol=1e-5), name


@pytest.mark.parametrize("spec", ["complementary", "partial:0.3"])
def test_a_method_in_a_mixed_stack_gives_what_it_gives_alone(spec, small_data, own_methods):
    problem = drawn_problem(spec, small_data)
    names = ["forward", "backward_brier", "nn", "bc", "forward:brier"]
    names += ["learner", "own_ce"] if spec == "complementary" else []
    trials = [bench_trial(name, problem, seed, learned_lr=0.5 * (name == "learner")) for seed, name in enumerate(names)]
    together = make_stack(small_data, trials)
    advance(together, 2)
    for slot, trial in enumerate(trials):
        alone = make_stack(small_data, [trial])
        advance(alone, 2)
        assert torch.allclose(together.flat[slot], alone.flat[0], rtol=1e-4, atol=1e-5), trial.config.loss
        for name, t in alone.objective.state(0).items():
            assert torch.allclose(together.objective.state(slot)[name], t, rtol=1e-4, atol=1e-5), name
    picked = together.select([len(names) - 1, 0])
    expected = together.train_epoch()[[len(names) - 1, 0]]
    assert torch.allclose(picked.train_epoch(), expected, rtol=1e-5)


def test_a_learned_t_is_stepped_by_its_own_rate(small_data, own_methods):
    problem = drawn_problem("pair:0.3", small_data)
    trials = [bench_trial("learner", problem, 0, learned_lr=rate) for rate in (0.0, 0.5)]
    stack = make_stack(small_data, trials)
    advance(stack, 2)
    still, moved = (stack.objective.learned["learner"][slot] for slot in range(2))
    assert torch.equal(still, torch.eye(4))
    assert not torch.allclose(moved, torch.eye(4))


def test_a_slot_may_change_its_method(small_data, own_methods):
    problem = drawn_problem("complementary", small_data)
    stack = make_stack(small_data, [bench_trial("forward", problem, 0), bench_trial("nn", problem, 1)])
    advance(stack, 1)
    stack.put(0, bench_trial("learner", problem, 2, learned_lr=0.1))
    assert stack.objective.methods == ["learner", "nn"]
    stack.put(0, bench_trial("bc", problem, 3))
    assert stack.objective.methods == [KERNEL, "nn"]
    advance(stack, 1)
    alone = make_stack(small_data, [bench_trial("bc", problem, 3)])
    advance(alone, 1)
    assert torch.allclose(stack.flat[0], alone.flat[0], rtol=1e-5, atol=1e-6)


# --- whole trials -----------------------------------------------------------------------------------


def same(found, expected):
    """Equal but for rounding: a stack of another size sums in another order."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected.keys() - {"seconds", "finished_at"}:
            same(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    else:
        assert found == (pytest.approx(expected, rel=1e-3) if isinstance(expected, float) else expected)


@pytest.fixture(scope="module")
def plain_data():
    return blobs(n=1200)


def trials_of(problem, **more):
    return [bench_trial(name, problem, seed, **more) for seed, name in enumerate(("forward", "nn"))]


@pytest.mark.parametrize("spec", ["complementary", "partial:0.3"])
def test_records_have_both_selections_and_a_stopped_run_goes_on(spec, plain_data, tmp_path, own_methods):
    problem = drawn_problem(spec, plain_data)
    which = [*trials_of(problem), *([bench_trial("learner", problem, 0, learned_lr=0.3)] if spec[0] == "c" else [])]
    pixels, whole, parts = Pixels(plain_data, CPU), Store(tmp_path / "a"), Store(tmp_path / "b")
    soft = np.eye(4)[plain_data.test_labels]
    assert Runner(plain_data, pixels, whole, 3, soft=soft).run(which, Stop())
    for _ in range(12):
        if Runner(plain_data, pixels, parts, 3, soft=soft).run(which, Stop(0)):
            break
    same(parts.records(), whole.records())
    assert len(whole.records()) == len(which)
    for row in whole.records():
        assert check_record(row, "here") == row
        clean, weak = (row["selections"][rule] for rule in ("clean", "weak"))
        assert clean["epoch"] == row["best_epoch"]
        assert clean["raw"]["accuracy"] == pytest.approx(row["accuracy"])
        assert weak["weak_risk"] == min(row["weak"])
        assert len(row["weak"]) == row["epochs"] == 4
        for chosen in (clean, weak):
            assert chosen["by_clean"]["method"] == "temperature"
            assert chosen["by_weak"]["method"] in ("identity", "temperature", "bias", "vector", "matrix")
            for part in ("raw", "by_weak", "by_clean"):
                assert chosen[part]["soft_log_loss"] == pytest.approx(chosen[part]["log_loss"], rel=1e-4)
    whole.close()
    parts.close()


def test_records_made_by_other_processes_are_the_same(plain_data, tmp_path, monkeypatch):
    """As beside a GPU, where a trial ends before the calibration of the one before has."""
    which = trials_of(drawn_problem("partial:0.3", plain_data))
    pixels, here, there = Pixels(plain_data, CPU), Store(tmp_path / "a"), Store(tmp_path / "b")
    Runner(plain_data, pixels, here, 2).run(which, Stop())
    monkeypatch.setattr(runner.os, "cpu_count", lambda: 3)
    made = []
    original = runner.makers
    monkeypatch.setattr(runner, "makers", lambda device: made.append(original(torch.device("cuda"))) or made[0])
    Runner(plain_data, pixels, there, 2).run(which, Stop())
    assert isinstance(made[0], ProcessPoolExecutor)
    same(there.records(), here.records())
    here.close()
    there.close()


def test_a_search_trial_is_not_calibrated(plain_data, tmp_path):
    store = Store(tmp_path)
    trial = bench_trial("forward", drawn_problem("complementary", plain_data), 1000)
    Runner(plain_data, Pixels(plain_data, CPU), store).run([trial], Stop())
    (row,) = store.records()
    assert set(row["selections"]["weak"]) == {"epoch", "valid_accuracy", "weak_risk", "raw"}
    store.close()


def test_a_trial_that_diverges_is_recorded_as_such(plain_data, tmp_path):
    store = Store(tmp_path)
    trial = bench_trial("bc", drawn_problem("complementary", plain_data), 0, lr=1e30)
    Runner(plain_data, Pixels(plain_data, CPU), store).run([trial], Stop())
    (row,) = store.records()
    assert row["weak"][-1] is None
    assert row["selections"]["weak"]["raw"]["log_loss"] is None or row["selections"]["weak"]["epoch"] == 1
    store.close()


def test_the_cosine_falls_and_counts_no_plateaus():
    from tproper_lab.protocol import Progress

    progress, factors = Progress(), []
    while not progress.finished(PROTOCOL):
        factors.append(progress.lr_factor(PROTOCOL))
        progress.record(PROTOCOL, 1.0, 0.5)
    assert progress.epoch == 4
    assert factors == pytest.approx([(1 + np.cos(np.pi * e / 4)) / 2 for e in range(4)])
    long = replace(PROTOCOL, max_epochs=100)
    progress = Progress()
    for _ in range(99):
        progress.record(long, 1.0, 0.5)
    assert (progress.reductions, progress.finished(long)) == (0, False)


def test_the_weak_rule_keeps_the_last_epoch_within_one_standard_error_of_the_least():
    from tproper_lab.protocol import Progress

    rng, n = np.random.default_rng(0), 400
    means = [np.nan, 2.0, 3.0, np.inf, 1.0, 1.0, 1.004, 1.02, 0.999, 1.2]
    noise = rng.normal(0, 0.1, (len(means), n))  # a standard error of .1 * sqrt(2 / n) = .007 of a difference
    rows = np.array(means)[:, None] + noise - noise.mean(axis=1, keepdims=True)
    progress, least = Progress(), torch.full((1, n), torch.inf, dtype=torch.float64)
    kept = []
    for epoch in rows:
        risk, keeps, least = compare(torch.tensor(epoch[None]), least)
        kept.append(progress.record_weak(risk.item(), keeps.item()))
    assert kept == [True, True, False, False, True, True, True, False, True, False]
    assert progress.weak_epoch == 9
    # the rule, from its words
    finite = rows[1:]
    best = np.nanargmin(finite.mean(axis=1))
    excess = finite - finite[best]
    within = excess.mean(axis=1) <= excess.std(axis=1) / np.sqrt(n)
    assert progress.weak_epoch == 2 + np.flatnonzero(within)[-1]


def test_an_objective_without_reconstruction_still_trains_forward():
    T = tp.coarse_labels([[0, 1], [2, 3]])
    objective = StackObjective(T, 1, CPU)
    problem = Problem("coarse", "coarse:0+1|2+3")
    objective.assign(0, TrialConfig("digits", "mlp", "forward", 0.1, problem=problem))
    risk, slope, _ = objective.with_gradient(torch.randn(1, 5, 4), torch.zeros(1, 5, dtype=torch.int64))
    assert torch.isfinite(risk).all()
    assert torch.isfinite(slope).all()


def test_a_told_t_with_fewer_labels_is_refused():
    with pytest.raises(tp.InputError, match="label 2 is impossible"):
        _check_told(tp.identity(3), tp.coarse_labels([[0, 1], [2]]))
    _check_told(tp.coarse_labels([[0, 1], [2]]), tp.identity(3))  # every label that is drawn is possible
