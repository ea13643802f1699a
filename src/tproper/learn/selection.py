"""Choosing loss, squeeze, l2 and learning rate by cross-validated weak risk: no clean label is needed."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from .._core import FloatArray, Labels
from ..errors import InputError
from . import search as _search
from .classifier import WeakLabelClassifier
from .estimating import asks_for_estimate, with_estimate
from .settings import Weights, check_verbose


class WeakLabelClassifierCV(ClassifierMixin, BaseEstimator):
    """`WeakLabelClassifier` with its settings chosen by K-fold cross-validation on weak labels alone.

    The score of a setting is the mean of ``-log (T p)_y`` over held-out weak labels y: T-proper for every T, so in
    expectation nothing beats the true posterior. It is taken after one temperature, unless the estimator has
    ``calibrate=False``. ``WeakLabelClassifier(..., tune=True)`` is the short way to the same.

    Parameters
    ----------
    estimator : WeakLabelClassifier, optional
        Holds everything that is not searched. Default: ``WeakLabelClassifier()``, clean labels.
    grid : dict or list of dicts, optional
        Settings to try, as for ``GridSearchCV``. Default: forward at eight l2, and squeezed backward losses at three
        (k, alpha) and two l2; for models other than linear ones also learning rates.
    cv : int, splitter or list of splits
        A number of shuffled folds, or anything with ``split(X)``, or (train, test) rows.
    verbose : int
        Print the risk of each setting.

    Attributes
    ----------
    best_estimator_ : WeakLabelClassifier
        Fitted on everything with `best_params_`.
    best_params_, best_index_, best_risk_
        The winner, and its mean held-out weak risk.
    cv_results_ : dict
        One entry per setting: ``params``, ``mean_weak_risk``, ``stderr_weak_risk``, ``stderr_of_difference_to_best``
        (paired), ``mean_raw_risk`` and ``mean_weak_brier`` (as trained), ``temperature``, ``rank``, and each fold's
        risk; ``criterion`` is "calibrated", "log" with ``calibrate=False``, or "brier" where some risk is infinite.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> weak = tp.symmetric_noise(2, 0.2).sample((X[:, 0] > 0).astype(int), seed=1)
    >>> search = tp.WeakLabelClassifierCV(tp.WeakLabelClassifier("symmetric:0.2"), grid={"l2": [0.001, 0.1]}, cv=3)
    >>> sorted(search.fit(X, weak).best_params_)
    ['l2']
    """

    def __init__(
        self,
        estimator: WeakLabelClassifier | None = None,
        grid: _search.Grid | None = None,
        cv: Any = 5,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.cv = cv
        self.verbose = verbose

    def fit(
        self, X: Any, y: Labels, sample_weight: Weights = None, *, true: Labels = None, groups: ArrayLike | None = None
    ) -> WeakLabelClassifierCV:
        """Search, then fit the winner to all rows; `true` and `groups` as in `WeakLabelClassifier.fit`."""
        base = WeakLabelClassifier() if self.estimator is None else self.estimator
        if not isinstance(base, WeakLabelClassifier):
            raise InputError(f"estimator: expected a WeakLabelClassifier, got {type(base).__name__}")
        check_verbose(self.verbose)
        if asks_for_estimate(base.transition):  # once, for all folds and settings
            base = with_estimate(base, X, y, true, groups)
        result, self.best_estimator_ = _search.search_and_fit(
            clone(base), X, y, sample_weight, self.grid, self.cv, self.verbose, true=true, groups=groups
        )
        self.cv_results_, self.best_params_, self.best_index_ = result.results, result.best_params, result.best_index
        self.best_risk_ = float(result.results["mean_weak_risk"][result.best_index])
        self.classes_ = self.best_estimator_.classes_
        self.n_features_in_ = self.best_estimator_.n_features_in_
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        return self

    def _best(self) -> WeakLabelClassifier:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row."""
        return self._best().predict(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities (n, K)."""
        return self._best().predict_proba(X)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Their logarithm."""
        return self._best().predict_log_proba(X)

    def decision_function(self, X: Any) -> FloatArray:
        """Centred scores."""
        return self._best().decision_function(X)

    def score(self, X: Any, y: Labels, sample_weight: Weights = None) -> float:
        """Accuracy as estimated from weak labels y."""
        return self._best().score(X, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
