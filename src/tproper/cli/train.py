"""`tproper train`: from a table with weak labels to a model folder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from .errors import say
from .later import Later
from .options import (
    Classes,
    Data,
    Features,
    Group,
    Ignore,
    Json,
    LabelOptions,
    Seed,
    SourceColumn,
    Specs,
    at_least,
    echo_json,
    one_of,
)

if TYPE_CHECKING:
    from . import table_fit as work
else:
    work = Later("cli.table_fit")

LOSSES = ("forward", "backward", "gls", "ga")
MODELS = ("linear", "mlp")
CALIBRATIONS = ("auto", "none", "identity", "temperature", "bias", "vector", "matrix")


@dataclass(frozen=True, kw_only=True)
class TableOptions(LabelOptions):
    """What `train` is told of the table: its columns, its classes and its T."""

    transition: Specs
    features: Features = None
    ignore: Ignore = None
    classes: Classes = None
    source_column: SourceColumn = None
    group: Group = None
    missing: Annotated[str, typer.Option(help="rows without a label: drop them, or keep them as uninformative")] = (
        "drop"
    )
    stream: Annotated[
        bool, typer.Option("--stream", help="Parquet larger than memory: minibatches from disk, resumed if interrupted")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is trained, and how it is scored; None where nothing was asked for."""

    loss: Annotated[str | None, typer.Option(help="forward (the default), backward, gls or ga")] = None
    model: Annotated[str, typer.Option(help="linear or mlp")] = "linear"
    squeeze: Annotated[str | None, typer.Option(help="K,ALPHA of the squeezing (loss gls; default 1,2)")] = None
    l2: Annotated[float | None, typer.Option(help="L2 penalty on the weights (default auto: by the data)")] = None
    epochs: Annotated[
        int | None,
        typer.Option(help="at most this many passes over the data (default 1000, linear; 100, mlp; 5, stream)"),
    ] = None
    seed: Seed = 0
    tune: Annotated[
        bool, typer.Option("--tune", help="choose by weak risk what is not given of loss, squeezing and L2")
    ] = False
    standardize: Annotated[bool, typer.Option(help="scale every feature to mean 0 and standard deviation 1")] = True
    holdout: Annotated[
        float | None,
        typer.Option(help="hold out this share of the rows to score on, instead of cross-fitting; 0: no scores"),
    ] = None
    folds: Annotated[
        int | None,
        typer.Option(help="score all rows with this many models, each row by one that has not seen it (default 5)"),
    ] = None
    calibrate: Annotated[
        str, typer.Option(help="calibrate with weak labels: auto, none, identity, temperature, bias, vector or matrix")
    ] = "auto"
    force: Annotated[bool, typer.Option("--force", help="replace an existing model")] = False

    def __post_init__(self) -> None:
        """Mistakes that the options alone show."""
        one_of(self.calibrate, CALIBRATIONS, "--calibrate")
        if self.loss is not None:
            one_of(self.loss, LOSSES, "--loss")
        one_of(self.model, MODELS, "--model")
        at_least(self.l2, 0, "--l2")
        at_least(self.epochs, 1, "--epochs")
        at_least(self.seed, 0, "--seed")
        at_least(self.folds, 2, "--folds")
        if self.holdout is not None and not 0 <= self.holdout < 1:
            raise InputError(f"--holdout: expected a share in [0, 1), got {self.holdout:g}")
        if self.folds is not None and self.holdout is not None:
            raise InputError("--folds: expected it or --holdout, got both")
        squeezable = self.loss in ("gls", "backward") or (self.tune and self.loss is None)
        if self.squeezing is not None and not squeezable:
            got = self.loss or "forward"
            raise InputError(f"--squeeze: expected it with --loss gls or backward only, got --loss {got}")

    @property
    def squeezing(self) -> tuple[float, float] | None:
        """k and alpha of ``--squeeze K,ALPHA``."""
        if self.squeeze is None:
            return None
        try:
            k, alpha = (float(part) for part in self.squeeze.split(","))
        except ValueError:
            raise InputError(f"--squeeze: expected K,ALPHA such as 1,2, got {self.squeeze!r}") from None
        if not 0 < k < math.inf:
            raise InputError(f"--squeeze: expected a coefficient k > 0, got {k:g}")
        if not 1 <= alpha < math.inf:
            raise InputError(
                f"--squeeze: expected an exponent alpha >= 1 (below, the loss is not proper), got {alpha:g}"
            )
        return k, alpha


def train(
    data: Data,
    table: TableOptions,
    out: Annotated[Path, typer.Option(help="folder to write the model to")],
    settings: Settings,
    as_json: Json = False,
) -> None:
    """Train a classifier on weak labels, and say how good it is without a clean one."""
    one_of(table.missing, ("drop", "uninformative"), "--missing")
    if table.stream and (settings.holdout or settings.folds):
        raise InputError("--stream: expected it without --holdout and --folds, since no rows are held out of a stream")
    report = work.fit_table(data, table, settings, out)
    for sentence in report.facts["warnings"]:
        say(f"warning: {sentence}", err=True)
    if as_json:
        echo_json(report.facts)
    else:
        say(report.text)
