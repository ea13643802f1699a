"""The commands ``tproper reproduce`` and ``tproper report``."""

from __future__ import annotations

import importlib.util
import math
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from .._core import mark
from ..lab import paper, sweep
from ..lab.datasets import NAMES, folder_of_data, load
from ..lab.download import check_mirror
from ..lab.engine import Pixels
from ..lab.models import FLAT_MODELS, KERNELS
from ..lab.protocol import Protocol, Trial, TrialConfig
from ..lab.runner import Runner, Status, Stop
from ..lab.store import (
    Record,
    Store,
    check_suffix,
    damaged,
    export_records,
    gather,
    kernel_group,
    kernels_of,
    not_a_store,
)
from .errors import check_writable, user_errors


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


#: What the figures vary: k in Figure 2, alpha in Figure 3.
GRIDS = {Target.fig2: paper.COEFFICIENTS, Target.fig3: paper.EXPONENTS}


@contextmanager
def _resource_errors(out: Path) -> Iterator[None]:
    """A full store or a full GPU as an OSError, which ``user_errors`` turns into one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        if damaged(error):
            raise not_a_store(out / "records.sqlite", error) from error
        raise OSError(f"the store cannot be written ({error}); what was stored before is kept") from error
    except torch.cuda.OutOfMemoryError as error:
        raise OSError("the GPU's memory is full; try a smaller --slots") from error
    except RuntimeError as error:
        if "CUDA error" not in str(error):
            raise
        reason = str(error).splitlines()[0]
        raise OSError(f"the GPU was lost ({reason}); run the command again to go on from the last minute") from error


def _names(text: str, known: tuple[str, ...], what: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        found = ", ".join(unknown) or "nothing"
        raise ValueError(f"expected {what} among {', '.join(known)}, got {found}")
    return names


def _numbers(text: str) -> tuple[float, ...]:
    try:
        found = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        found = ()
    if not found or not all(0 < value < math.inf for value in torch.tensor(found, dtype=torch.float32).tolist()):
        raise ValueError(
            f"expected --values to be positive numbers with commas between them, none beyond float32, got {text}"
        )
    return found


def _nothing_but_out(context: typer.Context) -> None:
    """Figure 1 trains nothing, so that no option but --out could have an effect."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in ("target", "out") and source is not None and source.name == "COMMANDLINE":
            raise ValueError(f"expected fig1 with --out alone, which draws a formula, got --{name.replace('_', '-')}")


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise ValueError(f"expected --device auto, cpu or cuda, got {name}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("expected a CUDA GPU for --device cuda, found none; try --device cpu")
    return torch.device(name)


def _models(models: str, dataset: str, target: Target) -> list[str]:
    """The models to run: those given, or the data set's own, or the paper's."""
    if dataset and dataset not in NAMES:
        raise ValueError(f"expected --dataset among {', '.join(NAMES)}, got {dataset}")
    own = [m for m in paper.MODELS if not dataset or (m in FLAT_MODELS) == (dataset != "cifar10")]
    chosen = _names(models or ",".join(own if target is Target.table2 else own[-1:]), tuple(paper.MODELS), "--models")
    if not set(chosen) <= set(own):
        raise ValueError(
            f"the models {', '.join(chosen)} are not all for the data set {dataset}: "
            "linear and mlp take mnist or digits, resnet20 and wrn28_2 take cifar10"
        )
    return chosen


def _check_export(path: Path, out: Path) -> None:
    """Refuse before hours of work what could not be written after them."""
    check_suffix(path)
    if path.is_dir() or not (path.parent.is_dir() or path.parent.resolve() == out.resolve()):
        raise ValueError(f"expected --export to name a file in a folder that is there, got {path}")
    check_writable(path)
    if path.suffix == ".parquet" and not all(importlib.util.find_spec(name) for name in ("pandas", "pyarrow")):
        raise ValueError(f"expected pandas and pyarrow to write {path}, found none; pip install 'tproper[tables]'")


class _Display:
    """Trials, epochs, speed and time left: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("trials"),
            TextColumn("{task.fields[detail]}"), console=self.console,
        )  # fmt: skip
        self.task = self.progress.add_task("", total=1, detail="")
        self.said = 0.0

    def show(self, status: Status) -> None:
        import time

        speed = status.seconds_per_epoch
        detail = f"{status.active} running, {status.epochs} epochs"
        if status.epochs:
            detail += f", {speed:.4f} s per trial-epoch, {self._left(status)}"
        now = time.monotonic()
        if self.console.is_terminal:
            self.progress.start()
            self.progress.update(
                self.task, description=status.note, total=status.total, completed=status.done,
                detail=detail,
            )  # fmt: skip
        elif now - self.said > 20 or status.done == status.total:
            self.said = now
            line = f"{status.note}: {status.done}/{status.total} trials, {detail}"
            self.console.print(line, soft_wrap=True, highlight=False)

    @staticmethod
    def _left(status: Status) -> str:
        """A guess: trials to go, at the mean length of a trial so far or 80 epochs, whichever is more."""
        to_go = status.active / 2 + status.waiting
        seconds = to_go * 80 * status.seconds_per_epoch
        return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left"

    def close(self) -> None:
        self.progress.stop()


@user_errors
def reproduce(
    context: typer.Context,
    target: Annotated[Target, typer.Argument(help="table2, fig1, fig2 or fig3")],
    models: Annotated[str, typer.Option(help="comma-separated models")] = "",
    methods: Annotated[str, typer.Option(help="comma-separated rows of Table 2")] = "",
    values: Annotated[str, typer.Option(help="fig2: comma-separated k, fig3: alpha; the whole grid if empty")] = "",
    trials: Annotated[int, typer.Option(help="trials of each cell", min=1)] = paper.TRIALS,
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
    max_epochs: Annotated[int, typer.Option(help="end a trial here at the latest", min=1)] = Protocol.max_epochs,
    augment_validation: Annotated[bool, typer.Option(help="crop validation images, as the authors' code does")] = False,
    checkpoint_seconds: Annotated[float, typer.Option(help="time between checkpoints", min=0)] = 60.0,
    threads: Annotated[int | None, typer.Option(help="CPU threads", min=1)] = None,
    export: Annotated[Path | None, typer.Option(help="also write all records (.jsonl or .parquet)")] = None,
    engine: Annotated[Engine, typer.Option(help="local, or a Ray cluster")] = Engine.local,
    address: Annotated[str | None, typer.Option(help="of the Ray cluster; a new one here if not given")] = None,
    gpus_per_task: Annotated[float | None, typer.Option(help="Ray: share of a GPU for a stack of trials")] = None,
) -> None:  # fmt: skip
    """Reproduce a table or figure of the paper; run it again to go on where it stopped."""
    with _resource_errors(out):
        if methods and target is not Target.table2:
            raise ValueError(f"expected --methods with table2 alone, got it with {target}, which has its own")
        if values and target not in GRIDS:
            raise ValueError(f"expected --values with fig2 or fig3, got it with {target}, which has no grid")
        grid = _numbers(values) if values else GRIDS.get(target, ())
        if target is Target.fig1:
            _nothing_but_out(context)
            from tproper.lab.figures import figure1, save_figure

            out.mkdir(parents=True, exist_ok=True)
            for path in save_figure(figure1(), out / "figure1"):
                typer.echo(path)
            return
        if minutes is not None and not minutes >= 0:
            raise ValueError(f"expected --minutes to be a number >= 0, got {minutes:g}")
        chosen_models = _models(models, dataset, target)
        chosen_methods = _names(methods or ",".join(paper.METHODS), tuple(paper.METHODS), "--methods")
        if trials > sweep.SEARCH_SEED:
            raise ValueError(
                f"expected --trials <= {sweep.SEARCH_SEED}, got {trials}: seeds from there on belong to --search"
            )
        if kernels not in KERNELS:
            raise ValueError(f"expected --kernels among {', '.join(KERNELS)}, got {kernels}")
        if export is not None:
            _check_export(export, out)
        before = None if export is None else mark(export)
        if data is not None:
            folder_of_data(data)
        if mirror is not None:
            check_mirror(mirror, "--mirror")
        place = _device(device)
        if engine is Engine.local and (address is not None or gpus_per_task is not None):
            raise ValueError("--address and --gpus-per-task belong to --engine ray")
        if engine is Engine.ray:
            from tproper.lab.ray_engine import import_ray

            import_ray()  # before anything is made
        if threads:
            torch.set_num_threads(threads)
        taken = [(source, gather(source)) for source in records or []]
        work = _Work(
            Store(out), place, data, mirror, slots, kernels,
            Stop(None if minutes is None else 60 * minutes), _Display(), checkpoint_seconds,
        )  # fmt: skip
        if engine is Engine.ray:
            work.cluster = {"address": address, "gpus": gpus_per_task, "cpus": float(threads or 1)}
        # digits has 1293 training examples: batches of 256 would leave five steps an epoch
        batch = 32 if dataset == "digits" else Protocol.batch_size
        protocol = Protocol(batch_size=batch, max_epochs=max_epochs, augment_validation=augment_validation)
        try:
            work.store.check()
            for source, rows in taken:
                fit = [r for r in rows if kernels_of(r) == kernel_group(r["model"], kernels)]
                note = f", {len(rows) - len(fit)} of other kernels left out" if len(fit) < len(rows) else ""
                typer.echo(f"{work.store.add(fit)} records taken from {source}{note}")
            for model in chosen_models:
                work.store.refuse_other_kernels(paper.chosen("bc", model, dataset or None), kernels)
            with work.stop.on_signals():
                complete = all(
                    _run_model(work, target, model, dataset, chosen_methods, grid, trials, protocol, search)
                    for model in chosen_models
                )
            if export is not None:
                export_records(work.store.records(), export, before)
        finally:
            work.display.close()
            work.store.close()
        if not complete:
            typer.echo(f"stopped; unfinished trials are kept in {out}, run the command again", err=True)
            raise typer.Exit(130 if work.stop.signal == signal.SIGINT else 75)
    report(out)


class _Work:
    """What all models of a run share."""

    def __init__(
        self, store: Store, device: torch.device, folder: Path | None, mirror: str | None,
        slots: int | None, kernels: str, stop: Stop, display: _Display, checkpoint_seconds: float,
    ):  # fmt: skip
        self.store, self.device, self.stop, self.display = store, device, stop, display
        self.folder, self.mirror, self.slots, self.kernels = folder, mirror, slots, kernels
        self.checkpoint_seconds = checkpoint_seconds
        self.loaded: dict[str, tuple[Any, Pixels]] = {}
        self.cluster: dict[str, Any] | None = None  # where to run, if not here

    def run(self, trials: list[Trial]) -> list[Record] | None:
        """Train what is not yet in the store; all records, or None if stopped before the end."""
        if self.store.done() >= {trial.id for trial in trials}:  # needs no data, which may be far away
            for trial in trials:
                self.store.forget(trial)
            self.display.show(Status(len(trials), len(trials), note=trials[0].config.model))
            return self.store.records()
        if self.cluster is not None:
            from tproper.lab.ray_engine import LabWork, run_trials_on_ray

            folder = None if self.folder is None else str(self.folder.resolve())
            lab = LabWork(folder, self.mirror, "auto", self.kernels, int(self.cluster["cpus"]))
            complete = run_trials_on_ray(
                trials, lab, self.store, stack=self.slots, stop=self.stop, show=self.display.show, **self.cluster
            )
            return self.store.records() if complete else None
        name = trials[0].config.dataset
        if name not in self.loaded:
            data = load(name, self.folder, self.mirror)
            self.loaded[name] = (data, Pixels(data, self.device))
        runner = Runner(*self.loaded[name], self.store, self.slots, self.kernels, self.checkpoint_seconds)
        if not runner.run(trials, self.stop, self.display.show):
            return None
        return self.store.records()


def _run_model(
    work: _Work, target: Target, model: str, dataset: str, methods: list[str], grid: tuple[float, ...], trials: int,
    protocol: Protocol, search: bool,
) -> bool:  # fmt: skip
    """All trials of one model; false if stopped before the end."""

    def base(method: str) -> TrialConfig:
        return paper.chosen(method, model, dataset or None, protocol)

    configs: list[TrialConfig] = []
    for method in methods if target is Target.table2 else ["bc_tuned", "ga_tuned"]:
        config: TrialConfig | None = base(method)
        if search:
            config = sweep.search(method, base(method), work.run)
            if config is None:
                return False
        assert config is not None
        configs.append(config)
    if target is Target.fig2:
        configs += sweep.over_k(base("gls"), grid)
    if target is Target.fig3:
        configs += sweep.over_alpha(base("gls"), grid)
    return work.run(sweep.breadth_first(configs, range(trials))) is not None


@user_errors
def report(
    run: Annotated[Path, typer.Argument(help="folder of a run, or a file or folder of records")],
    out: Annotated[Path | None, typer.Option(help="where to write; default: RUN/report")] = None,
) -> None:
    """Tables beside the paper's, figures, and one HTML page, from the records of a run."""
    from tproper.lab.report import write_report

    for path in write_report(run, out or (run if run.is_dir() else run.parent) / "report"):
        typer.echo(path)


def register(app: typer.Typer) -> None:
    """Add the laboratory's commands to an application."""
    app.command()(reproduce)
    app.command()(report)
