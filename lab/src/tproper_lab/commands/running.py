"""Running trials from the command line: `reproduce` and `bench` share options, display, store and engines."""

from __future__ import annotations

import importlib.util
import math
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import typer

import tproper_lab as lab
from tproper.cli import at_least, check_writable, one_of, say
from tproper.data import Bar, check_file
from tproper.errors import InputError
from tproper.extension import mark

from .run_options import Engine, RunOptions

WHICH_MODELS = "linear and mlp take mnist or digits, resnet20 and wrn28_2 take cifar10"


@contextmanager
def resource_errors(out: Path) -> Iterator[None]:
    """A store or a GPU that fails or is full, as an OSError, which ``user_errors`` turns into one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        if lab.damaged(error):
            raise lab.not_a_store(out / "records.sqlite", error) from error
        raise OSError(
            f"{out / 'records.sqlite'} cannot be written ({error}); what was stored before is kept"
        ) from error
    except torch.cuda.OutOfMemoryError as error:
        raise OSError("the GPU's memory is full; try a smaller --slots") from error
    except RuntimeError as error:
        if "CUDA error" not in str(error):
            raise
        reason = str(error).splitlines()[0]
        raise OSError(f"the GPU was lost ({reason}); run the command again to go on from the last minute") from error


def names_among(text: str, known: tuple[str, ...], option: str) -> list[str]:
    """The names in a comma-separated text, all of them known."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        got = ", ".join(unknown) or "nothing"
        raise InputError(f"{option}: expected one or more of {', '.join(known)}, got {got}")
    return names


def takes(model: str, dataset: str) -> bool:
    """Whether a model is for the images of a data set; one without a name stands for any."""
    outside = dataset not in lab.NAMES or model not in lab.paper.MODELS  # of another package, which knows
    return not dataset or outside or (model in lab.FLAT_MODELS) == (dataset != "cifar10")


def models_among(text: str, dataset: str, default: list[str], known: tuple[str, ...] | None = None) -> list[str]:
    """The models in a comma-separated text, or the default ones; all of them must take the data set."""
    if dataset:
        one_of(dataset, lab.dataset_names(), "--dataset")
    models = names_among(text, known or lab.model_names(), "--models") if text else default
    if not all(takes(model, dataset) for model in models):
        raise InputError(
            f"--models: expected models for the data set {dataset}, got {', '.join(models)}; {WHICH_MODELS}"
        )
    return models


def positive_numbers(text: str, option: str) -> tuple[float, ...]:
    """The numbers in a comma-separated text, each once; they must fit float32, in which trials run."""
    try:
        values = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        values = ()
    with np.errstate(over="ignore"):
        held = np.array(values, dtype=np.float32)
    if not values or not all(0 < v < math.inf for v in held.tolist()):
        raise InputError(
            f"{option}: expected positive numbers within float32's range, separated by commas, got {text!r}"
        )
    return values


def check_options(options: RunOptions) -> None:
    """Refuse what could not be done before anything is created."""
    at_least(options.minutes, 0, "--minutes")
    one_of(options.kernels, lab.KERNELS, "--kernels")
    _device(options.device)
    if options.engine is Engine.local and (options.address is not None or options.gpus_per_task is not None):
        raise InputError("--engine: expected ray beside --address or --gpus-per-task, got local")
    if options.engine is Engine.ray:
        lab.import_ray()
    if options.export is not None:
        _check_export(options.export, options.out)
    for source in options.records or []:
        check_file(source)
    if options.data is not None:
        lab.folder_of_data(options.data)
    if options.mirror is not None:
        lab.check_mirror(options.mirror, "--mirror")


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    one_of(name, ("auto", "cpu", "cuda"), "--device")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device: expected a GPU that PyTorch can use for cuda, got none; try --device cpu")
    return torch.device(name)


def _check_export(path: Path, out: Path) -> None:
    """Refuse, before hours of work, a file that could not be written after them."""
    lab.check_suffix(path)
    if path.is_dir() or not (path.parent.is_dir() or path.parent.resolve() == out.resolve()):
        raise InputError(f"--export: expected a file in a folder that exists, got {path}")
    check_writable(path)
    if path.suffix == ".parquet" and not all(importlib.util.find_spec(name) for name in ("pandas", "pyarrow")):
        raise InputError(f"--export: {path.suffix} files need pandas and pyarrow: pip install 'tproper[tables]'")


