"""`tproper estimate`: T from data, with its uncertainty, as a file that `train --transition` takes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import check_picture, check_writable, say
from .later import Later
from .options import Annotator, Data, FeaturesFrom, Group, Item, Json, Seed, at_least, echo_json

if TYPE_CHECKING:
    from . import from_data as work
else:
    work = Later("cli.from_data")

STRUCTURES = "auto, free, pooled, symmetric or complementary"


class From(StrEnum):
    """What T is estimated from."""

    clean = "clean"
    features = "features"
    annotators = "annotators"
    pu = "pu"
    partial = "partial"


def estimate(
    source: Annotated[
        From,
        typer.Argument(
            metavar="FROM",
            help="clean (rows of known class), features (with clean rows, if any), annotators, pu, or partial",
        ),
    ],
    data: Data,
    label: Annotated[str, typer.Option(help="the column with the weak labels; A,B,C for annotators side by side")],
    out: Annotated[Path, typer.Option(help="the .json file to write")],
    true_label: Annotated[str | None, typer.Option(help="the column with the true class, empty where unknown")] = None,
    features: Annotated[str | None, typer.Option(help="use these columns only: A,B; or all")] = None,
    ignore: Annotated[str | None, typer.Option(help="use all columns but these: C,D")] = None,
    classes: Annotated[str | None, typer.Option(help="the classes, in order: a,b,c (pu: POSITIVE,NEGATIVE)")] = None,
    item: Item = None,
    annotator: Annotator = None,
    features_from: FeaturesFrom = None,
    group: Group = None,
    sampling: Annotated[str, typer.Option(help="pu: 'one sample' or 'two samples'")] = "one sample",
    structure: Annotated[str, typer.Option(help=f"what few counts are shrunk to: {STRUCTURES}")] = "auto",
    plot: Annotated[
        Path | None, typer.Option(help="the picture of T: .png, .svg or .pdf (default: beside --out, T.png for T.json)")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Estimate how labels were weakened, with intervals; `train --transition` takes the file."""
    at_least(seed, 0, "--seed")
    if out.suffix.lower() != ".json":
        raise ValueError(f"--out: expected a name that ends in .json, got {str(out)!r}")
    if plot is not None:
        check_picture(plot)
    check_writable(out)
    labels = work.LabelOptions(label, true_label, item, annotator, features_from, group=group)
    options = work.EstimateOptions(source, labels, features, ignore, classes, sampling, structure, seed)
    result, picture = work.estimate_file(data, options, out, plot)
    if as_json:
        echo_json(result.to_dict() | {"out": str(out), "plot": None if picture is None else str(picture)})
        return
    say(result.text)
    say(f"\nwritten to {out}: train with --transition {out}")
    say(f"picture of T: {picture}" if picture is not None else f"no picture of T: {work.NO_PICTURE}")
