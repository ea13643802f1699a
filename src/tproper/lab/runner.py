"""Run trials to their end: fill a stack, train, stop each in its time, store, checkpoint, resume."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType

import torch

import tproper as tp
from tproper.lab.datasets import Dataset
from tproper.lab.engine import Assignment, Pixels, Stack
from tproper.lab.models import FLAT_MODELS, Tensors, stacked
from tproper.lab.protocol import Progress, Trial, TrialConfig
from tproper.lab.records import Record, machine, significant
from tproper.lab.scoring import accuracy, probability_scores
from tproper.lab.store import CheckpointError, Store

#: How many trials share a stack unless the user says otherwise: (dense models, residual nets).
SLOTS = {"cuda": (96, 8), "cpu": (8, 1)}


@dataclass
class Status:
    """What a progress display shows."""

    total: int
    done: int = 0
    active: int = 0
    waiting: int = 0
    epochs: int = 0
    started: float = field(default_factory=time.monotonic)
    note: str = ""

    @property
    def seconds_per_epoch(self) -> float:
        """Seconds per trial-epoch since the start, evaluation included."""
        return (time.monotonic() - self.started) / max(1, self.epochs)


class Stop:
    """Whether to stop, asked after every epoch: a signal came, or the time given is over."""

    def __init__(self, seconds: float | None = None):
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.signal: int | None = None

    def __bool__(self) -> bool:
        late = self.deadline is not None and time.monotonic() > self.deadline
        return self.signal is not None or late

    @contextmanager
    def on_signals(self) -> Iterator[Stop]:
        """Take SIGINT and SIGTERM as a wish to stop cleanly; a second one stops at once."""

        def handle(number: int, frame: FrameType | None) -> None:
            if self.signal is not None:
                raise KeyboardInterrupt
            self.signal = number

        before = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def probabilities(config: TrialConfig, scores: torch.Tensor) -> torch.Tensor:
    """Class probabilities by the loss's own link: the projected gradient of its potential."""
    potential = tp.LogSumExp()
    if config.loss == "gls":
        squeezed = potential.squeezed(config.k, config.alpha, allow_improper=True)
        return squeezed.probabilities(scores)
    return potential.probabilities(scores)


def make_record(
    assignment: Assignment, scores: torch.Tensor, labels: torch.Tensor, revision: str, kernels: str = "auto"
) -> Record:
    """The row of a finished trial, from its test scores at the best validation epoch."""
    trial, progress = assignment.trial, assignment.progress
    config = trial.config
    scores = scores.double()
    own = probability_scores(probabilities(config, scores), labels)
    soft = probability_scores(torch.softmax(scores, dim=-1), labels)
    return {
        "id": trial.id,
        "config_key": config.key,
        "seed": trial.seed,
        **{n: getattr(config, n) for n in ("dataset", "model", "loss", "lr", "weight_decay")},
        "k": config.k,
        "alpha": config.alpha,
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch,
        "valid_accuracy": progress.best_accuracy,
        "accuracy": float(accuracy(scores, labels)),
        **{name: significant(value) for name, value in own.items()},
        "zeros": int(own["zeros"]),
        **{f"softmax_{n}": significant(soft[n]) for n in ("log_loss", "brier", "ece")},
        "seconds": significant(progress.seconds),
        "machine": machine(scores.device),
        "software": f"torch {torch.__version__}" + ("" if kernels == "auto" else f", kernels {kernels}"),
        "revision": revision,
        "finished_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "config": config.as_dict(),
        "risk": [significant(r) for r in progress.risk],
        "valid": [significant(v) for v in progress.valid],
    }


def revision(package: Path = Path(tp.__file__).parent) -> str:
    """The commit the code runs from, ``+changes`` if it was changed since; else the installed version.

    An installed package may lie in someone else's repository: git is believed only where it holds this very source.
    """
    given = os.environ.get("TPROPER_REVISION")
    if given:
        return given
    top = _git(package, "rev-parse", "--show-toplevel")
    if top and (Path(top) / "src" / "tproper").resolve() == package.resolve():
        commit = _git(package, "rev-parse", "HEAD")
        changes = _git(Path(top), "status", "--porcelain", "--", "src")
        if commit and changes is not None:
            return commit[:12] + ("+changes" if changes else "")
    try:
        return f"version {version('tproper')}"
    except PackageNotFoundError:
        return "unknown"


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, or None where there is no git, or no repository."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


