"""Structured losses against compiled cross entropy on a CUDA device: correctness, time, memory, bytes over time.

    python benchmarks/scale_losses_gpu.py --out benchmarks/records/scale_losses_gpu.json

First every loss is compared with its float64 value and gradient on fresh inputs; then forward + backward of (8192, K)
scores is timed for K = 10, 1,000 and 50,000 in bfloat16 and float32, beside `torch.compile(F.cross_entropy)` on the
same scores in the same run. Two times are taken, both medians over rotating input sets: `eager`, a call as a training
loop makes it, and `device`, replays of a CUDA graph, which leaves launch gaps out. `floor` counts the bytes that must
move (scores and labels read once, gradient written once); `of copy` sets them over the device time against the copy
rate measured at the start. A failing case is reported and does not stop the others.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import tproper as tp
from tproper.fused import fuse

N = 8192
CLASSES = (10, 1000, 50_000)
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
TOLERANCE = {"bf16": 1e-2, "f32": 1e-5}  # bfloat16 rounds the gradient it stores


@dataclass(frozen=True)
class Case:
    name: str
    limit: float | None  # times compiled cross entropy; None: shown for information
    dtypes: tuple[str, ...] = ("bf16", "f32")
    compiled: bool = False  # torch.compile of the plain formulation, beside the kernel

    def transition(self, K: int) -> Any:
        kind = self.name.split()[0]
        return {
            "identity": lambda: tp.identity(K),
            "symmetric": lambda: tp.symmetric_noise(K, 0.3),
            "complementary": lambda: tp.complementary(K),
            "partial": lambda: tp.partial_labels(K, 0.1 if K == 10 else 0.01),
            "multi-complementary": lambda: tp.multi_complementary(K, max(1, K // 4)),
        }[kind]()

    def loss(self, K: int, reduction: str = "mean") -> Any:
        T, how = self.transition(K), self.name.split()[1]
        if how == "forward":
            return tp.ForwardLoss(T, reduction=reduction, validate=False)
        squeeze = {"BC": None, "gLS2": (1.0, 2.0), "gLS1.5": (1.0, 1.5)}[how]
        return tp.BackwardLoss(T, squeeze=squeeze, reduction=reduction, validate=False)

    def labels(self, K: int, seed: int) -> Tensor:
        g = torch.Generator(device="cuda").manual_seed(seed)
        true = torch.randint(K, (N,), generator=g, device="cuda")
        if self.name.startswith("partial"):
            masks = torch.rand(N, K, generator=g, device="cuda") < (0.1 if K == 10 else 0.01)
            return masks.scatter_(1, true[:, None], True)
        if self.name.startswith("multi"):
            keys = torch.rand(N, K, generator=g, device="cuda").scatter_(1, true[:, None], 2.0)
            m = max(1, K // 4)
            return keys > keys.kthvalue(m, dim=1, keepdim=True).values
        if self.name.startswith("complementary"):
            return (true + torch.randint(1, K, (N,), generator=g, device="cuda")) % K
        return true


CASES = (
    Case("symmetric BC", 1.15),
    Case("complementary BC", 1.15, compiled=True),
    Case("complementary gLS2", 1.15),
    Case("complementary forward", 1.15),
    Case("symmetric forward", 1.15, ("bf16",)),
    Case("partial BC", 1.5, compiled=True),
    Case("partial gLS2", 1.5, ("bf16",)),
    Case("partial forward", 1.5),
    Case("multi-complementary BC", 1.5, ("bf16",)),
    Case("identity BC", None, ("bf16",)),
    Case("complementary gLS1.5", None, ("bf16",)),
)


def scores_of(K: int, dtype: torch.dtype, seed: int) -> Tensor:
    g = torch.Generator(device="cuda").manual_seed(seed)
    return (3 * torch.randn(N, K, generator=g, device="cuda")).to(dtype).requires_grad_()


def relative(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b).norm() / b.norm())


def check(case: Case, K: int, dtype: str, seed: int, reduction: str = "mean", scale: float = 1.0) -> dict[str, Any]:
    """Relative errors of the losses and of the gradient, against float64 through plain PyTorch."""
    v, y = scores_of(K, DTYPES[dtype], seed), case.labels(K, seed)
    exact = v.detach().double().requires_grad_()
    up = torch.linspace(0.5, 1.5, N, device="cuda") if reduction == "none" else torch.tensor(scale, device="cuda")
    reference = case.loss(K, reduction).cuda()(exact, y)
    (reference * up).sum().backward()
    poison = [torch.full_like(v, float("nan")) for _ in range(2)]  # so that a forgotten element shows
    del poison
    fused = fuse(case.loss(K, reduction).cuda(), "triton")
    value = fused(v, y)
    (value * up).sum().backward()
    each = fuse(case.loss(K, "none").cuda(), "triton")(v.detach(), y)
    rows = case.loss(K, "none").cuda()(v.detach().double(), y)
    out = {"losses": relative(each, rows), "gradient": relative(v.grad, exact.grad)}
    # losses come in the scores' dtype, so bfloat16 ones are rounded on the way out
    ok = out["losses"] < TOLERANCE[dtype] and out["gradient"] < TOLERANCE[dtype]
    return {**out, "ok": ok, "reduction": reduction, "upstream": scale}


def medians(step: Callable[[int], None], sets: int, budget: float = 0.25) -> dict[str, float]:
    """Milliseconds a step: `eager` from events around each call, `device` from a captured graph over all sets."""
    for i in range(3 * sets if sets < 8 else sets):
        step(i % sets)
    torch.cuda.synchronize()
    times: list[float] = []
    stop = time.perf_counter() + budget
    i = 0
    while len(times) < 20 or time.perf_counter() < stop:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        step(i % sets)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
        i += 1
    out = {"eager": statistics.median(times)}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for j in range(sets):
            step(j)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for j in range(sets):
            step(j)
    replays: list[float] = []
    for _ in range(max(10, int(budget / max(1e-4, sets * out["eager"] / 1e3)) // 2)):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        replays.append(begin.elapsed_time(end) / sets)
    out["device"] = statistics.median(replays)
    return out


def measure(call: Callable[[Tensor, Tensor], Tensor], K: int, dtype: str, labels: Callable[[int], Tensor]) -> dict:
    """Time and peak memory of forward + backward; memory counts scores, labels and all the step allocates."""
    size = N * K * DTYPES[dtype].itemsize
    sets = max(2, min(8, int(3e8 // size)))
    inputs = [(scores_of(K, DTYPES[dtype], s), labels(s)) for s in range(sets)]

    def step(i: int) -> None:
        v, y = inputs[i]
        v.grad = None
        call(v, y).backward()

    step(0)
    for v, _ in inputs:
        v.grad = None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step(0)
    torch.cuda.synchronize()
    v, y = inputs[0]
    held = v.numel() * v.element_size() + y.numel() * y.element_size()
    peak = torch.cuda.max_memory_allocated() - before + held
    return {**medians(step, sets), "peak_mb": peak / 2**20}


def copy_rate() -> float:
    """Bytes read plus written a second by a large device-to-device copy."""
    a = torch.randn(2**28, device="cuda")
    b = torch.empty_like(a)
    times = []
    for _ in range(20):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        b.copy_(a)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return 2 * a.numel() * 4 / (statistics.median(times) / 1e3)


def tune(K: int, dtype: str) -> list[dict[str, Any]]:
    """Launch shapes of the kernel, for whoever changes the defaults."""
    from tproper.fused import fused_loss

    case = Case("complementary BC", None)
    loss = case.loss(K)
    rows = []
    shapes = {
        10: [(32, 16, 4), (64, 16, 4), (128, 16, 4), (32, 16, 1)],
        1000: [(1, 1024, 1), (1, 1024, 2), (1, 1024, 4), (1, 1024, 8), (2, 1024, 4), (4, 1024, 8)],
        50_000: [(1, 4096, 8), (1, 4096, 16), (1, 8192, 8), (1, 8192, 16), (1, 8192, 32), (1, 16384, 32)],
    }[K]
    for shape in shapes:
        try:
            got = measure(lambda v, y, s=shape: fused_loss(loss, v, y, config=s), K, dtype, lambda s: case.labels(K, s))
            rows.append({"K": K, "dtype": dtype, "shape": list(shape), **got})
        except Exception as error:
            rows.append({"K": K, "dtype": dtype, "shape": list(shape), "error": str(error)[:200]})
    return rows


def grid() -> list[tuple[Case, int, str]]:
    return [(case, K, dtype) for case in CASES for K in CLASSES for dtype in case.dtypes]


def cross_entropy() -> Callable[[Tensor, Tensor], Tensor]:
    torch._dynamo.reset()
    return torch.compile(lambda v, y: F.cross_entropy(v, y), dynamic=False)


def plain(case: Case, K: int) -> Callable[[Tensor, Tensor], Tensor]:
    torch._dynamo.reset()
    return torch.compile(fuse(case.loss(K).cuda(), "torch"), dynamic=False)


def warm(share: int, of: int) -> None:
    """Fill the compilers' disk caches from several processes, so that the run itself does not wait for them."""
    jobs: list[tuple[str, Any, int, str]] = [("ce", None, K, d) for K in CLASSES for d in DTYPES]
    jobs += [("plain", c, K, d) for c, K, d in grid() if c.compiled]
    jobs += [("fused", c, K, d) for c, K, d in grid()]
    for kind, case, K, dtype in jobs[share::of]:
        try:
            v = scores_of(K, DTYPES[dtype], 0)
            y = CASES[0].labels(K, 0) if case is None else case.labels(K, 0)
            call = {
                "ce": cross_entropy,
                "plain": lambda c=case, k=K: plain(c, k),
                "fused": lambda c=case, k=K: fuse(c.loss(k).cuda(), "triton"),
            }[kind]()
            call(v, y).backward()
            torch.cuda.synchronize()
        except Exception:
            traceback.print_exc()


