"""Do answers depend on each other given the class? How much, who with whom, and what is left of the evidence.

Dawid-Skene takes answers as independent given the class. Where some are copied, or items differ in how hard they are,
it counts the same evidence several times and its posteriors are far too sure. Let
``d_a = log T_a[y_a, z] / T_a[y_a, z']`` be what answer a says for class z against its strongest rival. Given z its mean
and standard deviation s_a follow from T, and independent answers have no covariance. With

    rho = sum over pairs of answers to an item of their covariance / sum over pairs of s_a s_b

(each item under each class by its posterior), k answers have the variance ``sum s^2 (1 + (k - 1) rho)`` and are worth
``k / (1 + (k - 1) rho)`` independent ones, as in cluster samples (Kish, 1965). The log posterior of an item is divided
by ``1 + (k - 1) rho``; as rho depends on the posteriors in turn, the two are repeated until they agree. T is taken
without the item's own share in it; otherwise the fit would hide part of the dependence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, drawn_classes
from .dawid_skene import EVEN, Crowd, Fit, advance, from_votes, normalised

ANSWERS, ENTRIES = 10_000, 1 << 22  # that rho is estimated with, at most: answers, answers x T's entries
MOST_PAIRS = 100_000  # pairs of answers that copies are looked for in
SIGNIFICANT = 3.0  # standard errors of rho from which answers count as dependent
UPPER = 2.0  # standard errors above rho: to be too sure of an item costs more than to be too modest
SIMULATIONS = 5  # of independent answers; 3 where there are many
LEVEL = 0.01  # of the tests for copies, all pairs of annotators together
FEWEST_SHARED = 8  # items that two annotators must share to be compared
MOST_RHO = 0.5  # beyond, few answers cannot tell dependence from a T that fits badly
ROUNDS = 10


@dataclass(frozen=True)
class Copies:
    """Two annotators who agree more often than their T, and the crowd's own dependence, can explain."""

    first: int
    second: int
    shared: int
    agreed: float  # share of the shared items
    expected: float
    p_value: float  # corrected for the number of pairs