class Display:
    """Trials, epochs, speed and time left: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self.bar = Bar("", 1, "trials").__enter__()
        self.last = 0.0  # when a line was printed

    def show(self, status: lab.Status) -> None:
        """What the runner reports."""
        parts = [f"{status.active} running"] if status.active else []
        if status.epochs:
            parts += [f"{status.epochs} epochs", f"{status.seconds_per_epoch:.4f} s per trial-epoch"]
            parts += [self._left(status)] if status.done < status.total else []
        detail = ", ".join(parts)
        now = time.monotonic()
        if self.bar.shown:
            self.bar.at(status.done, status.note, total=status.total, unit=f"trials {detail}")
        elif now - self.last > 20 or status.done == status.total:
            self.last = now
            say(f"{status.note}: {status.done}/{status.total} trials{', ' if detail else ''}{detail}", err=True)

    @staticmethod
    def _left(status: lab.Status) -> str:
        """A guess: the trials to go, each as long as its schedule says, or 80 epochs where it says nothing."""
        to_go = status.active / 2 + status.waiting
        seconds = to_go * status.epochs_each * status.seconds_per_epoch
        return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left"

    def close(self) -> None:
        """Leave the terminal as it was."""
        self.bar.__exit__(None, None, None)


class Work:
    """What all models of a run share, and how their trials are run."""

    def __init__(self, options: RunOptions, device: torch.device) -> None:
        self.options, self.device = options, device
        self.store, self.display = lab.Store(options.out), Display()
        self.stop = lab.Stop(None if options.minutes is None else 60 * options.minutes)
        self.loaded: dict[str, tuple[lab.Dataset, lab.Pixels]] = {}
        self.given: dict[str, np.ndarray] = {}  # weak labels of files, by digest
        self.soft: np.ndarray | None = None  # class probabilities of the test images
        self.own: tuple[str, ...] = ()  # where a user's own losses stand: file.py:function

    def run(self, trials: list[lab.Trial]) -> list[lab.Record] | None:
        """Train what is not yet in the store; all records, or None if stopped before the end."""
        options, show = self.options, self.display.show
        if self.store.done() >= {trial.id for trial in trials}:  # needs no data, which may be far away
            for trial in trials:
                self.store.forget(trial)
            show(lab.Status(len(trials), len(trials), note=lab.name_of(trials)))
            return self.store.records()
        if options.engine is Engine.ray:
            self.store.refuse_other_kernels(trials[0].config, options.kernels)
            folder = None if options.data is None else str(options.data.resolve())
            cpus = options.threads or 1
            work = lab.LabWork(folder, options.mirror, "auto", options.kernels, cpus, self.given, self.soft, self.own)
            complete = lab.run_trials_on_ray(
                trials, work, self.store, address=options.address, stack=options.slots, gpus=options.gpus_per_task,
                cpus=cpus, stop=self.stop, show=show,
            )  # fmt: skip
        else:
            data = self.images(trials[0].config.dataset)
            seconds = options.checkpoint_seconds
            runner = lab.Runner(*data, self.store, options.slots, options.kernels, seconds, self.given, self.soft)
            complete = runner.run(trials, self.stop, show)
        return self.store.records() if complete else None

    def images(self, name: str) -> tuple[lab.Dataset, lab.Pixels]:
        """A data set, loaded once."""
        if name not in self.loaded:
            self.take(lab.load(name, self.options.data, self.options.mirror, stop=lambda: bool(self.stop)))
        return self.loaded[name]

    def take(self, data: lab.Dataset) -> None:
        """Use a data set that is loaded already."""
        self.loaded[data.name] = (data, lab.Pixels(data, self.device))


def run_all(
    options: RunOptions, body: Callable[[Work], bool], check: Callable[[Work], None] = lambda work: None
) -> None:
    """Open the store, take over records, `check`, run `body` until it is done or stopped, and export.

    A run that was stopped ends the command with 130 (Ctrl-C) or 75 (out of time: run it again).
    """
    before = None if options.export is None else mark(options.export)
    if options.threads:
        torch.set_num_threads(options.threads)
    taken = [(source, lab.gather(source)) for source in options.records or []]
    work = Work(options, _device(options.device))
    try:
        work.store.check()
        _take_over(work, taken)
        check(work)
        with work.stop.on_signals():
            try:
                complete = body(work)
            except lab.StoppedError:  # in a download
                complete = False
        if options.export is not None:
            lab.export_records(work.store.records(), options.export, before)
    finally:
        work.display.close()
        work.store.close()
    if not complete:
        say(f"stopped; unfinished trials are kept in {options.out}, run the command again", err=True)
        raise typer.Exit(130 if work.stop.signal == signal.SIGINT else 75)


def _take_over(work: Work, taken: list[tuple[Path, list[lab.Record]]]) -> None:
    """Add finished records of other runs; those made with other kernels stay where they are."""
    for source, rows in taken:
        fit = [r for r in rows if lab.kernels_of(r) == lab.kernel_group(r["model"], work.options.kernels)]
        note = f", {len(rows) - len(fit)} of other kernels left out" if len(fit) < len(rows) else ""
        say(f"{work.store.add(fit)} records taken from {source}{note}")
