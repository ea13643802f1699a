"""Which classes labels speak of: T and the names of its classes, from the settings, or else from the data.

Names that a T or `classes` gives stand for T's columns in their order. Where nobody gives any, text and booleans are
the names of classes, sorted, as long as T treats all classes alike; a T that does not needs names, since sorted labels
need not be in the order of its columns. Integers are rows of T. Without T every label is the name of a class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import checks, warn
from ..errors import InputError
from .annotators import AnnotatorTransition, annotators
from .base import Transition
from .families import identity, partial_labels, positive_unlabeled
from .labels import (
    POSITIVE_UNLABELED,
    Answers,
    Encoded,
    LabelSpace,
    _all_boolean,
    _is_none,
    _texts_as_lists,
    absent,
    are_numbers,
    check_spelling,
    column,
    distinct,
    distinct_names,
    holds_collections,
    is_index,
    item,
    key,
    known_column,
    ordered,
    shown,
)
from .noisy_sets import NoisySetTransition
from .ordering import in_sorted_order
from .parsing import TransitionLike, UnknownSizeError, make_transition
from .questions import QuestionTransition
from .sets import CandidateSetTransition
from .soft import SoftLabels
from .uniform import UniformTransition


def space_for(y: Any, transition: Transition, argument: str = "y") -> LabelSpace:
    """The labels of T in T's own order, with names from the labels where these may name the classes of a T without."""
    return transition.labels if _are_rows(y, transition) else settle(y, transition, argument=argument)


def _are_rows(y: Any, transition: Transition) -> bool:
    """Whether labels need no names: T has some, or they are numbers of its rows where labels are classes."""
    if transition.classes is not None:
        return True
    if isinstance(y, Tensor):
        whole = not y.is_floating_point() and y.dtype != torch.bool
    else:
        kind = getattr(y, "dtype", None)
        whole = isinstance(kind, np.dtype) and kind.kind in "iu"
    if not whole or transition.label_kind != "classes":
        return False
    return not len(y) or (int(y.min()) >= 0 and int(y.max()) < transition.num_weak_labels)


def settle(
    y: Any, transition: TransitionLike | None, classes: Any = None, *, true: Any = None, argument: str = "y"
) -> LabelSpace:
    """The labels of T in T's own order: names from T, from `classes`, or from the labels themselves."""
    names = None if classes is None else distinct_names(classes, "classes")
    if isinstance(y, Encoded):
        T = identity(int(y.labels.max()) + 1 if names is None else len(names)) if transition is None else transition
        T = make_transition(T, None if names is None else len(names))
        return (T if names is None else _with_names(T, names)).labels
    if isinstance(y, SoftLabels):
        return _settle_soft(y, transition, names, argument)
    if transition is None:
        if names is not None:
            return identity(len(names)).named(names).labels
        names = _names_of_classes(y, true, argument)
        return _found(identity(len(names)).named(names).labels)
    T = sized(y, transition, None if names is None else len(names), argument)
    if names is not None:
        return _with_names(T, names).labels
    if T.classes is not None:
        return T.labels
    names = _names_from_labels(y, T, argument, _is_open(transition))
    if names is None:
        return T.labels
    space = T.named(names).labels
    return space if space.unsorted else _found(space)


def _settle_soft(
    y: SoftLabels, transition: TransitionLike | None, names: list[Any] | None, argument: str
) -> LabelSpace:
    """Labels that are shares: without a T, or where labels are classes, columns are classes."""
    known = None if names is None else len(names)
    if transition is None:
        T: Transition = identity(known or y.shape[-1])
    else:
        try:
            T = make_transition(transition, known)  # columns are labels, which need not be as many as the classes
        except UnknownSizeError:
            T = make_transition(transition, y.shape[-1])
    if names is not None:
        return _with_names(T, names).labels
    if T.classes is None and y.names is not None and T.label_kind == "classes":
        found = ordered([item(name) for name in y.names], argument)
        return _found(T.named(_names_for(found, T, argument)).labels)
    return T.labels


def _found(space: LabelSpace) -> LabelSpace:
    space.found = True
    return space


