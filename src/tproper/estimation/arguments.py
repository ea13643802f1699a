"""Features and seeds as callers give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._core import Labels, checks
from ..errors import InputError
from ..transitions import Transition

Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None

LARGEST_FEATURE = 1e150
MISSING = -1  # a class or an answer that is not known
FROM_FLOATS = "pandas reads integers beside empty cells as floats: use .fillna(-1).astype(int), where -1 means none"


def features(X: Any, n: int, rows: str, sparse: bool = False) -> Any:
    """X as a float64 matrix (n, d), checked; a scipy matrix stays sparse where `sparse` allows one."""
    from scipy.sparse import issparse

    if sparse and issparse(X):
        out = X.tocsr().astype(np.float64)
        values = out.data
    else:
        given = checks.array(X, "X")
        try:
            out = values = given.astype(np.float64, copy=False)
        except (TypeError, ValueError):
            raise InputError(f"X: expected a matrix of numbers (n, d), got {checks.short(X)}") from None
    if out.ndim != 2 or out.shape[0] != n or out.shape[1] == 0:
        raise InputError(f"X: expected one row of features for each of the {n} {rows}, got shape {out.shape}")
    if not np.isfinite(values).all():
        raise InputError("X: expected finite features, got NaN or infinity")
    if values.size and np.abs(values).max() > LARGEST_FEATURE:
        raise InputError(f"X: expected features below 1e150, whose squares are finite, got {np.abs(values).max():g}")
    return out


def check_codes(values: NDArray[Any], name: str, none: str) -> None:
    """Refuse integers that are neither classes nor -1, which stands `none`."""
    low = int(values.min()) if values.size else 0
    if low < MISSING:
        where = np.argwhere(values == low)[0]
        raise InputError(f"{name}: expected integers >= 0, or -1 {none}, got {low} at row {int(where[0])}")
    if values.dtype.kind == "u" and values.size and values.max() == np.iinfo(values.dtype).max:
        raise InputError(
            f"{name}: expected classes, got {values.max()} in {values.dtype}, which is what -1 becomes there; "
            "use a signed type, as .astype(int) before -1 is put in"
        )


def generator(random_state: Seed) -> np.random.Generator:
    """A generator from a seed, a generator or a RandomState; from seed 0 where none is given."""
    if random_state is None or isinstance(random_state, (int, np.integer)):
        return np.random.default_rng(0 if random_state is None else checks.integer(random_state, "random_state", 0))
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    raise InputError(f"random_state: expected an integer, a Generator or None, got {checks.short(random_state)}")


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
