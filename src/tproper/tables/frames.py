"""Any table: a file, or a frame of any library, read in blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..data import CELLS, Table, arrow, open_table
from ..errors import InputError
from ..inputs import as_arrow, column_names, take_columns
from .terms import told

if TYPE_CHECKING:
    import pyarrow as pa


@told
def read_table(data: Any) -> Table:
    """A table of rows with named columns, from a file or a frame.

    Parameters
    ----------
    data : path, frame or dict
        A .csv, .tsv or .parquet file, or a folder of Parquet files; or a frame of pandas, polars or Arrow, or a dict of
        columns. A file is opened and not yet read.

    Returns
    -------
    Table
        ``.names``, ``.rows`` (where they are known without reading everything), ``.batches(columns)``.

    Examples
    --------
    >>> import tproper as tp
    >>> table = tp.read_table({"x": [1.0, 2.0], "label": ["a", "b"]})
    >>> table.names, table.rows
    (['x', 'label'], 2)
    """
    if isinstance(data, Table):
        return data
    if isinstance(data, (str, PathLike)):
        return open_table(str(data))
    return FrameTable(data)


class FrameTable(Table):
    """A frame in memory as a table; its values are kept as they are."""

    format = "frame"

    def __init__(self, frame: Any) -> None:
        pa = arrow()
        names = column_names(frame)
        if names is None:
            raise InputError(
                f"data: expected a path, a frame or a dict of columns, got {type(frame).__name__}, which has no names"
            )
        self.path: Any = "the frame"
        self.names, self.in_folders = names, []
        if not names:
            raise InputError("data: expected a table with named columns, got none")
        columns = [as_arrow(c) for c in take_columns(frame, names)]
        lengths = sorted({len(c) for c in columns})
        if len(lengths) > 1:
            raise InputError(f"data: expected columns of one length, got {lengths[0]} and {lengths[-1]}")
        self.rows = lengths[0]
        self._table = pa.Table.from_arrays(columns, names=names)

    def _open(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        some = self._table if columns is None else self._table.select(list(columns))
        return iter(some.to_batches(max_chunksize=max(1024, CELLS // max(some.num_columns, 1))))

    def types(self, columns: Sequence[str]) -> dict[str, pa.DataType]:
        """As the frame says."""
        return {name: self._table.schema.field(name).type for name in columns}