def describe() -> dict[str, Any]:
    commit = (
        os.environ.get("TPROPER_REVISION")
        or subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent
        ).stdout.strip()
    )
    import triton

    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "commit": commit[:12],
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "rows": N,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/scale_losses_gpu.json"))
    parser.add_argument("--seconds", type=float, default=600.0, help="measure nothing new after this time")
    parser.add_argument("--workers", type=int, default=8, help="processes that compile ahead")
    parser.add_argument("--tune", action="store_true", help="also time other launch shapes")
    parser.add_argument("--warm", nargs=2, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.warm:
        warm(*args.warm)
        return
    start = time.perf_counter()

    def late(share: float = 1.0) -> bool:
        return time.perf_counter() - start > share * args.seconds

    helpers = [
        subprocess.Popen([sys.executable, __file__, "--warm", str(i), str(args.workers)], stderr=subprocess.DEVNULL)
        for i in range(args.workers)
    ]
    record: dict[str, Any] = {"machine": describe(), "copy_bytes_per_s": copy_rate(), "rows": []}
    record.update(checks=[], tuning=[], failures=[])
    for process in helpers:
        process.wait()
    print(f"compiled ahead in {time.perf_counter() - start:.0f} s", flush=True)

    def save() -> None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(record, indent=1))

    def attempt(what: str, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except Exception as error:
            record["failures"].append({"what": what, "error": f"{type(error).__name__}: {error}"[:500]})
            torch.cuda.synchronize()
            return None

    for i, (case, K, dtype) in enumerate(grid()):
        if late(0.4):
            break
        found = attempt(f"check {case.name} K={K} {dtype}", lambda c=case, k=K, d=dtype, s=i: check(c, k, d, 100 + s))
        if found:
            record["checks"].append({"case": case.name, "K": K, "dtype": dtype, **found})
    for reduction, scale in (("mean", 3.0), ("sum", 1.0), ("none", 1.0)):
        for name in ("complementary gLS2", "partial forward"):
            case = Case(name, None)
            found = attempt(
                f"check {name} {reduction}", lambda c=case, r=reduction, s=scale: check(c, 1000, "f32", 7, r, s)
            )
            if found:
                record["checks"].append({"case": name, "K": 1000, "dtype": "f32", **found})
    bad = [c for c in record["checks"] if not c["ok"]]
    print(f"{len(record['checks'])} checks against float64, {len(bad)} beyond tolerance", flush=True)
    save()

    for K in reversed(CLASSES):
        for dtype in DTYPES:
            peer = attempt(f"cross entropy K={K} {dtype}", lambda k=K, d=dtype: _peer(k, d))
            if peer is None:
                continue
            record["rows"].append({"case": "cross entropy, compiled", "K": K, "dtype": dtype, **peer})
            for case in CASES:
                if dtype not in case.dtypes or late(0.9):
                    continue
                label = f"{case.name} K={K} {dtype}"
                got = attempt(label, lambda c=case, k=K, d=dtype: _ours(c, k, d, "triton"))
                if got:
                    record["rows"].append(_ratio(case, K, dtype, "triton", got, peer))
                if case.compiled and (got := attempt(label, lambda c=case, k=K, d=dtype: _ours(c, k, d, "compile"))):
                    record["rows"].append(_ratio(case, K, dtype, "compiled plain", got, peer))
            save()
    if args.tune:
        for K in reversed(CLASSES):
            for dtype in DTYPES:
                if not late(0.95):
                    record["tuning"] += attempt(f"tune {K} {dtype}", lambda k=K, d=dtype: tune(k, d)) or []
    save()
    show(record)


def _peer(K: int, dtype: str) -> dict[str, Any]:
    return measure(cross_entropy(), K, dtype, lambda s: CASES[0].labels(K, s))


def _ours(case: Case, K: int, dtype: str, backend: str) -> dict[str, Any]:
    call = plain(case, K) if backend == "compile" else fuse(case.loss(K).cuda(), "triton")
    return measure(call, K, dtype, lambda s: case.labels(K, s))


def _ratio(case: Case, K: int, dtype: str, backend: str, got: dict, peer: dict) -> dict[str, Any]:
    row = {"case": case.name, "K": K, "dtype": dtype, "backend": backend, "limit": case.limit, **got}
    for name in ("eager", "device", "peak_mb"):
        row[f"{name}_ratio"] = got[name] / peer[name]
    masks = N * K if case.name.startswith(("partial", "multi")) else 8 * N
    row["floor_bytes"] = 2 * N * K * DTYPES[dtype].itemsize + masks
    return row


def show(record: dict[str, Any]) -> None:
    rate = record["copy_bytes_per_s"]
    for failure in record["failures"]:
        print("FAILED", failure["what"], failure["error"][:160])
    for c in record["checks"]:
        if not c["ok"]:
            print("BEYOND TOLERANCE", json.dumps(c))
    for t in record["tuning"]:
        print("tune", t["K"], t["dtype"], t["shape"], t.get("error") or f"{t['eager']:.4f} {t['device']:.4f} ms")
    print(f"{record['machine']['device']}, copy {rate / 1e12:.2f} TB/s; ms and times cross entropy's")
    head = f"{'case':<24}{'K':>6} {'dtype':<5}{'backend':<15}{'eager':>8}{'x':>6}{'device':>9}{'x':>6}{'MB':>8}{'x':>6}"
    print(head + f"{'of copy':>9}  limit")
    for r in record["rows"]:
        line = f"{r['case']:<24}{r['K']:>6} {r['dtype']:<5}{r.get('backend', 'inductor'):<15}"
        line += f"{r['eager']:>8.4f}{r.get('eager_ratio', 1):>6.2f}{r['device']:>9.4f}{r.get('device_ratio', 1):>6.2f}"
        line += f"{r['peak_mb']:>8.1f}{r.get('peak_mb_ratio', 1):>6.2f}"
        if "floor_bytes" in r:
            line += f"{r['floor_bytes'] / (r['device'] / 1e3) / rate:>9.2f}"
            worst = max(r["device_ratio"], r["eager_ratio"], r["peak_mb_ratio"])
            if r["limit"] and r["backend"] == "triton":
                line += f"  {r['limit']:g} {'ok' if worst <= r['limit'] else 'MISSED'}"
        print(line)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("scale_losses_gpu.py: expected a CUDA device, found none")
    main()
