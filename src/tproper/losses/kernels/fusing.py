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
    """A copy of the loss with its `backend` chosen: nothing that may change is shared but T and R.

    ``"auto"``: the Triton kernel where it can run, else plain PyTorch, as every loss does by itself; ``"torch"``:
    always plain PyTorch, each loss as it is defined; ``"triton"``: the kernel, or a ``ValueError`` that says what
    stands in its way.
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
    kept = {id(part): part for part in (loss.transition, getattr(loss, "reconstruction", None))}
    same = copy.deepcopy(loss, kept)
    same._backend = backend
    return same
