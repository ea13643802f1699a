"""Models of the class given the features, one per fold: the scores of a row come from a model that has not seen it.

`LinearFolds` has the small linear model of its own; `EstimatorFolds` wraps any scikit-learn classifier.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import FloatArray, checks
from .likelihood import Evidence
from .softmax import L2, Design

FOLDS = 3
FIRST, LATER, LAST = 7, 8, 20  # iterations of the linear solver: a start, a round, the final classifier
VOLUME = 1e-3  # lambda, for each row, for models other than linear ones


def penalty(T: FloatArray) -> float:
    """l2 of the linear models. What a label says about the scores goes with the squares of T's singular values; the
    penalty goes with it; otherwise the model would give up classes where labels say little (complementary ones)."""
    return L2 * float((np.linalg.svd(T, compute_uv=False)[1:] ** 2).mean())


class LinearFolds:
    """Softmax regression, one model for each fold, kept between rounds."""

    volume = 0.0

    def __init__(self, X: Any, evidence: Evidence, fold: np.ndarray, design: Design | None = None) -> None:
        self.design = Design(X) if design is None else design
        self.evidence, self.fold = evidence, fold
        self.train = [np.flatnonzero(fold != f) for f in range(FOLDS)]
        self.W = [self.design.start(evidence.K) for _ in range(FOLDS)]

    def fresh(self) -> LinearFolds:
        """The same folds, nothing learned."""
        return LinearFolds(None, self.evidence, self.fold, self.design)

    def scores(self, T: FloatArray) -> FloatArray:
        """Cross-fitted scores (K, n) given T."""
        t, l2 = self.evidence.likelihood(T), penalty(T)
        out = np.empty_like(t)
        for f in range(FOLDS):
            out[:, self.fold == f] = self._fold(f, t, l2, LATER)
        return out

    def explore(self, T: FloatArray) -> FloatArray:
        """Scores of the first fold alone."""
        return self._fold(0, self.evidence.likelihood(T), penalty(T), FIRST)

    def _fold(self, f: int, t: FloatArray, l2: float, iterations: int) -> FloatArray:
        rows = self.train[f]
        self.W[f] = self.design.fit(t[:, rows], self.W[f], iterations, rows, l2)
        return self.design.scores(self.W[f], self.fold == f)

    def rename(self, order: np.ndarray) -> None:
        """Class k is what was class order[k]."""
        self.W = [W[order] for W in self.W]

    def final(self, T: FloatArray) -> Any:
        """The classifier of all rows, from the mean of the folds' models."""
        start = np.mean(self.W, axis=0)
        return self.design.model(self.design.fit(self.evidence.likelihood(T), start, LAST, l2=penalty(T) / 6))


class EstimatorFolds:
    """Any scikit-learn classifier: the M-step fits it to K copies of every row, weighted by gamma."""

    volume = VOLUME

    def __init__(self, model: Any, X: Any, evidence: Evidence, fold: np.ndarray) -> None:
        self.model, self.X, self.evidence, self.fold = model, X, evidence, fold
        self.P = np.full((evidence.K, len(fold)), 1.0 / evidence.K)
        self._place = np.argsort(np.argsort(fold, kind="stable"), kind="stable")

    def fresh(self) -> EstimatorFolds:
        """The same folds, nothing learned."""
        return EstimatorFolds(self.model, self.X, self.evidence, self.fold)

    def scores(self, T: FloatArray) -> FloatArray:
        """Cross-fitted log p (K, n) given T."""
        gamma = self._gamma(T)
        self.P = np.concatenate([self._fold(f, gamma) for f in range(FOLDS)], axis=1)[:, self._place]
        return np.log(self.P)

    def explore(self, T: FloatArray) -> FloatArray:
        """Log p of the first fold alone."""
        return np.log(self._fold(0, self._gamma(T)))

    def _fold(self, f: int, gamma: FloatArray) -> FloatArray:
        fitted = self._fit(gamma, np.flatnonzero(self.fold != f))
        p = np.zeros((self.evidence.K, int((self.fold == f).sum())))
        p[fitted.classes_] = fitted.predict_proba(self.X[self.fold == f]).T
        # a forest says 0 and 1, which must not make a label impossible
        return (p + 1e-3) / (1 + 1e-3 * self.evidence.K)

    def rename(self, order: np.ndarray) -> None:
        """Class k is what was class order[k]."""
        self.P = self.P[order]

    def final(self, T: FloatArray) -> Any:
        """The classifier of all rows."""
        return self._fit(self._gamma(T), np.arange(len(self.fold)))

    def _gamma(self, T: FloatArray) -> FloatArray:
        gamma = self.evidence.likelihood(T) * self.P
        out: FloatArray = gamma / gamma.sum(axis=0)
        return out

    def _fit(self, gamma: FloatArray, rows: np.ndarray) -> Any:
        from sklearn.base import clone

        z, i = np.nonzero(gamma[:, rows] > 1e-4)
        return clone(self.model).fit(self.X[rows[i]], z, sample_weight=gamma[z, rows[i]])


def check_model(model: Any) -> None:
    """ "linear", or a scikit-learn classifier with probabilities and sample weights."""
    if isinstance(model, str) and model == "linear":
        return
    from sklearn.utils.validation import has_fit_parameter

    if not (hasattr(model, "predict_proba") and hasattr(model, "fit") and has_fit_parameter(model, "sample_weight")):
        raise ValueError(
            "model: expected 'linear' or a scikit-learn classifier with predict_proba whose fit takes sample_weight, "
            f"got {checks.short(model)}"
        )
