"""Coverage of the gain that a calibrator states; and where the coverage and level of all other intervals are shown.

    OMP_NUM_THREADS=1 python benchmarks/coverage_elsewhere.py [--sets 300] [--jobs 4]     # then coverage.py --render

`Calibrator.gain` is the fall of the weak risk by the map, cross-validated, with an interval. The truth is the expected
fall for the map that is kept, computed on the whole pool from its true probabilities. The section goes into
docs/coverage.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch
from _pieces import read_pieces, run_pieces
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
POOL = 4_000


def piece(kind: str, n: int, method: str, sets: int) -> dict[str, float]:
    """How often the interval of the gain holds the true one."""
    T = KINDS[kind]()
    rng = np.random.default_rng([n, len(method)])
    scores = 3 * rng.standard_normal((POOL, 4))
    p = torch.softmax(torch.as_tensor(scores), -1).numpy()
    given = 1.6 * scores  # of a model that is too sure
    weak_p = p @ T.matrix().T
    held, gains = [], []
    for seed in range(sets):
        rows = rng.integers(0, POOL, n)
        classes = (p[rows].cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=3)
        found = tp.calibrate(given[rows], T.sample(classes, np.random.default_rng(seed)), T, method)
        logs = [
            np.log(torch.softmax(torch.as_tensor(s), -1).numpy() @ T.matrix().T) for s in (given, found.scores(given))
        ]
        truth = float((weak_p * (logs[1] - logs[0])).sum(axis=1).mean())
        low, high = found.gain.interval
        held.append(low <= truth <= high)
        gains.append(truth)
    return {"covered": float(np.mean(held)), "mean_gain": float(np.mean(gains))}


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
    lines += [
        "",
        "## The gain of a calibrator",
        "",
        "`Calibrator.gain`, the fall of the weak risk by the map, for a model too sure by a factor of 1.6; four "
        f"classes, {pieces[0]['key']['sets']} data sets a cell (`benchmarks/coverage_elsewhere.py`, commit "
        f'{m["commit"]}, {m["date"]}). The truth is the fall for the very map that is kept; "auto" chooses it by the '
        "same labels. How the interval allows for that: `tproper.learn.gain`.",
        "",
        "| labels | n | map | covered | true gain, mean |",
        "| --- | ---: | --- | ---: | ---: |",
    ]
    for piece_ in pieces:
        k, r = piece_["key"], piece_["result"]
        inside = 0.93 <= r["covered"] <= 0.97
        text = f"{100 * r['covered']:.1f}"
        lines.append(
            f"| {k['kind']} | {k['n']} | {k['method']} | {text if inside else f'**{text}**'} | {r['mean_gain']:.4f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--resume", action="store_true", help="keep the record's pieces, compute what is missing")
    args = parser.parse_args()
    keys = [{"kind": k, "n": n, "method": m, "sets": args.sets} for k in KINDS for n in SIZES for m in METHODS]
    run_pieces(piece, keys, RECORD, args.jobs, args.resume)


if __name__ == "__main__":
    main()
