"""Trials on a Ray cluster: the same records in the same store as a local run, whatever happens to the workers.

A task is a stack of trials. Ray places tasks by the share of a GPU (or the CPUs) that each asks for, and starts a task
again when its worker or its node is lost. Records come back to the process that asked, which alone writes to the store,
under the trial's id: a trial that ran twice is counted once. Local runs need no Ray; it is imported when it is used.
"""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch

from tproper.errors import InputError

from .datasets import Dataset, load
from .engine import Pixels
from .own import register_own
from .protocol import Trial
from .records import Record
from .runner import Runner, Status, Stop, alike, default_slots, name_of
from .store import Store

Work = Callable[[Sequence[Trial]], list[Record]]

#: What Ray raises when a task's worker, its node or its result is gone, after its own retries.
LOST = ("WorkerCrashedError", "NodeDiedError", "ObjectLostError", "OwnerDiedError", "LocalRayletDiedError")
ATTEMPTS = 4  # how often a task may be started before its loss counts as an error


def import_ray() -> Any:
    """The package ray, or an error that says how to get it."""
    try:
        import ray
    except ImportError:
        raise InputError(
            "engine: 'ray' needs the package ray, which is not installed; pip install 'tproper-lab[ray]'"
        ) from None
    return ray


@dataclass(frozen=True)
class LabWork:
    """Runs a stack of the laboratory's trials from start to end; sent to workers, which need tproper and the data.

    `folder` is where the worker finds the data files (its cache, if None). Data stay loaded between tasks. `given` and
    `soft` are as for `Runner`; `own` are files and functions of a user's own losses.
    """

    folder: str | None = None
    mirror: str | None = None
    device: str = "auto"
    kernels: str = "auto"
    threads: int = 1
    given: Mapping[str, np.ndarray] = field(default_factory=dict)
    soft: np.ndarray | None = None
    own: tuple[str, ...] = ()

    def __call__(self, trials: Sequence[Trial]) -> list[Record]:
        """The records of all trials given, which share a data set and a model."""
        device = self.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cpu":
            torch.set_num_threads(self.threads)
        data, pixels = _loaded(trials[0].config.dataset, self.folder, self.mirror, device)
        for place in self.own:
            register_own(place)
        with tempfile.TemporaryDirectory(prefix="tproper-") as scratch:
            store = Store(scratch)
            try:
                Runner(data, pixels, store, len(trials), self.kernels, float("inf"), self.given, self.soft).run(
                    trials, Stop()
                )
                return store.records()
            finally:
                store.close()


@cache
def _loaded(name: str, folder: str | None, mirror: str | None, device: str) -> tuple[Dataset, Pixels]:
    data = load(name, folder, mirror)
    return data, Pixels(data, torch.device(device))


def stacks_of(trials: Sequence[Trial], size: int) -> list[tuple[Trial, ...]]:
    """Trials that can share a stack (see `alike`), `size` at a time, in their order."""
    return [tuple(group[i : i + size]) for group in alike(trials) for i in range(0, len(group), size)]


def run_trials_on_ray(
    trials: Sequence[Trial],
    work: Work,  # how: `LabWork`, or any picklable function from trials to their records
    store: Store,
    *,
    address: str | None = None,  # "auto", "host:6379", "ray://host:10001"; None: one that runs here, or a new one
    stack: int | None = None,  # trials of a task, trained together; None: as many as in a local stack
    gpus: float | None = None,  # of a task: 0.25 puts four tasks on a GPU; None: one where the cluster has GPUs
    cpus: float = 1.0,  # of a task
    stop: Stop | None = None,
    show: Callable[[Status], None] = lambda status: None,
) -> bool:
    """Run what is not yet in the store on a Ray cluster; false if stopped before the end."""
    ray = import_ray()
    stop = Stop() if stop is None else stop
    if not trials or len({t.id for t in trials}) != len(trials):
        raise InputError(
            f"trials: expected some, every one once, got {len(trials)}, {len({t.id for t in trials})} different"
        )
    done = store.done()
    left = [t for t in trials if t.id not in done]
    status = Status(len(trials), len(trials) - len(left), waiting=len(left), note=f"{name_of(trials)} on Ray")
    show(status)
    if not left:
        return True
    with _connected(ray, address):
        if gpus is None:
            gpus = 1.0 if ray.cluster_resources().get("GPU", 0.0) >= 1 else 0.0
        _check_resources(ray, gpus, cpus)
        size = stack or default_slots(left[0].config.model, "cuda" if gpus > 0 else "cpu")
        remote = ray.remote(num_gpus=gpus, num_cpus=cpus, max_retries=ATTEMPTS - 1)(_task)
        shared = ray.put(work)
        tasks = _Tasks(ray, lambda task: remote.remote(shared, task), store)
        return tasks.run(stacks_of(left, size), stop, status, show)


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """Connected to Ray; a connection that was there before stays."""
    ours = not ray.is_initialized()
    if not ours and address is not None:
        raise InputError(f"address: expected None in a process that is connected to Ray already, got {address!r}")
    if ours:
        with _own_signals():
            ray.init(address=address, log_to_driver=False, include_dashboard=None if address else False)
    try:
        yield
    finally:
        if ours:
            ray.shutdown()


