"""Structured losses on a GPU at the price of cross entropy: one read of the scores, one write of the gradient.

On a CUDA device the losses that the registry has a `Plan` for run in one Triton kernel; everything else, and everything
elsewhere, in plain PyTorch. Both compute the same function; `backend_for` says which one it is and why:

>>> tp.BackwardLoss(tp.complementary(10), squeeze=(1, 2)).backend_for(scores)
'torch: scores are on cpu'

Labels that lie on the device are checked there, without a synchronisation: see `_Fault`.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..._core import Labels, checks, tracing
from ...errors import InputError
from .registry import Plan, plan

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SMALL = 1 << 18  # scores up to which launching a kernel costs more than what it does
FEW = 1 << 16  # losses up to which one program sums them fast enough


@cache
def triton_installed() -> bool:
    """Whether Triton can be imported (found, not loaded)."""
    return find_spec("triton") is not None


@cache
def _triton() -> Any:
    """The kernel's module, which needs Triton: loaded when a loss is about to run there."""
    return import_module(".triton_rows", __package__)


def obstacle(loss: Any, scores: Tensor, weights: Any = None, transitions: Any = None) -> str | None:
    """Why this call cannot run in the kernel; None if it can."""
    if loss._backend == "torch":
        return "asked for"
    if transitions is not None:
        return "there is one transition per example"
    if not scores.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":  # by which it runs on the CPU: slow, for tests
        return f"scores are on {scores.device.type}"
    if not triton_installed():
        return "triton is not installed"
    if scores.dtype not in DTYPES:
        return f"scores are {str(scores.dtype).replace('torch.', '')}"
    if why := tracing.transformation():
        return why
    if isinstance(weights, Tensor) and weights.requires_grad:
        return "example weights require a gradient"
    return unplanned(loss)


def unplanned(loss: Any) -> str | None:
    """Why a loss never runs in the kernel; None if it does."""
    planned = plan(loss)
    if isinstance(planned, str):
        return planned
    if planned.pattern is None:
        what = "T" if planned.forward else "R"
        return f"{what} of {loss.transition.name} is dense, without a structure that the kernel knows"
    return None


class _Fault:
    """Where the kernel reports an invalid label, in memory that the host sees too.

    Reading a device's labels would make the host wait for it in every step. So they are read before a loss's first
    call only; after that the kernel checks them as it goes. A bad label makes the loss NaN and leaves its row
    without a gradient, so that no model is ruined, and one of the next calls raises the error.
    """

    def __init__(self, device: torch.device) -> None:
        self.memory = torch.zeros(2, dtype=torch.int64, pin_memory=device.type == "cuda")
        self.seen = self.memory.numpy()

    def check(self, loss: Any) -> None:
        """Raise what the kernel has reported since the last time."""
        if not self.seen[0]:
            return
        row, label, T = int(self.seen[0]) - 1, int(self.seen[1]), loss.transition
        self.seen[0] = 0
        raise InputError(
            f"labels: expected {T.wrong_label(label)} at row {row} of an earlier batch "
            "(its loss was NaN, its gradient 0)"
        )


_faults: WeakKeyDictionary[nn.Module, _Fault] = WeakKeyDictionary()


