"""One temperature: the factor of scores at which a risk is least, and the risks that are compared after it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from .._core import FloatArray
from ..losses import ForwardLoss
from ..transitions import Dense, Transition
from .linear import ScoreLoss, evidence_loss, score_loss

ENOUGH = 2e-6  # to the least risk, for a comparison of rounds
EXACT = 1e-13  # for a temperature
LIMIT = 10.0  # of a log-scale
LOG_SCALES = np.linspace(-3.0, 3.0, 7)  # where the search for a temperature begins: the risk may have two minima
# Minus the log density of a log-scale, for each label, and its slope.
Prior = Callable[[float], tuple[float, float]]


def centred(scores: FloatArray) -> FloatArray:
    """Scores (n, K) less their mean; a class masked by minus infinity does not count."""
    finite = np.isfinite(scores)
    mean = np.where(finite, scores, 0.0).sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
    return scores - mean[:, None]


def forward_risk(transition: Transition, labels: Tensor, weights: FloatArray) -> ScoreLoss:
    """The mean of ``-log (T p)_y`` and its gradient, as a function of scores (K, n)."""
    return score_loss(ForwardLoss(transition, validate=False), labels, weights)


def row_risks(transition: Transition, labels: Tensor, scores: FloatArray) -> FloatArray:
    """``-log (T softmax(scores))_y`` of each row."""
    with torch.no_grad():
        return ForwardLoss(transition, validate=False).per_example(torch.as_tensor(scores), labels).numpy()


def calibrated_risks(
    scores: FloatArray, labels: Tensor, transition: Transition, weights: FloatArray | None = None
) -> tuple[FloatArray, float]:
    """The forward risk of each row after one temperature fitted to all of them, and the scale that was chosen.

    Models and epochs are compared by this risk: raw, it calls a better model worse for being too sure of itself. The
    temperature has no prior here, so that the unit of the scores does not matter: links differ in it by a factor of a
    hundred (gLS with a large k has tiny scores), and a prior around one would hold such models back.
    """
    w = np.ones(len(scores)) if weights is None else weights
    V = np.ascontiguousarray(centred(scores).T)
    scale = math.exp(best_log_scale(V, forward_risk(transition, labels, w / w.sum())))
    return row_risks(transition, labels, scale * V.T), scale


class RunningScale:
    """The forward risk at the best temperature of scores that change little from one call to the next.

    The last scale is where Newton's method begins, with the last curvature: often a step or none.
    """

    def __init__(self, risk: ScoreLoss) -> None:
        self.risk, self.log_scale, self.curvature = risk, 0.0, 0.0

    def __call__(self, scores: FloatArray) -> float:
        """The least risk of ``scale x scores`` (n, K)."""
        V = np.ascontiguousarray(scores.T)
        V -= V.mean(axis=0)

        def at(a: float) -> tuple[float, float]:
            S = math.exp(a) * V
            value, E = self.risk(S)
            return value, float(np.vdot(E, S))

        value, self.log_scale, self.curvature = descend(at, self.log_scale, self.curvature, -LIMIT, LIMIT, ENOUGH)
        return value


def descend(
    at: Callable[[float], tuple[float, float]], a: float, curvature: float, low: float, high: float, enough: float
) -> tuple[float, float, float]:
    """The least value of a smooth function of one number, where, and the curvature there, downhill from a.

    `at` gives value and slope; `curvature` is a guess, or 0. Newton's steps with the secants of the slope, never
    longer than one, end where the next would lower the value by less than `enough`.
    """
    value, slope = at(a)
    best = (value, a)
    step = -slope / curvature if curvature > 0 else -math.copysign(0.1, slope)
    for _ in range(20):
        low, high = (low, a) if slope > 0 else (a, high)  # the slope changes its sign between them
        fall = 0.5 * abs(slope * step) if curvature > 0 else math.inf
        if slope == 0 or fall < enough or high - low < 1e-9:
            break
        b = a + min(max(step, -1.0), 1.0)
        b = b if low < b < high else 0.5 * (max(low, a - 1) + min(high, a + 1))
        other, of_b = at(b)
        best = min(best, (other, b))
        curvature = (of_b - slope) / (b - a)
        # where it is not convex: on downhill
        step = -of_b / curvature if curvature > 0 else -math.copysign(2 * abs(b - a), of_b)
        a, slope = b, of_b
    return *best, curvature


def not_clearly_worse(rows: Tensor, least: Tensor, weights: Tensor | None = None, errors: float = 1.0) -> Tensor:
    """Whether the risks (..., n) of an epoch exceed those of the best one by at most one standard error, in the mean,
    or by as many `errors`.

    Both are risks of the same rows, so the error is that of their differences: far smaller than that of either mean.
    A difference within it says nothing, and then the later epoch of an annealed schedule is the better guess: its
    weights have settled, while the smallest of many noisy risks is partly luck. A risk that is not a number is worse.
    """
    w = torch.ones_like(rows) if weights is None else weights
    w = w / w.sum(-1, keepdim=True)
    difference = rows - least
    mean = (w * difference).sum(-1, keepdim=True)
    error = (w * (difference - mean)).square().sum(-1).sqrt()
    return mean[..., 0] <= errors * error


def matching_scale(
    scores: FloatArray, probabilities: FloatArray, weights: FloatArray, limits: tuple[float, float] | None = None
) -> float:
    """The scale at which softmax of scores (n, K) comes closest, in mean cross entropy, to other probabilities."""
    V = np.ascontiguousarray(centred(scores).T)
    cross_entropy = evidence_loss(Dense(torch.as_tensor(probabilities)), weights / weights.sum())
    return math.exp(best_log_scale(V, cross_entropy, limits=limits))


def log_scales(V: FloatArray) -> FloatArray:
    """Where the search for a temperature begins: about one, and about the size of centred scores that are far from it.

    Scores in the millions, or in millionths, are as good as others once they are scaled.
    """
    largest = float(np.abs(V).max(initial=0.0))
    if largest == 0:
        return LOG_SCALES
    size = math.log(largest) + 0.5 * math.log(float(np.mean((V / largest) ** 2)))  # of the root mean square
    return LOG_SCALES if abs(size) <= LOG_SCALES[-1] else np.union1d(LOG_SCALES, LOG_SCALES - size)


def best_log_scale(
    V: FloatArray,
    risk: ScoreLoss,
    prior: Prior | None = None,
    limits: tuple[float, float] | None = None,
    start: float | None = None,
) -> float:
    """The log-scale a at which ``risk(e^a V)`` is least, with the prior where there is one: of class-major V (K, n).

    A local descent from the best of a grid, or from `start`; within `limits`, or about the grid.
    """
    unmasked = np.where(np.isfinite(V), V, 0.0)

    def at(a: float) -> tuple[float, float]:
        f, E = risk(math.exp(a) * V)
        of_a, slope = (0.0, 0.0) if prior is None else prior(a)
        return f + of_a, math.exp(a) * float(np.vdot(E, unmasked)) + slope

    grid = log_scales(unmasked).tolist() if limits is None or start is None else []
    low, high = (grid[0] - 1, grid[-1] + 1) if limits is None else limits
    if start is None:  # of equal ones that nearest to one
        _, _, start = min((at(a)[0], abs(a), a) for a in grid if low <= a <= high)
    return descend(at, start, 0.0, low, high, EXACT)[1]
