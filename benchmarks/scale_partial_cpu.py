"""Partial labels of 1,000 classes on a CPU: the price of weak labels, beside the same model on clean labels.

    python benchmarks/scale_partial_cpu.py --out benchmarks/records/scale_partial_cpu.json

One epoch of the linear model over 100,000 rows. Labels are kept as lists of candidates; a mask (b, K) exists for one
batch at a time. Times are CPU seconds of one process that trains all methods in turn, batch by batch, so that they meet
the same machine; memory is the peak of a fresh process for each. Clean labels: cross entropy (forward, T = I).
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

K, ROWS, FEATURES, P, BATCH = 1000, 100_000, 50, 0.01, 512
LIMIT_MB, LIMIT_RATIO = 1536, 1.5
METHODS = ("clean", "forward", "backward", "gls")


def learner_of(method: str) -> tuple[Any, Any]:
    """A linear model with its loss, and the labels as they are kept in memory."""
    import torch

    import tproper as tp
    from tproper.data.columns import CandidateLists
    from tproper.data.stream import Learner

    _, y = data()
    T = tp.identity(K) if method == "clean" else tp.partial_labels(K, P)
    labels = y if method == "clean" else CandidateLists.sample(T, y, seed=1)
    loss = {
        "clean": lambda: tp.ForwardLoss(T),
        "forward": lambda: tp.ForwardLoss(T),
        "backward": lambda: tp.BackwardLoss(T),
        "gls": lambda: tp.BackwardLoss(T, squeeze=(1.0, 2.0)),
    }[method]()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return Learner(torch.nn.Linear(FEATURES, K), loss, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)), labels


@cache
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES), dtype=np.float32)
    return X, (X @ rng.standard_normal((FEATURES, K)).astype(np.float32)).argmax(1)


def batches() -> list[np.ndarray]:
    order = np.random.default_rng(2).permutation(ROWS)
    return [order[i : i + BATCH] for i in range(0, ROWS, BATCH)]


def memory(method: str) -> dict[str, Any]:
    """One epoch in a process of its own: its peak resident memory and its time on the clock."""
    X, (learner, labels) = data()[0], learner_of(method)
    start = time.perf_counter()
    for rows in batches():
        learner.partial_fit(X[rows], labels[rows])
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"method": method, "peak_mb": peak, "clock_seconds": seconds}


def times() -> dict[str, list[float]]:
    """An epoch of every method, batch by batch in turn: CPU seconds of every batch, whatever else the machine does."""
    X, made = data()[0], {m: learner_of(m) for m in METHODS}
    out: dict[str, list[float]] = {m: [] for m in METHODS}
    for rows in batches():
        for method, (learner, labels) in made.items():
            start = time.process_time()
            learner.partial_fit(X[rows], labels[rows])
            out[method].append(time.process_time() - start)
    return out


def fresh(*arguments: str) -> Any:
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/scale_partial_cpu.json"))
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    parser.add_argument("--times", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory or args.times:
        print(json.dumps(memory(args.memory) if args.memory else times()))
        return
    spent = fresh("--times")
    clean = statistics.median(spent["clean"])
    record: dict[str, Any] = {"machine": f"CPU {platform.machine()}, one thread", "classes": K, "rows": ROWS, "p": P}
    record |= {"features": FEATURES, "batch_size": BATCH, "methods": []}
    missed = False
    for method in METHODS:
        row = fresh("--memory", method)
        step = statistics.median(spent[method])
        row |= {"cpu_ms_per_batch": 1e3 * step, "epoch_cpu_seconds": sum(spent[method]), "ratio": step / clean}
        record["methods"].append(row)
        bad = row["peak_mb"] > LIMIT_MB or row["ratio"] > LIMIT_RATIO
        missed |= bad
        print(
            f"{method:<9}{row['epoch_cpu_seconds']:6.2f} CPU s an epoch, {row['ratio']:.2f} x clean, peak "
            f"{row['peak_mb']:,.0f} MB ({'MISSED' if bad else 'ok'})"
        )
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1))
    sys.exit(missed)


if __name__ == "__main__":
    main()
