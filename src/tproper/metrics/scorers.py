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
from ..transitions import (
    Encoded,
    Reconstruction,
    Transition,
    holds_collections,
    in_sorted_order,
    is_index,
    item,
    key,
    read_transition,
    treats_alike,
)
from .balanced import weak_balanced_accuracy
from .inputs import probabilities_of, read_labels, weights_of, width_of
from .weak import weak_accuracy, weak_brier

NAMES = ("accuracy", "balanced_accuracy", "log_loss", "brier", "neg_log_loss", "neg_brier")


def forward_risk(
    labels: Labels,
    probabilities: ArrayLike | Tensor,
    transition: Transition | str,
    sample_weight: ArrayLike | None = None,
) -> float:
    """``-mean log (T q_i)_{y_i}``: the log loss of the weak labels themselves.

    It is proper (its mean is least at the true probabilities, and nowhere else if T's columns are independent), at
    least 0 and at most ``-log`` of the smallest entry of T where T has no zeros, whatever the model says. It ranks
    models; it does not estimate the log loss of the classes; `weak_log_loss` does. T need not be invertible.
    """
    transition = read_transition(transition, width_of(probabilities))
    read = read_labels(transition, labels)
    y, q = read.labels, probabilities_of(probabilities, transition.num_classes, len(read), space=read.space)
    w = weights_of(sample_weight, len(y))
    if read.given is not None:  # rows without a label say nothing
        y, q, w = y[read.given], q[read.given], None if w is None else w[read.given]
    if w is not None:
        y, q, w = y[w > 0], q[w > 0], w[w > 0] / w.max()
    # scores of log q give q back exactly under softmax, zeros included; T is that of pooled bags
    scores = q.log() - torch.as_tensor(transition.log_shift)
    risks = -transition.evidence(y).log_mass(scores).numpy()
    return float(np.average(risks, weights=w))


@dataclass(frozen=True)
class WeakScorer:
    """What `weak_scorer` returns: ``scorer(estimator, X, weak_labels)``, higher is better."""

    name: str
    transition: Transition | None = None
    reconstruction: str | Reconstruction = "auto"
    prior: ArrayLike | None = None

    def __call__(self, estimator: Any, X: Any, y: Labels, sample_weight: ArrayLike | None = None) -> float:
        """The score of a fitted estimator's predictions for X against weak labels."""
        kind = self.name.removeprefix("neg_")
        T = self._named(estimator)
        if self._sorted is not None and self._sorted.classes is None:
            numbered = T.classes is not None and all(map(is_index, T.classes))
            rows = _are_rows(y) and not numbered  # of a T that has no names of its own
            read = read_labels(self._sorted if rows else T, y)
            y = Encoded(read.labels, read.missing)
        if kind == "log_loss":
            return -forward_risk(y, self._probabilities(estimator, X, T), T, sample_weight)
        if kind == "balanced_accuracy" and self.prior is not None:  # which it needs for more than R
            options: dict[str, Any] = {"reconstruction": self.reconstruction, "prior": self.prior}
        else:
            options = {"reconstruction": self._made or T.reconstruction(self.reconstruction, self.prior)}
        if kind == "brier":
            p = self._probabilities(estimator, X, T)
            return -weak_brier(y, p, T, sample_weight=sample_weight, **options).value
        function = weak_accuracy if kind == "accuracy" else weak_balanced_accuracy
        return function(y, estimator.predict(X), T, sample_weight=sample_weight, **options).value

    @cached_property
    def _sorted(self) -> Transition | None:
        """The transition with its classes in sorted order, as estimators have them."""
        return None if self.transition is None else in_sorted_order(self.transition)

    @cached_property
    def _made(self) -> Reconstruction | None:
        """R, made once for all calls: they share the draws of an estimated T."""
        return None if self._sorted is None else self._sorted.reconstruction(self.reconstruction, self.prior)

    def _named(self, estimator: Any) -> Transition:
        """T under the names of the estimator's classes; that of the fit where no other was given."""
        fitted = getattr(last_step(estimator), "transition_", None)
        T = fitted if self._sorted is None else self._sorted
        if T is None:
            raise InputError(f"transition: expected one for a {type(estimator).__name__}, which has none, got None")
        classes = [item(c) for c in getattr(estimator, "classes_", range(T.num_classes))]
        if T.classes is not None or _are_numbers(classes, T.num_classes) or classes == T.labels.class_names:
            return T
        if len(classes) != T.num_classes:
            raise InputError(
                f"estimator: expected one whose classes are the {T.num_classes} true classes, got classes "
                f"{classes[:12]}; an estimator that learned weak labels as if they were classes has no score"
            )
        if (fitted is not None and fitted.same_as(T)) or treats_alike(T):
            return T.named(classes)
        raise InputError(
            f"transition: expected one that names its classes, since sorted names need not be in the order of its "
            f"columns, got {T.name}; write T.named([...]) with the names {classes[:12]} in the order of T's columns"
        )

    def _probabilities(self, estimator: Any, X: Any, T: Transition) -> np.ndarray:
        """Class probabilities with a column for each of T's."""
        p = np.asarray(estimator.predict_proba(X))
        own = [key(c) for c in getattr(estimator, "classes_", T.labels.class_names)]
        wide = np.zeros((len(p), T.num_classes), dtype=p.dtype)
        for z, name in enumerate(T.labels.class_names):
            if key(name) in own:
                wide[:, z] = p[:, own.index(key(name))]
        return wide


