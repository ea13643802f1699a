"""How long certificates take: a thousand classes, squeezed potentials, and losses that are only functions.

    OMP_NUM_THREADS=1 python benchmarks/certificates.py

Writes benchmarks/records/certificates.json. Candidate sets of a thousand classes have as many kinds of target as set
sizes, each with two distinct entries, and that is what the solvers see.
"""

from __future__ import annotations

from typing import Any

import torch
from _protocol import interleaved, median, store

import tproper as tp

SETS = tp.partial_labels(1000, 0.01)
PAIRS = tp.pair_noise(69, 0.35)


def brier(q: torch.Tensor) -> torch.Tensor:
    return (q[:, None, :] - torch.eye(3, dtype=q.dtype)).square().sum(-1)


def cases() -> dict[str, Any]:
    losses = {
        f"1000 classes, {F.name}": tp.BackwardLoss(SETS, potential=F, squeeze=(1.0, 2.0))
        for F in (tp.LogSumExp(), tp.Tsallis(0.5), tp.Tsallis(1.5), tp.Tsallis(3.0), tp.Sparsemax())
    }
    losses |= {
        f"pair noise of 69 classes, {F.name}": tp.BackwardLoss(PAIRS, potential=F, squeeze=(0.24, 1.2))
        for F in (tp.LogSumExp(), tp.Spherical(), tp.Spherical(domain="simplex"))
    }
    return {name: lambda loss=loss: tp.certify(loss) for name, loss in losses.items()} | {
        "the Brier score as a function, 3 classes": lambda: tp.certify(brier, tp.identity(3)),
        "cross entropy as a function, 3 classes": lambda: tp.certify(lambda q: -q.log(), tp.identity(3)),
    }


def main() -> None:
    times = interleaved(cases(), rounds=5, warmup=1)
    for name, seconds in times.items():
        print(f"{name:<50}{median(seconds):8.3f} s")
    print(store("certificates", {"seconds": times, "median": {n: median(s) for n, s in times.items()}}))


if __name__ == "__main__":
    main()
