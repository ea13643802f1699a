"""What a T that comes with the call costs: `loss(scores, labels, transitions=T)` beside the line written by hand.

    OMP_NUM_THREADS=1 python benchmarks/given_transitions.py [--rounds 30]

Forward and backward pass on the CPU, gradients with respect to scores and T, 1,024 rows and 100 classes; the cases take
turns, and processor time is counted. The line by hand is ``-(T softmax(v))_y.log().mean()`` for one T of all rows, and
with the rows' own T gathered by label for one T each. The page is that of `forward_scores.py`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from _protocol import interleaved, median, store

import tproper as tp

ROWS, CLASSES = 1024, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    g = torch.Generator().manual_seed(0)
    scores = torch.randn(ROWS, CLASSES, generator=g, requires_grad=True)
    labels = torch.randint(0, CLASSES, (ROWS,), generator=g)
    one = torch.randn(CLASSES, CLASSES, generator=g).softmax(0).requires_grad_()
    each = torch.randn(ROWS, CLASSES, CLASSES, generator=g).softmax(1).requires_grad_()
    loss = tp.ForwardLoss(tp.identity(CLASSES))
    row = torch.arange(ROWS)

    def step(call: Callable[[], torch.Tensor]) -> Callable[[], None]:
        def run() -> None:
            scores.grad = one.grad = each.grad = None
            call().backward()

        return run

    cases = {
        "one T, by hand": lambda: -(one[labels] * scores.softmax(-1)).sum(-1).log().mean(),
        "one T, transitions=": lambda: loss(scores, labels, transitions=one),
        "a T for each row, by hand": lambda: -(each[row, labels] * scores.softmax(-1)).sum(-1).log().mean(),
        "a T for each row, transitions=": lambda: loss(scores, labels, transitions=each),
    }
    times = interleaved({name: step(call) for name, call in cases.items()}, rounds, clock=time.process_time)
    for name, values in times.items():
        print(f"  {name:<32}{1e3 * median(values):8.2f} ms, least {1e3 * min(values):.2f}")
    print("record:", store("given_transitions", {"rows": ROWS, "classes": CLASSES, "seconds": times}))


if __name__ == "__main__":
    main()
