"""Do labels match T p in groups of predictions? Score tests that allow for a model's imperfect calibration.

Let ``l_i(z) = P(label i | z)`` and ``p_i`` the model's class probabilities. The derivative of ``log (T p)_y`` in the
logits is ``u_i = posterior_i - p_i``, the posterior being ``l_i * p_i`` normalised: its mean is zero where T and p are
right. The test sums u over groups of examples (Hosmer and Lemeshow 1980, as the score test of a shift of the logits in
each group), after the model was recalibrated on these labels: a temperature and a bias per class, whose estimation the
test accounts for. What is left of the model's error is allowed up to a `tolerance`, the root mean square over groups of
the distance of their mean class probabilities from the truth: the null distribution is the non-central chi-square of
the worst such error. Covariances V come from R sets of labels drawn from T and p, so that rare labels count at their
rates. A sum of few events is not normal, and V is known from draws alone: with ``w_i`` the terms of the whitened sums,
``kappa = sum_i E|w_i|^4``, and d degrees of freedom, the statistic has the variance ``2 d + kappa`` and the mean
``d + kappa / R`` (V is off by a matrix of mean square ``kappa / R``), to which the chi-square is scaled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, drawn_classes
from .hull import chi_square
from .softmax import softmax
from .views import DRAWS_EACH, Index, OneLabel, SetLabel, SeveralAnswers, View

MOST_ROWS = 20_000  # more add nothing that the tolerance would not forgive
SIMULATED = 10_000  # rows of labels drawn for the covariances, at least twice all rows
FEWEST_EVENTS = 10.0  # that a sum must rest on: (sum u^2)^2 / sum u^4, the expected number where u is a rare event
SPREAD_ROWS = 2000  # rows of a draw whose fourth moments are taken, about
TINY = 1e-6  # log p is taken of at least this much
DENSE = 1 << 16  # entries of a matrix above which it is sparse: small ones cost more to build than to multiply


@dataclass(frozen=True)
class Match:
    """A score test: statistic, degrees of freedom, and the largest non-centrality that the tolerance allows.

    `kurtosis` is kappa / d, and `repeats` is R.
    """

    statistic: float
    df: int
    noncentrality: float
    kurtosis: float
    repeats: int

    @property
    def p_value(self) -> float:
        """Upper tail of the non-central chi-square, scaled to the statistic's mean and variance."""
        scale = 1 + self.kurtosis / 2
        statistic = self.statistic / (1 + self.kurtosis / self.repeats)
        return chi_square(statistic / scale, self.df / scale, self.noncentrality / scale)


def recalibrate(likelihood: FloatArray, p: FloatArray) -> FloatArray:
    """Probabilities with the temperature and class biases that fit the labels best: maximum of mean log (T p)_y."""
    from scipy.optimize import minimize

    n, K = p.shape
    log_p = np.log(np.maximum(p, TINY))

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        q = softmax(theta[K] * log_p + theta[:K], axis=1)
        mass = np.maximum((likelihood * q).sum(axis=1), 1e-300)
        u = likelihood * q / mass[:, None] - q
        slope = np.append(u.sum(axis=0), (u * log_p).sum()) / n
        ridge = 1e-6 * theta[:K]
        return -float(np.log(mass).mean()) + 0.5 * float(ridge @ theta[:K]), np.append(ridge, 0.0) - slope

    start = np.append(np.zeros(K), 1.0)
    bounds = [(-12.0, 12.0)] * K + [(0.05, 20.0)]
    out = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200, "gtol": 1e-7})
    return softmax(out.x[K] * log_p + out.x[:K], axis=1)


def placed(values: FloatArray, place: Index, places: int) -> Any:
    """Values (n, K), each row in the K columns of its own place: a matrix (n, places K)."""
    n, K = values.shape
    column = place[:, None] * K + np.arange(K)
    return _matrix(values.ravel(), np.repeat(np.arange(n), K), column.ravel(), (n, places * K))


def _matrix(data: FloatArray, row: Index, column: Index, shape: tuple[int, int]) -> Any:
    """The matrix with these entries, one a place: sparse where it is large."""
    from scipy.sparse import coo_array

    if shape[0] * shape[1] > DENSE:
        return coo_array((data, (row, column)), shape=shape).tocsr()
    out = np.zeros(shape)
    out[row, column] = data
    return out


