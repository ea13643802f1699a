"""Which tiles suit the fused convolutions: times every candidate for every channel count.

    python benchmarks/lab_kernels.py                        # needs a GPU; compiles in parallel first
    python benchmarks/lab_kernels.py --dtype float32        # the same for --kernels float32, fewer candidates

Protocol: bf16 (or float32), 8 trials of 256 images, random data; after two launches, 4 launches between two events,
queued while the device sleeps, five times, the median; allocation and zeroing of results included.
``floor`` is the bytes that must move over 4.3 TB/s. Prints the shape in use and the best four per operation, of
both kernels; ``conv_shape``, ``walk_shape`` and ``weight_shape`` in ``tproper_lab.launches`` hold the winners.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
from functools import partial
from itertools import product

import torch

from tproper_lab import launches
from tproper_lab.launches import ConvShape, Norm, WalkShape, WeightShape

LAYERS = [(16, 32), (32, 32), (64, 16), (128, 8)]  # channels, side of the image
OPERATIONS = ("forward", "input", "weight")


def candidates(operation: str, channels: int, image: int, dtype: torch.dtype) -> list:
    side = min(channels, 64)
    if dtype == torch.float32:
        if operation == "weight":
            cuts = product((channels <= 32, False), (16, 32), (16, 32, 64), (2,))
            return [
                WeightShape(r, channels if r else min(side, d), channels if r else min(side, d), bp, 4, stages, 528)
                for r, d, bp, stages in cuts
            ]
        cuts = product((16, 32), ((32, 4), (64, 4), (128, 4), (128, 8)), (1, 2), (False, True))
        return [ConvShape(d, bm, w, stages, bulk) for d, (bm, w), stages, bulk in cuts if d <= side]
    if operation == "weight":
        cuts = product((channels <= 32,), (32, 64, 128), (2, 3))
        return [WeightShape(r, side, side, bp, 4, stages, 528) for r, bp, stages in cuts]
    blocks = ((64, 4), (128, 4), (256, 4), (256, 8))
    cuts = product(blocks, (2, 3, 4), (True, False))
    found: list = [ConvShape(side, bm, warps, stages, bulk) for (bm, warps), stages, bulk in cuts]
    if channels <= 64:
        pixels = product(((64, 4), (128, 4), (128, 8), (256, 4)), (2, 3, 4), (1, 2))
        found += [
            WalkShape(bm // image, image // parts, warps, stages, bulk=channels > 16)
            for (bm, warps), stages, parts in pixels
        ]
    return found


def prepare(channels: int, side: int, trials: int, images: int, dtype: torch.dtype):
    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=dtype)

    x, dy = (randn(trials, images, side, side, channels) for _ in range(2))
    w = randn(trials, 3, 3, channels, channels)
    stats = torch.rand(trials, 2, channels, device="cuda")
    gamma, beta = torch.rand(2, trials, channels, device="cuda")
    norm = Norm(stats, 1.0, gamma, beta)
    sums = torch.zeros(trials, 2, channels, device="cuda")
    return {
        "forward": lambda cut: launches.conv(x, w, add=dy, sums=sums, shape=cut),
        "input": lambda cut: launches.conv_input(dy, w, 1, x, norm, shape=cut),
        "weight": lambda cut: launches.conv_weight(x, dy, 3, 1, shape=cut),
    }


def compile_one(task) -> str | None:
    dtype, operation, (channels, side), cut = task
    try:
        prepare(channels, side, 1, 16, dtype)[operation](cut)
        torch.cuda.synchronize()
    except Exception as error:  # a candidate that does not fit is no candidate
        return f"{type(error).__name__}: {error}"[:200]
    return None


def clocked(call, launches: int = 4) -> float:
    for _ in range(2):
        call()
    times = []
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(2_000_000)  # the host runs ahead, so that its time is not in the measurement
        start.record()
        for _ in range(launches):
            call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / launches)
    return statistics.median(times) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--channels", default=",".join(str(c) for c, _ in LAYERS))
    args = parser.parse_args()
    dtype, trials = getattr(torch, args.dtype), 8
    layers = [layer for layer in LAYERS if str(layer[0]) in args.channels.split(",")]
    tasks = [(dtype, op, layer, cut) for layer in layers for op in OPERATIONS for cut in candidates(op, *layer, dtype)]
    with multiprocessing.get_context("spawn").Pool(15) as pool:
        errors = pool.map(compile_one, tasks, chunksize=1)
    broken = [(t, e) for t, e in zip(tasks, errors, strict=True) if e]
    print(f"{len(tasks)} candidates, {len(broken)} do not run", broken[:1], flush=True)
    for layer in layers:
        channels, side = layer
        calls = prepare(channels, side, trials, 256, dtype)
        size = trials * 256 * side * side * channels * dtype.itemsize
        for op, passes in zip(OPERATIONS, (3, 3, 2), strict=True):
            found = []
            for (_, o, at, cut), error in zip(tasks, errors, strict=True):
                if o == op and at == layer and error is None:
                    found.append((clocked(partial(calls[op], cut)), cut))
            found.sort(key=lambda pair: pair[0])
            kinds = {type(cut).__name__ for _, cut in found}
            row = {
                "channels": channels, "op": op, "floor_us": round(passes * size / 4.3e6, 1),
                "default_us": round(clocked(partial(calls[op], None)), 1),
                "best_us": {
                    kind: [(round(us, 1), tuple(cut)) for us, cut in found if type(cut).__name__ == kind][:4]
                    for kind in sorted(kinds)
                },
                "worst_us": round(found[-1][0], 1),
            }  # fmt: skip
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    sys.exit(main())
