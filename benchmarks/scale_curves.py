"""How time and memory grow with classes, rows and weak labels: structured losses beside the naive formulation.

    python benchmarks/scale_curves.py measure      # a few minutes on a CPU; writes records/scale_curves.json
    python benchmarks/scale_curves.py draw         # from the stored records: docs/scale_curves.svg

Naive is what one writes first: R as a table (classes x weak labels), the targets (n, K) looked up in it, the loss
``-(targets * log_softmax(scores)).sum()``. Every point is a fresh process (one thread) that makes the loss, then times
forward + backward and reports its peak memory above that of an idle process with the same imports. A naive table that
would be larger than 8 GB is not made: its size is recorded instead.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORD = HERE / "records" / "scale_curves.json"
FIGURE = HERE.parent / "docs" / "scale_curves.svg"
LARGEST = 8e9
AXES: dict[str, list[int]] = {
    "classes": [10, 100, 1000, 10_000, 100_000],
    "rows": [100, 1000, 10_000, 50_000],
    "weak labels": [2**k - 1 for k in (4, 8, 12, 16, 20)],
}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def point(axis: str, size: int, kind: str) -> dict[str, Any]:
    import numpy as np
    import torch

    import tproper as tp

    torch.set_num_threads(1)
    K = {"classes": size, "rows": 1000, "weak labels": (size + 1).bit_length() - 1}[axis]
    n = size if axis == "rows" else 256
    out: dict[str, Any] = {"axis": axis, "size": size, "kind": kind, "K": K, "n": n}
    T = tp.partial_labels(K, 0.2) if axis == "weak labels" else tp.complementary(K)
    M = size if axis == "weak labels" else K
    table = 4.0 * K * M
    if kind == "naive" and table > LARGEST:
        return {**out, "table_gb": table / 1e9}
    g = torch.Generator().manual_seed(0)
    true = torch.randint(K, (n,), generator=g)
    labels = torch.as_tensor(T.sample(true, np.random.default_rng(0)))
    v = torch.randn(n, K, generator=g, requires_grad=True)
    idle = peak()
    begin = time.process_time()
    if kind == "ours":
        loss = tp.BackwardLoss(T)
        call = lambda: loss(v, labels)  # noqa: E731
    else:
        R = tp.BackwardLoss(T).reconstruction
        if axis == "weak labels":
            every = (np.arange(1, M + 1)[:, None] >> np.arange(K)) & 1
            lookup = torch.cat([R.targets(b.astype(bool), dtype=torch.float32) for b in np.array_split(every, 8)])
            index = (labels.long() << torch.arange(K)).sum(1) - 1
        else:
            c = R.coefficient
            lookup = torch.full((M, K), (1 - c) / K)
            lookup.fill_diagonal_((1 - c) / K + c)
            index = labels

        def call() -> torch.Tensor:
            return -(lookup[index] * torch.log_softmax(v, -1)).sum(-1).mean()

    out["setup_s"] = time.process_time() - begin
    times = []
    while len(times) < 5 or (sum(times) < 0.5 and len(times) < 50):
        begin = time.process_time()
        v.grad = None
        call().backward()
        times.append(time.process_time() - begin)
    return {**out, "step_ms": 1e3 * statistics.median(times[1:]), "memory_mb": peak() - idle, "loss": float(call())}


def measure() -> None:
    sys.path.insert(0, str(HERE))
    from _protocol import machine

    rows = []
    for axis, sizes in AXES.items():
        for size in sizes:
            pair = []
            for kind in ("ours", "naive"):
                done = subprocess.run(
                    [sys.executable, __file__, "point", axis, str(size), kind], capture_output=True, text=True
                )
                if done.returncode:
                    sys.exit(done.stderr)
                pair.append(json.loads(done.stdout.splitlines()[-1]))
            rows += pair
            if "loss" in pair[1] and abs(pair[0]["loss"] - pair[1]["loss"]) > 1e-4 * (1 + abs(pair[0]["loss"])):
                sys.exit(f"the two formulations differ: {pair}")
            print(
                f"{axis:<12}{size:>9,}  "
                + "   ".join(
                    f"{p['kind']}: {p['step_ms']:.2f} ms, {p['memory_mb']:.0f} MB, set up in {p['setup_s']:.3f} s"
                    if "step_ms" in p
                    else f"{p['kind']}: a table of {p['table_gb']:.0f} GB"
                    for p in pair
                ),
                flush=True,
            )
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps({"machine": machine() | {"threads": 1}, "rows": rows}, indent=1))


def draw() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = json.loads(RECORD.read_text())["rows"]
    gpu = json.loads((HERE / "records" / "scale_losses_gpu.json").read_text())
    fig, axes = plt.subplots(2, 4, figsize=(14, 6), constrained_layout=True)
    looks = {"ours": ("C0", "o", "structured"), "naive": ("C3", "s", "naive: R as a table")}
    for column, axis in enumerate(AXES):
        for kind, (colour, marker, label) in looks.items():
            own = [r for r in rows if r["axis"] == axis and r["kind"] == kind]
            run = [r for r in own if "step_ms" in r]
            x = [r["size"] for r in run]
            axes[0, column].plot(x, [r["step_ms"] for r in run], marker=marker, color=colour, label=label)
            axes[1, column].plot(x, [max(r["memory_mb"], 0.1) for r in run], marker=marker, color=colour)
            gone = [r for r in own if "table_gb" in r]
            axes[1, column].plot(
                [r["size"] for r in gone], [1e3 * r["table_gb"] for r in gone], "x", color=colour, ms=9, mew=2
            )
        axes[0, column].set_title(
            {"classes": "classes (256 rows)", "rows": "rows (1,000 classes)", "weak labels": "weak labels (256 rows)"}[
                axis
            ]
        )
        axes[1, column].set_xlabel(axis)
    axes[0, 0].set_ylabel("CPU ms a step")
    axes[1, 0].set_ylabel("MB for the step (x: not made)")
    axes[0, 0].legend(frameon=False)
    names = {"cross entropy, compiled": "k", "complementary BC": "C0", "complementary gLS2": "C1", "partial BC": "C2"}
    for name, colour in names.items():
        for dtype, style in (("bf16", "-"), ("f32", "--")):
            own = [
                r for r in gpu["rows"]
                if (r["case"], r["dtype"]) == (name, dtype) and r.get("backend", "triton") == "triton"
            ]  # fmt: skip
            K = [r["K"] for r in own]
            axes[0, 3].plot(K, [r["device"] for r in own], style, marker=".", color=colour,
                            label=name if dtype == "bf16" else None)  # fmt: skip
            axes[1, 3].plot(K, [r["peak_mb"] for r in own], style, marker=".", color=colour)
    axes[0, 3].set_title(f"{gpu['machine']['device']}, 8,192 rows\n(dashed: float32)")
    axes[0, 3].set_ylabel("device ms a step")
    axes[1, 3].set_xlabel("classes")
    axes[0, 3].legend(frameon=False, fontsize="small")
    for ax in axes.flat:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.grid(alpha=0.3)
    plt.rcParams["svg.hashsalt"] = "tproper"
    fig.savefig(FIGURE, metadata={"Date": None})
    print(FIGURE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["measure", "draw", "point"])
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.what == "point":
        print(json.dumps(point(args.rest[0], int(args.rest[1]), args.rest[2])))
    elif args.what == "measure":
        measure()
    else:
        draw()


if __name__ == "__main__":
    main()
