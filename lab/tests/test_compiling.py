"""A rehearsal asks for every kernel, runs none, and waits for all; a stand-in takes the place of Triton."""

import importlib
import sys
from types import SimpleNamespace

import pytest
import torch


class Kernel:
    """Counts what is asked of it."""

    def __init__(self, log):
        self.log = log

    def warmup(self, *args, grid, **options):
        self.log.append(("compiled", grid, args, options))

    def __getitem__(self, grid):
        return lambda *args, **options: self.log.append(("ran", grid, args, options))


class Pool:
    """The mode in which compilations go to a pool of threads."""

    def __init__(self, pool):
        self.log = []

    def __enter__(self):
        self.log.append("in")

    def __exit__(self, *error):
        self.log.append("out")


@pytest.fixture(params=[Pool, None])
def compiling(request, monkeypatch):
    names = {} if request.param is None else {"AsyncCompileMode": request.param}
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(**names))
    monkeypatch.delitem(sys.modules, "tproper_lab.compiling", raising=False)
    yield importlib.import_module("tproper_lab.compiling")
    sys.modules.pop("tproper_lab.compiling", None)


def test_a_rehearsal_compiles_and_does_not_run(compiling):
    log = []
    with compiling.rehearsal():
        compiling.launch(Kernel(log), (2, 3), 1, "x", num_warps=4)
    compiling.launch(Kernel(log), (2,), 5)
    assert log == [("compiled", (2, 3), (1, "x"), {"num_warps": 4}), ("ran", (2,), (5,), {})]


def test_kernels_of_a_backward_pass_are_in_the_rehearsal_and_an_error_ends_it(compiling):
    log = []

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            compiling.launch(Kernel(log), (1,))
            return 2 * g

    with compiling.rehearsal():
        Doubled.apply(torch.ones(2, requires_grad=True)).sum().backward()
    with pytest.raises(RuntimeError, match="no"), compiling.rehearsal():
        raise RuntimeError("no")
    compiling.launch(Kernel(log), (2,))
    assert [what for what, *_ in log] == ["compiled", "ran"]
