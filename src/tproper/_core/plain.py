"""Values as JSON knows them. JSON has no infinities and no NaN; this is the one way to write them.

Infinities become the texts "inf" and "-inf", which ``float`` reads back; NaN becomes null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """The value with lists for tuples and arrays, and with no float that JSON lacks."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(float(value))
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def json_text(value: Any, **options: Any) -> str:
    """JSON that every reader of JSON takes; `options` are those of ``json.dumps``."""
    return json.dumps(plain(value), allow_nan=False, **options)


def finite_number(value: Any) -> bool:
    """Whether JSON held a number that a float64 holds; true and false are none, and its integers have any size."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def count_text(number: int) -> str:
    """A count for people: numbers of candidate sets have thousands of digits, which Python refuses to write out."""
    return str(number) if number < 10**9 else f"about 10^{math.log10(number):.0f}"
