"""A table of training or evaluation as it is read: features, label columns, known classes and groups.

Several annotators answer side by side, one column each (``--label ann1,ann2,ann3``), or one answer per row (``--label
answer --item item_id --annotator who``). The rows of the second form are brought together by item: their features
stand in every row of the item, or in a second table with one row for each (``--features-from``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data import MISSING, Table, numbers, short, texts, watched
from ..errors import InputError
from ..inputs import LEFT_OUT, Columns, Inputs, inferred
from .frames import read_table
from .labels import Answered, LabelCodec, class_codec
from .options import LabelOptions, Names
from .schema import FeatureReader, feature_columns, split_names

if TYPE_CHECKING:
    import pyarrow as pa

Texts = tuple[NDArray[np.int64], list[str]]  # places among the values, -1 = null; the values
MOST_CELLS = 1 << 27  # of answers, items x annotators (1 GiB)


@dataclass(frozen=True)
class LabelColumns:
    """Which columns say what. Made by `label_columns`."""

    table: Table
    labels: list[str]  # one, or one for each annotator
    source: str | None = None
    item: str | None = None
    annotator: str | None = None
    true: str | None = None
    group: str | None = None
    items: Table | None = None  # a second table: the features of the items
    of_several: bool = False  # a single column that holds the answers of one annotator among several

    def of_annotators(self) -> LabelColumns:
        """The same columns, as answers of annotators."""
        return replace(self, of_several=True)

    @property
    def long(self) -> bool:
        """Whether every answer has a row of its own."""
        return self.item is not None

    @property
    def several(self) -> bool:
        """Whether there are answers of several annotators."""
        return self.long or self.of_several or len(self.labels) > 1

    @property
    def label(self) -> str:
        """The label columns in words."""
        return ",".join(self.labels)

    @property
    def taken(self) -> list[str]:
        """All columns other than features."""
        named = (*self.labels, self.source, self.item, self.annotator, self.true, self.group)
        return [name for name in dict.fromkeys(named) if name is not None]

    def features(self, given: Names, ignored: Names) -> list[str]:
        """The feature columns: those asked for, or all that are neither taken nor ignored."""
        chosen, dropped = split_names(given, "--features"), split_names(ignored, "--ignore")
        return feature_columns(self.home, self.taken, chosen, dropped)

    def unused(self) -> tuple[list[str], list[str]]:
        """The columns that could be features: those of numbers, and those of text (by the first rows)."""
        others = [name for name in self.home.names if name not in self.taken]
        first = next(iter(self.home.batches(others)), None) if others else None
        text = [] if first is None else [name for name in others if numbers(first.column(name)) is None]
        return [name for name in others if name not in text], text

    @property
    def home(self) -> Table:
        """The table that holds the features."""
        return self.table if self.items is None else self.items


def label_columns(table: Table, options: LabelOptions) -> LabelColumns:
    """Which columns the options name, checked against those that the table has."""
    label, source, item, annotator = options.label, options.source_column, options.item, options.annotator
    true, group = options.true_label, options.group
    labels = [label] if isinstance(label, str) and label in table.names else split_names(label, "--label") or []
    for name in labels:
        table.require(name, "--label")
    if (item is None) != (annotator is None):
        raise InputError("--item: expected --item and --annotator together, got one of them")
    if item is not None and len(labels) != 1:
        raise InputError(f"--label: expected one column of answers beside --item and --annotator, got {label!r}")
    if source is not None and (item is not None or len(labels) > 1):
        raise InputError(
            "--source-column: expected it with one label per row, got answers of several annotators; "
            "leave it out, and give NAME=SPEC for every annotator"
        )
    if options.features_from is not None and item is None:
        raise InputError("--features-from: expected it beside --item, which tells whose features they are, got none")
    items = None if options.features_from is None else read_table(options.features_from)
    named = (("--source-column", source), ("--item", item), ("--annotator", annotator))
    either = (("--true-label", true), ("--group", group))  # these may stand with the features of the items
    for option, column in (*named, *either):
        second = items is not None and (option, column) in either and column in items.names
        if column is not None and not second:
            table.require(column, option)
    for option, column in either:
        if column in labels and not (items is not None and column in items.names):
            raise InputError(f"{option}: expected another column than --label, got {column!r} for both")
    if items is not None and item is not None:
        items.require(item, "--features-from")
    columns = [*labels, *(name for _, name in named if name is not None)]
    repeated = next((name for name in columns if columns.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"--label: expected different columns, got {repeated!r} twice")
    return LabelColumns(table, labels, source, item, annotator, true, group, items)


@dataclass(frozen=True)
class AnswerRows:
    """Answers with a row each: the item, who answered, and what."""

    item: NDArray[np.int64]  # (N,) places among `items`
    items: list[str]
    who: NDArray[np.int64]  # (N,) places among `annotators`
    annotators: list[str]
    codes: NDArray[np.int64]  # (N,) places among `values`, -1 = null
    values: list[str]

    def table(self) -> Answered:
        """Items x annotators; a second answer by an annotator to one item is refused."""
        n, m = len(self.items), len(self.annotators)
        if n * m > MOST_CELLS:
            raise InputError(
                f"--annotator: expected at most {MOST_CELLS:,} cells, items x annotators, got {n:,} x {m:,}; leave out "
                "annotators with few answers (`tproper estimate annotators` takes any number of them)"
            )
        given = np.flatnonzero(~_empty((self.codes, self.values)))
        cell = self.item[given] * m + self.who[given]
        _, once = np.unique(cell, return_index=True)
        if len(once) < len(cell):
            again = int(given[np.setdiff1d(np.arange(len(cell)), once)[0]])
            raise InputError(
                f"--label: expected one answer of an annotator to an item, got another of "
                f"{self.annotators[self.who[again]]!r} to {self.items[self.item[again]]!r} at row {again + 1}; "
                "keep one of them"
            )
        out, places = np.full(n * m, -1), np.zeros(n * m, dtype=np.int64)
        out[cell], places[cell] = self.codes[given], given
        return Answered(out.reshape(n, m), self.values, self.annotators, places.reshape(n, m))


@dataclass(frozen=True)
class Read:
    """Rows of a table, or the items of one with an answer per row: nothing is interpreted yet."""

    columns: LabelColumns
    X: Columns  # as in the file
    kinds: dict[str, str]  # what each feature is
    left_out: list[str]  # columns that name rows
    label: pa.Array | None  # of one label per row
    source: pa.Array | None
    side_by_side: Answered | None
    answer_rows: AnswerRows | None
    truth: Texts | None
    group: NDArray[np.int64] | None
    rows: NDArray[np.int64]  # where each row (or the first of its item) stands in the table, from 0

    @cached_property
    def answered(self) -> Answered | None:
        """The answers of several annotators, items x annotators."""
        return self.side_by_side if self.answer_rows is None else self.answer_rows.table()

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each label text occurs."""
        answers = self.answer_rows or self.side_by_side
        return _times(texts(self.label) if answers is None else (answers.codes, answers.values))

    @property
    def named(self) -> Counter[str]:
        """How often each text occurs, among labels and true classes together."""
        return self.counts if self.truth is None else self.counts + _times(self.truth)

    @property
    def used(self) -> list[str]:
        """The label texts that occur."""
        return list(self.counts)

    @property
    def true_names(self) -> list[str]:
        """The texts of true classes that occur."""
        return [] if self.truth is None else [text for text in _times(self.truth) if text not in MISSING]

    def known(self, classes: Sequence[str]) -> NDArray[np.int64] | None:
        """The class of each row, -1 where it is unknown; None without a column of true classes."""
        if self.truth is None or self.columns.true is None:
            return None
        encoded, absent = class_codec(classes).encode_texts(*self.truth, self.columns.true, self.rows)
        return np.where(absent, -1, encoded)

    def encode(self, codec: LabelCodec) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Labels as T takes them, and which rows have none."""
        if self.answered is not None:
            return codec.encode_answers(self.answered)
        return codec.encode(self.label, self.source, column=self.columns.label)


def read(columns: LabelColumns, features: Sequence[str], kinds: Mapping[str, str] | Inputs | None = None) -> Read:
    """The whole table in memory; of one with an answer per row, its items.

    What a feature is `kinds` says, or a model's inputs; else its values do.
    """
    known = {} if kinds is None else kinds
    if not columns.long:
        X, others = _columns(columns.table, columns.taken, features, known)
        answered = label = None
        if columns.several:
            answered = Answered.of({name: others[name] for name in columns.labels})
        else:
            label = others[columns.labels[0]]
        truth = None if columns.true is None else texts(others[columns.true])
        group = None if columns.group is None else _whole(others[columns.group], "--group")[0]
        source = None if columns.source is None else others[columns.source]
        rows = np.arange(len(X))
        return Read(columns, *_understood(X, features, known), label, source, answered, None, truth, group, rows)
    return _by_item(columns, features, known)


def _understood(
    X: Columns, features: Sequence[str], kinds: Mapping[str, str] | Inputs
) -> tuple[Columns, dict[str, str], list[str]]:
    """The features, what they are, and the columns that are none because they name rows."""
    if isinstance(kinds, Inputs):
        return X, kinds.kinds, []
    found, left_out = inferred(X, kinds)
    in_order = {name: found[name] for name in features if name in found}
    if features and not in_order:
        raise InputError(
            f"--features: expected columns that tell of the classes, got {short(left_out)} ({LEFT_OUT}); name a column "
            "with --category or --text to use it all the same"
        )
    return X.only(list(in_order)), in_order, left_out


def _times(column: Texts) -> Counter[str]:
    """How often each text occurs."""
    codes, values = column
    out: Counter[str] = Counter()
    for text, n in zip(values, np.bincount(codes[codes >= 0], minlength=len(values)).tolist(), strict=True):
        out[text] += n
    return +out  # without those that do not occur


def _empty(column: Texts) -> NDArray[np.bool_]:
    """Where there is no text, or one that says so."""
    codes, values = column
    return np.array([v in MISSING for v in values] + [True])[codes]


def _columns(
    table: Table, names: Sequence[str], features: Sequence[str], kinds: Mapping[str, str] | Inputs
) -> tuple[Columns, dict[str, pa.Array]]:
    """Features, checked, and other columns as they are."""
    import pyarrow as pa

    if isinstance(kinds, Inputs) and features:
        reader = FeatureReader.of(table, kinds)
    else:
        reader = FeatureReader(table, features, {} if isinstance(kinds, Inputs) else kinds)
    blocks: list[Columns] = []
    parts: dict[str, list[Any]] = {name: [] for name in names}
    wanted = list(dict.fromkeys([*features, *names]))
    for batch in watched(table.batches(wanted), "reading", table.rows, lambda b: b.num_rows):
        X = reader.read(batch)
        if reader.clean:
            blocks.append(X)
            for name in names:
                parts[name].append(batch.column(name))
    reader.finish()
    return reader.all(blocks), {name: pa.chunked_array(p).combine_chunks() for name, p in parts.items()}


def _whole(column: pa.Array, option: str) -> tuple[NDArray[np.int64], list[str]]:
    """Each row's place among the distinct names of a column without gaps, and those names as they first appear."""
    codes, values = texts(column)
    distinct = list(dict.fromkeys(v for v in values if v not in MISSING))
    place = {v: i for i, v in enumerate(distinct)}
    out = np.array([place.get(v, -1) for v in values] + [-1], dtype=np.int64)[codes]
    if (out < 0).any():
        row = int((out < 0).argmax())
        raise InputError(f"{option}: expected a name in every row, got none at row {row + 1}")
    return out, distinct


