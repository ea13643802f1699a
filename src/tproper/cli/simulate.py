"""`tproper simulate`: weak labels drawn for a table of true classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .. import tables
from .errors import check_new, say, spoken
from .options import Classes, Data, Force, Json, Seed, echo_json, given


@dataclass(frozen=True, kw_only=True)
class Weakening(tables.Weakening):
    """What `tproper simulate` is to do."""

    label: Annotated[str, typer.Option(help="the column with the true classes")]
    transition: Annotated[
        list[str],
        typer.Option(
            help="how to weaken labels: complementary, symmetric:0.2, partial:0.3, pu:0.5, T.csv, ...; "
            "NAME=SPEC once per source with --source-column"
        ),
    ]
    seed: Seed = 0
    column: Annotated[str, typer.Option(help="name of the column with weak labels")] = "weak_label"
    keep_true: Annotated[bool, typer.Option("--keep-true", help="keep the column with the true classes")] = False
    classes: Classes = None
    source_column: Annotated[
        str | None, typer.Option(help="several transitions NAME=SPEC: the column to add that says which one was drawn")
    ] = None


def simulate(
    data: Data,
    plan: Weakening,
    out: Annotated[Path, typer.Option(help=".csv, .tsv or .parquet to write")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Weaken a clean data set: a weak label for every row in place of its true class."""
    check_new(out, "--out", force)
    with spoken():
        drawn = tables.simulate(data, out=out, **given(plan))
    counts = drawn.counts
    rows, name = sum(counts.values()), drawn.transition.name
    if as_json:
        facts = {"out": str(out), "rows": rows, "transition": name, "labels": counts, "seed": plan.seed}
        echo_json(facts | {"classes": drawn.classes})
        return
    top = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {n:,}" for name, n in top[:12]) + (f" and {len(top) - 12} more" if len(top) > 12 else "")
    say(f"{rows:,} rows with labels {name}, seed {plan.seed}, in the column {plan.column!r}: {shown}")
    if plan.keep_true:
        say(f"the true classes are still in {plan.label!r}: train with --ignore {plan.label}, or it becomes a feature")
    say(f"written to {out}")
