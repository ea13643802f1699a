"""Options that several commands share, and the checks that need nothing but the option."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .later import Later

if TYPE_CHECKING:
    from .. import _core as core
else:
    core = Later("_core")

Data = Annotated[Path, typer.Argument(help="a .csv, .tsv or .parquet file, or a folder of Parquet files")]
Model = Annotated[Path, typer.Argument(help="the folder that `tproper train` wrote")]
Specs = Annotated[
    list[str],
    typer.Option(
        "--transition",
        help="how labels were weakened: complementary, symmetric:0.2, partial:0.3, pu:0.5, T.csv, ...; "
        "estimate for T from the table itself; NAME=SPEC once per annotator, or per source with --source-column",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(help="the classes, in the order of the transition: a,b,c (default: as the labels name them)"),
]
SourceColumn = Annotated[str | None, typer.Option(help="the column that says where a label comes from")]
WeakLabel = Annotated[
    str, typer.Option("--label", help="the column with the weak labels; A,B,C for the answers of several annotators")
]
Item = Annotated[str | None, typer.Option(help="one answer per row: the column that names the item")]
Annotator = Annotated[str | None, typer.Option(help="one answer per row: the column that names who answered")]
FeaturesFrom = Annotated[
    Path | None, typer.Option(help="one answer per row: a second table, with the features of every item")
]
TrueLabel = Annotated[str | None, typer.Option(help="the column with the true class, empty where it is unknown")]
Group = Annotated[
    str | None, typer.Option(help="rows with the same value here are never split between training and scoring")
]
Json = Annotated[bool, typer.Option("--json", help="machine-readable output")]
Seed = Annotated[int, typer.Option(help="random seed")]


def echo_json(value: Any) -> None:
    """For machines; numbers that JSON does not have are text."""
    typer.echo(core.json_text(value, indent=2))


def one_of(value: str, allowed: tuple[str, ...], option: str) -> None:
    """Refuse anything else."""
    if value not in allowed:
        raise ValueError(f"{option}: expected one of {', '.join(allowed)}, got {value!r}")


def at_least(value: float | None, low: int, option: str) -> None:
    """Refuse less, and what is not finite."""
    if value is not None and not low <= value < float("inf"):
        raise ValueError(f"{option}: expected a number >= {low}, got {value:g}")


def squeeze_pair(text: str | None) -> tuple[float, float] | None:
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