def last_step(estimator: Any) -> Any:
    """The classifier itself: the last step of a pipeline, the winner of a search."""
    while True:
        if hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator


def _are_rows(y: Labels) -> bool:
    """Whether labels are numbers, and no names."""
    return not holds_collections(y) and checks.array(y, "y").dtype.kind in "iuf"


def _are_numbers(classes: list[Any], K: int) -> bool:
    """Whether classes are numbers of T's columns, in order."""
    return all(is_index(c) and 0 <= c < K for c in classes) and classes == sorted(classes)


def weak_scorer(
    name: str,
    transition: Transition | str | None = None,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
) -> WeakScorer:
    """A scorer for scikit-learn's ``scoring=``: models are selected by cross-validation on weak labels.

    ``GridSearchCV(model, grid, scoring=tp.weak_scorer("log_loss", T)).fit(X, weak_labels)``. Higher is
    better, so that losses are negated. Probabilities come from ``predict_proba``, whose columns
    must be the true classes in order.

    "log_loss" is the log loss of the weak label under ``T p``, which equals the log loss at T = I. The
    unbiased estimate of the log loss (`weak_log_loss`) has no lower bound on a sample: choosing the best of many models
    by it picks those that run away (a "loss" below zero), and the forward risk cannot. It needs no R, so that
    `reconstruction` and `prior` do not change it.

    Parameters
    ----------
    name : str
        "accuracy", "balanced_accuracy", "log_loss" or "brier" ("neg_log_loss" and "neg_brier" mean the same).
    transition : Transition or text, optional for a `WeakLabelClassifier` (or a pipeline or search that ends in one)
        Without it the T of each fit is used; where the fit estimates it, every fold is scored by a T of its own.
    reconstruction, prior
        As for `weak_accuracy`.

    Returns
    -------
    callable
        ``scorer(estimator, X, weak_labels)`` gives a number.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> import numpy as np, tproper as tp
    >>> X, y = np.arange(20.0)[:, None], np.arange(20) // 10
    >>> scorer = tp.weak_scorer("log_loss")
    >>> scores = cross_val_score(tp.WeakLabelClassifier("symmetric:0.1"), X, y, scoring=scorer, cv=2)
    >>> scores.shape
    (2,)
    """
    checks.choice(name, "name", NAMES)
    T = None if transition is None else read_transition(transition)
    return WeakScorer(name, T, reconstruction, prior)
