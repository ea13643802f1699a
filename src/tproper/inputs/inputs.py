"""How a row of a table becomes the numbers that a model is given: fitted with the model, and saved with it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import FloatArray
from ..data import arrow_texts
from ..errors import InputError
from .columns import Columns
from .drift import Drift
from .encoders import ENCODERS, Dates, Encoder, Numbers, column_list
from .frames import as_arrow, as_numbers, column_names, take_columns
from .kinds import date_order, in_words

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

WIDE = 256  # numbers from texts and categories, from which on a model is given a sparse matrix


class CellError(InputError):
    """A cell that a model cannot take: `at` says where it stands, by whatever name its row has."""

    def __init__(self, column: str, fact: str, advice: str, row: int, name: object = None) -> None:
        where = row + 1 if name is None else name
        super().__init__(f"column {column!r}: {fact.format(row=where)}; {advice}", row=row, column=column)
        self._parts = column, fact, advice, row

    def at(self, name: object) -> CellError:
        """The same, with another name for the row."""
        return CellError(*self._parts, name)


class UnseenWarning(UserWarning):
    """Rows hold what the model was not trained on: new categories, numbers far outside of their range.

    Examples
    --------
    >>> import warnings, numpy as np, tproper as tp
    >>> table = {"x": np.linspace(-1, 1, 100), "verdict": np.repeat(["bad", "good"], 50)}
    >>> model = tp.TableModel.fit(table, "symmetric:0.1", label="verdict")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     p = model.predict_proba({"x": [1000.0]})
    >>> [w.category.__name__ for w in caught]
    ['UnseenWarning']
    """


class Inputs:
    """The columns of a table, and the encoder of each: numbers together, and one for every other column."""

    def __init__(self, names: Sequence[str], numbers: Numbers, parts: Sequence[Encoder] = ()) -> None:
        self.names, self.numbers, self.parts = list(names), numbers, list(parts)
        self.left_out: list[str] = []  # columns that name rows, at training

    @classmethod
    def of_numbers(cls, names: Sequence[str], centre: FloatArray, scale: FloatArray) -> Inputs:
        """Columns of numbers without gaps, ``(x - centre) / scale``."""
        return cls(names, Numbers(names, centre, scale))

    @classmethod
    def plain(cls, names: Sequence[str]) -> Inputs:
        """Numbers as they are."""
        return cls.of_numbers(names, np.zeros(len(names)), np.ones(len(names)))

    @classmethod
    def fit(
        cls, columns: Columns, kinds: Mapping[str, str], standardize: bool = True, whole: Columns | None = None
    ) -> Inputs:
        """What rows of training tell, none of it about labels; `whole` holds all rows, some of which may have gaps."""
        whole = columns if whole is None else whole
        numeric = [name for name, kind in kinds.items() if kind == "number"]
        gappy = np.asarray(np.isnan(whole.numbers).any(axis=0))
        numbers = Numbers.fit(numeric, columns.numbers, standardize, gappy)
        parts: list[Encoder] = []
        for name, kind in kinds.items():
            if kind == "date":
                used = [whole.others[name][1][c] for c in np.unique(whole.others[name][0]).tolist() if c >= 0]
                order = date_order(name, used)
                if order is None:
                    raise InputError(f"column {name!r}: expected dates, got {used[0]!r}")
                has_gaps = bool((whole.others[name][0] < 0).any())
                parts.append(Dates.fit(name, columns.others[name], order, has_gaps))
            elif kind != "number":
                parts.append(ENCODERS[kind].fit(name, columns.others[name]))
        return cls(list(kinds), numbers, parts)

    @property
    def kinds(self) -> dict[str, str]:
        """What each column is."""
        of = {part.name: part.kind for part in self.parts}
        return {name: of.get(name, "number") for name in self.names}

    @property
    def features(self) -> list[str]:
        """The names of the numbers that the model is given, in order."""
        return [*self.numbers.features, *(name for part in self.parts for name in part.features)]

    @property
    def width(self) -> int:
        """How many numbers the model is given for a row."""
        return len(self.numbers.features) + sum(part.width for part in self.parts)

    @property
    def sparse(self) -> bool:
        """Whether `encode` gives a sparse matrix."""
        return sum(part.width for part in self.parts) >= WIDE

    def __str__(self) -> str:
        widths = {part.name: part.width for part in self.parts}
        return in_words(self.kinds, widths, int(self.numbers.gappy.sum()), self.left_out)

    def columns(self, X: Any) -> Columns:
        """The columns of a frame by their names; an array's, which must all be numbers, as they stand."""
        if isinstance(X, Columns):
            return X
        plain = isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == len(self.names) and X.dtype.kind in "biuf"
        if plain and not self.parts:
            return Columns(X.astype(np.float64, copy=False), self.names, {})
        if self.parts and column_names(X) is None:
            raise InputError(
                "X: expected a frame with the columns that the model was trained on, since some hold text or dates, "
                f"got {type(X).__name__}, which has no names"
            )
        taken = dict(zip(self.names, take_columns(X, self.names), strict=True))
        numeric = self.numbers.names
        arrays = [as_numbers(taken[name], name) for name in numeric]
        others = {part.name: arrow_texts(as_arrow(taken[part.name]), part.name) for part in self.parts}
        rows = len(arrays[0]) if arrays else len(next(iter(others.values()))[0])
        return Columns(np.stack(arrays, axis=1) if arrays else np.empty((rows, 0)), numeric, others)

    def encode(self, X: Any, kind: Any = np.float64) -> FloatArray | csr_matrix:
        """The model's features (n, width) of a frame, taken by name, or of an array in the order of training.

        A number that would not be finite as `kind` is refused, and a frame that is not like the training table is told
        of by an `UnseenWarning`.
        """
        columns = self.columns(X)
        if columns is not X:
            self._tell(columns)
        numbers = self._numbers(columns, kind)
        parts = [part.encode(columns.others[part.name]) for part in self.parts]
        if not parts:
            return numbers
        if self.sparse:
            from scipy.sparse import csr_matrix, hstack

            return hstack([csr_matrix(numbers), *parts], format="csr")
        return np.hstack([numbers, *(part.toarray() for part in parts)])

    def _numbers(self, columns: Columns, kind: Any) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            out = self.numbers.encode(columns.numbers)
            taken = np.isfinite(out.astype(kind, copy=False))
        if not taken.all():
            d = len(self.numbers.names)
            i, j = np.argwhere(~taken[:, :d])[0].tolist()
            given, name = columns.numbers[i, j], self.numbers.names[j]
            if not math.isfinite(given):
                got = "no value" if math.isnan(given) else f"{given:g}"
                raise CellError(name, f"expected finite numbers, got {got} at row {{row}}", "drop or fill them", i)
            fact = f"expected numbers like those the model was trained on, got {given:g} at row {{row}}, "
            raise CellError(name, f"{fact}which is too large", "correct the row, or leave it out", i)
        return out

    def _tell(self, columns: Columns) -> None:
        drift = Drift(self)
        drift.add(columns)
        for sentence in drift.unseen():
            warnings.warn(sentence, UnseenWarning, stacklevel=6)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        if not self.parts:
            return self.numbers.to_dict()
        of = {part.name: part.to_dict() for part in self.parts}
        return {"columns": self.names, "numbers": self.numbers.to_dict(), "others": list(of.values())}

    @property
    def simple(self) -> bool:
        """Whether all columns are numbers without gaps: models of older versions knew nothing else."""
        return not self.parts and not self.numbers.gappy.any()

    @classmethod
    def from_dict(cls, data: Any) -> Inputs:
        """What `to_dict` gave; a file may hold anything."""
        names = column_list(data)
        if "others" not in data:
            return cls(names, Numbers.from_dict(data))
        numbers, others, parts = Numbers.from_dict(data.get("numbers")), data["others"], []
        if not isinstance(others, list) or not all(isinstance(part, Mapping) for part in others):
            raise InputError("inputs: expected a list of encoders, got something else")
        for part in others:
            kind, name = part.get("kind"), part.get("name")
            if not isinstance(kind, str) or kind not in ENCODERS or not isinstance(name, str):
                raise InputError(f"inputs: expected encoders of {', '.join(ENCODERS)}, got {kind!r}")
            parts.append(ENCODERS[kind].from_dict(name, part))
        held = [*numbers.names, *(part.name for part in parts)]
        if sorted(held) != sorted(names):
            raise InputError("inputs: expected an encoder for every column and no other, got others")
        return cls(names, numbers, parts)