class Runner:
    """All trials of one model on one data set, through one stack at a time."""

    def __init__(
        self,
        data: Dataset,
        pixels: Pixels,
        store: Store,
        slots: int | None = None,
        kernels: str = "auto",
        checkpoint_seconds: float = 60.0,
    ):
        self.data, self.pixels, self.store = data, pixels, store
        self.device = pixels.train.device
        self.slots, self.kernels = slots, kernels
        self.checkpoint_seconds = checkpoint_seconds
        self.revision = revision()
        self.labels = torch.from_numpy(data.test_labels).to(self.device)

    def run(
        self,
        trials: Sequence[Trial],
        stop: Stop,
        show: Callable[[Status], None] = lambda status: None,
    ) -> bool:
        """Train until every trial is in the store; false if stopped before that."""
        self.store.refuse_other_kernels(trials[0].config, self.kernels)
        done = self.store.done()
        waiting = deque(t for t in trials if t.id not in done)
        for trial in trials:
            if trial.id in done:  # a kill between storing and forgetting leaves a checkpoint behind
                self.store.forget(trial)
        status = Status(len(trials), len(trials) - len(waiting), note=trials[0].config.model)
        show(status)
        if not waiting:
            return True
        default = SLOTS[self.device.type][0 if trials[0].config.model in FLAT_MODELS else 1]
        stack = self._stack(waiting[0], min(len(waiting), self.slots or default))
        saved = time.monotonic()
        took = 0.0  # seconds of the last epoch
        while waiting or stack.active:
            stack = self._fill(stack, waiting, took)
            status.active, status.waiting = len(stack.active), len(waiting)
            began = time.monotonic()
            self._epoch(stack)
            took = time.monotonic() - began
            status.epochs += status.active
            for _, assignment in stack.active:
                assignment.progress.seconds += took / status.active
            status.done += self._store_finished(stack)
            status.active = len(stack.active)
            show(status)
            if stop or time.monotonic() - saved > self.checkpoint_seconds:
                for slot, a in stack.active:
                    self.store.save(a.trial, a.progress, stack.state(slot), self.kernels)
                saved = time.monotonic()
            if stop and (waiting or stack.active):
                return False
        return True

    def _stack(self, trial: Trial, slots: int) -> Stack:
        config = trial.config
        model = stacked(config.model, self.data.shape, self.data.num_classes, self.device, self.kernels)
        return Stack(self.data, self.pixels, model, config.protocol, slots)

    def _fill(self, stack: Stack, waiting: deque[Trial], epoch_seconds: float) -> Stack:
        """Put waiting trials into free slots; when none wait, shrink the stack as soon as that pays.

        Idle slots are computed too. Setting up a smaller stack takes about a second on a GPU (a new graph), so it
        pays when ten epochs of idling cost more than that, or when a third of the stack is idle.
        """
        active = stack.active
        idle = 1 - len(active) / stack.slots
        if not waiting and active and (idle >= 1 / 3 or 10 * idle * epoch_seconds > 1):
            return stack.select([slot for slot, _ in active])
        for slot, assignment in enumerate(stack.assigned):
            if assignment is None and waiting:
                trial = waiting.popleft()
                stack.put(slot, trial, *self._restored(stack, trial))
        return stack

    def _restored(self, stack: Stack, trial: Trial) -> tuple[Progress, Tensors] | tuple[()]:
        """A trial's checkpoint; nothing, and a line on stderr, if there is one that cannot be used."""
        try:
            found = self.store.restore(trial, self.kernels)
            if found is None:
                return ()
            if stack.accepts(found[1]):
                return found
            reason = f"the checkpoint {trial.id}.safetensors has not the tensors of this model"
        except CheckpointError as error:
            reason = str(error)
        print(f"{reason}; its trial starts afresh", file=sys.stderr)
        return ()

    def _epoch(self, stack: Stack) -> None:
        risk, valid = stack.train_epoch().tolist(), stack.valid_accuracy().tolist()
        better = [slot for slot, a in stack.active if a.progress.record(stack.protocol, risk[slot], valid[slot])]
        if better:
            stack.keep_test_scores(better)

    def _store_finished(self, stack: Stack) -> int:
        ended = [(s, a) for s, a in stack.active if a.progress.finished(stack.protocol)]
        if not ended:
            return 0
        rest = (self.labels, self.revision, self.kernels)
        self.store.add([make_record(a, stack.best_scores[s], *rest) for s, a in ended])
        for slot, assignment in ended:
            self.store.forget(assignment.trial)
            stack.assigned[slot] = None
        return len(ended)
