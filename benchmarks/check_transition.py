"""The test of T: does it hold its level where T is right, and does it speak up where T is wrong?

    OMP_NUM_THREADS=1 python benchmarks/check_transition.py [--data DIR] [--samples 400] [--jobs 16] [--resume]
    python benchmarks/check_transition.py --render     # docs/estimation/tests_of_T.md again, from the record alone

Level: labels are drawn from T and random class probabilities, with class shares from the middle of the simplex to its
faces; the share of samples with p < .05 is counted, from labels alone and with the true probabilities. Four wrong T:
cross-fitted linear models trained with a T that is wrong, and again with the right one; what `check_transition` says,
the weak accuracy, its sensitivity, and the true accuracy, which no user has.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _pieces import read_pieces, run_pieces, totals
from _protocol import RECORDS
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

import tproper as tp
from tproper_lab.datasets import DataError, read_mnist

ROOT = Path(__file__).parent.parent
RECORD = RECORDS / "check_transition.jsonl"
BLOCK = 10  # samples a piece
PAGE = ROOT / "docs" / "estimation" / "tests_of_T.md"


def random_columns(K: int, M: int, seed: int) -> tp.Transition:
    noise = np.random.default_rng(seed).dirichlet(np.ones(M), K).T
    return tp.Transition(0.6 * np.eye(M)[:, :K] + 0.4 * noise)


FAMILIES: dict[str, Callable[[], tp.Transition]] = {
    "symmetric noise, 4 classes, .3": lambda: tp.symmetric_noise(4, 0.3),
    "pair noise, 5 classes, .3": lambda: tp.pair_noise(5, 0.3),
    "random columns, 4 classes": lambda: random_columns(4, 4, 0),
    "random columns, 6 labels of 3 classes": lambda: random_columns(3, 6, 1),
    "binary noise .3, .1": lambda: tp.binary_noise(0.3, 0.1),
    "complementary, 5 classes": lambda: tp.complementary(5),
    "positive-unlabeled, r = .4": lambda: tp.positive_unlabeled(0.4),
    "partial labels, 5 classes, .3": lambda: tp.partial_labels(5, 0.3),
    "2 of 6 classes excluded": lambda: tp.multi_complementary(6, 2),
    "three sources": lambda: tp.multi_source(
        [tp.symmetric_noise(4, 0.3), tp.pair_noise(4, 0.2), tp.complementary(4)], [0.5, 0.3, 0.2]
    ),
    "coarse labels": lambda: tp.coarse_labels([[0, 1], [2], [3, 4]]),
}


def draw_problem(K: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities from flat to nearly certain, with uneven class shares, and classes drawn from them."""
    shares = rng.dirichlet(np.ones(K))
    p = rng.dirichlet(shares * rng.uniform(0.5, 3) * K * 0.3 + 0.01, n)
    p /= p.sum(axis=1, keepdims=True)
    return p, np.minimum((p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), K - 1)


CLEAN = "T from 300 clean rows, 4 classes"


def level(family: str, first: int, sets: int, rows: int) -> dict[str, Any]:
    """How many samples have p < .05: labels alone, with the true probabilities, without tolerance, and each test."""
    T = random_columns(4, 4, 2) if family == CLEAN else FAMILIES[family]()
    out: dict[str, Any] = {"labels": 0, "with p": 0, "no tolerance": 0, "tests": {}}
    for seed in range(first, first + sets):
        rng = np.random.default_rng([seed, len(family)])
        p, z = draw_problem(T.num_classes, rows, rng)
        y = T.sample(z, rng)
        used = T
        if family == CLEAN:
            clean = rng.integers(0, T.num_classes, 300)
            counts = np.zeros((T.num_weak_labels, T.num_classes))
            np.add.at(counts, (T.sample(clean, rng), clean), 1)
            used = tp.Transition.from_counts(counts)
        check = tp.check_transition(y, used, p, tolerance=0, random_state=seed)
        out["labels"] += int(tp.check_transition(y, used).p_value < 0.05)
        out["with p"] += int(tp.check_transition(y, used, p, random_state=seed).p_value < 0.05)
        out["no tolerance"] += int(check.p_value < 0.05)
        for t in check.tests:
            out["tests"][t.name] = out["tests"].get(t.name, 0) + int(t.p_value < 0.05)
    return out


# Four wrong T.


