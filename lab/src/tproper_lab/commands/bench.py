"""`tproper bench`: methods side by side on one weak-label problem, by one rule and one budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from .run_options import Out, RunOptions


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What to compare, on what, and with which budget."""

    problem: Annotated[
        str,
        typer.Argument(
            help="complementary, symmetric:0.3, partial:0.3, pu:0.5, T.csv, ...; cifar10n:random1, llava:3, ...; "
            "or a name for the labels of --labels"
        ),
    ]
    models: Annotated[str, typer.Option(help="comma-separated: linear, mlp, resnet20, wrn28_2")] = ""
    methods: Annotated[str, typer.Option(help="comma-separated, or all that fit the labels")] = "all"
    method_file: Annotated[
        list[str] | None,
        typer.Option(help="your own loss, mine.py:name: a function of scores (S, n, K) and labels, or of T"),
    ] = None
    labels: Annotated[
        Path | None,
        typer.Option(
            help="your own labels (.npy or .csv, one row per training image), or the folder of the published ones"
        ),
    ] = None
    transition: Annotated[
        str | None, typer.Option(help="the T that methods are given: a spec or T.json (default: the true one)")
    ] = None
    transition_is: Annotated[str | None, typer.Option(help="how --transition is known: given, estimated or wrong")] = (
        None
    )
    merge: Annotated[str, typer.Option(help="merge classes into groups: 0+1|2+3; a two-class T has a default")] = ""
    soft: Annotated[
        Path | None, typer.Option(help="folder with CIFAR-10H's counts, to score probabilities against people's")
    ] = None
    trials: Annotated[int, typer.Option(help="trials of each method", min=1, max=1000)] = 3
    epochs: Annotated[int | None, typer.Option(help="epochs of a trial (default: by data set)", min=1)] = None
    lr: Annotated[str, typer.Option(help="learning rates to search, or the one to use (default: by data set)")] = ""
    search_epochs: Annotated[
        int | None, typer.Option(help="epochs of a search trial (default: a quarter, or 6 if that is more)", min=1)
    ] = None
    search_trials: Annotated[int, typer.Option(help="search trials of each rate", min=1)] = 1
    weight_decay: Annotated[float, typer.Option(help="weight decay of all methods", min=0)] = 1e-4
    learned_lr: Annotated[float, typer.Option(help="learning rate of a T that is learned", min=0)] = 0.01
    select: Annotated[str, typer.Option(help="how epochs are chosen for the report: clean, weak")] = "clean,weak"


@dataclass(frozen=True, kw_only=True)
class BenchRun(RunOptions):
    """Where `bench` runs."""

    data: Annotated[
        Path | None, typer.Option(help="folder with the data files (default: the cache), or digits for that data set")
    ] = None
    out: Out = Path("runs/bench")


def bench(options: BenchOptions, run: BenchRun) -> None:
    """Compare methods on one weak-label problem; run it again to go on where it stopped."""
    from . import benchmark as work

    if run.data == Path("digits") and run.dataset in ("", "digits"):
        run = replace(run, data=None, dataset="digits")
    work.run(options, run)
