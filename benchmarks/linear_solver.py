"""The linear solver beside scikit-learn's LogisticRegression (lbfgs): the same data, the same objective, one run.

    OMP_NUM_THREADS=1 python benchmarks/linear_solver.py [--data DIR] [--rows 10000] [--rounds 3]

Clean labels (T = I): both solvers get the loosest tolerance of a ladder at which they reach the minimum of
``mean cross entropy + l2/2 ||W||^2`` to 1e-6 relative, then take turns at the clock. Weak labels: the same solver, at
the tolerance it needed for clean ones, with complementary labels for the same rows. MNIST's files are looked for in
DIR; without them the benchmark says so and runs on enlarged digits, a record of which has another name.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from _protocol import interleaved, median, store
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import tproper as tp
from tproper.learn.classifier import WeakLabelClassifier
from tproper_lab.datasets import DataError, read_mnist

LADDER = (1e-4, 5e-5, 2e-5, 1e-5, 5e-6, 2e-6, 1e-6, 5e-7, 2e-7)
GAP = 1e-6


def load(directory: Path, rows: int) -> tuple[str, np.ndarray, np.ndarray]:
    try:
        data = read_mnist(directory)
    except DataError as error:
        print(f"NO MNIST: {error}\nFALLING BACK to digits enlarged to 28 x 28 with noise", file=sys.stderr)
        images, labels = load_digits(return_X_y=True)
        rng = np.random.default_rng(0)
        pick = rng.integers(0, len(labels), rows)
        large = np.kron(images[pick].reshape(-1, 8, 8) / 16, np.ones((1, 3, 3)))
        large = np.pad(large, ((0, 0), (2, 2), (2, 2))) + 0.05 * rng.standard_normal((rows, 28, 28))
        return "digits enlarged", large.reshape(rows, -1), labels[pick]
    return "MNIST", data.train_images[:rows].reshape(rows, -1) / 255.0, data.train_labels[:rows]


def objective(X: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: np.ndarray, l2: float) -> float:
    scores = torch.as_tensor(X @ coef.T + intercept)
    cross_entropy = torch.nn.functional.cross_entropy(scores, torch.as_tensor(y))
    return float(cross_entropy) + l2 / 2 * float((coef**2).sum())


def compare(X: np.ndarray, y: np.ndarray, l2: float, rounds: int) -> dict:
    n = len(X)
    weak = tp.complementary(10).sample(y, np.random.default_rng(0))
    cases: dict[str, Callable[[float], object]] = {
        "scikit-learn": lambda tol: LogisticRegression(C=1 / (l2 * n), tol=tol, max_iter=5000).fit(X, y),
        "tproper": lambda tol: WeakLabelClassifier(l2=l2, tol=tol, max_iter=5000, calibrate=False).fit(X, y),
    }
    reached: dict[str, list[dict]] = {}
    tight = cases["tproper"](1e-8)
    best = objective(X, y, tight.coef_, tight.intercept_, l2)
    tolerance = {}
    for name, fit in cases.items():
        reached[name] = []
        for tol in LADDER:
            model = fit(tol)
            value = objective(X, y, model.coef_, model.intercept_, l2)
            best = min(best, value)
            iterations = int(np.max(model.n_iter_))
            reached[name].append({"tol": tol, "objective": value, "gap": value / best - 1, "iterations": iterations})
            tolerance[name] = tol
            if value <= best * (1 + GAP):
                break
        else:
            raise SystemExit(f"{name} did not reach the minimum to {GAP} relative")
    tol = tolerance["tproper"]

    def weakly(loss: str) -> Callable[[], object]:
        settings = {"l2": l2, "tol": tol, "max_iter": 5000, "calibrate": False}  # the solver alone
        return lambda: WeakLabelClassifier(tp.complementary(10), loss=loss, **settings).fit(X, weak)

    timed = {
        "scikit-learn, T = I": lambda: cases["scikit-learn"](tolerance["scikit-learn"]),
        "tproper, T = I": lambda: cases["tproper"](tol),
        "tproper, complementary, forward": weakly("forward"),
        "tproper, complementary, gls": weakly("gls"),
        "tproper, complementary, backward": weakly("backward"),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seconds = interleaved(timed, rounds, warmup=0)
    iterations = {
        "tproper, T = I": reached["tproper"][-1]["iterations"],
        "scikit-learn, T = I": reached["scikit-learn"][-1]["iterations"],
        **{name: int(timed[name]().n_iter_) for name in timed if "complementary" in name},
    }
    middle = {name: median(values) for name, values in seconds.items()}
    own = middle["tproper, T = I"]
    print(f"\nl2 = {l2:g}, minimum {best:.9f}, tolerances {tolerance}")
    for name, value in middle.items():
        print(f"  {name:<36}{value:8.3f} s   {iterations[name]:5d} iterations   {value / own:6.2f} x T = I")
    return {
        "l2": l2,
        "minimum": best,
        "reached": reached,
        "tolerance": tolerance,
        "seconds": seconds,
        "iterations": iterations,
        "warnings": sorted({str(w.message) for w in caught}),
        "ratio_to_scikit_learn": own / middle["scikit-learn, T = I"],
        "complementary_to_own": middle["tproper, complementary, forward"] / own,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parent.parent / "data", help="where MNIST lies")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--l2", type=float, nargs="+", default=[1e-4, 1e-3], help="1/rows is scikit-learn's C = 1")
    args = parser.parse_args()
    name, X, y = load(args.data, args.rows)
    print(
        f"{name}, {X.shape[0]} rows, {X.shape[1]} features, {torch.get_num_threads()} threads, median of {args.rounds}"
    )
    results = [compare(X, y, l2, args.rounds) for l2 in args.l2]
    record = "linear_solver" if name == "MNIST" else "linear_solver_digits"
    path = store(record, {"data": name, "rows": args.rows, "features": X.shape[1], "gap": GAP, "results": results})
    own = ", ".join(format(r["ratio_to_scikit_learn"], ".2f") for r in results)
    weak = ", ".join(format(r["complementary_to_own"], ".2f") for r in results)
    print(f"\nT = I: {own} of scikit-learn's time (at most 1)\ncomplementary: {weak} of the own T = I (at most 1.3)")
    print("record:", path)


if __name__ == "__main__":
    main()
