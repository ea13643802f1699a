"""What weak labels say: the kinds of targets that a reconstruction can give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .._core import FloatArray

MOST_KINDS = 1 << 14  # labels that are told apart one by one where classes differ


@dataclass(frozen=True, eq=False)
class Kinds:
    """The weak labels of a reconstruction, sorted into kinds of one target each, up to a renaming of like classes.

    What depends on a target alone, and treats like classes alike, is worked out once for each kind.
    """

    names: Sequence[str]
    targets: Callable[[slice], FloatArray]  # of some kinds (L, K)
    spread: Callable[[FloatArray], FloatArray]  # one value for each kind -> by row of T, or by kind where rows are many
    index: Callable[[Tensor], Tensor] | None  # the kind of each encoded label; None where labels mix targets of kinds
    gaps: slice | None = None  # the kinds that labels with gaps mix, down to an empty one, where these may be passed
    example: bool = False  # each kind has labels of other targets too, and only the likeliest to be unbounded is here

    def __len__(self) -> int:
        return len(self.names)

    def all(self) -> FloatArray:
        """The targets of all kinds (L, K)."""
        return self.targets(slice(0, len(self)))


def listed(columns: FloatArray, names: Sequence[str], index: Callable[[Tensor], Tensor]) -> Kinds:
    """Every label a kind of its own, by its target (M, K)."""
    columns = np.array(columns)  # torch takes no array that may not be written
    return Kinds(names, lambda rows: columns[rows], lambda values: values, index)


def like_classes(alike: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """A class of each value, and which value each class has."""
    _, first, inverse = np.unique(alike, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)
