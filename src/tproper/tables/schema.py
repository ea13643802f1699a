"""What a trained model must know about its table: which columns, in which order, at which scale, with which names."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import FloatArray, checks
from ..data import ColumnError, Table, arrow_texts, first_inexact, first_text, holds_truth, joined_texts, numbers, short
from ..errors import InputError
from ..inputs import Columns, Inputs, slips
from ..transitions import transition_from_dict
from .labels import LabelCodec
from .options import Names
from .overlap import DIGITS

if TYPE_CHECKING:
    import pyarrow as pa

ALL = "all"  # in --features: every column that has no other role
MOST_NAMED = 8  # columns in a piece of advice
FEWEST_ROWS = 20  # from which on a column can look like an identifier


_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",\r\n][^,\r\n]*)?)\s*(,|$)')  # in quotes, or plain; what follows


def split_names(text: Names, option: str) -> list[str] | None:
    """``A,B,"C, D"``: names separated by commas, in quotes where they contain one, or spaces around them; or a list."""
    if text is None:
        return None
    if not isinstance(text, str):
        listed = [str(name) for name in text]
        if not listed or len(set(listed)) != len(listed):
            raise InputError(f"{option}: expected different names, got {checks.short(listed)}")
        return listed
    names: list[str] = []
    nameless, position, more = False, 0, ","
    while more:
        match = _NAME.match(text, position)
        if match is None:  # line breaks, quotes that do not close
            names = []
            break
        quoted, plain, more = match.groups()
        names.append((plain or "").strip() if quoted is None else quoted.replace('""', '"'))
        nameless |= quoted is None and not names[-1]  # "" in quotes is a column without a name: pandas' index
        position = match.end()
    if not names or nameless or len(set(names)) != len(names):
        raise InputError(f"{option}: expected different names separated by commas, got {text!r}")
    return names


def listed_classes(text: Names) -> list[str] | None:
    """``--classes``, without spaces around the names: labels are read without them."""
    names = split_names(text, "--classes")
    return None if names is None else [name.strip() for name in names]


def joined_names(names: Sequence[str]) -> str:
    """What `split_names` takes apart, as an option is written in a shell."""

    def quoted(name: str) -> str:
        plain = name and name == name.strip() and not re.search(r'^"|[,\r\n]', name)
        return name if plain else '"' + name.replace('"', '""') + '"'

    text = ",".join(map(quoted, names))
    return text if re.fullmatch(r"[\w.,:/+-]+", text) else shlex.quote(text)


def feature_columns(
    table: Table, taken: Iterable[str | None], features: Sequence[str] | None, ignore: Sequence[str] | None
) -> list[str]:
    """The feature columns: those asked for, or all that are neither taken nor ignored.

    The one word ``all`` asks for all of them too, where no column has that name.
    """
    if features is not None and list(features) == [ALL] and ALL not in table.names:
        features = None
    if features is not None and ignore is not None:
        raise InputError("--features: expected either --features or --ignore, got both")
    used = {name for name in taken if name is not None}
    if features is not None:
        chosen = [table.require(name, "--features") for name in features]
        both = [name for name in chosen if name in used]
        if both:
            raise InputError(f"--features: expected columns other than the label's, got {both[0]!r}")
        return chosen
    dropped = {table.require(name, "--ignore") for name in ignore or ()}
    chosen = [name for name in table.names if name not in used | dropped]
    if not chosen:
        raise InputError(f"{table.path}: expected at least one feature column, got none beside the label")
    return chosen


class FeatureReader:
    """Feature columns of one block after the other, checked: numbers as float64, everything else as texts.

    What a column is `kinds` says: "number", or one of those that are read as text; a column that it does not name is
    of numbers as long as its values are. Infinite values, and missing ones in the columns `whole`, are counted to the
    end of the file, so that `finish` can say how many rows have them; until then `clean` tells whether there is any
    point in using the rows.
    """

    def __init__(
        self, table: Table, columns: Sequence[str], kinds: Mapping[str, str] | None = None, whole: Iterable[str] = ()
    ) -> None:
        self.table, self.columns = table, list(columns)
        self.kinds = dict(kinds or {})
        self.trained = False  # a model takes these columns, and none can be left out
        self.streamed = False
        self.rows = 0
        self._whole = set(whole)
        self._text = [name for name in self.columns if self.kinds.get(name, "number") != "number"]
        self._again: set[str] = set()  # columns that began as numbers, and are not
        self._truth: dict[str, bool] = {}  # columns of text: whether they write numbers as true and false
        self._bad: dict[str, list[int]] = {}  # column -> [rows without a value, infinite rows, first row]

    @classmethod
    def of_numbers(cls, table: Table, columns: Sequence[str]) -> FeatureReader:
        """Numbers alone, without gaps."""
        out = cls(table, columns, dict.fromkeys(columns, "number"), columns)
        out.streamed = True
        return out

    @classmethod
    def of(cls, table: Table, inputs: Inputs) -> FeatureReader:
        """The columns that a model was trained on."""
        numbers = inputs.numbers
        gapless = [name for name, x in zip(numbers.names, numbers.stand_in.tolist(), strict=True) if math.isnan(x)]
        out = cls(table, inputs.names, inputs.kinds, gapless)
        out.trained = True
        return out

    @property
    def clean(self) -> bool:
        """No number so far that cannot be used."""
        return not self._bad

    def read(self, batch: pa.RecordBatch) -> Columns:
        """One block."""
        found: dict[str, FloatArray] = {}
        for name in self.columns:
            if name in self._text or name in self._again:
                continue
            values = numbers(batch.column(name))
            if values is None:
                self._refuse_text(batch, name)
                if self.rows:
                    self._again.add(name)
                else:
                    self._text.append(name)
                continue
            self._check_exact(batch.column(name), name)
            self._check_truth(batch.column(name), name)
            found[name] = values
        X = np.empty((batch.num_rows, len(found)))
        for j, values in enumerate(found.values()):
            X[:, j] = values
        self._count_bad(X, list(found))
        texts = {name: arrow_texts(batch.column(name), name) for name in self.columns if name in self._text}
        self.rows += batch.num_rows
        return Columns(X, list(found), texts)

    def all(self, blocks: Sequence[Columns]) -> Columns:
        """The blocks together; columns that turned out to be text are read once more."""
        blocks = [block.only([*(n for n in block.numeric if n not in self._again), *block.others]) for block in blocks]
        out = Columns.joined(blocks)
        if self._again:
            names = [name for name in self.columns if name in self._again]
            parts: dict[str, list[Any]] = {name: [] for name in names}
            for batch in self.table.batches(names):
                for name in names:
                    parts[name].append(arrow_texts(batch.column(name), name))
            out.others |= {name: joined_texts(columns) for name, columns in parts.items()}
        for name in [*out.others]:
            text = None if name in self.kinds else slips(out.others[name])
            if text is not None:
                row, _ = next(
                    (i, v) for i, v in enumerate(out.others[name][0]) if v >= 0 and out.others[name][1][v] == text
                )
                raise InputError(
                    f"column {name!r}: expected numbers, got the text {checks.cut(text, 40)!r} at row {row + 1} "
                    "among numbers; correct the rows, leave the column out with --ignore "
                    f"{joined_names([name])}, or take every value for a name with --category {joined_names([name])}"
                )
        in_order = {name: out.others[name] for name in self.columns if name in out.others}
        return Columns(out.numbers, out.numeric, in_order)

    def _refuse_text(self, batch: pa.RecordBatch, name: str) -> None:
        """Text where there must be numbers."""
        if self.kinds.get(name) != "number":
            return
        row, text = first_text(batch.column(name))
        alike = [n for n in self.columns if self.kinds.get(n) == "number" and numbers(batch.column(n)) is None]
        more = f" ({len(alike)} columns hold text)" if len(alike) > 1 else ""
        ignored = f"--ignore {joined_names(alike[:MOST_NAMED])}"
        advice = f"leave out what is no feature with {ignored}, or choose the columns to use with --features"
        if self.streamed:
            advice += "; text, categories and dates can be used by those who train without --stream"
        raise InputError(
            f"column {name!r}: expected numbers, got the text {checks.cut(text, 40)!r} at row {self.rows + row + 1}"
            f"{more}; " + ("the model was trained with numbers there: correct the rows" if self.trained else advice)
        )

    def _check_exact(self, column: pa.Array, name: str) -> None:
        inexact = first_inexact(column)
        if inexact is not None:
            row, text = inexact
            raise InputError(
                f"column {name!r}: expected numbers that a float holds (whole ones up to 2^53), got {text} at row "
                f"{self.rows + row + 1}, which would be rounded; "
                + ("" if self.trained else "leave an identifier out with --ignore, ")
                + "round a measurement yourself"
            )

    def _count_bad(self, X: FloatArray, names: Sequence[str]) -> None:
        finite = np.isfinite(X)
        for j in np.flatnonzero(~finite.all(axis=0)).tolist():
            missing = np.isnan(X[:, j])
            infinite = ~finite[:, j] & ~missing
            wrong = infinite | missing if names[j] in self._whole else infinite
            if wrong.any():
                seen = self._bad.setdefault(names[j], [0, 0, self.rows + 1 + int(wrong.argmax())])
                seen[0] += int((wrong & missing).sum())
                seen[1] += int(infinite.sum())

    def _check_truth(self, column: pa.Array, name: str) -> None:
        """A column in which blocks of numbers and blocks of true and false alternate can mean neither."""
        truth = holds_truth(column)
        if truth is not None and self._truth.setdefault(name, truth) != truth:
            kinds = ["numbers", "true and false"]
            raise InputError(
                f"column {name!r}: expected numbers throughout, or true and false throughout, got {kinds[truth]} from "
                f"about row {self.rows + 1} on and {kinds[not truth]} before; write them alike"
                + ("" if self.trained else ", or leave the column out with --ignore")
            )

    def finish(self) -> None:
        """Raise for missing or infinite values, and for a table without rows."""
        if self.rows == 0:
            raise InputError(f"{self.table.path}: expected rows below the header, got none")
        if self._bad:
            name, (missing, infinite, first) = next(iter(self._bad.items()))
            counts = {f"{missing} rows without a value": missing, f"{infinite} infinite values": infinite}
            parts = [text for text, count in counts.items() if count]
            others = f" (and {len(self._bad) - 1} more columns like it)" if len(self._bad) > 1 else ""
            raise InputError(
                f"column {name!r}: expected finite numbers, got {' and '.join(parts)}, first at row {first}{others}; "
                "drop or fill them" + ("" if self.trained else ", or leave the column out with --ignore")
            )


@dataclass(frozen=True)
class Schema:
    """How a table becomes the model's inputs, and the model's outputs become names. Kept in the model's description."""

    features: list[str]
    classes: list[str]
    label: str
    source: str | None
    sources: list[str]
    transition: dict[str, Any]  # the T of the labels, as plain data
    specs: dict[str, str]  # how it was asked for
    annotators: list[str] = field(default_factory=list)  # whose answers T takes, in its order
    told: list[str] = field(default_factory=list)  # the classes as they were given, where that is another order
    digests: list[str] = field(default_factory=list)  # of some of the rows it was trained on (`overlap`)

    def codec(self) -> LabelCodec:
        """Reads the label column."""
        return LabelCodec(transition_from_dict(self.transition), self.classes, self.sources, self.annotators)

    def extra(self) -> dict[str, Any]:
        """What `tproper.save` keeps, under its checksum."""
        return {"table": asdict(self)}

    @classmethod
    def of(cls, estimator: Any, folder: Path) -> Schema:
        """The schema of a loaded model."""
        content = estimator.extra_.get("table")
        if isinstance(content, dict):  # older models kept their scale here, and marks that gave rows away
            content = {name: value for name, value in content.items() if name not in ("centre", "scale", "marks")}
        names = {f.name for f in fields(cls)}  # models of older versions know fewer
        needed = {f.name for f in fields(cls) if f.default_factory is MISSING}
        if not isinstance(content, dict) or not needed <= set(content) <= names:
            raise InputError(
                f"{folder}: expected a model made by `tproper train`, got one without a description of its table"
            )
        wrong = fault(content, estimator.n_features_in_, [str(name) for name in estimator.classes_])
        if wrong is not None:
            raise InputError(f"{folder}: the model's description of its table cannot be used: {wrong}")
        return cls(**content)

    def check_columns(self, table: Table) -> None:
        """The table must have the columns the model was trained on."""
        absent = [name for name in self.features if name not in table.names]
        if absent:
            raise InputError(
                f"{table.path}: expected the {len(self.features)} columns that the model was trained on, "
                f"got none called {short(absent)}"
            )


