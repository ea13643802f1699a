"""One temperature: the factor of scores at which a risk is least, and the risks that are compared after it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from .._core import FloatArray
from ..losses import ForwardLoss
from ..transitions import Dense, Transition
from .linear import ScoreLoss, evidence_loss, score_loss

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

    The last scale is where Newton's method begins, which then needs a step or two.
    """

    def __init__(self, risk: ScoreLoss) -> None:
        self.risk, self.log_scale = risk, 0.0

    def __call__(self, scores: FloatArray) -> float:
        """The least risk of ``scale x scores`` (n, K)."""
        V = np.ascontiguousarray(scores.T)
        V -= V.mean(axis=0)

        def at(a: float) -> tuple[float, float]:
            S = math.exp(a) * V
            value, E = self.risk(S)
            return value, float(np.vdot(E, S))

        a, limit = self.log_scale, 10.0
        value, of_a = at(a)
        best, width = (value, a), 0.1
        for _ in range(20):  # a secant of the slope, never further than one
            b = min(max(a + (-width if of_a > 0 else width), -limit), limit)
            if b == a:
                break
            other, of_b = at(b)
            best = min(best, (other, b))
            if of_a == of_b:
                break
            step = -of_b * (b - a) / (of_b - of_a)
            if (of_b - of_a) / (b - a) <= 0 or not math.isfinite(step):  # not convex here: go on downhill
                step = -math.copysign(2 * width, of_b)
            a, of_a = b, of_b
            width = min(abs(step), 1.0)
            if width < 0.02:
                break
        value, self.log_scale = best
        return value


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

    def objective(a: float) -> tuple[float, FloatArray]:
        f, E = risk(math.exp(a) * V)
        of_a, slope = (0.0, 0.0) if prior is None else prior(a)
        return f + of_a, np.array([math.exp(a) * np.vdot(E, unmasked) + slope])

    grid = log_scales(unmasked) if start is None else np.array([start])
    low, high = (grid[0] - 1, grid[-1] + 1) if limits is None else limits
    inside = [a for a in grid.tolist() if low <= a <= high] or [low, high]
    least, _, first = min((objective(a)[0], abs(a), a) for a in inside)  # of equal ones that nearest to one
    out = minimize(
        lambda x: objective(float(x[0])),
        np.array([first]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(low, high)],
        options={"maxiter": 50},
    )
    return float(out.x[0]) if out.fun <= least else first
