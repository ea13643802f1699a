"""Do label shares lie in the hull of T's columns? A test that holds its level wherever the class shares are.

With class shares pi the label shares are ``T pi``: a point of the hull of T's columns. Let phi(y) be the features of a
label whose sum is one (its one-hot vector; for a candidate set S ``1_S / |S|``) and ``A[:, z] = E[phi | class z]``. The
distance of the observed mean f of n labels from the hull is

    X^2 = n min_{pi >= 0} (f - A pi)^T E[phi phi^T]^-1 (f - A pi),

Pearson's statistic at the maximum likelihood fit where phi is one-hot. (The second moment may take the place of the
covariance because phi sums to one: ``E[phi phi^T]^-1 q = 1``, and residuals are orthogonal to 1; the mass of pi
comes out as one by itself.)

Given the face of the hull on which the fit lies, X^2 has a chi-square distribution with the face's
codimension as degrees of freedom, whatever pi is on that face (Bartholomew 1961; Wollan and Dykstra 1986). Inside
the hull X^2 is 0 and p is 1: there T cannot be refuted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray

FEWEST = 5.0  # expected labels in a cell; rarer labels are taken together
FITTED = 1.0  # fitted labels in a cell
MOST_CELLS = 200  # rarer labels are taken together beyond this many


@dataclass(frozen=True)
class Block:
    """Labels of a group of examples: mean features f (F,), their mean by class A (F, K), E[phi phi^T] given pi."""

    f: FloatArray
    A: FloatArray
    n: int
    second: Callable[[FloatArray], FloatArray]  # pi (K,) -> (F,) a diagonal, or (F, F)
    cells: FloatArray | None = None  # (F, M): which labels each cell holds, for one-hot features


@dataclass(frozen=True)
class Fit:
    """The point of the hull nearest to the observed shares."""

    statistic: float
    df: int  # codimension of the face on which the nearest point lies
    priors: list[FloatArray]  # class shares, one (K,) per block

    @property
    def p_value(self) -> float:
        """P(chi-square >= X^2) with the face's codimension."""
        return chi_square(self.statistic, self.df)


def chi_square(statistic: float, df: float, noncentrality: float = 0.0) -> float:
    """Upper tail; 1 without degrees of freedom."""
    if df <= 0 or statistic <= 0:
        return 1.0
    if noncentrality > 0:
        from scipy.stats import ncx2  # a second to load

        return float(ncx2.sf(statistic, df, noncentrality))
    from scipy.special import chdtrc

    return float(chdtrc(df, statistic))


def one_hot_block(counts: FloatArray, T: FloatArray, reference: FloatArray | None = None) -> Block | None:
    """A block of categorical labels, rare ones taken together; None where nothing is left to test.

    Which labels are rare is read off `reference` class shares (K,), equal ones by default, and never off the counts:
    cells that suit the counts would make chance look like a deviation. Cells that the fitted shares leave nearly empty
    are then taken together too.
    """
    possible = np.asarray(T.any(axis=1))
    n, K = int(counts[possible].sum()), T.shape[1]
    if n == 0:
        return None
    shares = np.full(K, 1.0 / K) if reference is None else 0.9 * reference + 0.1 / K
    cells = _cells(n * (T @ shares), possible, FEWEST)
    fitted = n * (cells @ T @ likeliest_shares(cells @ T, cells @ counts / n))
    if (fitted < FITTED).any() and len(cells) > 1:
        cells = _cells(fitted, np.ones(len(cells), dtype=bool), FITTED) @ cells
    if len(cells) < 2:
        return None
    A, f = cells @ T, cells @ counts / n
    return Block(f, A, n, lambda pi: A @ pi, cells)


