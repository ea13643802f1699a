"""Four encoders of columns. What each has learned is plain data, and none looks at labels.

They do what scikit-learn's do (`SimpleImputer` and `StandardScaler`, `OneHotEncoder`, `TfidfVectorizer`), to which
tests hold them; those keep what they have learned in private attributes, which only a pickle restores.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, checks, finite_number
from ..data import ColumnError, Moments
from ..errors import InputError
from .columns import Texts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

RARE = 3  # rows: levels of a category that occur less often share a column
MOST_LEVELS = 256  # columns of a category, that of the rare levels among them
MOST_TERMS = 4096  # words of a column of text
BLOCK = 1 << 16  # rows at a time, where they are many
TWICE = 2  # rows in which a word must stand
WORD = re.compile(r"(?u)\b\w\w+\b")
DAY = 86_400.0
PLACES = np.linspace(0, 1, 11)  # deciles: what is kept of how a column's numbers are spread
MIDDLE = len(PLACES) // 2
MOST_SPREADS = 1000  # columns of numbers of which they are kept


class Encoder(ABC):
    """One column of text turned into numbers."""

    kind = ""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    @abstractmethod
    def features(self) -> list[str]:
        """The names of the numbers."""

    @property
    def width(self) -> int:
        """How many numbers it gives for a row."""
        return len(self.features)

    @abstractmethod
    def encode(self, column: Texts) -> csr_matrix:
        """The numbers of each row (n, width)."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """As plain data."""


class Numbers:
    """Columns of numbers together: gaps filled with the median and told by a column, then ``(x - centre) / scale``.

    Where training had no gap there is no column that tells of one: the median alone stands in, and `Drift` says so.

    Parameters
    ----------
    names : the columns
    centre, scale : (d,)
    fill : (d,) what stands in a gap, NaN for a column that had none in training
    spread : (d, 11) deciles of the training table, or None: what `Drift` compares with
    gaps : (d,) the share of gaps there
    """

    def __init__(
        self,
        names: Sequence[str],
        centre: FloatArray,
        scale: FloatArray,
        fill: FloatArray | None = None,
        spread: FloatArray | None = None,
        gaps: FloatArray | None = None,
    ) -> None:
        self.names = list(names)
        self.centre, self.scale = np.asarray(centre, dtype=np.float64), np.asarray(scale, dtype=np.float64)
        self.fill = np.full(len(self.names), np.nan) if fill is None else np.asarray(fill, dtype=np.float64)
        self.gaps = np.zeros(len(self.names)) if gaps is None else np.asarray(gaps, dtype=np.float64)
        self.spread = spread

    @classmethod
    def fit(
        cls, names: Sequence[str], values: FloatArray, standardize: bool, gappy: NDArray[np.bool_] | None = None
    ) -> Numbers:
        """From rows of training; `gappy` says which columns have gaps, where that is known from more rows."""
        missing = np.isnan(values)
        gappy = np.asarray(missing.any(axis=0) if gappy is None else gappy)
        fill = np.full(len(names), np.nan)
        for j in np.flatnonzero(gappy).tolist():
            known = values[~missing[:, j], j]
            if not len(known):
                raise InputError(f"column {names[j]!r}: expected a number in some row, got none; leave it out")
            fill[j] = np.median(known)
        full = np.where(missing, fill, values) if gappy.any() else values
        if standardize:
            moments = Moments(values.shape[1])
            for i in range(0, len(full), BLOCK):
                moments.add(full[i : i + BLOCK])
            centre, scale = moments.scaling(names)
        else:
            centre, scale = np.zeros(len(names)), np.ones(len(names))
        spread = None
        if len(values) and 0 < len(names) <= MOST_SPREADS:
            spread = np.stack([np.quantile(column, PLACES) for column in full.T])  # one by one: no second table
        return cls(names, centre, scale, fill, spread, missing.mean(axis=0))

    @property
    def gappy(self) -> NDArray[np.bool_]:
        """Which columns had gaps in training."""
        return ~np.isnan(self.fill)

    @property
    def stand_in(self) -> FloatArray:
        """What stands in a gap (d,): the median of training; NaN where nobody kept it, and a gap is refused."""
        return self.fill if self.spread is None else np.where(self.gappy, self.fill, self.spread[:, MIDDLE])

    @property
    def features(self) -> list[str]:
        """The names of the numbers."""
        return [*self.names, *(f"{n}: gap" for n, g in zip(self.names, self.gappy, strict=True) if g)]

    def encode(self, values: FloatArray) -> FloatArray:
        """The numbers of each row (n, width)."""
        gappy, d = self.gappy, len(self.names)
        out: FloatArray = np.empty((len(values), d + int(gappy.sum())))
        known = out[:, :d]
        missing = np.isnan(values)
        if missing.any():
            np.copyto(known, np.where(missing, self.stand_in, values))
            values = known
        out[:, d:] = missing[:, gappy]
        np.subtract(values, self.centre, out=known)
        known /= self.scale
        return out

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        out: dict[str, Any] = {"columns": self.names, "centre": self.centre.tolist(), "scale": self.scale.tolist()}
        if self.gappy.any():
            out["fill"] = [None if math.isnan(x) else x for x in self.fill.tolist()]
            out["gaps"] = self.gaps.tolist()
        return out if self.spread is None else out | {"spread": self.spread.tolist()}

    @classmethod
    def from_dict(cls, data: Any) -> Numbers:
        """What `to_dict` gave; a file may hold anything."""
        names = column_list(data)
        for name, low in (("centre", -math.inf), ("scale", 0.0)):
            _finite(data.get(name), len(names), name, low)
        fill, gaps, spread = data.get("fill"), data.get("gaps"), data.get("spread")
        if (fill is None) != (gaps is None):
            raise InputError("inputs: expected fill and gaps together, got one of them")
        if fill is not None:
            right = isinstance(fill, list) and len(fill) == len(names)
            if not right or not all(x is None or finite_number(x) for x in fill):
                raise InputError(f"inputs: expected fill of {len(names)} numbers or nulls, got {checks.short(fill)}")
            _finite(gaps, len(names), "gaps", -1e-12)
            fill = np.array([np.nan if x is None else x for x in fill], dtype=np.float64)
        if spread is not None:
            if not isinstance(spread, list) or len(spread) != len(names):
                raise InputError(f"inputs: expected spread of {len(names)} columns, got {checks.short(spread)}")
            for row in spread:
                _finite(row, len(PLACES), "spread", -math.inf)
            spread = np.array(spread, dtype=np.float64)
        return cls(names, np.array(data["centre"]), np.array(data["scale"]), fill, spread, gaps)


class Category(Encoder):
    """One column for each level that is frequent, and one for all others together, if training had such.

    That is ``OneHotEncoder(min_frequency=3, max_categories=256, handle_unknown="infrequent_if_exist")``. A gap is a
    level of its own, where training had gaps.
    """

    kind = "category"

    def __init__(self, name: str, levels: Mapping[str, int], gaps: int, rare: int) -> None:
        super().__init__(name)
        # how often each level occurred in training, and rows of rare ones, whose names nobody keeps: for `Drift`
        self.levels, self.gaps, self.rare = dict(levels), gaps, rare

    @classmethod
    def fit(cls, name: str, column: Texts, few: int = RARE, most: int = MOST_LEVELS) -> Category:
        """From rows of training."""
        codes, values = column
        counts = np.bincount(codes[codes >= 0], minlength=len(values))
        seen = sorted((v, int(n)) for v, n in zip(values, counts.tolist(), strict=True) if n)
        gaps = int((codes < 0).sum())
        if len(seen) + bool(gaps) < 2:
            raise InputError(f"column {name!r}: expected different values, got {len(seen)}; leave it out")
        often = [n >= few for _, n in seen]
        room = most - bool(gaps)
        if len(seen) > room:  # the last of `room - 1` in order of frequency, as scikit-learn has it
            for i in np.argsort([n for _, n in seen], kind="stable")[: len(seen) - room + 1].tolist():
                often[i] = False
        frequent = {v: n for (v, n), o in zip(seen, often, strict=True) if o}
        return cls(name, frequent, gaps, sum(n for _, n in seen) - sum(frequent.values()))

    @property
    def features(self) -> list[str]:
        """The names of the numbers."""
        ends = [f"{self.name}: gap"] * bool(self.gaps) + [f"{self.name}: others"] * bool(self.rare)
        return [*(f"{self.name}={v}" for v in self.levels), *ends]

    def encode(self, column: Texts) -> csr_matrix:
        """The numbers of each row (n, width); zeros where a value is new and training had none that were rare."""
        from scipy.sparse import csr_matrix

        codes, values = column
        place = {v: j for j, v in enumerate(self.levels)}
        other = self.width - 1 if self.rare else -1
        gap = len(place) if self.gaps else other
        column_of = np.array([*(place.get(v, other) for v in values), gap], dtype=np.int64)[codes]
        rows = np.flatnonzero(column_of >= 0)
        return csr_matrix((np.ones(len(rows)), (rows, column_of[rows])), shape=(len(codes), self.width))

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": self.kind, "name": self.name, "levels": self.levels, "gaps": self.gaps, "rare": self.rare}

    @classmethod
    def from_dict(cls, name: str, data: Mapping[str, Any]) -> Category:
        """What `to_dict` gave."""
        levels, gaps, rare = data.get("levels"), data.get("gaps"), data.get("rare")
        if not isinstance(levels, dict):
            raise InputError(f"inputs: expected levels of {name!r} with their counts, got {checks.short(levels)}")
        gaps, rare = _count(gaps, name), _count(rare, name)
        return cls(name, {v: _count(n, name) for v, n in sorted(levels.items())}, gaps, rare)


class Text(Encoder):
    """Words weighed by how rare they are, each row scaled to length one; no word, no number.

    That is ``TfidfVectorizer(max_features=4096, min_df=2)``: a word counts ``tf (1 + log((1 + n) / (1 + df)))``.
    """

    kind = "text"

    def __init__(self, name: str, terms: Sequence[str], weights: Sequence[float], known: float) -> None:
        super().__init__(name)
        self.terms, self.weights = list(terms), np.asarray(weights, dtype=np.float64)
        self.known = known  # the share of the training table's words that are among the terms
        self._place = {term: j for j, term in enumerate(self.terms)}

    @classmethod
    def fit(cls, name: str, column: Texts, most: int = MOST_TERMS, least: int = TWICE) -> Text:
        """From rows of training."""
        codes, values = column
        times = np.bincount(codes[codes >= 0], minlength=len(values)).tolist()
        rows, total = Counter[str](), Counter[str]()
        for value, n in zip(values, times, strict=True):
            if n:
                for term, k in Counter(words(value)).items():
                    rows[term] += n
                    total[term] += n * k
        often = sorted(term for term, n in rows.items() if n >= least)
        if not often:
            raise InputError(f"column {name!r}: expected words that stand in {least} rows, got none; leave it out")
        terms = sorted(sorted(often, key=lambda term: (-total[term], term))[:most])
        n = len(codes)
        weights = [math.log((1 + n) / (1 + rows[term])) + 1 for term in terms]
        return cls(name, terms, weights, sum(total[t] for t in terms) / total.total())

    @property
    def features(self) -> list[str]:
        """The names of the numbers."""
        return [f"{self.name}: {term}" for term in self.terms]

    def encode(self, column: Texts) -> csr_matrix:
        """The numbers of each row (n, width)."""
        from scipy.sparse import csr_matrix

        codes, values = column
        used = np.unique(codes[codes >= 0]).tolist()
        counts = [sorted(self._counts(values[c]).items()) for c in used]
        ends = np.cumsum([0, *map(len, counts), 0])  # the last row is that of a gap
        pairs = np.array([pair for c in counts for pair in c], dtype=np.int64).reshape(-1, 2)
        data = pairs[:, 1] * self.weights[pairs[:, 0]]
        length = np.sqrt(np.add.reduceat(np.r_[data**2, 0.0], ends[:-1]) * (np.diff(ends) > 0))
        data /= np.repeat(length, np.diff(ends))
        distinct = csr_matrix((data, pairs[:, 0], ends), shape=(len(used) + 1, self.width))
        place = np.full(len(values) + 1, len(used))
        place[used] = np.arange(len(used))
        return csr_matrix(distinct[place[codes]])

    def _counts(self, value: str) -> Counter[int]:
        return Counter(j for j in map(self._place.get, words(value)) if j is not None)

    def share_known(self, column: Texts) -> tuple[float, int]:
        """The share of a table's words that are among the terms, and how many words it has."""
        codes, values = column
        times = np.bincount(codes[codes >= 0], minlength=len(values)).tolist()
        known = total = 0
        for value, n in zip(values, times, strict=True):
            if n:
                found = words(value)
                total += n * len(found)
                known += n * sum(word in self._place for word in found)
        return (known / total if total else math.nan), total

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        weights = self.weights.tolist()
        return {"kind": self.kind, "name": self.name, "terms": self.terms, "weights": weights, "known": self.known}

    @classmethod
    def from_dict(cls, name: str, data: Mapping[str, Any]) -> Text:
        """What `to_dict` gave."""
        terms = data.get("terms")
        if not isinstance(terms, list) or not all(isinstance(t, str) for t in terms) or len(set(terms)) < len(terms):
            raise InputError(f"inputs: expected different terms of {name!r}, got {checks.short(terms)}")
        _finite(data.get("weights"), len(terms), "weights", 0.0)
        _finite([data.get("known")], 1, "known", -1e-12)
        return cls(name, terms, data["weights"], float(data["known"]))