def cross_fitted(X: np.ndarray, y: np.ndarray, T: tp.Transition, l2: float) -> np.ndarray:
    p = np.empty((len(X), T.num_classes))
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        scale = StandardScaler().fit(X[train])
        model = tp.WeakLabelClassifier(T, l2=l2, random_state=0, classes=list(range(T.num_classes)))
        p[test] = model.fit(scale.transform(X[train]), y[train]).predict_proba(scale.transform(X[test]))
    return p


def annotators_case() -> dict[str, Any]:
    X, z = make_classification(
        4000, 10, n_informative=6, n_classes=4, n_clusters_per_class=1, class_sep=1.2, random_state=1
    )
    rng = np.random.default_rng(0)
    mats = []
    for wrong in (0.15, 0.35, 0.5):  # each annotator takes one class for a certain other one, and errs little elsewhere
        target = rng.integers(1, 4, 4)
        T = np.zeros((4, 4))
        rates = np.clip(wrong * np.array([1.8, 0.3, 1.2, 0.7]), 0, 0.8)
        for k in range(4):
            T[k, k] = 1 - rates[k]
            T[(k + target[k]) % 4, k] = rates[k]
        mats.append(tp.Transition(T))
    right = tp.multi_source(mats)
    wrong_T = tp.multi_source([tp.symmetric_noise(4, 1 - float(np.diag(t.matrix()).mean())) for t in mats])
    y = right.sample(z, np.random.default_rng(1))
    return {"X": X, "z": z, "y": y, "right": right, "wrong": wrong_T, "l2": 1e-3}


def cancer_case() -> dict[str, Any]:
    X, z = load_breast_cancer(return_X_y=True)
    right = tp.binary_noise(0.45, 0.05)
    return {
        "X": X,
        "z": z,
        "y": right.sample(z, np.random.default_rng(3)),
        "right": right,
        "wrong": tp.symmetric_noise(2, 0.25),
        "l2": 3e-2,
    }


def mnist_case(directory: Path, error: float, rows: int = 10_000) -> dict[str, Any]:
    data = read_mnist(directory)
    X = data.train_images[:rows].reshape(rows, -1) / 255.0
    X = X[:, X.std(axis=0) > 0.02]
    z = (data.train_labels[:rows] % 2).astype(np.int64)  # even is positive
    prior = float((z == 0).mean())
    y = tp.positive_unlabeled(0.3).sample(z, np.random.default_rng(5))
    labeled = int((y == 0).sum())
    right = tp.positive_unlabeled(prior=prior, labeled=labeled, n=rows)
    wrong = tp.positive_unlabeled(prior=prior + error, labeled=labeled, n=rows)
    return {"X": X, "z": z, "y": y, "right": right, "wrong": wrong, "l2": 3e-2}


def say(case: dict[str, Any], T: tp.Transition) -> dict[str, Any]:
    p = cross_fitted(case["X"], case["y"], T, case["l2"])
    predicted = p.argmax(axis=1)
    check = tp.check_transition(case["y"], T, p)
    score = tp.weak_accuracy(case["y"], predicted, T)
    moved = tp.sensitivity("accuracy", case["y"], predicted, T)
    truth = float((predicted == case["z"]).mean())
    return {
        "true accuracy": truth,
        "claimed": score.shown,
        "interval": list(score.interval),
        "covered": bool(score.interval[0] <= truth <= score.interval[1]),
        "check": check.to_dict(),
        "text": str(check),
        "warned": not check.plausible,
        "confirmed": check.confirmed,
        "sensitivity": moved.to_dict(),
        "sentence": str(moved),
        "contains": bool(moved.ranges[0.1][0] <= truth <= moved.ranges[0.1][1]),
    }


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "three annotators of four classes taken for symmetric": lambda _: annotators_case(),
    "breast cancer, one skewed annotator taken for symmetric": lambda _: cancer_case(),
    "MNIST even or odd, PU, the prior .1 too high": lambda directory: mnist_case(directory, 0.1),
    "MNIST even or odd, PU, the prior .1 too low": lambda directory: mnist_case(directory, -0.1),
}


def piece(directory: str, **key: Any) -> dict[str, Any]:
    """A block of samples of a family, or one wrong T beside the right one."""
    if "family" in key:
        return level(**key)
    case = CASES[key["case"]](Path(directory))
    return {kind: say(case, case[kind]) for kind in ("wrong", "right")}


def share(count: int | None, sets: int) -> str:
    """How often p < .05; bold where that is more than the level and two standard errors."""
    if count is None:
        return "-"
    text = f"{count / sets:.3f}"
    return f"**{text}**" if count / sets > 0.05 + 2 * (0.05 * 0.95 / sets) ** 0.5 else text


