"""Which files a folder of data holds: one rule for tables in memory and for streams."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

SUFFIXES = (".parquet", ".pq", ".arrow", ".feather")


def data_files(folder: Path, suffixes: Sequence[str] = SUFFIXES) -> list[Path]:
    """The files with one of these suffixes, in all sub-folders, sorted by path; each of them once.

    Links are followed, but no folder is entered and no file is read twice: a link that leads back to a folder above it
    adds nothing. Names that begin with a dot or an underscore are notes of the program that wrote the data.
    """
    seen: set[str] = set()
    out = []
    for file in sorted(_walk(folder, {os.path.realpath(folder)})):
        real = os.path.realpath(file)
        if file.suffix.lower() in suffixes and real not in seen:
            seen.add(real)
            check_file(file)
            out.append(file)
    return out


def check_file(path: Path) -> None:
    """Data are read more than once; a pipe would give nothing the second time, and the reader would wait forever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError(
            f"{path}: expected a file, which can be read more than once, got a pipe or a device; "
            "save it to a file first"
        )


def _walk(folder: Path, above: set[str]) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if not entry.is_dir():
            yield entry
        elif os.path.realpath(entry) not in above:
            yield from _walk(entry, above | {os.path.realpath(entry)})


def check_same_columns(names: Sequence[tuple[Path, Sequence[str]]]) -> None:
    """Every file has the columns of the first one: what only some have is neither dropped nor filled in."""
    first, expected = names[0]
    for file, columns in names[1:]:
        more, less = set(columns) - set(expected), set(expected) - set(columns)
        if more or less:
            name = min(more or less)
            got = f"{name!r} in {file} only" if more else f"no {name!r} in {file}"
            raise ValueError(
                f"path: expected the same columns in every file, those of {first}, got others in {file} ({got}); "
                "write the files alike, or read them one by one"
            )
