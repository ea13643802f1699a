"""How far from the best minimum the linear forward solver ends: beside ten random starts, over random problems.

    OMP_NUM_THREADS=1 python benchmarks/solver_gaps.py [--problems 200] [--jobs 16] [--resume]
    python benchmarks/solver_gaps.py --render        # docs/archive/solver_gaps.md again, from the record alone

A forward loss of weak labels is not convex in the scores. Each problem is a Gaussian class mixture in 2 to 15
dimensions, 2 to 8 classes, with one of ten kinds of weak label; the solver's objective is compared with the smallest of
ten descents from random starts on the same objective, and both solutions are scored on 1000 fresh rows, by
weak labels. "from zero" starts at zero scores, as the solver once did, without the prior on intercepts.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _pieces import read_pieces, run_pieces
from _protocol import RECORDS
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

import tproper as tp
from tproper.learn.defaults import default_l2, intercept_l2
from tproper.solvers import row_risks
from tproper.solvers.linear import LinearFit, fit_linear

RECORD, PAGE = RECORDS / "solver_gaps.jsonl", Path(__file__).parent.parent / "docs" / "archive" / "solver_gaps.md"
SIZES, FRESH, RANDOM_STARTS, GAP = (100, 400), 1000, 10, 1e-3
TOL, MAX_ITER, OLD_L2 = 1e-5, 1000, 3e-4
KINDS = ("symmetric", "pair", "complementary", "partial", "multi", "dense", "tall", "coarse", "pu", "sources")
PENALTIES, SOLVERS = ("default", "3e-4"), ("now", "from zero")
Problem = tuple[str, tp.Transition, np.ndarray, Tensor]


def transition(kind: str, K: int, rng: np.random.Generator) -> tp.Transition:
    if kind == "symmetric":
        return tp.symmetric_noise(K, rng.uniform(0.1, 0.5) * (1 - 1 / K) / 0.5 * 0.9)
    if kind == "pair":
        return tp.pair_noise(K, rng.uniform(0.1, 0.45))
    if kind == "complementary":
        return tp.complementary(K)
    if kind == "partial":
        return tp.partial_labels(K, rng.uniform(0.1, 0.6))
    if kind == "multi":
        return tp.multi_complementary(K, int(rng.integers(1, K - 1)))
    if kind in ("dense", "tall"):
        return tp.Transition(rng.dirichlet(np.ones(K if kind == "dense" else 2 * K), size=K).T)
    if kind == "coarse":
        return tp.coarse_labels([list(range(K // 2)), list(range(K // 2, K))])
    if kind == "pu":
        return tp.positive_unlabeled(rng.uniform(0.2, 0.8))
    first = tp.complementary(K) if K > 2 else tp.symmetric_noise(K, 0.3)
    return tp.multi_source([first, tp.symmetric_noise(K, 0.4)])


def problem(n: int, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    K, d = int(rng.integers(2, 9)), int(rng.integers(2, 16))
    K = 2 if kind == "pu" else max(K, {"complementary": 3, "multi": 3, "pair": 3, "coarse": 4}.get(kind, 2))
    T = transition(kind, K, rng)
    centres = rng.standard_normal((K, d)) * rng.uniform(0.5, 2.5)
    y = rng.integers(0, K, n + FRESH)
    X = centres[y] + rng.standard_normal((n + FRESH, d))
    return kind, T, X, T.encode(T.sample(y, np.random.default_rng(seed)))


def start(X: np.ndarray, K: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([7, seed])
    spread = X.std(axis=0) * np.sqrt(X.shape[1])
    return rng.standard_normal((K, X.shape[1])) / spread, 0.5 * rng.standard_normal(K)


def piece(n: int, penalty: str, solver: str, first: int, last: int) -> list[dict[str, Any]]:
    """Problems `first` to `last` - 1 of one size and penalty, by one solver."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    out = []
    for seed in range(first, last):
        kind, T, X, labels = problem(n, seed)
        out.append({"kind": kind} | measured(T, X, labels, n, penalty, solver))
    return out