def _cells(expected: FloatArray, possible: NDArray[np.bool_], fewest: float) -> FloatArray:
    """Labels with at least `fewest` expected occurrences stand alone; the rest share cells of about that size."""
    order = np.flatnonzero(possible)[np.argsort(-expected[possible], kind="stable")]
    alone = order[: MOST_CELLS - 1][expected[order[: MOST_CELLS - 1]] >= fewest]
    rest = order[len(alone) :]
    size = max(fewest, float(expected[rest].sum()) / 20) if len(alone) >= MOST_CELLS - 1 else fewest
    groups: list[list[int]] = [[int(y)] for y in alone]
    open_group: list[int] = []
    for y in rest:
        open_group.append(int(y))
        if expected[open_group].sum() >= size:
            groups.append(open_group)
            open_group = []
    if groups and open_group:
        groups[-1] = groups[-1] + open_group
    elif open_group:
        groups.append(open_group)
    out = np.zeros((len(groups), len(expected)))
    for i, members in enumerate(groups):
        out[i, members] = 1.0
    return out


def likeliest_shares(T: FloatArray, f: FloatArray, steps: int = 50, tolerance: float = 0.0) -> FloatArray:
    """Class shares of (nearly) maximum likelihood, by EM, for label shares f and rows T of their likelihoods."""
    pi = np.full(T.shape[1], 1.0 / T.shape[1])
    for _ in range(steps):
        last, pi = pi, pi * (T.T @ (f / np.maximum(T @ pi, 1e-300)))
        if np.abs(pi - last).max() < tolerance:
            break
    return pi


def fit_hull(blocks: Sequence[Block], shifts: Callable[[list[FloatArray]], FloatArray] | None = None) -> Fit:
    """The nearest points of the hull, each block with class shares of its own.

    `shifts` gives, for class shares of the blocks, what draws of an uncertain T do to the mean features (S, sum F):
    their covariance joins that of the labels, across blocks, since one T is behind all of them.
    """
    fits = [_fit_alone(b) for b in blocks]
    if shifts is None:
        return Fit(sum(f.statistic for f in fits), sum(f.df for f in fits), [p for f in fits for p in f.priors])
    return _fit_together(blocks, [f.priors[0] for f in fits], shifts)


def _fit_alone(block: Block) -> Fit:
    from scipy.optimize import nnls

    pi = likeliest_shares(block.A, block.f)
    for _ in range(25):
        second = block.second(pi)
        if second.ndim == 1:
            weight = 1 / np.sqrt(np.maximum(second, 1e-12))
            design, target = block.A * weight[:, None], block.f * weight
        else:
            root = _root_inverse(second)
            design, target = root @ block.A, root @ block.f
        new = nnls(design, target, maxiter=30 * block.A.shape[1])[0]
        change = float(np.abs(block.A @ (new - pi)).max())
        pi = new
        if change < 1e-8:
            break
    residual = target - design @ pi
    return Fit(block.n * float(residual @ residual), len(target) - int((pi > 0).sum()), [pi])


def _fit_together(
    blocks: Sequence[Block], priors: list[FloatArray], shifts: Callable[[list[FloatArray]], FloatArray]
) -> Fit:
    from scipy.linalg import block_diag, solve_triangular
    from scipy.optimize import nnls

    A = block_diag(*[b.A for b in blocks])
    f = np.concatenate([b.f for b in blocks])
    ends = np.cumsum([0] + [b.A.shape[1] for b in blocks])
    for _ in range(4):
        moved = shifts(priors)
        moved = moved - moved.mean(axis=0)
        seconds = [b.second(p) for b, p in zip(blocks, priors, strict=True)]
        own = [
            (np.diag(s) if s.ndim == 1 else s) / b.n + 1e-12 * np.eye(len(b.f))
            for b, s in zip(blocks, seconds, strict=True)
        ]
        lower = np.linalg.cholesky(block_diag(*own) + moved.T @ moved / max(1, len(moved) - 1))
        design = solve_triangular(lower, A, lower=True)
        target = solve_triangular(lower, f, lower=True)
        pi = nnls(design, target, maxiter=30 * A.shape[1])[0]
        priors = np.split(pi, ends[1:-1])
    residual = target - design @ pi
    return Fit(float(residual @ residual), len(f) - int((pi > 0).sum()), priors)


def _root_inverse(second: FloatArray) -> FloatArray:
    """S^-1/2 of a symmetric matrix, on the directions that it has."""
    values, vectors = np.linalg.eigh(second)
    keep = values > 1e-10 * values[-1]
    return (vectors[:, keep] / np.sqrt(values[keep])).T
