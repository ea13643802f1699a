"""`tproper inspect`: what a transition allows, and which losses are proper and bounded for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .._core import Mark, atomic_file, json_text, mark
from ..certificates import Certificate, certify, comparison, critical_k
from ..losses import BackwardLoss, ForwardLoss, GradientAscentLoss
from ..transitions import Transition, parse_transition
from .errors import user_errors


def certificates(transition: Transition, k: float, alpha: float, reconstruction: str) -> dict[str, Certificate]:
    """The paper's losses and forward correction, certified; forward alone where T has no reconstruction."""
    found: dict[str, Certificate] = {}
    if transition.diagnose().reconstructible:
        R = transition.reconstruction(reconstruction)
        found["BC"] = certify(BackwardLoss(transition, reconstruction=R))
        found[f"BC+gLS ({k:g}, {alpha:g})"] = certify(BackwardLoss(transition, squeeze=(k, alpha), reconstruction=R))
        found["BC+GA"] = certify(GradientAscentLoss(transition, reconstruction=R))
    found["forward"] = certify(ForwardLoss(transition))
    return found


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("inspect")
    @user_errors
    def inspect(
        spec: Annotated[
            str, typer.Argument(help="complementary:10, partial:5,0.1, ... or a .csv/.npy/.json matrix file")
        ],
        k: Annotated[float, typer.Option(help="squeezing coefficient")] = 1.0,
        alpha: Annotated[float, typer.Option(help="squeezing exponent")] = 2.0,
        reconstruction: Annotated[str, typer.Option(help="auto, inverse, pinv, min_variance or tightest")] = "auto",
        as_json: Annotated[bool, typer.Option("--json", help="machine-readable output")] = False,
        full: Annotated[bool, typer.Option("--full", help="print every certificate in full")] = False,
        plot: Annotated[Path | None, typer.Option(help="draw the BC loss over the 3-simplex (three classes)")] = None,
    ) -> None:
        """Diagnose a label transition and certify BC, BC+gLS, BC+GA and forward correction for it."""
        before = None if plot is None else mark(plot)
        transition = parse_transition(spec)
        diagnosis = transition.diagnose()
        certified = certificates(transition, k, alpha, reconstruction)
        if as_json:
            out: dict[str, Any] = {"diagnosis": diagnosis.to_dict()}
            out["losses"] = {name: c.to_dict() for name, c in certified.items()}
            if diagnosis.reconstructible:
                out["critical_k"] = critical_k(transition, transition.reconstruction(reconstruction)).tolist()
            typer.echo(json_text(out, indent=2))
        else:
            typer.echo(f"{diagnosis}\n")
            typer.echo(comparison(certified))
            bc = certified.get("BC")
            if bc is not None and bc.witness is not None:
                worst = critical_k(transition, transition.reconstruction(reconstruction)).max()
                typer.echo(f"\nBC has no lower bound. {bc.witness}.")
                typer.echo(
                    f"Squeezing with alpha = 1 would bound it from k = {worst:.6g} on; alpha > 1 does so at any k > 0."
                )
            if full:
                for certificate in certified.values():
                    typer.echo(f"\n{certificate}")
        if plot is not None:
            draw(transition, reconstruction, plot, before)
            typer.echo(f"picture: {plot}", err=as_json)


def draw(transition: Transition, reconstruction: str, path: Path, since: Mark) -> None:
    """One panel per weak label: the loss of BC over the simplex, as in Figure 1 of the paper."""
    from .. import plots

    if transition.num_classes != 3:
        raise ValueError(f"--plot: expected three classes for a picture of the simplex, got {transition.num_classes}")
    try:
        import mpltern  # noqa: F401 - registers the ternary projection
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("--plot needs mpltern: pip install 'tproper[plots]'") from error
    loss = BackwardLoss(transition, reconstruction=transition.reconstruction(reconstruction))
    labels = transition.weak_labels if transition.label_shape else list(range(transition.num_weak_labels))
    columns = min(4, len(labels))
    rows = -(-len(labels) // columns)
    figure = plots.figure(figsize=(3.6 * columns, 3.3 * rows), layout="constrained")
    for i, label in enumerate(labels):
        ax = figure.add_subplot(rows, columns, i + 1, projection="ternary")
        plots.draw_simplex_loss(ax, plots.compute_simplex_loss(loss, label))
        shown = "{" + ", ".join(map(str, sorted(label))) + "}" if isinstance(label, frozenset) else label
        ax.set_title(f"weak label {shown}", fontsize=9)
    figure.suptitle(f"backward-corrected cross entropy, {transition.name}")
    with atomic_file(path, since=since) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip(".") or "png", dpi=150)
