"""Repeatable streams of (features, labels) batches: Parquet and Arrow files on disk, or batches that the caller makes.

Files are shuffled by blocks: row groups come in random order, a block of rows is held in memory at a time, and its rows
are shuffled. The stream depends on seed and epoch alone, so any part of it can be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, checks
from ..errors import InputError
from . import columns as _columns
from .columns import CandidateLists, ColumnError
from .folders import SUFFIXES, check_file, check_same_columns, data_files
from .moments import Moments

if TYPE_CHECKING:
    import pyarrow as pa

Batch = tuple[NDArray[Any], NDArray[Any]]  # features (b, d), labels (b,) or masks (b, K)
_Rows = tuple[NDArray[Any], Any]  # features, and labels or `CandidateLists`; None where no labels are wanted
NO_BATCH = "source: expected at least one batch, got none"


class Source(Protocol):
    """A repeatable stream of batches."""

    @property
    def rows(self) -> int | None:
        """The number of rows in an epoch, where it is known."""
        ...

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, without the first `skip` of them."""
        ...


class IterableSource:
    """Batches that the caller makes: a collection of (X, labels), or a function that starts a new pass over them.

    The order is the caller's. An iterator, which can be read only once, serves one epoch.
    """

    rows: int | None = None

    def __init__(self, batches: Iterable[Batch] | Callable[[], Iterable[Batch]]) -> None:
        if not callable(batches) and not isinstance(batches, Iterable):
            raise InputError(f"batches: expected an iterable of (X, labels) or a function, got {type(batches)}")
        self._make = batches if callable(batches) else lambda: batches
        self.once = isinstance(batches, Iterator)
        self._passes = 0

    def first(self) -> Batch:
        """The first batch; the pass that follows starts with it all the same, even from an iterator."""
        source = self
        if self.once:
            iterator = iter(self._make())
            seen = list(islice(iterator, 1))
            self._make = lambda: chain(seen, iterator)
            source = IterableSource(seen)
        for batch in source.batches(0):
            return batch
        raise InputError(NO_BATCH)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """One pass; skipped batches are drawn and dropped."""
        if self.once and self._passes:
            raise InputError(
                "batches: expected a collection or a function for several epochs, got an iterator, which is used up"
            )
        self._passes += 1
        i = -1
        for i, batch in enumerate(self._make()):
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise InputError(f"batches: expected pairs (X, labels), got {type(batch).__name__} at batch {i}")
            if i >= skip:
                X, labels = np.asarray(batch[0]), np.asarray(batch[1])
                _columns.check_finite(X, where=f" of batch {i}")
                yield X, labels
        if i + 1 < skip:
            raise InputError(f"batches: expected at least the {skip} that the checkpoint was trained on, got {i + 1}")


@dataclass(frozen=True)
class _Group:
    """A piece of a file that can be read by itself: a row group (Parquet) or a record batch (Arrow)."""

    file: Path
    index: int
    rows: int
    start: int  # rows of the file before it


