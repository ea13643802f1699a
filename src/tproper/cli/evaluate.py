"""`tproper evaluate`: scores of a model from weak labels, and from clean ones where there are any."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .. import tables
from .errors import check_picture, say, spoken
from .options import Data, Force, Json, LabelOptions, Model, SourceColumn, echo_json, given


@dataclass(frozen=True, kw_only=True)
class EvaluateLabels(LabelOptions):
    """The label columns of a table of one or several sources."""

    source_column: SourceColumn = None


def evaluate(
    model: Model,
    data: Data,
    labels: EvaluateLabels,
    transition: Annotated[
        list[str] | None, typer.Option(help="how these labels were weakened, if not as in training")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="reliability diagram to draw (.png, .svg or .pdf)")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Unbiased scores from weak labels, with their intervals; clean ones beside them where a true column is given."""
    if plot is not None:
        check_picture(plot, force)
    with spoken():
        result = tables.TableModel.load(model).evaluate(data, transition=transition, plot=plot, **given(labels))
    for doubt in result.doubts:
        say(f"warning: {doubt}", err=True)
    if result.overlap is not None:
        say(f"warning: {result.overlap}", err=True)
    if as_json:
        echo_json(result.to_dict())
        return
    say(f"{result.rows['weak']:,} rows with a weak label ({result.rows['without_label']:,} without)")
    if result.no_scores:
        say(f"No scores from weak labels: {result.no_scores}.")
    say(str(result))
    if plot is not None:
        say(f"reliability diagram: {plot}")
