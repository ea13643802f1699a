"""Training from Parquet in constant memory: blocks of rows go by, nothing is held but the model."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._sources import ParquetSource
from ..streaming import StreamProgress, fit_stream
from ..tabular import MISSING, Table, texts
from ._labels import LabelCodec, resolve
from ._tables import Schema, watched
from ._training import Report, Settings, finish, make_schema

EPOCHS = 5  # passes over data that do not fit in memory, unless --epochs says otherwise
BATCH = 1024


class _Scaled:
    """A source whose features are standardised as they go by."""

    def __init__(self, source: ParquetSource, schema: Schema) -> None:
        self.source, self.schema = source, schema
        self.rows: int | None = source.rows

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[Any, Any]]:
        for X, labels in self.source.batches(epoch, skip):
            yield self.schema.inputs(X.astype(np.float64)), labels


def scan_labels(table: Table, label: str) -> Counter[str]:
    """How often every text occurs in the label column, in one pass over that column alone."""
    counts: Counter[str] = Counter()
    missing = 0
    for batch in watched(table.batches([label]), "labels", table.rows, lambda b: b.num_rows):
        codes, values = texts(batch.column(label))
        found, times = np.unique(codes, return_counts=True)
        for code, n in zip(found.tolist(), times.tolist(), strict=True):
            if code < 0 or values[code] in MISSING:
                missing += n
            else:
                counts[values[code]] += n
    if missing:
        raise ValueError(
            f"--stream: expected a label in every row of the column {label!r}, got {missing:,} rows without"
        )
    if len(counts) < 2:
        raise ValueError(f"--label: expected at least two different labels in the column {label!r}, got {len(counts)}")
    return counts


def train(
    table: Table,
    data: Path,
    columns: dict[str, Any],
    classes: Sequence[str] | None,
    settings: Settings,
    out: Path,
) -> Report:
    """Three passes and more: the labels, the features' means and deviations, then one for every epoch.

    Interrupted, the same command goes on from a checkpoint beside the model's folder, with the same batches as if it
    had never stopped.
    """
    label, specs = columns["label"], columns["specs"]
    counts = scan_labels(table, label)
    transition, names = resolve(specs, list(counts), classes, None)
    codec = LabelCodec(transition, names)

    def encode(column: Any) -> Any:
        return codec.encode(column, None, column=label)[0]

    source = ParquetSource(
        data, label, columns["features"], batch_size=BATCH, seed=settings.seed, dtype=np.float64, encode=encode
    )
    schema = make_schema(codec, source.moments() if settings.standardize else None, columns)
    estimator = settings.estimator(transition, names)
    checkpoint = out.parent / f".{out.name}.stream.safetensors"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    epochs = settings.epochs or EPOCHS
    with _bar(source.rows * epochs) as advance:
        fit_stream(estimator, _Scaled(source, schema), epochs=epochs, checkpoint=checkpoint, progress=advance)
    facts = {
        "data": str(data),
        "rows": source.rows,
        "held_out": 0,
        "dropped": 0,
        "blank": 0,
        "labels": dict(counts.most_common()),
        "transition": transition.name,
        "warnings": [],
        "no_scores": "no rows were held out of a stream; run `tproper evaluate` on another table",
    }
    report = finish(estimator, schema, settings, facts, None, out)
    checkpoint.unlink(missing_ok=True)
    return report


class _bar:
    """A progress bar with an estimate on stderr, where that is a terminal."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.progress: Any = None

    def __enter__(self) -> Callable[[StreamProgress], None]:
        if not sys.stderr.isatty():
            return lambda at: None
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f}%"),
            TimeRemainingColumn(),
        )
        self.progress = Progress(*columns, console=Console(stderr=True), transient=True).__enter__()
        task = self.progress.add_task("training", total=self.total)

        def advance(at: StreamProgress) -> None:
            self.progress.update(task, completed=at.rows, description=f"epoch {at.epoch + 1}")

        return advance

    def __exit__(self, *error: Any) -> None:
        if self.progress is not None:
            self.progress.__exit__(*error)
