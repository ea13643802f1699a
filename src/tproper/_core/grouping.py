"""Folds that keep rows together: those of one person, item or document are never on both sides."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .checks import absent
from .checks import array as as_array

Split = tuple[NDArray[np.int64], NDArray[np.int64]]  # rows to fit, rows to score


def group_codes(groups: Any, n: int) -> NDArray[np.int64] | None:
    """The group of each row as a number; None where rows are their own."""
    if groups is None:
        return None
    array = as_array(groups, "groups")
    if array.shape != (n,):
        raise InputError(f"groups: expected one group for each of the {n} rows, got shape {array.shape}")
    if array.dtype.kind in "fMO":
        missing = np.array([absent(v) for v in array]) if array.dtype.kind == "O" else np.isnan(array)
        if missing.any():
            raise InputError(f"groups: expected a group for every row, got none at row {int(missing.argmax())}")
    if array.dtype.kind == "O":
        array = np.array([str(v) for v in array])
    return _numbered(array, ", got one: nothing could be held out")


def compact(groups: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    """Groups of some rows, numbered anew; one alone is refused, since nothing could be held out of it."""
    return None if groups is None else _numbered(groups, " among the rows to fit, got one")


def _numbered(groups: NDArray[Any], complaint: str) -> NDArray[np.int64]:
    codes = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    if codes.max(initial=0) < 1:
        raise InputError(f"groups: expected at least two different groups{complaint}")
    return codes


def random_parts(
    n: int, parts: int, rng: np.random.Generator, groups: NDArray[np.int64] | None = None
) -> list[NDArray[np.int64]]:
    """Rows in `parts` random parts of about one size, each sorted; whole groups each (and no more parts than groups).

    Groups go, the largest first, to the part that has the fewest rows.
    """
    if groups is None:
        return [np.sort(part) for part in np.array_split(rng.permutation(n), parts)]
    sizes = np.bincount(groups)
    order = rng.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    heap = [(0, i) for i in range(min(parts, len(sizes)))]
    home = np.empty(len(sizes), dtype=np.int64)
    for g in order.tolist():
        rows, i = heap[0]
        home[g] = i
        heapq.heapreplace(heap, (rows + int(sizes[g]), i))
    place = home[groups]
    return [np.flatnonzero(place == i) for i in range(len(heap))]


def random_folds(n: int, parts: int, rng: np.random.Generator, groups: NDArray[np.int64] | None = None) -> list[Split]:
    """Each part once as the rows to score, the others as those to fit."""
    every = random_parts(n, parts, rng, groups)
    return [(np.sort(np.concatenate([p for p in every if p is not test])), test) for test in every]


def fold_numbers(
    n: int, parts: int, rng: np.random.Generator, groups: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The fold of each row, 0 .. parts - 1; whole groups each, of which there must be as many as folds."""
    if groups is None:
        return np.asarray(rng.permutation(np.arange(n) % parts))
    count = int(groups.max()) + 1
    if count < parts:
        raise InputError(f"groups: expected at least {parts} different groups, one for each fold, got {count}")
    out = np.empty(n, dtype=np.int64)
    for f, rows in enumerate(random_parts(n, parts, rng, groups)):
        out[rows] = f
    return out


def held_out_rows(n: int, share: float, rng: np.random.Generator, groups: NDArray[np.int64] | None = None) -> Split:
    """Rows to fit, and about a `share` of all held out of them, by whole groups; at least one group stays to fit."""
    if groups is None:
        order = rng.permutation(n)
        held = round(share * n)
        return np.sort(order[held:]), np.sort(order[:held])
    sizes = np.bincount(groups)
    order = rng.permutation(len(sizes))
    taken = np.cumsum(sizes[order])
    count = min(int(np.searchsorted(taken, share * n, side="left")) + 1, len(sizes) - 1) if share > 0 else 0
    held_out = np.isin(groups, order[:count])
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
