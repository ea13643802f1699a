"""Run trials to their end: fill a stack, train, stop each when it is due, store, checkpoint, resume."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import numpy as np
import torch

from .datasets import Dataset
from .engine import Pixels, Stack
from .models import FLAT_MODELS, Tensors
from .problems import Problem, Task, resolve
from .protocol import CLEAN, SEARCH_SEED, WEAK, Progress, Trial
from .records import Record
from .results import Finished, make_record, revision
from .stacking import stacked
from .store import CheckpointError, Store

#: Trials in a stack: (dense models, residual nets).
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
    epochs_each: float = 80  # how long a trial may be

    @property
    def seconds_per_epoch(self) -> float:
        """Seconds per trial-epoch since the start, evaluation included."""
        return (time.monotonic() - self.started) / max(1, self.epochs)


def name_of(trials: Sequence[Trial]) -> str:
    """What a display calls trials: their model, and whether they search for settings."""
    return trials[0].config.model + (", search" if trials[0].seed >= SEARCH_SEED else "")


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


def default_slots(model: str, device: str) -> int:
    """How many trials of a model share a stack unless the user says otherwise."""
    return SLOTS[device][0 if model in FLAT_MODELS else 1]


def alike(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials that can share a stack: data set, model, protocol and weak labels alike; in their order."""
    groups: dict[object, list[Trial]] = {}
    for trial in trials:
        config = trial.config
        groups.setdefault((config.dataset, config.model, config.protocol, config.problem), []).append(trial)
    return list(groups.values())


def makers(device: torch.device) -> Executor:
    """The workers that make the records of finished trials while others train.

    Beside a GPU these are processes of one thread each: a trial of a small model ends every half second there, and its
    calibration takes longer. (A script that trains on a GPU must guard its start by ``if __name__ == "__main__"``.)
    """
    if device.type == "cpu":
        return ThreadPoolExecutor(1)
    workers = max(1, min(12, (os.cpu_count() or 1) - 2))
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _one_thread)


def _one_thread() -> None:
    """Ctrl-C is the parent's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


class Runner:
    """Trials on one data set, through one stack at a time.

    `given` has the weak labels of files by their digest; `soft` (n, K) are class probabilities of the test images,
    which those of the trials are scored against too. Records of finished trials are made beside the training of
    others, since calibration takes seconds of a processor.
    """

    def __init__(
        self,
        data: Dataset,
        pixels: Pixels,
        store: Store,
        slots: int | None = None,
        kernels: str = "auto",
        checkpoint_seconds: float = 60.0,
        given: Mapping[str, np.ndarray] | None = None,
        soft: np.ndarray | None = None,
    ):
        self.data, self.pixels, self.store = data, pixels, store
        self.device = pixels.train.device
        self.slots, self.kernels = slots, kernels
        self.checkpoint_seconds = checkpoint_seconds
        self.given, self.soft = given or {}, soft
        self.revision = revision()
        self.saved = 0.0  # when checkpoints were written
        self.pending: list[tuple[Trial, Future[Record]]] = []
        self._tasks: dict[Problem, Task] = {}

    def task(self, problem: Problem | None) -> Task | None:
        """What a problem is on this data set; None for the paper's."""
        if problem is not None and problem not in self._tasks:
            self._tasks[problem] = resolve(problem, self.data, self.given)
        return None if problem is None else self._tasks[problem]

    def run(
        self,
        trials: Sequence[Trial],
        stop: Stop,
        show: Callable[[Status], None] = lambda status: None,
    ) -> bool:
        """Train until every trial is in the store; false if stopped before that."""
        self.store.refuse_other_kernels(trials[0].config, self.kernels)
        done = self.store.done()
        waiting = [t for t in trials if t.id not in done]
        for trial in trials:
            if trial.id in done:  # a kill between storing and forgetting leaves a checkpoint behind
                self.store.forget(trial)
        status = Status(len(trials), len(trials) - len(waiting), note=name_of(trials))
        protocol = trials[0].config.protocol
        status.epochs_each = protocol.max_epochs if protocol.schedule == "cosine" else status.epochs_each
        show(status)
        self.saved = time.monotonic()
        with makers(self.device) as pool:
            for group in alike(waiting):
                if not self._run_group(deque(group), stop, status, show, pool):
                    return False
        return True

    def _run_group(
        self,
        waiting: deque[Trial],
        stop: Stop,
        status: Status,
        show: Callable[[Status], None],
        pool: Executor,
    ) -> bool:
        """Trials that share a stack; false if stopped before their end."""
        slots = self.slots or default_slots(waiting[0].config.model, self.device.type)
        stack = self._stack(waiting[0], min(len(waiting), slots))
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
            self._release_finished(stack, pool)
            status.done += self._store_ready(wait=bool(stop) or not (waiting or stack.active))
            status.active = len(stack.active)
            show(status)
            if stop or time.monotonic() - self.saved > self.checkpoint_seconds:
                for slot, a in stack.active:
                    self.store.save(a.trial, a.progress, stack.state(slot), self.kernels)
                self.saved = time.monotonic()
            if stop and (waiting or stack.active):
                return False
        return True

    def _stack(self, trial: Trial, slots: int) -> Stack:
        config = trial.config
        task = self.task(config.problem)
        data = self.data if task is None else task.data
        model = stacked(config.model, data.shape, data.num_classes, self.device, self.kernels)
        return Stack(data, self.pixels, model, config.protocol, slots, task)

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
            kept = self.store.restore(trial, self.kernels)
            if kept is None:
                return ()
            if stack.accepts(kept[1], trial):
                return kept
            reason = f"the checkpoint {trial.id}.safetensors lacks tensors of this model"
        except CheckpointError as error:
            reason = str(error)
        print(f"{reason}; its trial starts afresh", file=sys.stderr)
        return ()

    def _epoch(self, stack: Stack) -> None:
        risk, valid = stack.train_epoch().tolist(), stack.valid_accuracy().tolist()
        chosen = {
            CLEAN: [slot for slot, a in stack.active if a.progress.record(stack.protocol, risk[slot], valid[slot])]
        }
        if WEAK in stack.rules:
            weak, keeps = (t.tolist() for t in stack.valid_risk())
            chosen[WEAK] = [slot for slot, a in stack.active if a.progress.record_weak(weak[slot], keeps[slot])]
        stack.keep_scores(chosen)

    def _release_finished(self, stack: Stack, pool: Executor) -> None:
        """Free the slots of trials that have ended; their records are made in the pool."""
        for slot, assignment in stack.active:
            if not assignment.progress.finished(stack.protocol):
                continue
            finished = Finished.of(stack, slot, self.soft)
            future = pool.submit(make_record, finished, self.revision, self.kernels)
            self.pending.append((assignment.trial, future))
            stack.assigned[slot] = None

    def _store_ready(self, wait: bool) -> int:
        """Store the records that are ready, or wait for all of them; returns how many."""
        ready = [(trial, future) for trial, future in self.pending if wait or future.done()]
        if not ready:
            return 0
        self.pending = [pair for pair in self.pending if pair not in ready]
        self.store.add([future.result() for _, future in ready])
        for trial, _ in ready:
            self.store.forget(trial)
        return len(ready)
