"""`tproper reproduce`: a table or figure of the paper, trial by trial."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tproper.errors import InputError

from .run_options import Out, RunOptions

TRIALS, MAX_EPOCHS = 16, 400  # the paper's; a test holds them to the laboratory's


class Target(StrEnum):
    """What of the paper to reproduce."""

    table2 = "table2"
    fig1 = "fig1"
    fig2 = "fig2"
    fig3 = "fig3"


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """What to reproduce, and how much of it."""

    target: Annotated[Target, typer.Argument(help="table2, fig1, fig2 or fig3")]
    models: Annotated[str, typer.Option(help="comma-separated models")] = ""
    methods: Annotated[str, typer.Option(help="comma-separated rows of Table 2")] = ""
    values: Annotated[str, typer.Option(help="fig2: comma-separated k, fig3: alpha (default: the whole grid)")] = ""
    trials: Annotated[int, typer.Option(help="trials of each cell", min=1)] = TRIALS
    released: Annotated[
        bool, typer.Option(help="fig3: squeeze by c / alpha with the released c, as the authors' code does")
    ] = False
    search: Annotated[bool, typer.Option(help="the paper's grid search instead of its choices")] = False
    max_epochs: Annotated[int, typer.Option(help="end a trial after this many epochs at the latest", min=1)] = (
        MAX_EPOCHS
    )
    augment_validation: Annotated[bool, typer.Option(help="crop validation images, as the authors' code does")] = False
    warmup_by_epoch: Annotated[bool, typer.Option(help="warm up epoch by epoch, as the authors' code does")] = False

    def __post_init__(self) -> None:
        if self.methods and self.target is not Target.table2:
            raise InputError(f"--methods: expected it with table2 alone, got it with {self.target}, which has its own")
        if self.released and self.target is not Target.fig3:
            raise InputError(f"--released: expected it with fig3 alone, got it with {self.target}")
        if self.values and self.target not in (Target.fig2, Target.fig3):
            raise InputError(f"--values: expected it with fig2 or fig3, got it with {self.target}, which has no grid")


@dataclass(frozen=True, kw_only=True)
class ReproduceRun(RunOptions):
    """Where `reproduce` runs."""

    out: Out = Path("runs/paper")


def reproduce(context: typer.Context, options: ReproduceOptions, run: ReproduceRun) -> None:
    """Reproduce a table or figure of the paper; run it again to go on where it stopped."""
    from . import experiments as work

    if options.target is Target.fig1:
        _nothing_but_out(context)
    work.run(options, run)


def _nothing_but_out(context: typer.Context) -> None:
    """Figure 1 trains nothing, so no option but --out could have an effect."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in ("target", "out") and source is not None and source.name == "COMMANDLINE":
            raise InputError(
                f"--{name.replace('_', '-')}: expected it without fig1, which trains nothing and takes --out alone"
            )
