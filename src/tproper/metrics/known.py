"""Labels beside true classes of some rows, as callers give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import Labels, checks
from ..errors import InputError
from ..transitions import Transition

MISSING = -1  # a label or a class that is not known


@dataclass
class Known:
    """What is known of rows: labels as columns of codes (-1: none), their class (-1: unknown), the classes' names."""

    columns: NDArray[np.int64]  # (n, m)
    true: NDArray[np.int64]  # (n,)
    classes: list[Any]

    @property
    def names(self) -> list[Any]:
        """Of the classes, for print."""
        return list(self.classes)


def known_classes(labels: Labels, true: Any, transition: Transition | None) -> Known:
    """Labels and true classes, read by T, or, without one, by the names that both have in common."""
    if transition is None:
        return _by_name(labels, true)
    encoded = transition.encode(labels).reshape(-1, *transition.label_shape).cpu().numpy()
    columns = encoded.reshape(len(encoded), -1).astype(np.int64)
    K = transition.num_classes
    codes = _integers(_cells(true, "true", len(columns)))
    if codes is None:
        raise InputError(f"true: expected integers in [0, {K}), -1 or None where unknown, got {checks.short(true)}")
    if codes.max(initial=-1) >= K:
        raise InputError(f"true: expected classes in [0, {K}), got {codes.max()}")
    return Known(columns, codes, list(range(K)))


def _by_name(labels: Labels, true: Any) -> Known:
    """Integers are numbers of classes, anything else their names; -1, None and NaN are none."""
    given = labels.to_numpy() if hasattr(labels, "to_numpy") else labels
    table = np.asarray(checks.array(given, "labels"), dtype=object)
    if table.ndim not in (1, 2) or not table.size:
        raise InputError(f"labels: expected (n,) labels or (n, m) answers, got shape {table.shape}")
    if table.ndim == 2 and isinstance(table.flat[0], (bool, np.bool_)):
        raise InputError("labels: expected labels by name or number without a transition, got booleans; give T")
    table = table.reshape(len(table), -1)
    cells = _cells(true, "true", len(table))
    y, z = _integers(table), _integers(cells)
    if y is not None and z is not None:
        K = int(max(y.max(), z.max(initial=-1))) + 1
        return Known(y, z, list(range(max(K, 2))))
    said = [str(v) for v in table.ravel() if not _none(v)]
    seen = [str(v) for v in cells if not _none(v)]
    names = sorted({*said, *seen})
    code = {name: i for i, name in enumerate(names)}
    columns = np.array([MISSING if _none(v) else code[str(v)] for v in table.ravel()]).reshape(table.shape)
    return Known(columns, np.array([MISSING if _none(v) else code[str(v)] for v in cells]), names)


def _cells(true: Any, name: str, n: int) -> NDArray[Any]:
    given = true.to_numpy() if hasattr(true, "to_numpy") else true
    cells = np.asarray(checks.array(given, name), dtype=object)
    if cells.shape != (n,):
        raise InputError(f"{name}: expected one class per row, shape ({n},), got {cells.shape}")
    return cells


def _none(value: Any) -> bool:
    return checks.absent(value) or (isinstance(value, str) and value == "") or _is(value, MISSING)


def _is(value: Any, number: int) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and value == number


def _integers(values: NDArray[Any]) -> NDArray[np.int64] | None:
    """Integers, -1 where there is none; None where some are names."""
    flat = [MISSING if _none(v) else v for v in values.ravel()]
    for v in flat:
        if isinstance(v, (bool, np.bool_)) or not isinstance(v, (int, float, np.number)) or v != int(v):
            return None
        if v < MISSING:
            raise InputError(f"true: expected integers >= 0, or -1 where unknown, got {int(v)}")
    return np.array([int(v) for v in flat], dtype=np.int64).reshape(values.shape)