def cells(pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row of the table for each size, penalty and solver."""
    out = []
    for n in SIZES:
        for penalty in PENALTIES:
            for solver in SOLVERS:
                key = {"n": n, "penalty": penalty, "solver": solver}
                rows = [r for p in pieces if key.items() <= p["key"].items() for r in p["result"]]
                if rows:
                    out.append(key | summary(rows) | {"problems": len(rows)})
    return out


def measured(T: tp.Transition, X: np.ndarray, labels: Tensor, n: int, penalty: str, solver: str) -> dict[str, Any]:
    """One problem: the solver's gap to the best of ten random starts, its time, and the risk of both on fresh rows."""
    K, A, y = T.num_classes, X[:n], labels[:n]
    loss = tp.ForwardLoss(T)
    l2 = OLD_L2 if penalty == "3e-4" else default_l2(A, y, loss, None, n)
    prior = 0.0 if solver == "from zero" else intercept_l2(loss, y, None, n)

    def fit(at: Any) -> LinearFit:
        return fit_linear(A, y, loss, None, l2, TOL, MAX_ITER, at, 0, prior)

    clock = time.process_time()  # the processor's time: the machine may be shared
    ours = fit((np.zeros((K, X.shape[1])), np.zeros(K)) if solver == "from zero" else None)
    seconds = time.process_time() - clock
    best = min((fit(start(A, K, s)) for s in range(RANDOM_STARTS)), key=lambda f: f.objective)
    fresh = [float(row_risks(T, labels[n:], X[n:] @ f.coef.T + f.intercept).mean()) for f in (ours, best)]
    several = max(ours.minima) > min(ours.minima) + GAP
    return {"gap": ours.objective - best.objective, "seconds": seconds, "fresh": fresh, "several": several}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    gaps, fresh = np.array([r["gap"] for r in rows]), np.array([r["fresh"] for r in rows])
    worse = gaps > GAP
    return {
        "worse": float(worse.mean()),
        "better": float((gaps < -GAP).mean()),
        "largest": float(gaps.max()),
        "seconds": float(np.median([r["seconds"] for r in rows])),
        "several_minima_said": float(np.mean([r["several"] for r in rows])),
        "held_out": fresh.mean(axis=0).tolist(),
        "held_out_where_worse": fresh[worse].mean(axis=0).tolist() if worse.any() else None,
        "worse_by_kind": {k: int(sum(w for w, r in zip(worse, rows, strict=True) if r["kind"] == k)) for k in KINDS},
        "gaps": [round(float(g), 6) for g in gaps],
    }


def render(pieces: list[dict[str, Any]]) -> str:
    table = cells(pieces)
    commits = sorted({f"{p['machine']['commit']}, {p['machine']['date']}" for p in pieces})
    counts = sorted({c["problems"] for c in table})
    lines = [
        "# The linear solver beside ten random starts",
        "",
        "Made by `python benchmarks/solver_gaps.py` from `benchmarks/records/solver_gaps.jsonl` (commit "
        f"{'; '.join(commits)}): {' or '.join(map(str, counts))} random problems a row, ten kinds of weak label, "
        "forward loss. Worse: the objective is more than .001 above the best of ten random starts. Held-out risk: mean "
        "of `-log (T p)_y` on 1000 fresh rows, of the solver's model and of the best random start's.",
        "",
        "`default` is the classifier's own penalty, by rows and features; `3e-4` was the default once. The row "
        "`from zero` is the solver as it was: from zero scores, intercepts free.",
        "",
        "| rows | penalty | solver | worse % | better % | median ms | fresh rows: ours, best of ten | where worse |",
        "| ---: | --- | --- | ---: | ---: | ---: | --- | --- |",
    ]
    for c in table:
        pair = ["-" if r is None else f"{r[0]:.4f}, {r[1]:.4f}" for r in (c["held_out"], c["held_out_where_worse"])]
        lines.append(
            f"| {c['n']} | {c['penalty']} | {c['solver']} | {100 * c['worse']:.1f} | {100 * c['better']:.1f} | "
            f"{1000 * c['seconds']:.1f} | {pair[0]} | {pair[1]} |"
        )
    at = {(c["n"], c["penalty"], c["solver"]): c for c in table}
    for n in SIZES:
        now, before = (at.get((n, "default", solver)) for solver in SOLVERS)
        if now and before:
            ratio = now["seconds"] / before["seconds"]
            lines += ["", f"{n} rows at the default penalty: {ratio:.1f} times the processor's time of `from zero`."]
    lines += [
        "",
        "Read the last two columns together with the first: a smaller objective is worth having only if fresh rows "
        "agree. Where the solver takes several starts (small problems) `WeakLabelClassifier.minima_` lists where they "
        "ended.",
    ]
    return "\n".join(lines) + "\n"


def keys(problems: int) -> list[dict[str, Any]]:
    """Pieces of ten problems, one of each kind; the largest ones first."""
    return [
        {"n": n, "penalty": penalty, "solver": solver, "first": first, "last": min(first + len(KINDS), problems)}
        for n in sorted(SIZES, reverse=True)
        for penalty in PENALTIES
        for solver in SOLVERS
        for first in range(0, problems, len(KINDS))
    ]


def page() -> str:
    """The page, from the record."""
    return render(read_pieces(RECORD))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--resume", action="store_true", help="keep the record's pieces, compute what is missing")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--render", action="store_true", help="only write the page again")
    args = parser.parse_args()
    if not args.render:
        run_pieces(piece, keys(args.problems), args.record, args.jobs, args.resume)
    if args.record == RECORD:
        PAGE.write_text(page())
        print("page:", PAGE)


if __name__ == "__main__":
    main()
