"""From the labels people have (names, candidate lists, pairs) to the encoded labels that transitions take.

The names of weak labels stand in `transitions.vocabulary`, which the command shares; here is what Python holds them in:
arrays, tensors, series, lists of lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from .._core import checks
from ..errors import InputError
from ..transitions import (
    AnnotatorTransition,
    SoftLabels,
    StackedTransition,
    Transition,
    UniformTransition,
    UnknownSizeError,
    Vocabulary,
    annotators,
    identity,
    is_index,
    is_soft,
    item,
    make_transition,
    partial_labels,
    positive_unlabeled,
)

SHOWN = 8  # names listed in a message


def resolve(y: Any, transition: Any, classes: Any = None) -> tuple[Transition, NDArray[Any]]:
    """T and the class names, from the settings and, where they leave something open, from the labels.

    Classes are those given, or the sorted distinct labels where weak labels have the names of classes (or the sorted
    distinct members of candidate lists); labels 0 .. K-1 of which some are missing stand for K classes all the same.
    """
    names = None if classes is None else _distinct_names(classes)
    if isinstance(y, SoftLabels):
        return _resolve_soft(y, transition, names)
    known = None if names is None else len(names)
    scalars: NDArray[Any] | None = None
    if transition is None:
        scalars = _scalars(y) if names is None else None
        T = make_transition("identity", known if scalars is None else _at_least_two(_unique(scalars)))
    else:
        try:
            T = make_transition(transition, known)
        except UnknownSizeError:
            T = make_transition(transition, _count_classes(y))
    if names is not None:
        return T, names
    K = T.num_classes
    if T.per_class_labels:
        members = _members(y)
        return T, np.arange(K) if members is None else _sized(members, K)
    if isinstance(T, AnnotatorTransition):
        return T, _classes_of_answers(y, T)
    if T.label_kind == "classes":
        distinct = _unique(_scalars(y) if scalars is None else scalars)
        names = _sized(distinct, K)
        if not isinstance(T, UniformTransition):
            _check_order([item(n) for n in distinct], T)
        return T, names
    return T, np.arange(K)


def _resolve_soft(y: SoftLabels, transition: Any, names: NDArray[Any] | None) -> tuple[Transition, NDArray[Any]]:
    """T and the class names where labels are shares: without a T, or where labels are classes, columns are classes."""
    several = isinstance(transition, Transition) and transition.answer_sizes is not None  # columns are no classes
    known = len(names) if names is not None else None if several else y.shape[-1]
    T = make_transition("identity" if transition is None else transition, known)
    if names is None and y.names is not None and T.label_kind == "classes":
        names = _unique(list(y.names))
        if not isinstance(T, UniformTransition) and names.tolist() != y.names:
            raise InputError(f"y: expected `classes` in the order of T's columns, got the columns {_shown(y.names)}")
    return T, np.arange(T.num_classes) if names is None else names


def _by_name(y: SoftLabels, transition: Transition, classes: NDArray[Any]) -> SoftLabels:
    """Columns in the order of T's rows, and without names."""
    if y.names is None or transition.answer_sizes is not None:
        return y
    return SoftLabels(y.arranged(Vocabulary(transition, classes).names).tensor, validate=False)


def _check_order(distinct: list[Any], transition: Transition) -> None:
    """Refuse sorted labels as the classes of a T whose columns differ, where they need not be in the columns' order."""
    K, got, counted = transition.num_classes, "", all(is_index(n) and n >= 0 for n in distinct)
    if all(isinstance(n, str) and n.isdecimal() for n in distinct) and distinct != sorted(distinct, key=int):
        got = "numbers as text, sorted "
    elif counted and len(distinct) < K and min(distinct) > 0:  # from 0 without the first, or from 1 without the last?
        got = "numbers without 0, "
    elif K == 2 and not counted and np.ptp(np.diag(transition.matrix())) > 0:  # which one is the positive one?
        got = "labels "
    if got:
        raise InputError(f"y: expected `classes` in the order of T's columns, got {got}{_shown(distinct)}")