def _product(x: Any, y: Any) -> FloatArray:
    """``x.T @ y`` of two such matrices, written out."""
    out = x.T @ y
    return out if isinstance(out, np.ndarray) else out.toarray()


class TransitionSpread:
    """What the error of an estimated T does to the sums: labels from another T weigh ``(T' p)_y / (T p)_y`` as much."""

    def __init__(self, view: OneLabel | SeveralAnswers, p: FloatArray, width: int) -> None:
        self.view, self.p = view, p
        if isinstance(view, OneLabel):  # the weight is linear in T: one derivative for all draws
            self.slope = np.zeros((width, view.T.size))
        else:
            self.sums = np.zeros((DRAWS_EACH, width))

    def add(self, x: Any, labels: Any, likelihood: FloatArray) -> None:
        """Labels drawn from T, with their features x."""
        mass = (likelihood * self.p).sum(axis=1)
        if isinstance(self.view, OneLabel):
            self.slope += _product(x, placed(self.p / mass[:, None], labels, len(self.view.T)))
            return
        for s, drawn in enumerate(self.view.likelihoods(labels)):
            self.sums[s] += x.T @ ((drawn * self.p).sum(axis=1) / mass - 1)

    def covariance(self) -> FloatArray:
        """Of the sums over all that was added."""
        if isinstance(self.view, OneLabel):
            assert self.view.draws is not None
            return self.slope @ np.cov(self.view.draws.reshape(len(self.view.draws), -1).T) @ self.slope.T
        return np.cov(self.sums.T)