def settle_sorted(
    y: Any, transition: TransitionLike | None, classes: Any = None, *, true: Any = None, argument: str = "y"
) -> LabelSpace:
    """`settle`, with the columns of T in the sorted order of their names, as estimators have them."""
    space = settle(y, transition, classes, true=true, argument=argument)
    T = in_sorted_order(space.transition)
    if T is space.transition:
        return space
    if isinstance(y, SoftLabels) and y.names is None and T.labels.names != space.names:
        raise InputError(
            f"{argument}: expected a frame of shares with the columns {space.names} by name, got an array, whose "
            "columns would be read in sorted order, where T has them in another; pass SoftLabels(shares, names=[...])"
        )
    return T.labels


def sized(y: Any, transition: TransitionLike, known: int | None, argument: str = "y") -> Transition:
    """T; where its description leaves out the number of classes, as many as are named or as the labels speak of."""
    try:
        return make_transition(transition, known)
    except UnknownSizeError:
        return make_transition(transition, _count_classes(y, argument))


def _is_open(transition: TransitionLike) -> bool:
    """Whether the description leaves out the number of classes, which labels tell."""
    try:
        make_transition(transition)
    except UnknownSizeError:
        return True
    return False


def _with_names(T: Transition, names: list[Any]) -> Transition:
    """T under the names that `classes` gives: its columns' where it has none."""
    if T.classes is None:
        if T.label_kind == POSITIVE_UNLABELED and all(isinstance(name, bool) for name in names):
            return T.named(T.labels.class_names)  # True is the positive one
        return T.named(names)
    if {key(name) for name in names} != {key(name) for name in T.classes}:
        raise InputError(f"classes: expected those of the transition, {shown(T.classes)}, got {shown(names)}")
    return T


def _names_of_classes(y: Any, true: Any, argument: str) -> list[Any]:
    """Every different label is a class, and so is every known class."""
    found = distinct(column(y, argument), argument)
    if true is not None:
        found = ordered({key(n): n for n in [*found, *known_names(true)]}.values(), argument)
    check_spelling(found, argument)
    return _at_least_two(found, argument)


def _names_from_labels(y: Any, T: Transition, argument: str, is_open: bool) -> list[Any] | None:
    """Names of the classes of a T without any, where labels tell them; None where they are 0 .. K-1.

    `is_open`: T has as many classes as labels name, whole numbers too.
    """
    kind, K = T.label_kind, T.num_classes
    if kind == "masks":
        return _names_in_sets(y, K, argument)
    if kind == "answers":
        return _names_in_answers(y, T, argument)
    if kind == "classes":
        return _names_in_column(y, T, argument, is_open)
    if kind == POSITIVE_UNLABELED and any(not is_index(name) for name in distinct(column(y, argument), argument)):
        return T.labels.class_names  # True is the positive one, whatever column it has
    return None


def _names_in_column(y: Any, T: Transition, argument: str, is_open: bool) -> list[Any] | None:
    found, K = distinct(column(y, argument), argument), T.num_classes
    if not found or all(is_index(name) and 0 <= name < K for name in found):
        return None
    alike = treats_alike(T)
    if all(is_index(name) for name in found):
        coded = K == 2 and found == [-1, 1]  # a coding of two classes
        if alike and (coded or (is_open and len(found) == K and -1 not in found)):
            return found
        wrong = "labels -1, 1" if coded else next(name for name in found if not 0 <= name < K)
        raise InputError(
            f"{argument}: expected integers in [0, {K}), got {wrong}; they are rows of a T without names: give its "
            "columns names in their order, T.named([...])"
        )
    return _names_for(found, T, argument)


def _names_for(found: list[Any], T: Transition, argument: str) -> list[Any]:
    """Names, sorted, for the columns of a T to which order does not matter."""
    K = T.num_classes
    check_spelling(found, argument)
    if not treats_alike(T):
        raise InputError(
            f"{argument}: expected a transition that names its classes, since {T.name} does not treat them alike and "
            f"sorted labels need not be in the order of its columns, got {shown(found)}; write T.named([...]) with "
            "these names in the order of T's columns"
        )
    return _as_many(found, K, argument)


def _as_many(found: list[Any], K: int, argument: str) -> list[Any]:
    """Names that labels were found to have, one for each class."""
    if len(found) != K:
        raise InputError(
            f"{argument}: expected labels of {K} classes, as the transition has, got {len(found)} distinct ones: "
            f"{shown(found)}; pass `classes`"
        )
    return found


