"""Answers of several annotators in long form: one row for each answer."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core import checks
from ..errors import InputError
from ..transitions import absent, check_spelling, distinct, is_index, key, names_array
from .arguments import MISSING, check_codes

MOST_CELLS = 1 << 28  # of the wide form (n, m)
MOST_CODES = 100_000  # classes given as integers: T has a row and a column for each


class Answers:
    """Who answered what: the rows (item, annotator, answer) of a long table.

    Parameters
    ----------
    item, annotator : sequences of N names or integers
        What was asked about, and who answered.
    answer : sequence of N names, or integers >= 0
        Integers are classes, 0-based; -1, None, NaN and an empty text stand for no answer. Names are sorted.

    Attributes
    ----------
    items, annotators, classes : arrays
        The different names, in order; results follow this order.

    Examples
    --------
    >>> import tproper as tp
    >>> answers = tp.Answers(["a", "a", "b"], ["ann", "bob", "ann"], ["cat", "dog", "dog"])
    >>> answers.items.tolist(), answers.classes.tolist()
    (['a', 'b'], ['cat', 'dog'])
    """

    def __init__(self, item: ArrayLike, annotator: ArrayLike, answer: ArrayLike) -> None:
        self.wide = False  # whether a gap is a cell of a table, not a question that was never asked
        columns = {name: _column(v, name) for name, v in (("item", item), ("annotator", annotator), ("answer", answer))}
        lengths = {name: len(c) for name, c in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"answer: expected three columns of one length, got {lengths}")
        given = ~absent(columns["answer"], no_answer=True)
        if not given.any():
            raise InputError("answer: expected at least one answer, got none")
        if not given.all():
            columns = {name: c[given] for name, c in columns.items()}
        self.items, self.item = _codes(columns["item"])
        self.annotators, self.annotator = _codes(columns["annotator"])
        self.named, self.classes, self.answer = _answers(columns["answer"])

    @classmethod
    def from_table(cls, table: Any) -> Answers:
        """From answers (n, m), by name or number; -1, None, NaN or an empty text where an annotator gave none.

        All n items and m annotators are kept, those of a data frame by its index and columns.
        """
        wide = checks.array(table, "answers")
        if wide.ndim != 2 or wide.size == 0:
            raise InputError(f"answers: expected a table (n, m), items x annotators, got shape {wide.shape}")
        _check_kind(wide, "answers")
        item, annotator = np.nonzero(~absent(wide, no_answer=True))
        if not len(item):
            raise InputError("answers: expected at least one answer, got none")
        out = cls.__new__(cls)
        out.items, out.annotators = (np.arange(size) for size in wide.shape)
        if hasattr(table, "iloc"):
            out.items = names_array(table.index.tolist())
        if hasattr(table, "columns"):
            out.annotators = names_array(list(table.columns))
        out.item, out.annotator = item, annotator
        out.named, out.classes, out.answer = _answers(wide[item, annotator], "answers")
        out.wide = True
        return out

    def replaced(self, answer: NDArray[np.int64]) -> Answers:
        """The same items and annotators with other answers."""
        out = copy.copy(self)
        out.answer = answer
        return out

    def __len__(self) -> int:
        return len(self.answer)

    def __repr__(self) -> str:
        return (
            f"<{len(self)} answers of {len(self.annotators)} annotators to {len(self.items)} items, "
            f"{len(self.classes)} different ones>"
        )

    def table(self) -> NDArray[np.int64]:
        """The wide form (n, m), -1 where there is no answer: what `tp.annotators` takes as labels."""
        n, m = len(self.items), len(self.annotators)
        if n * m > MOST_CELLS:
            raise InputError(f"answers: expected at most {MOST_CELLS} cells in a table, got {n} x {m}")
        if self.repeated():
            raise InputError("answers: expected one answer of an annotator to an item, got several; keep one of them")
        out = np.full((n, m), MISSING, dtype=np.int64)
        out[self.item, self.annotator] = self.answer
        return out

    def repeated(self) -> int:
        """How many answers follow another of the same annotator to the same item."""
        pair = np.sort(self.item * len(self.annotators) + self.annotator)
        return int((pair[1:] == pair[:-1]).sum())


def as_answers(answers: Answers | Any) -> Answers:
    """`Answers`, from themselves or from a table (n, m)."""
    return answers if isinstance(answers, Answers) else Answers.from_table(answers)


def check_order(answers: Any, **tables: Any) -> None:
    """Refuse pandas tables whose index names the items in another order: their rows are taken as they come."""
    items = answers.items.tolist() if isinstance(answers, Answers) else []
    for name, table in tables.items():
        index = table.index.tolist() if hasattr(table, "iloc") else items
        if index != items and set(index) == set(items):
            raise InputError(
                f"{name}: expected rows in the order of answers.items, got a table whose index names them in another; "
                f"pass {name}.loc[answers.items]"
            )


def _column(values: Any, name: str) -> NDArray[Any]:
    """One column of names or integers; answers may be missing, items and annotators not."""
    out = checks.array(values, name)
    if out.ndim != 1:
        raise InputError(f"{name}: expected a column of names or integers, got shape {out.shape}")
    if name == "answer":
        _check_kind(out, name)
        return out
    gaps = absent(out)
    if gaps.any():
        raise InputError(
            f"{name}: expected a value in every row, got a missing one (NaN or None) at row {int(gaps.argmax())}; "
            "leave out rows without an answer"
        )
    if out.dtype.kind == "O":
        kinds = {type(v).__name__ for v in out}
        out = out.astype(np.int64) if kinds <= {"int"} else out.astype(str) if kinds <= {"str"} else out
    if out.dtype.kind not in "iuUS":
        raise InputError(f"{name}: expected names or integers, got dtype {out.dtype}")
    return out


def _check_kind(values: NDArray[Any], name: str) -> None:
    """Refuse answers that are neither names nor whole numbers >= 0."""
    flat = values.reshape(-1)
    if flat.dtype.kind in "US" and all(text.lstrip("-").isdecimal() for text in set(flat.tolist())) and "-1" in flat:
        raise InputError(f'{name}: expected integers, got them as text, where "-1" is a class; use .astype(int)')
    present = flat[~absent(flat, no_answer=True)]
    if present.dtype.kind == "u" or present.dtype.kind == "i":
        check_codes(values, name, "for no answer")
    numbers = present if present.dtype.kind in "iuf" else np.array([v for v in present if is_index(v)], dtype=object)
    if not len(numbers):
        return
    if present.dtype.kind == "f" and (present != np.floor(present)).any():
        raise InputError(f"{name}: expected integers >= 0, or -1 for no answer, or names, got dtype {values.dtype}")
    if min(numbers) < 0:
        where = np.argwhere(values == min(numbers))[0]
        raise InputError(
            f"{name}: expected integers >= 0, or -1 for no answer, got {int(min(numbers))} at row {int(where[0])}"
        )
    if max(numbers) >= MOST_CODES:
        raise InputError(
            f"{name}: expected classes 0, 1, 2, ... below {MOST_CODES}, got {int(max(numbers))}; pass names (text) if "
            "these are identifiers"
        )


def _answers(present: NDArray[Any], name: str = "answer") -> tuple[bool, NDArray[Any], NDArray[np.int64]]:
    """Whether answers are names, the classes in order, and the class of each answer."""
    if present.dtype.kind in "iu" or all(is_index(v) for v in present.tolist()):
        codes = present.astype(np.int64)
        return False, np.arange(int(codes.max()) + 1), codes
    found = distinct(present, name)
    check_spelling(found, name)
    index = {key(v): i for i, v in enumerate(found)}
    if present.dtype.kind == "O":
        return True, names_array(found), np.array([index[key(v)] for v in present], dtype=np.int64)
    values, inverse = np.unique(present, return_inverse=True)
    place = np.array([index[key(v)] for v in values], dtype=np.int64)
    return True, names_array(found), place[inverse.reshape(-1)]


def _codes(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The distinct values in order, and the place of each value among them."""
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low <= 4 * len(values):  # no sorting: numbers that lie close together are counted
            shifted = np.subtract(values, low, dtype=np.int64)
            present = np.bincount(shifted, minlength=high - low + 1) > 0
            place = shifted if present.all() else (np.cumsum(present) - 1)[shifted]
            return np.flatnonzero(present) + low, place
    return np.unique(values, return_inverse=True)


