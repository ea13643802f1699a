"""What the solvers are made of: the penalty, and potentials seen through distinct scores and their counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from .._core import increasing_root

if TYPE_CHECKING:  # `base` imports the solvers
    from .base import Potential, Separable


def is_separable(base: Potential) -> TypeGuard[Separable]:
    """Whether the nested-root solver applies to this base potential."""
    return hasattr(base, "_density") and base.domain == "simplex"


class Penalty:
    """psi(x) = k/2 |x|^alpha with its derivative u = psi'(x), the inverse x = g(u) of that, and its curvature."""

    def __init__(self, k: float, alpha: float) -> None:
        self.k, self.alpha = k, alpha
        self.slope = k * alpha / 2
        self.dual = k > 0 and alpha < 2  # steps are taken in u

    def value(self, x: Tensor) -> Tensor:
        return self.k / 2 * (x.square() if self.alpha == 2 else x.abs().pow(self.alpha))

    def derivative(self, x: Tensor) -> Tensor:
        if self.alpha == 2:
            return self.slope * x
        return self.slope * x.sign() * x.abs().pow(self.alpha - 1)

    def inverse(self, u: Tensor) -> Tensor:
        if self.alpha == 2:
            return u / self.slope
        return u.sign() * (u.abs() / self.slope).pow(1 / (self.alpha - 1))

    def inverse_slope(self, u: Tensor) -> Tensor:
        return (u.abs() / self.slope).pow(1 / (self.alpha - 1) - 1) / (self.slope * (self.alpha - 1))

    def curvature(self, x: Tensor) -> Tensor:
        return self.slope * (self.alpha - 1) * x.abs().clamp_min(1e-300).pow(self.alpha - 2)

    def balanced(self, u: Tensor, count: Tensor) -> Tensor:
        """u shifted by the constant that makes the scores g(u) sum to zero."""
        if self.alpha == 2:
            return centred(u, count)
        # the root is sought relative to the largest u, whose rounding limits what u knows of its own shift
        offset = 2 * u.abs().amax(-1, keepdim=True)

        def total(x: Tensor) -> tuple[Tensor, Tensor]:
            shifted = u + (x - offset)
            return row_sum(count * self.inverse(shifted)), row_sum(count * self.inverse_slope(shifted))

        low, high = offset - u.amax(-1, keepdim=True), offset - u.amin(-1, keepdim=True)
        shifted = u + (increasing_root(total, low, high, offset) - offset)
        if self.alpha < 2:
            return shifted
        # Beyond alpha = 2 a score near zero is a high root of its u, whose rounding is then visible: that score itself
        # becomes the unknown.
        near = shifted.abs().argmin(-1, keepdim=True)
        apart = u - u.gather(-1, near)

        def again(x: Tensor) -> tuple[Tensor, Tensor]:
            return row_sum(count * self.inverse(apart + self.derivative(x))), torch.full_like(x, math.nan)

        reach = self.inverse(2 * self.slope * 1e-300 + 1e-14 * offset + 2 * shifted.abs().gather(-1, near))
        return apart + self.derivative(increasing_root(again, -reach, reach))

    def gap(self, v: Tensor, w: Tensor) -> Tensor:
        """psi(v) + psi*(w) - v w >= 0, elementwise: zero iff w = psi'(v)."""
        x = self.inverse(w)
        return self.value(v) - self.value(x) + (x - v) * w


def row_sum(x: Tensor) -> Tensor:
    """The sum over the classes, kept as a column."""
    return x.sum(-1, keepdim=True)


def centred(x: Tensor, count: Tensor) -> Tensor:
    """x - mean(x), with counts."""
    return x - row_sum(count * x) / row_sum(count)


def settled(x: Tensor, count: Tensor) -> Tensor:
    """`centred`, but for rows whose mean is rounding already: there, scores of 1e-80 beside 1 keep their digits.

    Near alpha = 1 the slope of the penalty at such a score is as large as any.
    """
    mean = row_sum(count * x) / row_sum(count)
    small = mean.abs() <= 4 * torch.finfo(x.dtype).eps * x.abs().amax(-1, keepdim=True)
    return torch.where(small, x, x - mean)


def distinct(q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct entries of each row with their counts, and where each entry went; equal entries get equal scores."""
    order = torch.sort(q, dim=-1)
    fresh = torch.ones_like(q, dtype=torch.bool)
    fresh[:, 1:] = order.values[:, 1:] != order.values[:, :-1]
    group = fresh.cumsum(-1) - 1  # position of each sorted entry among the distinct ones
    width = int(group.max()) + 1
    values = q.new_zeros(len(q), width).scatter(1, group, order.values)
    count = q.new_zeros(len(q), width).scatter_add(1, group, torch.ones_like(q))
    # unused slots repeat the row's largest value with count zero, which leaves all sums alone
    values = torch.where(count > 0, values, q.amax(-1, keepdim=True))
    index = torch.empty_like(order.indices).scatter(1, order.indices, group)
    return values, count, index


class Counted:
    """A separable potential seen through distinct scores and their counts: two values cost two numbers, not K."""

    def __init__(self, base: Separable, count: Tensor) -> None:
        self.base, self.count = base, count
        self.curvature = base._curvature
        self.last: Tensor | None = None  # lambda of the scores seen last, near which the next ones are
        # a Tsallis link is a root in any case, better sought from where the last one was
        self.closed_form = bool((count == 1).all()) and not hasattr(base, "maximiser")

    def _link(self, v: Tensor) -> Tensor:
        """``p = density(v - lambda)`` with lambda such that the counted p sum to one."""
        if self.closed_form:
            return self.base._link(v)
        known = self.base._counted_link(v, self.count)
        if known is not None:
            return known
        x = v - v.amax(-1, keepdim=True)

        def missing(lam: Tensor) -> tuple[Tensor, Tensor]:
            p, slope = self.base._density(x - lam)
            return 1 - row_sum(self.count * p), row_sum(self.count * slope)

        low, high = sorted(-e for e in self.base._density_range(int(self.count[0].sum())))
        ends = torch.full_like(x[:, :1], low), torch.full_like(x[:, :1], high)
        self.last = increasing_root(missing, *ends, ends[0] if self.last is None else self.last)
        p = self.base._density(x - self.last)[0]
        return p / row_sum(self.count * p)

    def _value(self, v: Tensor) -> Tensor:
        p, top = self._link(v), v.amax(-1)
        return (self.count * p * (v - top[:, None])).sum(-1) - self.conjugate(p) + top

    def conjugate(self, p: Tensor) -> Tensor:
        """F*(p)"""
        return (self.count * self.base._phi(p)).sum(-1)


class Grouped:
    """Any potential seen through the distinct scores that classes share, index (B, K) says which."""

    def __init__(self, base: Potential, index: Tensor) -> None:
        self.base, self.index = base, index

    def _value(self, x: Tensor) -> Tensor:
        return self.base._value(x.gather(-1, self.index))

    def _link(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x).scatter(-1, self.index, self.base._link(x.gather(-1, self.index)))
