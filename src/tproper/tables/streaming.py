"""Predict and weaken a table a block of rows at a time: memory does not grow with the file."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, NonFiniteError, atomic_file, label_stream
from ..data import CELLS, MISSING, Table, TableWriter, arrow, check_name, format_of, texts, watched
from ..errors import InputError
from ..inputs import CellError, Drift, Inputs
from ..transitions import Transition
from .frames import read_table
from .labels import LabelCodec, class_codec, label_notes, parse_sources, resolve
from .notes import warn
from .options import Names, Weakening, listed_specs
from .schema import FeatureReader, Schema, listed_classes, split_names
from .terms import told

if TYPE_CHECKING:
    import pyarrow as pa

#: Labels are drawn for so many rows at a time, whatever the file's own blocks: same seed, same labels.
SAMPLED_ROWS = 8192
PREDICTED = "predicted"


class Trained:
    """A classifier, and what it knows of its table."""

    def __init__(self, estimator: Any, schema: Schema) -> None:
        self.estimator, self.schema = estimator, schema

    @property
    def inputs(self) -> Inputs:
        """How the columns of a table become features."""
        out: Inputs = self.estimator.inputs_
        return out


def probabilities(estimator: Any, X: Any, row: Callable[[int], object]) -> FloatArray:
    """Class probabilities (n, K) of features as they stand in a table; `row` names one of them by its place in X.

    A row that the model's arithmetic cannot take is refused: nothing is written for it.
    """
    try:
        return np.asarray(estimator.predict_proba(X), dtype=np.float64)
    except CellError as error:
        raise error.at(row(error.row or 0)) from None
    except NonFiniteError as error:
        raise InputError(f"row {row(error.row)}: expected finite class probabilities, got {error.fact}") from None


def output_format(out: Path, data: Any) -> str:
    """How to write: by the name of the output; CSV on a device."""
    if out.is_dir():
        raise InputError(f"--out: expected a file name to write to, got the directory {out}")
    if out.exists() and not out.is_file():  # /dev/stdout, a pipe
        return "csv"
    if out.suffix.lower() == ".gz":
        raise InputError(f"--out: expected a name that ends in .csv, .tsv or .parquet, got {str(out)!r}")
    if out.exists() and isinstance(data, (str, Path)) and Path(data).exists() and out.samefile(data):
        raise InputError(f"--out: expected another file than the table itself, got {out}")
    kind = format_of(out)
    if kind == "parquet":
        check_name(out)
    return kind


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


def predict_file(
    trained: Trained, data: Any, keep: Names, out: Path | IO[bytes], strict: bool = False
) -> dict[str, int]:
    """Read a table and write its predictions, to a file or, as CSV, to a stream."""
    table = read_table(data)
    kept = split_names(keep, "--keep") or []
    for name in kept:
        table.require(name, "--keep")
    if not isinstance(out, Path):
        return predict(trained, table, kept, out, "csv", strict)
    kind = output_format(out, data)
    with atomic_file(out) as temporary:
        return predict(trained, table, kept, temporary, kind, strict)


def predict(
    trained: Trained, table: Table, keep: Sequence[str], target: Path | IO[bytes], kind: str, strict: bool = False
) -> dict[str, int]:
    """Write the kept columns, the likeliest class and the class probabilities; returns how often each class won.

    What the table has that the training table had not is warned of, and with `strict` refused.
    """
    import pyarrow as pa

    schema = trained.schema
    schema.check_columns(table)
    names = [f"p_{name}" for name in schema.classes]
    clash = [name for name in keep if name in (PREDICTED, *names)]
    if clash:
        raise InputError(f"--keep: expected columns that do not have the name of a result, got {clash[0]!r}")
    reader = FeatureReader.of(table, trained.inputs)
    drift = Drift(trained.inputs)
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
                drift.add(X)
                p = probabilities(trained.estimator, X, first.__add__)
                best = p.argmax(axis=1)
                counts += np.bincount(best, minlength=len(counts))
                out: dict[str, Any] = {name: batch.column(name) for name in keep}
                out[PREDICTED] = pa.array(classes[best], type=pa.string())
                writer.write(out | {name: pa.array(p[:, z]) for z, name in enumerate(names)})
        reader.finish()
        told = drift.sentences()
        if told and strict:
            raise InputError(
                f"--strict: expected a table like the one the model was trained on, got one where {'; '.join(told)}"
            )
    warn(told)
    return {name: int(n) for name, n in zip(schema.classes, counts, strict=True)}


@dataclass(frozen=True)
class Simulated:
    """Weak labels drawn for a table of true classes."""

    transition: Transition
    classes: list[str]
    counts: dict[str, int]  # how often each label was drawn
    table: Any = None  # of Arrow, where no file was written: `.to_pandas()`


@told
def simulate(
    data: Any,
    transition: Any,
    *,
    label: str,
    out: str | Path | None = None,
    seed: int = 0,
    column: str = "weak_label",
    keep_true: bool = False,
    classes: Names = None,
    source_column: str | None = None,
) -> Simulated:
    """Weaken a clean table: a weak label for every row in place of its true class, as ``tproper simulate`` does.

    Parameters
    ----------
    data : path or frame
        See `tproper.read_table`.
    transition : text, Transition, matrix, or a list or dict of them
        How labels are weakened: "symmetric:0.2", `tproper.complementary(3)`, ...; with `source_column` one by name for
        each source.
    label : str
        The column with the true classes.
    out : path, optional
        The .csv, .tsv or .parquet file to write; without one the result holds the table.
    seed : int
        The same seed gives the same labels, whatever the table is read from.
    column, keep_true, classes, source_column
        The name of the new column; whether the true classes stay; the classes in the order of T; the name of a new
        column that says which source a label is from.

    Returns
    -------
    Simulated
        ``.table`` (of Arrow; ``.to_pandas()``) where no file was written, ``.counts`` of the labels and
        ``.transition``.

    Examples
    --------
    >>> import tproper as tp
    >>> clean = {"x": [1.0, 2.0, 3.0], "animal": ["cat", "dog", "cat"]}
    >>> weak = tp.simulate(clean, "symmetric:0.3", label="animal", seed=0)
    >>> weak.table.column_names
    ['x', 'weak_label']
    """
    plan = Weakening(
        label=label, transition=transition, seed=seed, column=column, keep_true=keep_true, classes=classes,
        source_column=source_column,
    )  # fmt: skip
    path = None if out is None else Path(out)
    kind = "parquet" if path is None else output_format(path, data)
    specs = parse_sources(listed_specs(transition), source_column)
    table = read_table(data)
    table.require(label, "--label")
    passed = plan.passed(table.names)
    codec = simulation_codec(table, plan, specs)
    if path is not None:
        with atomic_file(path) as temporary:
            return Simulated(codec.transition, codec.classes, weaken(table, plan, passed, codec, temporary, kind))
    memory = io.BytesIO()
    counts = weaken(table, plan, passed, codec, memory, kind)
    return Simulated(codec.transition, codec.classes, counts, arrow().parquet.read_table(io.BytesIO(memory.getvalue())))


def simulation_codec(table: Table, plan: Weakening, specs: dict[str, Any]) -> LabelCodec:
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
    warn(label_notes(seen, names))
    return LabelCodec(transition, names, list(specs) if plan.source_column else ())


def weaken(
    table: Table, plan: Weakening, passed: Sequence[str], codec: LabelCodec, target: Path | IO[bytes], kind: str
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
