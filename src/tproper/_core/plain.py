"""Values as JSON knows them. JSON has no infinities and no NaN; this is the one way to write and to read them.

Infinities become the texts "inf" and "-inf", which ``float`` reads back; NaN becomes null.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def plain(value: Any, most: int | None = None) -> Any:
    """The value with lists for tuples and arrays, and with no float that JSON lacks.

    Of arrays with more than `most` entries (default: of none) only the count, the least and the greatest are given.
    """
    if isinstance(value, np.ndarray):
        if most is not None and value.size > most:
            return {"count": value.size, "least": plain(value.min()), "greatest": plain(value.max())}
        if value.dtype.kind in "biuf":
            return _listed(value)
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(float(value))
    if isinstance(value, Mapping):
        return {k: plain(v, most) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v, most) for v in value]
    return value


def _listed(numbers: NDArray[Any]) -> Any:
    """An array of numbers as `plain` gives it, not one by one."""
    if numbers.dtype.kind != "f" or np.isfinite(numbers).all():
        return numbers.tolist()
    out = numbers.astype(object)
    out[np.isnan(numbers)] = None
    out[np.isposinf(numbers)], out[np.isneginf(numbers)] = "inf", "-inf"
    return out.tolist()


def json_text(value: Any, **options: Any) -> str:
    """JSON that every reader of JSON takes; `options` are those of ``json.dumps``."""
    return json.dumps(plain(value), allow_nan=False, **options)


def read_json(path: str | Path) -> Any:
    """What a file of JSON says, with or without the mark of its encoding that some editors begin with."""
    return json.loads(Path(path).read_text(encoding="utf-8-sig"))


def as_read(value: Any) -> Any:
    """The value as it comes back from JSON: tuples as lists, infinities as texts."""
    return json.loads(json_text(value))


def json_hash(value: Any) -> str:
    """SHA-256 of a value of JSON, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def finite_number(value: Any) -> bool:
    """Whether a value read from JSON is a number that fits a float64: no boolean, and no integer of 400 digits."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def count_text(number: int) -> str:
    """A count for people: numbers of candidate sets have thousands of digits, which Python refuses to write out."""
    return str(number) if number < 10**9 else f"about 10^{math.log10(number):.0f}"
