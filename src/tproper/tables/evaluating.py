"""Scores of a model on another table, a block of rows at a time: memory does not grow with the file.

Answers with a row each are brought together by item first, which takes the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import mark
from ..data import CELLS, watched
from ..errors import InputError
from ..evaluation import UNSCORABLE, Evaluation, Evaluator, draw
from ..inputs import Columns, Drift, Inputs
from .frames import read_table
from .labels import (
    Answered,
    Coded,
    LabelCodec,
    annotators_of_file,
    class_codec,
    parse_sources,
    resolve,
    resolve_answers,
)
from .notes import warn
from .options import LabelOptions, listed_specs
from .overlap import Overlap
from .reading import LabelColumns, label_columns, read
from .schema import FeatureReader
from .streaming import Trained, probabilities, reblocked


def evaluate_file(
    trained: Trained, data: Any, labels: LabelOptions, specs: Any = None, plot: Path | None = None
) -> Evaluation:
    """Scores from weak and from clean labels; draws the diagram."""
    before = None if plot is None else mark(plot)
    table = read_table(data)
    source = labels.source_column
    columns = label_columns(table, replace(labels, source_column=None))  # whether it is needed is the codec's to say
    codec = evaluation_codec(trained, specs, source, labels.several, columns)
    if source is not None and not codec.sources:
        raise InputError("--source-column: expected it for labels of several sources, got a model of one")
    source = (source or trained.schema.source) if codec.sources else None
    if source is not None:
        table.require(source, "--source-column")
    if codec.annotators:
        columns = columns.of_annotators()
    elif columns.several:
        raise InputError(
            f"--label: expected one column for a model of one label per row, got {labels.label!r}; give the T of the "
            "annotators with --transition"
        )
    result = evaluate(trained, columns, codec, source)
    if plot is not None:
        draw(result.scores, result.clean, plot, before)
    return result


def evaluation_codec(
    trained: Trained, specs: Any, source_column: str | None, several: bool, columns: LabelColumns
) -> LabelCodec:
    """How to read the weak labels: as in training, or by another transition for the same classes."""
    if specs is None or (isinstance(specs, list) and not specs):
        return trained.schema.codec()
    specs = listed_specs(specs)
    source = source_column or (
        trained.schema.source if not several and any("=" in str(s).partition(":")[0] for s in specs) else None
    )
    named = parse_sources(specs, source, several)
    classes = trained.schema.told or trained.schema.classes
    if several or ("" in named and annotators_of_file(named[""]) is not None):
        who = columns.labels if not columns.long else read(columns, []).answered.names  # type: ignore[union-attr]
        T, names, known = resolve_answers(named, who, [], classes)
        return LabelCodec(T, names, annotators=known).in_order_of(trained.schema.classes)
    transition, names = resolve(named, [], classes)
    return LabelCodec(transition, names, list(named) if source else ()).in_order_of(trained.schema.classes)


@dataclass(frozen=True)
class Block:
    """Some rows: features, labels, which of them are missing, and the known classes."""

    X: Columns
    labels: Coded
    absent: NDArray[np.bool_]
    true: NDArray[np.int64] | None  # -1 where unknown
    rows: NDArray[np.int64]  # in the table, from 1


def _blocks(columns: LabelColumns, codec: LabelCodec, source: str | None, inputs: Inputs) -> Iterator[Block]:
    features = inputs.names
    if columns.long:
        items = read(columns, features, inputs)
        yield Block(items.X, *items.encode(codec), items.known(codec.classes), items.rows + 1)
        return
    table, truth = columns.table, class_codec(codec.classes)
    reader = FeatureReader.of(table, inputs)
    extra = [c for c in (*columns.labels, source, columns.true) if c is not None]
    wanted = list(dict.fromkeys([*features, *extra]))
    batches = watched(table.batches(wanted), "evaluating", table.rows, lambda b: b.num_rows)
    for batch in reblocked(batches, max(4096, CELLS // len(wanted))):
        first = reader.rows + 1
        X = reader.read(batch)
        if codec.annotators:
            answered = Answered.of({name: batch.column(name) for name in columns.labels})
            labels, absent = codec.encode_answers(answered, first)
        else:
            sources = None if source is None else batch.column(source)
            labels, absent = codec.encode(batch.column(columns.label), sources, first, columns.label)
        true = None
        if columns.true is not None:
            encoded, unknown = truth.encode(batch.column(columns.true), None, first, columns.true)
            true = np.where(unknown, -1, encoded)
        if reader.clean:
            yield Block(X, labels, absent, true, first + np.arange(len(X)))
    reader.finish()


def evaluate(trained: Trained, columns: LabelColumns, codec: LabelCodec, source: str | None) -> Evaluation:
    """Scores from weak labels, unless their T forbids it, and from true classes, where a column of them is given.

    Rows without a label are counted.
    """
    schema = trained.schema
    legend = replace(codec.known_names(), features=trained.inputs.features)
    evaluator = Evaluator(codec.transition, legend)
    if evaluator.reconstruction is None and columns.true is None:
        raise InputError(f"--true-label: expected a column with the true classes, got none, and {UNSCORABLE}")
    schema.check_columns(columns.home)
    rows = labelled = clean = 0
    overlap, drift = Overlap(schema.digests), Drift(trained.inputs)
    for block in _blocks(columns, codec, source, trained.inputs):
        rows += len(block.X)
        overlap.add(block.X)
        drift.add_gaps(block.X)
        given = ~block.absent
        labelled += int(given.sum())
        p = probabilities(trained.estimator, block.X, block.rows.__getitem__)
        evaluator.add(block.labels[given], p[given], trained.inputs.encode(block.X)[given])
        if block.true is not None:
            known = block.true >= 0
            clean += int(known.sum())
            evaluator.add_known(block.true[known], p[known])
    if labelled == 0:
        raise InputError(f"--label: expected labels in the column {columns.label!r}, got none in {rows} rows")
    warn(drift.gaps())
    counts = {"all": rows, "weak": labelled, "without_label": rows - labelled}
    if columns.true is not None:
        if clean == 0:
            raise InputError(f"--true-label: expected classes in the column {columns.true!r}, got none in {rows} rows")
        counts["clean"] = clean
    return replace(evaluator.result(), rows=counts, overlap=overlap.warning())
