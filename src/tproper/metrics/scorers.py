"""Model selection by weak labels: scorers for scikit-learn's ``scoring=``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import Labels, checks
from ..errors import InputError
from ..transitions import BagTransition, Reconstruction, Transition, Vocabulary, item
from .balanced import weak_balanced_accuracy
from .inputs import encoded, probabilities_of, weights_of
from .weak import weak_accuracy, weak_brier

NAMES = ("accuracy", "balanced_accuracy", "log_loss", "brier", "neg_log_loss", "neg_brier")


def forward_risk(
    labels: Labels,
    probabilities: ArrayLike | Tensor,
    transition: Transition,
    sample_weight: ArrayLike | None = None,
) -> float:
    """``-mean log (T q_i)_{y_i}``: the log loss of the weak labels themselves.

    It is proper (its mean is least at the true probabilities, and nowhere else if T's columns are independent), at
    least 0 and at most ``-log`` of the smallest entry of T where T has no zeros, whatever the model says. It ranks
    models; it does not estimate the log loss of the classes; `weak_log_loss` does. T need not be invertible.
    """
    if not isinstance(transition, Transition):
        raise InputError(f"transition: expected a tproper.Transition, got {type(transition).__name__}")
    y = encoded(transition, labels)
    q = probabilities_of(probabilities, transition.num_classes, len(y))
    w = weights_of(sample_weight, len(y))
    if w is not None:
        y, q, w = y[w > 0], q[w > 0], w[w > 0] / w.max()
    # scores of log q give q back exactly under softmax, zeros included; T is that of pooled bags
    scores = q.log() - torch.as_tensor(transition.log_shift) if isinstance(transition, BagTransition) else q.log()
    risks = -transition.evidence(y).log_mass(scores).numpy()
    return float(np.average(risks, weights=w))


@dataclass(frozen=True)
class WeakScorer:
    """What `weak_scorer` returns: ``scorer(estimator, X, weak_labels)``, higher is better."""

    name: str
    transition: Transition
    reconstruction: str | Reconstruction = "auto"
    prior: ArrayLike | None = None

    def __call__(self, estimator: Any, X: Any, y: Labels, sample_weight: ArrayLike | None = None) -> float:
        """The score of a fitted estimator's predictions for X against weak labels."""
        kind = self.name.removeprefix("neg_")
        y = self._labels(estimator, y)
        if kind == "log_loss":
            return -forward_risk(y, self._probabilities(estimator, X), self.transition, sample_weight)
        if kind == "balanced_accuracy" and self.prior is not None:  # which it needs for more than R
            options: dict[str, Any] = {"reconstruction": self.reconstruction, "prior": self.prior}
        else:
            options = {"reconstruction": self._made}
        if kind == "brier":
            p = self._probabilities(estimator, X)
            return -weak_brier(y, p, self.transition, sample_weight=sample_weight, **options).value
        function = weak_accuracy if kind == "accuracy" else weak_balanced_accuracy
        classes = self._classes(estimator, X)
        return function(y, classes, self.transition, sample_weight=sample_weight, **options).value

    @cached_property
    def _made(self) -> Reconstruction:
        """R, made once for all calls: they share the draws of an estimated T."""
        return self.transition.reconstruction(self.reconstruction, self.prior)

    def _columns(self, estimator: Any) -> np.ndarray | None:
        """The class index of each of the estimator's classes, where they are indices; None where they are names.

        Numbers in another order than theirs are names: such an estimator has them in the order of T's columns.
        """
        classes = np.asarray(getattr(estimator, "classes_", np.arange(self.transition.num_classes)))
        K = self.transition.num_classes
        if classes.dtype.kind in "iu" and classes.min() >= 0 and classes.max() < K and (np.diff(classes) > 0).all():
            return classes
        if len(classes) == K:
            return None
        raise InputError(
            f"estimator: expected one whose classes are the {K} true classes, got classes {classes.tolist()[:12]}; "
            "an estimator that learned weak labels as if they were classes has no score"
        )

    def _labels(self, estimator: Any, y: Labels) -> Labels:
        """Labels that go by the names of the estimator's classes, as rows of T; others as they are."""
        if self.transition.label_shape or isinstance(y, Tensor) or self._columns(estimator) is not None:
            return y
        array = checks.array(y, "y")
        if array.ndim != 1:
            return y
        index = Vocabulary(self.transition, estimator.classes_).index
        rows = [index.get(item(name)) for name in array]
        return y if None in rows else np.array(rows, dtype=np.int64)

    def _probabilities(self, estimator: Any, X: Any) -> np.ndarray:
        p = np.asarray(estimator.predict_proba(X))
        columns = self._columns(estimator)
        if columns is None or len(columns) == self.transition.num_classes:
            return p
        wide = np.zeros((len(p), self.transition.num_classes), dtype=p.dtype)
        wide[:, columns] = p
        return wide

    def _classes(self, estimator: Any, X: Any) -> np.ndarray:
        predicted = np.asarray(estimator.predict(X))
        if self._columns(estimator) is not None:
            return predicted
        order = np.argsort(estimator.classes_)
        return order[np.searchsorted(np.asarray(estimator.classes_)[order], predicted)]


def weak_scorer(
    name: str,
    transition: Transition,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
) -> WeakScorer:
    """A scorer for scikit-learn's ``scoring=``: model selection by cross-validation on weak labels.

    ``GridSearchCV(model, grid, scoring=tp.weak_scorer("log_loss", T)).fit(X, weak_labels)``. Higher is
    better, so that losses are negated. Probabilities come from ``predict_proba``, whose columns
    must be the true classes in order.

    "log_loss" is the log loss of the weak label under ``T p`` (`forward_risk`), which equals the log loss at T = I. The
    unbiased estimate of the log loss (`weak_log_loss`) has no lower bound on a sample: choosing the best of many models
    by it picks those that run away (a "loss" below zero), and the forward risk cannot. It needs no R, so that
    `reconstruction` and `prior` do not change it.

    Parameters
    ----------
    name : "accuracy", "balanced_accuracy", "log_loss" or "brier" ("neg_log_loss" and "neg_brier" mean the same)
    """
    checks.choice(name, "name", NAMES)
    if not isinstance(transition, Transition):
        raise InputError(f"transition: expected a tproper.Transition, got {type(transition).__name__}")
    return WeakScorer(name, transition, reconstruction, prior)