def true_classes(true: Any, answers: Answers) -> NDArray[np.int64]:
    """The known class of each item, -1 where it is unknown: from one per item, one per answer, or {item: class}."""
    n, N = len(answers.items), len(answers)
    out = np.full(n, MISSING, dtype=np.int64)
    if true is None:
        return out
    if isinstance(true, Mapping):
        place = {name: i for i, name in enumerate(answers.items.tolist())}
        for name, z in true.items():
            if name not in place:
                raise InputError(f"true: expected items that have answers, got {name!r}")
            out[place[name]] = _class_of(z, answers)
        return out
    values = checks.array(true, "true")
    if values.ndim != 1 or len(values) not in (n, N):
        raise InputError(
            f"true: expected a class for each of the {n} items (or {N} answers), -1 where unknown, "
            f"got shape {values.shape}"
        )
    codes = _known(values, answers)
    if n == N and (np.diff(answers.item) < 0).any():
        raise InputError(
            f"true: expected {{item: class}} where each of {n} items has one answer and they are not in order, "
            "got a column, which may follow the items or the answers"
        )
    if len(codes) == n:
        return codes
    known = codes >= 0
    out[answers.item[known]] = codes[known]
    wrong = np.flatnonzero(known & (out[answers.item] != codes))
    if len(wrong):
        item = answers.items[answers.item[wrong[0]]]
        a, b = codes[wrong[0]], out[answers.item[wrong[0]]]
        raise InputError(f"true: expected one class for each item, got both {a} and {b} for item {item}")
    return out


def _known(values: NDArray[Any], answers: Answers) -> NDArray[np.int64]:
    """Known classes by name or number, as answers have them; -1 where none is known."""
    gaps = absent(values, no_answer=True)
    out = np.full(len(values), MISSING, dtype=np.int64)
    if values.dtype.kind in "iu":
        check_codes(values, "true", "where unknown")
    out[~gaps] = [_class_of(v, answers) for v in values[~gaps].tolist()]
    return out


def _class_of(value: Any, answers: Answers) -> int:
    if absent(np.array([value], dtype=object), no_answer=True)[0]:
        return MISSING
    if not answers.named:
        if not is_index(value):
            raise InputError(f"true: expected integers >= 0, or -1 where unknown, as answers are, got {value!r}")
        return checks.integer(int(value), "true", 0)
    place = {key(name): z for z, name in enumerate(answers.classes.tolist())}.get(key(value))
    if place is None:
        names = ", ".join(map(repr, answers.classes[:8].tolist()))
        raise InputError(f"true: expected classes among {names}, got {value!r}")
    return place
