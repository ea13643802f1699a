"""Squeezed separable potentials by roots within roots: t, within it lambda, within it each coordinate."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from .._core import increasing_root
from .counted import Penalty, distinct, settled

if TYPE_CHECKING:  # `base` imports the solvers
    from .base import Separable

Coordinate: TypeAlias = tuple[Tensor, Tensor, Tensor]  # the unknown, v, and the slope of p in v - lambda


def nested_roots(base: Separable, penalty: Penalty, q: Tensor) -> Tensor:
    """The centred v (B, K) that minimises ``F(v) + psi(v) - <q, v>``, to rounding."""
    values, multiplicity, index = distinct(q)
    s_uniform, s_one = base._density_range(q.shape[-1])
    coordinate = _by_share if base.steep else _by_score
    memory = {"x": torch.zeros_like(values), "lambda": torch.zeros_like(values[:, :1])}  # where the next roots are near
    low, high = -values.amax(-1, keepdim=True), 1 - values.amin(-1, keepdim=True)
    offset = 1 + high - low  # t is often 0, of which no digit would be right

    def total(x: Tensor) -> Tensor:
        return (multiplicity * x).sum(-1, keepdim=True)

    def coordinates(c: Tensor, lam: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """v, the slope of p in v - lambda, and the penalty's curvature."""
        memory["x"], v, d = coordinate(base, penalty, c, lam, memory["x"])
        return v, d, penalty.curvature(v).clamp(1e-300, 1e300)

    def solve(shifted: Tensor) -> tuple[Tensor, Tensor]:
        """sum v at the multiplier ``t = shifted - offset``, with its slope in t."""
        c = values + (shifted - offset)

        def excess(lam: Tensor) -> tuple[Tensor, Tensor]:
            v, d, e = coordinates(c, lam)
            return 1 - total((c - penalty.derivative(v)).clamp(0, 1)), total(d * e / (d + e))

        low = penalty.inverse(c - 1).amax(-1, keepdim=True) - s_one
        high = penalty.inverse(c).amax(-1, keepdim=True) - s_uniform
        memory["lambda"] = increasing_root(excess, low, high, memory["lambda"], tol=2e-14)
        v, d, e = coordinates(c, memory["lambda"])
        through = total(d * e / (d + e)).clamp_min(1e-300)
        memory["v"] = v
        return total(v), total(1 / (d + e)) + total(d / (d + e)).square() / through

    solve(increasing_root(solve, low + offset, high + offset, (low + high) / 2 + offset, tol=2e-13))
    v = memory["v"].gather(-1, index)
    return settled(v, torch.ones_like(v))


def _by_score(base: Separable, penalty: Penalty, c: Tensor, lam: Tensor, start: Tensor) -> Coordinate:
    """The v with ``density(v - lambda) + psi'(v) = c``, where p in [0, 1] pins it."""

    def balance(v: Tensor) -> tuple[Tensor, Tensor]:
        p, dp = base._density(v - lam)
        return p.clamp_max(1) + penalty.derivative(v) - c, torch.where(p < 1, dp, 0.0) + penalty.curvature(v)

    v = increasing_root(balance, penalty.inverse(c - 1), penalty.inverse(c), start)
    return v, v, base._density(v - lam)[1]


def _by_share(base: Separable, penalty: Penalty, c: Tensor, lam: Tensor, start: Tensor) -> Coordinate:
    """The same by the root 1 + p of ``lambda + s(p) = g(c - p)``, s the inverse of the density, g that of psi'.

    Where the density is nearly a step, v - lambda knows no digit of p, and Newton's steps in v lead nowhere.
    """

    def balance(x: Tensor) -> tuple[Tensor, Tensor]:
        s, ds = base._inverse_density(x - 1)
        return lam + s - penalty.inverse(c - (x - 1)), ds + penalty.inverse_slope(c - (x - 1))

    zero, one = torch.ones_like(c), torch.full_like(c, 2.0)
    x = increasing_root(
        balance, torch.where(balance(one)[0] <= 0, one, zero), torch.where(balance(zero)[0] >= 0, zero, one), start
    )
    return x, penalty.inverse(c - (x - 1)), base._curvature(x - 1)
