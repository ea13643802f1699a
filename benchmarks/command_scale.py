"""The command on large tables: `tproper train` of 50 features, and `tproper estimate annotators` of a million answers.

    OMP_NUM_THREADS=1 python benchmarks/command_scale.py [--rows 20000 200000 2000000] [--answers 1000000]

Files are made in a temporary folder (650 MB of CSV for two million rows). Each command is a process of its own: seconds
on the clock and of the processor, and its peak memory. The estimate is made in Python as well, from the same file, read
by pyarrow, with the same report printed: the difference is what the command costs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from _protocol import store

FEATURES, CLASSES, BLOCK = 50, 3, 100_000
IN_PYTHON = """
import sys
import pyarrow.csv as pc
import tproper as tp
table = pc.read_csv(sys.argv[1])
answers = tp.Answers(*(table.column(i).to_numpy(zero_copy_only=False) for i in range(3)))
found = tp.estimate_annotators(answers)
print(found, len(found.transitions))
"""


def numbers_and_labels(path: Path, rows: int) -> None:
    """A linear problem of three classes, three in ten labels wrong."""
    rng = np.random.default_rng(0)
    W = 2 * rng.normal(size=(FEATURES, CLASSES)) / FEATURES**0.5
    schema = pa.schema([*((f"x{j}", pa.float32()) for j in range(FEATURES)), ("label", pa.string())])
    with pc.CSVWriter(str(path), schema) as writer:
        for start in range(0, rows, BLOCK):
            n = min(BLOCK, rows - start)
            X = np.round(rng.normal(size=(n, FEATURES)), 3).astype(np.float32)
            z = (X @ W + rng.gumbel(size=(n, CLASSES))).argmax(axis=1)
            y = np.where(rng.random(n) < 0.3, (z + rng.integers(1, CLASSES, n)) % CLASSES, z)
            writer.write_table(
                pa.table([*(pa.array(column) for column in X.T), pa.array(np.array(["a", "b", "c"])[y])], schema)
            )


def answers(path: Path, rows: int, annotators: int = 500, each: int = 5) -> int:
    """Five answers an item, by annotators who are right 55 to 90 % of the time."""
    rng = np.random.default_rng(0)
    items, names = rows // each, np.array(["cat", "cow", "dog", "owl"])
    z, right = rng.integers(len(names), size=items), rng.uniform(0.55, 0.9, annotators)
    item, who = np.repeat(np.arange(items), each), rng.integers(annotators, size=items * each)
    once = np.unique(item * annotators + who, return_index=True)[1]
    item, who = item[once], who[once]
    wrong = (z[item] + rng.integers(1, len(names), len(item))) % len(names)
    answer = names[np.where(rng.random(len(item)) < right[who], z[item], wrong)]
    columns = {"item": np.char.add("i", item.astype(str)), "annotator": np.char.add("w", who.astype(str))}
    pc.write_csv(pa.table(columns | {"answer": answer}), str(path))
    return len(item)


def cost(command: list[str]) -> dict[str, float]:
    """What a process takes: the clock's seconds, the processor's, and the peak of its memory."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    if status:
        raise SystemExit(f"{' '.join(command)[:200]}: status {status}\n{process.stderr.read().decode()[-2000:]}")
    unit = 1 if sys.platform == "darwin" else 1024
    return {"wall": wall, "cpu": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss * unit / 2**20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[20_000, 200_000, 2_000_000])
    parser.add_argument("--answers", type=int, default=1_000_000)
    args = parser.parse_args()
    tproper = [sys.executable, "-m", "tproper"]
    record: dict[str, Any] = {"features": FEATURES, "classes": CLASSES, "load_before": os.getloadavg(), "train": []}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for rows in args.rows:
            data = place / "train.csv"
            numbers_and_labels(data, rows)
            call = [*tproper, "train", str(data), "--label", "label", "--transition", f"symmetric:{CLASSES},0.3"]
            row = {
                "rows": rows,
                "file_mb": data.stat().st_size / 2**20,
                **cost([*call, "--out", str(place / f"m{rows}")]),
            }
            print(row, flush=True)
            record["train"].append(row)
            data.unlink()
        if args.answers:
            data = place / "answers.csv"
            given = answers(data, args.answers)
            call = [*tproper, "estimate", "annotators", str(data), "--item", "item", "--annotator", "annotator"]
            both = {
                "command": cost([*call, "--label", "answer", "--out", str(place / "T.json")]),
                "python": cost([sys.executable, "-c", IN_PYTHON, str(data)]),
            }
            print(given, both, flush=True)
            record["annotators"] = {"answers": given, **both}
    record["load_after"] = os.getloadavg()
    store("command_scale", record)


if __name__ == "__main__":
    main()
