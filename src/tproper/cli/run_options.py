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


@dataclass(frozen=True)
class RunOptions:
    """The options, as they were given."""

    data: Path | None
    mirror: str | None
    out: Path
    records: list[Path] | None
    device: str
    slots: int | None
    kernels: str
    minutes: float | None
    checkpoint_seconds: float
    threads: int | None
    export: Path | None
    engine: Engine
    address: str | None
    gpus_per_task: float | None


Mirror = Annotated[str | None, typer.Option(help="address to download from")]
Out = Annotated[Path, typer.Option(help="folder of the run: records, checkpoints, report")]
Records = Annotated[list[Path] | None, typer.Option(help="finished records to go on from (file or folder)")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda")]
Slots = Annotated[int | None, typer.Option(help="trials in one stack", min=1)]
Kernels = Annotated[str, typer.Option(help="residual nets: auto, triton, compile, plain or float32")]
Minutes = Annotated[float | None, typer.Option(help="stop cleanly after this many minutes")]
CheckpointSeconds = Annotated[float, typer.Option(help="time between checkpoints", min=0)]
Threads = Annotated[int | None, typer.Option(help="CPU threads", min=1)]
Export = Annotated[Path | None, typer.Option(help="also write all records (.jsonl or .parquet)")]
Where = Annotated[Engine, typer.Option(help="local, or a Ray cluster")]
Address = Annotated[str | None, typer.Option(help="of the Ray cluster; a new local one by default")]
GpusPerTask = Annotated[float | None, typer.Option(help="Ray: share of a GPU for a stack of trials")]
