"""Whether a table holds rows that a model was trained on: their scores would be too good, and should say so.

A model keeps the smallest marks of its training rows, 64 bits of each row's features from which no feature can be read.
Marks are as good as random, so of a table's rows with marks as small as these, as large a share matches as of all its
rows (Broder, 1997): a small part of the training table is recognised, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..inputs import Columns

KEPT = 256  # rows whose mark a model keeps
FEWEST = 8  # with fewer, or where few rows are unique, nothing is kept: chance would look like overlap
SHARE = 0.1  # of the marks that are kept, or of the table's rows: more matches than that are no coincidence
LEAST = 2  # matches


def row_marks(X: Columns) -> NDArray[np.uint64]:
    """64 bits for each row of features, the same for the same numbers and texts."""
    bits = X.bits()
    out = np.full(len(bits), 0x9E3779B97F4A7C15, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            out = (out ^ column) * np.uint64(0xBF58476D1CE4E5B9)
            out ^= out >> np.uint64(31)
    return out


def kept_marks(X: Columns) -> list[str]:
    """The smallest marks of training rows that are there once."""
    once, counts = np.unique(row_marks(X), return_counts=True)
    unique = once[counts == 1]  # sorted
    if len(unique) < max(FEWEST, len(X) / 2):
        return []
    return [f"{mark:016x}" for mark in unique[:KEPT].tolist()]


class Overlap:
    """Counts which of a model's training rows turn up in a table."""

    def __init__(self, kept: Sequence[str]) -> None:
        self.kept = np.array(sorted({int(mark, 16) for mark in kept}), dtype=np.uint64)
        self.seen = np.zeros(len(self.kept), dtype=bool)
        self.small = self.matching = 0  # rows of the table with marks as small as those that are kept

    def add(self, X: Columns) -> None:
        """Some rows of the table."""
        if len(self.kept):
            marks = row_marks(X)
            self.seen |= np.isin(self.kept, marks)
            self.small += int((marks <= self.kept[-1]).sum())
            self.matching += int(np.isin(marks, self.kept).sum())

    def warning(self) -> str | None:
        """A sentence where training rows are among the table's."""
        matches, kept = int(self.seen.sum()), len(self.kept)
        if matches < LEAST or (matches < SHARE * kept and self.matching < SHARE * self.small):
            return None
        return (
            f"this table holds rows that the model was trained on ({matches} of {kept} that were looked for): scores "
            "on them are too good; evaluate on other rows, or look at the scores that `train` printed, each by a model "
            "that had not seen the row"
        )
