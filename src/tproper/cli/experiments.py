"""The work of `tproper reproduce` and `tproper report`: trials of the paper's experiments, stored and reported."""

from __future__ import annotations

import importlib.util
import math
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import typer

from .._core import mark
from ..lab import (
    FLAT_MODELS,
    KERNELS,
    NAMES,
    LabWork,
    Pixels,
    Protocol,
    Record,
    Runner,
    Status,
    Stop,
    Store,
    Trial,
    TrialConfig,
    check_mirror,
    check_suffix,
    damaged,
    export_records,
    figure1,
    folder_of_data,
    gather,
    import_ray,
    kernel_group,
    kernels_of,
    load,
    not_a_store,
    paper,
    run_trials_on_ray,
    save_figure,
    sweep,
    write_report,
)
from .errors import check_writable, say
from .progress import Bar
from .reproduce import Asked, Engine, Target

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
        self.bar = Bar("", 1, "trials").__enter__()
        self.last = 0.0  # when a line was printed

    def show(self, status: Status) -> None:
        """What the runner reports."""
        detail = f"{status.active} running, {status.epochs} epochs"
        if status.epochs:
            detail += f", {status.seconds_per_epoch:.4f} s per trial-epoch, {self._left(status)}"
        now = time.monotonic()
        if self.bar.shown:
            self.bar.at(status.done, status.note, total=status.total, unit=f"trials {detail}")
        elif now - self.last > 20 or status.done == status.total:
            self.last = now
            say(f"{status.note}: {status.done}/{status.total} trials, {detail}", err=True)

    @staticmethod
    def _left(status: Status) -> str:
        """A guess: trials to go, at the mean length of a trial so far or 80 epochs, whichever is more."""
        to_go = status.active / 2 + status.waiting
        seconds = to_go * 80 * status.seconds_per_epoch
        return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left"

    def close(self) -> None:
        """Leave the terminal as it was."""
        self.bar.__exit__(None, None, None)


def run(asked: Asked) -> None:
    """Check what was asked for, train what is not yet in the store, and write the report."""
    with _resource_errors(asked.out):
        grid = _numbers(asked.values) if asked.values else GRIDS.get(asked.target, ())
        if asked.target is Target.fig1:
            _draw_figure1(asked.out)
            return
        plan = _plan(asked, grid)
        if importlib.util.find_spec("matplotlib") is None:
            say("no matplotlib: the report will have tables alone (pip install 'tproper[plots]')", err=True)
        before = None if asked.export is None else mark(asked.export)
        place = _device(asked.device)
        if asked.engine is Engine.local and (asked.address is not None or asked.gpus_per_task is not None):
            raise ValueError("--address and --gpus-per-task belong to --engine ray")
        if asked.engine is Engine.ray:
            import_ray()  # before anything is made
        if asked.threads:
            torch.set_num_threads(asked.threads)
        taken = [(source, gather(source)) for source in asked.records or []]
        work = _Work(asked, place)
        try:
            work.store.check()
            _take_over(work, taken, plan)
            with work.stop.on_signals():
                complete = all(_run_model(work, plan, model) for model in plan.models)
            if asked.export is not None:
                export_records(work.store.records(), asked.export, before)
        finally:
            work.display.close()
            work.store.close()
        if not complete:
            say(f"stopped; unfinished trials are kept in {asked.out}, run the command again", err=True)
            raise typer.Exit(130 if work.stop.signal == signal.SIGINT else 75)
    report(asked.out, None)


def _draw_figure1(out: Path) -> None:
    for name in ("matplotlib", "mpltern"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"figure 1 needs {name}: pip install 'tproper[plots]'")
    out.mkdir(parents=True, exist_ok=True)
    for path in save_figure(figure1(), out / "figure1"):
        say(path)


@dataclass(frozen=True)
class _Plan:
    """Which trials to run."""

    target: Target
    models: list[str]
    methods: list[str]
    dataset: str
    grid: tuple[float, ...]
    trials: int
    protocol: Protocol
    search: bool
    kernels: str


