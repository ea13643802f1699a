"""The names of weak labels: the one place between the names that people use and the rows of T.

A weak label has a *name*. Where T's labels are of the same kind as classes (`Transition.label_kind`) the names are the
classes; where T names its labels, those are the names, with class names inside sets; elsewhere they are 0 .. M-1. The
labels of positive-unlabeled data are the positive class and "unlabeled". Integers index the labels wherever no name is
an integer, so that nothing is ambiguous. The estimator and the command both read labels through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .base import Transition
from .stacked import StackedTransition

SET_SEPARATOR = "|"  # candidate sets are written a|b|c
UNLABELED = "unlabeled"  # the second label of positive-unlabeled data


def weak_label_names(transition: Transition, classes: Sequence[Any] | NDArray[Any]) -> list[Any]:
    """The names of the weak labels, in the order of T's rows; class indices inside sets become class names."""
    own = [item(c) for c in classes]
    if transition.label_kind == "classes":
        return own
    if transition.positive_unlabeled and all(isinstance(c, str) for c in own):
        if own[0] == UNLABELED:
            raise InputError(f"classes: expected the positive class first, got {UNLABELED!r}; pass `classes`")
        return [own[0], UNLABELED]
    words = transition.names_for(own)
    if words is not None:
        return words
    if isinstance(transition, StackedTransition):
        return [(d, name) for d, t in enumerate(transition.sources) for name in weak_label_names(t, classes)]
    return [
        frozenset(own[z] for z in name) if isinstance(name, (set, frozenset)) else name
        for name in transition.weak_labels
    ]


class Vocabulary:
    """The names of one transition's weak labels, for given class names.

    Where a label is a mask over the classes (`masks`), names are sets of classes, listed up to 12 of them.
    """

    def __init__(self, transition: Transition, classes: Sequence[Any] | NDArray[Any]) -> None:
        self.transition: Transition | None = transition
        self.classes = [item(c) for c in classes]
        self.masks = transition.per_class_labels
        self.sets = transition.label_kind == "sets"

    @classmethod
    def of_names(cls, names: Iterable[Any]) -> Vocabulary:
        """Names alone, without a transition."""
        out = cls.__new__(cls)
        out.transition, out.classes, out.masks, out.sets, out.names = None, [], False, False, list(names)
        return out

    @cached_property
    def names(self) -> list[Any]:
        """The names, in the order of T's rows."""
        return [] if self.transition is None else weak_label_names(self.transition, self.classes)

    @cached_property
    def index(self) -> dict[Any, int]:
        """The row of T by name; integers stand for rows where no name is an integer.

        A row of positive-unlabeled data that is not labeled may also be written as the other class.
        """
        out = {name: y for y, name in enumerate(self.names)}
        if UNLABELED in out and self.transition is not None and self.transition.positive_unlabeled:
            out.setdefault(self.classes[1], 1)
        if not any(is_index(name) for name in self.names):
            out |= {y: y for y in range(len(self.names)) if y not in out}
        return out

    @cached_property
    def class_index(self) -> dict[Any, int]:
        """The class by name."""
        return {name: z for z, name in enumerate(self.classes)}


def item(label: Any) -> Any:
    """A NumPy scalar as the Python object it stands for."""
    return label.item() if isinstance(label, np.generic) else label


def is_index(label: Any) -> bool:
    """Whether a label is a whole number, which may stand for a row."""
    whole = isinstance(label, (int, np.integer)) or (isinstance(label, float) and label.is_integer())
    return whole and not isinstance(label, bool)
