"""What the columns of a table are: numbers, categories, texts or dates; by their values, or as somebody says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..data import TRUTH, numbers_among, short
from ..errors import InputError
from .columns import Columns, Texts
from .encoders import ORDERS, seconds_of, words

KINDS = ("number", "category", "text", "date")
MOSTLY = 0.5  # of a column's values are numbers: the others are slips, and no category
REPEATED = 0.5  # of the rows: a column with more different values than that does not name levels
LONG = 5.0  # words in the mean value of a text, although values may repeat
LEFT_OUT = "one value throughout, or another in nearly every row"
FEWEST_ROWS = 20  # from which on values that never repeat look like names


def kind_of(name: str, column: Texts) -> str | None:
    """What a column of text is; None for one that names each row, or is the same in all.

    Dates, where all values are; text, where values have five words or more, or hardly repeat and have two or more;
    else a category, if values repeat.
    """
    codes, values = column
    used = [values[c] for c in np.unique(codes[codes >= 0]).tolist()]
    filled = int((codes >= 0).sum())
    if len(used) + (filled < len(codes)) < 2:
        return None
    if used and date_order(name, used) is not None:
        return "date"
    mean = float(np.mean([len(words(v)) for v in used])) if used else 0.0
    repeats = len(used) <= REPEATED * filled
    if mean >= LONG or (mean >= 2 and not repeats):
        return "text"
    return "category" if repeats or filled < FEWEST_ROWS else None


def date_order(name: str, used: Sequence[str]) -> str | None:
    """How the dates of a column are written; None where some value is no date."""
    fitting = [order for order in ORDERS if all(seconds_of(v, order) is not None for v in used)]
    if len(fitting) > 1:
        raise InputError(
            f"column {name!r}: expected dates of which day and month can be told apart, got {used[0]!r} and others "
            "like it; write them as 2024-01-31, or leave the column out with --ignore"
        )
    return fitting[0] if fitting else None


def slips(column: Texts) -> str | None:
    """The first text of a column that is mostly numbers, or holds numbers beside true and false; None in any other."""
    codes, values = column
    number, truth = numbers_among(values), np.array([v in TRUTH for v in values], dtype=bool)
    filled = codes[codes >= 0]
    share = float(number[filled].mean()) if len(filled) else 0.0
    if share in (0.0, 1.0) or (share <= MOSTLY and not (number | truth)[filled].all()):
        return None
    return values[filled[int((~number[filled]).argmax())]]


def in_words(columns: Mapping[str, str], widths: Mapping[str, int], gaps: int, left_out: Sequence[str]) -> str:
    """``text: 2 columns, 4,096 terms each; category: 3; numbers: 9, gaps in 2``."""
    parts = []
    of = {kind: [n for n, k in columns.items() if k == kind] for kind in KINDS}
    if of["text"]:
        sizes = [widths[name] for name in of["text"]]
        terms = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
        each = " each" if len(sizes) > 1 else ""
        parts.append(f"text: {len(sizes)} column{'s' * (len(sizes) > 1)}, {terms} terms{each}")
    parts += [f"{kind}: {len(of[kind])}" for kind in ("category", "date") if of[kind]]
    if of["number"]:
        parts.append(f"numbers: {len(of['number'])}" + (f", gaps in {gaps}" if gaps else ""))
    if left_out:
        parts.append(f"left out ({LEFT_OUT}): {short(list(left_out))}")
    return "; ".join(parts)


def inferred(columns: Columns, asked: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The kind of each column, as was said or by its values; and those that are left out: they tell nothing."""
    empty: list[bool] = np.asarray(np.isnan(columns.numbers).all(axis=0)).tolist()
    kinds = {name: "number" for name, e in zip(columns.numeric, empty, strict=True) if not e or name in asked}
    for name, column in columns.others.items():
        kind = asked.get(name) or kind_of(name, column)
        if kind is not None:
            kinds[name] = kind
    return kinds, [name for name in (*columns.numeric, *columns.others) if name not in kinds]
