"""Calibration errors in bins, and an interval for their mean square.

With ``u_b = sqrt(w_b) d_b`` (w_b the bins' shares, d_b = accuracy - confidence) the mean square is ``theta = |E u|^2``.
The observed ``|u|^2`` is a quadratic form in nearly normal variables with covariance S: its first three cumulants are

    theta + tr S,    2 tr S^2 + 4 mu' S mu,    8 tr S^3 + 24 mu' S^2 mu       (mu = E u, |mu|^2 = theta),

which are matched by a shifted gamma distribution (exact, nearly, where S is a multiple of the identity: a non-central
chi-square). So ``|u|^2 - tr S`` is an unbiased estimate of theta, and every theta under which the observed value is
not among the extreme 5% is in the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc

from .._core import FloatArray
from .statistics import LEVEL

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
        """Every theta >= 0 under which the observed value is not among the extreme 5%."""

        def below(theta: FloatArray, raw: FloatArray = self.raw) -> FloatArray:
            k2 = 2 * self.e2 + 4 * theta * self.p1 + theta**2 * self.sampling
            k3 = 8 * self.e3 + 24 * theta * self.p2
            return _shifted_gamma(raw - theta - self.e1, k2, k3)

        top = np.full_like(self.raw, 0.0) + 4 * self.raw + 40 * self.e1
        low, high = (_falling_root(below, (1 + side * LEVEL) / 2, top) for side in (1, -1))
        # The sum is smaller than noise alone would make it: no theta fits, which is chance and not certainty. Then the
        # upper end is what a sum as large as the noise would give.
        none = below(np.zeros_like(top)) <= (1 - LEVEL) / 2
        if none.any():
            usual = np.maximum(self.raw, self.e1)
            high = np.where(none, _falling_root(lambda t: below(t, usual), (1 - LEVEL) / 2, top), high)
        return np.where(self.unknown, 0.0, low), np.where(self.unknown, 1.0, high)


class BinnedErrors:
    """Calibration errors ``d_b = accuracy - confidence`` in bins, from the sums of weights a, h = g - confidence.

    ``sum_b w_b d_b^2`` is estimated by ``sum_b w_b (d_b^2 - var_b)``: the square of a noisy difference is too large
    by its variance, which the spread within the bin shows. With weights known, this is unbiased; a bin with one
    example has no spread and is left out (it weighs 1/n).
    """

    def __init__(self, counts: FloatArray, a: FloatArray, a2: FloatArray, ah: FloatArray, a2h: FloatArray,
                 a2h2: FloatArray) -> None:  # fmt: skip
        # weights beside others of 1e300 times their size have a sum, but no squares that a double holds
        self.used = (counts >= 2) & (a * a > 0)
        safe = np.where(self.used, a, 1.0)
        self.counts = counts
        self.shares = a / a.sum(-1, keepdims=True)  # (..., B)
        self.difference = np.where(a > 0, ah / np.where(a > 0, a, 1.0), np.nan)
        d = np.where(self.used, ah / safe, 0.0)
        scatter = np.maximum(a2h2 - 2 * d * a2h + d * d * a2, 0.0)
        self.variance = np.where(self.used, scatter / safe**2 * counts / np.maximum(counts - 1, 1), np.nan)
        self.weight = np.where(self.used, self.shares, 0.0)
        self.u = np.sqrt(self.weight) * d
        self.examples = counts.sum(-1)
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
        sampling = np.maximum((profile**2 / w).sum(-1) - 1, 0) / np.maximum(self.examples, 1)
        unknown = ~self.used.any(-1) | ((self.error.sum(-1) <= 0) & (self.examples < FEW))
        if covariance is None:
            traces = (e.sum(-1), (e * e).sum(-1), (e**3).sum(-1), (profile * e).sum(-1), (profile * e * e).sum(-1))
            return QuadraticForm(self.raw, *traces, sampling, unknown, self.error.sum(-1))
        S = np.diag(e) + covariance
        noise = self.error.sum(-1) + np.trace(covariance)
        v = np.where(self.u < 0, -1.0, 1.0) * np.sqrt(profile)
        parts = (self.raw, np.trace(S), (S * S).sum(), np.trace(S @ S @ S), v @ S @ v, ((S @ v) ** 2).sum())
        return QuadraticForm(*(np.asarray(x) for x in (*parts, sampling, unknown, noise)))


def _shifted_gamma(x: FloatArray, k2: FloatArray, k3: FloatArray) -> FloatArray:
    """P(X <= x) for the gamma distribution, shifted to mean 0, with variance k2 and third cumulant k3."""
    certain = (k2 <= 0) | (k3 <= 0)
    k2, k3 = np.where(certain, 1.0, k2), np.where(certain, 1.0, k3)
    shape, scale = 4 * k2**3 / k3**2, k3 / (2 * k2)
    return np.where(certain, (x >= 0).astype(np.float64), gammainc(shape, np.maximum(x / scale + shape, 0.0)))


def _falling_root(f: Callable[[FloatArray], FloatArray], level: float, top: FloatArray) -> FloatArray:
    """theta in [0, top] where the falling f passes `level`; 0 where it starts below.

    By Chandrupatla's method (1997): inverse quadratic interpolation where the last three points allow it, else halves.
    """
    low, high = np.zeros_like(top), top.copy()
    at_low, at_high = f(low) - level, f(high) - level
    for _ in range(20):  # widen until the root is inside
        if not (at_high > 0).any():
            break
        high = np.where(at_high > 0, 2 * high + 1e-300, high)
        at_high = f(high) - level
    high = np.where(at_low <= 0, 0.0, high)  # nothing to look for
    a, fa, b, fb = high, at_high, low, at_low  # the root is between a and b; a is the newest point
    t = np.full_like(top, 0.5)
    for _ in range(80):
        x = a + t * (b - a)
        fx = f(x) - level
        same = (fx > 0) == (fa > 0)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        with np.errstate(divide="ignore", invalid="ignore"):
            least = 1e-13 * np.maximum(a, b) / np.abs(b - a)  # the smallest step: thirteen digits will do
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            inner = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        going = least < 0.5
        if not going.any():
            break
        smooth = going & (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        t = np.where(smooth, np.clip(inner, least, 1 - least), 0.5)
    return np.where(fa > 0, b, a)