def encode(y: Any, transition: Transition, classes: NDArray[Any]) -> Tensor:
    """Encoded weak labels: int64 rows of T (n,), boolean candidate masks (n, K), or shares of soft labels (n, M)."""
    if isinstance(y, SoftLabels):
        return transition.encode(_by_name(y, transition, classes))
    if transition.per_class_labels:
        return transition.encode(_masks(y, classes))
    if isinstance(transition, AnnotatorTransition):
        return transition.encode(_answers(y, transition, classes))
    if isinstance(transition, StackedTransition):
        return transition.encode(_rows_of_pairs(y, transition, classes))
    if transition.positive_unlabeled:
        return _positive_unlabeled(y, transition, classes)
    words = Vocabulary(transition, classes)
    if any(isinstance(name, (frozenset, tuple)) for name in words.names) and _holds_collections(y):
        kind = frozenset if isinstance(words.names[0], frozenset) else tuple
        return transition.encode(_lookup([kind(item(m) for m in label) for label in y], words))
    return transition.encode(_lookup(_scalars(y), words))


def _positive_unlabeled(y: Any, transition: Transition, classes: NDArray[Any]) -> Tensor:
    """0 = labeled positive, 1 = unlabeled, or their names where classes have names.

    Other codings are refused: the answers of `predict` would not be in them.
    """
    labels = _scalars(y)
    rows = transition.encode(rows_of(labels, transition, classes))
    share, r = float((rows == 0).double().mean()), float(transition.matrix()[0].max())
    if share > r + 5 * (r * (1 - r) / len(rows)) ** 0.5:
        raise InputError(
            f"y: expected at most a share r = {r:.3g} of labeled positives, which are coded 0 (1 = unlabeled), "
            f"got {share:.3g}: the labels may be coded the other way round, or r is too small"
        )
    return rows


def rows_of(labels: NDArray[Any], transition: Transition, classes: NDArray[Any]) -> NDArray[np.int64]:
    """The rows of T of labels (n,), one name for each example."""
    if not transition.positive_unlabeled:
        out: NDArray[np.int64] = encode(labels, transition, classes).numpy()
        return out
    if labels.dtype.kind == "b" or (labels.dtype.kind in "iuf" and (labels == -1).any()):
        got = "booleans" if labels.dtype.kind == "b" else "-1"
        raise InputError(
            f"y: expected 0 = labeled positive and 1 = unlabeled, with class 0 the positive one, got {got}; "
            f"pass np.where({'y' if labels.dtype.kind == 'b' else 'y == 1'}, 0, 1)"
        )
    return _lookup(labels, Vocabulary(transition, classes))


def check_informative(labels: Tensor, transition: Transition) -> None:
    """Refuse encoded labels that all say nothing: there is nothing to learn from them."""
    gone = labels.isnan() if is_soft(labels) else labels < 0
    if isinstance(transition, AnnotatorTransition) and bool(gone.all()):
        raise InputError(f"y: expected at least one answer, got none in {len(labels)} rows")
    if transition.per_class_labels and not is_soft(labels) and bool(labels.all()):
        raise InputError(f"y: expected a candidate set that leaves a class out, got every class in all {len(labels)}")


def weights_of_answers(silent: Tensor, weights: Any) -> NDArray[np.float64]:
    """Weights (n,) in which rows without an answer count nothing."""
    out = np.where(silent.cpu().numpy(), 0.0, 1.0 if weights is None else weights)
    if not out.any():
        raise InputError(f"y: expected at least one row with an answer to score, got none of {len(out)}")
    return out


def form_of(y: Any) -> str:
    """What labels are, where nobody says so: "answers" (n, m), "sets" (masks, lists of classes) or "one"."""
    if y is not None and _holds_collections(y) and not all(len(label) == 1 for label in y):
        return "sets"
    table = checks.array(y, "y")
    if table.ndim != 2 or table.shape[1] < 2:
        return "one"
    masks = table.dtype.kind == "b" or (table.dtype.kind == "O" and _is_boolean_rows(table))
    return "sets" if masks else "answers"


