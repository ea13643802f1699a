"""Tables written a block of rows at a time."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from .columns import decoded, is_list
from .tables import arrow, missing_as_null, texts
from .text_files import TableError

if TYPE_CHECKING:
    import pyarrow as pa


def write_all(stream: IO[bytes], content: bytes) -> None:
    """Write everything: an unbuffered stream may take a part only, and says how much."""
    rest = memoryview(content)
    while rest:
        taken = stream.write(rest)
        if taken is None:  # nothing at all, for now: the stream does not block
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[taken:]


class TableWriter:
    """Writes blocks of columns to a CSV or Parquet file, or CSV to an open binary stream.

    CSV values are quoted only where they must be, so that what is passed through keeps its spelling.
    """

    def __init__(self, target: Path | IO[bytes], kind: str, types: Mapping[str, pa.DataType] | None = None) -> None:
        self._arrow = arrow()
        self.kind = kind
        self._types = dict(types or {})
        self._parquet: Any = None
        self._target = target
        self._stream: IO[bytes] | None = None
        if kind != "parquet":
            self._stream = target.open("wb") if isinstance(target, Path) else target
        self._started = False

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._parquet is not None:
            self._parquet.close()
        if self._stream is not None and isinstance(self._target, Path):
            self._stream.close()

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """One block of rows; every block has the same columns."""
        pa = self._arrow
        arrays = {n: pa.array(c) if isinstance(c, np.ndarray) else c for n, c in columns.items()}
        if self.kind == "parquet":
            from pyarrow import parquet

            block = pa.table({n: self._typed(n, c) for n, c in arrays.items()})
            if self._parquet is None:
                self._parquet = parquet.ParquetWriter(self._target, block.schema)
            self._parquet.write_table(block)
            return
        assert self._stream is not None
        separator = "\t" if self.kind == "tsv" else ","
        if not self._started:
            write_all(self._stream, _csv_lines([pa.array([n]) for n in arrays], separator))
            self._started = True
        write_all(self._stream, _csv_lines([_as_text(n, c) for n, c in arrays.items()], separator))

    def _typed(self, name: str, column: pa.Array) -> pa.Array:
        kind = self._types.get(name)
        return column if kind is None or column.type == kind else missing_as_null(column).cast(kind)


def _as_text(name: str, column: pa.Array) -> pa.Array:
    """The column as text, lists as a|b|c; what text cannot hold is refused."""
    import pyarrow as pa

    column = decoded(column)
    try:
        if is_list(column.type):
            codes, values = texts(column)
            if (codes < 0).sum() == column.null_count:  # else a member is missing in some list
                return pa.array([None if c < 0 else values[c] for c in codes], type=pa.string())
        elif not pa.types.is_nested(column.type):
            return column.cast(pa.string())
    except (TableError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    raise TableError(
        f"column {name!r}: expected values that can be written as text, got {column.type}; write Parquet instead"
    )


def _csv_lines(columns: list[pa.Array], separator: str) -> bytes:
    import pyarrow.compute as pc

    cells = []
    for array in columns:
        array = pc.fill_null(array, "")
        special = pc.match_substring_regex(array, f'["\r\n{separator}]')
        if pc.any(special).as_py():
            quoted = pc.binary_join_element_wise('"', pc.replace_substring(array, '"', '""'), '"', "")
            array = pc.if_else(special, quoted, array)
        cells.append(array)
    if len(cells) == 1:  # a lone empty cell must not become a blank line, which would not be a row at all
        cells[0] = pc.if_else(pc.equal(cells[0], ""), '""', cells[0])
    lines = pc.binary_join_element_wise(*cells, separator)
    return ("\n".join(lines.to_pylist()) + "\n").encode()
