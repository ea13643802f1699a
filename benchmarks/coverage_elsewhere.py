"""Coverage of the gain that a calibrator states; and where the coverage and level of all other intervals are shown.

    OMP_NUM_THREADS=1 python benchmarks/coverage_elsewhere.py [--sets 600] [--jobs 16] [--resume]
    python benchmarks/coverage.py --render                                 # then: the page, from both records

`Calibrator.gain` is the fall of the weak risk by the map, cross-validated, with an interval. The truth is the expected
fall for the map that is kept, computed on the whole pool from its true probabilities. The section goes into
docs/coverage.md. A piece is a block of data sets of one cell, so that a run that was cut short goes on with --resume.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _pieces import read_pieces, run_pieces, totals
from _protocol import RECORDS

import tproper as tp

RECORD = RECORDS / "coverage_elsewhere.jsonl"
KINDS: dict[str, Callable[[], tp.Transition]] = {
    "symmetric .3": lambda: tp.symmetric_noise(4, 0.3),
    "pair .3": lambda: tp.pair_noise(4, 0.3),
    "complementary": lambda: tp.complementary(4),
}
SIZES = (400, 2000)
METHODS = ("temperature", "bias", "auto")
SURE = (1.6, 1.0)  # scores by scores that are right: a model that is too sure, and one that needs no map
POOL = 4_000
BLOCK = 50  # data sets a piece


def data_sets(kind: str, n: int, sure: float, first: int, sets: int) -> Any:
    """Scores of a pool, its true probabilities, and the rows and weak labels of each data set."""
    T = KINDS[kind]()
    scores = 3 * np.random.default_rng(0).standard_normal((POOL, 4))
    p = torch.softmax(torch.as_tensor(scores), -1).numpy()
    drawn = []
    for seed in range(first, first + sets):
        rng = np.random.default_rng([1, seed])
        rows = rng.integers(0, POOL, n)
        classes = (p[rows].cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=3)
        drawn.append((rows, T.sample(classes, rng)))
    return T, sure * scores, p, drawn


def true_gain(T: tp.Transition, given: np.ndarray, p: np.ndarray, calibrator: tp.Calibrator) -> float:
    """The expected fall of the weak risk by this map, over the pool."""
    before, after = (
        np.log(torch.softmax(torch.as_tensor(s), -1).numpy() @ T.matrix().T) for s in (given, calibrator.scores(given))
    )
    return float((p @ T.matrix().T * (after - before)).sum(axis=1).mean())


def piece(kind: str, n: int, method: str, sure: float, first: int, sets: int) -> dict[str, float]:
    """Of the data sets for which scores were changed: how many intervals hold the true gain, lie below it and lie above
    it; the gains, and widths, in the sum. A map that changes nothing gains nothing, and its interval is that point.
    """
    T, given, p, drawn = data_sets(kind, n, sure, first, sets)
    out = dict.fromkeys(("changed", "covered", "too_low", "too_high", "gain", "width"), 0.0)
    for rows, labels in drawn:
        calibrator = tp.calibrate(given[rows], labels, T, method)
        low, high = calibrator.gain.interval
        if low == high:
            continue
        out["changed"] += 1
        truth = true_gain(T, given, p, calibrator)
        out["covered"] += low <= truth <= high
        out["too_low"] += high < truth
        out["too_high"] += truth < low
        out["gain"] += truth
        out["width"] += high - low
    return out


def gains() -> list[tuple[str, float, float]]:
    """Of each cell its settings, the coverage of the gain, and how many data sets say so."""
    cells = totals(read_pieces(RECORD), ["kind", "sure", "n", "method"])
    return [
        (f"{kind}, factor {sure:g}, n = {n}, {method}", c["covered"] / c["changed"], c["changed"])
        for (kind, sure, n, method), c in cells.items()
        if c["changed"] >= 100
    ]


def told_elsewhere() -> list[tuple[str, str, str, float, float]]:
    """Coverages and levels of other records: part, cell, what, how often, and in how many samples."""
    from pu_prior import PROBLEMS

    out = []
    pieces = read_pieces(RECORDS / "pu_prior.jsonl")
    for k, (prior, distance, d, kind, clusters) in enumerate(PROBLEMS):
        found = [f for p in pieces if p["key"]["problem"] == k for f in p["result"]]
        cell = f"prior {prior:g}, distance {distance:g}, {d} dimensions, {kind}" + ", two clusters" * (clusters == 2)
        for what, name in (("the prior", "covered"), ("the labeling rate", "rate covered")):
            if found:
                out.append(("pu", cell, what, float(np.mean([f[name] for f in found])), float(len(found))))
    for p in read_pieces(RECORDS / "estimate_transition.jsonl"):
        key = p["key"]
        if key["part"] == "shares":
            how = f"{key['clean']} clean rows" if key["clean"] else "T known"
            cell = f"{key['case']}, {key['labels']} labels, {how}"
            out.append(("shares", cell, "class shares", p["result"]["coverage"], float(key["repeats"])))
    tests = [p for p in read_pieces(RECORDS / "check_transition.jsonl") if "family" in p["key"]]
    for (rows, family), found in totals(tests, ["rows", "family"]).items():
        for what in ("labels", "with p"):
            cell, name = f"{family}, n = {rows}", {"labels": "labels alone", "with p": "with probabilities"}[what]
            out.append(("level", cell, f"a right T rejected, {name}", found[what] / found["sets"], found["sets"]))
    return out


def section() -> list[str]:
    """For docs/coverage.md."""
    lines = [
        "",
        "## Shown elsewhere",
        "",
        "- `check_transition`: the level of each of its tests, over twelve families, in "
        "[tests of T](estimation/tests_of_T.md).",
        "- `weak_prevalence`: coverage with T known and from clean rows, and the intervals of an estimated T, in "
        "[T from clean rows and features](estimation/clean_and_features.md).",
        "- `estimate_pu`: coverage of the prior and the labeling rate in [positive-unlabeled data](estimation/pu.md).",
    ]
    pieces = read_pieces(RECORD)
    if not pieces:
        return lines
    m = pieces[0]["machine"]
    cells = totals(pieces, ["kind", "sure", "n", "method"])
    sets = sorted({f"{c['sets']:,.0f}" for c in cells.values()})
    shares = [c["covered"] / max(c["changed"], 1.0) for c in cells.values()]
    error = max((0.05 * 0.95 / max(c["changed"], 1.0)) ** 0.5 for c in cells.values())
    inside = sum(0.93 <= share <= 0.97 for share in shares)
    verdict = (
        f"{inside} of {len(shares)} cells lie between 93 and 97%, all between {100 * min(shares):.1f} and "
        f"{100 * max(shares):.1f}; the standard error of a cell is up to {100 * error:.1f} points."
    )
    lines += [
        "",
        "## The gain of a calibrator",
        "",
        "`Calibrator.gain`, the fall of the weak risk by the map, for a model whose scores are those of the truth "
        f"times a factor (above one, it is too sure); four classes, {' or '.join(sets)} data sets a cell, of which "
        "those count whose scores were changed "
        f"(`benchmarks/coverage_elsewhere.py`, commit {m['commit']}, {m['date']}). {verdict} The truth is "
        'the fall for the very map that is kept; "auto" chooses it by the same labels. How the interval allows for '
        "that: `tproper.learn.gain`.",
        "",
        "| labels | factor | n | map | changed | covered % | interval below, above the truth % | true gain, mean | "
        "width, mean |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    places = [list(names) for names in (KINDS, SURE, SIZES, METHODS)]
    for cell in sorted(cells, key=lambda c: [place.index(x) for place, x in zip(places, c, strict=True)]):
        changed = cells[cell]["changed"]
        mean = {name: value / max(changed, 1.0) for name, value in cells[cell].items()}
        text = f"{100 * mean['covered']:.1f}"
        text = text if 0.93 <= mean["covered"] <= 0.97 else f"**{text}**"
        lines.append(
            f"| {cell[0]} | {cell[1]:g} | {cell[2]} | {cell[3]} | {changed:.0f} | {text} | "
            f"{100 * mean['too_low']:.1f}, {100 * mean['too_high']:.1f} | {mean['gain']:.4f} | {mean['width']:.4f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=600, help=f"data sets a cell, a multiple of {BLOCK}")
    parser.add_argument("--first", type=int, default=0, help="the first data set's seed")
    parser.add_argument("--sure", type=float, nargs="+", choices=SURE, default=list(SURE), help="factors")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--resume", action="store_true", help="keep the record's pieces, compute what is missing")
    args = parser.parse_args()
    keys = [
        {"kind": kind, "n": n, "method": method, "sure": sure, "first": first, "sets": BLOCK}
        for first in range(args.first, args.first + args.sets, BLOCK)
        for kind in KINDS
        for sure in args.sure
        for n in SIZES
        for method in METHODS
    ]
    run_pieces(piece, keys, RECORD, args.jobs, args.resume)


if __name__ == "__main__":
    main()
