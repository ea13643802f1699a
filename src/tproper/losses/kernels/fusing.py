"""The choice of a backend, in the caller's hand."""

from __future__ import annotations

import copy
from typing import TypeVar

from ..._core import checks
from ...errors import InputError
from ..base import Backend, WeakLabelLoss
from . import dispatch

BACKENDS = ("auto", "torch", "triton")
Loss = TypeVar("Loss", bound=WeakLabelLoss)


def fuse(loss: Loss, backend: Backend = "auto") -> Loss:
    """The same loss, tables shared, with its `backend` chosen.

    ``"auto"``: the Triton kernel where it can run, else plain PyTorch, as every loss does by itself; ``"torch"``:
    always plain PyTorch; ``"triton"``: the kernel, or a ``ValueError`` that says what stands in its way.
    """
    if not isinstance(loss, WeakLabelLoss):
        raise InputError(f"loss: expected a tproper loss, got {type(loss).__name__}")
    checks.choice(backend, "backend", BACKENDS)
    if backend == "triton":
        why = dispatch.unplanned(loss)
        if why is not None:
            raise InputError(f"backend: 'triton' cannot run this loss: {why}; use 'auto' or 'torch'")
        if not dispatch.triton_installed():
            raise InputError("backend: 'triton' needs the package triton, which is not installed; use 'torch'")
    same = copy.copy(loss)
    same._backend = backend
    return same
