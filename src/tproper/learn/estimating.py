"""``transition="estimate"``: T from the labels of the fit itself, with what else is known of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_consistent_length

from .._core import checks
from ..errors import InputError
from ..estimation import AnnotatorEstimate, PUEstimate, estimate_annotators, estimate_pu, estimate_transition
from ..transitions import Transition, form_of, in_sorted_order, stand_in, with_weak_labels
from .truth import take

NAME = "estimate"
#: What T is estimated from; the labels' form tells "annotators" and "partial" by themselves.
KINDS = ("clean", "features", "annotators", "pu", "partial")
_FORMS = {"annotators": "answers", "partial": "sets", "pu": "pu"}
Estimated = AnnotatorEstimate | PUEstimate | Transition


def asks_for_estimate(transition: Any) -> bool:
    """Whether a transition is ``"estimate"`` or ``("estimate", {settings})``."""
    named = isinstance(transition, (tuple, list)) and len(transition) == 2 and isinstance(transition[0], str)
    return (transition[0] if named else transition if isinstance(transition, str) else None) == NAME


def estimate_labels(
    kind: str,
    labels: Any,
    num_classes: int,
    true: NDArray[np.int64] | None = None,
    X: Any = None,
    random_state: Any = None,
    groups: Any = None,
    **settings: Any,
) -> Estimated:
    """T by the estimator that suits the kind of labels; `transition_of` takes T out of the result.

    "annotators": answers (n, m), by `estimate_annotators`; "pu": 0 = labeled positive, 1 = unlabeled, by `estimate_pu`;
    "partial" (masks), "clean" (rows of known class alone) and "features" (and clean rows, where there are any) by
    `estimate_transition`.
    """
    checks.choice(kind, "kind", KINDS)
    known = None if true is None or not (np.asarray(true) >= 0).any() else true
    settings |= {} if groups is None or kind in ("clean", "partial") else {"groups": groups}
    if kind == "annotators":
        return estimate_annotators(labels, known, X, num_classes=num_classes, random_state=random_state, **settings)
    if kind == "pu":
        return estimate_pu(
            np.asarray(labels) == 0, X=X, random_state=0 if random_state is None else random_state, **settings
        )
    given = None if kind in ("clean", "partial") else X
    if kind == "clean" and known is None:
        raise InputError("true: expected the class of some rows to estimate T from, got none")
    return estimate_transition(labels, known, given, num_classes=num_classes, random_state=random_state, **settings)


def transition_of(estimated: Estimated) -> Transition:
    """T itself."""
    return estimated if isinstance(estimated, Transition) else estimated.transition


def with_estimate(estimator: Any, X: Any, y: Any, true: Any = None, groups: Any = None) -> Any:
    """A fresh copy of the estimator with the T of these labels; its classes are the labels'."""
    given = {} if isinstance(estimator.transition, str) else estimator.transition[1]
    if not isinstance(given, Mapping):
        raise InputError(f"transition: expected ('estimate', {{settings}}), got {estimator.transition!r}")
    if estimator.warm_start:
        raise InputError("warm_start: expected False with transition='estimate', got True")
    settings = dict(given)
    kind = settings.pop("kind", None)
    form = _FORMS.get(kind, "one") if kind is not None else form_of(y)
    if kind is None:
        kind = {"answers": "annotators", "sets": "partial"}.get(form, "features")
    features = clone(estimator).set_params(transition=None)._features(X, reset=True)
    space = stand_in(y, form, estimator.classes, true)
    if form != "pu":
        space = in_sorted_order(space.transition).labels
    labels, missing = space.read(y)
    check_consistent_length(features, labels)
    known = None if true is None else space.known_classes(true, len(labels))
    if missing.any():  # a row without a weak label says nothing about T
        given = np.flatnonzero(~missing)
        features, labels = features[given], labels[torch.as_tensor(given)]
        known = None if known is None else known[given]
        groups = None if groups is None else take(groups, given)
    seed = settings.pop("random_state", estimator.random_state)
    size = settings.pop("num_classes", space.transition.num_classes)
    estimated = transition_of(estimate_labels(kind, labels.numpy(), size, known, features, seed, groups, **settings))
    own = space.transition._weak_labels
    if own is not None and estimated.num_weak_labels != estimated.num_classes:
        estimated = with_weak_labels(estimated, own[: estimated.num_weak_labels])
    if estimated.num_classes == space.transition.num_classes:
        estimated = estimated.named(space.classes)
    return clone(estimator).set_params(transition=estimated, classes=None)
