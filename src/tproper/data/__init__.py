"""Columns, tables, sources larger than memory, streamed training and its checkpoints; the one progress bar.

Imports from `losses` and the packages above it.
"""

from .checkpoints import CheckpointError, StreamProgress
from .columns import CandidateLists, ColumnError, check_finite, first_inexact, is_list
from .folders import check_file
from .moments import Moments
from .progress import Bar, watched
from .sources import Batch, IterableSource, ParquetSource, Source, as_source
from .spelling import float_twins, look_alikes, misreadings, nearest
from .stream import Learner, fit_stream
from .tables import (
    CELLS,
    MISSING,
    TRUTH,
    Table,
    arrow,
    arrow_texts,
    check_name,
    first_text,
    format_of,
    holds_truth,
    joined_texts,
    numbers,
    numbers_among,
    open_table,
    short,
    texts,
)
from .writing import TableWriter, write_all

__all__ = [
    "CELLS",
    "MISSING",
    "TRUTH",
    "Bar",
    "Batch",
    "CandidateLists",
    "CheckpointError",
    "ColumnError",
    "IterableSource",
    "Learner",
    "Moments",
    "ParquetSource",
    "Source",
    "StreamProgress",
    "Table",
    "TableWriter",
    "arrow",
    "arrow_texts",
    "as_source",
    "check_file",
    "check_finite",
    "check_name",
    "first_inexact",
    "first_text",
    "fit_stream",
    "float_twins",
    "format_of",
    "holds_truth",
    "is_list",
    "joined_texts",
    "look_alikes",
    "misreadings",
    "nearest",
    "numbers",
    "numbers_among",
    "open_table",
    "short",
    "texts",
    "watched",
    "write_all",
]
