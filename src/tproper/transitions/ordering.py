"""The same T with its classes in another order."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from .annotators import AnnotatorTransition
from .base import Transition
from .dense import DenseTransition
from .families import BagTransition
from .labels import sorted_names
from .named import NamedTransition
from .noisy_sets import NoisySetTransition
from .posterior import Posterior
from .questions import QuestionTransition
from .sets import CandidateSetTransition
from .stacked import StackedTransition
from .uniform import UniformTransition


def in_sorted_order(transition: Transition) -> Transition:
    """T with the names of its classes sorted, as scikit-learn expects columns to be; T itself where they are."""
    names = transition.labels.class_names
    wanted = sorted_names(names)
    if names == wanted:
        return transition
    out = permuted(transition, [names.index(name) for name in wanted])
    return out if transition.classes is None else out.named(wanted)


def with_weak_labels(transition: Transition, names: Sequence[Any]) -> Transition:
    """The same T, whose rows have these names."""
    out = copy.copy(transition)
    out._weak_labels = list(names)
    return out


def permuted(transition: Transition, order: Sequence[int]) -> Transition:
    """T of the same labels, whose column z is column ``order[z]``; rows go along where labels are classes."""
    out = _permuted(transition, order)
    return out if transition.prior is None else out.with_prior(transition.prior[list(order)])


@singledispatch
def _permuted(transition: Transition, order: Sequence[int]) -> Transition:
    rows = list(order) if transition.label_kind == "classes" else list(range(transition.num_weak_labels))
    out: Any = copy.copy(transition)
    if not isinstance(transition, DenseTransition):  # a structure that says nothing of its order
        out = DenseTransition(transition.matrix(), transition._weak_labels)
        out.name, out._label_kind = transition.name, transition._label_kind
    out._T = _frozen(transition.matrix()[np.ix_(rows, list(order))])
    own = transition._weak_labels
    if own is not None:
        new = {z: place for place, z in enumerate(order)}
        sets = transition._labels_are_sets()
        out._weak_labels = [frozenset(new[z] for z in name) for name in own] if sets else list(own)
    out._classes = None
    if type(transition.posterior) is Posterior:
        out.posterior = _posterior(transition.posterior, out._T, rows, list(order))
    return out


def _posterior(known: Posterior, mean: Any, rows: Sequence[int], columns: Sequence[int]) -> Posterior:
    place = (..., *np.ix_(rows, columns))
    parts = {name: getattr(known, name) for name in ("draws", "concentration", "counts")}
    return Posterior(mean, **{name: None if given is None else given[place] for name, given in parts.items()})


@_permuted.register
def _(transition: NamedTransition, order: Sequence[int]) -> Transition:
    own, sets = transition._weak_labels, transition._labels_are_sets()
    words = None if own is None or sets else transition._names_for(transition.labels.class_names)
    plain = Transition(transition.matrix(), own if sets else words)
    plain.name, plain._label_kind, plain._classes = transition.name, transition._label_kind, transition._classes
    return _permuted(plain, order)  # its parameters say nothing of an order


@_permuted.register(UniformTransition)
@_permuted.register(CandidateSetTransition)
@_permuted.register(NoisySetTransition)
@_permuted.register(QuestionTransition)
def _(transition: Any, order: Sequence[int]) -> Transition:
    out = copy.copy(transition)  # all classes are alike
    out._classes = None
    if getattr(out, "flip_rates", None) is not None:
        out.flip_rates = out.flip_rates[list(order)]
    return out


@_permuted.register
def _(transition: BagTransition, order: Sequence[int]) -> Transition:
    out: Any = _permuted.dispatch(DenseTransition)(transition, order)
    out.pooled, out.prior = transition.pooled[list(order)], None
    return out


@_permuted.register
def _(transition: StackedTransition, order: Sequence[int]) -> Transition:
    out = StackedTransition([permuted(t, order) for t in transition.sources], transition.weights)
    out.name = transition.name
    return out


@_permuted.register
def _(transition: AnnotatorTransition, order: Sequence[int]) -> Transition:
    parts = [permuted(t, order) for t in transition.transitions]
    new = {z: place for place, z in enumerate(order)}
    kinds = [t.label_kind for t in transition.transitions]
    silence = [
        new[int(y)] if y >= 0 and kind == "classes" else int(y)
        for y, kind in zip(transition.silence, kinds, strict=True)
    ]
    out = copy.copy(transition)
    out.__dict__.pop("_kept", None)  # copies on other devices
    out.transitions, out.silence, out._classes = parts, np.array(silence, dtype=np.int64), None
    return out


def _frozen(array: Any) -> Any:
    out = np.ascontiguousarray(array)
    out.setflags(write=False)
    return out