def render(pieces: list[dict[str, Any]]) -> str:
    levels = totals([p for p in pieces if "family" in p["key"]], ["rows", "family"])
    order = [*FAMILIES, CLEAN]
    n = " or ".join(sorted({str(rows) for rows, _ in levels}))
    samples = min(t["sets"] for t in levels.values())
    wrong = sorted((p for p in pieces if "case" in p["key"]), key=lambda p: list(CASES).index(p["key"]["case"]))
    rate, family, of = max((r[k] / r["sets"], f, k) for (_, f), r in levels.items() for k in ("labels", "with p"))
    missed = [p["key"]["case"] for p in wrong if not p["result"]["wrong"]["warned"]]
    lines = [
        "# Tests of T",
        "",
        f"The worst first: a right T is rejected most often, in {100 * rate:.1f}% of samples at level 5%, for {family}"
        f" ({'labels alone' if of == 'labels' else of}); of the four wrong T below {len(missed)} "
        f"{'is' if len(missed) == 1 else 'are'} not warned of" + (f" ({'; '.join(missed)})." if missed else "."),
        "",
        "`tp.check_transition(labels, T, probabilities)` asks whether labels may come from T, `tp.sensitivity` how far",
        "a score moves when T's rates move. Written by `benchmarks/check_transition.py` from its record.",
        "",
        "## Level",
        "",
        f"Share of {samples} samples of {n} labels with p < .05 where T is right (standard error at .05: "
        f"{(0.05 * 0.95 / samples) ** 0.5:.3f}). A test that cannot refute T inside of the hull of its columns rejects "
        "in fewer than 5% of samples; none may reject in more (bold: by more than two standard errors). The model may "
        "be off in calibration by up to .05, which the true probabilities do not need: the columns on the right are "
        "without that tolerance, all tests together "
        "and one by one.",
        "",
        "| T | labels alone | with probabilities | no tolerance | shares in groups | match with T p | within a class |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (_, family), r in sorted(levels.items(), key=lambda x: (x[0][0], order.index(x[0][1]))):
        names = ("label shares in groups of predictions", "match with T p", "noise within a class")
        counts = [r["labels"], r["with p"], r["no tolerance"], *(r["tests"].get(name) for name in names)]
        lines.append(f"| {family} | {' | '.join(share(count, r['sets']) for count in counts)} |")
    lines += ["", "## Four wrong T", ""]
    lines += [
        "| case | T | true accuracy | claimed (95%) | warned | p | range at .1 holds the truth | labels confirm T |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for p in wrong:
        for kind in ("wrong", "right"):
            r, case = p["result"][kind], p["key"]["case"]
            low, high = r["interval"]
            yes = ["yes" if r[k] else "no" for k in ("warned", "contains", "confirmed")]
            lines.append(
                f"| {case} | {kind} | {r['true accuracy']:.3f} | {r['claimed']:.3f} ({low:.3f} to {high:.3f}) | "
                f"{yes[0]} | {r['check']['p_value']:.2g} | {yes[1]} | {yes[2]} |"
            )
    for p in wrong:
        lines += ["", f"### {p['key']['case']}", ""]
        for kind in ("wrong", "right"):
            r = p["result"][kind]
            lines += [f"With the {kind} T:", "", "```", r["text"], r["sentence"], "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def keys(args: argparse.Namespace) -> list[dict[str, Any]]:
    """What was asked for, the longest pieces first."""
    out: list[dict[str, Any]] = []
    if args.only != "level":
        out = [{"case": name} for name in CASES]
        try:
            read_mnist(args.data)
        except DataError as error:
            print(f"NO MNIST, its cases are left out: {error}", file=sys.stderr)
            out = [key for key in out if not key["case"].startswith("MNIST")]
    if args.only != "wrong":
        firsts = range(0, args.samples, BLOCK)
        out += [
            {"family": family, "first": first, "sets": BLOCK, "rows": args.rows}
            for family in [*FAMILIES, CLEAN]
            for first in firsts
        ]
    return out


def page() -> str:
    """The page, from the record."""
    return render(read_pieces(RECORD))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where MNIST lies")
    parser.add_argument("--samples", type=int, default=400, help=f"a family, a multiple of {BLOCK}")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--resume", action="store_true", help="keep the record's pieces, compute what is missing")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    parser.add_argument("--only", choices=["level", "wrong"], help="do one part, keep the other from the record")
    args = parser.parse_args()
    if not args.render:
        run_pieces(partial(piece, str(args.data)), keys(args), RECORD, args.jobs, args.resume, ("family", "case"))
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
    print("page:", PAGE)


if __name__ == "__main__":
    main()
