"""`tproper reproduce`: a table or figure of the paper, trial by trial."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import run_options as options
from .later import Later
from .run_options import RunOptions

if TYPE_CHECKING:
    from . import experiments as work
else:
    work = Later("cli.experiments")

TRIALS, MAX_EPOCHS = 16, 400  # the paper's; a test holds them to the laboratory's


class Target(StrEnum):
    """What of the paper to reproduce."""

    table2 = "table2"
    fig1 = "fig1"
    fig2 = "fig2"
    fig3 = "fig3"


@dataclass(frozen=True)
class ReproduceOptions:
    """The options, as they were given."""

    target: Target
    models: str
    methods: str
    values: str
    trials: int
    dataset: str
    search: bool
    max_epochs: int
    augment_validation: bool
    warmup_by_epoch: bool
    run: RunOptions


def reproduce(
    context: typer.Context,
    target: Annotated[Target, typer.Argument(help="table2, fig1, fig2 or fig3")],
    models: Annotated[str, typer.Option(help="comma-separated models")] = "",
    methods: Annotated[str, typer.Option(help="comma-separated rows of Table 2")] = "",
    values: Annotated[str, typer.Option(help="fig2: comma-separated k, fig3: alpha; the whole grid if empty")] = "",
    trials: Annotated[int, typer.Option(help="trials of each cell", min=1)] = TRIALS,
    dataset: Annotated[str, typer.Option(help="mnist, cifar10 or digits; the model's own if empty")] = "",
    data: Annotated[Path | None, typer.Option(help="folder with the data files; the cache by default")] = None,
    mirror: options.Mirror = None,
    out: options.Out = Path("runs/paper"),
    records: options.Records = None,
    search: Annotated[bool, typer.Option(help="the paper's grid search instead of its choices")] = False,
    device: options.Device = "auto",
    slots: options.Slots = None,
    kernels: options.Kernels = "auto",
    minutes: options.Minutes = None,
    max_epochs: Annotated[int, typer.Option(help="end a trial here at the latest", min=1)] = MAX_EPOCHS,
    augment_validation: Annotated[bool, typer.Option(help="crop validation images, as the authors' code does")] = False,
    warmup_by_epoch: Annotated[bool, typer.Option(help="warm up epoch by epoch, as the authors' code does")] = False,
    checkpoint_seconds: options.CheckpointSeconds = 60.0,
    threads: options.Threads = None,
    export: options.Export = None,
    engine: options.Where = options.Engine.local,
    address: options.Address = None,
    gpus_per_task: options.GpusPerTask = None,
) -> None:  # fmt: skip
    """Reproduce a table or figure of the paper; run it again to go on where it stopped."""
    if methods and target is not Target.table2:
        raise ValueError(f"--methods: expected it with table2 alone, got it with {target}, which has its own")
    if values and target not in (Target.fig2, Target.fig3):
        raise ValueError(f"--values: expected it with fig2 or fig3, got it with {target}, which has no grid")
    run = options.RunOptions(
        data, mirror, out, records, device, slots, kernels, minutes, checkpoint_seconds, threads, export, engine,
        address, gpus_per_task,
    )  # fmt: skip
    given = ReproduceOptions(
        target, models, methods, values, trials, dataset, search, max_epochs, augment_validation, warmup_by_epoch, run
    )
    if target is Target.fig1:
        _nothing_but_out(context)
    work.run(given)


def _nothing_but_out(context: typer.Context) -> None:
    """Figure 1 trains nothing, so that no option but --out could have an effect."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in ("target", "out") and source is not None and source.name == "COMMANDLINE":
            raise ValueError(
                f"--{name.replace('_', '-')}: expected it without fig1, which trains nothing and takes --out alone"
            )