class ParquetSource:
    """Parquet or Arrow (Feather) files on disk, read a block at a time.

    Parameters
    ----------
    path : path, or a sequence of paths
        A file, or a folder of files, whose names end in .parquet, .pq, .arrow or .feather.
    label : str
        The column with weak labels: integers, or lists of candidate classes (then `num_classes` is needed), or lists of
        num_classes booleans.
    features : sequence of str, optional
        Columns of numbers; by default all but the label and what pandas has kept as the index of rows, as in a table
        that was shuffled before it was written. Missing values are refused, not filled in.
    batch_size : int
    block_rows : int
        Rows held in memory and shuffled together. More is closer to a full shuffle and costs more memory. Larger row
        groups are read in slices of this many rows, in order.
    seed : int
        Seed of the shuffling: epochs differ, runs do not. ``shuffle=False`` reads the files in order.
    num_classes : int, optional
        The number of classes, for columns of candidate lists.
    encode : callable, optional
        Turns the label column (an Arrow array) into labels (n,) or masks (n, K), where it holds something else, such
        as names.
    """

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        label: str,
        features: Sequence[str] | None = None,
        batch_size: int = 1024,
        block_rows: int = 1 << 16,
        seed: int = 0,
        shuffle: bool = True,
        num_classes: int | None = None,
        dtype: Any = np.float32,
        encode: Callable[[pa.Array], NDArray[Any]] | None = None,
    ) -> None:
        paths = [Path(p) for p in ([path] if isinstance(path, (str, Path)) else path)]
        self.files = _files(paths)
        self._roots = [p for p in paths if p.is_dir()]
        self._stamps = {file: _stamp(file) for file in self.files}  # before anything is read from them
        self.encode = encode
        self.batch_size = checks.integer(batch_size, "batch_size", 1)
        self.block_rows = max(checks.integer(block_rows, "block_rows", 1), self.batch_size)
        self.seed, self.shuffle, self.dtype = checks.integer(seed, "seed", 0), shuffle, dtype
        self.num_classes = None if num_classes is None else checks.integer(num_classes, "num_classes", 2)
        schemas: dict[Path, pa.Schema] = {}
        self._groups: list[_Group] = []
        for file in self.files:
            schemas[file], sizes = _layout(file)
            starts = np.cumsum([0, *sizes]).tolist()
            self._groups += [_Group(file, j, n, starts[j]) for j, n in enumerate(sizes) if n]
        check_same_columns([(file, schema.names) for file, schema in schemas.items()])
        names = schemas[self.files[0]].names
        index = (schemas[self.files[0]].pandas_metadata or {}).get("index_columns", [])  # names, or a range
        self.rows = sum(g.rows for g in self._groups)
        if not self.rows:
            raise InputError(f"path: expected rows in {path}, got none")
        self.label = label
        self.features = [n for n in names if n != label and n not in index] if features is None else list(features)
        for what, column in [("label", label), *(("features", f) for f in self.features)]:
            if column not in names:
                raise InputError(f"{what}: expected a column of {self.files[0]}, got {column!r}")
        if not self.features:
            raise InputError("features: expected at least one column, got none")
        if len(set(self.features)) < len(self.features):
            raise InputError(f"features: expected different columns, got {checks.short(self.features)}")
        if label in self.features:
            raise InputError(f"features: expected other columns than the label, got {label!r}")
        self._check_types(schemas)

    def _check_types(self, schemas: dict[Path, pa.Schema]) -> None:
        """Refuse what the files' schemas already show to be wrong, before training begins."""
        first = schemas[self.files[0]].field(self.label).type
        for file, schema in schemas.items():
            kind = schema.field(self.label).type
            if _columns.is_list(kind) != _columns.is_list(first):
                raise InputError(
                    f"column {self.label!r}: expected the same kind of labels in every file, got {first} in "
                    f"{self.files[0].name} and {kind} in {file.name}; write them alike"
                )
            try:
                for name in self.features:
                    _columns.check_number_type(schema.field(name).type, name)
                if self.encode is None:
                    _columns.check_label_type(kind, self.label, self.num_classes)
            except ColumnError as error:
                raise error.located(file.name, 0) from None

    def identity(self) -> dict[str, Any]:
        """All that determines the batches and their order; a file counts by its name, size and time of change."""
        names = ("label", "features", "num_classes", "batch_size", "block_rows", "seed", "shuffle", "rows")
        files: dict[str, Any] = {}
        for i, file in enumerate(self.files):
            # names are relative to the folder that was given, so that data may move; their order counts
            root = next((r for r in self._roots if file.is_relative_to(r)), file.parent)
            name = file.relative_to(root).as_posix()
            files[name if name not in files else f"{name} ({i})"] = [i, *(self._stamps[file] or ())]
        facts = {n: getattr(self, n) for n in names}
        return facts | {"dtype": np.dtype(self.dtype).name, "encode": self.encode, "files": files}

    def __len__(self) -> int:
        return -(-self.rows // self.batch_size)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """An epoch's batches. Skipped rows are not read, except those that share a row group with the first batch."""
        position = skip * self.batch_size  # in the stream of shuffled rows
        rest: _Rows | None = None
        for start, read in self._blocks(epoch, position):
            rows = read()
            if self.shuffle:
                rows = _taken(rows, np.random.default_rng([self.seed, epoch, start]).permutation(len(rows[0])))
            if position > start:
                rows = _taken(rows, slice(position - start, None))
            if rest is not None:  # fill up what the block before left over
                lack = self.batch_size - len(rest[0])
                rest, rows = _joined([rest, _taken(rows, slice(lack))]), _taken(rows, slice(lack, None))
                if len(rest[0]) < self.batch_size:
                    continue
                yield _dense(rest)
            whole = len(rows[0]) // self.batch_size * self.batch_size
            for i in range(0, whole, self.batch_size):
                yield _dense(_taken(rows, slice(i, i + self.batch_size)))
            rest = _taken(rows, slice(whole, None)) if whole < len(rows[0]) else None
        if rest is not None:
            yield _dense(rest)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of every feature, in one pass and constant memory; 1 for a constant feature."""
        moments = Moments(len(self.features))
        for _, read in self._blocks(0, 0, labels=False):
            moments.add(read()[0])
        return moments.scaling(self.features)

    def _blocks(self, epoch: int, position: int, labels: bool = True) -> Iterator[tuple[int, Callable[[], _Rows]]]:
        """(first position in the stream, how to read it) of every block that ends after `position`."""
        order = np.arange(len(self._groups))
        if self.shuffle:
            order = np.random.default_rng([self.seed, epoch]).permutation(len(self._groups))
        start = 0
        for groups in self._together(order):
            size = sum(g.rows for g in groups)
            if start + size <= position:
                start += size
            elif size <= self.block_rows:
                yield start, partial(self._whole, groups, labels)
                start += size
            else:
                for row, table in self._read(groups[0], labels, self.block_rows):
                    if start + table.num_rows > position:
                        yield start, partial(self._located, groups[0], row, table, labels)
                    start += table.num_rows

    def _together(self, order: NDArray[np.int64]) -> Iterator[list[_Group]]:
        """Row groups that are read as one block; one that is larger than a block is by itself."""
        groups: list[_Group] = []
        size = 0
        for group in (self._groups[i] for i in order):
            if groups and size + group.rows > self.block_rows:
                yield groups
                groups, size = [], 0
            groups.append(group)
            size += group.rows
        if groups:
            yield groups

    def _whole(self, groups: list[_Group], labels: bool) -> _Rows:
        return _joined([self._located(g, i, t, labels) for g in groups for i, t in self._read(g, labels, g.rows)])

    def _read(self, group: _Group, labels: bool, rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """A row group in pieces of at most `rows` rows, each with the number of its first row in the file.

        The file is compared with its state at the start, before and after reading: other rows, or fewer, would
        otherwise go unnoticed in the middle of training.
        """
        file, row = group.file, group.start
        self._check_unchanged(file)
        try:
            for batch in _pieces(file, group.index, [*self.features, *([self.label] if labels else [])], rows):
                yield row, batch
                row += batch.num_rows
        except (OSError, IndexError, KeyError) as error:  # what Arrow raises for a file that has changed
            self._check_unchanged(file)
            raise OSError(f"{file}: cannot be read: {' '.join(str(error).split())}") from None
        self._check_unchanged(file)
        if row - group.start != group.rows:
            raise InputError(f"{file}: expected {group.rows} rows in piece {group.index}, got {row - group.start}")

    def _check_unchanged(self, file: Path) -> None:
        now, then = _stamp(file), self._stamps[file]
        if now == then:
            return
        got = "one that was written to since"
        if now is None:
            got = "nothing, the file is gone"
        elif then and now[0] != then[0]:
            got = f"{now[0]:,} bytes"
        raise InputError(
            f"{file}: expected the file as it was when training began, got {got}; start again once nothing writes to it"
        )

    def _located(self, group: _Group, row: int, table: pa.RecordBatch, labels: bool) -> _Rows:
        """Features and labels of a piece of a file; an error names the file and the row."""
        try:
            X = np.empty((table.num_rows, len(self.features)), self.dtype)
            with np.errstate(over="ignore"):  # what is too large for the dtype becomes infinite, and is refused as such
                for j, name in enumerate(self.features):
                    values = _columns.feature_values(table.column(name), name)
                    X[:, j] = values
                    if values.dtype.kind in "iu" and (X[:, j] != values).any():  # identifiers would become one
                        at = int(np.argmax(X[:, j] != values))
                        fact = f"expected whole numbers that {X.dtype} holds, got {values[at]}, which would be rounded"
                        raise ColumnError(f"column {name!r}: {fact}", "pass dtype=np.float64, or leave it out", at)
            _columns.check_finite(X, self.features)
            if not labels:
                return X, None
            column = table.column(self.label)
            if self.encode is not None:
                return X, _columns.encoded_labels(column, self.label, self.encode)
            return X, _columns.labels_of(column, self.label, self.num_classes)
        except ColumnError as error:
            raise error.located(group.file.name, row) from None


def _dense(rows: _Rows) -> Batch:
    """Candidate lists become masks for one batch only, so that memory holds lists, not (rows, K) tables."""
    X, labels = rows
    return X, labels.masks() if isinstance(labels, CandidateLists) else labels


def _is_parquet(file: Path) -> bool:
    return file.suffix.lower() in (".parquet", ".pq")


def _files(paths: Sequence[Path]) -> list[Path]:
    out: list[Path] = []
    for path in paths:
        check_file(path)
        if path.is_dir():
            out += data_files(path, SUFFIXES)
        elif not path.exists():
            raise InputError(f"path: expected a file or folder, got {path}, which does not exist")
        elif path.suffix.lower() in SUFFIXES:
            out.append(path)
        else:
            raise InputError(f"path: expected a file that ends in {', '.join(SUFFIXES)}, got {path}")
    if not out:
        raise InputError(f"path: expected Parquet or Arrow files in {', '.join(map(str, paths))}, got none")
    return out


def _stamp(file: Path) -> tuple[int, int] | None:
    """Size and time of the last change; None for a file that is gone."""
    try:
        facts = file.stat()
    except FileNotFoundError:
        return None
    return facts.st_size, facts.st_mtime_ns


def _pieces(file: Path, index: int, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    """One row group, or record batch, in pieces of at most `rows` rows."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        if _is_parquet(file):
            with parquet.ParquetFile(file) as opened:
                yield from opened.iter_batches(rows, [index], columns, use_threads=False)
            return
        with pa.memory_map(str(file)) as mapped:
            batch = pa.ipc.open_file(mapped).get_batch(index).select(columns)
            for i in range(0, batch.num_rows, rows):
                yield batch.slice(i, rows)
    except pa.ArrowException as error:
        raise OSError(str(error)) from None


def _layout(file: Path) -> tuple[pa.Schema, list[int]]:
    """The columns with their types, and the number of rows of every piece that can be read by itself."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise InputError("pyarrow: expected it to be installed to read files; pip install 'tproper[tables]'") from None
    try:
        if _is_parquet(file):
            with parquet.ParquetFile(file) as opened:
                meta = opened.metadata
                return opened.schema_arrow, [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
        with pa.memory_map(str(file)) as mapped:
            reader = pa.ipc.open_file(mapped)
            return reader.schema, [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
    except pa.ArrowInvalid as error:
        raise InputError(f"path: expected a Parquet or Arrow file, got {file}: {error}") from None


def _taken(rows: _Rows, index: Any) -> _Rows:
    X, labels = rows
    return X[index], labels.take(index) if isinstance(labels, CandidateLists) else labels[index]


def _joined(parts: list[_Rows]) -> _Rows:
    if len(parts) == 1:
        return parts[0]
    X, labels = np.concatenate([p[0] for p in parts]), [p[1] for p in parts]
    if labels[0] is None:
        return X, None
    return X, CandidateLists.joined(labels) if isinstance(labels[0], CandidateLists) else np.concatenate(labels)


def as_source(source: Any, **options: Any) -> Source:
    """A source as it is; a path (or several) as files, read with `options`; anything else as an iterable of batches."""
    if hasattr(source, "batches"):
        out: Source = source
        return out
    if isinstance(source, (str, Path)) or (
        isinstance(source, (list, tuple)) and source and all(isinstance(s, (str, Path)) for s in source)
    ):
        return ParquetSource(source, **options)
    if options:
        raise InputError(f"options: expected none for batches that the caller makes, got {', '.join(sorted(options))}")
    return IterableSource(source)
