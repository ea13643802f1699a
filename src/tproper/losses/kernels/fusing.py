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
    """A copy of the loss that runs on the `backend` named: the fused Triton kernel, or plain PyTorch.

    By itself every loss takes the kernel where it can run. The copy shares T and R with the original, and nothing that
    may change.

    Parameters
    ----------
    loss : a tproper loss
        It is not changed.
    backend : "auto", "torch" or "triton"
        "auto": the kernel where it can run, else plain PyTorch. "torch": always plain PyTorch, as the loss is defined.
        "triton": the kernel, or a ``ValueError`` that says what stands in its way.

    Returns
    -------
    a tproper loss
        The copy.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> loss = tp.BackwardLoss(tp.complementary(3), squeeze=(1.0, 2.0))
    >>> plain = tp.fuse(loss, "torch")
    >>> v = torch.tensor([[1.0, 0.0, -1.0]])
    >>> bool(torch.allclose(plain(v, [1]), loss(v, [1])))
    True
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
