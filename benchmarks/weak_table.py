"""Every loss on every kind of weak label, chosen without and with clean labels, beside a fit that trusts the labels.

    OMP_NUM_THREADS=1 python benchmarks/weak_table.py [--data DIR] [--rows 4000] [--seeds 2]
    python benchmarks/weak_table.py --render        # docs/weak_table.md again, from the records alone

Linear models on digits and on the first `--rows` rows of MNIST, tested on clean labels that no fit or choice saw.
Settings (l2, and k for gLS; l2 and learning rate for GA) are chosen on a quarter of the training rows, twice: by weak
risk, ``-log (T p)_y`` after one temperature, and by clean accuracy (an oracle nobody has). Each model is scored as
trained and as the classifier calibrates it by default, with the training rows' weak labels alone. "naive" takes the
weak label for the class: a noisy label as it is, a random candidate of a partial label, "unlabeled" for negative, and
for a complementary label a random other class. cleanlab (CleanLearning around logistic regression) joins on noisy
labels where it is installed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _protocol import RECORDS, machine
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import tproper as tp
from tproper.lab.datasets import DataError, read_mnist
from tproper.learn.classifier import WeakLabelClassifier
from tproper.learn.scaling import calibrated_risks
from tproper.metrics import clean_scores

ROOT = Path(__file__).parent.parent
RECORD, PAGE = RECORDS / "weak_table.json", ROOT / "docs" / "weak_table.md"
L2 = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
BACKWARD_L2 = (1e-3, 1e-2, 1e-1, 1.0)  # targets of weak labels vary much: more is needed
GRIDS: dict[str, list[dict[str, Any]]] = {
    "forward": [{"loss": "forward", "l2": l2} for l2 in L2],
    # not bounded: cross-fits of it cost more than they tell
    "BC": [{"loss": "backward", "l2": l2, "max_iter": 300, "calibrate": False} for l2 in BACKWARD_L2],
    "BC+gLS": [{"loss": "gls", "squeeze": (k, 2.0), "l2": l2} for k in (0.1, 1.0) for l2 in BACKWARD_L2],
    "GA": [{"loss": "ga", "l2": l2, "learning_rate": lr, "epochs": 30} for lr in (1e-3, 1e-2) for l2 in (1e-4, 1e-2)],
}
KINDS = {
    "complementary": lambda: tp.complementary(10),
    "noisy 20%": lambda: tp.symmetric_noise(10, 0.2),
    "partial p=.3": lambda: tp.partial_labels(10, 0.3),
    "PU r=.5": lambda: tp.positive_unlabeled(0.5),
}
Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def datasets(directory: Path, rows: int) -> dict[str, Data]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16, y[order]
    out = {"digits": (X[:1200], y[:1200], X[1200:], y[1200:])}
    try:
        m = read_mnist(directory)
    except DataError as error:
        print(f"NO MNIST, that half of the table is left out: {error}", file=sys.stderr)
        return out
    flat = [a.reshape(len(a), -1) / 255.0 for a in (m.train_images[:rows], m.test_images)]
    return out | {f"MNIST ({rows} rows)": (flat[0], m.train_labels[:rows], flat[1], m.test_labels)}


def measure(p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    scores = clean_scores(y, p)
    return {name: scores[name] for name in ("accuracy", "log_loss", "ece")}


def trusting(kind: str, w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The class that someone who trusts the weak label would write down."""
    if kind == "complementary":
        return (w + rng.integers(1, 10, len(w))) % 10
    if w.ndim == 2:
        return (w * rng.random(w.shape)).argmax(axis=1)
    return w


