"""The table of `tproper train`: its columns, and whether it is read into memory or streamed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..data import Table, format_of, open_table
from . import streamed_training as streamed
from . import training
from .errors import check_writable
from .reading import LabelColumns, LabelOptions, label_columns, read
from .resolving import annotators_of_file, parse_sources
from .rows import estimate_kind, make_rows
from .schema import split_names
from .training import Report, Settings

__all__ = ["Columns", "LabelOptions", "Settings", "fit_table"]


@dataclass(frozen=True)
class Columns:
    """What the options say of the table's columns."""

    labels: LabelOptions
    transition: list[str]
    features: str | None
    ignore: str | None
    classes: str | None
    missing: str


def fit_table(data: Path, columns: Columns, settings: Settings, out: Path, stream: bool) -> Report:
    """Everything that can be refused before rows are read is refused; then train."""
    check_writable(training.model_folder(out, settings.force))
    specs = parse_sources(columns.transition, columns.labels.source, columns.labels.several)
    kind = estimate_kind(specs)
    table = open_table(data)
    labels = label_columns(table, columns.labels)
    if "" in specs and kind is None and annotators_of_file(specs[""]) is not None:
        labels = labels.of_annotators()
    features = labels.features(columns.features, columns.ignore)
    classes = split_names(columns.classes, "--classes")
    names = {"features": features, "label": labels.label, "source": labels.source, "specs": specs}
    if stream:
        _check_streamed(table, columns, labels, features, settings, kind is not None)
        return streamed.train(table, data, names, classes, settings, out)
    got = read(labels, features)
    rows = make_rows(got, labels, features, specs, classes, columns.missing, settings.loss or "forward", settings.seed)
    return training.train(rows, settings, names, data, out)


def _check_streamed(
    table: Table, columns: Columns, labels: LabelColumns, features: list[str], settings: Settings, estimated: bool
) -> None:
    unfit = {
        "--tune": settings.tune,
        "--source-column": labels.source is not None,
        "--missing uninformative": columns.missing != "drop",
        "answers of several annotators": labels.several,
        "--true-label": labels.true is not None,
        "--group": labels.group is not None,
        "--transition estimate": estimated,
    }
    for option, given in unfit.items():
        if given:
            raise ValueError(f"--stream: expected it without {option}, which needs the whole table in memory")
    if format_of(table.path) != "parquet":
        raise ValueError(f"--stream: expected a Parquet file or a folder of them, got {table.path}")
    outside = [name for name in (*features, labels.label) if name in table.in_folders]
    if outside:
        raise ValueError(
            f"--stream: expected columns that the files hold, got {outside[0]!r}, which the names of their folders "
            "hold; leave it out with --ignore, write it into the files, or train without --stream"
        )
