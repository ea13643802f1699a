"""`tproper estimate`: T from data, with its uncertainty, as a file that `train --transition` takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from .. import tables
from .._core import mark
from ..errors import InputError
from .errors import check_new, check_picture, say, spoken
from .options import Classes, Data, Features, Force, Group, Ignore, Json, LabelOptions, Seed, echo_json, given


class From(StrEnum):
    """What T is estimated from."""

    clean = "clean"
    features = "features"
    annotators = "annotators"
    pu = "pu"
    partial = "partial"


@dataclass(frozen=True, kw_only=True)
class EstimateOptions(LabelOptions, tables.EstimateOptions):
    """What T is estimated from."""

    source: Annotated[
        From,
        typer.Argument(
            metavar="FROM",
            help="clean (rows of known class), features (with clean rows, if any), annotators, pu, or partial",
        ),
    ]
    features: Features = None
    ignore: Ignore = None
    classes: Classes = None
    group: Group = None
    sampling: Annotated[str, typer.Option(help="pu: 'one sample' or 'two samples'")] = "one sample"
    structure: Annotated[
        str,
        typer.Option(help="what few counts are shrunk to: auto, free, pooled, symmetric or complementary"),
    ] = "auto"
    missing: Annotated[
        str,
        typer.Option(
            help="annotators: what a gap means: random (nothing), answer (the source abstains, as rules do), or auto"
        ),
    ] = "auto"
    seed: Seed = 0


def estimate(
    options: EstimateOptions,
    data: Data,
    out: Annotated[Path, typer.Option(help="the .json file to write")],
    plot: Annotated[
        Path | None, typer.Option(help="the picture of T: .png, .svg or .pdf (default: beside --out, T.png for T.json)")
    ] = None,
    labels_out: Annotated[
        Path | None,
        typer.Option(help="annotators: a .csv to write as well: item, likeliest label, its probability, answers"),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Estimate how labels were weakened, with intervals; `train --transition` takes the file."""
    if out.suffix.lower() != ".json":
        raise InputError(f"--out: expected a name that ends in .json, got {str(out)!r}")
    check_new(out, "--out", force)
    if plot is not None:
        check_picture(plot, force)
    elif options.source != From.partial and find_spec("matplotlib") is not None:
        check_new(out.with_suffix(".png"), "--plot", force)  # drawn beside --out
    if labels_out is not None:
        if options.source != From.annotators:
            raise InputError(f"--labels-out: expected annotators to label items by, got {options.source.value}")
        if labels_out.suffix.lower() != ".csv":
            raise InputError(f"--labels-out: expected a name that ends in .csv, got {str(labels_out)!r}")
        check_new(labels_out, "--labels-out", force)
    since = mark(out), mark(out.with_suffix(".png") if plot is None else plot)
    labelled = None if labels_out is None else mark(labels_out)
    with spoken():
        result = tables.estimate_table(data, **given(options))
    picture = result.save(out, plot, since)
    if labels_out is not None:
        result.save_labels(labels_out, labelled)
    if as_json:
        echo_json(result.to_dict() | {"out": str(out), "plot": None if picture is None else str(picture)})
        return
    say(result.text)
    if labels_out is not None:
        say(f"\nthe label of each item: {labels_out}")
    say(f"\nwritten to {out}: train with --transition {out}")
    say(f"picture of T: {picture}" if picture is not None else f"no picture of T: {tables.NO_PICTURE}")
