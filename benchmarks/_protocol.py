"""One protocol for all CPU benchmarks: warm-up, interleaved repetitions, medians, peers in one run, raw records."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

RECORDS = Path(__file__).parent / "records"


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), model)
    except OSError:
        pass
    commit = os.environ.get("TPROPER_REVISION")
    if not commit:  # the lab is asked where nobody says: a machine that only computes need not have it
        from tproper_lab.results import revision

        commit = revision()
    return {
        "cpu": model,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": commit,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def interleaved(
    cases: dict[str, Callable[[], Any]],
    rounds: int = 30,
    warmup: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each case, the cases taking turns, so that a busy machine slows them all alike.

    On a machine that others use, ``clock=time.process_time`` counts the processor's time of one thread alone.
    """
    for call in cases.values():
        for _ in range(warmup):
            call()
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, call in cases.items():
            start = clock()
            call()
            times[name].append(clock() - start)
    return times


def beside(
    peer: Callable[[], Any],
    cases: dict[str, Callable[[], Any]],
    rounds: int = 60,
    warmup: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[tuple[float, float]]]:
    """Seconds of each case and of the peer directly beside it, once a round: ratios of neighbours repeat.

    Every other round the peer comes second, and each round begins with another case: no case always pays for what the
    same one before it left behind (memory, caches).
    """
    for call in (peer, *cases.values()):
        for _ in range(warmup):
            call()
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    names = list(cases)
    for turn in range(rounds):
        for k in range(len(names)):
            name = names[(k + turn) % len(names)]
            both = [cases[name], peer][:: 1 - 2 * (turn % 2)]
            seconds = []
            for call in both:
                start = clock()
                call()
                seconds.append(clock() - start)
            pairs[name].append((seconds[turn % 2], seconds[1 - turn % 2]))
    return pairs


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """The first quartile, the median, the third."""
    first, middle, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, middle, third


def median(values: list[float]) -> float:
    """The middle value."""
    ordered = sorted(values)
    n = len(ordered)
    return ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2


def store(name: str, result: dict[str, Any]) -> Path:
    """Write raw results with the machine and the commit."""
    RECORDS.mkdir(exist_ok=True)
    path = RECORDS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **result}, indent=1) + "\n")
    return path