def words(text: str) -> list[str]:
    """The words of a text: letters and digits, two or more, in lower case."""
    return WORD.findall(text.lower())


class Dates(Encoder):
    """Days since 1970 at unit scale, the time of the year and of the day on a circle, and the day of the week.

    A gap is the median day, with zeros for the rest, and a column of its own where training had gaps.
    """

    kind = "date"

    def __init__(
        self, name: str, order: str, centre: float, scale: float, hours: bool, fill: float | None, spread: FloatArray
    ) -> None:
        super().__init__(name)
        self.order, self.centre, self.scale, self.hours, self.fill = order, centre, scale, hours, fill
        self.spread = spread  # deciles of the days

    @classmethod
    def fit(cls, name: str, column: Texts, order: str, gappy: bool | None = None) -> Dates:
        """From rows of training."""
        seconds = read_dates(name, column, order)
        missing = np.isnan(seconds)
        days = seconds[~missing] / DAY
        if not len(days):
            raise InputError(f"column {name!r}: expected a date in some row, got none; leave it out")
        fill = float(np.median(days)) if (bool(missing.any()) if gappy is None else gappy) else None
        full = days if fill is None else np.r_[days, np.full(int(missing.sum()), fill)]
        hours = bool((days % 1 != 0).any())
        return cls(name, order, float(full.mean()), float(full.std()) or 1.0, hours, fill, np.quantile(days, PLACES))

    @property
    def stand_in(self) -> float:
        """The median day of training, which stands in a gap."""
        return float(self.spread[MIDDLE]) if self.fill is None else self.fill

    @property
    def features(self) -> list[str]:
        """The names of the numbers."""
        parts = ["day", "year sin", "year cos", *WEEKDAYS, *(["day sin", "day cos"] if self.hours else [])]
        return [f"{self.name}: {part}" for part in [*parts, *(["gap"] if self.fill is not None else [])]]

    def days(self, column: Texts) -> FloatArray:
        """Days since 1970, NaN in a gap."""
        return read_dates(self.name, column, self.order) / DAY

    def encode(self, column: Texts) -> csr_matrix:
        """The numbers of each row (n, width)."""
        from scipy.sparse import csr_matrix

        days = self.days(column)
        missing = np.isnan(days)
        full = np.where(missing, self.stand_in, days)
        whole = np.floor(full).astype("datetime64[D]")
        year = 2 * np.pi * ((whole - whole.astype("datetime64[Y]")).astype(np.float64) + full % 1) / 365.25
        weekday = (np.floor(full).astype(np.int64) + 3) % 7  # the first of January 1970 was a Thursday
        parts = [np.sin(year), np.cos(year), *(np.eye(7)[weekday].T)]
        if self.hours:
            parts += [np.sin(2 * np.pi * (full % 1)), np.cos(2 * np.pi * (full % 1))]
        out = np.stack([(full - self.centre) / self.scale, *(np.where(missing, 0.0, p) for p in parts)], axis=1)
        return csr_matrix(out if self.fill is None else np.column_stack([out, missing]))

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        out = {"kind": self.kind, "name": self.name, "order": self.order, "centre": self.centre, "scale": self.scale}
        return out | {"hours": self.hours, "fill": self.fill, "spread": self.spread.tolist()}

    @classmethod
    def from_dict(cls, name: str, data: Mapping[str, Any]) -> Dates:
        """What `to_dict` gave."""
        checks.choice(data.get("order"), "order", ORDERS)
        fill, hours = data.get("fill"), data.get("hours")
        _finite([data.get("centre"), 0.0 if fill is None else fill], 2, "centre and fill", -math.inf)
        _finite([data.get("scale")], 1, "scale", 0.0)
        _finite(data.get("spread"), len(PLACES), "spread", -math.inf)
        if not isinstance(hours, bool):
            raise InputError(f"inputs: expected hours of {name!r} to be true or false, got {checks.short(hours)}")
        return cls(name, data["order"], data["centre"], data["scale"], hours, fill, np.array(data["spread"]))


WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: How dates may be written: 2024-01-31 (with a time or without), and three ways without one.
ORDERS = ("iso", "year/month/day", "day.month.year", "day/month/year", "month/day/year")
_FORMS = {
    "year/month/day": re.compile(r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})"),
    "day.month.year": re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})"),
    "day/month/year": re.compile(r"(?P<day>\d{1,2})/(?P<month>\d{1,2})/(?P<year>\d{4})"),
    "month/day/year": re.compile(r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})"),
}
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")


def seconds_of(text: str, order: str) -> float | None:
    """Seconds since 1970 of a date, in UTC where it has no zone of its own; None for what is no date."""
    try:
        if order == "iso":
            if not _ISO.fullmatch(text):
                return None
            moment = datetime.fromisoformat(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        found = _FORMS[order].fullmatch(text)
        if found is None:
            return None
        day = date(int(found["year"]), int(found["month"]), int(found["day"]))
        return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def read_dates(name: str, column: Texts, order: str) -> FloatArray:
    """Seconds since 1970 of each row, NaN where there is no date; other texts are refused."""
    codes, values = column
    used = np.unique(codes[codes >= 0])
    out = np.full(len(values) + 1, np.nan)
    for c in used.tolist():
        seconds = seconds_of(values[c], order)
        if seconds is None:
            row = int((codes == c).argmax())
            example = {"iso": "2024-01-31"}.get(order, order)
            raise ColumnError(
                f"column {name!r}: expected dates written as {example}, got {checks.cut(values[c], 40)!r}",
                "correct the rows",
                row,
            )
        out[c] = seconds
    result: FloatArray = out[codes]
    return result


ENCODERS: dict[str, Any] = {kind.kind: kind for kind in (Category, Text, Dates)}


def column_list(data: Any) -> list[str]:
    """The names of columns in plain data."""
    if not isinstance(data, Mapping):
        raise InputError(f"inputs: expected an object, got {checks.short(data)}")
    names: Any = data.get("columns")
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
        raise InputError(f"inputs: expected columns of different names, got {checks.short(names)}")
    return names


def _finite(value: Any, size: int, name: str, low: float) -> None:
    right = isinstance(value, list) and len(value) == size
    if not right or not all(finite_number(x) and x > low for x in value):
        rule = f"{size} finite numbers{' > 0' if low == 0 else ''}"
        raise InputError(f"inputs: expected {name} of {rule}, got {checks.short(value)}")


def _count(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"inputs: expected counts of {name!r} as integers >= 0, got {checks.short(value)}")
    return value
