"""Calibration errors in bins, and an interval for their mean square.

With ``u_b = sqrt(w_b) d_b`` (w_b the bins' shares, d_b = accuracy - confidence) the mean square is ``theta = |E u|^2``.
The observed ``|u|^2`` is a quadratic form in nearly normal variables with covariance S: its first three cumulants are

    theta + tr S,    2 tr S^2 + 4 mu' S mu,    8 tr S^3 + 24 mu' S^2 mu       (mu = E u, |mu|^2 = theta),

which are matched by a shifted gamma distribution (exact, nearly, where S is a multiple of the identity: a non-central
chi-square). So ``|u|^2 - tr S`` is an unbiased estimate of theta, and every theta under which the observed value is
not among the extreme 5% is in the interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaincinv, ndtr, ndtri

from .._core import FloatArray
from .statistics import LEVEL, lower_tail

NORMAL = 1e10  # shape of a gamma distribution from which on it is normal to five digits, and SciPy's has none left
LEAST_SEEN = 0.01  # of a bin's variance: two examples of which one weighs twenty times the other show less
FEW = 30  # examples that all agree say nothing about spread when they are fewer


@dataclass
class QuadraticForm:
    """The observed ``|u|^2`` (`raw`) with what its distribution needs; all (...)."""

    raw: FloatArray
    e1: FloatArray  # tr S, tr S^2, tr S^3
    e2: FloatArray
    e3: FloatArray
    p1: FloatArray  # v' S v and v' S^2 v, v the direction of u: how theta spreads over the bins
    p2: FloatArray
    sampling: FloatArray  # variance of theta per theta^2: the shares w_b are random too
    unknown: FloatArray  # no spread was seen among too few examples, so none is known

    noise: FloatArray  # tr S as far as the sample shows it: what makes raw too large

    @property
    def estimate(self) -> FloatArray:
        """``|u|^2 - tr S``: unbiased, hence below 0 by chance where the model is well calibrated."""
        return self.raw - self.noise

    def stderr(self) -> FloatArray:
        """Of ``|u|^2 - tr S``, with ``mu' S mu`` freed of its own noise, and never below that of theta = 0."""
        return np.sqrt(np.maximum(4 * self.raw * self.p1 - 2 * self.e2, 2 * self.e2))

    def interval(self) -> tuple[FloatArray, FloatArray]:
        """Every theta >= 0 under which the observed value is not among the extreme 5% (`_ends`)."""
        given = np.broadcast_arrays(self.raw, self.e1, self.e2, self.e3, self.p1, self.p2, self.sampling)
        ends = np.reshape([_ends(*row) for row in zip(*(x.ravel() for x in given), strict=True)], (*self.raw.shape, 2))
        return np.where(self.unknown, 0.0, ends[..., 0]), np.where(self.unknown, 1.0, ends[..., 1])


def _ends(raw: float, e1: float, e2: float, *others: float) -> tuple[float, float]:
    """The ends of the interval of one quadratic form.

    How the tails share the 5% depends on how many standard deviations theta lies above 0, the end of its range
    (`lower_tail`): at 0 all are in the upper one, so that a perfect model is blamed as often as the level says, and no
    sum is too small for every theta. Where it is among the smallest 5% that noise alone makes, chance was kind, and no
    more: the upper end is then that of the 5% point.
    """
    least = e1 + _gamma_point(1 - LEVEL, 2 * e2, 8 * others[0])
    return _root(LEVEL, raw, e1, e2, *others), _root(0.0, max(raw, least), e1, e2, *others)


def _excess(theta: float, level: float, raw: float, e1: float, e2: float, e3: float, p1: float, p2: float,
            sampling: float) -> float:  # fmt: skip
    """P(|u|^2 <= raw) under theta, less `level` and the share of the lower tail: it falls with theta."""
    k2 = 2 * e2 + 4 * theta * p1 + theta**2 * sampling
    away = theta / math.sqrt(k2) if k2 > 0 else math.inf
    return _shifted_gamma(raw - theta - e1, k2, 8 * e3 + 24 * theta * p2) - level - lower_tail(away)


def _root(level: float, raw: float, e1: float, *others: float) -> float:
    """The theta at which `_excess` is 0; 0 where it is below at once, infinite where it never is."""
    from scipy.optimize import brentq

    given = (level, raw, e1, *others)
    start, top = _excess(0.0, *given), 4 * raw + 40 * e1
    if start <= 0:
        return 0.0
    for _ in range(20):  # widen until the root is inside
        end = _excess(top, *given)
        if not end > 0:
            break
        top = 2 * top + 1e-300
    if end > 0:  # so few examples that no theta is excluded
        return math.inf
    return brentq(_excess, 0.0, top, args=given, xtol=1e-300, maxiter=2000) if start > 0 >= end else math.nan