def _plan(asked: Asked, grid: tuple[float, ...]) -> _Plan:
    """Refuse before anything is made what could not be done."""
    if asked.minutes is not None and not asked.minutes >= 0:
        raise ValueError(f"expected --minutes to be a number >= 0, got {asked.minutes:g}")
    models = _models(asked.models, asked.dataset, asked.target)
    methods = _names(asked.methods or ",".join(paper.METHODS), tuple(paper.METHODS), "--methods")
    if asked.trials > sweep.SEARCH_SEED:
        raise ValueError(
            f"expected --trials <= {sweep.SEARCH_SEED}, got {asked.trials}: seeds from there on belong to --search"
        )
    if asked.kernels not in KERNELS:
        raise ValueError(f"expected --kernels among {', '.join(KERNELS)}, got {asked.kernels}")
    if asked.export is not None:
        _check_export(asked.export, asked.out)
    if asked.data is not None:
        folder_of_data(asked.data)
    if asked.mirror is not None:
        check_mirror(asked.mirror, "--mirror")
    # digits has 1293 training examples: batches of 256 would leave five steps an epoch
    batch = 32 if asked.dataset == "digits" else Protocol.batch_size
    protocol = Protocol(
        batch_size=batch, max_epochs=asked.max_epochs, augment_validation=asked.augment_validation,
        warmup_by_epoch=asked.warmup_by_epoch,
    )  # fmt: skip
    return _Plan(
        asked.target, models, methods, asked.dataset, grid, asked.trials, protocol, asked.search, asked.kernels
    )


def _take_over(work: _Work, taken: list[tuple[Path, list[Record]]], plan: _Plan) -> None:
    """Finished records of other runs; a store of other kernels is refused."""
    for source, rows in taken:
        fit = [r for r in rows if kernels_of(r) == kernel_group(r["model"], plan.kernels)]
        note = f", {len(rows) - len(fit)} of other kernels left out" if len(fit) < len(rows) else ""
        say(f"{work.store.add(fit)} records taken from {source}{note}")
    for model in plan.models:
        work.store.refuse_other_kernels(paper.chosen("bc", model, plan.dataset or None), plan.kernels)


class _Work:
    """What all models of a run share."""

    def __init__(self, asked: Asked, device: torch.device) -> None:
        self.store, self.device, self.display = Store(asked.out), device, _Display()
        self.stop = Stop(None if asked.minutes is None else 60 * asked.minutes)
        self.folder, self.mirror, self.slots, self.kernels = asked.data, asked.mirror, asked.slots, asked.kernels
        self.checkpoint_seconds = asked.checkpoint_seconds
        self.loaded: dict[str, tuple[Any, Pixels]] = {}
        self.cluster: dict[str, Any] | None = None  # where to run, if not here
        if asked.engine is Engine.ray:
            self.cluster = {"address": asked.address, "gpus": asked.gpus_per_task, "cpus": float(asked.threads or 1)}

    def run(self, trials: list[Trial]) -> list[Record] | None:
        """Train what is not yet in the store; all records, or None if stopped before the end."""
        if self.store.done() >= {trial.id for trial in trials}:  # needs no data, which may be far away
            for trial in trials:
                self.store.forget(trial)
            self.display.show(Status(len(trials), len(trials), note=trials[0].config.model))
            return self.store.records()
        if self.cluster is not None:
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


def _run_model(work: _Work, plan: _Plan, model: str) -> bool:
    """All trials of one model; false if stopped before the end."""

    def base(method: str) -> TrialConfig:
        return paper.chosen(method, model, plan.dataset or None, plan.protocol)

    configs: list[TrialConfig] = []
    for method in plan.methods if plan.target is Target.table2 else ["bc_tuned", "ga_tuned"]:
        config: TrialConfig | None = base(method)
        if plan.search:
            config = sweep.search(method, base(method), work.run)
            if config is None:
                return False
        assert config is not None
        configs.append(config)
    if plan.target is Target.fig2:
        configs += sweep.over_k(base("gls"), plan.grid)
    if plan.target is Target.fig3:
        configs += sweep.over_alpha(base("gls"), plan.grid)
    return work.run(sweep.breadth_first(configs, range(plan.trials))) is not None


def report(run: Path, out: Path | None) -> None:
    """Write the report of a run, and name its files."""
    for path in write_report(run, out or (run if run.is_dir() else run.parent) / "report"):
        say(path)
