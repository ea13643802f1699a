"""Answers of several annotators in long form: one row for each answer."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core import checks
from ..errors import InputError
from .arguments import FROM_FLOATS, MISSING, check_codes

MOST_CELLS = 1 << 28  # of the wide form (n, m)
MOST_CODES = 100_000  # classes given as integers: T has a row and a column for each


class Answers:
    """Who answered what: the rows (item, annotator, answer) of a table.

    Parameters
    ----------
    item, annotator : sequences of N names or integers
    answer : sequence of N names, or integers >= 0
        Integers are classes, 0-based; -1 stands for no answer. Names are sorted.

    Attributes
    ----------
    items, annotators, classes : the different names, in order; results follow this order
    """

    def __init__(self, item: ArrayLike, annotator: ArrayLike, answer: ArrayLike) -> None:
        self.wide = False  # whether a gap is a cell of a table, not a question that was never asked
        columns = {name: _column(v, name) for name, v in (("item", item), ("annotator", annotator), ("answer", answer))}
        lengths = {name: len(c) for name, c in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"answer: expected three columns of one length, got {lengths}")
        values = columns["answer"]
        self.named = values.dtype.kind not in "iu"
        if not self.named and len(values) and int(values.min()) == MISSING:
            columns = {name: c[values != MISSING] for name, c in columns.items()}
            values = columns["answer"]
        if not len(values):
            raise InputError("answer: expected at least one answer, got none")
        self.items, self.item = _codes(columns["item"])
        self.annotators, self.annotator = _codes(columns["annotator"])
        self.classes: NDArray[Any]
        self.answer: NDArray[np.int64]
        if self.named:
            self.classes, self.answer = _codes(values)
        else:
            self.answer = values.astype(np.int64, copy=False)
            self.classes = np.arange(int(self.answer.max()) + 1)

    @classmethod
    def from_table(cls, table: ArrayLike) -> Answers:
        """From answers (n, m), -1 where an annotator gave none. All n items and m annotators are kept."""
        wide = checks.array(table, "answers")
        if wide.ndim != 2 or wide.size == 0:
            raise InputError(f"answers: expected a table (n, m), items x annotators, got shape {wide.shape}")
        if wide.dtype.kind not in "iu":
            gaps = wide.dtype.kind == "O" and not any(isinstance(v, str) for v in wide.flat)
            how = FROM_FLOATS if gaps or wide.dtype.kind == "f" else "for names use tp.Answers(item, annotator, answer)"
            raise InputError(f"answers: expected integers >= 0, or -1 for no answer, got dtype {wide.dtype}; {how}")
        _check_answers(wide, "answers")
        item, annotator = np.nonzero(wide != MISSING)
        if not len(item):
            raise InputError("answers: expected at least one answer, got -1 everywhere")
        out = cls.__new__(cls)
        out.items, out.annotators = np.arange(wide.shape[0]), np.arange(wide.shape[1])
        out.item, out.annotator = item, annotator
        out.answer = wide[item, annotator].astype(np.int64)
        out.classes, out.named, out.wide = np.arange(int(out.answer.max()) + 1), False, True
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


def as_answers(answers: Answers | ArrayLike) -> Answers:
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
    """One column of names or integers, without missing ones."""
    out = checks.array(values, name)
    if out.ndim != 1:
        raise InputError(f"{name}: expected a column of names or integers, got shape {out.shape}")
    if out.dtype.kind == "O":
        gaps = [i for i, v in enumerate(out) if checks.absent(v)]
        if gaps:
            raise InputError(
                f"{name}: expected a value in every row, got a missing one (NaN or None) at row {gaps[0]}; leave out "
                "rows without an answer"
            )
        kinds = {type(v).__name__ for v in out}
        if kinds <= {"int"}:
            out = out.astype(np.int64)
        elif kinds <= {"str"}:
            out = out.astype(str)
    if out.dtype.kind not in "iuUS":
        how = f"; {FROM_FLOATS}" if out.dtype.kind == "f" and name == "answer" else ""
        raise InputError(f"{name}: expected names or integers, got dtype {out.dtype}{how}")
    if name == "answer":
        _check_answers(out, name)
    return out


def _check_answers(values: NDArray[Any], name: str) -> None:
    """Refuse what is not a class: an empty name, "-1" among numbers written as text, numbers that name no class."""
    if values.dtype.kind in "US":
        empty = np.flatnonzero(values == values.dtype.type())
        if len(empty):
            raise InputError(f"answer: expected a name in every row, got an empty one at row {empty[0]}")
        names = set(np.unique(values).tolist())
        if "-1" in names and all(n.lstrip("-").isdigit() for n in names):
            raise InputError('answer: expected integers, got them as text, where "-1" is a class; use .astype(int)')
        return
    check_codes(values, name, "for no answer")
    if values.size and int(values.max()) >= MOST_CODES:
        raise InputError(
            f"answer: expected classes 0, 1, 2, ... below {MOST_CODES}, got {int(values.max())}; pass names (text) if "
            "these are identifiers"
        )


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
    if values.dtype.kind in "iu":
        check_codes(values, "true", "where unknown")
        codes = values.astype(np.int64)
    elif answers.named and values.dtype.kind in "OU":
        codes = np.array([_class_of(v, answers) for v in values], dtype=np.int64)
    else:
        how = f"; {FROM_FLOATS}" if values.dtype.kind == "f" else ""
        raise InputError(f"true: expected integers >= 0, or -1 where unknown, got dtype {values.dtype}{how}")
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


def _class_of(value: Any, answers: Answers) -> int:
    if checks.absent(value) or (isinstance(value, (int, np.integer)) and value == MISSING):
        return MISSING
    if answers.named and isinstance(value, str):
        place = np.flatnonzero(answers.classes == value)
        if not len(place):
            names = ", ".join(map(repr, answers.classes[:8].tolist()))
            raise InputError(f"true: expected classes among {names}, got {value!r}")
        return int(place[0])
    return checks.integer(value, "true", 0)
