"""Boosted trees on weak labels beside scikit-learn's, on clean labels and on the weak ones taken for classes.

    OMP_NUM_THREADS=1 python benchmarks/boosting.py [--seeds 3] [--render]

Three tables of scikit-learn and a product of two features; 30% of the rows are held out and scored by their classes.
All models are used as they come. Time is the processor's, in one thread: of one fit beside LightGBM's own multiclass
objective with the same rounds and trees, and of the default with all that it does beside.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import lightgbm
import numpy as np
from _protocol import RECORDS, interleaved, machine, median, store
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import tproper as tp
from tproper import WeakLabelClassifier

ROOT = Path(__file__).parents[1]
RECORD, PAGE = RECORDS / "boosting.json", ROOT / "docs" / "boosting.md"
METHODS = ("weak", "naive", "clean")


def product(seed: int, n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """The class is the sign of a product: no linear model knows it."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


TABLES: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {
    "breast cancer": lambda seed: load_breast_cancer(return_X_y=True),
    "wine": lambda seed: load_wine(return_X_y=True),
    "digits": lambda seed: load_digits(return_X_y=True),
    "xor": product,
}


def naive_symmetric(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return y


def naive_sets(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One of the candidates, at random."""
    return np.where(y, rng.random(y.shape), -1.0).argmax(axis=1)


def naive_answers(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The answer that most gave; one of them at random in a tie."""
    votes = np.stack([(y == k).sum(axis=1) for k in range(int(y.max()) + 1)], axis=1)
    return (votes + rng.random(votes.shape)).argmax(axis=1)


# What the labels arise by, what the classifier is told of it, and the class that a label is taken for.
KINDS: dict[str, tuple[Callable[[int], Any], bool, Callable[..., np.ndarray]]] = {
    "noisy 30%": (lambda K: tp.symmetric_noise(K, 0.3), True, naive_symmetric),
    "complementary": (tp.complementary, True, naive_symmetric),
    "partial p=.3": (lambda K: tp.partial_labels(K, 0.3), True, naive_sets),
    "three annotators": (
        lambda K: tp.annotators([tp.symmetric_noise(K, p) for p in (0.2, 0.3, 0.4)]),
        False,
        naive_answers,
    ),
}


def scores(model: Any, X: np.ndarray, z: np.ndarray, K: int) -> dict[str, float]:
    """Log loss and accuracy; a class that the model has never seen has probability zero."""
    p = np.zeros((len(X), K))
    p[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(X)
    with np.errstate(divide="ignore"):
        losses = -np.log(p[np.arange(len(z)), z])
    return {"log_loss": float(losses.mean()), "accuracy": float((p.argmax(axis=1) == z).mean())}


def cell(table: str, kind: str, seed: int) -> dict[str, Any]:
    X, z = TABLES[table](seed)
    K = int(z.max()) + 1
    X, X_test, z, z_test = train_test_split(X, z, test_size=0.3, random_state=seed, stratify=z)
    make, told, taken = KINDS[kind]
    T = make(K)
    y = T.sample(z, seed)
    begun = time.process_time()
    weak = WeakLabelClassifier(T if told else "estimate", model="boosting", random_state=seed).fit(X, y)
    seconds = time.process_time() - begun
    rng = np.random.default_rng(seed)
    models = {
        "weak": weak,
        "naive": HistGradientBoostingClassifier(random_state=seed).fit(X, taken(np.asarray(y), rng)),
        "clean": HistGradientBoostingClassifier(random_state=seed).fit(X, z),
    }
    out = {name: scores(model, X_test, z_test, K) for name, model in models.items()}
    out["weak"] |= {"rounds": int(weak.n_iter_), "seconds": seconds}
    print(table, kind, seed, {name: round(values["log_loss"], 3) for name, values in out.items()}, flush=True)
    return {"table": table, "kind": kind, "seed": seed, "rows": len(z), "classes": K} | out


def speed(table: str, kind: str, repeats: int) -> dict[str, Any]:
    """Seconds of LightGBM's own objective, of one fit of ours with the same rounds and trees, and of the default."""
    X, z = TABLES[table](0)
    K = int(z.max()) + 1
    make, _, taken = KINDS[kind]
    T = make(K)
    y = T.sample(z, 0)
    labels = taken(np.asarray(y), np.random.default_rng(0))
    fitted = WeakLabelClassifier(T, model="boosting").fit(X, y)
    tree = fitted.module_.booster.dump_model(num_iteration=1)
    leaves = max(t["num_leaves"] for t in tree["tree_info"])
    rows = next(line for line in fitted.module_.text.splitlines() if line.startswith("[min_data_in_leaf: "))
    params = {
        "objective": "multiclass",
        "num_class": K,
        "num_leaves": 15,
        "learning_rate": fitted.learning_rate_,
        "min_data_in_leaf": int(rows.split(":")[1].strip(" ]")),
        "lambda_l2": fitted.l2_,
        "deterministic": True,
        "force_col_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    same = {"max_iter": fitted.n_iter_, "early_stopping": False, "calibrate": False}
    cases = {
        "lightgbm": lambda: lightgbm.train(params, lightgbm.Dataset(X, labels), fitted.n_iter_),
        "one fit": lambda: WeakLabelClassifier(T, model="boosting", **same).fit(X, y),
        "default": lambda: WeakLabelClassifier(T, model="boosting").fit(X, y),
    }
    seconds = interleaved(cases, repeats, warmup=1, clock=time.process_time)
    middle = {name: median(values) for name, values in seconds.items()}
    print(table, kind, fitted.n_iter_, middle, flush=True)
    return {"table": table, "kind": kind, "rounds": fitted.n_iter_, "leaves": leaves, "seconds": seconds}


# Every loss that the classifier knows by its name, and backward losses of the other potentials.
LOSSES: dict[str, dict[str, Any]] = {
    "forward, log score": {"loss": "forward"},
    "forward, Brier score": {"loss": "forward:brier"},
    "forward-backward": {"loss": "forward_backward"},
    "BC: backward cross entropy": {"loss": "backward"},
    "BC+gLS: squeezed, k = 1, alpha = 2": {"loss": "gls"},
    "backward, Brier": {"loss": "backward", "potential": "brier"},
    "backward, spherical (simplex)": {"loss": "backward", "potential": "spherical:simplex"},
    "backward, Tsallis 1.5": {"loss": "backward", "potential": "tsallis:1.5"},
    "BC+GA: gradient ascent": {"loss": "ga"},
    "non-negative": {"loss": "nonnegative"},
}
OF_LOSSES = [("breast cancer", "noisy 30%"), ("digits", "noisy 30%"), ("digits", "complementary")]
ROUNDS = 200  # at most, the same for every loss


def of_loss(table: str, kind: str, name: str, seed: int) -> dict[str, Any]:
    """Scores of trees grown on one loss."""
    X, z = TABLES[table](seed)
    K = int(z.max()) + 1
    X, X_test, z, z_test = train_test_split(X, z, test_size=0.3, random_state=seed, stratify=z)
    T = KINDS[kind][0](K)
    settings = LOSSES[name] | {"model": "boosting", "max_iter": ROUNDS, "random_state": seed}
    model = WeakLabelClassifier(T, **settings).fit(X, T.sample(z, seed))
    certificate = model.certificate_
    out = {"table": table, "kind": kind, "loss": name, "seed": seed, "proper": certificate.proper}
    out |= {"bounded": certificate.lower_bounded, "rounds": int(model.n_iter_)} | scores(model, X_test, z_test, K)
    print(table, kind, name, seed, round(out["log_loss"], 3), out["rounds"], flush=True)
    return out


def of_losses(record: dict[str, Any]) -> list[str]:
    """The section on losses."""
    found = record["losses"]
    blocks = list(dict.fromkeys((c["table"], c["kind"]) for c in found))
    seeds = len({c["seed"] for c in found})
    lines = [
        "",
        "## Which losses",
        "",
        f"All of them. Means over {seeds} splits with at most {ROUNDS} rounds, calibrated, nothing tuned; log loss and "
        "accuracy by the true classes. Trees follow the gradient of whatever loss they are given: what a loss promises "
        "(`tp.certify`) holds for them as for other models.",
        "",
        "| loss | T-proper | bounded | " + " | ".join(f"{t}, {k}: log loss | accuracy" for t, k in blocks) + " |",
        "| --- | --- | --- |" + " ---: | ---: |" * len(blocks),
    ]
    for name in dict.fromkeys(c["loss"] for c in found):
        own = [c for c in found if c["loss"] == name]
        shown = []
        for block in blocks:
            at = [c for c in own if (c["table"], c["kind"]) == block]
            shown += [f"{fmean(c['log_loss'] for c in at):.3f}", f"{100 * fmean(c['accuracy'] for c in at):.1f}"]
        said = ["yes" if all(c[what] for c in own) else "no" for what in ("proper", "bounded")]
        lines.append(f"| {name} | {said[0]} | {said[1]} | " + " | ".join(shown) + " |")
    return lines


def render(record: dict[str, Any]) -> str:
    cells = record["cells"]
    seeds = len({c["seed"] for c in cells})
    at = record["machine"]
    below = sum(mean_of(cells, t, k, "weak") < mean_of(cells, t, k, "naive") for t, k in blocks(cells))
    lines = [
        "# Boosted trees on weak labels",
        "",
        "Made by `python benchmarks/boosting.py` from `benchmarks/records/boosting.json` "
        f"(commit {at['commit']}, {at['date']}).",
        "",
        '`WeakLabelClassifier(model="boosting")` beside scikit-learn\'s `HistGradientBoostingClassifier`, which is '
        "given the weak labels as if they were classes (of a candidate set one candidate at random, of three answers "
        "the one that most gave), and the clean labels. All as they come, nothing tuned; T is known, that of the "
        f"annotators (wrong 20, 30 and 40% of the time) is estimated. Means over {seeds} splits, 30% of the rows held "
        "out; log loss and accuracy by the true classes.",
        "",
        "| table, labels | rows, classes | log loss: ours | labels taken for classes | clean labels | ours over clean "
        "| accuracy: ours | taken for classes | clean | rounds |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for table, kind in blocks(cells):
        first = next(c for c in cells if (c["table"], c["kind"]) == (table, kind))
        loss = [mean_of(cells, table, kind, m) for m in METHODS]
        right = [100 * mean_of(cells, table, kind, m, "accuracy") for m in METHODS]
        shown = " | ".join(f"{v:.3f}" for v in (*loss, loss[0] - loss[2]))
        rounds = mean_of(cells, table, kind, "weak", "rounds")
        lines.append(
            f"| {table}, {kind} | {first['rows']:,}, {first['classes']} | {shown} | "
            + " | ".join(f"{v:.1f}" for v in right)
            + f" | {rounds:.0f} |"
        )
    worst = max((mean_of(cells, *b, "weak") - mean_of(cells, *b, "clean"), b) for b in blocks(cells))
    lines += [
        "",
        f"The log loss is below that of labels taken for classes in {below} of {len(blocks(cells))} blocks. It is "
        f"furthest above that of clean labels, by {worst[0]:.2f}, on {', '.join(worst[1])}: trees need many labels "
        "where one says little of its class. " + no_better(cells),
        "",
        "## Time",
        "",
        "Processor seconds in one thread, medians; LightGBM's own multiclass objective with the same rounds, leaves "
        "and learning rate. The default grows five more models side by side, by which it chooses the rounds and "
        "calibrates.",
        "",
        "| table, labels | rounds | LightGBM's own | one fit of the same rounds | default | one fit, ratio "
        "| default, ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for s in record["speed"]:
        base, one, default = (median(s["seconds"][name]) for name in ("lightgbm", "one fit", "default"))
        lines.append(
            f"| {s['table']}, {s['kind']} | {s['rounds']} | {base:.2f} | {one:.2f} | {default:.2f} | "
            f"{one / base:.1f} | {default / base:.1f} |"
        )
    small = max(record["speed"], key=lambda s: median(s["seconds"]["default"]) / median(s["seconds"]["lightgbm"]))
    lines += [
        "",
        "Where a fit takes hundredths of a second, choosing the rounds (thirty are tried at least) and calibrating "
        f"take most of the time: the largest ratio, on {small['table']}, is of "
        f"{median(small['seconds']['default']):.2f} seconds.",
    ]
    return "\n".join(lines + of_losses(record)) + "\n"


def no_better(cells: list[dict[str, Any]]) -> str:
    """Where the model knows no more than equal shares of the classes."""
    classes = {(c["table"], c["kind"]): c["classes"] for c in cells}
    worse = [", ".join(b) for b in blocks(cells) if mean_of(cells, *b, "weak") >= math.log(classes[b])]
    if not worse:
        return "It is below that of equal shares everywhere."
    return f"On {' and on '.join(worse)} it is above that of equal shares of the classes: take the linear model there."


def blocks(cells: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((c["table"], c["kind"]) for c in cells))


def mean_of(cells: list[dict[str, Any]], table: str, kind: str, method: str, what: str = "log_loss") -> float:
    return fmean(c[method][what] for c in cells if (c["table"], c["kind"]) == (table, kind))


def page() -> str:
    """The page, from the record."""
    return render(json.loads(RECORD.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3, help="of each timing")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--losses", action="store_true", help="only the losses, beside all else of the record")
    parser.add_argument("--speed", action="store_true", help="only the times, beside the scores of the record")
    parser.add_argument("--resume", action="store_true", help="keep the scores of the record, compute what is missing")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.losses:
        losses = [of_loss(*block, name, seed) for block in OF_LOSSES for name in LOSSES for seed in range(args.seeds)]
        store("boosting", json.loads(RECORD.read_text()) | {"machine": machine(), "losses": losses})
    elif not args.render:
        timed = [("digits", "noisy 30%"), ("digits", "partial p=.3"), ("wine", "noisy 30%"), ("xor", "noisy 30%")]
        seconds = [speed(*t, args.repeats) for t in timed if t[0] in args.tables]
        before = json.loads(RECORD.read_text())
        cells = before["cells"] if args.speed or args.resume else []
        known = {(c["table"], c["kind"], c["seed"]) for c in cells}
        for key in [] if args.speed else itertools.product(args.tables, KINDS, range(args.seeds)):
            if key not in known:
                cells.append(cell(*key))
                store("boosting", {"cells": cells, "speed": seconds, "losses": before["losses"]})
        store("boosting", {"cells": cells, "speed": seconds, "losses": before["losses"]})
    PAGE.write_text(page())
    print("page:", PAGE)


if __name__ == "__main__":
    main()
