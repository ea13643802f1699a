"""The least mean width that intervals of T's diagonal can have, if a class that differs is to be covered.

Of a column with n counts, x of them on the diagonal, let an interval cover every diagonal p at a level of at least
1 - a, while it should be short where the diagonal is p0, as in all other columns. Its mean width there is

    E_p0 |interval| = integral of P_p0(p is inside) dp        (Pratt, 1961; Ghosh, 1961),

and ``P_p0(p is inside)`` is no less than the error of the second kind of the most powerful test of p against p0 at
level a (Neyman and Pearson). p0 is taken to be known exactly, and tests are randomised: no method can do better, and
one that has to learn p0 does worse. n is binomial, as the rows' classes are drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binom

Array = np.ndarray[Any, Any]
POINTS = 200  # at which the integrand is computed
SELDOM = 1e-6  # column sums that are left out


def least_width(K: int, rows: int, usual: float = 0.9, level: float = 0.9) -> float:
    """The least mean width over columns of K classes with `rows` rows in all, where the diagonal is `usual`."""
    sums = np.arange(rows + 1)
    share = binom.pmf(sums, rows, 1 / K)
    kept = share > SELDOM
    share = share[kept] / share[kept].sum()
    n = np.concatenate([np.full(m + 1, m) for m in sums[kept]])
    x = np.concatenate([np.arange(m + 1) for m in sums[kept]])
    weight = np.repeat(share, sums[kept] + 1)
    grid = (np.arange(POINTS) + 0.5) / POINTS
    own = weight * binom.pmf(x, n, usual)
    return float(np.mean([kept_by_best_test(weight * binom.pmf(x, n, p), own, 1 - level) for p in grid]))


def kept_by_best_test(null: Array, other: Array, level: float) -> float:
    """How often the most powerful test of `null` at this level does not reject it, where `other` is true."""
    with np.errstate(divide="ignore"):
        order = np.argsort(-np.where(null > 0, other / np.maximum(null, 1e-300), np.inf), kind="stable")
    size = np.cumsum(null[order])
    last = int(np.searchsorted(size, level))
    before = float(size[last - 1]) if last else 0.0
    at = null[order][last]
    part = (level - before) / at if at > 0 else 0.0
    return float(1 - other[order][:last].sum() - part * other[order][last])
