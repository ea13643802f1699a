"""`tproper predict`: class probabilities for the rows of a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import tables
from ..errors import InputError
from .errors import check_new, say, spoken
from .options import LIST, Data, Force, Json, Model, echo_json


def predict(
    model: Model,
    data: Data,
    out: Annotated[Path | None, typer.Option(help=".csv, .tsv or .parquet to write (default: CSV on stdout)")] = None,
    keep: Annotated[str | None, typer.Option(metavar=LIST, help="columns of the table to pass through")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="refuse a table that is not like the one the model was trained on")
    ] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Class probabilities and the likeliest class for every row, in order."""
    if as_json and out is None:
        raise InputError("--json: expected --out beside it, since the rows themselves go to stdout without it")
    if out is not None:
        check_new(out, "--out", force)
    with spoken():
        counts = tables.TableModel.load(model).predict_file(
            data, sys.stdout.buffer if out is None else out, keep, strict
        )
    if out is None:
        sys.stdout.flush()
        return
    rows = sum(counts.values())
    if as_json:
        echo_json({"out": str(out), "rows": rows, "predicted": counts})
    else:
        shown = ", ".join(f"{name} {n:,}" for name, n in counts.items() if n)
        say(f"{rows:,} rows: {shown}\nwritten to {out}")
