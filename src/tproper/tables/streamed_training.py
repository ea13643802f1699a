"""Training from Parquet in constant memory: blocks of rows go by, nothing is held but the model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .._core import sweep
from ..data import (
    MISSING,
    Bar,
    CheckpointError,
    ColumnError,
    ParquetSource,
    StreamProgress,
    Table,
    check_finite,
    fit_stream,
    is_list,
    texts,
    watched,
)
from ..errors import InputError
from ..inputs import Inputs
from ..transitions import Encoded
from .labels import LabelCodec, label_notes, resolve
from .options import Settings
from .schema import FeatureReader
from .training import Fitted, Quality, described, make_estimator, make_schema

FEWEST_STEPS = 1000  # with fewer a model has hardly left its beginning
EPOCHS = 5  # passes over data that do not fit in memory, unless --epochs says otherwise
BATCH = 1024


class _Scaled:
    """A source whose features are standardised as they go by."""

    def __init__(self, source: ParquetSource, given: Inputs, dtype: Any) -> None:
        self.source, self.given = source, given
        self.dtype = dtype  # what the model takes: a number that is too large for it would be infinite there
        self.rows: int | None = source.rows

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[Any, Any]]:
        for X, labels in self.source.batches(epoch, skip):
            inputs = self.given.numbers.encode(X.astype(np.float64))
            with np.errstate(over="ignore"):
                check_finite(inputs.astype(self.dtype, copy=False), self.given.names)
            yield inputs, Encoded(torch.as_tensor(labels))

    def identity(self) -> dict[str, Any]:
        """The batches are those of the files, at this scale."""
        return self.source.identity() | {"standardize": np.array([self.given.numbers.centre, self.given.numbers.scale])}


def scan_labels(table: Table, label: str) -> Counter[str]:
    """How often every text occurs in the label column, in one pass over that column alone."""
    counts: Counter[str] = Counter()
    missing, row = 0, 1
    for batch in watched(table.batches([label]), "labels", table.rows, lambda b: b.num_rows):
        _check_members(batch.column(label), label, row)
        row += batch.num_rows
        codes, values = texts(batch.column(label))
        present, times = np.unique(codes, return_counts=True)
        for code, n in zip(present.tolist(), times.tolist(), strict=True):
            if code < 0 or values[code] in MISSING:
                missing += n
            else:
                counts[values[code]] += n
    if missing:
        raise InputError(
            f"--stream: expected a label in every row of the column {label!r}, got {missing:,} rows without; "
            "leave them out of the table, or train in memory, which leaves them out itself"
        )
    if len(counts) < 2:
        raise InputError(f"--label: expected at least two different labels in the column {label!r}, got {len(counts)}")
    return counts


def _check_members(column: Any, label: str, first_row: int) -> None:
    """A list with a gap in it is not a label: say where it is."""
    if not is_list(column.type) or not column.flatten().null_count:
        return
    row = next(i for i, members in enumerate(column.to_pylist()) if members is not None and None in members)
    raise InputError(
        f"column {label!r}: expected candidate lists without gaps, got a missing member at row {first_row + row}; "
        "correct or drop the row"
    )


def check_features(table: Table, columns: Sequence[str]) -> None:
    """Read the first rows as training in memory reads them: what is not a number is refused in the same words."""
    for batch in table.batches(columns):
        FeatureReader.of_numbers(table, columns).read(batch.slice(0, 1024))
        return


def _few_steps(rows: int, epochs: int) -> list[str]:
    """A warning, where a table has too few rows for the passes over it."""
    each = math.ceil(rows / BATCH)
    if each * epochs >= FEWEST_STEPS:
        return []
    return [
        f"{epochs} passes over {rows:,} rows are {each * epochs} steps of training, too few for probabilities to be "
        f"near their best; leave --stream out where the table fits in memory, or give --epochs "
        f"{math.ceil(FEWEST_STEPS / each)}"
    ]


@contextmanager
def _advice() -> Iterator[None]:
    """The library's refusals with advice in terms of the command's options; as a decorator, of all of `train`."""
    try:
        yield
    except ColumnError as error:
        raise InputError(
            f"{error.fact}; correct the rows, or leave the column out with --ignore, or choose with --features"
        ) from None
    except CheckpointError as error:
        raise InputError(
            f"--out: expected the command that was interrupted, whose work is in {error.path}, got {error.fact}; "
            f"give that command again, choose another --out, or delete {error.path}"
        ) from None


@_advice()
def train(
    table: Table,
    columns: dict[str, Any],
    specs: dict[str, Any],
    classes: Sequence[str] | None,
    settings: Settings,
    checkpoint: Path | None,
) -> Fitted:
    """Three passes and more: the labels, the features' means and deviations, then one for every epoch.

    Interrupted, the same call goes on from its checkpoint, with the same batches as if it had never stopped; another
    one is refused that checkpoint.
    """
    check_features(table, columns["features"])
    label = columns["label"]
    counts = scan_labels(table, label)
    transition, known = resolve(specs, list(counts), classes, None)
    codec = LabelCodec(transition, known).in_order()

    def encode(column: Any) -> Any:
        return codec.encode(column, None, column=label)[0]

    source = ParquetSource(
        table.path, label, columns["features"], batch_size=BATCH, seed=settings.seed, dtype=np.float64, encode=encode
    )
    names = columns["features"]
    inputs = Inputs.of_numbers(names, *source.moments()) if settings.standardize else Inputs.plain(names)
    schema = make_schema(codec, columns, known)
    estimator = make_estimator(settings, codec.transition.named(codec.names))
    if checkpoint is not None:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        sweep(checkpoint.parent, checkpoint.name)
    epochs = settings.epochs or EPOCHS

    def advance(at: StreamProgress) -> None:
        bar.at(at.rows, f"epoch {at.epoch + 1}")

    with Bar("training", source.rows * epochs, "rows") as bar:
        scaled = _Scaled(source, inputs, np.float64 if settings.model == "linear" else np.float32)
        fit_stream(estimator, scaled, epochs=epochs, checkpoint=checkpoint, progress=advance)
    estimator.take_columns(inputs)
    facts = {
        "data": str(table.path),
        "rows": source.rows,
        "labels": dict(counts.most_common()),
        "transition": transition.name,
        "warnings": label_notes(counts, known) + _few_steps(source.rows, epochs),
        **dict.fromkeys(("held_out", "dropped", "blank", "unlabelled"), 0),  # all rows are trained on
        "answers": {},
        **dict.fromkeys(("known_classes", "groups", "estimate")),  # a stream is refused them
    }
    none = Quality(why_none="no rows were held out of a stream; run `tproper evaluate` on another table")
    return described(estimator, schema, settings, facts, none)