def stand_in(y: Any, form: str, classes: Any = None, true: Any = None) -> tuple[Transition, NDArray[Any]]:
    """Class names, and a transition that stands for the unknown one: it reads labels of this form, no more."""
    if form == "pu":
        return resolve(y, positive_unlabeled(1.0), classes)
    if form == "one":
        names = classes
        if names is None and true is not None:
            names = _unique([*_scalars(y).tolist(), *map(item, _present(_object_column(true)))])
            names = names if len(names) > 1 else None
        return resolve(y, None, names)
    names = None if classes is None else _distinct_names(classes)
    if form == "sets":
        if names is None:
            members = _members(y)
            names = np.arange(_count_classes(y)) if members is None else members
        return partial_labels(len(names), 0.5), names
    table = checks.array(y, "y")
    if names is None:
        seen = [item(v) for column in (table, _object_column([] if true is None else true)) for v in _present(column)]
        if not seen:
            raise InputError("y: expected at least one answer, got none")
        names = _unique(seen)
        if all(is_index(v) and v >= 0 for v in seen):
            names = np.arange(max(2, int(max(seen)) + 1))
        _at_least_two(names)
    return annotators([identity(len(names))] * table.shape[1]), names


def labelled_rows(y: Any) -> NDArray[np.int64]:
    """The rows that have a label: all but -1, NaN, None and an empty text."""
    return np.flatnonzero(~_absent(checks.array(y, "y").reshape(-1)))


def is_known(true: Any, n: int) -> NDArray[np.bool_]:
    """Which rows have a known class: all but -1, NaN, None and an empty text."""
    column = _object_column(true)
    if len(column) != n:
        raise InputError(f"true: expected one class for each of the {n} rows, missing where unknown, got {len(column)}")
    return ~_absent(column)


def encode_true(true: Any, classes: NDArray[Any], n: int) -> NDArray[np.int64]:
    """The class of each row, by number; -1 where it is unknown (`is_known`)."""
    if any(is_index(item(c)) and item(c) == -1 for c in classes):
        raise InputError("true: expected classes other than -1, which stands for an unknown one, got a class -1")
    rows, column = np.flatnonzero(is_known(true, n)), _object_column(true)
    out = np.full(n, -1, dtype=np.int64)
    words = Vocabulary.of_names([item(c) for c in classes])
    try:
        out[rows] = _lookup(column[rows], words, at=rows)
    except ValueError as error:
        raise InputError(str(error).replace("y: expected labels", "true: expected classes", 1)) from None
    return out


def _object_column(values: Any) -> NDArray[Any]:
    array = checks.array(values, "true")
    if array.ndim != 1:
        raise InputError(f"true: expected one class per row (n,), missing where unknown, got shape {array.shape}")
    return array.astype(object)


def take(y: Any, rows: NDArray[np.int64]) -> Any:
    """The labels of some rows, in what held them."""
    if isinstance(y, Tensor | SoftLabels):
        return y[torch.as_tensor(rows)]
    return _safe_indexing(y if hasattr(y, "__getitem__") else checks.array(y, "y"), rows)


def count(y: Any) -> int:
    """How many labels there are."""
    return len(y) if hasattr(y, "__len__") else len(np.asarray(y))


# What a user may pass as labels.


def _holds_collections(y: Any) -> bool:
    """Whether labels are lists, sets, tuples or series themselves; a 2-d array does not count."""
    if isinstance(checks.unmasked(y, "y"), (np.ndarray, Tensor)) and y.ndim > 1:
        return False
    if hasattr(y, "columns") or isinstance(y, (str, bytes)):  # a data frame is 2-d
        return False
    first = next(iter(y), None) if isinstance(y, Iterable) else None
    return isinstance(first, (set, frozenset, list, tuple, np.ndarray)) or hasattr(first, "to_list")


def _scalars(y: Any) -> NDArray[Any]:
    """One name per example, as a 1-d array."""
    if y is None:
        raise InputError("requires y to be passed, but the target y is None")
    if _holds_collections(y) and not all(isinstance(label, (list, np.ndarray)) and len(label) == 1 for label in y):
        raise InputError(
            "y: expected one label per example, got collections; candidate sets need a transition such as 'partial:0.3'"
        )
    array = column_or_1d(checks.array(y, "y"), warn=True)
    if array.dtype.kind != "O":
        check_classification_targets(array)
    elif missing := [i for i, label in enumerate(array) if checks.absent(label)]:
        raise InputError(f"y: expected a label for every example, got a missing one (NaN or None) at row {missing[0]}")
    if len(array) == 0:
        raise InputError("y: expected at least one label, got none")
    return array


