"""Annotators of unknown quality: classes, confusion matrices, models and time, beside crowd-kit and majority vote.

    OMP_NUM_THREADS=1 python benchmarks/annotators.py --peer PYTHON [--data DIR] [--cifar DIR]
    python benchmarks/annotators.py --render        # docs/estimation/annotators.md again, from the record alone

`--peer` is an interpreter with crowd-kit installed; without it the peers are left out. `--data` holds crowds/dog.csv,
crowds/duck.csv (item, annotator, answer) with their *_truth.csv, cifar10n.npz and cifar10_llava_complementary.npz;
`--cifar` holds CIFAR-10's binary batches, for the true classes of the last two. What is missing is left out.
Log losses are cut at probabilities of 2.2e-16, as scikit-learn does, for all methods alike.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _protocol import RECORDS, machine, median
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import tproper as tp

ROOT = Path(__file__).parent.parent
RECORD, PAGE = RECORDS / "annotators.json", ROOT / "docs" / "estimation" / "annotators.md"
SEEDS = 5  # splits with features
CROWDS = 16  # simulated crowds of each kind
# items, annotators, answers an item, classes, range of accuracies
SIMULATED = {
    "few answers": (500, 40, 4, 4, (0.35, 0.85)),
    "many annotators": (1000, 200, 5, 5, (0.3, 0.8)),
    "two classes": (400, 20, 7, 2, (0.55, 0.85)),
    "three annotators": (1500, 3, 3, 4, (0.5, 0.8)),
}
Crowd = tuple[np.ndarray, np.ndarray, np.ndarray]


def score(p: np.ndarray, z: np.ndarray) -> dict[str, float]:
    """Accuracy, log loss and calibration error (15 bins of confidence)."""
    own = np.clip(p[np.arange(len(z)), z], np.finfo(float).eps, 1)
    top, hit = p.max(axis=1), p.argmax(axis=1) == z
    bins = np.minimum((top * 15).astype(int), 14)
    gaps = [abs(hit[bins == b].mean() - top[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return {"accuracy": float(hit.mean()), "log_loss": float(-np.log(own).mean()), "calibration": float(sum(gaps))}


def simulate(n: int, m: int, per: int, K: int, good: tuple[float, float], seed: int) -> tuple[Crowd, np.ndarray]:
    """Answers of annotators with random confusion matrices, and the true classes."""
    rng = np.random.default_rng(seed)
    z = rng.choice(K, n, p=rng.dirichlet(np.full(K, 20.0)))
    T = np.empty((m, K, K))
    for a in range(m):
        right = rng.uniform(*good)
        for k in range(K):
            T[a, :, k] = np.insert((1 - right) * rng.dirichlet(np.ones(K - 1)), k, right)
    item = np.repeat(np.arange(n), per)
    who = rng.random((n, m)).argsort(axis=1)[:, :per].ravel()
    answer = (T[who, :, z[item]].cumsum(axis=1) < rng.random((n * per, 1))).sum(axis=1).clip(max=K - 1)
    return (item, who, answer), z


def peers(python: str | None, given: list[tuple[Crowd, int, int]], votes: bool = True) -> list[dict[str, np.ndarray]]:
    """What crowd-kit says of the same answers: (answers, items, classes) of each crowd."""
    if python is None:
        return [{} for _ in given]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{k:04d}.npz" for k in range(len(given))]
        for file, (crowd, n, K) in zip(files, given, strict=True):
            np.savez(file, item=crowd[0], annotator=crowd[1], answer=crowd[2], n=n, K=K)
        script = str(Path(__file__).parent / "crowd_kit_peer.py")
        subprocess.run([python, script, folder, *([] if votes else ["--scale"])], check=True)
        return [dict(np.load(file.with_suffix(".out.npz"))) for file in files]


def crowds(python: str | None, data: Path | None) -> dict[str, Any]:
    """Real and simulated crowds without features: scores of all methods on the items whose class is known."""
    given: list[tuple[str, Crowd, np.ndarray, np.ndarray, int]] = []
    for name in ("dog", "duck") if data is not None else ():
        rows = np.loadtxt(data / "crowds" / f"{name}.csv", delimiter=",", skiprows=1, dtype=int)
        truth = np.loadtxt(data / "crowds" / f"{name}_truth.csv", delimiter=",", skiprows=1, dtype=int)
        given.append((name, tuple(rows.T), truth[:, 0], truth[:, 1], int(rows[:, 2].max()) + 1))
    for name, shape in SIMULATED.items():
        for seed in range(CROWDS):
            crowd, z = simulate(*shape, seed)
            given.append((name, crowd, np.arange(len(z)), z, shape[3]))
    theirs = peers(python, [(crowd, int(crowd[0].max()) + 1, K) for _, crowd, _, _, K in given])
    runs: dict[str, list[dict[str, Any]]] = {}
    for (name, crowd, items, z, K), peer in zip(given, theirs, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = tp.estimate_annotators(tp.Answers(*crowd), num_classes=K)
        out: dict[str, Any] = {"tproper": score(result.posteriors[items], z), "rho": result.rho}
        for method in ("DawidSkene", "MajorityVote"):
            if method in peer:
                out[method] = score(peer[method][items], z)
                out[method]["accuracy"] = float((peer[f"{method}_labels"][items] == z).mean())  # its own way with ties
        runs.setdefault(name, []).append(out)
    return {name: average(found) | {"runs": found} for name, found in runs.items()}


def average(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over runs, of numbers and of tables of numbers."""
    return {
        key: {k: float(np.mean([r[key][k] for r in runs])) for k in first}
        if isinstance(first, dict)
        else float(np.mean([r[key] for r in runs]))
        for key, first in runs[0].items()
    }


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Features and classes."""
    rng = np.random.default_rng(7)
    z = rng.integers(0, 4, 2400)
    made = 0.9 * rng.normal(size=(4, 12))[z] + 1.3 * rng.normal(size=(2400, 12))
    cancer, digits = load_breast_cancer(), load_digits()
    return {
        "breast cancer": (cancer.data, cancer.target),
        "digits": (digits.data, digits.target),
        "made, four classes": (made, z),
    }


def features() -> dict[str, Any]:
    """Three annotators, a fifth of the answers missing: the model trained with estimated and with known T."""
    out: dict[str, Any] = {}
    for name, (X, z) in tables().items():
        K = int(z.max()) + 1
        runs = []
        for seed in range(SEEDS):
            train, test, z_train, z_test = train_test_split(X, z, test_size=0.3, random_state=seed, stratify=z)
            scaler = StandardScaler().fit(train)
            train, test = scaler.transform(train), scaler.transform(test)
            rng = np.random.default_rng(seed)
            Ts = []
            for right in (0.75, 0.6, 0.5) if K > 2 else (0.85, 0.75, 0.65):
                columns = [
                    np.insert((1 - r) * rng.dirichlet(np.ones(K - 1)), k, r)
                    for k, r in enumerate(right + rng.uniform(-0.1, 0.1, K))
                ]
                Ts.append(tp.Transition(np.array(columns).T))
            T = tp.annotators(Ts)
            answers = T.sample(z_train, np.random.default_rng(seed))
            answers[rng.random(answers.shape) < 0.2] = -1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = time.perf_counter()
                result = tp.estimate_annotators(answers, X=train, num_classes=K)
                seconds = time.perf_counter() - start
                known = tp.WeakLabelClassifier(T).fit(train, answers)
                again = tp.WeakLabelClassifier(result.transition).fit(train, answers)
            pairs = zip(result.transitions, Ts, strict=True)
            runs.append(
                {
                    "known T": score(known.predict_proba(test), z_test),
                    "estimated": score(result.classifier.predict_proba(test), z_test),
                    "trained with estimated T": score(again.predict_proba(test), z_test),
                    "column_L1": float(np.mean([np.abs(a.matrix() - b.matrix()).sum(axis=0).mean() for a, b in pairs])),
                    "seconds": seconds,
                }
            )
        out[name] = average(runs) | {"runs": runs}
    return out


def people(data: Path, cifar: Path) -> dict[str, Any]:
    """T of people and of a language model, against the true classes of CIFAR-10's training images."""
    batches = [np.fromfile(cifar / f"data_batch_{b}.bin", dtype=np.uint8).reshape(-1, 3073)[:, 0] for b in range(1, 6)]
    true = np.concatenate(batches).astype(int)
    noisy = np.load(data / "cifar10n.npz")
    not_these = np.load(data / "cifar10_llava_complementary.npz")["labels"].astype(int)
    sets = {"CIFAR-10N": np.stack([noisy[f"random_label{k}"] for k in (1, 2, 3)], axis=1).astype(int)}
    sets |= {f"LLaVA, not these: labels {k + 1} to {k + 3} of nine": not_these[:, k : k + 3] for k in (0, 3, 6)}
    order = np.random.default_rng(0).random(not_these.shape).argsort(axis=1)[:, :3]
    sets |= {"LLaVA, not these: three of nine at random": np.take_along_axis(not_these, order, axis=1)}
    out = {}
    for name, answers in sets.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = tp.estimate_annotators(answers)
        seconds = time.perf_counter() - start
        distances, uniform = [], []
        for a, T in enumerate(result.transitions):
            counts = np.zeros((10, 10))
            np.add.at(counts, (answers[:, a], true), 1)
            counts /= counts.sum(axis=0)
            distances.append(float(np.abs(T.matrix() - counts).sum(axis=0).mean()))
            uniform.append(float(np.abs((1 - np.eye(10)) / 9 - counts).sum(axis=0).mean()))
        out[name] = {
            "column_L1": distances,
            "uniform_complementary_L1": uniform,
            "accuracy": float((result.posteriors.argmax(axis=1) == true).mean()),
            "rho": result.rho,
            "seconds": seconds,
        }
    return out


