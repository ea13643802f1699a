"""Numbers that a float cannot hold are refused, never rounded in silence."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = Context(prec=80)  # as many as a decimal column can have, and more
EXACT = 1 << 53  # beyond it a float skips whole numbers


def first_inexact(column: pa.Array) -> tuple[int, str] | None:
    """The first number that no float holds (whole beyond 2^53, or with too many decimals), with its position."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = pa.types
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kinds.is_decimal(column.type):
        return _first_inexact_decimal(column)
    if kinds.is_string(column.type) or kinds.is_large_string(column.type):
        long = pc.fill_null(pc.match_substring_regex(column, r"^\s*[+-]?[0-9]{16,}\s*$"), False)
        rows = np.flatnonzero(long.to_numpy(zero_copy_only=False))
    elif kinds.is_integer(column.type) and column.type.bit_width == 64:
        whole = column.fill_null(0)
        low, high = pa.scalar(-EXACT).cast(pa.int64()), pa.scalar(EXACT).cast(column.type)
        outside = pc.greater(whole, high)
        if kinds.is_signed_integer(column.type):
            outside = pc.or_(outside, pc.less(whole, low))
        rows = np.flatnonzero(outside.to_numpy(zero_copy_only=False))
    else:
        return None
    for row in rows.tolist():
        value = int(column[row].as_py())
        if int(float(value)) != value:
            return row, str(value)
    return None


def _first_inexact_decimal(column: pa.Array) -> tuple[int, str] | None:
    """A float holds a decimal that can be read off it again: 0.1, but not 0.1234567890123456789."""
    import pyarrow.compute as pc

    if column.type.precision <= 15:  # any number of 15 digits can
        return None
    values = column.unique().to_pylist()  # in the order in which they appear
    lost = next((v for v in values if v is not None and Decimal(repr(float(v))) != v), None)
    return None if lost is None else (int(pc.index(column, lost).as_py()), f"{lost.normalize(_DIGITS):f}")
