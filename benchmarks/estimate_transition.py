"""T from features without one clean row: how close, how accurate with it, how long; class shares and their intervals.

    OMP_NUM_THREADS=1 python benchmarks/estimate_transition.py --data DIR [--peer /path/to/python] [--seeds 3]
    python benchmarks/estimate_transition.py --render     # docs/estimation/clean_and_features.md again, from the record

Digits (1,200 rows) and MNIST (the first 10,000), linear, with symmetric noise .3, pair noise .3, and random columns
with errors of .1 to .5. Accuracy is that of `WeakLabelClassifier` (forward loss, default l2) on clean test labels, with
the true T and with the estimate. The peer is cleanlab's confident joint on cross-validated probabilities of a logistic
regression of the same rows (5 folds); `--peer` names an interpreter that has it. A fit is one of `WeakLabelClassifier`
with the true T. Times are processor seconds, medians of five on digits.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _protocol import RECORDS, median, store
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import tproper as tp
from tproper.lab.datasets import load

ROOT = Path(__file__).parent.parent
NAME, PAGE = "estimate_transition", ROOT / "docs" / "estimation" / "clean_and_features.md"
PEER = """
import sys, numpy as np
from cleanlab.count import estimate_py_and_noise_matrices_from_probabilities as estimate
z = np.load(sys.argv[1])
np.save(sys.argv[2], estimate(z["labels"], z["probabilities"])[1])
"""


def random_columns(K: int, seed: int) -> tp.Transition:
    rng = np.random.default_rng(100 + seed)
    T = np.zeros((K, K))
    for z in range(K):
        wrong = rng.uniform(0.1, 0.5)
        T[np.arange(K) != z, z] = wrong * rng.dirichlet(np.ones(K - 1))
        T[z, z] = 1 - wrong
    return tp.Transition(T)


KINDS = {
    "symmetric .3": lambda seed: tp.symmetric_noise(10, 0.3),
    "pair .3": lambda seed: tp.pair_noise(10, 0.3),
    "random columns": lambda seed: random_columns(10, seed),
    "complementary": lambda seed: tp.complementary(10),
}


def datasets(directory: Path) -> dict[str, tuple[np.ndarray, ...]]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16, y[order]
    m = load("mnist", directory)
    flat = [a.reshape(len(a), -1) / 255.0 for a in (m.train_images[:10_000], m.test_images)]
    return {
        "digits": (X[:1200], y[:1200], X[1200:], y[1200:]),
        "MNIST": (flat[0], m.train_labels[:10_000], flat[1], m.test_labels),
    }


def distance(A: np.ndarray, B: np.ndarray) -> float:
    return float(np.abs(A - B).sum(axis=0).mean())


def confident_joint(peer: str, X: np.ndarray, weak: np.ndarray) -> np.ndarray:
    """cleanlab's P(label | class), in its own interpreter."""
    model = LogisticRegression(C=1 / (1e-3 * len(X)), max_iter=100)
    p = cross_val_predict(model, X, weak, cv=5, method="predict_proba")
    with tempfile.TemporaryDirectory() as folder:
        given, back = f"{folder}/in.npz", f"{folder}/out.npy"
        np.savez(given, labels=weak, probabilities=p)
        subprocess.run([peer, "-c", PEER, given, back], check=True)
        return np.load(back)


def timed(call: Any, repeats: int) -> tuple[Any, list[float]]:
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        out = call()
        seconds.append(time.process_time() - start)
    return out, seconds


def one(data: tuple[np.ndarray, ...], kind: str, seed: int, peer: str | None) -> dict[str, Any]:
    X, y, X_test, y_test = data
    T = KINDS[kind](seed)
    weak = T.sample(y, 1000 + seed)
    repeats = 5 if len(X) < 5000 else 1
    known, fit = timed(lambda: tp.WeakLabelClassifier(T).fit(X, weak), repeats)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        estimate, own = timed(lambda: tp.estimate_transition(weak, X=X), repeats)
    learned = tp.WeakLabelClassifier(estimate).fit(X, weak)
    low, high = estimate.interval()
    inside = (low <= T.matrix()) & (T.matrix() <= high)
    row: dict[str, Any] = {
        "kind": kind,
        "seed": seed,
        "accuracy_known": float((known.predict(X_test) == y_test).mean()),
        "accuracy_estimated": float((learned.predict(X_test) == y_test).mean()),
        "accuracy_own_classifier": float((estimate.classifier.predict(X_test) == y_test).mean()),
        "l1": distance(estimate.matrix(), T.matrix()),
        "coverage": float(inside[T.matrix() > 0.02].mean()),
        "fit_seconds": fit,
        "estimate_seconds": own,
        "warnings": sorted({str(w.message) for w in seen if issubclass(w.category, tp.IdentifiabilityWarning)}),
    }
    if peer is not None and kind != "complementary":
        row["l1_confident_joint"] = distance(confident_joint(peer, X, weak), T.matrix())
    return row


SHARES = {
    "two classes": (np.array([[0.9, 0.2], [0.1, 0.8]]), [0.3, 0.7]),
    "symmetric, 3 classes": (tp.symmetric_noise(3, 0.3).matrix(), [0.5, 0.3, 0.2]),
    "random columns, 4 classes": (None, [0.4, 0.3, 0.2, 0.1]),
    "pair, 5 classes": (tp.pair_noise(5, 0.3).matrix(), [0.3, 0.25, 0.2, 0.15, 0.1]),
}