def _unique(labels: NDArray[Any] | list[Any]) -> NDArray[Any]:
    array = checks.array(labels, "y")
    if array.dtype.kind != "O":
        return np.unique(array)
    try:
        ordered = sorted({item(label) for label in array})
    except TypeError:
        kinds = sorted({type(label).__name__ for label in array})
        raise InputError(f"y: expected labels of one kind, got a mix of {', '.join(kinds)}; pass `classes`") from None
    return np.asarray(ordered, dtype=object)


def _at_least_two(distinct: NDArray[Any]) -> int:
    if len(distinct) < 2:
        raise InputError(
            f"y: expected labels of at least 2 classes, got only one class: {item(distinct[0])!r}; "
            "pass `classes` if there are more"
        )
    return len(distinct)


def _distinct_names(classes: Any) -> NDArray[Any]:
    names = checks.array(classes if hasattr(classes, "__array__") else list(classes), "classes")
    if names.ndim != 1 or len(names) < 2:
        raise InputError(f"classes: expected a list of at least 2 class names, got {classes!r}")
    if len({item(c) for c in names}) != len(names):
        raise InputError(f"classes: expected distinct class names, got {classes!r}")
    return names


def _sized(distinct: NDArray[Any], num_classes: int) -> NDArray[Any]:
    """The K class names behind the distinct labels."""
    if len(distinct) == num_classes:
        return distinct
    if all(is_index(item(label)) and 0 <= item(label) < num_classes for label in distinct):
        return np.arange(num_classes)
    raise InputError(
        f"y: expected labels of {num_classes} classes, as the transition has, got {len(distinct)} distinct ones: "
        f"{_shown(distinct.tolist())}; pass `classes`"
    )


def _count_classes(y: Any) -> int:
    """How many classes the labels speak of, for a transition that leaves their number out."""
    members = _members(y)
    if members is not None:
        return _at_least_two(members)
    table = checks.array(y, "y")
    if table.ndim == 2 and table.shape[1] > 1:
        return int(table.shape[1])
    return _at_least_two(_unique(_scalars(y)))


def _members(y: Any) -> NDArray[Any] | None:
    """The distinct classes in candidate lists; None for masks."""
    if not _holds_collections(y) or _is_boolean_rows(y):
        return None
    return _unique([item(z) for label in y for z in label])


def _is_boolean_rows(y: Any) -> bool:
    return all(isinstance(z, (bool, np.bool_)) for label in y for z in label)


