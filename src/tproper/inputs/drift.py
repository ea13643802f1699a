"""What a table has that the training table had not: other units, new categories, other shares."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import FloatArray
from .columns import Columns
from .encoders import MIDDLE, PLACES, Category, Dates, Text

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
        self._spread: FloatArray = np.zeros((0, len(PLACES))) if spread is None else spread
        self._numbers = [_Spread(ends) for ends in self._spread]
        self._levels: dict[str, Counter[str]] = {}
        self._words: dict[str, list[float]] = {}
        self._days = {part.name: _Spread(part.spread) for part in inputs.parts if isinstance(part, Dates)}
        self._gaps: Counter[str] = Counter()
        self._gapless = ~inputs.numbers.gappy & ~np.isnan(inputs.numbers.stand_in)  # elsewhere a gap is refused

    def add_gaps(self, columns: Columns) -> None:
        """Some rows, for `gaps` alone."""
        self.rows += len(columns)
        numbers = self.inputs.numbers
        missing = np.isnan(columns.numbers).sum(axis=0)
        none = {
            name: n for name, n, g in zip(numbers.names, missing.tolist(), numbers.gappy, strict=True) if n and not g
        }
        self._gaps.update(none)
        for part in self.inputs.parts:
            if isinstance(part, Dates) and part.fill is None:
                self._gaps[part.name] += int((columns.others[part.name][0] < 0).sum())

    def add(self, columns: Columns) -> None:
        """Some rows."""
        self.add_gaps(columns)
        for j, seen in enumerate(self._numbers):
            seen.add(columns.numbers[:, j])
        for part in self.inputs.parts:
            column = columns.others[part.name]
            if isinstance(part, Category):
                codes, values = column
                counts = np.bincount(codes[codes >= 0], minlength=len(values)).tolist()
                self._levels.setdefault(part.name, Counter()).update(dict(zip(values, counts, strict=True)))
            elif isinstance(part, Text):
                share, total = part.share_known(column)
                known = self._words.setdefault(part.name, [0.0, 0.0])
                known[0] += 0.0 if math.isnan(share) else share * total
                known[1] += total
            elif isinstance(part, Dates):
                self._days[part.name].add(part.days(column))

    def gaps(self) -> list[str]:
        """Columns of numbers or dates with gaps where training had none."""
        numbers = self.inputs.numbers
        stand_in = {name: f"{x:.4g}" for name, x in zip(numbers.names, numbers.stand_in.tolist(), strict=True)}
        for part in self.inputs.parts:
            if isinstance(part, Dates):
                stand_in[part.name] = str(np.datetime64(math.floor(part.stand_in), "D"))
        return [
            f"{name} has no value in {n:,} of {self.rows:,} rows, which training never saw: the median there, "
            f"{stand_in[name]}, stands in"
            for name, n in self._gaps.items()
            if n
        ]

    def unseen(self) -> list[str]:
        """Columns whose values are of another kind than those of training: gaps, other units, new categories."""
        out = self.gaps()
        for name, seen in zip(self.inputs.numbers.names, self._numbers, strict=False):
            if seen.elsewhere:
                low, high = seen.ends[0], seen.ends[-1]
                out.append(
                    f"{name} is outside of its training range, {low:g} to {high:g}, in "
                    f"{_share(seen.outside, seen.count)} (mean {seen.mean:.4g}): other units?"
                )
        for part in self.inputs.parts:
            if isinstance(part, Category) and part.name in self._levels:
                new = {v: n for v, n in self._levels[part.name].items() if n and v not in part.levels}
                many = sum(new.values())
                expected = self.rows * part.rare / max(part.rare + part.gaps + sum(part.levels.values()), 1)
                if many > expected + max(NEW * self.rows, CHANCE * math.sqrt(expected)):
                    some = max(new, key=lambda v: (new[v], v))
                    out.append(f"{part.name} has new or rare categories ({some!r}) in {_share(many, self.rows)}")
        return out

    def moved(self) -> list[str]:
        """Columns whose values have other shares than in training."""
        if self.rows < FEWEST:
            return []
        out = []
        for name, seen in zip(self.inputs.numbers.names, self._numbers, strict=False):
            if not seen.count and not self._gaps[name]:
                out.append(f"{name} (no value in any row)")
            elif seen.count and not seen.elsewhere and seen.differs:
                middle = seen.ends[MIDDLE]
                out.append(f"{name} (mean {seen.mean:.4g}, median in training {middle:.4g})")
        for part in self.inputs.parts:
            if isinstance(part, Category):
                levels = self._levels.get(part.name, Counter())
                rest = levels.total() - sum(levels[v] for v in part.levels)
                counts = np.array([*(levels[v] for v in part.levels), rest], dtype=np.float64)
                shares = np.array([*part.levels.values(), part.rare], dtype=np.float64)
                if _differs(counts, shares / max(shares.sum(), 1.0)):
                    out.append(f"{part.name} (other shares of its categories)")
            elif isinstance(part, Text):
                known, total = self._words.get(part.name, [0.0, 0.0])
                if total >= FEWEST and known / total < UNKNOWN * part.known:
                    out.append(
                        f"{part.name} ({known / total:.0%} of its words are known, {part.known:.0%} in training)"
                    )
            elif isinstance(part, Dates) and (self._days[part.name].elsewhere or self._days[part.name].differs):
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


class _Spread:
    """Where the values of a column fall among the deciles of training."""

    def __init__(self, ends: FloatArray) -> None:
        self.ends, self.outside, self.count, self.sum = ends, 0, 0, 0.0
        self.inside = np.zeros(len(ends) - 1)

    def add(self, values: FloatArray) -> None:
        known = values[~np.isnan(values)]
        self.count += len(known)
        self.sum += float(known.sum())
        self.outside += int(((known < self.ends[0]) | (known > self.ends[-1])).sum())
        self.inside += np.bincount(self._cell(known), minlength=len(self.inside))

    def _cell(self, values: FloatArray) -> Any:
        return np.searchsorted(self.ends[1:-1], values, side="left")

    @property
    def mean(self) -> float:
        return self.sum / self.count

    @property
    def elsewhere(self) -> bool:
        """Whether most values are outside of the range of training."""
        return self.outside > MOST * self.count

    @property
    def differs(self) -> bool:
        """A value that many rows share ends several parts, and falls into the first of them: so does its share."""
        shares = np.bincount(self._cell(self.ends[1:]), minlength=len(self.inside)) / len(self.inside)
        return _differs(self.inside, shares)


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
