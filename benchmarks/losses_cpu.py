"""The price of weak labels: BackwardLoss and ForwardLoss beside torch's cross entropy, forward + backward pass, CPU.

    python benchmarks/losses_cpu.py [--rounds 30]
    python benchmarks/losses_cpu.py --busy      # with a spinning process on every core

PyTorch ends every operation in a barrier of its threads, which waits where another program keeps a core busy; the
losses' blocks run in threads of their own, with one wait for the whole loss. The record of --busy has its own name.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
from collections.abc import Iterator

import torch
from _protocol import interleaved, median, store

import tproper as tp

ROWS, CLASSES = 4096, 1000


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--busy", action="store_true", help="with a spinning process on every core")
    args = parser.parse_args()
    rounds = args.rounds
    torch.manual_seed(0)
    scores = torch.randn(ROWS, CLASSES, requires_grad=True)
    labels = torch.randint(0, CLASSES, (ROWS,))
    T = tp.complementary(CLASSES)
    losses = {
        "cross_entropy (torch)": torch.nn.CrossEntropyLoss(),
        "backward": tp.BackwardLoss(T),
        "forward": tp.ForwardLoss(T),
        "backward, squeezed (1, 2)": tp.BackwardLoss(T, squeeze=(1.0, 2.0)),
        "backward, T = I": tp.BackwardLoss(tp.identity(CLASSES)),
    }

    def step(loss: torch.nn.Module) -> None:
        scores.grad = None
        loss(scores, labels).backward()

    with busy(args.busy):
        times = interleaved({name: (lambda loss=loss: step(loss)) for name, loss in losses.items()}, rounds)
    base = median(times["cross_entropy (torch)"])
    print(f"({ROWS}, {CLASSES}) float32, complementary labels, {torch.get_num_threads()} threads, median of {rounds}")
    for name, values in times.items():
        print(f"  {name:<28}{1e3 * median(values):8.2f} ms   {median(values) / base:5.2f}x")
    ratios = {name: median(values) / base for name, values in times.items()}
    print(
        "record:",
        store(
            "losses_cpu_busy" if args.busy else "losses_cpu",
            {"rows": ROWS, "classes": CLASSES, "seconds": times, "ratio": ratios},
        ),
    )


if __name__ == "__main__":
    main()