def million(seed: int = 0, hard: bool = False) -> tuple[Crowd, np.ndarray]:
    """A million answers of 10,000 annotators, 10 classes, 10 answers an item (5 and poorer annotators if hard)."""
    rng = np.random.default_rng(seed)
    N, m, K, per = 1_000_000, 10_000, 10, 5 if hard else 10
    z = rng.integers(0, K, N // per)
    right = rng.uniform(0.2, 0.7, m) if hard else rng.uniform(0.3, 0.9, m)
    item, who = np.repeat(np.arange(N // per), per), rng.integers(0, m, N)
    answer = np.where(rng.random(N) < right[who], z[item], (z[item] + rng.integers(1, K, N)) % K)
    return (item, who, answer), z


def worker(hard: bool) -> None:
    """Time and peak memory of one call, in a process of its own."""
    crowd, z = million(hard=hard)
    for _ in range(2):  # the first call warms up, for either library
        start, cpu = time.perf_counter(), time.process_time()
        result = tp.estimate_annotators(tp.Answers(*crowd))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "peak_gb": peak} | score(result.posteriors, z)))


def scale(python: str | None, rounds: int) -> dict[str, Any]:
    """Both libraries by turns, each in fresh processes."""
    out: dict[str, Any] = {}
    for name, hard in (("10 answers an item", False), ("5 answers an item, poorer annotators", True)):
        ours, theirs = [], []
        crowd, z = million(hard=hard)
        for _ in range(rounds):
            for _ in range(2):
                call = [sys.executable, __file__, "--worker", "hard" if hard else "easy"]
                ours.append(json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout))
            found = peers(python, [(crowd, len(z), 10)], votes=False)[0]
            if found:
                used = {k: float(found[f"DawidSkene_{k}"]) for k in ("seconds", "cpu_seconds")}
                theirs.append(used | {"peak_gb": float(found["peak_gb"])} | score(found["DawidSkene"], z))
        out[name] = {"tproper": ours, "DawidSkene": theirs}
    return out


