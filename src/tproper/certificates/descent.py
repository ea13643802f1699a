"""Nelder and Mead's descent for many problems at once: one call of a slow function serves them all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray

Index = NDArray[np.intp]


def nelder_mead(
    function: Callable[[FloatArray, Index], FloatArray],
    simplexes: FloatArray,  # (B, n + 1, n)
    max_iter: int,
    xatol: float,
    fatol: float,
) -> tuple[FloatArray, FloatArray]:
    """The best points (B, n) and values (B,) that B descents reach; ``function(x, which)`` has one row per point.

    `which` names the problem of each row. A descent ends when its simplex is smaller than `xatol` and its values
    differ by no more than `fatol`, or after `max_iter` steps (Nelder and Mead 1965, with their coefficients).
    """
    x = np.array(simplexes, dtype=np.float64)
    B, corners, n = x.shape
    f = function(x.reshape(-1, n), np.repeat(np.arange(B), corners)).reshape(B, corners)
    active = np.arange(B)
    for _ in range(max_iter):
        order = np.argsort(f, axis=1, kind="stable")
        x, f = np.take_along_axis(x, order[..., None], 1), np.take_along_axis(f, order, 1)
        with np.errstate(invalid="ignore"):  # inf - inf: such a simplex goes on
            size, spread = np.abs(x[:, 1:] - x[:, :1]).max((1, 2)), np.abs(f[:, 1:] - f[:, :1]).max(1)
        active = active[~((size <= xatol) & (spread <= fatol))[active]]
        if not len(active):
            break
        _step(function, x, f, active)
    best = f.argmin(axis=1)
    return x[np.arange(B), best], f[np.arange(B), best]


def _step(function: Callable[[FloatArray, Index], FloatArray], x: FloatArray, f: FloatArray, active: Index) -> None:
    """Reflect the worst corner of each active simplex; then go on, come back, or shrink."""
    middle, worst = x[active, :-1].mean(axis=1), x[active, -1]
    reflected = 2 * middle - worst
    value = function(reflected, active)
    beyond, better = value < f[active, 0], value < f[active, -1]
    second = np.where(beyond, 2.0, np.where(better, 0.5, -0.5))[:, None]  # expand, or contract on either side
    tried = middle + second * (middle - worst)
    asked = beyond | ~(value < f[active, -2])
    other = np.full_like(value, np.inf)
    if asked.any():
        other[asked] = function(tried[asked], active[asked])
    use = asked & np.where(beyond, other < value, np.where(better, other <= value, other < f[active, -1]))
    keep = use | beyond | ~asked  # else neither the reflection nor the contraction will do
    x[active[keep], -1] = np.where(use[:, None], tried, reflected)[keep]
    f[active[keep], -1] = np.where(use, other, value)[keep]
    shrunk = active[~keep]
    if len(shrunk):
        n = x.shape[-1]
        x[shrunk, 1:] = (x[shrunk, 1:] + x[shrunk, :1]) / 2
        f[shrunk, 1:] = function(x[shrunk, 1:].reshape(-1, n), np.repeat(shrunk, n)).reshape(-1, n)
