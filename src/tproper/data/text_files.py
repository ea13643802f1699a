"""The bytes of text files: packed ones, other formats by their names, and quotes that swallow rows.

A quote at the beginning of a cell that is not closed makes one cell of all rows up to the next quote, and Arrow says
nothing. Where each quote opens a cell or closes one (`quotes_fit`, fast), all is well; where one does not, Python's
parser says whether a cell went over a line on its account (`check_quotes`).
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from .._core import other_encoding
from ..errors import InputError

_OTHER_FORMATS = {
    b"\x1f\x8b": "bytes packed by gzip; give the file a name that ends in .csv.gz, or unpack it",
    b"PK\x03\x04": "a zip archive, as Excel workbooks are; save the table as CSV",
    b"PAR1": "a Parquet file; give it a name that ends in .parquet",
}
_BLOCK = 1 << 22  # bytes
_LONGEST_CELL = 1 << 28


class TableError(InputError):
    """A table that cannot be used, and why."""


def gzipped(path: Path) -> bool:
    """By the file's name."""
    return path.suffix.lower() == ".gz"


def check_bytes(path: Path) -> None:
    """Refuse another encoding or format by its name: otherwise its bytes might pass for an odd table."""
    try:
        with gzip.open(path) if gzipped(path) else path.open("rb") as file:
            start = file.read(4)
    except (EOFError, zlib.error, gzip.BadGzipFile):  # reported when it is read
        return
    other = next((words for mark, words in _OTHER_FORMATS.items() if start.startswith(mark)), None)
    if other is not None:
        raise TableError(f"{path}: expected text, got {other}")
    name = other_encoding(start)
    if name is not None:
        raise TableError(f"{path}: expected text in UTF-8, got {name}; save the file as UTF-8")


def columns_of(path: Path, separator: str) -> int:
    """About how many columns the first line of a file has: separators in names count, too."""
    count, rest = 1, _LONGEST_CELL
    try:
        with gzip.open(path) if gzipped(path) else path.open("rb") as file:
            while rest > 0 and (data := file.read(_BLOCK)):
                line, end, _ = data.partition(b"\n")
                count, rest = count + line.count(separator.encode()), rest - len(data)
                if end:
                    break
    except (EOFError, zlib.error, gzip.BadGzipFile):  # reported when it is read
        pass
    return count


def check_quotes(path: Path, separator: str) -> None:
    """Refuse a quote that makes one cell of several lines and does not end it, or is never closed."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        with gzip.open(path) if gzipped(path) else path.open("rb") as file:
            text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
            reader = csv.reader(text, delimiter=separator, strict=True)
            while True:
                start = reader.line_num
                try:
                    if next(reader, None) is None:
                        return
                except csv.Error as error:
                    open_still = "end of data" in str(error)
                    if open_still or reader.line_num > start + 1:
                        more = f"makes one cell of the lines up to {reader.line_num}"
                        end = "is never closed" if open_still else more
                        raise TableError(
                            f"{path}: expected quotes in pairs around a cell, got one in line {start + 1} that {end}; "
                            "close it, or write every quote inside of a cell twice"
                        ) from None
    finally:
        csv.field_size_limit(before)


def quotes_fit(source: Any, separator: str) -> bool:
    """Whether each quote in a binary file opens a cell or closes one; of others `check_quotes` knows more."""
    edges = np.zeros(256, dtype=bool)  # bytes that stand beside the quotes of a cell
    edges[[*b'\r\n"', ord(separator)]] = True
    last, count = b"\n", 0
    while data := source.read(_BLOCK):
        if last == b'"' or b'"' in data:
            codes = np.frombuffer(last + data, dtype=np.uint8)
            at = np.flatnonzero(codes == ord('"'))
            first = count - (last == b'"')  # the number of the first quote among these
            opens = (first + np.arange(len(at))) % 2 == 0
            opening, closing = at[opens], at[~opens]
            before = codes[opening[opening > 0] - 1]
            after = codes[closing[closing < len(codes) - 1] + 1]  # that of the last byte comes with the next block
            if not (edges[before].all() and edges[after].all()):
                return False
            count = first + len(at)
        last = data[-1:]
    return count % 2 == 0
