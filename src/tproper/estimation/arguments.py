"""Features and seeds as callers give them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._core import checks
from ..errors import InputError

Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None

LARGEST_FEATURE = 1e150
MISSING = -1  # a class or an answer that is not known
FROM_FLOATS = "pandas reads integers beside empty cells as floats: use .fillna(-1).astype(int), where -1 means none"


def feature_matrix(X: Any, n: int, rows: str, sparse: bool = False) -> Any:
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
