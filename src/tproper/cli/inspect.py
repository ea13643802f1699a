"""`tproper inspect`: what a transition allows, and which losses are proper and bounded for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import check_new, say, spoken
from .later import Later
from .options import Force, Json, echo_json

if TYPE_CHECKING:
    from .. import _core as core
    from .. import certificates, plots, transitions
else:
    core, certificates, plots, transitions = map(Later, ("_core", "certificates", "plots", "transitions"))


def inspect(
    spec: Annotated[
        str,
        typer.Argument(help="complementary:10, partial:5,0.1, ... or a .csv/.npy/.json matrix file; 'kinds' lists all"),
    ],
    k: Annotated[float, typer.Option(help="squeezing coefficient")] = 1.0,
    alpha: Annotated[float, typer.Option(help="squeezing exponent")] = 2.0,
    reconstruction: Annotated[str, typer.Option(help="auto, inverse, pinv, min_variance or tightest")] = "auto",
    as_json: Json = False,
    full: Annotated[bool, typer.Option("--full", help="print every certificate in full")] = False,
    plot: Annotated[Path | None, typer.Option(help="draw the BC loss over the 3-simplex (three classes)")] = None,
    force: Force = False,
) -> None:
    """Diagnose a label transition and certify BC, BC+gLS, BC+GA and forward correction for it."""
    if spec == "kinds":
        listed = [{"usage": k.usage(k.name), "example": k.example, "help": k.help} for k in transitions.KINDS]
        if as_json:
            echo_json({"kinds": listed})
        else:
            say("\n".join(f"{kind['usage']:<50}{kind['help']}; {kind['example']}" for kind in listed))
        return
    before = None if plot is None else core.mark(plot)
    transition = transitions.parse_transition(spec)
    if plot is not None:
        plots.check_drawable(transition)
        check_new(plot, "--plot", force)
    with spoken():
        seen = certificates.inspect(transition, k, alpha, reconstruction)
    if plot is not None:
        plots.draw_transition_losses(transition, reconstruction, plot, before)
    if as_json:
        echo_json(seen.to_dict())
    else:
        say(seen.text(full))
    if plot is not None:
        say(f"picture: {plot}", err=as_json)
