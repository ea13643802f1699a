"""What models say of rows that they have not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, Split

Fold = Callable[[int, NDArray[np.int64], NDArray[np.int64]], FloatArray]


def cross_fit(
    fit: Fold,
    splits: Sequence[Split],
    n: int,
    axis: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> FloatArray:
    """The values of n rows, each by a model of the others: ``fit(f, train, test)`` gives those of the rows `test`.

    f is the number of the split. Rows are the `axis` of the values, 0 or -1; those that no split holds out are NaN.
    """
    out: FloatArray | None = None
    for f, (train, test) in enumerate(splits):
        part = fit(f, train, test)
        if out is None:
            out = np.full((n, *part.shape[1:]) if axis == 0 else (*part.shape[:-1], n), np.nan)
        out[test if axis == 0 else (..., test)] = part
        progress((f + 1) / len(splits))
    assert out is not None, "a split at least"
    return out


def splits_of(fold: NDArray[np.int64]) -> list[Split]:
    """The splits of rows whose folds have these numbers, from 0."""
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(int(fold.max()) + 1)]