def run(kind: str, data: Data, seed: int) -> list[dict[str, Any]]:
    X, y, X_test, y_test = data
    if kind.startswith("PU"):  # class 0 is positive: even digits
        y, y_test = y % 2, y_test % 2
    T = KINDS[kind]()
    weak = T.sample(y, seed)
    classes = list(range(T.num_classes))
    cut = len(y) * 3 // 4
    out: list[dict[str, Any]] = []
    for name, grid in GRIDS.items():
        start = time.perf_counter()
        tried = []
        for params in grid:
            settings = {"classes": classes, "random_state": seed, "calibrate": False, **params}
            model = WeakLabelClassifier(T, **settings).fit(X[:cut], weak[:cut])
            risks, _ = calibrated_risks(model._scores(X[cut:]), T.encode(weak[cut:]), T)
            tried.append({"weak": float(risks.mean()), **measure(model.predict_proba(X[cut:]), y[cut:])})
        weak_choice = int(np.argmin([t["weak"] for t in tried]))
        clean_choice = int(np.argmax([t["accuracy"] for t in tried]))
        for by, i in (("weak risk", weak_choice), ("clean labels", clean_choice)):
            model = WeakLabelClassifier(T, classes=classes, random_state=seed, **grid[i]).fit(X, weak)
            out += both({"method": name, "chosen by": by, "params": grid[i]}, model, X_test, y_test)
        print(f"    {name}: {time.perf_counter() - start:.1f} s, {out[-1]['accuracy']:.4f}", flush=True)
    plain = WeakLabelClassifier(T, classes=classes).fit(X, weak)
    out += both(
        {"method": "forward", "chosen by": "nothing: the default", "params": {"l2": plain.l2_}}, plain, X_test, y_test
    )
    rng = np.random.default_rng(seed)
    naive = WeakLabelClassifier(classes=classes, l2=1e-3, calibrate=False).fit(X, trusting(kind, weak, rng))
    out += both({"method": "naive", "chosen by": "-", "params": {"l2": 1e-3}}, naive, X_test, y_test)
    if kind.startswith("noisy"):
        try:
            from cleanlab.classification import CleanLearning
        except ImportError:
            print("    cleanlab is not installed: its row is left out", file=sys.stderr)
        else:
            inner = LogisticRegression(C=1 / (1e-3 * len(X)), max_iter=300)
            found = CleanLearning(inner, seed=seed, cv_n_folds=3).fit(X, weak)
            result = measure(found.predict_proba(X_test), y_test)
            out.append({"method": "cleanlab", "chosen by": "-", "params": {"l2": 1e-3}, "calibrated": "-", **result})
    return out


