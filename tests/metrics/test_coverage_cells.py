"""A small part of the table of coverage, in seconds: docs/coverage.md has it from hundreds of samples a cell."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
DATE = "2026-11-01"  # of the seeds and settings here: the same in every run
SMALL = [
    ("outlier", {"K": 4, "rows": 300, "low": 0.5}, 25),
    ("outlier", {"K": 4, "rows": 300, "low": 0.9}, 25),
    ("odd_annotator", {"K": 4, "answers": 30, "redundancy": 5}, 20),
    ("groups", {"groups": 20, "each": 25, "shared": True, "kind": "symmetric .3"}, 10),
    ("rare", {"kind": "noisy", "share": 0.03, "n": 300}, 25),
    ("by_group", {"hard": 0.4, "K": 2, "n": 1000}, 10),
    ("from_features", {"problem": "separate", "kind": "symmetric .3", "n": 1000}, 10),
    ("wrong_model", {"problem": "d = 20", "kind": "symmetric .3", "n": 300}, 4),
    ("depends_on_x", {"noise": "runner-up", "K": 3, "n": 1000}, 4),
    ("conformal", {"kind": "symmetric .3", "n": 300}, 10),
    ("class_shares", {"problem": "d = 200", "kind": "complementary", "n": 200}, 3),
]


@pytest.fixture(scope="module")
def harness():
    """The modules of benchmarks/ that measure and show coverage."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import coverage_cells
        import coverage_tables
    finally:
        sys.path.remove(str(BENCHMARKS))
    return coverage_cells, coverage_tables


@pytest.mark.parametrize(("part", "cell", "sets"), SMALL, ids=[f"{p}-{i}" for i, (p, _, _) in enumerate(SMALL)])
def test_few_samples_do_not_contradict_what_is_asked(harness, part, cell, sets):
    """A figure may miss what is asked by four standard errors and one sample; far more are a fault."""
    cells, _ = harness
    assert cell in cells.CELLS[part][1]
    found = cells.CELLS[part][0](**cell, date=DATE, first=0, sets=sets)["figures"]
    asked = {name: required for name, required in cells.REQUIRED[part].items() if name in found}
    assert asked
    for name, required in asked.items():
        share, tried = found[name]["so"] / found[name]["tried"], sets
        slack = 4 * (0.08 / tried) ** 0.5 + 1 / tried
        assert required.least is None or share >= required.least - slack, (name, share)
        assert required.most is None or name in cells.GROUPED or share <= required.most + slack, (name, share)


def piece(date, covered, **cell):
    figures = {"the class that differs": {"so": covered, "tried": 100.0}, "accuracy": {"so": 95.0, "tried": 100.0}}
    key = {"part": "outlier", **cell, "date": date, "first": 0, "sets": 100}
    return {"key": key, "result": {"figures": figures, "means": {"width of the diagonal": 20.0}}}


def test_what_fails_is_told_first_and_the_worst_cell_leads(harness):
    _, tables = harness
    cells = [{"K": 4, "rows": 100, "low": 0.5}, {"K": 4, "rows": 300, "low": 0.5}, {"K": 4, "rows": 600, "low": 0.5}]
    pieces = [piece("2026-11-02", c, **cell) for c, cell in zip((80.0, 40.0, 95.0), cells, strict=True)]
    older = [piece("2026-11-01", 100.0, **cell) for cell in cells]  # not shown
    pieces = [piece("2026-11-02-first", 0.0, **cells[2]), *older, *pieces]  # nor what is of that day, by other code
    text = "\n".join(tables.head(list(tables.figures(pieces))))
    assert text.index("## What does not hold") < text.index("## What meets its bar")
    assert "2 of 6 figures miss what is asked of them, 2 by more than two standard errors" in text
    few = [piece("2026-11-02", 1.0, **cells[0])]
    few[0]["result"]["figures"]["accuracy"]["tried"] = 19.0
    assert [f.name for f in tables.figures(few)] == ["the class that differs"]
    assert "The worst is the class that differs, 4 classes, 300 clean rows, one right in 0.5: 40.0%" in text
    met = text.index("## What meets its bar")
    assert text.index("| 40.0 ±") < text.index("| 80.0 ±") < met < text.index("| 95.0 ±")


def test_settings_and_samples_change_with_the_date(harness):
    cells, _ = harness
    one = {"K": 4, "rows": 100, "low": 0.5}
    first, again, other = (cells.outlier(**one, date=d, first=0, sets=3) for d in ("a", "a", "b"))
    assert first == again != other


def test_no_interval_is_narrower_than_the_least_mean_width(harness):
    """Clopper and Pearson's intervals cover every share, so that they are wider; more rows make it less."""
    import numpy as np
    from scipy.stats import beta, binom

    sys.path.insert(0, str(BENCHMARKS))
    try:
        from coverage_bound import least_width
    finally:
        sys.path.remove(str(BENCHMARKS))
    x = np.arange(21)
    low = np.where(x > 0, beta.ppf(0.05, x, 21 - x), 0.0)
    high = np.where(x < 20, beta.ppf(0.95, x + 1, 20 - x), 1.0)
    exact = float(binom.pmf(x, 20, 0.9) @ (high - low))
    assert 0.5 * exact < least_width(1, 20) < exact  # one class: all rows are its own
    assert least_width(1, 40) < least_width(1, 20) < least_width(1, 20, level=0.95)
