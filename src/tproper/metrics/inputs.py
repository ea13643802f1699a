"""What the public functions of `metrics` accept: labels, predictions, probabilities and weights, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import FloatArray, Labels, checks
from ..errors import InputError
from ..transitions import (
    LabelSpace,
    SoftLabels,
    Transition,
    columns_in_order,
    is_index,
    is_soft,
    sorted_names,
    space_for,
)


def predictions_of(value: Any, K: int, n: int, name: str = "predictions", space: LabelSpace | None = None) -> Tensor:
    """Predicted classes (n,), checked: by name where classes have names, else by number."""
    array = checks.array(value, name)
    if space is not None and array.ndim == 1 and (space.classes is not None or array.dtype.kind in "bOUS"):
        out = torch.from_numpy(_by_name(array, name, space))
        if len(out) != n:
            raise InputError(f"{name}: expected one predicted class for each of the {n} labels, got {len(out)}")
        return out
    if array.ndim != 1:
        hint = "; pass probabilities.argmax(axis=1)" if array.ndim == 2 else ""
        raise InputError(f"{name}: expected predicted classes of shape ({n},), got shape {array.shape}{hint}")
    if array.dtype.kind == "f" and np.array_equal(array, np.floor(array)):  # NaN is not equal to itself
        array = array.astype(np.int64)
    out = checks.index_labels(array, K, name)
    if len(out) != n:
        raise InputError(f"{name}: expected one predicted class for each of the {n} labels, got {len(out)}")
    return out


def _by_name(array: NDArray[Any], name: str, space: LabelSpace) -> NDArray[np.int64]:
    """Classes by their names; numbers that are none are those of columns, which nobody says the order of."""
    numbers = array.dtype.kind in "iuf" and not any(map(is_index, space.class_names))
    if numbers and len(array) and space.found:
        array = array.astype(np.int64) if array.dtype.kind == "f" and not np.isnan(array).any() else array
        return checks.index_labels(array, len(space.class_names), name).numpy()
    if numbers and len(array):
        raise InputError(
            f"{name}: expected classes among {', '.join(map(repr, space.class_names[:8]))}, as the transition names "
            f"them, got numbers; pass names: np.array({sorted_names(space.class_names[:8])})[{name}] where columns are "
            "in sorted order"
        )
    out = space.known_classes(array, argument=name)
    if (out < 0).any():
        raise InputError(f"{name}: expected a class in every row, got a missing one at row {int((out < 0).argmax())}")
    return out


def probabilities_of(
    value: Any, K: int, n: int, name: str = "probabilities", space: LabelSpace | None = None
) -> Tensor:
    """Class probabilities (n, K), checked to sum to one; the columns of a frame are taken by name."""
    if space is not None:
        value = columns_in_order(value, space, name)
    array = checks.array(value, name)
    if array.ndim != 2 or array.shape != (n, K):
        raise InputError(f"{name}: expected shape ({n}, {K}), labels x classes, got {array.shape}")
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name}: expected numbers, got dtype {array.dtype}")
    # rounding of a softmax in the caller's precision: 1e-6 in float64, 3e-4 in float32, .09 in bfloat16
    half = isinstance(value, Tensor) and value.dtype == torch.bfloat16
    eps = torch.finfo(torch.bfloat16).eps if half else np.finfo(array.dtype).eps if array.dtype.kind == "f" else 0.0
    tol = max(1e-6, math.sqrt(eps))
    q = array.astype(np.float64)
    checks.entries(q, np.isfinite(q), name, "finite numbers")
    checks.entries(q, q >= 0, name, "numbers >= 0")
    sums = q.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > tol:
        raise InputError(
            f"{name}: expected rows that sum to 1, got {sums[worst]:.9g} in row {worst}; "
            "pass class probabilities, such as loss.probabilities(scores), not scores"
        )
    return torch.as_tensor(q)


def weights_of(value: Any, n: int) -> FloatArray | None:
    """Example weights (n,), checked, or None."""
    if value is None:
        return None
    given = checks.array(value, "sample_weight")
    try:
        w = given.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"sample_weight: expected {n} numbers, got {checks.short(value)}") from None
    good = np.isfinite(w) & (w >= 0)
    if w.shape != (n,):
        got = f"shape {w.shape}"
    elif not good.all():
        got = f"{w[~good][0]:g} at row {good.argmin()}"
    elif not w.any():
        got = "zeros only"
    else:
        return w
    raise InputError(f"sample_weight: expected {n} finite numbers >= 0, some of them positive, got {got}")


@dataclass(frozen=True)
class ReadLabels:
    """Labels that were read: encoded, in the order of T's own rows and columns."""

    space: LabelSpace
    labels: Tensor  # where `missing` they mean nothing
    missing: NDArray[np.bool_]

    @property
    def bare(self) -> Transition:
        """T without names: what encoded labels go on with."""
        return self.space.transition.named(None)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def given(self) -> NDArray[np.int64] | None:
        """The rows that have a label; None where all do."""
        if not self.missing.any():
            return None
        if self.missing.all():
            raise InputError(f"labels: expected at least one row with a label, got none of {len(self)}")
        return np.flatnonzero(~self.missing)


def width_of(probabilities: ArrayLike | Tensor, argument: str = "probabilities") -> int | None:
    """How many columns there are, where there are columns."""
    shape = checks.array(probabilities, argument).shape
    return shape[1] if len(shape) == 2 else None


def read_labels(transition: Transition, labels: Labels, argument: str = "labels") -> ReadLabels:
    """Weak labels of n examples as people have them, on the CPU: names or rows of T, masks, answers; and gaps."""
    space = space_for(labels, transition, argument)
    y, missing = space.read(labels, argument)
    if isinstance(labels, SoftLabels) and y.ndim != 1 + len(transition.share_shape):
        raise InputError(f"{argument}: expected shares of one row for each example, got shape {tuple(y.shape)}")
    return ReadLabels(space, y.cpu().double() if is_soft(y) else y.cpu(), missing)


def encoded(transition: Transition, labels: Labels) -> Tensor:
    """Weak labels of rows that all have one, encoded, on the CPU."""
    read = read_labels(transition, labels)
    if read.missing.any():
        raise InputError(
            f"labels: expected a label in every row, got a missing one at row {int(read.missing.argmax())}"
        )
    return read.labels
