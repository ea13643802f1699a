"""Predict and weaken a table a block of rows at a time: memory does not grow with the file."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, NonFiniteError, atomic_file, label_stream
from ..data import CELLS, MISSING, Table, TableWriter, format_of, open_table, texts, watched
from ..errors import InputError
from ..inputs import CellError
from .codec import LabelCodec, class_codec
from .errors import say
from .later import Later
from .resolving import label_notes, parse_sources, resolve
from .schema import FeatureReader, Schema, listed_classes, split_names
from .simulate import Weakening

if TYPE_CHECKING:
    import pyarrow as pa

    from .. import learn
else:
    learn = Later("learn")  # scikit-learn: `simulate` does without

#: Labels are drawn for so many rows at a time, whatever the file's own blocks: same seed, same labels.
SAMPLED_ROWS = 8192
PREDICTED = "predicted"


@dataclass(frozen=True)
class Trained:
    """A model folder, opened."""

    estimator: Any
    schema: Schema

    def probabilities(self, X: FloatArray, row: Callable[[int], object]) -> FloatArray:
        """Class probabilities (n, K) of features as they stand in a table."""
        return probabilities(self.estimator, X, row)


def probabilities(estimator: Any, X: FloatArray, row: Callable[[int], object]) -> FloatArray:
    """Class probabilities (n, K) of features as they stand in a table; `row` names one of them by its place in X.

    A row that the model's arithmetic cannot take is refused: nothing is written for it.
    """
    try:
        return np.asarray(estimator.predict_proba(X), dtype=np.float64)
    except CellError as error:
        raise error.at(row(error.row or 0)) from None
    except NonFiniteError as error:
        raise InputError(f"row {row(error.row)}: expected finite class probabilities, got {error.fact}") from None


def load_model(folder: Path) -> Trained:
    """Open a folder that `tproper train` wrote."""
    estimator = learn.load(folder)
    return Trained(estimator, Schema.of(estimator, folder))


def output_format(out: Path | None, data: Path) -> str:
    """How to write: by the name of the output; CSV on stdout."""
    if out is None:
        return "csv"
    if out.is_dir():
        raise InputError(f"--out: expected a file name to write to, got the directory {out}")
    if out.exists() and not out.is_file():  # /dev/stdout, a pipe
        return "csv"
    if out.suffix.lower() == ".gz":
        raise InputError(f"--out: expected a name that ends in .csv, .tsv or .parquet, got {str(out)!r}")
    if out.exists() and data.exists() and out.samefile(data):
        raise InputError(f"--out: expected another file than the table itself, got {out}")
    return format_of(out)


def reblocked(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in blocks of `rows`; only the last one may be smaller."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= rows:
            table = pa.Table.from_batches(waiting)
            whole = count - count % rows
            for start in range(0, whole, rows):
                yield table.slice(start, rows).combine_chunks().to_batches()[0]
            waiting = table.slice(whole).to_batches()
            count -= whole
    if count:
        yield pa.Table.from_batches(waiting).combine_chunks().to_batches()[0]


def predict_file(model: Path, data: Path, keep: str | None, out: Path | None) -> dict[str, int]:
    """`tproper predict`: read a model and a table, write its predictions."""
    kind = output_format(out, data)
    trained = load_model(model)
    table = open_table(data)
    kept = split_names(keep, "--keep") or []
    for name in kept:
        table.require(name, "--keep")
    if out is None:
        counts = predict(trained, table, kept, sys.stdout.buffer, kind)
        sys.stdout.flush()
        return counts
    with atomic_file(out) as temporary:
        return predict(trained, table, kept, temporary, kind)


def predict(trained: Trained, table: Table, keep: Sequence[str], target: Path | IO[bytes], kind: str) -> dict[str, int]:
    """Write the kept columns, the likeliest class and the class probabilities; returns how often each class won."""
    import pyarrow as pa

    schema = trained.schema
    schema.check_columns(table)
    names = [f"p_{name}" for name in schema.classes]
    clash = [name for name in keep if name in (PREDICTED, *names)]
    if clash:
        raise InputError(f"--keep: expected columns that do not have the name of a result, got {clash[0]!r}")
    reader = FeatureReader(table, schema.features, trained=True)
    counts = np.zeros(len(schema.classes), dtype=np.int64)
    classes = np.array(schema.classes, dtype=object)
    columns = list(dict.fromkeys([*schema.features, *keep]))
    block = max(1024, CELLS // (len(columns) + len(names)))
    types = table.types(keep) if kind == "parquet" else {}
    with TableWriter(target, kind, types) as writer:
        batches = table.batches(columns)
        if isinstance(target, Path):  # a progress bar would run into rows that go to the terminal
            batches = watched(batches, "predicting", table.rows, lambda b: b.num_rows)
        for whole in batches:
            for start in range(0, whole.num_rows, block):
                batch = whole.slice(start, block)
                first = reader.rows + 1
                X = reader.read(batch)
                if not reader.clean:
                    continue
                p = trained.probabilities(X, first.__add__)
                best = p.argmax(axis=1)
                counts += np.bincount(best, minlength=len(counts))
                out: dict[str, Any] = {name: batch.column(name) for name in keep}
                out[PREDICTED] = pa.array(classes[best], type=pa.string())
                writer.write(out | {name: pa.array(p[:, z]) for z, name in enumerate(names)})
        reader.finish()
    return {name: int(n) for name, n in zip(schema.classes, counts, strict=True)}


def weaken_file(data: Path, plan: Weakening, out: Path) -> tuple[LabelCodec, dict[str, int]]:
    """`tproper simulate`: how labels were written, and how often each was drawn."""
    kind = output_format(out, data)
    specs = parse_sources(plan.transition, plan.source_column)
    table = open_table(data)
    table.require(plan.label, "--label")
    passed = plan.passed(table)
    codec = simulation_codec(table, plan, specs)
    with atomic_file(out) as temporary:
        return codec, weaken(table, plan, passed, codec, temporary, kind)


def simulation_codec(table: Table, plan: Weakening, specs: dict[str, str]) -> LabelCodec:
    """T and the class names; the label column is read once for them where ``--classes`` does not give them."""
    classes = listed_classes(plan.classes)
    seen: Counter[str] = Counter()
    if classes is None:
        for batch in table.batches([plan.label]):
            codes, values = texts(batch.column(plan.label))
            distinct, times = np.unique(codes[codes >= 0], return_counts=True)
            for code, n in zip(distinct.tolist(), times.tolist(), strict=True):
                seen[values[code]] += n
        if not set(seen) - MISSING:
            raise InputError(f"{table.path}: expected classes in the column {plan.label!r}, got none")
    transition, names = resolve(specs, list(seen), classes, clean=True)
    for note in label_notes(seen, names):
        say(f"warning: {note}", err=True)
    return LabelCodec(transition, names, list(specs) if plan.source_column else ())


def weaken(
    table: Table, plan: Weakening, passed: Sequence[str], codec: LabelCodec, target: Path, kind: str
) -> dict[str, int]:
    """Write the table with weak labels; returns how often each was drawn."""
    import pyarrow as pa

    truth = class_codec(codec.classes)
    rng = label_stream(plan.seed)
    counts: Counter[str] = Counter()
    row = 1
    with TableWriter(target, kind, table.types(passed) if kind == "parquet" else {}) as writer:
        batches = watched(table.batches(), "weakening", table.rows, lambda b: b.num_rows)
        for batch in reblocked(batches, SAMPLED_ROWS):
            classes = _true_classes(truth, batch, plan.label, row)
            row += batch.num_rows
            labels, sources = codec.decode(codec.transition.sample(classes, rng))
            out: dict[str, Any] = {name: batch.column(name) for name in passed}
            if sources is not None and plan.source_column is not None:
                out[plan.source_column] = pa.array(sources, type=pa.string())
            writer.write(out | {plan.column: pa.array(labels, type=pa.string())})
            counts.update(labels if sources is None else map(": ".join, zip(sources, labels, strict=True)))
    if row == 1:
        raise InputError(f"{table.path}: expected rows below the header, got none")
    return dict(sorted(counts.items()))


def _true_classes(truth: LabelCodec, batch: pa.RecordBatch, label: str, first: int) -> NDArray[np.int64]:
    classes, absent = truth.encode(batch.column(label), None, first, label)
    if absent.any():
        row = first + int(absent.argmax())
        raise InputError(f"column {label!r}: expected a class in every row, got none at row {row}")
    return classes
