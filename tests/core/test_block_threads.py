"""Blocks shared out among threads: each once, alone, in the caller's mode; errors come back, nothing else changes."""

import os
import threading

import pytest
import torch

from tproper._core import threads as _threads
from tproper._core.threads import share_out


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 200])
def test_each_block_is_taken_once(count, threads):
    taken = []
    share_out(count, taken.append, threads)
    assert sorted(taken) == list(range(count))


def test_helpers_run_operations_alone_and_the_caller_keeps_its_threads():
    """A helper's operations never wait for PyTorch's threads; threads that begin later get the caller's number."""
    seen, later = [], []
    share_out(8, lambda i: seen.append((torch.get_num_threads(), threading.current_thread().name)), 4)
    assert {number for number, _ in seen} == {1}
    assert all(name.startswith("tproper-") for _, name in seen)
    assert torch.get_num_threads() == 3
    other = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert later == [3]


def test_a_job_within_a_job_runs_in_its_helper():
    inner = []
    share_out(4, lambda i: share_out(3, lambda j: inner.append((i, j)), torch.get_num_threads()), 2)
    assert sorted(inner) == [(i, j) for i in range(4) for j in range(3)]


@pytest.mark.parametrize("threads", [1, 3])
def test_gradients_are_not_recorded_and_inference_tensors_may_be_written(threads):
    w = torch.ones(3, requires_grad=True)
    modes = []
    with torch.inference_mode():
        out = torch.zeros(6)

        def write(i):
            modes.append((w * 2).requires_grad)
            out[i] = i

        share_out(6, write, threads)
    assert out.tolist() == [0, 1, 2, 3, 4, 5]
    assert modes == [False] * 6


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_of_any_block_reaches_the_caller(threads):
    def fail(i):
        if i == 5:
            raise ArithmeticError("block 5")

    with pytest.raises(ArithmeticError, match="block 5"):
        share_out(50, fail, threads)
    taken = []
    share_out(4, taken.append, threads)  # the helpers live on
    assert sorted(taken) == [0, 1, 2, 3]


def test_an_interrupt_stops_the_helpers(monkeypatch):
    class Interrupted(_threads._Job):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            monkeypatch.setattr(self.done, "wait", self.interrupt)

        def interrupt(self):
            raise KeyboardInterrupt

    taken = []
    with monkeypatch.context() as patch:
        patch.setattr(_threads, "_Job", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            share_out(10**9, taken.append, 2)
    share_out(2, lambda i: None, 2)  # the helpers are free again
    assert len(taken) < 10**9


def test_modes_that_watch_operations_see_them():
    """They belong to the caller's thread: helpers would escape them."""
    from torch.utils.flop_counter import FlopCounterMode

    a = torch.ones(4, 4)
    with FlopCounterMode(display=False) as counter:
        share_out(3, lambda i: a @ a, 3)
    assert counter.get_total_flops() == 3 * 2 * 4**3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_makes_helpers_of_its_own():
    share_out(4, lambda i: None, 2)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # no assertion here: this process shares pytest's files
        taken = []
        share_out(6, taken.append, 2)
        os.write(write, bytes(sorted(taken)))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answers:
        assert answers.read() == bytes(range(6))
    os.waitpid(child, 0)


def test_jobs_of_several_threads_do_not_mix():
    sums = {}

    def job(name):
        taken = []
        share_out(100, taken.append, 3)
        sums[name] = sorted(taken) == list(range(100))

    callers = [threading.Thread(target=job, args=(n,)) for n in range(5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sums == dict.fromkeys(range(5), True)
