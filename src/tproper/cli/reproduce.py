"""`tproper reproduce`: a table or figure of the paper, trial by trial."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .later import Later

if TYPE_CHECKING:
    from . import experiments as work
else:
    work = Later("cli.experiments")

TRIALS, MAX_EPOCHS = 16, 400  # the paper's; a test holds them to the laboratory's


class Engine(StrEnum):
    """Where trials run."""

    local = "local"
    ray = "ray"


class Target(StrEnum):
    """What of the paper to reproduce."""

    table2 = "table2"
    fig1 = "fig1"
    fig2 = "fig2"
    fig3 = "fig3"


@dataclass(frozen=True)
class Asked:
    """The options, as they were given."""

    target: Target
    models: str
    methods: str
    values: str
    trials: int
    dataset: str
    data: Path | None
    mirror: str | None
    out: Path
    records: list[Path] | None
    search: bool
    device: str
    slots: int | None
    kernels: str
    minutes: float | None
    max_epochs: int
    augment_validation: bool
    warmup_by_epoch: bool
    checkpoint_seconds: float
    threads: int | None
    export: Path | None
    engine: Engine
    address: str | None
    gpus_per_task: float | None


def reproduce(
    context: typer.Context,
    target: Annotated[Target, typer.Argument(help="table2, fig1, fig2 or fig3")],
    models: Annotated[str, typer.Option(help="comma-separated models")] = "",
    methods: Annotated[str, typer.Option(help="comma-separated rows of Table 2")] = "",
    values: Annotated[str, typer.Option(help="fig2: comma-separated k, fig3: alpha; the whole grid if empty")] = "",
    trials: Annotated[int, typer.Option(help="trials of each cell", min=1)] = TRIALS,
    dataset: Annotated[str, typer.Option(help="mnist, cifar10 or digits; the model's own if empty")] = "",
    data: Annotated[Path | None, typer.Option(help="folder with the data files; else the cache")] = None,
    mirror: Annotated[str | None, typer.Option(help="address to download from")] = None,
    out: Annotated[Path, typer.Option(help="folder of the run: records, checkpoints, report")] = Path("runs/paper"),
    records: Annotated[list[Path] | None, typer.Option(help="finished records to go on from (file or folder)")] = None,
    search: Annotated[bool, typer.Option(help="the paper's grid search instead of its choices")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    slots: Annotated[int | None, typer.Option(help="trials in one stack", min=1)] = None,
    kernels: Annotated[str, typer.Option(help="residual nets: auto, triton, compile, plain or float32")] = "auto",
    minutes: Annotated[float | None, typer.Option(help="stop cleanly after this time")] = None,
    max_epochs: Annotated[int, typer.Option(help="end a trial here at the latest", min=1)] = MAX_EPOCHS,
    augment_validation: Annotated[bool, typer.Option(help="crop validation images, as the authors' code does")] = False,
    warmup_by_epoch: Annotated[bool, typer.Option(help="warm up epoch by epoch, as the authors' code does")] = False,
    checkpoint_seconds: Annotated[float, typer.Option(help="time between checkpoints", min=0)] = 60.0,
    threads: Annotated[int | None, typer.Option(help="CPU threads", min=1)] = None,
    export: Annotated[Path | None, typer.Option(help="also write all records (.jsonl or .parquet)")] = None,
    engine: Annotated[Engine, typer.Option(help="local, or a Ray cluster")] = Engine.local,
    address: Annotated[str | None, typer.Option(help="of the Ray cluster; a new one here if not given")] = None,
    gpus_per_task: Annotated[float | None, typer.Option(help="Ray: share of a GPU for a stack of trials")] = None,
) -> None:  # fmt: skip
    """Reproduce a table or figure of the paper; run it again to go on where it stopped."""
    if methods and target is not Target.table2:
        raise ValueError(f"expected --methods with table2 alone, got it with {target}, which has its own")
    if values and target not in (Target.fig2, Target.fig3):
        raise ValueError(f"expected --values with fig2 or fig3, got it with {target}, which has no grid")
    asked = Asked(
        target, models, methods, values, trials, dataset, data, mirror, out, records, search, device, slots, kernels,
        minutes, max_epochs, augment_validation, warmup_by_epoch, checkpoint_seconds, threads, export, engine, address,
        gpus_per_task,
    )  # fmt: skip
    if target is Target.fig1:
        _nothing_but_out(context)
    work.run(asked)


def _nothing_but_out(context: typer.Context) -> None:
    """Figure 1 trains nothing, so that no option but --out could have an effect."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in ("target", "out") and source is not None and source.name == "COMMANDLINE":
            raise ValueError(f"expected fig1 with --out alone, which draws a formula, got --{name.replace('_', '-')}")