class _Fused(torch.autograd.Function):
    """The reduced loss. Its gradient is made in the same pass, for the upstream gradient of one that a loss sees.

    If another upstream gradient arrives (a scaled or weighted loss), or the gradient is asked for a second time, the
    kernel runs again with it (a small gradient is multiplied by it, which is cheaper to launch). The same goes for
    losses that are not reduced, and for float16, where a gradient divided by the batch size would underflow before
    a gradient scaler could save it. Where the gradient is to be differentiated itself, the plain formulation makes it.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, labels: Tensor, weights: Tensor | None, by_size: Tensor | None,
        call: tuple[Any, Plan, str, Tensor | None, Any, torch.dtype],
    ) -> Tensor:  # fmt: skip
        _, planned, reduction, fault, config, dtype = call
        n = len(scores)
        if weights is not None:
            weights = weights.detach().float()
            if reduction == "mean":
                weights = weights / weights.sum()
        scale = 1.0 / n if reduction == "mean" and weights is None else 1.0
        early = ctx.needs_input_grad[0] and reduction != "none" and scores.dtype != torch.float16
        gradient = torch.empty_like(scores) if early else None
        losses = torch.empty(n, dtype=torch.float32, device=scores.device)
        _triton().launch(planned, scores, labels, by_size, losses, gradient, scale, weights, fault=fault, config=config)
        ctx.call, ctx.scale, ctx.gradient = call, scale, gradient
        ctx.save_for_backward(scores, labels, weights, by_size)
        if reduction != "none" and weights is None and 0 < n <= FEW:
            out = torch.empty((), dtype=dtype, device=scores.device)
            _triton().total(losses, out, scale)  # one kernel for the sum, the scaling and the cast
            return out
        return _reduced(losses, weights, reduction).to(dtype)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradient, ctx.gradient = ctx.gradient, None  # handed over: a second call computes its own
        differentiated = torch.is_grad_enabled()
        batched = torch._C._functorch.is_legacy_batchedtensor(upstream)  # is_grads_batched: many upstream gradients
        if gradient is not None and gradient.numel() <= SMALL and not differentiated and not batched:
            return gradient.mul_(upstream), None, None, None, None
        scores, labels, weights, by_size = ctx.saved_tensors
        loss, planned, reduction, fault, config, dtype = ctx.call
        if differentiated or batched:
            with torch.enable_grad():
                scores = scores if differentiated else scores.detach().requires_grad_()
                losses = loss.pointwise(scores.float(), labels)
                value = _reduced(losses, weights, reduction).to(dtype)
                (gradient,) = torch.autograd.grad(value, scores, upstream, create_graph=differentiated)
            return gradient, None, None, None, None
        ready = gradient is not None
        if gradient is None:
            gradient = torch.empty_like(scores)
        upstream = upstream.contiguous() if reduction == "none" else upstream
        given = (planned, scores, labels, by_size, None, gradient, ctx.scale, weights, upstream, ready, fault, config)
        _triton().launch(*given)
        return gradient, None, None, None, None


def _reduced(losses: Tensor, weights: Tensor | None, reduction: str) -> Tensor:
    """Weights have been divided by their sum already where a mean is wanted."""
    if weights is not None:
        losses = losses.masked_fill(weights == 0, 0.0) * weights  # weight zero leaves a row out, even an infinite one
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" and weights is None else losses.sum()


def run(
    loss: Any,
    scores: Tensor,  # (..., K)
    labels: Tensor,  # (...) or (..., K), encoded
    weights: Tensor | None,  # (...)
    reduction: str,
    fault: Tensor | None = None,
    config: Any = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The loss of encoded labels in the kernel, in `dtype` or that of the scores.

    Scores that are not contiguous are copied. With `fault` the kernel checks the labels (see `_Fault`).
    """
    planned = plan(loss)
    assert isinstance(planned, Plan)
    by_size = None if planned.by_size is None else loss.tables[planned.by_size].to(scores.device)
    flat, weights = scores, None if weights is None else weights.reshape(-1)
    if scores.ndim != 2:
        K = scores.shape[-1]
        flat, labels = scores.reshape(-1, K), labels.reshape(-1, K) if planned.by_size else labels.reshape(-1)
    call = (loss, planned, reduction, fault, config, scores.dtype if dtype is None else dtype)
    out: Tensor = _Fused.apply(flat.contiguous(), labels.contiguous(), weights, by_size, call)
    return out.reshape(scores.shape[:-1]) if reduction == "none" else out


def _checked(loss: Any, scores: Tensor, labels: Labels) -> tuple[Tensor, Tensor | None]:
    """Encoded labels, and where the kernel is to report bad ones, if it checks them."""
    T, device = loss.transition, scores.device
    if not isinstance(labels, Tensor) or labels.device != device:
        return T.encode(labels, None, loss.validate).to(device), None  # checked where they are, which waits for nothing
    fault = _faults.get(loss)
    if not loss.validate or (fault is None and not tracing.readable(scores)):
        return T.encode(labels, device, False), None
    if fault is None:
        encoded = T.encode(labels, device, True)
        _faults[loss] = _Fault(device)
        return encoded, None
    fault.check(loss)
    numbers = T.label_dtype == torch.bool and labels.dtype != torch.bool  # not checked there
    return T.encode(labels, device, numbers), fault.memory


def call(loss: Any, scores: Tensor, labels: Labels, weights: Any, reduction: str, dtype: torch.dtype) -> Tensor:
    """A call of a loss in the kernel, where `obstacle` finds nothing in the way."""
    encoded, fault = _checked(loss, scores, labels)
    checks.same_leading_shape(scores, encoded, loss.transition.label_shape)
    if weights is not None:
        some = loss.ignore_index is None  # else a batch may be ignored as a whole
        weights = checks.example_weights(weights, scores.detach()[..., 0].float(), loss.validate, some)
    return run(loss, scores, encoded, weights, reduction, fault, dtype=dtype)
