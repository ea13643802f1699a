"""Maps of scores that calibrate them, and their fit to weak labels.

With centred scores v, a map is ``g(v) = e^a (v + D v) + b``: one temperature ``e^-a``, biases b, and D = 0, diagonal
("vector") or full ("matrix"). It is fitted by the forward risk ``mean -log (T softmax(g(v)))_y``, which is T-proper:
with many weak labels it chooses what many clean ones would. Weak labels say less, so every parameter has a prior
around the identity, which the data outweigh where they say something: normal for b and D, and Student's t for a, whose
long tails hardly hold back a temperature that the labels ask for clearly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from .._core import FloatArray
from ..solvers import LOG_SCALES, best_log_scale, centred, forward_risk, row_risks
from ..transitions import Transition

MethodName = Literal["identity", "temperature", "bias", "vector", "matrix"]
METHODS: tuple[MethodName, ...] = ("identity", "temperature", "bias", "vector", "matrix")
# Spreads of the priors: a factor of 1.28, a bias of .5, a fifth of mixing are within one. Measured over four kinds of
# weak labels and penalties from far too small to far too large: the temperature of such a prior serves log loss and
# calibration better than the identity almost everywhere, also where cross-validation cannot tell the two apart.
SPREAD = {"a": 0.25, "b": 0.5, "D": 0.2}
FREEDOM = 3.0  # degrees of freedom of a's prior


@dataclass(frozen=True)
class Scaling:
    """``g(v) = scale v + bias`` of centred scores; `scale` is a number, a vector (K,) or a matrix (K, K)."""

    scale: FloatArray
    bias: FloatArray  # (K,)

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Calibrated scores (n, K) of scores (n, K)."""
        v = centred(scores)
        if self.scale.ndim < 2:
            return v * self.scale + self.bias
        masked = np.isneginf(v)  # a class that is excluded stays so
        return np.where(masked, v, np.where(masked, 0.0, v) @ self.scale.T + self.bias)


def softmax_above_zero(scores: FloatArray) -> FloatArray:
    """Softmax (n, K); what is too small for a number is the smallest one, and only a masked class (-inf) has none."""
    p = torch.softmax(torch.as_tensor(scores), -1).numpy()
    return np.where(np.isneginf(scores), 0.0, np.maximum(p, np.finfo(p.dtype).tiny))


def identity_scaling(num_classes: int) -> Scaling:
    """Nothing changed."""
    return Scaling(np.array(1.0), np.zeros(num_classes))


def parameters(method: MethodName, num_classes: int) -> int:
    """How many numbers a map of this kind has, biases up to a constant; one at least."""
    K = num_classes
    return {"identity": 1, "temperature": 1, "bias": K, "vector": 2 * K, "matrix": K * K + K}[method]


