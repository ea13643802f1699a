"""The table of `tproper train`: its columns, and whether it is read into memory or streamed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..data import Table, format_of, open_table
from . import streamed_training as streamed
from . import training
from .codec import parse_sources
from .errors import check_writable
from .schema import feature_columns, split_names
from .training import Report, Settings

__all__ = ["Columns", "Settings", "fit_table"]


@dataclass(frozen=True)
class Columns:
    """What the options say of the table's columns."""

    label: str
    transition: list[str]
    source: str | None
    features: str | None
    ignore: str | None
    classes: str | None
    missing: str


def fit_table(data: Path, columns: Columns, settings: Settings, out: Path, stream: bool) -> Report:
    """Everything that can be refused before rows are read is refused; then train."""
    check_writable(training.model_folder(out, settings.force))
    specs = parse_sources(columns.transition, columns.source)
    table = open_table(data)
    table.require(columns.label, "--label")
    if columns.source is not None:
        table.require(columns.source, "--source-column")
    features = feature_columns(
        table,
        (columns.label, columns.source),
        split_names(columns.features, "--features"),
        split_names(columns.ignore, "--ignore"),
    )
    classes = split_names(columns.classes, "--classes")
    names = {"features": features, "label": columns.label, "source": columns.source, "specs": specs}
    if stream:
        _check_streamed(table, columns, features, settings)
        return streamed.train(table, data, names, classes, settings, out)
    rows = training.read_rows(
        table, columns.label, columns.source, features, specs, classes, columns.missing, settings.loss or "forward"
    )
    return training.train(rows, settings, names, data, out)


def _check_streamed(table: Table, columns: Columns, features: list[str], settings: Settings) -> None:
    unfit = {
        "--tune": settings.tune,
        "--source-column": columns.source is not None,
        "--missing uninformative": columns.missing != "drop",
    }
    for option, given in unfit.items():
        if given:
            raise ValueError(f"--stream: expected it without {option}, which needs the whole table in memory")
    if format_of(table.path) != "parquet":
        raise ValueError(f"--stream: expected a Parquet file or a folder of them, got {table.path}")
    outside = [name for name in (*features, columns.label) if name in table.in_folders]
    if outside:
        raise ValueError(
            f"--stream: expected columns that the files hold, got {outside[0]!r}, which the names of their folders "
            "hold; leave it out with --ignore, write it into the files, or train without --stream"
        )