def _names_in_sets(y: Any, K: int, argument: str) -> list[Any] | None:
    if hasattr(y, "columns"):
        names = [item(c) for c in y.columns]
        return None if are_numbers(names) or len(names) != K else ordered(names, argument)
    members = _members(y, argument)
    if members is None or all(is_index(z) and 0 <= z < K for z in members):
        return None
    check_spelling(members, argument)
    return _as_many(members, K, argument)


def _names_in_answers(y: Any, T: Any, argument: str) -> list[Any] | None:
    own = [t._weak_labels for t in T.transitions]
    if own[0] is not None and all(names == own[0] for names in own) and len(own[0]) == T.num_classes:
        return list(own[0])
    if not all(t.label_kind == "classes" for t in T.transitions):
        return None
    space = T.labels
    assert isinstance(space, Answers)
    table = space.table(y, argument)
    found = distinct(table[~absent(table, no_answer=True)].reshape(-1), argument)
    if not found or all(is_index(name) and 0 <= name < T.num_classes for name in found):
        return None
    if all(is_index(name) for name in found):
        raise InputError(
            f"{argument}: expected answers in [0, {T.num_classes}), or -1 for none, got "
            f"{next(name for name in found if not 0 <= name < T.num_classes)}; they are rows of a T without names: "
            "give its columns names in their order, T.named([...])"
        )
    return _names_for(found, T, argument)


def _members(y: Any, argument: str) -> list[Any] | None:
    """The distinct classes in candidate sets, sorted; None for masks."""
    given = _texts_as_lists(y, argument)
    if not holds_collections(given):
        return None
    sets = [label for label in given if not _is_none(label)]
    if not sets or all(_all_boolean(label) for label in sets):
        return None
    return ordered({key(z): item(z) for label in sets for z in label}.values(), argument)


def _count_classes(y: Any, argument: str) -> int:
    """How many classes the labels speak of, for a transition that leaves their number out."""
    members = _members(y, argument)
    if members is not None:
        return len(_at_least_two(members, argument))
    table = checks.array(y, argument)
    if table.ndim == 2 and table.shape[1] > 1:
        return int(table.shape[1])
    found = distinct(column(y, argument), argument)
    if found != [-1, 1] and all(is_index(name) for name in found) and min(found, default=0) < 0:
        raise InputError(f"{argument}: expected names of classes or rows of T, got {min(found)}; pass `classes`")
    return len(_at_least_two(found, argument))


def _at_least_two(found: list[Any], argument: str) -> list[Any]:
    if len(found) < 2:
        got = f"only one class: {found[0]!r}" if found else "no label that is not missing"
        raise InputError(
            f"{argument}: expected labels of at least 2 classes, got {got}; pass `classes` if there are more"
        )
    return found


def treats_alike(T: Transition) -> bool:
    """Whether T stays the same however its classes (and, with them, the labels that go by their names) are permuted."""
    if isinstance(T, AnnotatorTransition):
        return all(treats_alike(t) for t in T.transitions)
    if isinstance(T, UniformTransition | CandidateSetTransition | NoisySetTransition | QuestionTransition):
        return True
    matrix = T.matrix()
    if T.label_kind == "classes":
        off = matrix[~np.eye(len(matrix), dtype=bool)]
        return bool(np.ptp(np.diag(matrix)) <= 1e-12 and np.ptp(off) <= 1e-12)
    return bool(np.ptp(matrix, axis=1).max() <= 1e-12)


# Labels whose T is yet to be estimated.


