"""The price of weak labels: BackwardLoss and ForwardLoss beside torch's cross entropy, forward + backward pass, CPU.

python benchmarks/losses_cpu.py [--rounds 30]
"""

from __future__ import annotations

import argparse

import torch
from _protocol import interleaved, median, store

import tproper as tp

ROWS, CLASSES = 4096, 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
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

    times = interleaved({name: (lambda loss=loss: step(loss)) for name, loss in losses.items()}, rounds)
    base = median(times["cross_entropy (torch)"])
    print(f"({ROWS}, {CLASSES}) float32, complementary labels, {torch.get_num_threads()} threads, median of {rounds}")
    for name, values in times.items():
        print(f"  {name:<28}{1e3 * median(values):8.2f} ms   {median(values) / base:5.2f}x")
    ratios = {name: median(values) / base for name, values in times.items()}
    print("record:", store("losses_cpu", {"rows": ROWS, "classes": CLASSES, "seconds": times, "ratio": ratios}))


if __name__ == "__main__":
    main()
