"""The solver of linear models: L-BFGS on a convex, pre-conditioned problem."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from .._core import FloatArray
from ..losses import BackwardLoss, BatchRiskLoss, WeakLabelLoss
from ..potentials import Brier, Squeezed

# Scores (K, n), class-major, to the weighted mean loss and its gradient (K, n).
ScoreLoss = Callable[[FloatArray], tuple[float, FloatArray]]


def has_pointwise(loss: nn.Module) -> bool:
    """Whether the loss of a data set is a mean of one loss per example."""
    return isinstance(loss, WeakLabelLoss) and not isinstance(loss, BatchRiskLoss)


def score_loss(loss: WeakLabelLoss, labels: Tensor, weights: FloatArray) -> ScoreLoss:
    """The loss of a whole data set as a function of scores (K, n); `weights` (n,) sum to one.

    Class-major scores keep both matrix products in the orientation that BLAS does fastest for few classes.
    """
    both = loss.bind(labels, torch.as_tensor(weights), class_major=True)

    def value(V: FloatArray) -> tuple[float, FloatArray]:
        losses, gradient = both(torch.as_tensor(V).T)
        return float(losses.sum()), gradient.numpy().T

    return value


# Linear models.


@dataclass
class LinearFit:
    """A fitted linear model: scores are ``X @ coef.T + intercept``."""

    coef: FloatArray  # (K, d)
    intercept: FloatArray  # (K,)
    objective: float
    gradient: float  # its largest entry at the end, for standardised features
    iterations: int
    converged: bool
    history: list[dict[str, float]]


def fit_linear(
    X: Any,
    labels: Tensor,
    loss: WeakLabelLoss,
    weights: FloatArray | None,
    l2: float,
    tol: float,
    max_iter: int,
    start: tuple[FloatArray, FloatArray] | None = None,
    verbose: int = 0,
) -> LinearFit:
    """L-BFGS in float64, in coordinates that suit it (`_Coordinates`); the objective stays that of the raw features.

    Stops when no entry of the gradient, taken with respect to the coefficients of standardised features (mean 0,
    variance 1) and the intercepts, is larger than `tol`.
    """
    n = X.shape[0]
    K = loss.transition.num_classes
    w = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    function = score_loss(loss, labels, w)
    space = _Coordinates(X, w, l2, curvature(loss))
    penalty, split = l2 * space.stretch**2, K * space.width
    trace: list[dict[str, float]] = []
    seen = {"loss": math.nan, "gradient": math.inf}

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        u = x * space.unit
        U, b = u[:split].reshape(K, space.width), u[split:] * space.intercept_stretch
        f, E = function(space.scores(U, b))
        by_class = E.sum(axis=1)
        G = space.pull_back(E, by_class)
        G += penalty * U
        seen.update(loss=f, gradient=max(space.standardised(G), float(np.abs(by_class).max())))
        gradient = np.concatenate([G.ravel(), by_class * space.intercept_stretch])
        return f + 0.5 * float(np.einsum("kj,kj,j->", U, U, penalty)), gradient * space.unit

    def note(intermediate_result: Any) -> None:
        trace.append({"objective": float(intermediate_result.fun), **seen})
        if verbose:
            print(
                f"iteration {len(trace):4d}  objective {intermediate_result.fun:.8g}  gradient {seen['gradient']:.2g}"
            )
        if seen["gradient"] <= tol:  # the line search ended at the point it evaluated last
            raise StopIteration

    first = np.zeros(split + K) if start is None else space.enter(*start) / space.unit
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "gtol": 0.0, "ftol": 0.0, "maxcor": 30, "maxls": 50}
    found = minimize(objective, first, jac=True, method="L-BFGS-B", callback=note, options=options)
    if not np.isfinite(found.fun) or not np.isfinite(found.x).all():
        endless = "fell without end; this loss is not bounded from below: use loss='forward', a squeeze, or l2 > 0"
        bounded = loss.lower_bounds().min() > -math.inf
        raise ValueError(
            "loss: the objective " + ("left the finite numbers; scale the features" if bounded else endless)
        )
    value, _ = objective(found.x)
    gradient = seen["gradient"]
    # at the rounding of the objective no line search can go on: that is an end too
    converged = gradient <= tol or (found.nit < max_iter and gradient <= 1e-3)
    if not converged:
        warnings.warn(
            f"the linear solver stopped after {found.nit} iterations at a gradient of {gradient:.2g} > tol={tol:g}; "
            "raise max_iter or l2, or scale the features",
            ConvergenceWarning,
            stacklevel=4,
        )
    end = found.x * space.unit
    coef, intercept = space.leave(end[:split].reshape(K, space.width), end[split:])
    return LinearFit(coef, intercept, value, gradient, int(found.nit), converged, trace)


def curvature(loss: WeakLabelLoss) -> float:
    """A typical second derivative of the loss in the scores, where it has one that does not vanish; else 0."""
    F = loss.potential if isinstance(loss, BackwardLoss) else None
    if isinstance(F, Squeezed):
        return F.k if F.alpha > 1 else 0.0
    return 0.5 if isinstance(F, Brier) and F.domain == "affine" else 0.0


WHITEN_AT_MOST, STANDARDISE_AT_MOST = 2048, 128  # features
FIRST_STEP = 0.25  # standard deviation of the scores after it, at most
LEAST_CURVATURE = 0.05  # that of cross entropy where it is fairly certain


class _Coordinates:
    """Coordinates for L-BFGS: centred features, and intercepts as easy to move as the main direction of the data.

    Centring takes the intercept out of the coefficients' way, which halves the iterations on images. For a loss with
    curvature everywhere (squeezed, Brier) the coordinates are the principal axes, stretched so that the Hessian is
    close to the identity: a handful of iterations then. Otherwise a few features in very different units are stretched
    one by one, and of many features only those in far larger units than the rest: on images, stretching all pixels
    costs more iterations than it saves. Constant features leave: their coefficients are exactly 0, as the penalty
    wants. Sparse X is centred on the fly and never made dense.
    """

    def __init__(self, X: Any, w: FloatArray, l2: float, curvature: float) -> None:
        self.sparse = issparse(X)
        self.d = X.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):  # said below
            self.mean, variance = _moments(X, w)
        if not np.isfinite(variance).all():
            raise ValueError("X: expected features of finite variance, got larger numbers; scale them")
        self.used = variance > 1e-30 * (1 + self.mean**2)
        if self.sparse or not self.used.any():
            self.used = np.ones(self.d, dtype=bool)
        deviation = np.sqrt(variance)
        middle = float(np.median(deviation[deviation > 0])) if (deviation > 0).any() else 1.0
        self.deviation = np.where(deviation > 0, deviation, middle)[self.used]
        self.width = int(self.used.sum())
        self.axes: FloatArray | None = None
        low, high = float(self.deviation.min()), float(self.deviation.max())
        # a ratio beyond 1e6 would drown the small axes in the rounding of the large ones
        if self.sparse or curvature == 0 or self.width > WHITEN_AT_MOST or high > 1e6 * low:
            uneven = high > 10 * middle or low < 0.1 * middle
            if uneven and self.width <= STANDARDISE_AT_MOST:
                self.stretch = 1.0 / np.sqrt(LEAST_CURVATURE * self.deviation**2 + l2)  # of the Hessian's diagonal
            else:
                self.stretch = 1.0 / np.maximum(1.0, self.deviation / (10 * middle))
            if self.sparse:
                self.A, self.AT = X.tocsr(), X.T.tocsr()
                self.shift = self.mean * self.stretch
            else:
                self.A = X[:, self.used] - self.mean[self.used]
                if (self.stretch != 1).any():
                    self.A *= self.stretch
            main = self._main_deviation(w) or 1.0
            # half the main standard deviation: between the curvatures of the data's first and middling directions
            self.intercept_stretch = 0.5 * main
        else:
            centred = X[:, self.used] - self.mean[self.used]
            variances, self.axes = np.linalg.eigh((centred * w[:, None]).T @ centred)
            c = curvature + LEAST_CURVATURE
            self.stretch = 1.0 / np.sqrt(c * np.maximum(variances, variances[-1] * 1e-14) + l2)
            self.A = centred @ (self.axes * self.stretch)
            self.intercept_stretch = main = 1.0 / math.sqrt(c)
        # The first step has length one. Scores must not move far in it: where a class's probability has gone to zero
        # the gradient of a forward loss is zero too, and the class would never come back.
        self.unit = FIRST_STEP / main

    def scores(self, U: FloatArray, b: FloatArray) -> FloatArray:
        """Scores (K, n)."""
        if not self.sparse:
            V: FloatArray = U @ self.A.T
            V += b[:, None]
            return V
        return np.ascontiguousarray((self.A @ (U * self.stretch).T).T) + (b - U @ self.shift)[:, None]

    def pull_back(self, E: FloatArray, by_class: FloatArray) -> FloatArray:
        """The gradient (K, width) from that of the scores (K, n)."""
        if not self.sparse:
            out: FloatArray = E @ self.A
            return out
        return (self.AT @ E.T).T * self.stretch - np.outer(by_class, self.shift)

    def standardised(self, G: FloatArray) -> float:
        """The largest entry of a gradient (K, width), for features of variance one."""
        raw = G / self.stretch if self.axes is None else (G / self.stretch) @ self.axes.T
        return float(np.abs(raw / self.deviation).max())

    def enter(self, coef: FloatArray, intercept: FloatArray) -> FloatArray:
        """Raw coefficients and intercepts as a point."""
        U = coef[:, self.used] if self.axes is None else coef[:, self.used] @ self.axes
        return np.concatenate([(U / self.stretch).ravel(), (intercept + coef @ self.mean) / self.intercept_stretch])

    def leave(self, U: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The inverse of `enter`."""
        coef = np.zeros((len(U), self.d))
        coef[:, self.used] = U * self.stretch if self.axes is None else (U * self.stretch) @ self.axes.T
        return coef, b * self.intercept_stretch - coef @ self.mean

    def _main_deviation(self, w: FloatArray, steps: int = 4) -> float:
        """Root of the largest eigenvalue of the features' covariance, by power iteration from a fixed start."""
        direction = np.cos(np.arange(self.width))
        for _ in range(steps):
            direction /= np.linalg.norm(direction) or 1.0
            along = self.scores(direction[None], np.zeros(1))
            direction = self.pull_back(along * w, (along * w).sum(axis=1))[0]
        return math.sqrt(float(np.linalg.norm(direction)))


def _moments(X: Any, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted means and variances of the features."""
    if issparse(X):
        mean = np.asarray(X.T @ w).ravel()
        return mean, np.maximum(np.asarray(X.multiply(X).T @ w).ravel() - mean**2, 0.0)
    mean = w @ X
    variance = np.zeros_like(mean)
    for i in range(0, len(X), 4096):  # blocks: no second copy of X
        variance += w[i : i + 4096] @ np.square(X[i : i + 4096] - mean)
    return mean, variance
