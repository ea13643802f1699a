"""Rows of feature columns as they stand in a table, before anything is encoded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray
from ..data import joined_texts

Texts = tuple[NDArray[np.int64], list[str]]  # each row's place among distinct values, -1 where it has none; these


class Columns:
    """Columns of numbers as one table (n, d), NaN where there is none, and all others as their distinct texts."""

    def __init__(self, numbers: FloatArray, numeric: Sequence[str], others: Mapping[str, Texts]) -> None:
        self.numbers, self.numeric, self.others = numbers, list(numeric), dict(others)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Any) -> Columns:
        """Some of the rows; all of them are no copy."""
        if isinstance(rows, np.ndarray) and rows.dtype.kind == "b" and rows.all():
            return self
        others = {name: (codes[rows], values) for name, (codes, values) in self.others.items()}
        return Columns(self.numbers[rows], self.numeric, others)

    def only(self, names: Sequence[str]) -> Columns:
        """Some of the columns."""
        wanted = [name in names for name in self.numeric]
        numbers = self.numbers if all(wanted) else self.numbers[:, wanted]
        others = {name: column for name, column in self.others.items() if name in names}
        return Columns(numbers, [name for name in self.numeric if name in names], others)

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        """Blocks of rows, one below the other."""
        if len(parts) == 1:
            return parts[0]
        others = {name: joined_texts([p.others[name] for p in parts]) for name in parts[0].others}
        return cls(np.concatenate([p.numbers for p in parts]), parts[0].numeric, others)

    def bits(self) -> NDArray[np.uint64]:
        """64 bits for every cell (n, columns): the number's own, or a hash of the text."""
        numbers = np.ascontiguousarray(self.numbers + 0.0).view(np.uint64)  # -0.0 is 0.0
        more = []
        for codes, values in self.others.values():
            hashes = [int.from_bytes(hashlib.blake2b(v.encode(), digest_size=8).digest(), "little") for v in values]
            more.append(np.array([*hashes, 0], dtype=np.uint64)[codes])
        return np.column_stack([numbers, *more]) if more else numbers

    def cell(self, row: int, place: int) -> tuple[str, str]:
        """The column at a place of `bits`, and what stands there."""
        if place < len(self.numeric):
            return self.numeric[place], f"{self.numbers[row, place]:g}"
        name = list(self.others)[place - len(self.numeric)]
        codes, values = self.others[name]
        return name, repr(values[codes[row]]) if codes[row] >= 0 else "nothing"