class BinnedErrors:
    """Calibration errors ``d_b = accuracy - confidence`` in bins, from the sums of weights a, h = g - confidence.

    ``sum_b w_b d_b^2`` is estimated by ``sum_b w_b (d_b^2 - var_b)``: the square of a noisy difference is too large
    by its variance, which the spread within the bin shows. With shares ``s_i = a_i / sum a`` in the bin,

        E sum s_i^2 (h_i - d)^2 = var (1 - 2 sum s^3 / sum s^2 + sum s^2),

    whose last factor (`seen`) is ``1 - 1/n`` where all weights are alike. So with weights known the estimate is
    unbiased. A bin with one example, or nearly all of whose weight is on one, has no spread and is left out.
    """

    def __init__(self, counts: FloatArray, a: FloatArray, a2: FloatArray, a3: FloatArray, ah: FloatArray,
                 a2h: FloatArray, a2h2: FloatArray) -> None:  # fmt: skip
        # weights beside others of 1e300 times their size have a sum, but no powers that a double holds
        some = (counts >= 2) & (a**3 > 0) & (a2 > 0)
        safe = np.where(some, a, 1.0)
        self.seen = np.where(some, 1 - 2 * a3 / np.where(some, a2, 1.0) / safe + a2 / safe**2, 0.0)
        self.used = self.seen > LEAST_SEEN
        self.counts = counts
        self.shares = a / a.sum(-1, keepdims=True)  # (..., B)
        self.difference = np.where(a > 0, ah / np.where(a > 0, a, 1.0), np.nan)
        d = np.where(self.used, ah / safe, 0.0)
        scatter = np.maximum(a2h2 - 2 * d * a2h + d * d * a2, 0.0)
        self.variance = np.where(self.used, scatter / safe**2 / np.where(self.used, self.seen, 1.0), np.nan)
        self.weight = np.where(self.used, self.shares, 0.0)
        self.u = np.sqrt(self.weight) * d
        self.examples = counts.sum(-1)
        self.spread = a2.sum(-1) / a.sum(-1) ** 2  # 1/n where all weights are alike
        self.error = self.weight * np.where(self.used, self.variance, 0.0)  # w_b var_b: the diagonal of S
        self.raw = (self.u**2).sum(-1)

    @property
    def profile(self) -> FloatArray:
        """How ``|u|^2`` spreads over the bins; as the examples do where it is 0."""
        total = self.raw[..., None]
        return np.where(total > 0, self.u**2 / np.where(total > 0, total, 1.0), self.weight)

    def form(self, error: FloatArray | None = None, covariance: FloatArray | None = None) -> QuadraticForm:
        """The quadratic form. `error` replaces the bins' ``w_b var_b`` by better known ones.

        `covariance` (B, B) is what an estimated T adds to S.
        """
        e = np.where(self.used, self.error if error is None else error, 0.0)
        profile = self.profile
        w = np.where(self.weight > 0, self.weight, 1.0)
        sampling = np.maximum((profile**2 / w).sum(-1) - 1, 0) * self.spread
        unknown = ~self.used.any(-1) | ((self.error.sum(-1) <= 0) & (self.examples < FEW))
        if covariance is None:
            traces = (e.sum(-1), (e * e).sum(-1), (e**3).sum(-1), (profile * e).sum(-1), (profile * e * e).sum(-1))
            return QuadraticForm(self.raw, *traces, sampling, unknown, self.error.sum(-1))
        S = np.diag(e) + covariance
        noise = self.error.sum(-1) + np.trace(covariance)
        v = np.where(self.u < 0, -1.0, 1.0) * np.sqrt(profile)
        parts = (self.raw, np.trace(S), (S * S).sum(), np.trace(S @ S @ S), v @ S @ v, ((S @ v) ** 2).sum())
        return QuadraticForm(*(np.asarray(x) for x in (*parts, sampling, unknown, noise)))


def _shifted_gamma(x: float, k2: float, k3: float) -> float:
    """P(X <= x) for the gamma distribution, shifted to mean 0, with variance k2 and third cumulant k3."""
    if k2 <= 0 or k3 <= 0:
        return float(x >= 0)
    shape, scale = 4 * k2**3 / k3**2, k3 / (2 * k2)
    if shape >= NORMAL:
        return ndtr(x / np.sqrt(k2))
    return gammainc(shape, max(x / scale + shape, 0.0))


def _gamma_point(level: float, k2: float, k3: float) -> float:
    """The x at which `_shifted_gamma` is `level`."""
    if k2 <= 0 or k3 <= 0:
        return 0.0
    shape, scale = 4 * k2**3 / k3**2, k3 / (2 * k2)
    return np.sqrt(k2) * ndtri(level) if shape >= NORMAL else (gammaincinv(shape, level) - shape) * scale
