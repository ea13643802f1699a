"""Structured losses against compiled cross entropy on a CUDA device: correctness, time, memory, bytes over time.

    python benchmarks/scale_losses_gpu.py --out benchmarks/records/scale_losses_gpu.json

First every loss is compared with its float64 value and gradient on fresh inputs; then forward + backward of (8192, K)
scores is timed for K = 10, 1,000 and 50,000 in bfloat16 and float32, beside `torch.compile(F.cross_entropy)` on the
same scores in the same run. Two times are taken, both medians over rotating input sets: `eager`, steps as a training
loop makes them, in turn with cross entropy's, and `device`, replays of a CUDA graph, which leaves launch gaps out.
`of copy` sets the bytes that must move (scores and labels read once, gradient written once) over the device time
against the copy rate measured in the run. A failing case is reported and does not stop the others.
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
from tproper.losses import fuse
from tproper_lab.results import revision

N = 8192
CLASSES = [10, 1000, 50_000]
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
            return tp.ForwardLoss(T, reduction=reduction)
        squeeze = {"BC": None, "gLS2": (1.0, 2.0), "gLS1.5": (1.0, 1.5)}[how]
        return tp.BackwardLoss(T, squeeze=squeeze, reduction=reduction)

    def labels(self, K: int, seed: int) -> Tensor:
        g = torch.Generator(device="cuda").manual_seed(seed)
        true = torch.randint(K, (N,), generator=g, device="cuda")
        if self.name.startswith("partial"):
            masks = torch.rand(N, K, generator=g, device="cuda") < (0.1 if K == 10 else 0.01)
            return masks.scatter_(1, true[:, None], True)
        if self.name.startswith("multi"):
            keys = torch.rand(N, K, generator=g, device="cuda").scatter_(1, true[:, None], 2.0)
            excluded = keys.topk(max(1, K // 4), dim=1, largest=False).indices
            return torch.ones(N, K, dtype=torch.bool, device="cuda").scatter_(1, excluded, False)
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
    rows = N if K < 10_000 else N // 8  # float64 references are large
    v, y = scores_of(K, DTYPES[dtype], seed)[:rows].detach().requires_grad_(), case.labels(K, seed)[:rows]
    exact = v.detach().double().requires_grad_()
    up = torch.linspace(0.5, 1.5, rows, device="cuda") if reduction == "none" else torch.tensor(scale, device="cuda")
    reference = case.loss(K, reduction).cuda()(exact, y)
    (reference * up).sum().backward()
    poison = [torch.full_like(v, float("nan")) for _ in range(2)]  # so that a forgotten element shows
    del poison
    fused = fuse(case.loss(K, reduction).cuda(), "triton")
    value = fused(v, y)
    (value * up).sum().backward()
    each = fuse(case.loss(K, "none").cuda(), "triton")(v.detach(), y)
    true = case.loss(K, "none").cuda()(v.detach().double(), y)
    out = {"losses": relative(each, true), "gradient": relative(v.grad, exact.grad)}
    # losses come in the scores' dtype, so bfloat16 ones are rounded on the way out
    ok = out["losses"] < TOLERANCE[dtype] and out["gradient"] < TOLERANCE[dtype]
    return {**out, "ok": ok, "reduction": reduction, "upstream": scale}


Call = Callable[[Tensor, Tensor], Tensor]


def inputs_of(K: int, dtype: str, labels: Callable[[int], Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Several sets of scores and labels, so that one is not in the cache when it is used again."""
    size = N * K * DTYPES[dtype].itemsize
    return [(scores_of(K, DTYPES[dtype], s), labels(s)) for s in range(max(2, min(8, int(3e8 // size))))]


def steps_of(call: Call, inputs: list[tuple[Tensor, Tensor]]) -> list[Callable[[], None]]:
    """Forward + backward on each set."""

    def step(v: Tensor, y: Tensor) -> None:
        v.grad = None
        call(v, y).backward()

    return [lambda v=v, y=y: step(v, y) for v, y in inputs]


def burst(steps: list[Callable[[], None]], seconds: float = 0.01) -> float:
    """Milliseconds a step when steps follow each other as in a training loop, launches included."""
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for step in steps:
            step()
        torch.cuda.synchronize()
        count += len(steps)
    return 1e3 * (time.perf_counter() - begin) / count


def device_time(steps: list[Callable[[], None]]) -> float:
    """Milliseconds a step on the device alone: replays of a graph over all input sets."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for step in steps:
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for step in steps:
            step()
    times = []
    for _ in range(15):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / len(steps))
    return statistics.median(times)


def peak_memory(step: Callable[[], None], v: Tensor, y: Tensor) -> float:
    """MiB of scores, labels and all that a step allocates."""
    step()
    v.grad = None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    own = torch.cuda.max_memory_allocated() - before
    return (own + v.numel() * v.element_size() + y.numel() * y.element_size()) / 2**20


def measure(call: Call, K: int, dtype: str, labels: Callable[[int], Tensor], peer: Call) -> dict[str, float]:
    """Times and memory; `eager` times of the peer are taken in turn with ours, since a host's speed drifts."""
    inputs = inputs_of(K, dtype, labels)
    steps = steps_of(call, inputs)
    out = {"peak_mb": peak_memory(steps[0], *inputs[0])}
    clean = [(v, CASES[0].labels(K, s)) for s, (v, _) in enumerate(inputs)]
    other = steps_of(peer, clean)
    for run in (*steps, *other):
        run()
    pairs = [(burst(steps), burst(other)) for _ in range(7)]
    out["eager"], out["eager_peer"] = (statistics.median(p[i] for p in pairs) for i in range(2))
    out["eager_ratio"] = statistics.median(a / b for a, b in pairs)
    out["device"] = device_time(steps)
    return out


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


SHAPES = {
    10: [(32, 16, 1), (32, 16, 4), (64, 16, 4), (128, 16, 4)],
    1000: [(1, 1024, 2), (1, 1024, 4), (2, 1024, 4), (4, 1024, 8)],
    50_000: [(1, 2048, 4), (1, 4096, 4), (1, 4096, 8), (1, 8192, 8), (1, 8192, 16)],
}


def tune(K: int, dtype: str, name: str) -> list[dict[str, Any]]:
    """The kernel alone in several launch shapes, best first."""
    from tproper.losses.kernels import triton_rows as kernels
    from tproper.losses.kernels.dispatch import plan

    case = Case(name, None)
    made = plan(case.loss(K))
    v, y = scores_of(K, DTYPES[dtype], 0).detach(), case.labels(K, 0)
    losses, gradient = torch.empty(N, device="cuda"), torch.empty_like(v)
    rows = []
    for shape in SHAPES[K]:
        times = []
        try:
            for _ in range(12):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                kernels.launch(made, v, y, None, losses, gradient, 1 / N, config=shape)
                end.record()
                end.synchronize()
                times.append(begin.elapsed_time(end))
        except Exception as error:
            rows.append({"case": name, "K": K, "dtype": dtype, "shape": shape, "error": str(error)[:200]})
            continue
        rows.append({"case": name, "K": K, "dtype": dtype, "shape": shape, "ms": min(times[2:])})
    return sorted(rows, key=lambda r: r.get("ms", float("inf")))


def use_shapes(chosen: dict[str, list[int]]) -> None:
    """Launch shapes by "K dtype", instead of the defaults."""
    from tproper.losses.kernels import triton_rows as kernels

    default = kernels.shape_of_launch
    sizes = {DTYPES[d].itemsize: d for d in DTYPES}

    def shape(K: int, element_size: int) -> tuple[int, int, int]:
        found = chosen.get(f"{K} {sizes.get(element_size)}")
        return tuple(found) if found else default(K, element_size)  # type: ignore[return-value]

    kernels.shape_of_launch = shape


def grid() -> list[tuple[Case, int, str]]:
    return [(case, K, dtype) for K in CLASSES for dtype in DTYPES for case in CASES if dtype in case.dtypes]


def cross_entropy() -> Call:
    torch._dynamo.reset()
    return torch.compile(lambda v, y: F.cross_entropy(v, y), dynamic=False)


def plain(case: Case, K: int) -> Call:
    torch._dynamo.reset()
    return torch.compile(fuse(case.loss(K).cuda(), "torch"), dynamic=False)


def also_compiled(case: Case, K: int, dtype: str) -> bool:
    return case.compiled and dtype == "bf16" and K > 10


def jobs(kind: str) -> list[tuple[str, Case | None, int, str]]:
    if kind == "fused":
        return [("fused", c, K, d) for c, K, d in grid()]
    peers: list[tuple[str, Case | None, int, str]] = [("ce", None, K, d) for K in CLASSES for d in DTYPES]
    return peers + [("plain", c, K, d) for c, K, d in grid() if also_compiled(c, K, d)]


def warm(kind: str, share: int, of: int) -> None:
    """Fill the compilers' disk caches from several processes, so that the run itself does not wait for them."""
    use_shapes(json.loads(os.environ.get("LAUNCH_SHAPES", "{}")))
    for what, case, K, dtype in jobs(kind)[share::of]:
        try:
            v = scores_of(K, DTYPES[dtype], 0)
            if case is None:
                call, y = cross_entropy(), CASES[0].labels(K, 0)
            else:
                call = plain(case, K) if what == "plain" else fuse(case.loss(K).cuda(), "triton")
                y = case.labels(K, 0)
            call(v, y).backward()
            if what == "fused" and case is not None:
                fuse(case.loss(K, "none").cuda(), "triton")(v.detach(), y)  # the variant that `check` uses
            torch.cuda.synchronize()
        except Exception:
            traceback.print_exc()


def compile_ahead(kind: str, workers: int) -> list[subprocess.Popen]:
    command = [sys.executable, __file__, "--warm", kind]
    return [subprocess.Popen([*command, str(i), str(workers)], stderr=subprocess.DEVNULL) for i in range(workers)]


def describe() -> dict[str, Any]:
    import triton

    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "commit": revision(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "rows": N,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/scale_losses_gpu.json"))
    parser.add_argument("--seconds", type=float, default=600.0, help="measure nothing new after this time")
    parser.add_argument("--workers", type=int, default=10, help="processes that compile ahead")
    parser.add_argument("--tune", action="store_true", help="time other launch shapes first, and use the best ones")
    parser.add_argument("--classes", default=os.environ.get("CLASSES", "10,1000,50000"))
    parser.add_argument("--warm", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    CLASSES[:] = map(int, args.classes.split(","))
    os.environ["CLASSES"] = args.classes  # for the processes that compile ahead
    if args.warm:
        warm(args.warm[0], int(args.warm[1]), int(args.warm[2]))
        return
    start = time.perf_counter()

    def late(share: float = 1.0) -> bool:
        return time.perf_counter() - start > share * args.seconds

    def passed(what: str) -> None:
        print(f"{time.perf_counter() - start:5.0f} s  {what}", flush=True)

    record: dict[str, Any] = {"machine": describe(), "rows": [], "checks": [], "tuning": [], "failures": []}

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

    helpers = compile_ahead("peers", args.workers)
    if args.tune:
        chosen = {}
        for K in CLASSES:
            for dtype in DTYPES:
                for name in ("complementary gLS2", "complementary BC"):
                    found = attempt(f"tune {K} {dtype}", lambda k=K, d=dtype, n=name: tune(k, d, n)) or []
                    record["tuning"] += found
                    if found and "ms" in found[0]:
                        chosen[f"{K} {dtype}"] = found[0]["shape"]  # the plain loss decides, timed last
        use_shapes(chosen)
        record["shapes"] = chosen
        os.environ["LAUNCH_SHAPES"] = json.dumps(chosen)
        passed(f"launch shapes: {chosen}")
    helpers += compile_ahead("fused", args.workers)
    for process in helpers:
        process.wait()
    passed("compiled ahead")
    record["copy_bytes_per_s"] = copy_rate()

    for i, (case, K, dtype) in enumerate(grid()):
        if late(0.6):
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
    passed(f"{len(record['checks'])} checks against float64, {len(bad)} beyond tolerance")
    save()

    for K in CLASSES:
        for dtype in DTYPES:
            call = cross_entropy()
            peer = attempt(
                f"cross entropy K={K} {dtype}",
                lambda k=K, d=dtype, c=call: measure(c, k, d, lambda s: CASES[0].labels(k, s), c),
            )
            if peer is None:
                continue
            record["rows"].append({"case": "cross entropy, compiled", "K": K, "dtype": dtype, **peer})
            for case in CASES:
                for backend in ("triton", "compiled plain"):
                    wanted = dtype in case.dtypes and (backend == "triton" or also_compiled(case, K, dtype))
                    if not wanted or late(0.97):
                        continue
                    got = attempt(
                        f"{case.name} K={K} {dtype} {backend}",
                        lambda c=case, k=K, d=dtype, b=backend, p=call: _ours(c, k, d, b, p),
                    )
                    if got:
                        record["rows"].append(_ratio(case, K, dtype, backend, got, peer))
            save()
    passed("measured")
    show(record)


def _ours(case: Case, K: int, dtype: str, backend: str, peer: Call) -> dict[str, Any]:
    # torch.compile's caches are not reset here: the peer stays compiled
    loss = case.loss(K).cuda()
    call = fuse(loss, "triton") if backend == "triton" else torch.compile(fuse(loss, "torch"), dynamic=False)
    return measure(call, K, dtype, lambda s: case.labels(K, s), peer)


def _ratio(case: Case, K: int, dtype: str, backend: str, got: dict, peer: dict) -> dict[str, Any]:
    row = {"case": case.name, "K": K, "dtype": dtype, "backend": backend, "limit": case.limit, **got}
    for name in ("device", "peak_mb"):
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
        print("tune", t["case"], t["K"], t["dtype"], t["shape"], t.get("error") or f"{t['ms']:.4f} ms")
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
