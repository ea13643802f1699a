"""Options that `reproduce` and `bench` share: where trials run, and where their records go."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Engine(StrEnum):
    """Where trials run."""

    local = "local"
    ray = "ray"


Out = Annotated[Path, typer.Option(help="folder of the run: records, checkpoints, report")]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options as they were given. Each command has its own default for `out`."""

    dataset: Annotated[str, typer.Option(help="mnist, cifar10 or digits (default: the model's own)")] = ""
    data: Annotated[Path | None, typer.Option(help="folder with the data files (default: the cache)")] = None
    mirror: Annotated[str | None, typer.Option(help="address to download from")] = None
    out: Out
    records: Annotated[list[Path] | None, typer.Option(help="finished records to go on from (file or folder)")] = None
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto"
    slots: Annotated[int | None, typer.Option(help="trials in one stack", min=1)] = None
    kernels: Annotated[str, typer.Option(help="residual nets: auto, triton, compile, plain or float32")] = "auto"
    minutes: Annotated[float | None, typer.Option(help="stop cleanly after this many minutes")] = None
    checkpoint_seconds: Annotated[float, typer.Option(help="time between checkpoints", min=0)] = 60.0
    threads: Annotated[int | None, typer.Option(help="CPU threads", min=1)] = None
    export: Annotated[Path | None, typer.Option(help="also write all records (.jsonl or .parquet)")] = None
    engine: Annotated[Engine, typer.Option(help="local, or a Ray cluster")] = Engine.local
    address: Annotated[str | None, typer.Option(help="address of the Ray cluster (default: a new local one)")] = None
    gpus_per_task: Annotated[float | None, typer.Option(help="Ray: share of a GPU for each stack of trials")] = None
