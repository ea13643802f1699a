"""Records outside a store: JSON lines and Parquet files, each record with its checksum."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tproper.extension import Mark, json_text, write_file

from .records import COLUMNS, NESTED, SEAL, Record, RecordError, check_record, checksum, encoded, kernels_of, short

#: Endings of files of records.
SUFFIXES = (".jsonl", ".parquet")


def check_suffix(path: Path) -> None:
    """Refuse a file that is neither JSON lines nor Parquet."""
    if path.suffix not in SUFFIXES:
        raise RecordError(f"expected a file that ends in .jsonl or .parquet, got {path}")


def export_records(records: Iterable[Record], path: str | Path, since: Mark | str = "now") -> None:
    """Write records as JSON lines (``.jsonl``) or Parquet (``.parquet``, needs pandas and pyarrow), with checksums."""
    path = Path(path)
    check_suffix(path)
    rows = [check_record(row, f"record {number} for {path}") for number, row in enumerate(records, start=1)]
    if path.suffix == ".jsonl":
        lines = (json_text(row | {SEAL: checksum(row)}) for row in rows)
        write_file(path, "".join(f"{line}\n" for line in lines).encode(), since=since)
        return
    import pandas as pd

    flat = [{name: encoded(row, name) for name in COLUMNS} | {SEAL: checksum(row)} for row in rows]
    table = pd.DataFrame(flat, columns=[*COLUMNS, SEAL])
    write_file(path, table.to_parquet(None, index=False), since=since)


def read_records(path: str | Path) -> list[Record]:
    """The records of one file, each checked; its id must follow from its configuration and seed."""
    path = Path(path)
    check_suffix(path)
    return _parquet_records(path) if path.suffix == ".parquet" else _json_records(path)


def _json_records(path: Path) -> list[Record]:
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            rows.append(check_record(json.loads(line), where))
        except json.JSONDecodeError as error:
            raise RecordError(
                f"{where}: expected JSON, got something else ({error.msg}, column {error.colno})"
            ) from error
        except UnicodeDecodeError as error:
            raise RecordError(f"{where}: expected JSON in UTF-8, got other bytes") from error
        except RecursionError as error:
            raise RecordError(f"{where}: expected a record, got JSON that is nested too deeply") from error
    return rows


def _parquet_records(path: Path) -> list[Record]:
    import pyarrow
    import pyarrow.parquet

    try:
        flat = pyarrow.parquet.ParquetFile(path).read().to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise RecordError(f"{path}: expected a Parquet file, got something else ({error})") from error
    rows = []
    for number, row in enumerate(flat, start=1):
        where = f"{path}, row {number}"
        for name in set(COLUMNS) & set(row):
            if name in NESTED:
                try:
                    row[name] = json.loads(row[name] or "null")
                except (TypeError, ValueError, RecursionError) as error:
                    raise RecordError(f"{where}: expected JSON in {name}, got {short(row[name])}") from error
            elif COLUMNS[name].startswith("INTEGER") and isinstance(row[name], float) and row[name].is_integer():
                row[name] = int(row[name])  # a column of whole numbers with a null is written as floats
        rows.append(check_record(row, where))
    return rows


def gather(source: str | Path) -> list[Record]:
    """The records of one file, or of every ``.jsonl`` and ``.parquet`` file of a folder; each trial once.

    Copies of a record count once. Two records of a trial that differ cannot both be right, unless their kernels differ.
    """
    source = Path(source)
    if not source.exists():
        raise RecordError(f"expected a file or folder of records, got {source}, which does not exist")
    files = [source]
    if source.is_dir():
        files = sorted(path for path in source.iterdir() if path.suffix in SUFFIXES)
    unique: dict[tuple[str, str], Record] = {}
    differing: dict[str, None] = {}
    for file in files:
        for row in read_records(file):
            if unique.setdefault((row["id"], kernels_of(row)), row) != row:
                differing[row["id"]] = None
    if differing:
        raise RecordError(f"{source}: expected one record per trial, got different ones of {', '.join(differing)}")
    return list(unique.values())