class ScoreTests:
    """The sums of u over groups, along the temperature and along confidence, with their covariance."""

    def __init__(self, view: View, rows: Index, p: FloatArray, group: Index, tolerance: float, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.rows, self.group, self.tolerance = rows, group, tolerance
        observed: Any = view.labels(rows)
        self.p = recalibrate(view.likelihood(observed), p)
        self.log_p = np.log(np.maximum(p, TINY))
        n, K = self.p.shape
        self.groups = int(group.max()) + 1
        self.repeats = repeats = int(np.clip(SIMULATED // n, 2, 20))
        self.kept = self._events(view, repeats, rng) >= FEWEST_EVENTS
        self.column = np.where(self.kept, np.cumsum(self.kept.ravel()).reshape(self.kept.shape) - 1, -1)
        self.width = int(self.kept.sum())
        self.trend = self._trend()
        self.sums = np.asarray(self._features(view.likelihood(observed)).sum(axis=0)).ravel()
        D = self.width + K + 2
        self.V, self.W = np.zeros((D, D)), np.zeros((D, self.groups * K))
        spread = None if isinstance(view, SetLabel) or view.draws is None else TransitionSpread(view, self.p, D)
        for _ in range(repeats):
            labels = self._simulate(view, rng)
            likelihood = view.likelihood(labels)
            x = self._features(likelihood)
            self.V += _product(x, x) / repeats
            self.W += _product(x, self._shifts(likelihood)) / repeats
            if spread is not None:
                spread.add(x, labels, likelihood)
        self.each = max(1, n // SPREAD_ROWS)
        self.drawn = x[:: self.each]  # the last draw, of evenly spread examples
        self.extra = np.zeros((D, D)) if spread is None else spread.covariance() / repeats**2

    def _simulate(self, view: View, rng: np.random.Generator) -> Any:
        """Labels drawn from T and p."""
        return view.simulate(self.rows, drawn_classes(self.p, rng), rng)

    def _scores(self, likelihood: FloatArray) -> tuple[FloatArray, FloatArray]:
        """u (n, K) and the labels' probability (T p)_y (n,)."""
        mass = np.maximum((likelihood * self.p).sum(axis=1), 1e-300)
        return likelihood * self.p / mass[:, None] - self.p, mass

    def _events(self, view: View, repeats: int, rng: np.random.Generator) -> FloatArray:
        """On how many events the sum of u in each group and class rests: labels, members, and others."""
        square, fourth = np.zeros((2, self.groups, self.p.shape[1]))
        for _ in range(repeats):
            u = self._scores(view.likelihood(self._simulate(view, rng)))[0]
            square += self._by_group(u**2) / repeats
            fourth += self._by_group(u**4) / repeats
        members = np.minimum(self._by_group(self.p), self._by_group(1 - self.p))
        return np.minimum(members, square**2 / np.maximum(fourth, 1e-300))

    def _by_group(self, values: FloatArray) -> FloatArray:
        return np.stack([np.bincount(self.group, column, self.groups) for column in values.T], axis=1)

    def _trend(self) -> FloatArray:
        """Confidence, centred within each predicted class."""
        top, confidence = self.p.argmax(axis=1), self.p.max(axis=1)
        sizes = np.bincount(top, minlength=self.p.shape[1])
        means = np.bincount(top, confidence, self.p.shape[1]) / np.maximum(sizes, 1)
        return confidence - means[top]

    def _features(self, likelihood: FloatArray) -> Any:
        """One row per example: u in its group's columns | u (biases) | temperature | trend."""
        n, K = self.p.shape
        u = self._scores(likelihood)[0]
        own = self.column[self.group]  # (n, K)
        i, z = np.nonzero(own >= 0)
        every, each = np.repeat(np.arange(n), K), np.tile(np.arange(K), n)
        temperature = (u * self.log_p).sum(axis=1)
        trend = self.trend * u[np.arange(n), self.p.argmax(axis=1)]
        data = np.concatenate([u[i, z], u.ravel(), temperature, trend])
        row = np.concatenate([i, every, np.arange(n), np.arange(n)])
        start = self.width
        column = np.concatenate([own[i, z], start + each, np.full(n, start + K), np.full(n, start + K + 1)])
        return _matrix(data, row, column, (n, start + K + 2))

    def _shifts(self, likelihood: FloatArray) -> Any:
        """``l / (T p)_y - 1`` in the columns of the example's group: what an error of its class probabilities does."""
        return placed(likelihood / self._scores(likelihood)[1][:, None] - 1, self.group, self.groups)

    def _test(self, chosen: NDArray[np.int64]) -> Match:
        K = self.p.shape[1]
        nuisance = np.arange(self.width, self.width + K + 1)
        project = self.V[np.ix_(chosen, nuisance)] @ np.linalg.pinv(
            self.V[np.ix_(nuisance, nuisance)], rcond=1e-9, hermitian=True
        )
        sums = self.sums[chosen] - project @ self.sums[nuisance]
        # the recalibration follows the labels' information, V, whatever the error of T adds
        away = np.zeros((len(chosen), len(self.V)))
        away[np.arange(len(chosen)), chosen] = 1.0
        away[:, nuisance] -= project
        V = away @ (self.V + self.extra) @ away.T
        W = self.W[chosen] - project @ self.W[nuisance]
        scale = np.sqrt(np.maximum(np.diag(self.V)[chosen], 1e-300))
        values, vectors = np.linalg.eigh(V / scale[:, None] / scale)
        keep = values > 1e-5
        if not keep.any():  # recalibration takes up all that there is to test
            return Match(0.0, 0, 0.0, 0.0, self.repeats)
        root = (vectors[:, keep] / np.sqrt(values[keep])).T / scale
        statistic = float(((root @ sums) ** 2).sum())
        share = np.maximum(np.bincount(self.group, minlength=self.groups), 1) / len(self.group)
        moved = (root @ W).reshape(-1, self.groups, K)
        moved = (moved - moved.mean(axis=2, keepdims=True)) / np.sqrt(share)[:, None]
        largest = float(np.linalg.norm(moved.reshape(len(root), -1), 2)) ** 2
        fourth = self.each * float((((self.drawn @ (root @ away).T) ** 2).sum(axis=1) ** 2).sum())
        df = int(keep.sum())
        return Match(statistic, df, self.tolerance**2 * largest, fourth / df, self.repeats)

    def match(self) -> Match:
        """Groups of predictions."""
        return self._test(np.arange(self.width))

    def instance_dependence(self) -> Match:
        """The trend of the residual along confidence: noise that grows or falls with how hard an example is."""
        return self._test(np.array([self.width + self.p.shape[1] + 1]))

    def excess(self) -> FloatArray:
        """Sums of u by group and class in standard errors (G, K)."""
        out = np.zeros(self.kept.shape)
        out[self.kept] = self.sums[: self.width] / np.sqrt(
            np.maximum(np.diag(self.V + self.extra)[: self.width], 1e-300)
        )
        return out
