"""T from features without one clean row: how close, how accurate with it, how long; class shares and their intervals.

    OMP_NUM_THREADS=1 python benchmarks/estimate_transition.py --data DIR [--jobs 16] [--resume]
    OMP_NUM_THREADS=1 python benchmarks/estimate_transition.py --data DIR --parts peer     # where cleanlab is installed
    python benchmarks/estimate_transition.py --render     # docs/estimation/clean_and_features.md again, from the record

Digits (1,200 rows) and MNIST (the first 10,000), linear, with symmetric noise .3, pair noise .3, and random columns
with errors of .1 to .5. Accuracy is that of `WeakLabelClassifier` (forward loss, default l2) on clean test labels, with
the true T and with the estimate. The peer is cleanlab's confident joint on cross-validated probabilities of a logistic
regression of the same rows (5 folds). A fit is one of `WeakLabelClassifier` with the true T. Times are processor
seconds, medians of five on digits. The record has a line a piece: records of two environments are merged by putting
their lines into one file.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _pieces import read_pieces, run_pieces
from _protocol import RECORDS, median
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import tproper as tp
from tproper_lab.datasets import load

ROOT = Path(__file__).parent.parent
RECORD, PAGE = RECORDS / "estimate_transition.jsonl", ROOT / "docs" / "estimation" / "clean_and_features.md"


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


def arrays(name: str, directory: Path) -> tuple[np.ndarray, ...]:
    """Training and test rows."""
    if name == "MNIST":
        m = load("mnist", directory)
        flat = [a.reshape(len(a), -1) / 255.0 for a in (m.train_images[:10_000], m.test_images)]
        return flat[0], m.train_labels[:10_000], flat[1], m.test_labels
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16, y[order]
    return X[:1200], y[:1200], X[1200:], y[1200:]


def distance(A: np.ndarray, B: np.ndarray) -> float:
    return float(np.abs(A - B).sum(axis=0).mean())


def confident_joint(data: tuple[np.ndarray, ...], kind: str, seed: int) -> dict[str, float]:
    """The distance of cleanlab's P(label | class)."""
    from cleanlab.count import estimate_py_and_noise_matrices_from_probabilities as estimate

    warnings.simplefilter("ignore", ConvergenceWarning)  # the logistic regression stops at 100 iterations
    X, y = data[:2]
    T = KINDS[kind](seed)
    weak = T.sample(y, np.random.default_rng(1000 + seed))
    model = LogisticRegression(C=1 / (1e-3 * len(X)), max_iter=100)
    p = cross_val_predict(model, X, weak, cv=5, method="predict_proba")
    return {"l1": distance(estimate(weak, p)[1], T.matrix())}


def timed(call: Any, repeats: int) -> tuple[Any, list[float]]:
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        out = call()
        seconds.append(time.process_time() - start)
    return out, seconds


def one(data: tuple[np.ndarray, ...], kind: str, seed: int) -> dict[str, Any]:
    """With the true T and with the estimate."""
    X, y, X_test, y_test = data
    T = KINDS[kind](seed)
    weak = T.sample(y, np.random.default_rng(1000 + seed))
    repeats = 5 if len(X) < 5000 else 1
    known, fit = timed(lambda: tp.WeakLabelClassifier(T).fit(X, weak), repeats)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        estimate, own = timed(lambda: tp.estimate_transition(weak, X=X), repeats)
    learned = tp.WeakLabelClassifier(estimate).fit(X, weak)
    low, high = estimate.interval()
    inside = (low <= T.matrix()) & (T.matrix() <= high)
    return {
        "accuracy_known": float((known.predict(X_test) == y_test).mean()),
        "accuracy_estimated": float((learned.predict(X_test) == y_test).mean()),
        "accuracy_own_classifier": float((estimate.classifier.predict(X_test) == y_test).mean()),
        "l1": distance(estimate.matrix(), T.matrix()),
        "coverage": float(inside[T.matrix() > 0.02].mean()),
        "fit_seconds": fit,
        "estimate_seconds": own,
        "warnings": sorted({str(w.message) for w in seen if issubclass(w.category, tp.IdentifiabilityWarning)}),
    }


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
            low, high = tp.weak_prevalence(y, tp.Transition(used.matrix()), random_state=r).interval.T
            plain.append(np.mean((low <= pi) & (pi <= high)))
        else:
            used = T
        low, high = tp.weak_prevalence(y, used, random_state=r).interval.T
        ours.append(np.mean((low <= pi) & (pi <= high)))
    return {"coverage": float(np.mean(ours)), "coverage_without_T": float(np.mean(plain)) if plain else None}


def work(directory: str, part: str, **key: Any) -> dict[str, Any]:
    """A piece by its key."""
    if part == "shares":
        return prevalence(key["case"], key["labels"], key["clean"], key["repeats"])
    data = arrays(key["data"], Path(directory))
    return (confident_joint if part == "peer" else one)(data, key["kind"], key["seed"])


def keys(args: argparse.Namespace) -> list[dict[str, Any]]:
    """What was asked for, the longest pieces first."""
    out: list[dict[str, Any]] = []
    for part in args.parts:
        for data, seeds in (("MNIST", args.mnist_seeds), ("digits", args.seeds)) if part != "shares" else ():
            kinds = [k for k in KINDS if part == "ours" or k != "complementary"]
            out += [{"part": part, "data": data, "kind": k, "seed": s} for k in kinds for s in range(seeds)]
        if part == "shares":
            sizes = ((1000, 0), (1000, 100), (1000, 300), (5000, 1000))
            out += [
                {"part": part, "case": c, "labels": n, "clean": m, "repeats": args.repeats}
                for c in SHARES
                for n, m in sizes
            ]
    return out


