"""Models of the class given the features, one per fold: the scores of a row come from a model that has not seen it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, checks
from ..errors import InputError
from ..solvers import cross_fit, splits_of
from .likelihood import Evidence
from .softmax import L2, Design

FOLDS = 3
FIRST, LATER, LAST = 7, 8, 20  # iterations of the linear solver: a start, a round, the final classifier
VOLUME = 1e-3  # lambda, for each row, for models other than linear ones


def penalty(T: FloatArray) -> float:
    """l2 of the linear models, in proportion to what a label says about the scores: the squares of T's singular values.

    Otherwise the model would give up classes where labels say little (complementary ones).
    """
    return L2 * float((np.linalg.svd(T, compute_uv=False)[1:] ** 2).mean())


class Regressions:
    """Softmax regression, one model for each fold, kept between calls."""

    def __init__(self, design: Design, fold: np.ndarray, num_classes: int) -> None:
        self.design, self.splits = design, splits_of(fold)
        self.W = [design.start(num_classes) for _ in self.splits]

    def of_fold(self, f: int, likelihood: FloatArray, l2: float, iterations: int) -> FloatArray:
        """Scores of the rows of one fold, given the likelihoods (K, n) of what is known of all rows."""
        rows, held = self.splits[f]
        self.W[f] = self.design.fit(likelihood[:, rows], self.W[f], iterations, rows, l2)
        return self.design.scores(self.W[f], held)

    def scores(self, likelihood: FloatArray, l2: float, iterations: int) -> FloatArray:
        """Cross-fitted scores (K, n)."""
        of_fold = lambda f, *_: self.of_fold(f, likelihood, l2, iterations)  # noqa: E731
        return cross_fit(of_fold, self.splits, likelihood.shape[1], axis=-1)

    def final(self, likelihood: FloatArray, l2: float, iterations: int) -> FloatArray:
        """Weights fitted to all rows, from the mean of the folds' models."""
        return self.design.fit(likelihood, np.mean(self.W, axis=0), iterations, l2=l2)


class LinearFolds:
    """Softmax regression with a penalty that suits T."""

    volume = 0.0

    def __init__(self, design: Design, evidence: Evidence, fold: np.ndarray) -> None:
        self.design, self.evidence, self.fold = design, evidence, fold
        self.models = Regressions(design, fold, evidence.K)

    def fresh(self) -> LinearFolds:
        """The same folds, nothing learned."""
        return LinearFolds(self.design, self.evidence, self.fold)

    def scores(self, T: FloatArray) -> FloatArray:
        """Cross-fitted scores (K, n) given T."""
        return self.models.scores(self.evidence.likelihood(T), penalty(T), LATER)

    def explore(self, T: FloatArray) -> FloatArray:
        """Scores of the first fold alone."""
        return self.models.of_fold(0, self.evidence.likelihood(T), penalty(T), FIRST)

    def rename(self, order: np.ndarray) -> None:
        """Class k is what was class order[k]."""
        self.models.W = [W[order] for W in self.models.W]

    def final(self, T: FloatArray) -> Any:
        """The classifier of all rows."""
        return self.design.model(self.models.final(self.evidence.likelihood(T), penalty(T) / 6, LAST))


class EstimatorFolds:
    """Any scikit-learn classifier: the M-step fits it to K copies of every row, weighted by gamma."""

    volume = VOLUME

    def __init__(self, model: Any, X: Any, evidence: Evidence, fold: np.ndarray) -> None:
        self.model, self.X, self.evidence, self.fold = model, X, evidence, fold
        self.P = np.full((evidence.K, len(fold)), 1.0 / evidence.K)

    def fresh(self) -> EstimatorFolds:
        """The same folds, nothing learned."""
        return EstimatorFolds(self.model, self.X, self.evidence, self.fold)

    def scores(self, T: FloatArray) -> FloatArray:
        """Cross-fitted log p (K, n) given T."""
        gamma = self._gamma(T)
        self.P = cross_fit(partial(self._fold, gamma), splits_of(self.fold), len(self.fold), axis=-1)
        return np.log(self.P)

    def explore(self, T: FloatArray) -> FloatArray:
        """Log p of the first fold alone."""
        return np.log(self._fold(self._gamma(T), 0, *splits_of(self.fold)[0]))

    def _fold(self, gamma: FloatArray, _: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> FloatArray:
        fitted = self._fit(gamma, train)
        p = np.zeros((self.evidence.K, len(test)))
        p[fitted.classes_] = fitted.predict_proba(self.X[test]).T
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
        raise InputError(
            "model: expected 'linear' or a scikit-learn classifier with predict_proba whose fit takes sample_weight, "
            f"got {checks.short(model)}"
        )
