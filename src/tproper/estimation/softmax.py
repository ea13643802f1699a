"""The small linear model that T is estimated with: softmax regression on the likelihoods of weak labels.

It minimises ``mean_i -log sum_z t_iz p_z(x_i) + l2/2 ||W||^2``, where ``t_iz`` is the likelihood of what is known of
example i if its class is z: ``T[y_i, z]`` for a weak label, a candidate mask, one-hot for a clean row. Many features
are first turned to their leading principal axes, which keeps the model linear and makes a pass over the rows cheap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import FloatArray, limited_deviations
from ..errors import InputError
from ..solvers import evidence_loss
from ..transitions import Dense, DenseRows

AXES = 100  # principal axes kept of wider features
L2 = 1e-2  # of the folds' models, for clean labels
# Units in which a penalty means what it was measured with: besides `limited_deviations`, a total variance as tables and
# images have it.
LEAST_VARIANCE, MOST_VARIANCE = 3.0, 1000.0


def softmax(scores: FloatArray, axis: int = 0) -> FloatArray:
    """Over the axis of classes; scipy's takes three arrays where this takes one."""
    out = scores - scores.max(axis=axis, keepdims=True)
    np.exp(out, out=out)
    out /= out.sum(axis=axis, keepdims=True)
    return out


def common_units(variance: FloatArray, mean: FloatArray) -> FloatArray:
    """What to divide the features by, given their moments; ones where their units suit the penalty.

    A penalty on raw coefficients depends on units. A column in dollars beside rates would slow the solver down so that
    it ends before the others have had any effect; features that are all tiny would be penalised away.
    """
    limited = limited_deviations(variance, mean)
    out: FloatArray = np.ones_like(limited)
    total = float(np.sum(limited**2))
    if total == 0:
        return out
    np.divide(np.sqrt(variance), limited, out=out, where=limited > 0)
    return out * np.sqrt(total / np.clip(total, LEAST_VARIANCE, MOST_VARIANCE))


class Design:
    """Features made ready for the solver: centred, in common units, on principal axes, the intercept as a column."""

    def __init__(self, X: Any) -> None:
        from scipy.sparse import issparse

        self.width = X.shape[1]
        self.sparse = issparse(X)
        self.axes: FloatArray | None = None
        self.mean = np.zeros(self.width) if self.sparse else X.mean(axis=0)
        if self.sparse:
            self.units = common_units(np.asarray(X.multiply(X).mean(axis=0)).ravel(), self.mean)
            if (self.units != 1).any():
                X = X.multiply(1.0 / self.units).tocsr()
            if min(X.shape) > AXES + 1:
                self.axes = leading_axes(X, AXES)
                A = np.asarray(X @ self.axes)
            else:
                A = X.toarray()
        else:
            A = X - self.mean
            self.units = common_units(np.einsum("nd,nd->d", A, A) / len(A), self.mean)
            if (self.units != 1).any():
                A /= self.units
            if self.width > AXES:
                self.axes = np.linalg.eigh(A.T @ A)[1][:, -AXES:]
                A = A @ self.axes
        self.scale = float(np.sqrt(np.einsum("nd,nd->", A, A) / len(A))) or 1.0
        self.A: FloatArray = np.hstack([A / self.scale, np.full((len(A), 1), 0.5)])

    def start(self, num_classes: int) -> FloatArray:
        """All scores zero."""
        return np.zeros((num_classes, self.A.shape[1]))

    def fit(
        self,
        likelihood: FloatArray,
        W: FloatArray,
        iterations: int,
        rows: Any = slice(None),
        l2: float = L2,
        targets: bool = False,
    ) -> FloatArray:
        """L-BFGS from W (K, d) on the `rows` given; `likelihood` (K, n) belongs to them.

        With `targets` it holds class probabilities t instead, and ``-sum_z t_iz log p_z(x_i)`` is minimised.
        """
        from scipy.optimize import minimize

        A = self.A[rows]
        n, K = len(A), len(W)
        penalty = np.full(A.shape[1], l2 / self.scale**2)
        penalty[-1] = 0.0
        known = Dense(torch.as_tensor(likelihood.T)) if targets else likelihoods_of(likelihood)
        risk = evidence_loss(known, n)

        def objective(w: FloatArray) -> tuple[float, FloatArray]:
            W = w.reshape(K, -1)
            shrunk = W * penalty
            value, E = risk(W @ A.T)
            return value + 0.5 * float((W * shrunk).sum()), (E @ A + shrunk).ravel()

        options = {"maxiter": iterations, "maxcor": 15, "gtol": 1e-5, "ftol": 0.0}
        end = minimize(objective, W.ravel(), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(end.x).reshape(K, -1)

    def scores(self, W: FloatArray, rows: Any = slice(None)) -> FloatArray:
        """Scores (K, n) of the `rows` given."""
        return np.asarray(W @ self.A[rows].T)

    def model(self, W: FloatArray) -> LinearSoftmax:
        """W as coefficients of the raw features."""
        coef = W[:, :-1] / self.scale
        coef = (coef if self.axes is None else coef @ self.axes.T) / self.units
        return LinearSoftmax(coef, 0.5 * W[:, -1] - coef @ self.mean)


def likelihoods_of(t: FloatArray) -> DenseRows:
    """Likelihoods (K, n) of the classes of each row, up to a factor of the row; of a row that no class can have given,
    the same for all."""
    top = t.max(axis=0)
    return DenseRows(torch.as_tensor((t / np.where(top > 0, top, 1.0) + 1e-290).T).log())


def leading_axes(X: Any, k: int, more: int = 10, rounds: int = 4) -> FloatArray:
    """The k leading right singular vectors (d, k) of a sparse matrix, by subspace iteration from a fixed start.

    Halko, Martinsson and Tropp (2011). A hundred axes of 20,000 documents x 50,000 terms are a matter of seconds.
    """
    start = np.random.default_rng(0).standard_normal((X.shape[1], min(k + more, min(X.shape))))
    for _ in range(rounds):
        start = np.linalg.qr(X.T @ np.linalg.qr(X @ start)[0])[0]
    along = X @ start
    out: FloatArray = start @ np.linalg.eigh(along.T @ along)[1][:, -k:]
    return out


class LinearSoftmax:
    """A linear classifier: ``predict_proba(X) = softmax(X @ coef_.T + intercept_)``; `predict` gives class names."""

    def __init__(self, coef: FloatArray, intercept: FloatArray, classes: NDArray[Any] | None = None) -> None:
        self.coef_ = coef  # (K, d)
        self.intercept_ = intercept  # (K,)
        self.classes_ = np.arange(len(coef)) if classes is None else classes

    def decision_function(self, X: Any) -> FloatArray:
        """Scores (n, K)."""
        X = X if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.coef_.shape[1]:
            raise InputError(f"X: expected {self.coef_.shape[1]} features, got shape {tuple(X.shape)}")
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities (n, K)."""
        return softmax(self.decision_function(X).T).T

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class."""
        return self.classes_[self.decision_function(X).argmax(axis=1)]