@dataclass
class _Tasks:
    """Stacks of trials under way on the cluster."""

    ray: Any
    submit: Callable[[tuple[Trial, ...]], Any]
    store: Store

    def run(
        self, tasks: Sequence[tuple[Trial, ...]], stop: Stop, status: Status, show: Callable[[Status], None]
    ) -> bool:
        """Until all are done; false if stopped before that."""
        pending = {self.submit(task): (task, 1) for task in tasks}
        failures: list[str] = []
        while pending and not stop:
            ready, _ = self.ray.wait(list(pending), num_returns=1, timeout=1.0)
            for reference in ready:
                task, count = pending.pop(reference)
                names = ", ".join(t.id for t in task)
                try:
                    _take(self.store, task, self.ray.get(reference))
                    status.done += len(task)
                except self.ray.exceptions.RayTaskError as error:
                    cause = error.cause or error
                    failures.append(f"{names}: {type(cause).__name__}: {cause}")
                except self.ray.exceptions.RayError as error:
                    if type(error).__name__ not in LOST or count >= ATTEMPTS:
                        failures.append(f"{names}: {type(error).__name__}")
                    else:
                        pending[self.submit(task)] = (task, count + 1)
            status.waiting = sum(len(task) for task, _ in pending.values())
            show(status)
        for reference in pending:
            self.ray.cancel(reference, force=True)
        if failures:
            raise RuntimeError(
                f"{len(failures)} tasks failed; what succeeded is stored, run again for the rest. First: {failures[0]}"
            )
        return not pending


@contextmanager
def _own_signals() -> Iterator[None]:
    """Signals mean afterwards what they meant before.

    Ray puts handlers of its own in their place, which dump the native stack and end the process: SIGTERM could not ask
    for a clean stop any more.
    """
    ours = threading.current_thread() is threading.main_thread()  # no other thread may set handlers, nor does Ray there
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)} if ours else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # one that was not set from Python cannot be put back
                signal.signal(number, handler)


def _task(work: Work, trials: tuple[Trial, ...]) -> list[Record]:
    return work(trials)


def _take(store: Store, task: tuple[Trial, ...], records: list[Record]) -> None:
    """Write a task's records; they must be exactly its trials'."""
    want, got = {t.id for t in task}, [r["id"] for r in records]
    if set(got) != want or len(got) != len(want):
        raise RuntimeError(f"work: expected one record for each of {sorted(want)}, got {sorted(got)}")
    store.add(records)


def _check_resources(ray: Any, gpus: float, cpus: float) -> None:
    """A task that fits on no node would wait for ever."""
    nodes = [n["Resources"] for n in ray.nodes() if n["Alive"]]
    if not any(n.get("GPU", 0.0) >= gpus and n.get("CPU", 0.0) >= cpus for n in nodes):
        largest = {k: max((n.get(k, 0.0) for n in nodes), default=0.0) for k in ("GPU", "CPU")}
        raise InputError(
            f"gpus, cpus: expected what one node of the cluster has, got {gpus:g} GPUs and {cpus:g} CPUs a task; the "
            f"largest have {largest['GPU']:g} and {largest['CPU']:g}"
        )
