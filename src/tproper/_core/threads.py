"""Blocks of work shared out among threads of our own, for passes that are too short for barriers.

PyTorch runs every operation on a large tensor in all its threads and ends it in a barrier. A loss is a dozen such
operations, and where another program keeps a core busy each barrier waits for that program's time slice: tenfold the
time. Here each thread takes the next block and runs all its operations on it, alone: one wait for the whole loss.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

import torch


def share_out(count: int, each: Callable[[int], object], threads: int) -> None:
    """``each(i)`` for i from 0 to count - 1, in any order, without recording gradients; the first error is raised.

    With one thread, and where a mode of the caller's thread watches or replaces operations, in the caller itself.
    """
    watched = torch._C._len_torch_dispatch_stack() > 0 or torch._C._len_torch_function_stack() > 0
    if threads <= 1 or count == 0 or watched:
        with torch.no_grad():
            for i in range(count):
                each(i)
        return
    job = _Job(count, each)
    helpers = min(threads, count)
    team = _team
    team.grow(helpers)
    for _ in range(helpers):
        team.tasks.put(job)
    try:
        job.done.wait()
    except BaseException as error:  # the user's interrupt: the helpers take no further block
        job.error = error
        raise
    if job.error is not None:
        raise job.error


class _Job:
    """Blocks to be taken one after the other, and how many are left."""

    def __init__(self, count: int, each: Callable[[int], object]) -> None:
        self.count, self.each, self.left = count, each, count
        self.numbers, self.lock, self.done = itertools.count(), threading.Lock(), threading.Event()
        self.inference = torch.is_inference_mode_enabled()  # a thread's own, as whether gradients are recorded is
        self.error: BaseException | None = None

    def __call__(self) -> None:
        try:
            with torch.inference_mode(self.inference), torch.no_grad():
                while self.error is None and (i := next(self.numbers)) < self.count:
                    self.each(i)
                    with self.lock:
                        self.left -= 1
                        if not self.left:
                            self.done.set()
        except BaseException as error:
            self.error = error
            self.done.set()


class _Team:
    """Threads that wait for jobs, and run PyTorch's operations alone."""

    def __init__(self) -> None:
        self.lock, self.size, self.tasks = threading.Lock(), 0, SimpleQueue[_Job]()

    def grow(self, size: int) -> None:
        """Start threads until there are `size` of them."""
        if self.size >= size:
            return
        with self.lock:
            own, ready = torch.get_num_threads(), threading.Barrier(max(size - self.size, 0) + 1)
            for number in range(self.size, size):
                threading.Thread(target=self._work, args=(ready,), name=f"tproper-{number}", daemon=True).start()
            ready.wait()
            # a helper's number holds for its own thread, but also for threads that are yet to begin: theirs is ours
            torch.set_num_threads(own)
            self.size = max(self.size, size)

    def _work(self, ready: threading.Barrier) -> None:
        torch.get_num_threads()  # a thread's first question would set its number to the process's again
        torch.set_num_threads(1)
        ready.wait()
        for job in iter(self.tasks.get, None):
            job()


_team = _Team()


def _after_fork() -> None:
    """Threads stay behind in the parent."""
    global _team
    _team = _Team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
