"""A scorer for scikit-learn's searches: the weak risk of a model after one temperature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from .._core import FloatArray, Labels, checks
from ..errors import InputError
from ..metrics import last_step, weights_of
from ..solvers import calibrated_risks
from ..transitions import Transition, TransitionLike, make_transition, settle


@dataclass(frozen=True)
class CalibratedScorer:
    """What `calibrated_scorer` returns: ``scorer(estimator, X, weak_labels)``, higher is better."""

    transition: Transition | None = None

    def __call__(self, estimator: Any, X: Any, y: Labels, sample_weight: ArrayLike | None = None) -> float:
        """Minus the mean of ``-log (T softmax(v / t))_y``, t the temperature that is best for these rows."""
        fitted = last_step(estimator)
        T = getattr(fitted, "transition_", None) if self.transition is None else self.transition
        if T is None:
            raise InputError(f"transition: expected one for a {type(estimator).__name__}, which has none, got None")
        scores = _scores(estimator, X, T)
        names = None if T.classes is not None else getattr(fitted, "classes_", None)
        space = settle(y, T, names if hasattr(fitted, "transition_") else None)
        labels, missing = space.read(y)
        if len(labels) != len(scores):
            raise InputError(f"y: expected one label for each of the {len(scores)} rows of X, got {len(labels)}")
        w = weights_of(sample_weight, len(scores))
        if missing.any():
            labels, scores = labels[torch.as_tensor(~missing)], scores[~missing]
            w = None if w is None else w[~missing]
        risks, _ = calibrated_risks(scores, labels, T, w)
        return -float(np.average(risks, weights=w))


def calibrated_scorer(transition: TransitionLike | None = None) -> CalibratedScorer:
    """A scorer for scikit-learn's ``scoring=`` that needs weak labels alone, and calibrates before it scores.

    ``GridSearchCV(model, grid, scoring=tp.calibrated_scorer()).fit(X, weak_labels)``. The score is minus the forward
    risk ``-log (T p)_y``, which is proper for every T and bounded, after one temperature fitted to the same held-out
    rows: it ranks models by what they know, not by how sure they are. ``weak_scorer("log_loss", T)`` is the
    same risk of the probabilities as they are. An unbiased estimate of the log loss (`weak_log_loss`) is not bounded,
    and rewards models that run away.

    Parameters
    ----------
    transition : Transition or text, optional for a `WeakLabelClassifier`, which knows it
        T.

    Returns
    -------
    callable
        ``scorer(estimator, X, weak_labels)`` gives a number.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> import numpy as np, tproper as tp
    >>> X, y = np.arange(40.0)[:, None], np.arange(40) // 20
    >>> clf = tp.WeakLabelClassifier("symmetric:0.1")
    >>> bool((cross_val_score(clf, X, y, scoring=tp.calibrated_scorer(), cv=2) <= 0).all())
    True
    """
    return CalibratedScorer(None if transition is None else make_transition(transition))


def _scores(estimator: Any, X: Any, T: Transition) -> FloatArray:
    """Log-probabilities where they are finite, else decision values, (n, K)."""
    K = T.num_classes
    log_proba = getattr(estimator, "predict_log_proba", None)
    scores = None if log_proba is None else np.asarray(log_proba(X), dtype=np.float64)
    if scores is not None and scores.shape[-1] == K:  # from the population to the pooled bags, T's own
        scores = scores - T.log_shift
    if scores is None or not np.isfinite(scores).all():
        scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
    if scores.ndim == 1:
        scores = np.stack([-scores / 2, scores / 2], axis=1)
    if scores.shape[1] != K:
        raise InputError(f"estimator: expected one with scores for {K} classes, got {scores.shape[1]}")
    return checks.matrix(scores, "scores")
