"""`tproper simulate`: weak labels drawn for a table of true classes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import say
from .later import Later
from .options import Classes, Data, Json, Seed, Specs, at_least, echo_json

if TYPE_CHECKING:
    from . import streaming as work
else:
    work = Later("cli.streaming")


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
    at_least(seed, 0, "--seed")
    plan = work.Weakening(label, column, source_column, keep_true, seed)
    codec, counts = work.weaken_file(data, plan, transition, classes, out)
    rows, name = sum(counts.values()), codec.transition.name
    if as_json:
        facts = {"out": str(out), "rows": rows, "transition": name, "labels": counts, "seed": seed}
        echo_json(facts | {"classes": codec.classes})
        return
    top = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {n:,}" for name, n in top[:12]) + (f" and {len(top) - 12} more" if len(top) > 12 else "")
    say(f"{rows:,} rows with labels {name}, seed {seed}, in the column {column!r}: {shown}")
    if keep_true:
        say(f"the true classes are still in {label!r}: train with --ignore {label}, or it becomes a feature")
    say(f"written to {out}")
