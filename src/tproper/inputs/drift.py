"""What a table has that the training table had not: other units, new categories, other shares."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import FloatArray
from .columns import Columns
from .encoders import PLACES, Category, Dates, Text

if TYPE_CHECKING:
    from .inputs import Inputs

FEWEST = 20  # rows from which shares are compared
MOVED = 0.25  # total variation distance, and ...
CHANCE = 3.0  # ... so many times what chance brings about, from which a column's shares differ
MOST = 0.5  # of the rows
NEW = 0.02  # share of rows with new categories from which it is said
UNKNOWN = 0.5  # a text with less than this of the words that training knew has other words
NAMED = 4


class Drift:
    """Counts what stands in a table, block by block; `sentences` says where that is not what a model was trained on."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.rows = inputs, 0
        spread = inputs.numbers.spread
        d = 0 if spread is None else len(spread)
        self._inside = np.zeros((d, len(PLACES) - 1))
        self._outside, self._gaps = np.zeros(d), np.zeros(d)
        self._sums, self._numbers = np.zeros(d), np.zeros(d)
        self._levels: dict[str, Counter[str]] = {}
        self._words: dict[str, list[float]] = {}
        self._days: dict[str, list[Any]] = {}

    def add(self, columns: Columns) -> None:
        """Some rows."""
        self.rows += len(columns)
        spread = self.inputs.numbers.spread
        if spread is not None:
            for j, ends in enumerate(spread):
                values = columns.numbers[:, j]
                known = values[~np.isnan(values)]
                self._gaps[j] += len(values) - len(known)
                self._outside[j] += int(((known < ends[0]) | (known > ends[-1])).sum())
                self._inside[j] += _deciles(known, ends)
                self._sums[j] += known.sum()
                self._numbers[j] += len(known)
        for part in self.inputs.parts:
            column = columns.others[part.name]
            if isinstance(part, Category):
                codes, values = column
                counts = np.bincount(codes[codes >= 0], minlength=len(values)).tolist()
                into = self._levels.setdefault(part.name, Counter())
                for value, n in zip(values, counts, strict=True):
                    into[value] += n
            elif isinstance(part, Text):
                share, total = part.share_known(column)
                known = self._words.setdefault(part.name, [0.0, 0.0])
                known[0] += 0.0 if math.isnan(share) else share * total
                known[1] += total
            elif isinstance(part, Dates):
                days = part.days(column)
                known_days = days[~np.isnan(days)]
                state = self._days.setdefault(part.name, [np.zeros(len(PLACES) - 1), 0])
                state[0] = state[0] + _deciles(known_days, part.spread)
                state[1] += int(((known_days < part.spread[0]) | (known_days > part.spread[-1])).sum())

    def unseen(self) -> list[str]:
        """Columns whose values are of another kind than those of training: other units, new categories."""
        out = []
        spread = self.inputs.numbers.spread
        if spread is not None:
            for j, name in enumerate(self.inputs.numbers.names):
                n, low, high = self._numbers[j], spread[j, 0], spread[j, -1]
                if n and self._outside[j] > MOST * n:
                    out.append(
                        f"{name} is outside of its training range, {low:g} to {high:g}, in {_share(self._outside[j], n)}"
                        f" (mean {self._sums[j] / n:.4g}): other units?"
                    )
        for part in self.inputs.parts:
            if isinstance(part, Category) and part.name in self._levels:
                levels = self._levels[part.name]
                new = {v: n for v, n in levels.items() if n and v not in part.levels and v not in part.rare}
                many = sum(new.values())
                if many > NEW * self.rows:
                    some = max(new, key=lambda v: (new[v], v))
                    out.append(f"{part.name} has new categories ({some!r}) in {_share(many, self.rows)}")
        return out

    def moved(self) -> list[str]:
        """Columns whose values have other shares than in training."""
        if self.rows < FEWEST:
            return []
        out = []
        spread = self.inputs.numbers.spread
        if spread is not None:
            for j, name in enumerate(self.inputs.numbers.names):
                if self._numbers[j] and not self._outside[j] > MOST * self._numbers[j]:
                    reference = _reference(spread[j])
                    if _differs(self._inside[j], reference):
                        middle = spread[j, len(PLACES) // 2]
                        out.append(
                            f"{name} (mean {self._sums[j] / self._numbers[j]:.4g}, median in training {middle:.4g})"
                        )
                elif not self._numbers[j]:
                    out.append(f"{name} (no value in any row)")
        for part in self.inputs.parts:
            if isinstance(part, Category):
                seen = self._levels.get(part.name, Counter())
                known = part.levels | part.rare
                total = sum(known.values())
                if total and _differs(
                    np.array([*(seen[v] for v in known), 0.0]), np.array([*(n / total for n in known.values()), 0.0])
                ):
                    out.append(f"{part.name} (other shares of its categories)")
            elif isinstance(part, Text):
                known, all_words = self._words.get(part.name, [0.0, 0.0])
                if all_words >= FEWEST and known / all_words < UNKNOWN * part.known:
                    share = known / all_words
                    out.append(f"{part.name} ({share:.0%} of its words are known, {part.known:.0%} in training)")
            elif isinstance(part, Dates) and part.name in self._days:
                inside, outside = self._days[part.name]
                n = inside.sum()
                if n and (outside > MOST * n or _differs(inside, _reference(part.spread))):
                    out.append(f"{part.name} (other dates)")
        return out

    def sentences(self) -> list[str]:
        """What is not as it was in training, a sentence each; the last is one line on all other columns."""
        moved = self.moved()
        if not moved:
            return self.unseen()
        named = ", ".join(moved[:NAMED]) + (f" and {len(moved) - NAMED} more" if len(moved) > NAMED else "")
        columns = len(self.inputs.names)
        return [
            *self.unseen(),
            f"drift: {len(moved)} of {columns} columns {'is' if len(moved) == 1 else 'are'} not spread as in the "
            f"training table: {named}",
        ]


def _deciles(values: FloatArray, ends: FloatArray) -> FloatArray:
    """How many values stand in each of the ten parts; equal ends are one part."""
    cell = np.clip(np.searchsorted(ends[1:-1], values, side="left"), 0, len(ends) - 2)
    return np.bincount(cell, minlength=len(ends) - 1).astype(np.float64)


def _reference(ends: FloatArray) -> FloatArray:
    """The shares that training had in these parts: those of equal ends are counted where their values fall."""
    tenth = 1.0 / (len(ends) - 1)
    out = np.full(len(ends) - 1, tenth)
    _, first = np.unique(ends[1:], return_index=True)
    if len(first) < len(out):  # a value that many rows share ends several parts, and falls into the first of them
        out = np.zeros(len(ends) - 1)
        np.add.at(out, np.searchsorted(ends[1:-1], ends[1:], side="left"), tenth)
    return out


def _differs(counts: FloatArray, shares: FloatArray) -> bool:
    """Whether counts are further from shares than `MOVED`, and than chance brings about."""
    n = counts.sum()
    if n < FEWEST:
        return False
    distance = 0.5 * float(np.abs(counts / n - shares).sum())
    chance = 0.5 * float(np.sqrt(2 / np.pi * shares * (1 - shares) / n).sum())
    return distance > MOVED and distance > CHANCE * chance


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%} of {int(whole):,} rows"
