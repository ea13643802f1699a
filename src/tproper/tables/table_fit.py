"""The table that a model is trained on: its columns, and whether it is read into memory or streamed."""

from __future__ import annotations

from pathlib import Path

from ..data import Table
from ..errors import InputError
from ..estimation import one_thread
from . import streamed_training as streamed
from . import training
from .labels import annotators_of_file, parse_sources
from .options import Settings, TableOptions, listed_specs
from .reading import LabelColumns, label_columns, read
from .rows import estimate_kind, make_rows
from .schema import listed_classes, split_names
from .training import Fitted


def fit_table(table: Table, options: TableOptions, settings: Settings, checkpoint: Path | None) -> Fitted:
    """Everything that can be refused before rows are read is refused; then train."""
    specs = parse_sources(listed_specs(options.transition), options.source_column, options.several)
    kind = estimate_kind(specs)
    columns = label_columns(table, options)
    if "" in specs and kind is None and annotators_of_file(specs[""]) is not None:
        columns = columns.of_annotators()
    features = columns.features(options.features, options.ignore)
    classes = listed_classes(options.classes)
    told = {name: spec if isinstance(spec, str) else getattr(spec, "name", "a matrix") for name, spec in specs.items()}
    names = {"features": features, "label": columns.label, "source": columns.source, "specs": told}
    if options.stream:
        _check_streamed(table, options, columns, features, settings, kind is not None)
        return streamed.train(table, names, specs, classes, settings, checkpoint)
    kinds = asked_kinds(options, columns, features)
    rows = make_rows(read(columns, features, kinds), specs, classes, options.missing, settings)
    with one_thread(len(rows) * len(rows.kinds) * rows.transition.num_classes):
        return training.train(rows, settings, names, str(table.path))


def asked_kinds(options: TableOptions, columns: LabelColumns, features: list[str]) -> dict[str, str]:
    """What columns are by --text, --category and --numeric."""
    out: dict[str, str] = {}
    for option, kind in (("--text", "text"), ("--category", "category"), ("--numeric", "number")):
        for name in split_names(getattr(options, option[2:]), option) or []:
            columns.home.require(name, option)
            if name not in features:
                raise InputError(f"{option}: expected the names of features, got {name!r}, which is none")
            if out.setdefault(name, kind) != kind:
                raise InputError(f"{option}: expected every column in one list, got {name!r} in two")
    return out


def _check_streamed(
    table: Table, options: TableOptions, columns: LabelColumns, features: list[str], settings: Settings, estimated: bool
) -> None:
    unfit = {
        "--tune": settings.tune,
        "--model boosting": settings.model == "boosting",
        "--source-column": columns.source is not None,
        f"--missing {options.missing}": options.missing != "drop",
        "answers of several annotators": columns.several,
        "--true-label": columns.true is not None,
        "--group": columns.group is not None,
        "--transition estimate": estimated,
        "--text": options.text is not None,
        "--category": options.category is not None,
    }
    for option, given in unfit.items():
        if given:
            raise InputError(f"--stream: expected it without {option}, which needs the whole table in memory")
    if table.format != "parquet":
        raise InputError(f"--stream: expected a Parquet file or a folder of them, got {table.path}")
    outside = [name for name in (*features, columns.label) if name in table.in_folders]
    if outside:
        raise InputError(
            f"--stream: expected columns that the files hold, got {outside[0]!r}, which the names of their folders "
            "hold; leave it out with --ignore, write it into the files, or train without --stream"
        )
