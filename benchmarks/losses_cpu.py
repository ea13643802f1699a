"""The price of weak labels: BackwardLoss and ForwardLoss beside torch's cross entropy, forward + backward pass, CPU.

    python benchmarks/losses_cpu.py [--rounds 100]
    python benchmarks/losses_cpu.py --threads 1   # processor time of one thread: also on a machine that others use
    python benchmarks/losses_cpu.py --busy        # with a spinning process on every core

Each loss takes turns with cross entropy; what is shown are the quartiles of the ratios of neighbours.

A pass needs temporaries of 16 MB, and whether their pages are still there is the allocator's affair: glibc gives free
memory back to the system when more than a threshold of it lies at the end of the heap, and the threshold, like the end,
depends on what ran before. Fresh pages cost more than the arithmetic, so that the same code is fast in one run and slow
in the next. Both extremes are therefore measured, each in a process of its own and the same for every loss and for
torch: memory that is *kept* (never given back: what the arithmetic costs) and memory that is *fresh* (every tensor of
the batch's size is mapped anew: what its memory costs as well; cross entropy makes three of them a pass, a loss one,
or two where it is squeezed).
A program of one's own lies between.

A small batch (256 x 10) is compared with the line written by hand, ``logsumexp v - c v_y - (1 - c) mean v``, with the
line over a table of targets, ``logsumexp v - <r, v>``, and with the form of the paper's code, ``-<r, log softmax v>``.

PyTorch ends every operation in a barrier of its threads, which waits where another program keeps a core busy: --busy
shows what that does to losses and to cross entropy. The records of --busy and of --threads have their own names.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import torch
from _protocol import beside, interleaved, median, quartiles, store

import tproper as tp

ROWS, CLASSES = 4096, 1000
SMALL = 256, 10  # a batch in which calls cost more than arithmetic
PEER = "cross_entropy (torch)"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h
#: From which size on glibc maps memory of its own for a request (at most 32 MB), and how much free memory it keeps.
MEMORY = {"kept": (32 << 20, (1 << 31) - 1), "fresh": (4 << 20, (1 << 31) - 1)}

Pairs = dict[str, list[tuple[float, float]]]


def set_memory(regime: str) -> None:
    """Fix glibc's thresholds, which else move with what is freed; one arena for all threads."""
    libc = ctypes.CDLL("libc.so.6")
    mapped, kept = MEMORY[regime]
    for option, value in ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, mapped), (M_TRIM_THRESHOLD, kept)):
        if libc.mallopt(option, value) != 1:
            raise OSError(f"mallopt({option}, {value}): expected 1, got 0; this benchmark needs glibc")


def measure(regime: str, rounds: int, threads: int | None) -> Pairs:
    """Seconds of each loss and of cross entropy beside it, in a process whose memory is kept or always fresh."""
    set_memory(regime)
    if threads is not None:
        torch.set_num_threads(threads)
    torch.manual_seed(0)
    scores = torch.randn(ROWS, CLASSES, requires_grad=True)
    labels = torch.randint(0, CLASSES, (ROWS,))
    T = tp.complementary(CLASSES)
    losses = {
        "backward": tp.BackwardLoss(T),
        "forward": tp.ForwardLoss(T),
        "backward, squeezed (1, 2)": tp.BackwardLoss(T, squeeze=(1.0, 2.0)),
        "backward, T = I": tp.BackwardLoss(tp.identity(CLASSES)),
    }

    def step(loss: torch.nn.Module) -> None:
        scores.grad = None
        loss(scores, labels).backward()

    clock = time.process_time if threads == 1 else time.perf_counter
    cases = {name: (lambda loss=loss: step(loss)) for name, loss in losses.items()}
    return beside(lambda: step(torch.nn.CrossEntropyLoss()), cases, rounds, warmup=5, clock=clock)


