"""`tproper predict`: class probabilities for the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from .errors import say
from .later import Later
from .options import LIST, Data, Json, Model, echo_json

if TYPE_CHECKING:
    from . import streaming as work
else:
    work = Later("cli.streaming")


def predict(
    model: Model,
    data: Data,
    out: Annotated[Path | None, typer.Option(help=".csv, .tsv or .parquet to write (default: CSV on stdout)")] = None,
    keep: Annotated[str | None, typer.Option(metavar=LIST, help="columns of the table to pass through")] = None,
    as_json: Json = False,
) -> None:
    """Class probabilities and the likeliest class for every row, in order."""
    if as_json and out is None:
        raise InputError("--json: expected --out beside it, since the rows themselves go to stdout without it")
    counts = work.predict_file(model, data, keep, out)
    if out is None:
        return
    rows = sum(counts.values())
    if as_json:
        echo_json({"out": str(out), "rows": rows, "predicted": counts})
    else:
        shown = ", ".join(f"{name} {n:,}" for name, n in counts.items() if n)
        say(f"{rows:,} rows: {shown}\nwritten to {out}")
