"""Frames of any library seen as columns with names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core import FloatArray
from ..data import arrow, first_text, numbers
from ..errors import InputError


def column_names(X: Any) -> list[str] | None:
    """The names of the columns of a frame (pandas, polars, Arrow, a dict of columns); None where it has none."""
    if isinstance(X, Mapping):
        names = list(X)
    elif hasattr(X, "column_names"):  # Arrow
        names = list(X.column_names)
    elif hasattr(X, "schema") and hasattr(X.schema, "names") and hasattr(X, "num_rows"):  # a batch of Arrow's
        names = list(X.schema.names)
    elif hasattr(X, "columns") and hasattr(X, "__getitem__"):
        names = list(X.columns)
    else:
        return None
    texts = [str(name) for name in names]
    repeated = next((name for name, times in Counter(texts).items() if times > 1), None)
    if repeated is not None:
        raise InputError(f"X: expected every column name once, got {repeated!r} more than once")
    return texts


def take_columns(X: Any, wanted: list[str]) -> list[Any]:
    """These columns of a frame, by name; of an array, which has no names, all of them in their order."""
    names = column_names(X)
    if names is None:
        array = X if hasattr(X, "shape") and hasattr(X, "dtype") else np.asarray(X)
        if hasattr(array, "detach"):
            array = array.detach().cpu().numpy()
        if array.ndim != 2 or array.shape[1] != len(wanted):
            raise InputError(
                f"X: expected a frame with the columns that the model was trained on, or an array of these "
                f"{len(wanted)} features as they are, in that order, got an array of shape {tuple(array.shape)}"
            )
        return [array[:, j] for j in range(len(wanted))]
    lacking = [name for name in wanted if name not in names]
    if lacking:
        more = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
        raise InputError(
            f"X: expected the {len(wanted)} columns that the model was trained on, got none called {lacking[0]!r}{more}"
        )
    place = {name: i for i, name in enumerate(names)}
    if isinstance(X, Mapping):
        own = list(X)
        return [X[own[place[name]]] for name in wanted]
    if hasattr(X, "iloc"):
        return [X.iloc[:, place[name]] for name in wanted]
    if hasattr(X, "schema") and hasattr(X, "num_rows"):
        return [X.column(place[name]) for name in wanted]
    return [X[name] for name in wanted]


def as_arrow(column: Any) -> Any:
    """A column as one of Arrow's arrays; what is missing in it is null."""
    pa = arrow()
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    if isinstance(column, pa.Array):
        return column
    if hasattr(column, "to_arrow"):  # polars
        return as_arrow(column.to_arrow())
    try:
        if getattr(getattr(column, "dtype", None), "kind", "") == "O" or isinstance(column, list):
            column = [sorted(map(str, v)) if isinstance(v, (set, frozenset)) else v for v in column]  # candidates
        return as_arrow(pa.array(column, from_pandas=True))
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # texts and numbers in one column
        return pa.array([None if _missing(v) else str(v) for v in column], type=pa.string())


def _missing(value: Any) -> bool:
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def as_numbers(column: Any, name: str) -> FloatArray:
    """A column of numbers as float64, NaN where there is none."""
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    if isinstance(kind, str) and kind in tuple("biuf") and not hasattr(column, "to_arrow"):
        try:
            return np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError):  # pandas' own missing value
            pass
    values = as_arrow(column)
    out = numbers(values)
    if out is None:
        row, text = first_text(values)
        raise InputError(
            f"column {name!r}: expected numbers, got {text!r} at row {row + 1}; the model was trained with numbers "
            "there: correct the rows",
            row=row,
            column=name,
        )
    return out
