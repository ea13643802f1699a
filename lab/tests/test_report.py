"""Tables beside the paper's, figures as files, one page; and what the committed records say."""

import errno
import functools
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from markdown_it import MarkdownIt

from tproper import plots
from tproper.plots import loss_at
from tproper_lab import figures, pages, paper, report, sweep
from tproper_lab.datasets import read_digits
from tproper_lab.methods import find_method
from tproper_lab.problems import text_transition
from tproper_lab.protocol import Protocol, Trial, TrialConfig
from tproper_lab.record_files import export_records, read_records
from tproper_lab.records import kernels_of
from tproper_lab.results import FLOOR, probabilities

RESULTS = Path(__file__).parents[1] / "results"


def record(config: TrialConfig, seed: int, accuracy: float, **changes) -> dict:
    trial = Trial(config, seed)
    names = ("dataset", "model", "loss", "lr", "weight_decay", "k", "alpha")
    return {
        "id": trial.id, "config_key": config.key, "seed": seed,
        **{name: getattr(config, name) for name in names},
        "epochs": 40, "best_epoch": 10 + seed % 10, "valid_accuracy": accuracy, "accuracy": accuracy,
        "log_loss": 0.5, "brier": 0.2, "ece": 0.1, "zeros": 0, "softmax_log_loss": 0.6,
        "softmax_brier": 0.3, "softmax_ece": 0.2, "seconds": 1.0, "machine": "a machine",
        "software": "torch", "revision": "r", "finished_at": "2021-07-18", "config": config.as_dict(),
        "risk": [2.0, 1.0, None], "valid": [0.5, 0.6, 0.6],
    } | changes  # fmt: skip


@pytest.fixture
def records_file(tmp_path):
    configs = dict.fromkeys(paper.chosen(m, "mlp") for m in paper.METHODS)
    rows = [record(config, s, 0.8 + s / 100) for config in configs for s in range(3)]
    gls = paper.chosen("gls", "mlp")
    rows += [record(TrialConfig(**{**gls.__dict__, "k": k}), 0, 0.7) for k in (0.1, 10.0)]
    rows += [record(TrialConfig(**{**gls.__dict__, "alpha": a}), 0, 0.7) for a in (0.5, 1.5)]
    path = tmp_path / "records.jsonl"
    export_records(rows, path)
    return path


