"""Seconds per trial-epoch of the laboratory's engine, by model, kernels and stack size.

    python benchmarks/lab_speed.py --models resnet20,wrn28_2 --kernels triton,compile --slots 1,2,4

Protocol: synthetic images of the real data's shape and number, so that nothing need be downloaded;
one warm-up epoch's worth of steps (compilation, graph capture), then ``--steps`` steps between two
synchronised clocks, three times, the median; validation of the held-out tenth timed apart. A
trial-epoch is all steps of an epoch plus one validation pass, divided by the trials in the stack.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
import torch

from tproper_lab.datasets import Dataset
from tproper_lab.engine import Pixels, Stack
from tproper_lab.models import FLAT_MODELS
from tproper_lab.protocol import Protocol, Trial, TrialConfig
from tproper_lab.stacking import stacked


def synthetic(model: str) -> Dataset:
    rng = np.random.default_rng(0)
    flat = model in FLAT_MODELS
    n, shape = (60_000, (28, 28, 1)) if flat else (50_000, (32, 32, 3))

    def images(count: int) -> np.ndarray:
        return rng.integers(0, 256, (count, *shape), dtype=np.uint8)

    def labels(count: int) -> np.ndarray:
        return np.arange(count, dtype=np.int64) % 10

    name = "mnist" if flat else "cifar10"
    normal = {} if flat else {"mean": (0.5,) * 3, "std": (0.25,) * 3, "augment": True}
    return Dataset(name, images(n), labels(n), images(10_000), labels(10_000), **normal)


def clock() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def measure(model: str, kernels: str, slots: int, steps: int, device: torch.device, profile: int) -> dict:
    data = synthetic(model)
    shape = stacked(model, data.shape, 10, device, kernels)
    began = clock()
    stack = Stack(data, Pixels(data, device), shape, Protocol(), slots)
    for slot in range(slots):
        stack.put(slot, Trial(TrialConfig(data.name, model, "gls", 0.01, k=1.0), slot))
    stack.steps_per_epoch, whole = min(steps, stack.steps_per_epoch), stack.steps_per_epoch
    stack.train_epoch()
    stack.valid_accuracy()
    ready = clock() - began
    train, valid = [], []
    for _ in range(3):
        t0 = clock()
        stack.train_epoch()
        t1 = clock()
        stack.valid_accuracy()
        train.append(t1 - t0)
        valid.append(clock() - t1)
    if profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            stack.train_epoch()
            torch.cuda.synchronize()
        share = stack.steps_per_epoch * slots
        for event in sorted(seen.key_averages(), key=lambda e: -e.device_time_total)[:profile]:
            us, each = event.device_time_total / share, event.count / stack.steps_per_epoch
            print(f"{us:8.2f} us a step and trial, {each:6.1f} launches a step  {event.key[:90]}")
    step = statistics.median(train) / stack.steps_per_epoch
    validation = statistics.median(valid)
    return {
        "model": model, "kernels": kernels, "slots": slots,
        "ms_per_step_and_trial": round(1e3 * step / slots, 4),
        "validation_s_per_trial": round(validation / slots, 4),
        "s_per_trial_epoch": round((step * whole + validation) / slots, 4),
        "start_s": round(ready, 1),
        "machine": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="linear,mlp")
    parser.add_argument("--kernels", default="auto")
    parser.add_argument("--slots", default="4")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--profile", type=int, default=0, help="also list this many kernels")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    for model in args.models.split(","):
        for kernels in args.kernels.split(","):
            for slots in map(int, args.slots.split(",")):
                device = torch.device(args.device)
                row = measure(model, kernels, slots, args.steps, device, args.profile)
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
