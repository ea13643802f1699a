"""`tproper bench`: methods side by side on one weak-label problem, by one rule and one budget."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import run_options as options
from .later import Later
from .run_options import RunOptions

if TYPE_CHECKING:
    from . import benchmark as work
else:
    work = Later("cli.benchmark")


@dataclass(frozen=True)
class BenchOptions:
    """The options, as they were given."""

    problem: str
    models: str
    methods: str
    method_files: list[str]
    dataset: str
    labels: Path | None
    transition: str | None
    transition_is: str | None
    merge: str
    soft: Path | None
    trials: int
    epochs: int | None
    lr: str
    search_epochs: int | None
    search_trials: int
    weight_decay: float
    learned_lr: float
    select: str
    run: RunOptions


def bench(
    problem: Annotated[
        str,
        typer.Argument(help="complementary, symmetric:0.3, partial:0.3, pu:0.5, T.csv, ...; cifar10n:random1, llava:3, "
                       "...; or a name for the labels of --labels"),
    ],
    data: Annotated[str, typer.Option(help="folder with the data files, or digits; the cache by default")] = "",
    models: Annotated[str, typer.Option(help="comma-separated: linear, mlp, resnet20, wrn28_2")] = "",
    methods: Annotated[str, typer.Option(help="comma-separated, or all that fit the labels")] = "all",
    method_file: Annotated[list[str] | None, typer.Option(help="your own loss, mine.py:my_loss")] = None,
    dataset: Annotated[str, typer.Option(help="mnist, cifar10 or digits; the model's own if empty")] = "",
    labels: Annotated[
        Path | None, typer.Option(help="your own labels (.npy or .csv, one row per training image), or the folder of "
                                  "the published ones")
    ] = None,
    transition: Annotated[
        str | None, typer.Option(help="the T that methods are given: a spec or T.json; the true one by default")
    ] = None,
    transition_is: Annotated[
        str | None, typer.Option(help="how --transition is known: given, estimated or wrong")
    ] = None,
    merge: Annotated[str, typer.Option(help="merge classes into groups: 0+1|2+3; a two-class T has a default")] = "",
    soft: Annotated[
        Path | None, typer.Option(help="folder with CIFAR-10H's counts, to score probabilities against people's")
    ] = None,
    trials: Annotated[int, typer.Option(help="trials of each method", min=1, max=1000)] = 3,
    epochs: Annotated[int | None, typer.Option(help="of a trial; default by data set", min=1)] = None,
    lr: Annotated[str, typer.Option(help="learning rates to search, or the one to use; default by data set")] = "",
    search_epochs: Annotated[int | None, typer.Option(help="of a search trial; a quarter of --epochs", min=1)] = None,
    search_trials: Annotated[int, typer.Option(help="search trials of each rate", min=1)] = 1,
    weight_decay: Annotated[float, typer.Option(help="of all methods", min=0)] = 1e-4,
    learned_lr: Annotated[float, typer.Option(help="learning rate of a T that is learned", min=0)] = 0.01,
    select: Annotated[str, typer.Option(help="how the printed scores' epoch is chosen: clean, weak")] = "clean,weak",
    mirror: options.Mirror = None,
    out: options.Out = Path("runs/bench"),
    records: options.Records = None,
    device: options.Device = "auto",
    slots: options.Slots = None,
    kernels: options.Kernels = "auto",
    minutes: options.Minutes = None,
    checkpoint_seconds: options.CheckpointSeconds = 60.0,
    threads: options.Threads = None,
    export: options.Export = None,
    engine: options.Where = options.Engine.local,
    address: options.Address = None,
    gpus_per_task: options.GpusPerTask = None,
) -> None:  # fmt: skip
    """Compare methods on one weak-label problem; run it again to go on where it stopped."""
    if data == "digits" and dataset in ("", "digits"):
        data, dataset = "", "digits"
    run = options.RunOptions(
        Path(data) if data else None, mirror, out, records, device, slots, kernels, minutes, checkpoint_seconds,
        threads, export, engine, address, gpus_per_task,
    )  # fmt: skip
    work.run(
        BenchOptions(
            problem, models, methods, method_file or [], dataset, labels, transition, transition_is, merge, soft,
            trials, epochs, lr, search_epochs, search_trials, weight_decay, learned_lr, select, run,
        )
    )  # fmt: skip
