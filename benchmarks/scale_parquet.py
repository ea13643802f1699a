"""Ten million rows x 50 features from Parquet, in constant memory.

    python benchmarks/scale_parquet.py --out benchmarks/records/scale_parquet.json

Writes the files itself (complementary labels of 10 classes that a linear rule makes) into a temporary folder, trains
one epoch in a fresh process, and reports that process's peak resident memory (`ru_maxrss`), rows a second, and the
accuracy on fresh rows with true classes. The folder is removed at the end.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CLASSES, FEATURES, GROUP = 10, 50, 100_000
LIMIT_MB = 1536


def rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and true classes: a fixed linear rule plus noise."""
    rule = np.random.default_rng(0).standard_normal((FEATURES, CLASSES)).astype(np.float32)
    rng = np.random.default_rng([1, seed])
    X = rng.standard_normal((n, FEATURES), dtype=np.float32)
    return X, (X @ rule + 2 * rng.gumbel(size=(n, CLASSES)).astype(np.float32)).argmax(1)


def write(folder: Path, total: int, files: int = 4) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    import tproper as tp

    T = tp.complementary(CLASSES)
    names = [f"x{j}" for j in range(FEATURES)]
    schema = pa.schema([*((n, pa.float32()) for n in names), ("label", pa.int16())])
    block = 0
    for f in range(files):
        with parquet.ParquetWriter(folder / f"part-{f}.parquet", schema, compression="none") as writer:
            for _ in range(total // files // GROUP):
                X, y = rows(block, GROUP)
                label = T.sample(y, np.random.default_rng(block)).astype(np.int16)
                writer.write_table(pa.table([*X.T, label], schema=schema), row_group_size=GROUP)
                block += 1


def train(folder: Path, estimator: str) -> dict:
    import torch

    import tproper as tp
    from tproper.data.sources import ParquetSource
    from tproper.data.stream import Learner, fit_stream
    from tproper.learn.classifier import WeakLabelClassifier

    torch.set_num_threads(1)
    source = ParquetSource(folder, label="label", batch_size=4096, block_rows=200_000, seed=0)
    T = tp.complementary(CLASSES)
    if estimator == "classifier":
        learner = WeakLabelClassifier(T, batch_size=4096, learning_rate=0.01, random_state=0, device="cpu")
    else:
        torch.manual_seed(0)
        learner = Learner(torch.nn.Linear(FEATURES, CLASSES), tp.ForwardLoss(T), lambda p: torch.optim.Adam(p, lr=0.01))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.perf_counter()
    fit_stream(learner, source)
    seconds = time.perf_counter() - start
    X, y = rows(10**6, 20_000)
    accuracy = float((learner.predict_proba(X).argmax(1) == y).mean())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "learner": estimator, "rows": source.rows, "seconds": seconds, "rows_per_s": source.rows / seconds,
        "before_mb": before, "peak_mb": peak, "limit_mb": LIMIT_MB, "accuracy": accuracy,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/scale_parquet.json"))
    parser.add_argument("--train", nargs=2, metavar=("FOLDER", "LEARNER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        print(json.dumps(train(Path(args.train[0]), args.train[1])))
        return
    record: dict = {"machine": f"CPU {platform.machine()}, one thread", "features": FEATURES, "runs": []}
    with tempfile.TemporaryDirectory(prefix="scale_parquet_") as folder:
        start = time.perf_counter()
        write(Path(folder), args.rows)
        record["file_mb"] = sum(f.stat().st_size for f in Path(folder).iterdir()) / 2**20
        print(f"wrote {record['file_mb']:,.0f} MB in {time.perf_counter() - start:.0f} s", flush=True)
        for learner in ("classifier", "learner"):
            done = subprocess.run(
                [sys.executable, __file__, "--train", folder, learner], capture_output=True, text=True, check=True
            )
            record["runs"].append(json.loads(done.stdout.splitlines()[-1]))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1))
    for r in record["runs"]:
        verdict = "ok" if r["peak_mb"] <= LIMIT_MB else "MISSED"
        print(
            f"{r['learner']:<11}{r['rows']:>11,} rows in {r['seconds']:.0f} s ({r['rows_per_s']:,.0f}/s), peak "
            f"{r['peak_mb']:,.0f} MB of {LIMIT_MB} ({verdict}), accuracy {r['accuracy']:.3f}"
        )
    if any(r["peak_mb"] > LIMIT_MB for r in record["runs"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
