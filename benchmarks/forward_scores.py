"""Which proper score to correct forward with: the log score beside bounded ones, where T is right and where it is not.

    OMP_NUM_THREADS=1 python benchmarks/forward_scores.py [--seeds 10] [--jobs 16] [--resume]
    python benchmarks/forward_scores.py --render        # docs/archive/forward_scores.md again, from the record alone

Linear models of the digits (1,200 rows), `ForwardLoss(T, score=...)`. In each case labels come about by one T and the
loss is told another, or some rows are outliers. Every score has its penalty chosen from the same six by accuracy on 300
clean rows, so that none loses by a penalty that suits another's scale; the other 297 clean rows score it.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _pieces import read_pieces, run_pieces
from _protocol import RECORDS, median
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import tproper as tp
from tproper.metrics import clean_scores

RECORD, PAGE = RECORDS / "forward_scores.jsonl", Path(__file__).parent.parent / "docs" / "archive" / "forward_scores.md"
TRAINED, CHOSEN_ON = 1200, 300  # rows that models are fitted to, and clean ones that choose a penalty
SCORES = ("log", "brier", "spherical", "tsallis:1.5")
L2 = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
Made = Callable[[], tp.Transition]
# what labels come about by, what the loss is told, share of outliers
CASES: dict[str, tuple[Made, Made, float]] = {
    "T right: symmetric .3": (lambda: tp.symmetric_noise(10, 0.3), lambda: tp.symmetric_noise(10, 0.3), 0.0),
    "T right: complementary": (lambda: tp.complementary(10), lambda: tp.complementary(10), 0.0),
    "symmetric .4, told .1": (lambda: tp.symmetric_noise(10, 0.4), lambda: tp.symmetric_noise(10, 0.1), 0.0),
    "symmetric .4, told clean": (lambda: tp.symmetric_noise(10, 0.4), lambda: tp.identity(10), 0.0),
    "pair .35, told symmetric .35": (lambda: tp.pair_noise(10, 0.35), lambda: tp.symmetric_noise(10, 0.35), 0.0),
    "complementary, 5% the class itself, told 0%": (
        lambda: tp.complementary(10, noise=0.05),
        lambda: tp.complementary(10),
        0.0,
    ),
    "symmetric .2, 20% outliers": (lambda: tp.symmetric_noise(10, 0.2), lambda: tp.symmetric_noise(10, 0.2), 0.2),
}


def data(case: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training features with outliers, weak labels, clean features and classes."""
    true, _, share = CASES[case]
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    X, y = X[order] / 16, y[order]
    weak = true().sample(y[:TRAINED], np.random.default_rng(seed))
    train = X[:TRAINED].copy()
    wild = rng.random(TRAINED) < share
    train[wild] = 3 * rng.permuted(train[wild], axis=1)  # bright noise with some label
    weak[wild] = rng.integers(0, 10, int(wild.sum()))
    return train, weak, X[TRAINED:], y[TRAINED:]


def piece(case: str, seed: int) -> list[dict[str, Any]]:
    """All scores on one draw of the labels."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, weak, held, z = data(case, seed)
    told = CASES[case][1]()
    out = []
    for score in SCORES:
        fits = [
            tp.WeakLabelClassifier(
                told, loss=partial(tp.ForwardLoss, score=score), classes=list(range(10)), l2=l2, calibrate=False
            ).fit(X, weak)
            for l2 in L2
        ]
        right = [(m.predict(held[:CHOSEN_ON]) == z[:CHOSEN_ON]).mean() for m in fits]
        best = int(np.argmax(right))
        scores = clean_scores(z[CHOSEN_ON:], fits[best].predict_proba(held[CHOSEN_ON:]))
        row = {k: float(scores[k]) for k in ("accuracy", "log_loss", "ece")}
        out.append({"score": score, "l2": L2[best]} | row)
    return out


def render(pieces: list[dict[str, Any]]) -> str:
    """The page."""
    commits = sorted({f"{p['machine']['commit']}, {p['machine']['date']}" for p in pieces})
    seeds = sorted({sum(p["key"]["case"] == c for p in pieces) for c in CASES} - {0})
    lines = [
        "# Forward correction with other scores than the logarithm",
        "",
        "Made by `python benchmarks/forward_scores.py` from `benchmarks/records/forward_scores.jsonl` (commit "
        f"{'; '.join(commits)}). Linear models of the digits, {TRAINED:,} rows, accuracy % on clean rows, mean of "
        f"{' or '.join(map(str, seeds))} draws; in brackets the mean difference to the log score with its standard "
        f"error. Every score has its best penalty of six, chosen on {CHOSEN_ON} clean rows of its own.",
        "",
        "The log score punishes a label that the model calls nearly impossible without bound. With the right T that "
        "is what makes it efficient; with a wrong T, or with rows that no class explains, it follows them. The others "
        "are bounded.",
        "",
        "| labels, and what the loss is told | " + " | ".join(SCORES) + " |",
        "| --- |" + " ---: |" * len(SCORES),
    ]
    for case in CASES:
        same = [p["result"] for p in pieces if p["key"]["case"] == case]
        if not same:
            continue
        table = 100 * np.array([[r["accuracy"] for r in rows] for rows in same])  # (seeds, scores)
        gap = table - table[:, :1]
        error = gap.std(axis=0, ddof=1) / np.sqrt(len(gap))
        cells = [f"{table[:, 0].mean():.1f}"]
        for k in range(1, len(SCORES)):
            cells.append(f"{table[:, k].mean():.1f} ({gap[:, k].mean():+.1f} ± {error[k]:.1f})")
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    lines += ["", "## Calibration error of the same models", ""]
    lines += ["| labels, and what the loss is told | " + " | ".join(SCORES) + " |", "| --- |" + " ---: |" * len(SCORES)]
    for case in CASES:
        same = [p["result"] for p in pieces if p["key"]["case"] == case]
        if same:
            mean = np.array([[r["ece"] for r in rows] for rows in same]).mean(axis=0)
            lines.append(f"| {case} | " + " | ".join(f"{m:.3f}" for m in mean) + " |")
    return "\n".join(lines + costs()) + "\n"


def costs() -> list[str]:
    """What a T that comes with the call costs, from the record of `given_transitions.py`."""
    path = RECORDS / "given_transitions.json"
    if not path.exists():
        return []
    record = json.loads(path.read_text())
    m = record["machine"]
    lines = [
        "",
        "## A T that comes with the call",
        "",
        "`loss(scores, labels, transitions=T)`, T fixed or learned, beside the same formula written by hand: forward "
        f"and backward pass, {record['rows']} rows, {record['classes']} classes, gradients of scores and T, "
        f"milliseconds of one thread (median; least), by `benchmarks/given_transitions.py` (commit "
        f"{m['commit']}, {m['date']}, {m['cpu']}).",
        "",
        "| | ms |",
        "| --- | ---: |",
    ]
    for name, seconds in record["seconds"].items():
        lines.append(f"| {name} | {1e3 * median(seconds):.2f}; {1e3 * min(seconds):.2f} |")
    return lines


def page() -> str:
    """The page, from the record."""
    return render(read_pieces(RECORD))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--resume", action="store_true", help="keep the record's pieces, compute what is missing")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    args = parser.parse_args()
    if not args.render:
        keys = [{"case": case, "seed": seed} for case in CASES for seed in range(args.seeds)]
        run_pieces(piece, keys, RECORD, args.jobs, args.resume)
    PAGE.write_text(page())
    print("page:", PAGE)


if __name__ == "__main__":
    main()