def fit_scaling(
    method: MethodName,
    scores: FloatArray,
    labels: Tensor,
    transition: Transition,
    weights: FloatArray,
    log_scale: float | None = None,
) -> Scaling:
    """The map of this kind with the smallest forward risk plus prior, on scores (n, K); `weights` (n,) are counts.

    A richer map begins at `log_scale`, where one is known, instead of looking for the best one first.
    """
    K = transition.num_classes
    if method == "identity":
        return identity_scaling(K)
    V = np.ascontiguousarray(centred(scores).T)  # (K, n)
    total = float(weights.sum())
    risk = forward_risk(transition, labels, weights / total)
    a = best_log_scale(V, risk, lambda a: log_scale_prior(a, total)) if log_scale is None else log_scale
    if method == "temperature":
        return Scaling(np.array(math.exp(a)), np.zeros(K))
    width = {"bias": 0, "vector": K, "matrix": K * K}[method]
    precision = np.r_[np.full(K, SPREAD["b"] ** -2), np.full(width, SPREAD["D"] ** -2)] / total

    def mixed(D: FloatArray) -> FloatArray:
        return V if not width else V + (D[:, None] * V if method == "vector" else D.reshape(K, K) @ V)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        b, D = x[1 : K + 1], x[K + 1 :]
        S = math.exp(x[0]) * mixed(D)
        f, E = risk(S + b[:, None])
        of_D = np.zeros(0) if not width else np.einsum("kn,kn->k", E, V) if method == "vector" else (E @ V.T).ravel()
        of_a, slope = log_scale_prior(x[0], total)
        gradient = np.r_[np.vdot(E, S) + slope, E.sum(axis=1) + precision[:K] * b, math.exp(x[0]) * of_D]
        gradient[K + 1 :] += precision[K:] * D
        return f + of_a + 0.5 * float(precision @ x[1:] ** 2), gradient

    first = np.r_[a, np.zeros(K + width)]
    bounds = [(min(a, LOG_SCALES[0]) - 1, max(a, LOG_SCALES[-1]) + 1)] + [(None, None)] * (K + width)
    x = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200}).x
    D, scale = x[K + 1 :], math.exp(x[0])
    scales = {
        "bias": lambda: np.array(scale),
        "vector": lambda: scale * (1 + D),
        "matrix": lambda: scale * (np.eye(K) + D.reshape(K, K)),
    }
    return Scaling(scales[method](), x[1 : K + 1] - x[1 : K + 1].mean())


def fit_cautiously(
    scores: FloatArray,
    labels: Tensor,
    transition: Transition,
    weights: FloatArray,
    share: float = 1.0,
    groups: NDArray[np.int64] | None = None,
) -> Scaling:
    """One temperature, drawn towards one by as much as the labels leave it uncertain.

    With a the fitted log-scale and s its standard error, the scale is ``exp(a max(0, 1 - s^2 / a^2))``, the positive
    part of Stein's estimate: what chance alone would bring about changes nothing, and what it could not is kept. s
    is the sandwich ``sqrt(J / n) / H`` of the rows' slopes (J their variance; of sums, if rows are in groups) and the
    curvature H with the prior's.
    Where the rows are a `share` of those that the map stands for (a fold of a cross-validation), s is that of all of
    them: the fold should draw back as the map does that it is to judge, and not more.
    """
    a = math.log(fit_temperature(scores, labels, transition, weights))
    v, total, step = centred(scores), float(weights.sum()), 0.02
    w = weights / total
    risks = [row_risks(transition, labels, math.exp(a + t) * v) for t in (-step, 0.0, step)]
    prior = [log_scale_prior(a + t, total)[0] for t in (-step, 0.0, step)]
    means = [float(w @ r) + q for r, q in zip(risks, prior, strict=True)]
    slopes = (risks[2] - risks[0]) / (2 * step)
    curvature = (means[2] - 2 * means[1] + means[0]) / step**2
    off = w * (slopes - w @ slopes)
    variance = share * float(np.sum((off if groups is None else np.bincount(groups, weights=off)) ** 2))
    if a == 0 or curvature <= 0:  # nothing to draw back, or an end of the search
        return Scaling(np.array(math.exp(a)), np.zeros(transition.num_classes))
    kept = max(0.0, 1.0 - variance / curvature**2 / a**2)
    return Scaling(np.array(math.exp(a * kept)), np.zeros(transition.num_classes))


def fit_temperature(scores: FloatArray, labels: Tensor, transition: Transition, weights: FloatArray) -> float:
    """The scale ``e^a`` of the scores with the smallest forward risk; a temperature is its inverse."""
    return float(fit_scaling("temperature", scores, labels, transition, weights).scale)


def log_scale_prior(a: float, total: float) -> tuple[float, float]:
    """Minus the log density of a, and its slope, for each of `total` labels; nothing for infinitely many."""
    width = FREEDOM * SPREAD["a"] ** 2
    half = 0.5 * (FREEDOM + 1)
    return half * math.log1p(a * a / width) / total, 2 * half * a / (width + a * a) / total
