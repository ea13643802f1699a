"""Records with arrays in them, compared by what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np


def _key(value: Any) -> Any:
    """Something hashable that is equal for equal contents; NaN equals NaN, and 0 equals -0."""
    if isinstance(value, np.ndarray):
        array = value + 0 if value.dtype.kind == "f" else value
        return value.shape, value.dtype.str, tuple(array.tolist()) if value.dtype == object else array.tobytes()
    if isinstance(value, float):
        return "nan" if value != value else value
    if isinstance(value, Mapping):
        return tuple(sorted((str(k), _key(v)) for k, v in value.items()))
    return tuple(map(_key, value)) if isinstance(value, (list, tuple)) else value


class ByValue:
    """For dataclasses (``eq=False``): equality and hash by their fields, arrays among them."""

    def _content(self) -> tuple[Any, ...]:
        return tuple(_key(getattr(self, f.name)) for f in fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return self._content() == other._content() if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content())