def form_of(y: Any, argument: str = "y") -> str:
    """What labels are, where no T says so: "answers" (n, m), "sets" (collections of classes) or "one"."""
    advice = "say which: ('estimate', {'kind': 'annotators'}) or ('estimate', {'kind': 'partial'})"
    y = _texts_as_lists(y, argument) if y is not None and holds_collections(y) else y
    if y is not None and holds_collections(y) and not all(_is_none(v) or len(v) == 1 for v in y):
        lengths = {len(v) for v in y if not _is_none(v)}
        if len(lengths) > 1 or not all(isinstance(v, (list, tuple, np.ndarray)) for v in y):
            return "sets"
        raise InputError(
            f"{argument}: expected a kind of label beside lists of {lengths.pop()} each, got none: they may be "
            f"candidate sets or the answers of several annotators; {advice}"
        )
    table = checks.array(y, argument)
    if table.ndim != 2 or table.shape[1] < 2:
        return "one"
    if table.dtype.kind == "b" or (table.dtype.kind == "O" and all(_all_boolean(row) for row in table)):
        raise InputError(
            f"{argument}: expected a kind of label beside booleans (n, m), got none: they may be candidate sets or the "
            f"answers of several annotators; {advice}"
        )
    return "answers"


def stand_in(y: Any, form: str, classes: Any = None, true: Any = None, argument: str = "y") -> LabelSpace:
    """A T that stands for the one to be estimated: it reads labels of this form under their names, no more."""
    names = None if classes is None else distinct_names(classes, "classes")
    if form == "pu":
        return _stand_in_positive(y, names, argument)
    if form == "one":
        return _stand_in_noisy(y, names, true, argument)
    if form == "sets":
        if names is not None:
            return partial_labels(len(names), 0.5).named(names).labels
        members = _members(y, argument)
        K = _count_classes(y, argument) if members is None else len(_at_least_two(members, argument))
        T = partial_labels(K, 0.5)
        if members is None:
            return settle(y, T, argument=argument)
        check_spelling(members, argument)
        return T.named(members).labels
    table = checks.array(y, argument)
    if table.ndim != 2:
        raise InputError(f"{argument}: expected the answers of several annotators (n, m), got shape {table.shape}")
    if names is None:
        seen = [*table[~absent(table, no_answer=True)].reshape(-1).tolist(), *known_names(true)]
        if not seen:
            raise InputError(f"{argument}: expected at least one answer, got none")
        found = ordered({key(v): _plain(v) for v in seen}.values(), argument)
        check_spelling(found, argument)
        if all(is_index(v) and v >= 0 for v in found):
            return annotators([identity(max(2, int(max(found)) + 1))] * table.shape[1]).labels
        names = _at_least_two(found, argument)
    return annotators([identity(len(names))] * table.shape[1]).named(names).labels


def known_names(true: Any) -> list[Any]:
    """The different classes that are known, sorted."""
    if true is None:
        return []
    values = known_column(true)
    return distinct(values[~absent(values, no_answer=True)], "true")


def _plain(value: Any) -> Any:
    value = item(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _stand_in_noisy(y: Any, names: list[Any] | None, true: Any, argument: str) -> LabelSpace:
    """Labels that name no class are weak labels of their own, where `classes` or known classes say what classes are.

    Whole numbers all name classes: a class that nobody has checked is not another answer.
    """
    found = distinct(column(y, argument), argument)
    if names is None:
        known = known_names(true)
        if len(known) < 2 or any(is_index(name) for name in [*known, *found]):
            return settle(y, None, true=true, argument=argument)
        check_spelling(ordered({key(n): n for n in [*known, *found]}.values(), argument), argument)
        names = known
    others = [name for name in found if key(name) not in {key(n) for n in names}]
    if not others:
        return identity(len(names)).named(names).labels
    if any(is_index(name) for name in others):
        raise InputError(f"{argument}: expected labels among {shown(names)}, got {others[0]!r}; pass more `classes`")
    warn(
        f"{argument}: {shown(others)} names no class, and counts as a weak label of its own; if it is a class, pass "
        "`classes`",
    )
    every = [*names, *others]
    return Transition(np.full((len(every), len(names)), 1 / len(every)), every).named(names).labels


def _stand_in_positive(y: Any, names: list[Any] | None, argument: str) -> LabelSpace:
    T = positive_unlabeled(1.0)
    values = column(y, argument)
    found = distinct(values, argument)
    if any(is_index(name) for name in found) and (names is None or names == sorted(names)):
        raise InputError(
            f"{argument}: expected True = labeled positive, and False or nothing elsewhere, got whole numbers, and "
            f"nobody says which is positive; pass {argument} == 1 (or {argument} == 0)"
        )
    return (T if names is None else _with_names(T, names)).labels
