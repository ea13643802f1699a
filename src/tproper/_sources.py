"""Repeatable streams of (features, labels) batches: Parquet and Arrow files on disk, or whatever the caller makes.

Files are shuffled by blocks: row groups in random order, a block of rows at a time in memory, its rows in random order.
The stream depends on seed and epoch alone, so any part of it can be asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import _checks
from ._checks import FloatArray
from .structured import CandidateSetTransition

if TYPE_CHECKING:
    import pyarrow as pa

Batch = tuple[NDArray[Any], NDArray[Any]]  # features (b, d), labels (b,) or masks (b, K)


class CandidateLists:
    """Candidate sets of many rows as lists of classes: a few numbers a row, where masks take K bytes.

    ``lists[rows]`` gives the boolean masks (b, K) that losses take, for those rows only.
    """

    def __init__(self, members: NDArray[Any], ends: NDArray[Any], num_classes: int) -> None:
        self.members = np.asarray(members)  # of all lists, one after another
        self.ends = np.asarray(ends, dtype=np.int64)  # where each list ends among them
        self.num_classes = _checks.integer(num_classes, "num_classes", 2)
        self.shape = (len(self.ends), self.num_classes)
        if len(self.members) and (self.members.min() < 0 or self.members.max() >= num_classes):
            raise ValueError(f"labels: expected candidate classes in [0, {num_classes}), got others")

    @classmethod
    def from_masks(cls, masks: NDArray[np.bool_]) -> CandidateLists:
        """From boolean masks (n, K)."""
        small = np.uint16 if masks.shape[1] <= 1 << 16 else np.int32
        return cls(np.nonzero(masks)[1].astype(small), masks.sum(1).cumsum(), masks.shape[1])

    @classmethod
    def sample(cls, transition: CandidateSetTransition, y: NDArray[Any], seed: int) -> CandidateLists:
        """Draw a candidate set for every true class, a block of rows at a time: no (n, K) table ever exists.

        Blocks have seeds of their own, so the draws differ from those of ``transition.sample(y, seed)``.
        """
        block = max(1, (1 << 22) // transition.num_classes)
        seeds = np.random.SeedSequence(seed).spawn(-(-len(y) // block))
        parts = [
            cls.from_masks(transition.sample(y[i * block : (i + 1) * block], np.random.default_rng(s)))
            for i, s in enumerate(seeds)
        ]
        return cls.joined(parts)

    @classmethod
    def joined(cls, parts: Sequence[CandidateLists]) -> CandidateLists:
        """Several after one another."""
        offsets = np.cumsum([0, *(len(p.members) for p in parts[:-1])])
        ends = np.concatenate([p.ends + o for p, o in zip(parts, offsets, strict=True)])
        return cls(np.concatenate([p.members for p in parts]), ends, parts[0].num_classes)

    def __len__(self) -> int:
        return len(self.ends)

    def take(self, index: Any) -> CandidateLists:
        """The lists of some rows."""
        lengths = np.diff(self.ends, prepend=0)
        rows = np.arange(len(self))[index]
        length = lengths[rows]
        ends = length.cumsum()
        first = np.repeat((self.ends - lengths)[rows] - (ends - length), length)
        return CandidateLists(self.members[first + np.arange(len(first))], ends, self.num_classes)

    def masks(self) -> NDArray[np.bool_]:
        """Boolean masks (n, K) of all rows."""
        out = np.zeros(self.shape, bool)
        out[np.repeat(np.arange(len(self)), np.diff(self.ends, prepend=0)), self.members] = True
        return out

    def __getitem__(self, index: Any) -> NDArray[np.bool_]:
        return self.take(index).masks()


class Source(Protocol):
    """A repeatable stream of batches."""

    @property
    def rows(self) -> int | None:
        """Rows of an epoch, where they are known."""
        ...

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, without the first `skip` of them."""
        ...


