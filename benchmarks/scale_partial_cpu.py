"""Partial labels of 1,000 classes on a CPU: the price of weak labels, beside the same model on clean labels.

    python benchmarks/scale_partial_cpu.py --out benchmarks/records/scale_partial_cpu.json

One epoch of the linear model over 100,000 rows. Labels are kept as lists of candidates; a mask (b, K) exists for one
batch at a time. Every run is a fresh process, which reports its own peak resident memory; runs of clean and partial
labels take turns, and the medians are compared. Clean labels are trained with cross entropy (forward, T = I).
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
from pathlib import Path

import numpy as np

K, ROWS, FEATURES, P, BATCH = 1000, 100_000, 50, 0.01, 512
LIMIT_MB, LIMIT_RATIO = 1536, 1.5
METHODS = ("clean", "backward", "forward", "gls")


def run(method: str) -> dict:
    import torch

    import tproper as tp
    from tproper.streaming import CandidateLists, Learner

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES), dtype=np.float32)
    y = (X @ rng.standard_normal((FEATURES, K)).astype(np.float32)).argmax(1)
    T = tp.identity(K) if method == "clean" else tp.partial_labels(K, P)
    labels = y if method == "clean" else CandidateLists.sample(T, y, seed=1)
    loss = {
        "clean": lambda: tp.ForwardLoss(T),
        "backward": lambda: tp.BackwardLoss(T),
        "forward": lambda: tp.ForwardLoss(T),
        "gls": lambda: tp.BackwardLoss(T, squeeze=(1.0, 2.0)),
    }[method]()
    torch.manual_seed(0)
    learner = Learner(torch.nn.Linear(FEATURES, K), loss, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    order = np.random.default_rng(2).permutation(ROWS)
    times = []
    for _ in range(2):
        start = time.perf_counter()
        for i in range(0, ROWS, BATCH):
            rows = order[i : i + BATCH]
            learner.partial_fit(X[rows], labels[rows])
        times.append(time.perf_counter() - start)
    return {
        "method": method, "seconds": times[-1], "first_epoch_seconds": times[0],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/scale_partial_cpu.json"))
    parser.add_argument("--run", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(run(args.run)))
        return
    runs = []
    for _ in range(args.repeats):
        for method in METHODS:
            done = subprocess.run(
                [sys.executable, __file__, "--run", method], capture_output=True, text=True, check=True
            )
            runs.append(json.loads(done.stdout.splitlines()[-1]))
    clean = statistics.median(r["seconds"] for r in runs if r["method"] == "clean")
    record = {"machine": f"CPU {platform.machine()}, one thread", "classes": K, "rows": ROWS, "p": P, "runs": runs}
    record["medians"] = []
    missed = False
    for method in METHODS:
        own = [r for r in runs if r["method"] == method]
        seconds, peak = statistics.median(r["seconds"] for r in own), max(r["peak_mb"] for r in own)
        record["medians"].append({"method": method, "seconds": seconds, "ratio": seconds / clean, "peak_mb": peak})
        bad = peak > LIMIT_MB or seconds / clean > LIMIT_RATIO
        missed |= bad
        print(
            f"{method:<9} {seconds:6.2f} s an epoch, {seconds / clean:.2f} x clean, peak {peak:,.0f} MB "
            f"({'MISSED' if bad else 'ok'})"
        )
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1))
    sys.exit(missed)


if __name__ == "__main__":
    main()