def both(row: dict[str, Any], model: WeakLabelClassifier, X: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    """The row as trained, and calibrated by the training rows' weak labels where the model can be."""
    calibrator, model.calibrator_ = model.calibrator_, None
    out = [row | {"calibrated": "no"} | measure(model.predict_proba(X), y)]
    if calibrator is not None and not any(note.startswith("not calibrated") for note in calibrator.notes):
        model.calibrator_ = calibrator
        out.append(row | {"calibrated": "yes", "map": calibrator.method} | measure(model.predict_proba(X), y))
    return out


def links(directory: Path, l2: float = 1e-3) -> dict[str, Any] | None:
    """gLS at k = 1 on all of MNIST, with its own link, and with the softmax that it is often read with."""
    try:
        m = read_mnist(directory)
    except DataError:
        return None
    X, X_test = (a.reshape(len(a), -1) / 255.0 for a in (m.train_images, m.test_images))
    T = tp.complementary(10)
    model = WeakLabelClassifier(T, loss="gls", squeeze=(1.0, 2.0), l2=l2, calibrate=False).fit(
        X, T.sample(m.train_labels, 0)
    )
    scores = model.decision_function(X_test)
    softmax = np.exp(scores - scores.max(axis=1, keepdims=True))
    softmax /= softmax.sum(axis=1, keepdims=True)
    own, other = measure(model.predict_proba(X_test), m.test_labels), measure(softmax, m.test_labels)
    return {"rows": len(X), "l2": l2, "own": own["ece"], "softmax": other["ece"], "accuracy": own["accuracy"]}


def render(record: dict[str, Any]) -> str:
    m = record["machine"]
    lines = [
        "# Weak labels, every loss",
        "",
        f"Made by `python benchmarks/weak_table.py` from `benchmarks/records/weak_table.json` (commit {m['commit']}, "
        f"{m['date']}); linear models, mean over {record['seeds']} seeds, clean test labels. Settings chosen on "
        "a quarter of the training rows: by weak risk `-log (T p)_y` after one temperature, or by clean accuracy, "
        "which nobody has. Calibrated: as the classifier does by default, with the training rows' weak labels alone; "
        "the errors of ECE are standard errors over seeds.",
        "GA is a heuristic on batches. BC is not bounded from below; only the penalty keeps it in place.",
    ]
    for block in record["blocks"]:
        rows = block["rows"]
        best = max(r["accuracy"] for r in rows)
        untuned, tuned = (
            next(r["accuracy"] for r in rows if r["method"] == "forward" and r["chosen by"].startswith(by))
            for by in ("nothing", "weak risk")
        )
        lines += [
            "",
            f"## {block['data']}, {block['kind']}",
            "",
            f"Default loss, untuned: {100 * untuned:.2f}%; tuned by weak risk: {100 * tuned:.2f}%; best row of all: "
            f"{100 * best:.2f}%.",
            "",
            "| method | chosen by | calibrated | accuracy % | log loss | ECE |",
            "| --- | --- | --- | ---: | ---: | ---: |",
        ]
        for r in rows:
            log_loss = "inf" if not np.isfinite(float(r["log_loss"])) else f"{float(r['log_loss']):.3f}"
            cells = f"{100 * r['accuracy']:.2f} | {log_loss} | {r['ece']:.3f} ± {r['ece_stderr']:.3f}"
            lines.append(f"| {r['method']} | {r['chosen by']} | {r['calibrated']} | {cells} |")
    r = record["links"]
    if r is not None:
        lines += [
            "",
            "## gLS at k = 1: its own link and softmax",
            "",
            f"MNIST, {r['rows']} rows, complementary labels, linear model, alpha = 2, l2 = {r['l2']:g}, accuracy "
            f"{100 * r['accuracy']:.2f}%. The same scores read by the loss's own link have ECE {r['own']:.3f}; read by "
            f"softmax, {r['softmax']:.3f}.",
        ]
    return "\n".join(lines) + "\n"


def average(runs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Rows averaged over seeds; infinities are kept as text, which JSON has no number for."""
    out = []
    for same in zip(*runs, strict=True):
        means = {k: float(np.mean([r[k] for r in same])) for k in ("accuracy", "log_loss", "ece")}
        means["log_loss"] = means["log_loss"] if np.isfinite(means["log_loss"]) else "inf"
        spread = float(np.std([r["accuracy"] for r in same]))
        first = {k: same[0][k] for k in ("method", "chosen by", "calibrated")}
        first |= {"params": [r["params"] for r in same], "maps": [r.get("map") for r in same]}
        stderr = float(np.std([r["ece"] for r in same], ddof=1) / np.sqrt(len(same))) if len(same) > 1 else None
        out.append({**first, **means, "accuracy_sd": spread, "ece_stderr": stderr})
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where MNIST lies")
    parser.add_argument("--rows", type=int, default=4000, help="training rows of MNIST")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--render", action="store_true", help="only write the page again")
    args = parser.parse_args()
    if not args.render:
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        data = datasets(args.data, args.rows)
        blocks = []
        for name, arrays in data.items():
            for kind in KINDS:
                print(f"{name}, {kind}", flush=True)
                rows = average([run(kind, arrays, seed) for seed in range(args.seeds)])
                blocks.append({"data": name, "kind": kind, "rows": rows})
        record = {
            "machine": machine(),
            "seeds": args.seeds,
            "seconds": time.perf_counter() - start,
            "blocks": blocks,
            "links": links(args.data),
        }
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(render(json.loads(RECORD.read_text())))
    print("page:", PAGE)


if __name__ == "__main__":
    main()
