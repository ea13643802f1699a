"""Which files a folder of data holds: one rule for tables in memory and for streams."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import InputError

SUFFIXES = (".parquet", ".pq", ".arrow", ".feather")


def data_files(folder: Path, suffixes: Sequence[str] = SUFFIXES) -> list[Path]:
    """The files with one of these suffixes, in all sub-folders, sorted by path; each of them once.

    Numbers in names count as numbers: part-2 comes before part-10, and rows in the order in which Arrow and Dask wrote
    them. Links are followed, but no folder is entered and no file read twice. Names that begin with a dot or an
    underscore are notes of the program that wrote the data.
    """
    files: dict[str, Path] = {}  # by where links lead
    for file in sorted(_walk(folder, {os.path.realpath(folder)}), key=_by_number):
        if file.suffix.lower() in suffixes:
            files.setdefault(os.path.realpath(file), file)
    for file in files.values():
        check_file(file)
    return list(files.values())


def _by_number(path: Path) -> tuple[list[list[str | int]], Path]:
    """Text and numbers take turns in every part of a path, so that like is compared with like."""
    pieces = [re.split(r"(\d+)", part) for part in path.parts]
    return [[int(p) if i % 2 else p for i, p in enumerate(part)] for part in pieces], path


def check_file(path: Path) -> None:
    """Refuse pipes: data are read more than once, and we would wait forever for a pipe to give them again."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(
            f"{path}: expected a file, which can be read more than once, got a pipe or a device; "
            "save it to a file first"
        )


def _walk(folder: Path, above: set[str]) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith((".", "_")):
            continue
        if not entry.is_dir():
            yield entry
        elif os.path.realpath(entry) not in above:
            yield from _walk(entry, above | {os.path.realpath(entry)})


def check_same_columns(names: Sequence[tuple[Path, Sequence[str]]]) -> None:
    """Refuse files whose columns are not those of the first: what only some have is neither dropped nor filled in."""
    first, expected = names[0]
    for file, columns in names[1:]:
        more, less = set(columns) - set(expected), set(expected) - set(columns)
        if more or less:
            name = min(more or less)
            got = f"{name!r} in {file} only" if more else f"no {name!r} in {file}"
            raise InputError(
                f"path: expected the same columns in every file, those of {first}, got others in {file} ({got}); "
                "write the files alike, or read them one by one"
            )
