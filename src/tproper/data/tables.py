"""Tables: CSV and Parquet files read a block of rows at a time.

Nothing is guessed in silence. A CSV file is read as text and turned into numbers column by column, so that a value
that is not a number is reported with its row, whichever block of the file it stands in; text is never encoded, missing
values are never filled in, and what is only passed through keeps its spelling.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, check_room, checks
from ..errors import printable
from ..transitions import SET_SEPARATOR
from .columns import common_type, decoded, is_list, is_number
from .folders import check_file, check_same_columns, data_files
from .spelling import nearest
from .text_files import TableError, check_bytes, check_quotes, columns_of, gzipped, quotes_fit

if TYPE_CHECKING:
    import pyarrow as pa

MISSING = frozenset(["", "NA", "N/A", "NaN", "nan", "null"])  # spellings of a missing value in text
CELLS = 1 << 22  # numbers held at a time (32 MiB): rows per block = CELLS / columns
CSV_BLOCK = 1 << 22  # bytes of CSV parsed at a time (more if the header is longer); no row may be longer
LONGEST_HEADER = 1 << 28  # bytes
COLUMN = 10_000  # bytes that Arrow takes for a column of a CSV file; where it cannot have them, it aborts the process
# whole numbers whose spelling or digits a float would lose: +1, 007, and those of 15 digits or more
_MORE_THAN_A_FLOAT = r"^\+[0-9]+$|^[+-]?0[0-9]|^[+-]?[0-9]{15,}$"
TRUTH = {"true": "1", "True": "1", "TRUE": "1", "false": "0", "False": "0", "FALSE": "0"}


def arrow() -> Any:
    """pyarrow, or an error that names the extra to install."""
    try:
        import pyarrow
    except ImportError:
        raise TableError(
            "pyarrow: expected it to be installed, since tables are read with it; pip install 'tproper[tables]'"
        ) from None
    return pyarrow


def short(names: Sequence[str], limit: int = 8) -> str:
    """A list of names for a message: the first few, and how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def check_name(path: Path) -> None:
    """Refuse a name that Arrow cannot open."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        told = "expected a path in UTF-8, got bytes in it that are not; rename it"
        raise TableError(f"{printable(str(path), '')}: {told}") from None


def format_of(path: Path) -> str:
    """ "csv", "tsv" or "parquet", by the file's name; a folder holds Parquet files."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = path.with_suffix("").suffix.lower()
    if suffix in (".csv", ".tsv"):
        return suffix[1:]
    if suffix in (".parquet", ".pq") or path.is_dir():
        return "parquet"
    raise TableError(
        f"{path}: expected a name that ends in .csv, .tsv or .parquet (or .csv.gz to read), got {suffix!r}"
    )