def _by_item(columns: LabelColumns, features: Sequence[str], kinds: Mapping[str, str] | Inputs) -> Read:
    table, items = columns.table, columns.items
    assert columns.item is not None
    assert columns.annotator is not None
    here = [name for name in columns.taken if name in table.names]
    rows_X, others = _columns(table, here, features if items is None else [], kinds)
    item, item_names = _whole(others[columns.item], "--item")
    who, who_names = _whole(others[columns.annotator], "--annotator")
    order = np.argsort(np.array(who_names, dtype=object), kind="stable")
    who, who_names = np.argsort(order)[who], [who_names[i] for i in order]
    first = np.unique(item, return_index=True)[1]  # the first row of each item
    answers = AnswerRows(item, item_names, who, who_names, *texts(others[columns.labels[0]]))
    named = {"--true-label": columns.true, "--group": columns.group}
    facts = {
        option: _one_each(texts(others[name]), item, item_names, option)
        for option, name in named.items()
        if name in others
    }
    if items is None:
        X = _same_features(rows_X, item, item_names, first)
    else:
        second = [name for name in named.values() if name is not None and name not in table.names]
        X_items, more = _columns(items, [columns.item, *second], features, kinds)
        place = _places(items, _whole(more[columns.item], "--features-from"), item_names)
        X = X_items[place]
        for option, name in named.items():
            if name in second:
                codes, values = texts(more[name])
                facts[option] = codes[place], values
    group = None
    if "--group" in facts:
        group, empty = facts["--group"][0], _empty(facts["--group"])
        if empty.any():
            name = item_names[int(empty.argmax())]
            raise InputError(f"--group: expected a group for every item, got none for {name!r}")
    truth = facts.get("--true-label")
    return Read(columns, *_understood(X, features, kinds), None, None, None, answers, truth, group, first)