class Sample:
    """Answers to a sample of items, each with the columns of its annotator's T, the item's own share left out."""

    def __init__(self, crowd: Crowd, fit: Fit, log_prior: FloatArray, rng: np.random.Generator) -> None:
        degree = crowd.degree
        able = rng.permutation(np.flatnonzero(degree >= 2))
        most = min(ANSWERS, max(1, ENTRIES // (crowd.num_answers * crowd.num_classes)))
        within = np.cumsum(degree[able]) <= most
        within[:1] = True
        self.items = np.sort(able[within])
        self.item, column = crowd.of(self.items)
        self.who, self.answer = np.divmod(column, crowd.num_answers)
        self.order = np.arange(len(column))
        c = fit.counts[self.who] + fit.before[self.who]  # (N, M, K)
        c[self.order, self.answer] -= fit.P[self.items[self.item]]
        c /= c.sum(axis=1, keepdims=True)
        self.T = np.ascontiguousarray(c.transpose(2, 0, 1))  # (K, N, M): class by class
        self.log_T = np.log(self.T)
        self.evidence = fit.evidence[self.items].astype(np.float64)
        self.log_prior = _rows(log_prior, self.items)
        self.degree = degree[self.items]

    def posteriors(self, rho: float) -> FloatArray:
        """Q (n, K) of the items."""
        return discounted(self.evidence, self.log_prior, self.degree, rho)

    def total(self, values: FloatArray) -> FloatArray:
        """Sums over the answers of each item."""
        return np.asarray(np.bincount(self.item, weights=values, minlength=len(self.items)), dtype=np.float64)

    def rho(self, Q: FloatArray) -> tuple[float, float]:
        """rho for posteriors Q, and its standard error over items."""
        n, K = Q.shape
        over, under = np.zeros(n), 0.0
        for z in range(K):
            others = Q.copy()
            others[:, z] = -1.0
            rival = others.argmax(axis=1)[self.item]
            own, d = self.T[z], self.log_T[z] - self.log_T[rival, self.order]
            mean = np.einsum("ny,ny->n", own, d)
            variance = np.maximum(np.einsum("ny,ny,ny->n", own, d, d) - mean**2, 0.0)
            r, s = d[self.order, self.answer] - mean, np.sqrt(variance)
            over += Q[:, z] * (self.total(r) ** 2 - self.total(r * r))
            under += float(Q[:, z] @ (self.total(s) ** 2 - self.total(variance)))
        if under <= 0:
            return 0.0, 0.0
        return float(over.sum()) / under, math.sqrt(float((over**2).sum())) / under


def discounted(evidence: FloatArray, log_prior: FloatArray, degree: NDArray[np.int64], rho: float) -> FloatArray:
    """Posteriors (n, K) for which k answers count as ``k / (1 + (k - 1) rho)``.

    A prior of the classes (K,) was learned from the same answers and is discounted with them, so that no item changes
    its likeliest class; p(x) of each item (n, K) is not.
    """
    if rho == 0:
        return normalised(evidence + log_prior)[1]
    scale = (1.0 + np.maximum(degree - 1, 0) * rho)[:, None]
    scores = (evidence + log_prior) / scale if log_prior.ndim == 1 else evidence / scale + log_prior
    return normalised(scores)[1]


def dependence(crowd: Crowd, fit: Fit, log_prior: FloatArray, sign: float, rng: np.random.Generator) -> float:
    """rho, 0 where it is not significant; `log_prior` is (K,), or (n, K) with one row for each item.

    T that was shrunk or badly determined looks like dependence too. So rho must be larger than what independent answers
    drawn from the fit, to the same items by the same annotators, show after they were fitted in the same way.
    """
    if not (crowd.degree >= 2).any():
        return 0.0
    sample = Sample(crowd, fit, log_prior, rng)
    rho, error = sample.rho(sample.posteriors(0.0))
    if rho <= SIGNIFICANT * error:
        return 0.0
    null = [
        _independent(crowd, fit, log_prior, sign, rng)
        for _ in range(SIMULATIONS if len(crowd.answers) <= 50_000 else 3)
    ]
    if rho - np.mean(null) <= SIGNIFICANT * math.hypot(error, float(np.std(null, ddof=1))):
        return 0.0
    for _ in range(ROUNDS):
        new, error = sample.rho(sample.posteriors(rho))
        new = min(max(new + UPPER * error, 0.0), MOST_RHO)
        if abs(new - rho) < 1e-3:
            return new
        rho = new
    return rho


def _independent(crowd: Crowd, fit: Fit, log_prior: FloatArray, sign: float, rng: np.random.Generator) -> float:
    """rho of independent answers, drawn from the fit and fitted again."""
    a = crowd.answers
    z = drawn_classes(fit.P, rng)
    z[crowd.fixed] = crowd.known[crowd.fixed]
    cdf = np.cumsum(fit.T, axis=1)
    u = rng.random(len(a))
    y = np.zeros(len(a), dtype=np.int64)
    for level in range(crowd.num_answers - 1):
        y += cdf[a.annotator, level, z[a.item]] < u
    drawn = replace(crowd, answers=a.replaced(y))
    again = advance(from_votes(drawn, sign, fit.strength), log_prior=None if log_prior.ndim == 1 else log_prior)
    sample = Sample(drawn, again, np.log(again.prior) if log_prior.ndim == 1 else log_prior, rng)
    return sample.rho(sample.posteriors(0.0))[0]


def copies(crowd: Crowd, fit: Fit, log_prior: FloatArray, rng: np.random.Generator) -> list[Copies]:
    """Pairs of annotators who agree more often than the others do, given the class.

    The expected agreement on an item is ``sum_z P^-_z sum_y T_a[y, z] T_b[y, z]``, P^- being the posterior without the
    two answers, raised by the share of chance disagreements that all pairs together turn into agreements. T is the
    fit's and each annotator's own counts, whichever makes them agree more often: shrunk to the T of all, the two best
    of a few would be expected to agree as the others do, and be blamed for being good.
    """
    from scipy.special import ndtr

    pair = _pairs(crowd, rng)
    if pair is None:
        return []
    item, left, right = pair
    who, other = left // crowd.num_answers, right // crowd.num_answers
    both = np.minimum(who, other) * crowd.m + np.maximum(who, other)
    met = np.sort(both)
    if not (met[FEWEST_SHARED - 1 :] == met[: 1 - FEWEST_SHARED]).any():
        return []
    _, group, shared = np.unique(both, return_inverse=True, return_counts=True)
    often = shared[group] >= FEWEST_SHARED
    item, left, right, who, other, both = (x[often] for x in (item, left, right, who, other, both))
    T = fit.T.astype(np.float64)
    log_T = np.log(T).reshape(-1, crowd.num_classes)
    rest = fit.evidence[item] + _rows(log_prior, item) - log_T[left] - log_T[right]
    rest = np.exp(rest - rest.max(axis=1, keepdims=True))
    rest /= rest.sum(axis=1, keepdims=True)
    own = fit.counts + EVEN / crowd.num_answers
    expected = np.maximum(
        *(
            np.concatenate(
                [np.einsum("nk,nyk,nyk->n", rest[b], t[who[b]], t[other[b]]) for b in _blocks(len(item), t[0].size)]
            )
            for t in (T, own / own.sum(axis=1, keepdims=True))
        )
    )
    agreed = (left % crowd.num_answers == right % crowd.num_answers).astype(np.float64)
    lift = float((agreed - expected).sum() / max(float((1 - expected).sum()), 1e-300))
    expected += max(lift, 0.0) * (1 - expected)
    keys, group, shared = np.unique(both, return_inverse=True, return_counts=True)
    sums = [np.bincount(group, weights=w) for w in (agreed, expected, expected * (1 - expected))]
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (sums[0] - sums[1] - 0.5) / np.sqrt(sums[2])
    p = np.minimum((1 - ndtr(z)) * len(keys), 1.0)
    out = [
        Copies(int(keys[g] // crowd.m), int(keys[g] % crowd.m), int(shared[g]), float(sums[0][g] / shared[g]),
               float(sums[1][g] / shared[g]), float(p[g]))
        for g in np.flatnonzero(p < LEVEL)
    ]  # fmt: skip
    return sorted(out, key=lambda c: c.p_value)


def _pairs(crowd: Crowd, rng: np.random.Generator) -> Any:
    """Item and the two columns (annotator, answer) of pairs of answers, of items in random order, at most 100,000."""
    degree = crowd.degree - crowd.again  # an answer given twice is one
    able = rng.permutation(np.flatnonzero((degree >= 2) & (degree <= 200)))
    able = able[np.cumsum(degree[able] * (degree[able] - 1) // 2) <= MOST_PAIRS]
    degree, width = degree[able], crowd.m * crowd.num_answers
    place, column = crowd.of(able)
    columns = np.unique(place * width + column) % width
    starts = degree.cumsum() - degree
    parts = []
    for k in np.unique(degree):
        among = np.flatnonzero(degree == k)
        i, j = np.triu_indices(int(k), 1)
        at = starts[among][:, None]
        parts.append((np.repeat(able[among], len(i)), columns[(at + i).ravel()], columns[(at + j).ravel()]))
    if not parts:
        return None
    item, left, right = (np.concatenate(x) for x in zip(*parts, strict=True))
    different = left // crowd.num_answers != right // crowd.num_answers
    return item[different], left[different], right[different]


def _rows(log_prior: FloatArray, items: NDArray[np.int64]) -> FloatArray:
    return log_prior if log_prior.ndim == 1 else log_prior[items]


def _blocks(n: int, width: int) -> list[slice]:
    step = max(1, (1 << 21) // width)
    return [slice(i, i + step) for i in range(0, n, step)]
