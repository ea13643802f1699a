"""Mean and deviation of columns, from all rows at once or block by block: the same numbers either way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, units
from .columns import ColumnError


class Moments:
    """Count, mean and sum of squared deviations of every column, by the update of Chan, Golub and LeVeque (1983).

    Each block is centred by its own mean first, so nothing cancels however far the values are from zero.
    """

    def __init__(self, width: int) -> None:
        self.rows = 0
        self.mean: FloatArray = np.zeros(width)
        self._square: FloatArray = np.zeros(width)

    def add(self, X: NDArray[Any]) -> None:
        """One block of rows (n, d)."""
        X = X.astype(np.float64, copy=False)
        total = self.rows + len(X)
        with np.errstate(over="ignore", invalid="ignore"):  # refused by `scaling`
            own = X.mean(axis=0)
            gap = own - self.mean
            self._square += ((X - own) ** 2).sum(axis=0) + gap**2 * (self.rows * len(X) / total)
            self.mean += gap * (len(X) / total)
        self.rows = total

    def scaling(self, names: Sequence[str]) -> tuple[FloatArray, FloatArray]:
        """(mean, standard deviation) of every column, to subtract and to divide by; 1 for a constant column."""
        with np.errstate(invalid="ignore"):
            deviation = np.sqrt(self._square / self.rows)
        if not np.isfinite(deviation).all():
            name = names[int((~np.isfinite(deviation)).argmax())]
            raise ColumnError(
                f"column {name!r}: expected numbers of which a standard deviation can be taken, got larger ones",
                "rescale the column, or leave it out of features",
            )
        return self.mean, units(self.mean, deviation)