def identifier_notes(X: Columns) -> list[str]:
    """Columns that look like identifiers: another whole number in every row, and about as many as there are rows."""
    if len(X) < FEWEST_ROWS:
        return []
    return [
        f"column {name!r} has another whole number in every row, as an identifier or an index has; if it is one, leave "
        f"it out with --ignore {joined_names([name])}"
        for name, column in zip(X.numeric, X.numbers.T, strict=True)
        if (column == np.rint(column)).all()
        and np.ptp(column) < 10 * len(column)
        and len(np.unique(column)) == len(column)
    ]


def encoder_of(X: Columns, kinds: Mapping[str, str], standardize: bool = True, whole: Columns | None = None) -> Inputs:
    """How rows become features; what a column refuses is told with what to do."""
    try:
        return Inputs.fit(X, kinds, standardize, whole)
    except ColumnError as error:
        what = "rescale the column" if "deviation" in error.fact else "correct the rows"
        raise InputError(f"{error.fact}; {what}, or leave it out with --ignore") from None


def fault(content: Mapping[str, Any], features: int, classes: Sequence[str]) -> str | None:
    """What is wrong with a `Schema`'s fields, given the model's number of features and its classes; None if nothing.

    They come from a file, and a file may hold anything.
    """
    for name in ("features", "classes", "sources", "annotators", "told"):
        value = content.get(name, [])
        if not _texts(value) or len(set(value)) != len(value):
            return f"{name}: expected different names, got {checks.short(value)}"
    for name in ("label", "source"):
        if not isinstance(content[name], str) and not (name == "source" and content[name] is None):
            return f"{name}: expected the name of a column, got {checks.short(content[name])}"
    if len(content["features"]) != features:
        return f"features: expected the model's {features}, got {len(content['features'])}"
    if list(content["classes"]) != list(classes):
        return f"classes: expected the model's own in their order, got {checks.short(content['classes'])}"
    if content.get("told") and sorted(content["told"]) != sorted(classes):
        return f"told: expected the model's classes in some order, got {checks.short(content['told'])}"
    digests = content.get("digests", [])
    if not _texts(digests) or not re.fullmatch(
        "|".join(f"([0-9a-f]{{{d}}} )*" for d in DIGITS), " ".join([*digests, ""])
    ):
        return f"digests: expected three to five hexadecimal digits for each row, got {checks.short(digests)}"
    specs = content["specs"]
    if not isinstance(specs, dict) or not _texts([*specs, *specs.values()]):
        return f"specs: expected texts by name, got {checks.short(specs)}"
    return _fault_of_transition(content, len(classes))


def _fault_of_transition(content: Mapping[str, Any], classes: int) -> str | None:
    try:
        transition = transition_from_dict(content["transition"])
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        return f"transition: {' '.join(str(error).split())}"
    if transition.num_classes != classes:
        return f"transition: expected one for {classes} classes, got {transition.num_classes}"
    sources = content["sources"]
    if bool(sources) != (content["source"] is not None):
        expected = "no names without a column of sources" if sources else "the names in the column of sources"
        return f"sources: expected {expected}, got {checks.short(sources)}"
    if sources and len(transition.sources) != len(sources):
        return f"sources: expected one for each of the transition's, got {checks.short(sources)}"
    return None


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(x, str) for x in value)