def row(*cells: Any) -> str:
    """A line of a table."""
    return "| " + " | ".join(str(c) for c in cells) + " |"


def render(record: dict[str, Any]) -> str:
    """The page."""
    lines = [
        "# Annotators of unknown quality",
        "",
        "Made by `benchmarks/annotators.py` from `benchmarks/records/annotators.json`; do not edit. "
        f"Machine: {record['machine']['cpu']}, commit {record['machine']['commit']}, {record['machine']['date']}.",
        "",
        "## Classes from answers alone",
        "",
        f"Accuracy / log loss of the posteriors. Simulated crowds: mean of {CROWDS}. rho says how much answers depend "
        "on each other given the class; posteriors count dependent answers for less.",
        "",
        row("crowd", "`tp.estimate_annotators`", "crowd-kit DawidSkene", "majority vote", "rho"),
        row(*["---"] * 5),
    ]

    def two(entry: dict[str, float] | None) -> str:
        return "-" if entry is None else f"{100 * entry['accuracy']:.1f} / {entry['log_loss']:.3f}"

    for name, found in record["crowds"].items():
        theirs = [two(found.get(k)) for k in ("DawidSkene", "MajorityVote")]
        lines.append(row(name, two(found["tproper"]), *theirs, f"{found['rho']:.2f}"))
    lines += [
        "",
        "## With features",
        "",
        f"Three annotators, 20% of the answers missing; test accuracy / log loss / calibration error, mean of {SEEDS} "
        "splits. `.classifier` comes with the estimate; beside it `WeakLabelClassifier` with the estimated T.",
        "",
        row("table", "known T", "`.classifier`", "trained with estimated T", "column L1 of T", "seconds"),
        row(*["---"] * 6),
    ]
    for name, found in record["features"].items():
        three = [
            f"{100 * e['accuracy']:.1f} / {e['log_loss']:.3f} / {e['calibration']:.3f}"
            for e in (found["known T"], found["estimated"], found["trained with estimated T"])
        ]
        lines.append(row(name, *three, f"{found['column_L1']:.3f}", f"{found['seconds']:.1f}"))
    if "people" in record:
        lines += [
            "",
            "## T of people and of a language model",
            "",
            "Mean column L1 between the estimated T of each of three annotators and the true confusion matrix; no "
            "image and no true class is seen. LLaVA's labels say what an image is *not*; each image has nine, of which "
            "three are shown to the estimate, as if three annotators had given one each.",
            "",
            row("answers", "column L1", "uniform complementary T", "seconds"),
            row(*["---"] * 4),
        ]
        for name, found in record["people"].items():
            uniform = f"{np.mean(found['uniform_complementary_L1']):.3f}" if "not these" in name else "-"
            distances = ", ".join(f"{d:.3f}" for d in found["column_L1"])
            lines.append(row(name, distances, uniform, f"{found['seconds']:.1f}"))
    if "scale" in record:
        lines += [
            "",
            "## A million answers, 10,000 annotators, 10 classes",
            "",
            "Whole calls after one that warms up, each library in processes of its own, by turns; medians (least) of "
            f"{', '.join(str(len(r['tproper'])) for r in record['scale'].values())} calls of ours. The machine was "
            "shared, so the clock says less than the processor's time; both are given.",
            "",
            row("crowd", "library", "seconds", "of the processor", "peak memory, GB", "accuracy / log loss"),
            row(*["---"] * 6),
        ]
        for name, found in record["scale"].items():
            for library, runs in found.items():
                if runs:
                    times = [[r[k] for r in runs] for k in ("seconds", "cpu_seconds")]
                    figures = [f"{median(t):.2f} ({min(t):.2f})" for t in times]
                    figures.append(f"{median([r['peak_gb'] for r in runs]):.2f}")
                    lines.append(row(name, library, *figures, two(runs[0])))
            if found["DawidSkene"]:
                ours, theirs = found["tproper"], found["DawidSkene"]
                ratio = [
                    median([r[k] for r in theirs]) / median([r[k] for r in ours]) for k in ("seconds", "cpu_seconds")
                ]
                lines.append(row(name, "times as long", *(f"{x:.0f}" for x in ratio), "", ""))
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page, from the record."""
    return render(json.loads(RECORD.read_text()))


def main() -> None:
    """Run, store, write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--peer")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cifar", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=["crowds", "features", "people", "scale"])
    parser.add_argument("--worker")
    parser.add_argument("--render", action="store_true")
    options = parser.parse_args()
    if options.worker:
        return worker(options.worker == "hard")
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if not options.render:
        parts = {
            "crowds": lambda: crowds(options.peer, options.data),
            "features": features,
            "people": lambda: people(options.data, options.cifar) if options.data and options.cifar else None,
            "scale": lambda: scale(options.peer, options.rounds),
        }
        record["machine"] = machine()
        for name in options.only:
            found = parts[name]()
            if found is not None:
                record[name] = found
                RECORD.write_text(json.dumps(record, indent=1) + "\n")  # a later part may be cut short
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    return None


if __name__ == "__main__":
    main()
