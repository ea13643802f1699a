"""How a row of a table becomes the numbers that a model is given: fitted with the model, and saved with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, checks, finite_number
from ..errors import InputError
from .frames import as_numbers, take_columns


class CellError(InputError):
    """A cell that a model cannot take: `at` says where it stands, by whatever name its row has."""

    def __init__(self, column: str, fact: str, advice: str, row: int, name: object = None) -> None:
        where = row + 1 if name is None else name
        super().__init__(f"column {column!r}: {fact.format(row=where)}; {advice}", row=row, column=column)
        self._parts = column, fact, advice, row

    def at(self, name: object) -> CellError:
        """The same, with another name for the row."""
        return CellError(*self._parts, name)


class Inputs:
    """The columns of a table, in order, and the scale at which a model is given each: ``(x - centre) / scale``."""

    def __init__(self, names: Sequence[str], centre: FloatArray, scale: FloatArray) -> None:
        self.names = list(names)
        self.centre, self.scale = np.asarray(centre, dtype=np.float64), np.asarray(scale, dtype=np.float64)

    @classmethod
    def plain(cls, names: Sequence[str]) -> Inputs:
        """Numbers as they are."""
        return cls(names, np.zeros(len(names)), np.ones(len(names)))

    @property
    def width(self) -> int:
        """How many numbers the model is given for a row."""
        return len(self.names)

    def raw(self, X: Any) -> FloatArray:
        """The columns of a frame by their names, in order (n, d); an array's as they stand."""
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == len(self.names) and X.dtype.kind in "biuf":
            return X.astype(np.float64, copy=False)
        columns = take_columns(X, self.names)
        return np.stack([as_numbers(c, name) for c, name in zip(columns, self.names, strict=True)], axis=1)

    def encode(self, X: Any, kind: Any = np.float64) -> FloatArray:
        """The model's features (n, width) of a frame, taken by name, or of an array in the order of training.

        A number that would not be finite as `kind` is refused.
        """
        values = self.raw(X)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            out = self.scaled(values)
            taken = np.isfinite(out.astype(kind, copy=False))
        if not taken.all():
            i, j = np.argwhere(~taken)[0].tolist()
            given, name = values[i, j], self.names[j]
            if not math.isfinite(given):
                got = "no value" if math.isnan(given) else f"{given:g}"
                raise CellError(name, f"expected finite numbers, got {got} at row {{row}}", "drop or fill them", i)
            fact = f"expected numbers like those the model was trained on, got {given:g} at row {{row}}, "
            raise CellError(name, f"{fact}which is too large", "correct the row, or leave it out", i)
        return out

    def scaled(self, values: NDArray[Any]) -> FloatArray:
        """The model's features of numbers as they stand in a table (n, d)."""
        out: FloatArray = (values - self.centre) / self.scale
        return out

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"columns": self.names, "centre": self.centre.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_dict(cls, data: Any) -> Inputs:
        """What `to_dict` gave; a file may hold anything."""
        if not isinstance(data, Mapping):
            raise InputError(f"inputs: expected an object, got {checks.short(data)}")
        names: Any = data.get("columns")
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
            raise InputError(f"inputs: expected columns of different names, got {checks.short(names)}")
        for name, low in (("centre", -math.inf), ("scale", 0.0)):
            value: Any = data.get(name)
            right = isinstance(value, list) and len(value) == len(names)
            if not right or not all(finite_number(x) and x > low for x in value):
                rule = f"{len(names)} finite numbers{' > 0' if low == 0 else ''}"
                raise InputError(f"inputs: expected {name} of {rule}, got {checks.short(value)}")
        return cls(names, np.array(data["centre"]), np.array(data["scale"]))
