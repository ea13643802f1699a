"""Whether a table holds rows that a model was trained on: their scores would be too good, and should say so.

A model keeps the marks of some of its training rows, 64 bits of each row's features from which no feature can be read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray

KEPT = 64  # rows whose mark a model keeps
FEWEST = 8  # with fewer, or where few rows are unique, nothing is kept: chance would look like overlap
SHARE = 0.1  # of the marks that are kept: more matches than that are no coincidence


def row_marks(X: FloatArray) -> NDArray[np.uint64]:
    """64 bits for each row of features (n, d), the same for the same numbers."""
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)  # -0.0 is 0.0
    out = np.full(len(bits), 0x9E3779B97F4A7C15, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            out = (out ^ column) * np.uint64(0xBF58476D1CE4E5B9)
            out ^= out >> np.uint64(31)
    return out


def kept_marks(X: FloatArray) -> list[str]:
    """The marks of training rows spread over the table, each of a row that is there once."""
    marks = row_marks(X)
    once, counts = np.unique(marks, return_counts=True)
    unique = np.flatnonzero(np.isin(marks, once[counts == 1]))
    if len(unique) < max(FEWEST, len(X) / 2):
        return []
    chosen = unique[np.linspace(0, len(unique) - 1, min(KEPT, len(unique))).round().astype(np.int64)]
    return [f"{mark:016x}" for mark in marks[chosen].tolist()]


class Overlap:
    """Counts which of a model's training rows turn up in a table."""

    def __init__(self, kept: Sequence[str]) -> None:
        self.kept = np.array(sorted({int(mark, 16) for mark in kept}), dtype=np.uint64)
        self.seen = np.zeros(len(self.kept), dtype=bool)

    def add(self, X: FloatArray) -> None:
        """Some rows of the table."""
        if len(self.kept):
            self.seen |= np.isin(self.kept, row_marks(X))

    def warning(self) -> str | None:
        """A sentence where training rows are among the table's."""
        matches, kept = int(self.seen.sum()), len(self.kept)
        if not kept or matches < SHARE * kept:
            return None
        return (
            f"this table holds rows that the model was trained on ({matches} of {kept} that were looked for): scores "
            "on them are too good; evaluate on other rows, or look at the scores that `train` printed, each by a model "
            "that had not seen the row"
        )