def _one_each(column: Texts, item: NDArray[np.int64], item_names: list[str], option: str) -> Texts:
    """One value for each item; rows that contradict each other are refused."""
    codes, values = column
    known = np.flatnonzero(~_empty(column))
    out = np.full(len(item_names), -1)
    out[item[known]] = codes[known]
    words = np.array(values, dtype=object)
    wrong = known[words[out[item[known]]] != words[codes[known]]]
    if len(wrong):
        i = int(wrong[0])
        one, other = values[codes[i]], values[out[item[i]]]
        what = "class" if option == "--true-label" else "group"
        raise InputError(
            f"{option}: expected one {what} for each item, got {one!r} and {other!r} for {item_names[item[i]]!r} "
            f"at row {i + 1}"
        )
    return out, values


def _same_features(X: Columns, item: NDArray[np.int64], item_names: list[str], first: NDArray[np.int64]) -> Columns:
    """An item has one row of features, however many answers."""
    bits = X.bits()
    differs = bits[first[item]] != bits
    if differs.any():
        i, j = np.argwhere(differs)[0].tolist()
        (name, one), (_, other) = X.cell(int(first[item[i]]), j), X.cell(i, j)
        raise InputError(
            f"column {name!r}: expected the same value in all rows of an item, got {one} and "
            f"{other} for {item_names[item[i]]!r} at row {i + 1}; leave it out with --ignore, or give the features "
            "of the items in a table of their own (--features-from)"
        )
    return X[first]


def _places(items: Table, named: tuple[NDArray[np.int64], list[str]], wanted: Iterable[str]) -> NDArray[np.int64]:
    """Where each item stands in the second table."""
    codes, names = named
    if len(names) < len(codes):
        again = int(np.setdiff1d(np.arange(len(codes)), np.unique(codes, return_index=True)[1])[0])
        raise InputError(
            f"--features-from: expected every item once in {items.path}, got {names[codes[again]]!r} again at row "
            f"{again + 1}; keep one row of each"
        )
    place = {name: i for i, name in enumerate(names)}
    lacking = next((name for name in wanted if name not in place), None)
    if lacking is not None:
        raise InputError(
            f"--features-from: expected the features of every item in {items.path}, got none of {lacking!r}"
        )
    row_of = np.argsort(codes)
    return np.array([row_of[place[name]] for name in wanted], dtype=np.int64)