def test_report_writes_tables_figures_and_one_page(records_file, tmp_path):
    written = report.write_report(records_file, tmp_path / "out")
    names = {p.name for p in written}
    for stem in ("figure2_mnist_mlp", "figure3_mnist_mlp", "risk_mnist_mlp"):
        assert {f"{stem}.png", f"{stem}.svg"} <= names
    text = (tmp_path / "out/report.md").read_text()
    assert "| BC + gLS | 81.00 ± 1.00 | 3 | 88.63 ± 0.38 | -7.63 |" in text
    assert "a machine with torch; code at revision r" in text
    by_k, by_alpha = (text.split(f"## MNIST, MLP: gLS by {what}")[1] for what in ("coefficient", "exponent"))
    assert by_k.index("| 0.1 | 70.00 | 1 |") < by_k.index("| 1 | 81.00 ± 1.00 | 3 |") < by_k.index("| 10 | 70.00 | 1 |")
    assert "| 1.5 | 70.00 | 1 |" in by_alpha
    page = (tmp_path / "out/index.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert not re.search(r"(src|href)=['\"](?!data:|#)", page)  # nothing is fetched from elsewhere
    svg = (tmp_path / "out/figure2_mnist_mlp.svg").read_bytes()
    report.write_report(records_file, tmp_path / "again")
    assert (tmp_path / "again/figure2_mnist_mlp.svg").read_bytes() == svg


@pytest.mark.parametrize("values", [(0.3,), (0.3, 1.0)])
def test_a_part_of_a_figures_grid_is_shown(values, tmp_path):
    gls = paper.chosen("gls", "mlp")
    rows = [record(paper.chosen("bc_tuned", "mlp"), 0, 0.8)] + [record(replace(gls, k=k), 0, 0.7) for k in values]
    found = table(rows, tmp_path, "MNIST, MLP: gLS by coefficient (alpha = 2)")
    assert found["0.3"] == ["70.00", "1"]
    assert (tmp_path / "out/figure2_mnist_mlp.png").exists()
    assert not (tmp_path / "out/figure3_mnist_mlp.png").exists()  # nothing but the paper's choice, which has a row


def test_a_row_with_the_settings_of_another_says_so(tmp_path):
    found = table([record(paper.chosen("gls", "mlp"), 0, 0.8)], tmp_path, "Table 2")
    assert found[paper.METHODS["gls_released"][1]] == ["as BC + gLS"]
    assert found[paper.METHODS["forward"][1]] == ["-"]
    found = table([record(paper.chosen("bc", "mlp"), 0, 0.8)], tmp_path, "Table 2")
    assert found[paper.METHODS["gls_released"][1]] == ["-"]


def test_a_full_disk_leaves_the_figures_that_were_there(tmp_path, monkeypatch):
    figure = plots.figure(figsize=(2, 2))
    before = {path: path.read_bytes() for path in figures.save_figure(figure, tmp_path / "f")}
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError, match="full"):
        figures.save_figure(plots.figure(figsize=(3, 3)), tmp_path / "f")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_standard_errors_count_both_sides():
    theirs = paper.Cell(80.0, 2.0)
    assert report.standard_errors(82.0, 1.0, 16, theirs) == pytest.approx(2 / math.sqrt(1 / 16 + 4 / 16))
    # two trials that happen to agree do not make the mean certain
    assert report.standard_errors(82.0, 0.01, 2, theirs) == pytest.approx(2 / math.sqrt(4 / 2 + 4 / 16))
    assert report.standard_errors(82.0, math.nan, 1, theirs) == pytest.approx(2 / math.sqrt(4 + 4 / 16))


def test_other_protocols_are_not_set_beside_the_papers(tmp_path):
    short = Protocol(max_epochs=3)
    path = tmp_path / "r.jsonl"
    export_records([record(paper.chosen("bc", "mlp", None, short), 0, 0.8)], path)
    report.write_report(path, tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text()
    assert "at most 3 epochs" in text
    assert "83.09" not in text


@pytest.mark.parametrize(
    ("variant", "title", "stem"),
    [
        (Protocol(augment_validation=True), "validation images augmented", "augmented"),
        (Protocol(warmup_by_epoch=True), "warm-up by the epoch", "warmup_by_epoch"),
    ],
)
def test_a_variant_of_the_protocol_has_a_table_of_its_own_beside_the_papers(tmp_path, variant, title, stem):
    rows = [record(paper.chosen("gls", "mlp"), s, 0.8) for s in range(2)]
    rows += [record(paper.chosen("gls", "mlp", None, variant), s, 0.7) for s in range(2)]
    export_records(rows, tmp_path / "r.jsonl")
    report.write_report(tmp_path / "r.jsonl", tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text()
    assert f"## MNIST, MLP, {title}: accuracy" in text
    assert "| BC + gLS | 70.00 ± 0.00 | 2 | 88.63 ± 0.38 | -18.63 |" in text
    assert "| BC + gLS | 80.00 ± 0.00, n=2 (88.63 ± 0.38) |" in text  # Table 2 is the protocol without it
    assert (tmp_path / f"out/risk_mnist_mlp_{stem}.png").exists()


def test_after_a_search_the_chosen_settings_are_shown(tmp_path):
    base = paper.chosen("bc", "mlp")
    grid = [replace(base, lr=lr) for lr in paper.RATES]
    rows = [record(c, sweep.SEARCH_SEED, 0.9 if c.lr == 0.01 else 0.5) for c in grid]
    rows += [record(replace(base, lr=0.01), s, 0.85) for s in range(2)]
    (cell,) = report.cells(rows, "mnist", "mlp", Protocol())
    assert (cell.config.lr, len(cell.records)) == (0.01, 2)
    export_records(rows, tmp_path / "r.jsonl")
    report.write_report(tmp_path / "r.jsonl", tmp_path / "out")
    assert "| 0.01 (paper 0.0001) | 0.0001 | - |" in (tmp_path / "out/report.md").read_text()


def table(rows, tmp_path, title):
    """A table of the report on these records, as {first cell: the other cells}."""
    export_records(rows, tmp_path / "r.jsonl")
    report.write_report(tmp_path / "r.jsonl", tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text()
    lines = text.split(f"## {title}\n")[1].split("\n## ")[0].splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {row[0]: row[1:] for row in cells}


def test_log_loss_is_infinite_where_the_projected_link_gives_the_truth_zero(tmp_path):
    gls, forward = paper.chosen("gls", "mlp"), paper.chosen("forward", "mlp")
    rows = [record(gls, 0, 0.8, zeros=100), record(gls, 1, 0.8, zeros=0)]
    rows += [record(forward, s, 0.9, zeros=int(s == 0)) for s in range(2)]
    found = table(rows, tmp_path, "MNIST, MLP: probabilities")
    assert found[""][3] == "true class below 2^-24, %"
    assert found["BC + gLS"] == ["inf", "0.200", "0.100", "0.50", "0.600", "0.300", "0.200"]
    # softmax is never zero: its log loss is finite, and too low by what the floor hides
    assert found["forward (not in the paper)"][:4] == ["0.500", "0.200", "0.100", "<0.01"]
    assert "counts a probability below 2^-24 as 2^-24" in (tmp_path / "out/report.md").read_text()


def test_what_the_projected_link_puts_below_the_floor_is_exactly_zero():
    scores = 6 * torch.randn(2000, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for model in paper.MODELS:
        p = probabilities(paper.chosen("gls", model), scores)
        assert (p == 0).any()
        assert not ((p > 0) & (p < FLOOR)).any()
        assert (probabilities(paper.chosen("forward", model), scores) > 0).all()


def test_the_share_of_zeros_knows_the_size_of_the_test_set():
    assert report.TEST_IMAGES["digits"] == len(read_digits().test_labels)


def test_kernels_have_tables_and_figures_of_their_own(tmp_path):
    gls = paper.chosen("gls", "wrn28_2")
    exact = {"software": "torch, kernels float32"}
    rows = [record(gls, s, 0.5) for s in range(2)] + [record(gls, s, 0.7, **exact) for s in range(1, 3)]
    rows.append(record(gls, 5, 0.5, software="torch, kernels triton"))  # what auto means on a GPU
    found = table(rows, tmp_path, "CIFAR-10, WRN-28-2: accuracy")
    assert found["BC + gLS"][:2] == ["50.00 ± 0.00", "3"]
    found = table(rows, tmp_path, "CIFAR-10, WRN-28-2, kernels float32: accuracy")
    assert found["BC + gLS"][:2] == ["70.00 ± 0.00", "2"]
    assert "50.00 ± 0.00, n=3" in (tmp_path / "out/report.md").read_text()  # Table 2
    assert {p.name for p in (tmp_path / "out").glob("*.png")} == {
        "risk_cifar10_wrn28_2.png", "risk_cifar10_wrn28_2_float32.png",
    }  # fmt: skip


def test_figures_of_two_protocols_do_not_overwrite_each_other(tmp_path):
    protocols = [Protocol(batch_size=32, max_epochs=e) for e in (6, 8)] + [Protocol(validation=0.05), Protocol()]
    rows = [record(paper.chosen("bc", "linear", None, p), 0, 0.8) for p in protocols]
    export_records(rows, tmp_path / "r.jsonl")
    written = report.write_report(tmp_path / "r.jsonl", tmp_path / "out")
    assert len(set(written)) == len(written)
    assert {p.name for p in written if p.suffix == ".png"} == {
        "risk_mnist_linear.png", "risk_mnist_linear_batch32_epochs6.png", "risk_mnist_linear_batch32_epochs8.png",
        "risk_mnist_linear_batch256_epochs400_validation0.05.png",
    }  # fmt: skip
    assert "(batch 256, at most 400 epochs, validation 0.05): accuracy" in (tmp_path / "out/report.md").read_text()


@pytest.mark.parametrize("risk", [[None, None], [], None])
def test_a_trial_without_any_finite_risk_is_reported(risk, tmp_path):
    export_records([record(paper.chosen("bc", "mlp"), 0, 0.1, risk=risk)], tmp_path / "r.jsonl")
    assert tmp_path / "out/risk_mnist_mlp.png" in report.write_report(tmp_path / "r.jsonl", tmp_path / "out")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_null_metric_is_left_out_of_the_mean(suffix, tmp_path):
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    gls = paper.chosen("gls", "mlp")
    rows = [record(gls, 0, 0.8), record(gls, 1, 0.8, brier=None, zeros=None, seconds=None)]
    export_records(rows, tmp_path / f"r.{suffix}")
    assert report.load_records(tmp_path / f"r.{suffix}") == rows
    report.write_report(tmp_path / f"r.{suffix}", tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text()
    assert "| BC + gLS | 0.500 | 0.200 | 0.100 | 0 |" in text
    assert "nan" not in text


def test_copies_of_a_record_count_once(records_file, tmp_path):
    once = report.load_records(records_file)
    thrice = tmp_path / "thrice.jsonl"
    thrice.write_text(3 * records_file.read_text())
    assert report.load_records(thrice) == once


def test_two_records_of_a_trial_that_differ_are_named(records_file):
    (first, *_) = read_records(records_file)
    with records_file.open("a") as file:
        file.write(json.dumps(first | {"accuracy": 0.123}) + "\n")
    with pytest.raises(ValueError, match=f"records.jsonl: .*got different ones of {first['id']}"):
        report.load_records(records_file)


def test_nothing_to_report_is_said(tmp_path):
    with pytest.raises(ValueError, match="expected a run's folder or a file of records"):
        report.write_report(tmp_path / "nowhere", tmp_path)


def test_lower_bounds_of_the_rows():
    assert report.lower_bound(paper.chosen("bc", "mlp")) is None
    assert report.lower_bound(paper.chosen("ga", "mlp")) == 0
    assert report.lower_bound(paper.chosen("gls", "mlp")) == pytest.approx(-33.4, abs=0.05)
    assert report.lower_bound(paper.chosen("forward", "mlp")) == pytest.approx(math.log(9))


def test_figure_1_loss_by_hand():
    p = np.array([[0.2, 0.3, 0.5]])
    inside, outside = 2.8 / 2.7, -2.9 / 2.7

    def loss(points, candidates):
        return loss_at(figures.papers_loss(), candidates, points)

    assert loss(p, {2})[0] == pytest.approx(-math.log(0.5))
    expected = -(inside * math.log(0.2) + inside * math.log(0.3) + outside * math.log(0.5))
    assert loss(p, {0, 1})[0] == pytest.approx(expected)
    assert loss(p, {0, 1, 2})[0] == pytest.approx(-np.log(p).mean())
    # it falls without bound towards p3 = 0, a third of a nat and more per e-fold (slope 2.9/2.7)
    line = np.array([[(1 - q) / 2, (1 - q) / 2, q] for q in (1e-6, 1e-9)])
    near, far = loss(line, {0, 1})
    assert far - near == pytest.approx(-2.9 / 2.7 * math.log(1e3), rel=1e-6)


def test_figure_1_has_four_panels():
    pytest.importorskip("mpltern", reason="ternary axes need mpltern")
    drawn = figures.figure1(resolution=20)
    assert len([axes for axes in drawn.axes if axes.get_title()]) == 4


# --- the committed records ------------------------------------------------------------------------


@functools.cache
def committed():
    rows = [row for path in sorted(RESULTS.glob("*.jsonl")) for row in read_records(path)]
    assert len({(row["id"], kernels_of(row)) for row in rows}) == len(rows)
    return [row for row in rows if not kernels_of(row)]  # other kernels have tables of their own


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_committed_mnist_records_are_within_1_2_points_of_the_paper(model):
    column = report.cells(committed(), "mnist", model, Protocol())
    assert [cell.method for cell in column] == [m for m in paper.METHODS if m != "gls_released"]
    for cell in column:
        mean, _, n = cell.accuracy()
        assert n == 16
        if (cell.method, model) in paper.ACCURACY:
            assert abs(mean - paper.ACCURACY[cell.method, model].mean) < 1.2, cell.method


@pytest.mark.parametrize("model", ["resnet20", "wrn28_2"])
def test_committed_cifar_records_agree_with_the_paper(model):
    """At least six trials; means within 3 points or 2.5 standard errors."""
    column = report.cells(committed(), "cifar10", model, Protocol())
    assert [cell.method for cell in column] == [m for m in paper.METHODS if m != "gls_released" or model == "wrn28_2"]
    for cell in column:
        mean, sd, n = cell.accuracy()
        assert n >= 6, cell.method
        theirs = paper.ACCURACY.get((cell.method, model))
        if theirs is not None:
            errors = report.standard_errors(mean, sd, n, theirs)
            assert abs(mean - theirs.mean) < 3 or abs(errors) < 2.5, cell.method


@pytest.mark.kept
def test_the_documentation_shows_what_the_records_say(tmp_path, monkeypatch):
    """docs/reproduction.md holds the generated tables; ``tproper report lab/results`` makes them again."""
    monkeypatch.setattr(report, "column_figures", lambda *given: {})  # seconds of drawing; the page has tables alone
    report.write_report(RESULTS, tmp_path)
    generated = (tmp_path / "report.md").read_text().split("\n", 1)[1].strip()
    document = (RESULTS.parents[1] / "docs/reproduction.md").read_text()
    begin, end = "<!-- begin: tproper report lab/results -->", "<!-- end -->"
    assert document.split(begin)[1].split(end)[0].strip() == generated


def test_bounded_losses_keep_their_bounds_in_the_benchmark():
    """The library's losses on any labels: no epoch's training risk is below the least certified bound."""
    bounds, with_risks = {}, 0
    for row in committed():
        config = TrialConfig.from_dict(row["config"])
        if config.problem is None or config.loss not in ("forward", "gls", "backward_brier", "ga", "nn"):
            continue
        key = (config.loss, config.problem)
        if key not in bounds:
            classes = len(config.problem.merged.split("|")) if config.problem.merged else 10
            told = text_transition(config.problem.told or config.problem.labels, classes)
            bounds[key] = min(find_method(config.loss).build(told).core.lower_bounds())
        risks = [r for r in row["risk"] if r is not None]  # none where a search's rate was far too large
        assert all(r >= bounds[key] - 1e-4 for r in risks), row["id"]
        with_risks += bool(risks)
    assert with_risks > 100


def test_risk_of_bc_falls_below_zero_and_the_bounded_losses_keep_their_bounds():
    ends = []
    for row in committed():
        if row["alpha"] != 2 or "problem" in row["config"]:  # bounds take longer to certify near alpha = 1
            continue
        bound = report.lower_bound(TrialConfig.from_dict(row["config"]))
        risks = [r for r in row["risk"] if r is not None]
        if bound is not None:
            assert min(risks) >= bound - 1e-4, row["id"]
        if row["loss"] == "bc":
            ends.append(risks[-1])
    assert np.mean(ends) < -0.5  # no true risk is negative: this is a fit on its way to -infinity
    assert np.mean(np.array(ends) < 0) > 0.9


def test_tables_need_no_matplotlib(records_file, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "can_draw", lambda: False)
    monkeypatch.setattr(plots, "figure", lambda **rest: pytest.fail("drew"))
    written = report.write_report(records_file, tmp_path / "out")
    assert [p.name for p in written] == ["report.md", "index.html"]
    text = (tmp_path / "out" / "report.md").read_text()
    assert report.figures.NO_FIGURES in text
    assert "accuracy" in text


def test_a_report_does_not_replace_another_page(tmp_path):
    (tmp_path / "index.html").write_text("<h1>my home page</h1>")
    with pytest.raises(ValueError, match=r"index\.html: expected an older report, got another file"):
        report.write_report(RESULTS / "mnist_figures.jsonl", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["index.html"]


def test_names_in_records_and_tables_are_text_on_both_pages(tmp_path):
    """A method, a data set or a machine may be called anything: no picture, link or HTML of theirs."""
    evil = "![x](http://evil.example/x.png) <img src=x> `a` |"
    rows = [
        record(paper.chosen("forward", "mlp"), s, 0.9) | {"machine": evil, "software": "[t](https://evil)"}
        for s in (0, 1)
    ]
    export_records(rows, tmp_path / "r.jsonl")
    report.write_report(tmp_path / "r.jsonl", tmp_path / "out")
    page = pages.Page("Leaderboard", "leaderboard.md", "leaderboard.html")
    page.write(tmp_path / "out", "a note", [pages.Table(evil, "", [evil, "b"], [["x", evil]])])
    for name in ("report.md", "leaderboard.md"):
        tokens = MarkdownIt("commonmark").enable("table").parse((tmp_path / "out" / name).read_text())
        inside = [t for token in tokens for t in (token.children or ())]
        assert not [t for t in inside if t.type in ("image", "link_open", "html_inline", "code_inline")]
    for name in ("index.html", "leaderboard.html"):
        text = (tmp_path / "out" / name).read_text()
        assert "Content-Security-Policy" in text
        assert not re.search(r"(src|href)=['\"](?!data:|#)", text)
        assert "&lt;img src=x&gt;" in text