class IterableSource:
    """Batches that the caller makes: a collection of (X, labels), or a function that starts a new pass over them.

    The order is the caller's. An iterator that can be gone through only once serves one epoch.
    """

    rows: int | None = None

    def __init__(self, batches: Iterable[Batch] | Callable[[], Iterable[Batch]]) -> None:
        if not callable(batches) and not isinstance(batches, Iterable):
            raise ValueError(f"batches: expected an iterable of (X, labels) or a function, got {type(batches)}")
        self._make = batches if callable(batches) else lambda: batches
        self._once = isinstance(batches, Iterator)
        self._passes = 0

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """One pass; skipped batches are drawn and dropped."""
        if self._once and self._passes:
            raise ValueError(
                "batches: expected a collection or a function for several epochs, got an iterator, which is used up"
            )
        self._passes += 1
        for i, batch in enumerate(self._make()):
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise ValueError(f"batches: expected pairs (X, labels), got {type(batch).__name__} at batch {i}")
            if i >= skip:
                yield np.asarray(batch[0]), np.asarray(batch[1])


@dataclass(frozen=True)
class _Group:
    """A piece of a file that can be read by itself: a row group (Parquet) or a record batch (Arrow)."""

    file: int
    index: int
    rows: int


class ParquetSource:
    """Parquet or Arrow (Feather) files on disk, read a block at a time.

    Parameters
    ----------
    path : path, or a sequence of paths
        A file, or a folder with files that end in .parquet, .pq, .arrow or .feather.
    label : str
        The column with weak labels: integers, or lists of candidate classes (then `num_classes` is needed), or lists of
        num_classes booleans.
    features : sequence of str, optional
        Columns with numbers; all but the label by default. Missing values are refused, not filled in.
    batch_size : int
    block_rows : int
        Rows held in memory and shuffled together. More is closer to a full shuffle and costs more memory. Row groups
        larger than this are read in slices of it, in order.
    seed : int
        Of the shuffling; epochs differ, runs do not. ``shuffle=False`` reads the files as they are.
    num_classes : int, optional
        Width of the candidate masks that lists become.
    encode : callable, optional
        From the label column (an Arrow array) to labels (n,) or masks (n, K), where the column holds something else,
        such as names.
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
        self.files = _files(path)
        self.encode = encode
        self.batch_size = _checks.integer(batch_size, "batch_size", 1)
        self.block_rows = max(_checks.integer(block_rows, "block_rows", 1), self.batch_size)
        self.seed, self.shuffle, self.dtype = seed, shuffle, dtype
        self.num_classes = None if num_classes is None else _checks.integer(num_classes, "num_classes", 2)
        names: list[str] | None = None
        self._groups: list[_Group] = []
        for i, file in enumerate(self.files):
            found, sizes = _layout(file)
            if names is not None and set(found) != set(names):
                raise ValueError(f"path: expected the same columns in every file, got others in {file}")
            names = names or found
            self._groups += [_Group(i, j, n) for j, n in enumerate(sizes) if n]
        assert names is not None
        self.rows = sum(g.rows for g in self._groups)
        if not self.rows:
            raise ValueError(f"path: expected rows in {path}, got none")
        self.label = label
        self.features = [n for n in names if n != label] if features is None else list(features)
        for what, column in [("label", label), *(("features", f) for f in self.features)]:
            if column not in names:
                raise ValueError(f"{what}: expected a column of {self.files[0]}, got {column!r}")
        if not self.features:
            raise ValueError("features: expected at least one column, got none")

    def __len__(self) -> int:
        return -(-self.rows // self.batch_size)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """An epoch's batches; what is skipped is not read, but for the slices before it in its own row group."""
        position = skip * self.batch_size  # in the stream of shuffled rows
        waiting: list[tuple[NDArray[Any], Any]] = []
        held = 0
        for number, (start, read) in enumerate(self._blocks(epoch, position)):
            X, labels = read()
            if self.shuffle:
                order = np.random.default_rng([self.seed, epoch, start]).permutation(len(X))
                X, labels = X[order], _taken(labels, order)
            if number == 0 and position > start:
                X, labels = X[position - start :], _taken(labels, slice(position - start, None))
            waiting.append((X, labels))
            held += len(X)
            while held >= self.batch_size:
                batch, waiting = _cut(waiting, self.batch_size)
                held -= self.batch_size
                yield batch[0], _dense(batch[1])
        if held:
            batch, _ = _cut(waiting, held)
            yield batch[0], _dense(batch[1])

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of every feature, in one pass and constant memory; constants get deviation 1."""
        n, mean, square = 0, np.zeros(len(self.features)), np.zeros(len(self.features))
        for _, read in self._blocks(0, 0, labels=False):
            X = read()[0].astype(np.float64)
            count, own = len(X), X.mean(0)
            gap = own - mean
            square += ((X - own) ** 2).sum(0) + gap**2 * n * count / (n + count)  # Chan's update
            mean += gap * count / (n + count)
            n += count
        deviation = np.sqrt(square / n)
        return mean, np.where(deviation > 0, deviation, 1.0)

    def _blocks(
        self, epoch: int, position: int, labels: bool = True
    ) -> Iterator[tuple[int, Callable[[], tuple[NDArray[Any], Any]]]]:
        """(first position in the stream, how to read it) of every block that ends after `position`."""
        order = np.arange(len(self._groups))
        if self.shuffle:
            order = np.random.default_rng([self.seed, epoch]).permutation(len(self._groups))
        together: list[_Group] = []
        start = size = 0

        def whole(groups: list[_Group]) -> Callable[[], tuple[NDArray[Any], Any]]:
            return lambda: _joined([self._convert(t, labels) for g in groups for t in self._read(g, labels, g.rows)])

        for group in (self._groups[i] for i in order):
            if together and size + group.rows > self.block_rows:
                if start + size > position:
                    yield start, whole(together)
                start, together, size = start + size, [], 0
            if group.rows > self.block_rows:
                if start + group.rows > position:
                    for table in self._read(group, labels, self.block_rows):
                        if start + table.num_rows > position:
                            yield start, lambda table=table: self._convert(table, labels)  # type: ignore[misc]
                        start += table.num_rows
                else:
                    start += group.rows
            else:
                together.append(group)
                size += group.rows
        if together and start + size > position:
            yield start, whole(together)

    def _read(self, group: _Group, labels: bool, rows: int) -> Iterator[pa.RecordBatch]:
        """A row group in pieces of at most `rows` rows."""
        file, columns = self.files[group.file], [*self.features, *([self.label] if labels else [])]
        if _is_parquet(file):
            from pyarrow import parquet

            with parquet.ParquetFile(file) as opened:
                yield from opened.iter_batches(rows, [group.index], columns, use_threads=False)
            return
        import pyarrow as pa

        with pa.memory_map(str(file)) as mapped:
            batch = pa.ipc.open_file(mapped).get_batch(group.index).select(columns)
            for i in range(0, batch.num_rows, rows):
                yield batch.slice(i, rows)

    def _convert(self, table: pa.RecordBatch, labels: bool) -> tuple[NDArray[Any], Any]:
        X = np.empty((table.num_rows, len(self.features)), self.dtype)
        for j, name in enumerate(self.features):
            column = table.column(name)
            if column.null_count:
                raise ValueError(f"column {name!r}: expected numbers without gaps, got {column.null_count} missing")
            try:
                X[:, j] = column.to_numpy(zero_copy_only=False)
            except (ValueError, TypeError):
                raise ValueError(f"column {name!r}: expected numbers, got {column.type}") from None
        return X, self._labels(table.column(self.label)) if labels else None

    def _labels(self, column: pa.Array) -> Any:
        import pyarrow as pa

        if column.null_count:
            raise ValueError(f"column {self.label!r}: expected a label in every row, got {column.null_count} missing")
        if self.encode is not None:
            labels = np.asarray(self.encode(column))
            if len(labels) != len(column):
                raise ValueError(f"encode: expected {len(column)} labels, one per row, got shape {labels.shape}")
            return labels
        kind = column.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            if self.num_classes is None:
                raise ValueError(
                    "num_classes: expected the number of classes for a column of candidate lists, got None"
                )
            if pa.types.is_fixed_size_list(kind):
                column = column.cast(pa.list_(kind.value_type))
            ends = column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64).cumsum()
            members = column.flatten().to_numpy(zero_copy_only=False)
            if pa.types.is_boolean(kind.value_type):
                if not (np.diff(ends, prepend=0) == self.num_classes).all():
                    raise ValueError(f"column {self.label!r}: expected lists of {self.num_classes} booleans")
                return CandidateLists.from_masks(members.reshape(-1, self.num_classes))
            return CandidateLists(members, ends, self.num_classes)
        if not pa.types.is_integer(kind):
            raise ValueError(f"column {self.label!r}: expected integers or lists of classes, got {kind}")
        return column.to_numpy(zero_copy_only=False).astype(np.int64)


def _dense(labels: Any) -> NDArray[Any]:
    """Candidate lists as masks: made for one batch only, so that memory holds lists, not (rows, K) tables."""
    out: NDArray[Any] = labels.masks() if isinstance(labels, CandidateLists) else labels
    return out


def _is_parquet(file: Path) -> bool:
    return file.suffix in (".parquet", ".pq")


def _files(path: str | Path | Sequence[str | Path]) -> list[Path]:
    suffixes = (".parquet", ".pq", ".arrow", ".feather")
    out: list[Path] = []
    for item in [path] if isinstance(path, (str, Path)) else path:
        item = Path(item)
        if item.is_dir():
            out += sorted(f for f in item.rglob("*") if f.suffix in suffixes)
        elif not item.exists():
            raise ValueError(f"path: expected a file or folder, got {item}, which is not there")
        elif item.suffix in suffixes:
            out.append(item)
        else:
            raise ValueError(f"path: expected a file that ends in {', '.join(suffixes)}, got {item}")
    if not out:
        raise ValueError(f"path: expected Parquet or Arrow files in {path}, got none")
    return out


def _layout(file: Path) -> tuple[list[str], list[int]]:
    """Column names, and the rows of every piece that can be read by itself."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ValueError("pyarrow: expected it to be installed to read files; pip install 'tproper[tables]'") from None
    try:
        if _is_parquet(file):
            with parquet.ParquetFile(file) as opened:
                meta = opened.metadata
                return opened.schema_arrow.names, [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
        with pa.memory_map(str(file)) as mapped:
            reader = pa.ipc.open_file(mapped)
            return reader.schema.names, [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
    except pa.ArrowInvalid as error:
        raise ValueError(f"path: expected a Parquet or Arrow file, got {file}: {error}") from None


def _taken(labels: Any, index: Any) -> Any:
    return labels.take(index) if isinstance(labels, CandidateLists) else labels[index]


def _joined(parts: list[tuple[NDArray[Any], Any]]) -> tuple[NDArray[Any], Any]:
    if len(parts) == 1:
        return parts[0]
    X, labels = np.concatenate([p[0] for p in parts]), [p[1] for p in parts]
    if labels[0] is None:
        return X, None
    return X, CandidateLists.joined(labels) if isinstance(labels[0], CandidateLists) else np.concatenate(labels)


def _cut(parts: list[tuple[NDArray[Any], Any]], n: int) -> tuple[tuple[NDArray[Any], Any], list[Any]]:
    """The first n rows, and the rest."""
    taken: list[tuple[NDArray[Any], Any]] = []
    for i, (X, labels) in enumerate(parts):
        if len(X) > n:
            taken.append((X[:n], _taken(labels, slice(0, n))))
            return _joined(taken), [(X[n:], _taken(labels, slice(n, None))), *parts[i + 1 :]]
        taken.append((X, labels))
        n -= len(X)
        if n == 0:
            return _joined(taken), parts[i + 1 :]
    return _joined(taken), []


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
        raise ValueError(f"options: expected none for batches that the caller makes, got {', '.join(sorted(options))}")
    return IterableSource(source)