def measure_small(rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of a pass over a small batch, and of the line beside it written by hand in three ways."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    n, K = SMALL
    v = torch.randn(n, K, requires_grad=True)
    y = torch.randint(0, K, (n,))
    T = tp.complementary(K)
    table = T.reconstruction().targets(range(K)).float()  # (K, K): targets by label
    c = float(table[0, 0] - table[0, 1])
    checked, plain = tp.BackwardLoss(T), tp.BackwardLoss(T, validate=False)
    forward = tp.ForwardLoss(T)
    by_hand = {
        "the line by hand": lambda: (
            torch.logsumexp(v, -1) - c * v.gather(-1, y[:, None])[:, 0] - (1 - c) * v.mean(-1)
        ).mean(),
        "over a table of targets": lambda: (torch.logsumexp(v, -1) - (table[y] * v).sum(-1)).mean(),
        "the paper's code": lambda: -(table[y] * torch.log_softmax(v, -1)).sum(-1).mean(),
    }
    ours = {
        "backward, not validated": lambda: plain(v, y),
        "backward": lambda: checked(v, y),
        "forward": lambda: forward(v, y),
    }

    def step(loss: Callable[[], torch.Tensor]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(20):
                v.grad = None
                loss().backward()

        return run

    cases = {name: step(loss) for name, loss in {**by_hand, **ours}.items()}
    for loss in (*by_hand.values(), *ours.values()):
        assert torch.allclose(loss(), by_hand["the line by hand"](), atol=1e-4) or loss is ours["forward"]
    return interleaved(cases, rounds, clock=time.process_time)


def spin() -> None:
    """Keep a core busy until killed."""
    while True:
        pass


@contextlib.contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """A spinning process on every core, or nothing."""
    others = [multiprocessing.Process(target=spin, daemon=True) for _ in range((os.cpu_count() or 1) * wanted)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.kill()


def summary(pairs: Pairs) -> dict[str, dict[str, object]]:
    """Raw seconds, the medians' ratios and the quartiles of the ratios of neighbours."""
    seconds = {PEER: [peer for values in pairs.values() for _, peer in values]}
    seconds |= {name: [own for own, _ in values] for name, values in pairs.items()}
    spread = {name: quartiles([own / peer for own, peer in values]) for name, values in pairs.items()}
    return {"seconds": seconds, "ratio": {PEER: 1.0} | {k: v[1] for k, v in spread.items()}, "quartiles": spread}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, help="of torch; with 1, processor time is measured")
    parser.add_argument("--busy", action="store_true", help="with a spinning process on every core")
    args = parser.parse_args()
    torch.set_num_threads(args.threads or torch.get_num_threads())  # for the record; the measuring is another process's
    result = {}
    for regime in MEMORY:
        with busy(args.busy), ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            result[regime] = summary(process.submit(measure, regime, args.rounds, args.threads).result())
    threads = torch.get_num_threads()
    print(
        f"({ROWS}, {CLASSES}) float32, complementary labels, {threads} threads, medians and quartiles of {args.rounds}"
    )
    for regime, values in result.items():
        print(f"  memory {regime:<21}      ms   times cross entropy")
        for name, seconds in values["seconds"].items():
            low, middle, high = values["quartiles"].get(name, (1.0, 1.0, 1.0))
            print(f"  {name:<28}{1e3 * median(seconds):8.2f}   {middle:5.2f}  ({low:.2f} to {high:.2f})")
    small = measure_small(args.rounds)
    print(f"{SMALL} float32, complementary labels, one thread, processor time, medians of {args.rounds} x 20")
    line = median(small["the line by hand"])
    for case, seconds in small.items():
        print(
            f"  {case:<28}{1e6 * median(seconds) / 20:8.1f} us   {median(seconds) / line:5.2f} times the line by hand"
        )
    name = "losses_cpu" + "_busy" * args.busy + f"_{args.threads}_threads" * (args.threads is not None)
    head = {"rows": ROWS, "classes": CLASSES, "rounds": args.rounds}
    print(
        "record:",
        store(name, {**head, **result["kept"], "fresh": result["fresh"], "small": {"shape": SMALL, "seconds": small}}),
    )


if __name__ == "__main__":
    main()
