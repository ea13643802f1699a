"""Do annotators agree as often as T says? From their answers alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core import FloatArray
from .hull import Fit, fit_hull, likeliest_shares
from .views import DRAWS_EACH, SeveralAnswers

MOST_PAIRS = 10  # pairs with the largest overlap, tested one by one
ROUNDING = 1e-6  # of a number of pairs: a smaller difference is that of the class shares' last step
MOST_ANNOTATORS = 200  # those with the most answers, for agreement over all
MOST_ENTRIES = 1 << 26  # of the draws of a pair's T: its M^2 answers would have to be seen several times each
FEWEST_ITEMS = 30  # that both of a pair, or two of all, have answered


@dataclass(frozen=True)
class PairFit:
    """The joint table of two annotators' answers beside the hull of the columns of ``T_a x T_b``."""

    annotators: tuple[int, int]
    items: int
    fit: Fit
    agreed: float  # share of the items on which both gave the same answer
    expected: float  # the same under T, with the class shares that fit best

    @property
    def gap(self) -> str:
        """In words."""
        a, b = self.annotators
        return (
            f"annotators {a} and {b} give the same answer to {self.agreed:.1%} of {self.items} items, "
            f"T says {self.expected:.1%}"
        )


def pair_fits(view: SeveralAnswers) -> list[PairFit]:
    """Pairs of annotators with the largest overlap."""
    busy = view.busiest(MOST_ANNOTATORS)
    has = view.has[:, busy].astype(np.float64)
    overlap = np.triu(has.T @ has, 1)
    out = []
    for flat in np.argsort(-overlap, axis=None, kind="stable")[:MOST_PAIRS]:
        i, j = np.unravel_index(int(flat), overlap.shape)
        if overlap[i, j] < FEWEST_ITEMS:
            break
        a, b = sorted((busy[i], busy[j]))
        if DRAWS_EACH * len(view.tables[a]) * view.tables[b].size > MOST_ENTRIES:
            continue
        pair = view.pair(a, b)
        rows = np.arange(pair.n)
        block = pair.block(rows)
        if block is None:
            continue
        fit = fit_hull([block], pair.shifts([block]))
        width = len(view.tables[b])
        same = np.array([y // width == y % width for y in range(len(pair.T))])
        agreed = float(pair.counts(rows)[same].sum() / pair.n)
        out.append(PairFit((a, b), pair.n, fit, agreed, float((pair.T @ fit.priors[0])[same].sum())))
    return out


@dataclass(frozen=True)
class Agreement:
    """The number of agreeing pairs of answers beside what T says, over all items and annotators."""

    observed: float
    expected: float
    pairs: float
    z: float

    @property
    def p_value(self) -> float:
        """Two-sided, normal."""
        from scipy.special import erfc

        return float(erfc(abs(self.z) / np.sqrt(2)))


def total_agreement(view: SeveralAnswers) -> Agreement | None:
    """``sum_i (agreeing pairs of item i - their number under T)``, the class shares estimated.

    Given the class two answers agree with probability ``sum_y T_a[y, z] T_b[y, z]``. Items are independent, so the
    spread of their residuals, less what the estimate of the class shares explains, gives the standard error.
    """
    busy = np.sort(view.busiest(MOST_ANNOTATORS))
    answers = view.answers[:, busy]
    answers = answers[(answers >= 0).sum(axis=1) >= 2]
    if len(answers) < FEWEST_ITEMS:
        return None
    has = (answers >= 0).astype(np.float64)
    n, K, M = len(answers), view.num_classes, view.features
    tables = np.zeros((len(busy), M, K))
    for i, a in enumerate(busy):
        tables[i, : len(view.tables[a])] = view.tables[a]
    counts = np.zeros((n, M))
    for a in range(len(busy)):
        rows = np.flatnonzero(answers[:, a] >= 0)
        counts[rows, answers[rows, a]] += 1
    observed = (counts * (counts - 1) / 2).sum(axis=1)
    expected = _expected_pairs(has, tables)
    whole = np.full((n, len(view.tables)), -1)
    whole[:, busy] = answers
    likelihood = view.likelihood(whole)
    pi = likeliest_shares(likelihood, np.full(n, 1 / n), steps=500, tolerance=1e-10)
    residual = observed - expected @ pi
    score = likelihood / np.maximum(likelihood @ pi, 1e-300)[:, None] - 1  # derivative of the log likelihood in pi
    free = np.eye(K)[:, pi > 1e-8]
    free = free[:, 1:] - free[:, :1] if free.shape[1] > 1 else free[:, :0]  # directions that keep the sum
    along = score @ free
    influence = residual - along @ (np.linalg.pinv(along.T @ along) @ (expected.sum(axis=0) @ free))
    variance = float(((influence - influence.mean()) ** 2).sum())
    if view.draws is not None:
        variance += _draws_variance(view, busy, has, tables, pi)
    gap = float(residual.sum())
    if abs(gap) <= ROUNDING * (1 + observed.sum()):  # class shares that explain all leave rounding over rounding
        gap = 0.0
    z = gap / np.sqrt(variance) if variance > 0 else 0.0
    pairs = float((has.sum(axis=1) * (has.sum(axis=1) - 1) / 2).sum())
    return Agreement(float(observed.sum()), float((expected @ pi).sum()), pairs, z)


def _expected_pairs(has: FloatArray, tables: FloatArray) -> FloatArray:
    """Expected agreeing pairs by item and class (n, K): ``sum_{a<b} sum_y T_a[y, z] T_b[y, z]`` over who answered."""
    m, M, K = tables.shape
    out = -has @ (tables**2).sum(axis=1)  # an answer and itself are no pair
    for z in range(K):
        T = tables[:, :, z]
        out[:, z] += ((has @ T) ** 2).sum(axis=1) if m >= M else np.einsum("na,na->n", has @ (T @ T.T), has)
    return out / 2


def _draws_variance(
    view: SeveralAnswers, busy: np.ndarray, has: FloatArray, tables: FloatArray, pi: FloatArray
) -> float:
    """Of the expected number of agreeing pairs: those of two annotators over the items that both have answered."""
    shared = has.T @ has
    np.fill_diagonal(shared, 0.0)
    totals = []
    for s in range(DRAWS_EACH):
        moved = tables.copy()
        for i, a in enumerate(busy):
            draws = view.each_draws[a]
            if draws is not None:
                moved[i, : draws.shape[1]] = draws[s]
        flat = moved.reshape(len(moved), -1)
        totals.append(float((shared * ((moved * pi).reshape(flat.shape) @ flat.T)).sum()) / 2)
    return float(np.var(totals, ddof=1))