def _masks(y: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Candidate masks (n, K): a 2-d array is one already, lists and sets hold class names."""
    K = len(classes)
    if not _holds_collections(y) or _is_boolean_rows(y):
        table, columns = checks.array(y, "y"), list(getattr(y, "columns", ()))
        if columns != classes.tolist() and set(columns) == set(classes.tolist()):
            raise InputError(f"y: expected the columns {classes.tolist()}, in the order of `classes`, got {columns}")
        if table.dtype.kind == "O" and table.ndim == 2 and _is_boolean_rows(table):
            table = table.astype(bool)
        if table.ndim != 2 or table.shape[1] != K or table.dtype.kind not in "biuf":
            raise InputError(
                f"y: expected candidate sets, as a boolean mask (n, {K}) or as lists of class names, "
                f"got shape {table.shape} and dtype {table.dtype}"
            )
        if table.dtype.kind == "f":
            if not np.isin(table, (0.0, 1.0)).all():
                raise InputError("y: expected candidate masks of 0 and 1, got other numbers")
            table = table.astype(bool)
        return table
    index = {name: z for z, name in enumerate(classes.tolist())}
    out = np.zeros((count(y), K), dtype=bool)
    for row, label in enumerate(y):
        for member in label:
            z = index.get(item(member))
            if z is None:
                raise InputError(_unknown(member, row, classes.tolist(), "classes"))
            out[row, z] = True
    return out


def _rows_of_pairs(y: Any, transition: StackedTransition, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Stacked rows of (source, label) pairs, the label by its name in its own source."""
    collections = _holds_collections(y)
    pairs = y if collections else checks.array(y, "y")
    if not collections and (pairs.ndim == 1 or pairs.shape[1] == 1):
        return _lookup(_scalars(pairs), Vocabulary.of_names(range(transition.num_weak_labels)))
    rows = np.empty(count(y), dtype=np.int64)
    words = [Vocabulary(t, classes) for t in transition.sources]
    for i, pair in enumerate(pairs):
        if len(pair) != 2 or not is_index(item(pair[0])) or not 0 <= item(pair[0]) < len(words):
            raise InputError(
                f"y: expected (source, label) pairs with a source in [0, {len(words)}), got {pair!r} at row {i}"
            )
        d, label = int(pair[0]), pair[1]
        if isinstance(label, (set, list, tuple, np.ndarray)):
            label = frozenset(item(z) for z in label)
        rows[i] = transition.offsets[d] + _lookup([label], words[d], at=[i])[0]
    return rows


def _classes_of_answers(y: Any, transition: AnnotatorTransition) -> NDArray[Any]:
    """Class names from the names that annotators answer with, where they answer with classes."""
    own = [t._weak_labels for t in transition.transitions]
    if own[0] is not None and all(names == own[0] for names in own) and len(own[0]) == transition.num_classes:
        return np.asarray(own[0])
    table = _answers_of(y, transition)
    if table.dtype.kind in "biuf" or not all(t.label_kind == "classes" for t in transition.transitions):
        return np.arange(transition.num_classes)
    return _sized(_unique(_present(table)), transition.num_classes)


def _answers(y: Any, transition: AnnotatorTransition, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Answers (n, m) as rows of each annotator's T; -1 where one is missing: -1, NaN, None or an empty text."""
    table = _answers_of(y, transition)
    out = np.full(table.shape, -1, dtype=np.int64)
    given = ~_absent(table)
    for a, t in enumerate(transition.transitions):
        rows = np.flatnonzero(given[:, a])
        if len(rows):
            out[rows, a] = _lookup(table[rows, a], Vocabulary(t, classes), at=rows)
    return out


def _answers_of(y: Any, transition: AnnotatorTransition) -> NDArray[Any]:
    table, m = checks.array(y, "y"), len(transition.transitions)
    if table.ndim != 2 or table.shape[1] != m or not len(table):
        raise InputError(f"y: expected the answers of {m} annotators (n, {m}), got shape {table.shape}")
    return table


def _absent(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values stand for none: -1, NaN, None and an empty text."""
    if values.dtype.kind in "biuf":
        return (values == -1) | (values != values)
    gaps = [checks.absent(v) or item(v) in (-1, "", "-1") for v in values.flat]
    return np.array(gaps, dtype=bool).reshape(values.shape)


def _present(values: NDArray[Any]) -> NDArray[Any]:
    return values[~_absent(values)]


def _lookup(labels: Any, words: Vocabulary, at: Sequence[int] | NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """The row of T of each label, by its name; `at` are the labels' places, for the message."""
    index = words.index
    if isinstance(labels, np.ndarray) and labels.dtype.kind != "O":
        distinct, inverse = np.unique(labels, return_inverse=True)
        out = np.array([index.get(item(label), -1) for label in distinct], dtype=np.int64)[inverse]
    else:
        out = np.array([index.get(item(label), -1) for label in labels], dtype=np.int64)
    unknown = np.flatnonzero(out < 0)
    if len(unknown):
        first = int(unknown[0])
        raise InputError(_unknown(labels[first], first if at is None else int(at[first]), words.names, "labels"))
    return out


def _unknown(label: Any, row: int, names: list[Any], what: str) -> str:
    return f"y: expected {what} among {_shown(names)}, got {item(label)!r} at row {row}"


def _shown(names: list[Any]) -> str:
    def text(name: Any) -> str:
        return "{" + ", ".join(map(repr, sorted(name, key=str))) + "}" if isinstance(name, frozenset) else repr(name)

    return ", ".join(map(text, names[:SHOWN])) + (f", ... ({len(names)} in all)" if len(names) > SHOWN else "")
