"""`tproper train`, `predict`, `evaluate`, `simulate`: from a table to calibrated probabilities, and back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .._core import atomic_file, json_text, mark
from .errors import check_writable, user_errors

HOLDOUT = 0.1  # of the rows
LOSSES = ("forward", "backward", "gls", "ga")
MODELS = ("linear", "mlp")

Data = Annotated[Path, typer.Argument(help="a .csv, .tsv or .parquet file, or a folder of Parquet files")]
Model = Annotated[Path, typer.Argument(help="the folder that `tproper train` wrote")]
Specs = Annotated[
    list[str],
    typer.Option(
        "--transition",
        help="how labels were weakened: complementary, symmetric:0.2, partial:0.3, pu:0.5, T.csv, ...; "
        "NAME=SPEC once per source with --source-column",
    ),
]
OptionalSpecs = Annotated[
    list[str] | None, typer.Option("--transition", help="how these labels were weakened, if not as in training")
]
Classes = Annotated[
    str | None,
    typer.Option(help="the classes, in the order of the transition: a,b,c (default: as the labels name them)"),
]
SourceColumn = Annotated[str | None, typer.Option(help="the column that says where a label comes from")]
Json = Annotated[bool, typer.Option("--json", help="machine-readable output")]
Seed = Annotated[int, typer.Option(help="random seed")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (train, predict, evaluate, simulate):
        app.command()(user_errors(command))


def _echo_json(value: Any) -> None:
    typer.echo(json_text(value, indent=2))


def _one_of(value: str, allowed: tuple[str, ...], option: str) -> str:
    if value not in allowed:
        raise ValueError(f"{option}: expected one of {', '.join(allowed)}, got {value!r}")
    return value


def _at_least(value: float, low: int, option: str) -> None:
    if not low <= value < float("inf"):
        raise ValueError(f"{option}: expected a number >= {low}, got {value:g}")


def _pair(text: str | None) -> tuple[float, float] | None:
    """``--squeeze K,ALPHA``."""
    if text is None:
        return None
    try:
        k, alpha = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--squeeze: expected K,ALPHA such as 1,2, got {text!r}") from None
    if not (k > 0 and k < float("inf")):
        raise ValueError(f"--squeeze: expected a coefficient k > 0, got {k:g}")
    if not (alpha >= 1 and alpha < float("inf")):
        raise ValueError(f"--squeeze: expected an exponent alpha >= 1 (below, the loss is not proper), got {alpha:g}")
    return k, alpha


def train(
    data: Data,
    label: Annotated[str, typer.Option(help="the column with the weak labels")],
    transition: Specs,
    out: Annotated[Path, typer.Option(help="folder to make for the model")],
    loss: Annotated[str | None, typer.Option(help="forward (the default), backward, gls or ga")] = None,
    model: Annotated[str, typer.Option(help="linear or mlp")] = "linear",
    squeeze: Annotated[str | None, typer.Option(help="K,ALPHA of the squeezing (loss gls; default 1,2)")] = None,
    l2: Annotated[float | None, typer.Option(help="L2 penalty on the weights (default 0.0003)")] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="at most so many passes over the data (default 1000, linear; 100, mlp; 5, stream)"),
    ] = None,
    seed: Seed = 0,
    tune: Annotated[
        bool, typer.Option("--tune", help="choose loss, squeezing, L2 (those not given) by weak risk")
    ] = False,
    features: Annotated[str | None, typer.Option(help="use these columns only: A,B")] = None,
    ignore: Annotated[str | None, typer.Option(help="use all columns but these: C,D")] = None,
    classes: Classes = None,
    source_column: SourceColumn = None,
    missing: Annotated[str, typer.Option(help="rows without a label: drop, or keep as uninformative")] = "drop",
    standardize: Annotated[bool, typer.Option(help="bring every feature to mean 0 and deviation 1")] = True,
    holdout: Annotated[
        float | None, typer.Option(help="share of the rows kept for the scores in the model card (default 0.1)")
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Parquet larger than memory: minibatches from disk, resumed if interrupted")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="replace the model that is there")] = False,
    as_json: Json = False,
) -> None:
    """Train a classifier on weak labels, and say how good it is without a clean one."""
    from ..data import open_table
    from . import training
    from .codec import parse_sources
    from .schema import feature_columns, split_names

    if loss is not None:
        _one_of(loss, LOSSES, "--loss")
    _one_of(model, MODELS, "--model")
    _one_of(missing, ("drop", "uninformative"), "--missing")
    pair = _pair(squeeze)
    if pair is not None and loss not in ("gls", "backward") and not (tune and loss is None):
        raise ValueError(f"--squeeze: expected it with --loss gls or backward only, got --loss {loss or 'forward'}")
    for value, low, option in ((l2, 0, "--l2"), (epochs, 1, "--epochs"), (seed, 0, "--seed")):
        if value is not None:
            _at_least(value, low, option)
    if holdout is not None and not 0 <= holdout < 1:
        raise ValueError(f"--holdout: expected a share in [0, 1), got {holdout:g}")
    check_writable(training.model_folder(out, force))
    specs = parse_sources(transition, source_column)
    table = open_table(data)
    table.require(label, "--label")
    if source_column is not None:
        table.require(source_column, "--source-column")
    columns = feature_columns(
        table, (label, source_column), split_names(features, "--features"), split_names(ignore, "--ignore")
    )
    wanted = split_names(classes, "--classes")
    settings = training.Settings(
        loss, model, pair, l2, epochs, seed, tune, standardize, HOLDOUT if holdout is None else holdout, force
    )
    names = {"features": columns, "label": label, "source": source_column, "specs": specs}
    if stream:
        if holdout:
            raise ValueError("--stream: expected it without --holdout, since no rows are held out of a stream")
        report = _train_streamed(table, data, names, wanted, settings, out, missing)
    else:
        rows = training.read_rows(table, label, source_column, columns, specs, wanted, missing, loss or "forward")
        report = training.train(rows, settings, names, data, out)
    for sentence in report.facts["warnings"]:
        typer.echo(f"warning: {sentence}", err=True)
    if as_json:
        _echo_json(report.facts)
    else:
        typer.echo(report.text)


def _train_streamed(
    table: Any, data: Path, names: dict[str, Any], classes: list[str] | None, settings: Any, out: Path, missing: str
) -> Any:
    from ..data import format_of
    from . import streamed_training as streamed

    unfit = {
        "--tune": settings.tune,
        "--source-column": names["source"] is not None,
        "--missing uninformative": missing != "drop",
    }
    for option, given in unfit.items():
        if given:
            raise ValueError(f"--stream: expected it without {option}, which needs the whole table in memory")
    if format_of(data) != "parquet":
        raise ValueError(f"--stream: expected a Parquet file or a folder of them, got {data}")
    outside = [name for name in (*names["features"], names["label"]) if name in table.in_folders]
    if outside:
        raise ValueError(
            f"--stream: expected columns that the files hold, got {outside[0]!r}, which the names of their folders "
            "hold; leave it out with --ignore, write it into the files, or train without --stream"
        )
    return streamed.train(table, data, names, classes, settings, out)


def predict(
    model: Model,
    data: Data,
    out: Annotated[Path | None, typer.Option(help=".csv, .tsv or .parquet to write (default: CSV on stdout)")] = None,
    keep: Annotated[str | None, typer.Option(help="columns of the table to pass through: A,B")] = None,
    as_json: Json = False,
) -> None:
    """Class probabilities and the likeliest class for every row, in order."""
    from ..data import open_table
    from . import streaming
    from .schema import split_names

    if as_json and out is None:
        raise ValueError("--json: expected --out beside it, since the rows themselves go to stdout without it")
    kind = streaming.output_format(out, data)
    trained = streaming.load_model(model)
    table = open_table(data)
    kept = split_names(keep, "--keep") or []
    for name in kept:
        table.require(name, "--keep")
    if out is None:
        streaming.predict(trained, table, kept, sys.stdout.buffer, kind)
        sys.stdout.flush()
        return
    with atomic_file(out) as temporary:
        counts = streaming.predict(trained, table, kept, temporary, kind)
    rows = sum(counts.values())
    if as_json:
        _echo_json({"out": str(out), "rows": rows, "predicted": counts})
    else:
        shown = ", ".join(f"{name} {n:,}" for name, n in counts.items() if n)
        typer.echo(f"{rows:,} rows: {shown}\nwritten to {out}")


def evaluate(
    model: Model,
    data: Data,
    label: Annotated[str, typer.Option(help="the column with the weak labels")],
    true_label: Annotated[str | None, typer.Option(help="a column with the true classes, for comparison")] = None,
    transition: OptionalSpecs = None,
    source_column: SourceColumn = None,
    plot: Annotated[Path | None, typer.Option(help="reliability diagram to draw (.png)")] = None,
    as_json: Json = False,
) -> None:
    """Unbiased scores from weak labels, with their intervals; clean ones beside them where a true column is given."""
    from ..data import open_table
    from . import streaming
    from . import table_scores as scores

    if plot is not None:
        if plot.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise ValueError(f"--plot: expected a name that ends in .png, .svg or .pdf, got {str(plot)!r}")
        check_writable(plot)
    before = None if plot is None else mark(plot)
    trained = streaming.load_model(model)
    table = open_table(data)
    table.require(label, "--label")
    if true_label is not None:
        table.require(true_label, "--true-label")
    codec = streaming.evaluation_codec(trained, transition, source_column)
    if source_column is not None and not codec.sources:
        raise ValueError(f"--source-column: expected it for labels of several sources, got a model of one: {model}")
    source = (source_column or trained.schema.source) if codec.sources else None
    if source is not None:
        table.require(source, "--source-column")
    weak, clean, counts = streaming.evaluate(trained, table, codec, label, source, true_label)
    if plot is not None:
        scores.draw(weak, clean, plot, before)
    if as_json:
        out: dict[str, Any] = {"rows": counts, "transition": codec.transition.name}
        out |= {"weak": None, "no_scores": scores.UNSCORABLE} if weak is None else {"weak": scores.plain(weak)}
        if clean is not None:
            out["clean"] = scores.plain(clean)
        _echo_json(out)
        return
    typer.echo(f"{counts['weak']:,} rows with a weak label ({counts['without_label']:,} without)")
    if weak is None:
        typer.echo(f"No scores from weak labels: {scores.UNSCORABLE}.")
    typer.echo(scores.as_text(weak, clean))
    if plot is not None:
        typer.echo(f"reliability diagram: {plot}")


def simulate(
    data: Data,
    label: Annotated[str, typer.Option(help="the column with the true classes")],
    transition: Specs,
    out: Annotated[Path, typer.Option(help=".csv, .tsv or .parquet to write")],
    seed: Seed = 0,
    column: Annotated[str, typer.Option(help="name of the column with weak labels")] = "weak_label",
    keep_true: Annotated[bool, typer.Option("--keep-true", help="keep the column with the true classes")] = False,
    classes: Classes = None,
    source_column: Annotated[
        str | None, typer.Option(help="several transitions NAME=SPEC: the column to add that says which one was drawn")
    ] = None,
    as_json: Json = False,
) -> None:
    """Weaken a clean data set: a weak label for every row in place of its true class."""
    from ..data import open_table
    from . import streaming
    from .codec import parse_sources
    from .schema import split_names

    _at_least(seed, 0, "--seed")
    kind = streaming.output_format(out, data)
    specs = parse_sources(transition, source_column)
    table = open_table(data)
    table.require(label, "--label")
    plan = streaming.Weakening(label, column, source_column, keep_true, seed)
    codec = streaming.simulation_codec(table, plan, specs, split_names(classes, "--classes"))
    with atomic_file(out) as temporary:
        counts = streaming.weaken(table, plan, codec, temporary, kind)
    rows = sum(counts.values())
    facts = {"out": str(out), "rows": rows, "transition": codec.transition.name, "labels": counts, "seed": seed}
    if as_json:
        _echo_json(facts | {"classes": codec.classes})
        return
    top = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {n:,}" for name, n in top[:12]) + (f" and {len(top) - 12} more" if len(top) > 12 else "")
    typer.echo(f"{rows:,} rows with labels {codec.transition.name}, seed {seed}, in the column {column!r}: {shown}")
    if keep_true:
        typer.echo(f"the true classes are still in {label!r}: train with --ignore {label}, or it becomes a feature")
    typer.echo(f"written to {out}")
