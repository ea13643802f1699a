"""Counter-based randomness: the same numbers on the CPU and on the GPU, whatever else is in the stack.

Every draw is a hash of ``(seed, epoch, position, purpose)``, never a step of a shared generator. So a
trial's batch order does not depend on which trials run beside it, a resumed run needs no generator
state, and both devices agree to the bit.
"""

from __future__ import annotations

import torch

#: What a draw is for; different purposes give independent numbers.
ORDER, CROP, VALIDATION = 1, 2, 3

GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
MIX_A = -4658895280553007687  # 0xBF58476D1CE4E5B9
MIX_B = -7723592293110705685  # 0x94D049BB133111EB


def _shift(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical right shift (torch's ``>>`` is arithmetic on int64)."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix(x: torch.Tensor) -> torch.Tensor:
    """The SplitMix64 finaliser on int64 tensors (products wrap modulo 2^64 on every device)."""
    x = x + GOLDEN
    x = (x ^ _shift(x, 30)) * MIX_A
    x = (x ^ _shift(x, 27)) * MIX_B
    return x ^ _shift(x, 31)


def bits(seed: torch.Tensor, epoch: torch.Tensor, index: torch.Tensor, purpose: int) -> torch.Tensor:
    """64 random bits for each (seed, epoch, index); the arguments broadcast."""
    return mix(mix(mix(seed) ^ (epoch * 4 + purpose)) ^ index)


def permutations(seeds: torch.Tensor, epochs: torch.Tensor, n: int) -> torch.Tensor:
    """One permutation of ``range(n)`` per trial, from its seed and its epoch.  # (S,), (S,) -> (S, n)"""
    index = torch.arange(n, device=seeds.device)
    keys = bits(seeds[:, None], epochs[:, None], index, ORDER)
    return torch.sort(keys, dim=1, stable=True).indices


def crops(
    seeds: torch.Tensor, epochs: torch.Tensor, index: torch.Tensor, pad: int, purpose: int = CROP
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Row offset, column offset (0..2 pad) and flip (0/1) of every example.  # index (S, n)"""
    draw = _shift(bits(seeds[:, None], epochs[:, None], index, purpose), 1)
    sides = 2 * pad + 1
    return draw % sides, (draw // sides) % sides, (draw // (sides * sides)) % 2