def prevalence(name: str, n: int, clean: int, repeats: int) -> dict[str, Any]:
    """How often the intervals of class shares hold the truth, with T from `clean` rows (0: T known)."""
    matrix, shares = SHARES[name]
    pi = np.array(shares)
    T = random_columns(len(pi), 0) if matrix is None else tp.Transition(matrix)
    rng = np.random.default_rng(n + clean)
    ours, plain = [], []
    for r in range(repeats):
        y = T.sample(rng.choice(len(pi), n, p=pi), rng)
        if clean:
            z = rng.integers(len(pi), size=clean)
            counts = np.zeros((T.num_weak_labels, len(pi)))
            np.add.at(counts, (T.sample(z, rng), z), 1)
            used: tp.Transition = tp.Transition.from_counts(counts)
            low, high = tp.weak_prevalence(y, tp.Transition(used.matrix()), seed=r).interval.T
            plain.append(np.mean((low <= pi) & (pi <= high)))
        else:
            used = T
        low, high = tp.weak_prevalence(y, used, seed=r).interval.T
        ours.append(np.mean((low <= pi) & (pi <= high)))
    row = {"case": name, "labels": n, "clean": clean, "repeats": repeats, "coverage": float(np.mean(ours))}
    return row | {"coverage_without_T": float(np.mean(plain)) if plain else None}


def render(record: dict[str, Any]) -> str:
    m = record["machine"]
    lines = [
        "# T from clean rows and features",
        "",
        f"Made by `python benchmarks/{NAME}.py` from `benchmarks/records/{NAME}.json` (commit {m['commit']}, "
        f"{m['date']}, {m['cpu']}, one thread).",
        "",
        "## T from features, no clean row",
        "",
        "`tp.estimate_transition(weak, X=X)`. Accuracy on clean test labels of `WeakLabelClassifier`, forward loss, "
        "with the true T and with the estimate; L1 is the mean over columns of the absolute error of T, beside that of "
        "cleanlab's confident joint; time in fits of `WeakLabelClassifier`. "
        f"Means over {record['seeds']['digits']} seeds on digits and {record['seeds']['MNIST']} on MNIST, worst one in "
        "brackets.",
        "",
        "| data | noise | accuracy, true T | estimated T | difference, points | L1 | L1 cleanlab | time, fits | "
        "95% intervals hold |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, rows in record["features"].items():
        for kind in KINDS:
            same = [r for r in rows if r["kind"] == kind]
            gap = [100 * (r["accuracy_estimated"] - r["accuracy_known"]) for r in same]
            ratio = [median(r["estimate_seconds"]) / median(r["fit_seconds"]) for r in same]
            theirs = [r["l1_confident_joint"] for r in same if "l1_confident_joint" in r]

            def mean(key: str, same: list[dict[str, Any]] = same) -> float:
                return float(np.mean([r[key] for r in same]))

            peer = f"{np.mean(theirs):.3f} ({min(theirs):.3f})" if theirs else "-"
            lines.append(
                f"| {name} | {kind} | {100 * mean('accuracy_known'):.1f} | {100 * mean('accuracy_estimated'):.1f} | "
                f"{np.mean(gap):+.1f} ({min(gap):+.1f}) | "
                f"{mean('l1'):.3f} ({max(r['l1'] for r in same):.3f}) | {peer} | "
                f"{np.mean(ratio):.1f} ({max(ratio):.1f}) | {100 * mean('coverage'):.0f}% |"
            )
    lines += [
        "",
        "For cleanlab the best seed stands in brackets.",
        "",
        "## Class shares",
        "",
        "`tp.weak_prevalence`: how often the 95% intervals hold the true shares, with T from clean rows, and with the "
        "same T taken as known (what an interval that forgets T's error gives).",
        "",
        "| T | weak labels | clean rows | coverage | T taken as known |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for r in record["prevalence"]:
        plain = "-" if r["coverage_without_T"] is None else f"{100 * r['coverage_without_T']:.1f}%"
        clean = r["clean"] or "T known"
        lines.append(f"| {r['case']} | {r['labels']} | {clean} | {100 * r['coverage']:.1f}% | {plain} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where MNIST lies")
    parser.add_argument("--peer", help="a Python interpreter that has cleanlab")
    parser.add_argument("--seeds", type=int, default=3, help="draws of labels on digits")
    parser.add_argument("--mnist-seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=300, help="simulated populations for each coverage")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    args = parser.parse_args()
    if not args.render:
        warnings.simplefilter("ignore", ConvergenceWarning)  # the peer's logistic regression stops at 100 iterations
        data = datasets(args.data)
        seeds = {"digits": args.seeds, "MNIST": args.mnist_seeds}
        features: dict[str, list[dict[str, Any]]] = {name: [] for name in data}
        for name, arrays in data.items():
            for kind in KINDS:
                for seed in range(seeds[name]):
                    features[name].append(one(arrays, kind, seed, args.peer))
                    r = features[name][-1]
                    print(name, kind, seed, f"L1 {r['l1']:.3f}", r.get("l1_confident_joint"), flush=True)
        shares = []
        for case in SHARES:
            for n, clean in ((1000, 0), (1000, 100), (1000, 300), (5000, 1000)):
                shares.append(prevalence(case, n, clean, args.repeats))
                print(shares[-1], flush=True)
        store(NAME, {"seeds": seeds, "features": features, "prevalence": shares})
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render(json.loads((RECORDS / f"{NAME}.json").read_text())))
    print("page:", PAGE)


if __name__ == "__main__":
    main()
