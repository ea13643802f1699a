"""``transition="estimate"``: T from the weak labels and the features of the fit itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import clone

from ..estimation import estimate_transition
from . import labels as _labels

NAME = "estimate"


def asks_for_estimate(transition: Any) -> bool:
    """Whether a transition is ``"estimate"`` or ``("estimate", {settings of estimate_transition})``."""
    named = isinstance(transition, (tuple, list)) and len(transition) == 2 and isinstance(transition[0], str)
    return (transition[0] if named else transition if isinstance(transition, str) else None) == NAME


def with_estimate(estimator: Any, X: Any, y: Any) -> Any:
    """A fresh copy of the estimator with T estimated by `tproper.estimate_transition`; its classes are the labels'."""
    given = {} if isinstance(estimator.transition, str) else estimator.transition[1]
    if not isinstance(given, Mapping):
        raise ValueError(f"transition: expected ('estimate', {{settings}}), got {estimator.transition!r}")
    if estimator.warm_start:
        raise ValueError("warm_start: expected False with transition='estimate', got True")
    T, names = _labels.resolve(y, None, estimator.classes)
    features = clone(estimator).set_params(transition=None)._features(X, reset=True)
    settings = {"num_classes": len(names), "random_state": estimator.random_state} | dict(given)
    found = estimate_transition(_labels.encode(y, T, names).numpy(), X=features, **settings)
    return clone(estimator).set_params(transition=found, classes=names)