class Table(ABC):
    """A file on disk: the names of its columns, and its rows in blocks. `open_table` makes one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.format = format_of(path)
        check_name(path)
        self.rows: int | None = None  # where they are known without reading everything
        self.names: list[str] = []
        self.in_folders: list[str] = []  # columns that stand in the names of folders (year=2024/), not in the files

    def __repr__(self) -> str:
        rows = "rows not counted" if self.rows is None else f"{self.rows:,} rows"
        names = checks.cut(printable(", ".join(self.names)), 80)
        return f"<table of {self.path}: {rows}, {len(self.names)} columns: {names}>"

    def _check_names(self) -> None:
        if not self.names:
            raise TableError(f"{self.path}: expected a table with named columns, got none")
        repeated = [n for n, count in Counter(self.names).items() if count > 1]
        if repeated:
            raise TableError(f"{self.path}: expected every column name once, got {repeated[0]!r} more than once")

    def require(self, name: str, option: str) -> str:
        """`name`, if the table has such a column; the error names the option that asked for it."""
        if name in self.names:
            return name
        hint = nearest(name, self.names)
        if len(self.names) == 1 and any(c in self.names[0] for c in ";\t"):
            hint = "; the file seems to use another separator than a comma"
        raise TableError(
            f"{option}: expected a column of {self.path}, got {name!r}{hint} (columns: {short(self.names)})"
        )

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Blocks of rows in order, with `columns` only (all by default); a CSV file's columns are text."""
        with _reading(self.path):
            reader = self._open(columns)
        while True:
            with _reading(self.path):
                batch = next(reader, None)
            if batch is None:
                return
            if batch.num_rows:
                yield batch

    @abstractmethod
    def _open(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Arrow's own reader."""

    @abstractmethod
    def types(self, columns: Sequence[str]) -> dict[str, pa.DataType]:
        """For each column, a type that holds all its values; a CSV file is read to its end to find it."""


class _CSV(Table):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        from pyarrow import csv

        self._block = CSV_BLOCK
        self._separator = "\t" if self.format == "tsv" else ","
        self._quotes_fit = False  # or known to
        with _reading(path):
            check_bytes(path)
            check_room(COLUMN * columns_of(path, self._separator), "the columns of a CSV file", "write Parquet instead")
            while not self.names:
                try:
                    # the header alone: types of the first block's values are not wanted
                    self.names = list(csv.open_csv(self._bytes(), *self._options(None)[:2]).schema.names)
                except ValueError as error:  # a header longer than the block looks like an empty file
                    if "Empty CSV" not in str(error) or path.stat().st_size == 0:
                        self._check_quotes()  # perhaps the reason
                        raise
                    if self._block >= LONGEST_HEADER:
                        raise self._without_header() from None
                    self._block *= 4
        self._check_names()

    def _without_header(self) -> TableError:
        if self.path.stat().st_size < LONGEST_HEADER:
            return TableError(f"{self.path}: expected a header and rows, got an empty file")
        return TableError(f"{self.path}: expected a header of at most {LONGEST_HEADER >> 20} MiB, got a longer line")

    def _options(self, columns: Sequence[str] | None) -> tuple[Any, Any, Any]:
        from pyarrow import csv, string

        return (
            csv.ReadOptions(block_size=self._block, use_threads=False),  # without threads errors know their row
            csv.ParseOptions(delimiter=self._separator, newlines_in_values=True),
            csv.ConvertOptions(
                column_types=dict.fromkeys(self.names, string()),
                include_columns=None if columns is None else list(columns),
                strings_can_be_null=False,
            ),
        )

    def _open(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        from pyarrow import csv

        self._check_quotes()
        return iter(csv.open_csv(self._bytes(), *self._options(columns)))

    def _bytes(self) -> Any:
        """The file's bytes, unpacked: Arrow itself knows gzip by .gz alone, not by .GZ."""
        import pyarrow as pa

        return pa.input_stream(str(self.path), compression="gzip" if gzipped(self.path) else None)

    def _check_quotes(self) -> None:
        """Before rows are read for the first time: Arrow's own threads could not call Python when a command ends."""
        if not self._quotes_fit:
            if not quotes_fit(self._bytes(), self._separator):
                check_quotes(self.path, self._separator)
            self._quotes_fit = True

    def types(self, columns: Sequence[str]) -> dict[str, pa.DataType]:
        """Integers, else floats, else text: the first that loses nothing of any value in the file."""
        import pyarrow as pa

        left = {name: [pa.int64(), pa.float64()] for name in columns}
        if columns:
            for batch in self.batches(columns):
                for name in columns:
                    column = missing_as_null(batch.column(name))
                    left[name] = [kind for kind in left[name] if _holds(column, kind)]
        return {name: [*kinds, pa.string()][0] for name, kinds in left.items()}


class _Parquet(Table):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        from pyarrow import dataset

        self._mixed: dict[str, str] = {}  # columns whose types no type can hold, and what they are
        with _reading(path):
            files = data_files(path, (".parquet", ".pq")) if path.is_dir() else [path]
            if not files:
                raise TableError(f"{path}: expected a folder with Parquet files, got none")
            found: dict[str, Any] = {
                "source": [str(file) for file in files],
                "format": "parquet",
                "partitioning": "hive",
                "partition_base_dir": str(path) if path.is_dir() else None,
            }
            self._data = dataset.dataset(**found)
            if len(files) > 1:
                self._data = dataset.dataset(**found, schema=self._agreed(files))
            self.names = list(self._data.schema.names)
            held = set(next(self._data.get_fragments()).physical_schema.names)
            parts = {part.partition("=")[0] for file in self._data.files for part in Path(file).parts if "=" in part}
            self.in_folders = [name for name in self.names if name in parts - held]
            self.rows = self._data.count_rows()
            for fragment in self._data.get_fragments():  # as their footers say: Arrow asks nobody
                largest = max((group.total_byte_size for group in fragment.row_groups), default=0)
                check_room(float(largest), f"a row group of {fragment.path}", "write smaller row groups")
        self._check_names()

    def _agreed(self, files: list[Path]) -> pa.Schema:
        """Every file has the same columns; the type of each is one that holds what all files have there.

        Arrow takes the types of the first file, and would make 1 of a 2 below a true, or round what follows a float32.
        """
        schemas = [fragment.physical_schema for fragment in self._data.get_fragments()]
        try:
            check_same_columns([(file, schema.names) for file, schema in zip(files, schemas, strict=True)])
        except ValueError as error:
            raise TableError(str(error).replace("path", str(self.path), 1)) from None
        schema = self._data.schema
        kinds = {own.remove_metadata(): file for own, file in zip(schemas, files, strict=True)}  # one file of each kind
        for name in schemas[0].names if len(kinds) > 1 else []:
            types = {own.field(name).type: file for own, file in kinds.items()}
            kind = common_type(types)
            if kind is None:
                first, other = next(pair for pair in combinations(types, 2) if common_type(pair) is None)
                self._mixed[name] = f"{first} in {types[first]} and {other} in {types[other]}"
            else:
                schema = schema.set(schema.get_field_index(name), schema.field(name).with_type(kind))
        return schema

    def _open(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for name in self.names if columns is None else columns:
            if name in self._mixed:
                rule = "expected the same type of values in every file"
                raise TableError(f"column {name!r}: {rule}, got {self._mixed[name]}; write the files alike")
        width = len(self.names if columns is None else columns)
        scanner = self._data.scanner(
            columns=None if columns is None else list(columns),
            batch_size=max(1024, CELLS // max(width, 1)),
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
        )
        return iter(scanner.to_batches())

    def types(self, columns: Sequence[str]) -> dict[str, pa.DataType]:
        """As the files say."""
        return {name: self._data.schema.field(name).type for name in columns}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what Arrow says about an unreadable file into one sentence that names the file."""
    try:
        yield
    except TableError:
        raise
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        raise TableError(f"{path}: {reason}") from None


def _reason(error: Exception) -> str | None:
    """Why a file cannot be read, in our words; None where the error is not about the file."""
    import pyarrow as pa

    text = " ".join(str(error).split())
    if "UTF8" in text or isinstance(error, UnicodeDecodeError):
        return "expected text in UTF-8, got other bytes; save the file as UTF-8"
    if isinstance(error, FileNotFoundError):
        return "expected a file to read, got a path that does not exist"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if "duplicate field names" in text:
        return "expected every column name once, got some more than once"
    if "straddl" in text:
        return f"expected shorter rows, got one of more than {CSV_BLOCK >> 20} MiB"
    if "Empty CSV" in text:
        return "expected a header and rows, got an empty file"
    if not isinstance(error, (pa.ArrowException, OSError)):
        return None
    ragged = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", text)
    if ragged:
        line, want, got = ragged.groups()
        where = f" in line {line}" if line else ""
        if want == "1" and ";" in text[ragged.end() :]:  # 1,5;2,5 below x;y
            where += "; the file seems to have semicolons and decimal commas: save it with commas and decimal points"
        return f"expected {want} values in every row as in the header, got {got}{where}"
    text = "".join(c if c.isprintable() else "?" for c in text).rstrip(".")
    return f"cannot be read, it may be cut short or of another format ({checks.cut(text, 160)})"


def open_table(path: str | Path) -> Table:
    """Open a .csv, .tsv or .parquet file, or a folder of Parquet files."""
    arrow()
    path = Path(path)
    if not path.exists():
        raise TableError(f"{path}: expected a file to read, got a path that does not exist")
    check_file(path)
    if format_of(path) == "parquet":
        return _Parquet(path)
    if path.is_dir():
        raise TableError(f"{path}: expected a file to read, got a directory")
    return _CSV(path)


def missing_as_null(column: pa.Array) -> pa.Array:
    """The column with nulls for the spellings of a missing value in text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(column.type):
        return column
    missing = pc.is_in(column, value_set=pa.array(sorted(MISSING)))
    return pc.if_else(missing, None, column) if pc.any(missing).as_py() else column


def _castable(column: pa.Array, kind: pa.DataType) -> bool:
    import pyarrow as pa

    try:
        column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _holds(column: pa.Array, kind: pa.DataType) -> bool:
    """Whether numbers of this kind keep all that the column's texts say: not that of 007, +1, long account numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _castable(column, kind):
        return False
    if pa.types.is_integer(kind):
        return bool(pc.all(pc.equal(column.cast(kind).cast(pa.string()), column), min_count=0).as_py())
    return not pc.any(pc.match_substring_regex(column, _MORE_THAN_A_FLOAT), min_count=0).as_py()


def numbers(column: pa.Array) -> FloatArray | None:
    """The column as float64, missing values as NaN; None where it holds anything but numbers or booleans."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds, column = pa.types, decoded(column)
    if kinds.is_string(column.type):
        column = missing_as_null(column)
        if not _castable(column, pa.float64()):  # perhaps for spaces around the numbers
            column = missing_as_null(pc.utf8_trim_whitespace(column))
        try:
            column = column.cast(pa.float64())
        except pa.ArrowInvalid:  # true and false are 1 and 0, but not among other numbers
            truth = pc.index_in(column, value_set=pa.array(list(TRUTH)))
            if not pc.all(pc.or_(pc.is_valid(truth), pc.is_null(column)), min_count=0).as_py():
                return None
            column = pc.take(pa.array(list(TRUTH.values())), truth)
    elif not is_number(column.type):
        return None
    if kinds.is_decimal(column.type) or kinds.is_boolean(column.type):
        column = column.cast(pa.float64() if kinds.is_decimal(column.type) else pa.int8())
    try:
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    except pa.ArrowInvalid:
        return None


def holds_truth(column: pa.Array) -> bool | None:
    """Whether a column of text has true and false for numbers; None where it is not text, or all missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = decoded(column)
    if not pa.types.is_string(column.type):
        return None
    values = missing_as_null(pc.utf8_trim_whitespace(column)).drop_null()
    return bool(pc.any(pc.is_in(values, value_set=pa.array(list(TRUTH)))).as_py()) if len(values) else None


def first_text(column: pa.Array) -> tuple[int, str]:
    """The first value of a column that is not a number, with its position; found by halving."""
    low, high = 0, len(column)  # the first `low` rows are numbers, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if numbers(column.slice(0, middle)) is None else (middle, high)
    return low, str(column[low].as_py())


def texts(column: pa.Array) -> tuple[NDArray[np.int64], list[str]]:
    """The column's distinct values as text, and for every row which of them it has (-1: null, or a null in its list).

    Whole numbers have no decimal point whatever their type, booleans are True and False, lists are joined by ``|``.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds, column = pa.types, decoded(column)
    if kinds.is_nested(column.type):
        members = column.type.value_type if is_list(column.type) else column.type
        if kinds.is_nested(members) or kinds.is_boolean(members):  # a mask says nothing of the order of classes
            raise TableError(f"expected a label, or a list of the names of candidates, in every row, got {column.type}")
        rows = column.to_pylist()
        values = [None if row is None or None in row else SET_SEPARATOR.join(map(_text, row)) for row in rows]
        column = pa.array(values, type=pa.string())
    elif kinds.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    encoded = column.dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    return codes, [_text(v) for v in encoded.dictionary.to_pylist()]


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        raise TableError("expected text or numbers in a label column, got bytes")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def numbers_among(values: Sequence[str]) -> NDArray[np.bool_]:
    """Which texts are numbers, as `numbers` reads them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(pa.array(list(values), type=pa.string()))
    out = np.zeros(len(values), dtype=bool)
    spelled = pc.match_substring_regex(texts, r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?inf")
    out[:] = spelled.to_numpy(zero_copy_only=False)
    return out


def arrow_texts(column: pa.Array, name: str) -> tuple[NDArray[np.int64], list[str]]:
    """`texts` of a feature column: what is missing, however it is spelled, has no value."""
    import pyarrow as pa

    kind = decoded(column).type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        raise TableError(
            f"column {name!r}: expected numbers, text or dates, got {kind}; leave it out with --ignore, or write it as "
            "one of these"
        )
    codes, values = texts(column)
    place: dict[str, int] = {}
    own = [-1 if v in MISSING else place.setdefault(v, len(place)) for v in values]
    return np.array([*own, -1], dtype=np.int64)[codes], list(place)


def joined_texts(parts: Sequence[tuple[NDArray[np.int64], list[str]]]) -> tuple[NDArray[np.int64], list[str]]:
    """Columns of text, one below the other."""
    place: dict[str, int] = {}
    out = []
    for codes, values in parts:
        own = np.array([*(place.setdefault(v, len(place)) for v in values), -1], dtype=np.int64)
        out.append(own[codes])
    return np.concatenate(out), list(place)
