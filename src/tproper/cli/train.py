"""`tproper train`: from a table with weak labels to a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import say
from .later import Later
from .options import (
    Annotator,
    Classes,
    Data,
    FeaturesFrom,
    Group,
    Item,
    Json,
    Seed,
    SourceColumn,
    Specs,
    TrueLabel,
    WeakLabel,
    at_least,
    echo_json,
    one_of,
    squeeze_pair,
)

if TYPE_CHECKING:
    from . import table_fit as work
else:
    work = Later("cli.table_fit")

LOSSES = ("forward", "backward", "gls", "ga")
MODELS = ("linear", "mlp")
CALIBRATIONS = ("auto", "none", "identity", "temperature", "bias", "vector", "matrix")

Out = Annotated[Path, typer.Option(help="folder to make for the model")]
Loss = Annotated[str | None, typer.Option(help="forward (the default), backward, gls or ga")]
ModelKind = Annotated[str, typer.Option(help="linear or mlp")]
Squeeze = Annotated[str | None, typer.Option(help="K,ALPHA of the squeezing (loss gls; default 1,2)")]
Penalty = Annotated[float | None, typer.Option(help="L2 penalty on the weights (default auto: by the data)")]
Epochs = Annotated[
    int | None, typer.Option(help="at most this many passes over the data (default 1000, linear; 100, mlp; 5, stream)")
]
Tune = Annotated[bool, typer.Option("--tune", help="choose loss, squeezing, L2 (those not given) by weak risk")]
Features = Annotated[str | None, typer.Option(help="use these columns only: A,B (default: all)")]
Ignore = Annotated[str | None, typer.Option(help="use all columns but these: C,D")]
Missing = Annotated[str, typer.Option(help="rows without a label: drop them, or keep them as uninformative")]
Standardize = Annotated[bool, typer.Option(help="bring every feature to mean 0 and deviation 1")]
Holdout = Annotated[
    float | None,
    typer.Option(help="score on this share of the rows, held out, instead of on all by cross-fitting; 0: no scores"),
]
Folds = Annotated[
    int | None,
    typer.Option(help="score all rows with this many models, each row by one that has not seen it (default 5)"),
]
Calibrate = Annotated[
    str, typer.Option(help="calibrate with weak labels: auto, none, identity, temperature, bias, vector or matrix")
]
Stream = Annotated[
    bool, typer.Option("--stream", help="Parquet larger than memory: minibatches from disk, resumed if interrupted")
]
Force = Annotated[bool, typer.Option("--force", help="replace an existing model")]


def train(
    data: Data,
    label: WeakLabel,
    transition: Specs,
    out: Out,
    loss: Loss = None,
    model: ModelKind = "linear",
    squeeze: Squeeze = None,
    l2: Penalty = None,
    epochs: Epochs = None,
    seed: Seed = 0,
    tune: Tune = False,
    features: Features = None,
    ignore: Ignore = None,
    classes: Classes = None,
    source_column: SourceColumn = None,
    item: Item = None,
    annotator: Annotator = None,
    features_from: FeaturesFrom = None,
    true_label: TrueLabel = None,
    group: Group = None,
    missing: Missing = "drop",
    standardize: Standardize = True,
    holdout: Holdout = None,
    folds: Folds = None,
    calibrate: Calibrate = "auto",
    stream: Stream = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train a classifier on weak labels, and say how good it is without a clean one."""
    _check(loss, model, missing, l2, epochs, seed, holdout, calibrate)
    _check_folds(folds, holdout, stream)
    pair = squeeze_pair(squeeze)
    if pair is not None and loss not in ("gls", "backward") and not (tune and loss is None):
        raise ValueError(f"--squeeze: expected it with --loss gls or backward only, got --loss {loss or 'forward'}")
    settings = work.Settings(loss, model, pair, l2, epochs, seed, tune, standardize, holdout, folds, calibrate, force)
    labels = work.LabelOptions(label, true_label, item, annotator, features_from, source_column, group)
    columns = work.Columns(labels, transition, features, ignore, classes, missing)
    report = work.fit_table(data, columns, settings, out, stream)
    for sentence in report.facts["warnings"]:
        say(f"warning: {sentence}", err=True)
    if as_json:
        echo_json(report.facts)
    else:
        say(report.text)


def _check(
    loss: str | None,
    model: str,
    missing: str,
    l2: float | None,
    epochs: int | None,
    seed: int,
    holdout: float | None,
    calibrate: str,
) -> None:
    """Mistakes that the options alone show."""
    one_of(calibrate, CALIBRATIONS, "--calibrate")
    if loss is not None:
        one_of(loss, LOSSES, "--loss")
    one_of(model, MODELS, "--model")
    one_of(missing, ("drop", "uninformative"), "--missing")
    for value, low, option in ((l2, 0, "--l2"), (epochs, 1, "--epochs"), (seed, 0, "--seed")):
        at_least(value, low, option)
    if holdout is not None and not 0 <= holdout < 1:
        raise ValueError(f"--holdout: expected a share in [0, 1), got {holdout:g}")


def _check_folds(folds: int | None, holdout: float | None, stream: bool) -> None:
    if folds is not None and holdout is not None:
        raise ValueError("--folds: expected it or --holdout, got both")
    at_least(folds, 2, "--folds")
    if stream and (holdout or folds):
        raise ValueError("--stream: expected it without --holdout and --folds, since no rows are held out of a stream")