def features_table(pieces: list[dict[str, Any]]) -> list[str]:
    """A row for each data set and kind of noise."""
    lines = []
    for data in ("digits", "MNIST"):
        for kind in KINDS:
            at = {"data": data, "kind": kind}
            same, peers = (
                [p["result"] for p in pieces if ({"part": part} | at).items() <= p["key"].items()]
                for part in ("ours", "peer")
            )
            if not same:
                continue
            gap = [100 * (r["accuracy_estimated"] - r["accuracy_known"]) for r in same]
            ratio = [median(r["estimate_seconds"]) / median(r["fit_seconds"]) for r in same]
            theirs = [r["l1"] for r in peers]
            mean = {k: float(np.mean([r[k] for r in same])) for k in ("accuracy_known", "accuracy_estimated", "l1")}
            peer = f"{np.mean(theirs):.3f} ({min(theirs):.3f})" if theirs else "-"
            warned = sum(bool(r["warnings"]) for r in same)
            lines.append(
                f"| {data} | {kind} | {len(same)} | {100 * mean['accuracy_known']:.1f} | "
                f"{100 * mean['accuracy_estimated']:.1f} | {np.mean(gap):+.1f} ({min(gap):+.1f}) | "
                f"{mean['l1']:.3f} ({max(r['l1'] for r in same):.3f}) | {peer} | "
                f"{np.mean(ratio):.1f} ({max(ratio):.1f}) | {100 * np.mean([r['coverage'] for r in same]):.0f}% | "
                f"{warned or '-'} |"
            )
    return lines


def render(pieces: list[dict[str, Any]]) -> str:
    """The page."""
    machines = sorted({f"commit {m['commit']}, {m['date']}, {m['cpu']}" for m in (p["machine"] for p in pieces)})
    shares = [p for p in pieces if p["key"]["part"] == "shares"]
    worst = min(shares, key=lambda p: float(p["result"]["coverage"]))
    noises: dict[str, list[float]] = {}
    for p in pieces:
        if p["key"]["part"] == "ours":
            noises.setdefault(f"{p['key']['data']}, {p['key']['kind']}", []).append(p["result"]["coverage"])
    hardest = min(noises, key=lambda name: float(np.mean(noises[name])))
    lines = [
        "# T from clean rows and features",
        "",
        f"The worst cells first: intervals of T from features hold {100 * np.mean(noises[hardest]):.0f}% of its "
        f"entries on {hardest}; intervals of class shares hold the truth in {100 * worst['result']['coverage']:.1f}% "
        f"of samples of {worst['key']['case']} ({worst['key']['labels']} labels, T from "
        f"{worst['key']['clean'] or 'no'} clean rows). "
        "Where features leave classes open, or the form of the classifier is wrong: [coverage](../coverage.md).",
        "",
        f"Made by `python benchmarks/estimate_transition.py` from `benchmarks/records/{RECORD.name}` "
        f"({'; '.join(machines)}; one thread).",
        "",
        "## T from features, no clean row",
        "",
        "`tp.estimate_transition(weak, X=X)`. Accuracy on clean test labels of `WeakLabelClassifier`, forward loss, "
        "with the true T and with the estimate; L1 is the mean over columns of the absolute error of T, beside that of "
        "cleanlab's confident joint; time in fits of `WeakLabelClassifier`. Means over seeds, the worst one in "
        "brackets (for cleanlab the best one). Warned: in how many seeds the estimate said that these data do not "
        "tell all of T.",
        "",
        "| data | noise | seeds | accuracy, true T | estimated T | difference, points | L1 | L1 cleanlab | "
        "time, fits | 95% intervals hold | warned |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *features_table(pieces),
        "",
        "## Class shares",
        "",
        "`tp.weak_prevalence`: how often the 95% intervals hold the true shares, with T from clean rows, and with the "
        "same T taken as known (what an interval that forgets T's error gives).",
        "",
        "| T | weak labels | clean rows | populations | coverage | T taken as known |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for p in pieces:
        k, r = p["key"], p["result"]
        if k["part"] == "shares":
            plain = "-" if r["coverage_without_T"] is None else f"{100 * r['coverage_without_T']:.1f}%"
            clean = k["clean"] or "T known"
            lines.append(
                f"| {k['case']} | {k['labels']} | {clean} | {k['repeats']} | {100 * r['coverage']:.1f}% | {plain} |"
            )
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page, from the record."""
    return render(read_pieces(RECORD))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where MNIST lies")
    parser.add_argument("--seeds", type=int, default=5, help="draws of labels on digits")
    parser.add_argument("--mnist-seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=1000, help="simulated populations for each coverage")
    parser.add_argument("--parts", nargs="+", choices=("ours", "peer", "shares"), default=["ours", "shares"])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--resume", action="store_true", help="keep the record's pieces, compute what is missing")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--render", action="store_true", help="only write the page again")
    args = parser.parse_args()
    if not args.render:
        run_pieces(partial(work, str(args.data)), keys(args), args.record, args.jobs, args.resume)
    if args.record == RECORD:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page())
        print("page:", PAGE)


if __name__ == "__main__":
    main()
