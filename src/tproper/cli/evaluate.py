"""`tproper evaluate`: scores of a model from weak labels, and from clean ones where there are any."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import tables
from .errors import check_picture, say
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
    result = tables.TableModel.load(model).evaluate(data, transition=transition, plot=plot, **given(labels))
    weak, clean, counts = result.weak, result.clean, result.counts
    for doubt in [] if result.trust is None else result.trust.doubts:
        say(f"warning: {doubt}", err=True)
    if result.overlap is not None:
        say(f"warning: {result.overlap}", err=True)
    if as_json:
        out: dict[str, Any] = {"rows": counts, "transition": result.transition}
        out |= {"weak": None, "no_scores": tables.UNSCORABLE} if weak is None else {"weak": tables.plain(weak)}
        if clean is not None:
            out["clean"] = tables.plain(clean)
        out["trust"] = None if result.trust is None else result.trust.to_dict()
        out["overlap"] = result.overlap
        echo_json(out)
        return
    say(f"{counts['weak']:,} rows with a weak label ({counts['without_label']:,} without)")
    if weak is None:
        say(f"No scores from weak labels: {tables.UNSCORABLE}.")
    say(tables.as_text(weak, clean, result.trust))
    if plot is not None:
        say(f"reliability diagram: {plot}")
