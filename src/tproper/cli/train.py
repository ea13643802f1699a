"""`tproper train`: from a table with weak labels to a model folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .. import tables
from .errors import check_writable, say, spoken
from .options import (
    LIST,
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
    echo_json,
    given,
)


@dataclass(frozen=True, kw_only=True)
class TableOptions(LabelOptions, tables.TableOptions):
    """What `train` is told of the table: its columns, its classes and its T."""

    transition: Specs
    features: Features = None
    ignore: Ignore = None
    classes: Classes = None
    source_column: SourceColumn = None
    group: Group = None
    missing: Annotated[
        str,
        typer.Option(
            help="rows without a label: drop them, or keep them as uninformative; with --transition estimate, what a "
            "gap among several answers means: random (nothing), answer (the source abstains), auto (the default)"
        ),
    ] = "drop"
    text: Annotated[
        str | None, typer.Option(metavar=LIST, help="columns of free text, if they do not look like it")
    ] = None
    category: Annotated[
        str | None, typer.Option(metavar=LIST, help="columns that hold names, if they look like numbers or text")
    ] = None
    numeric: Annotated[
        str | None, typer.Option(metavar=LIST, help="columns that must hold numbers, and nothing else")
    ] = None
    stream: Annotated[
        bool, typer.Option("--stream", help="Parquet larger than memory: minibatches from disk, resumed if interrupted")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Settings(tables.Settings):
    """What is trained, and how it is scored; None where nothing was asked for."""

    loss: Annotated[str | None, typer.Option(help="forward (the default), backward, gls or ga")] = None
    model: Annotated[str, typer.Option(help="linear, mlp or boosting (boosted trees)")] = "linear"
    squeeze: Annotated[str | None, typer.Option(help="K,ALPHA of the squeezing (loss gls; default 1,2)")] = None
    l2: Annotated[float | None, typer.Option(help="L2 penalty on the weights (default auto: by the data)")] = None
    epochs: Annotated[
        int | None,
        typer.Option(
            help="at most this many passes over the data (default 1000, linear; 100, mlp; 5, stream), or rounds of "
            "boosting (1000)"
        ),
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


def train(
    data: Data,
    table: TableOptions,
    out: Annotated[Path, typer.Option(help="folder to write the model to")],
    settings: Settings,
    force: Annotated[bool, typer.Option("--force", help="replace an existing model")] = False,
    as_json: Json = False,
) -> None:
    """Train a classifier on weak labels, and say how good it is without a clean one."""
    check_writable(tables.model_folder(out, force))
    checkpoint = out.parent / f".{out.name}.stream.safetensors"
    with spoken():
        model = tables.TableModel.fit(data, checkpoint=checkpoint, **given(table), **given(settings))
        model.save(out, replace=force, looked=True)
    for sentence in model.facts["warnings"]:
        say(f"warning: {sentence}", err=True)
    if as_json:
        echo_json(model.to_dict() | {"name": out.name, "out": str(out)})
    else:
        say(model.summary(out))
