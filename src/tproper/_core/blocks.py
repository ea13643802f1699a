"""Losses computed together with their gradients, a block of rows at a time, so that scores stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .threads import share_out

BLOCK = 1 << 18  # scores worked on at a time: they stay in the cache from one pass to the next
LEAST = 1 << 16  # scores below which a second thread does not pay
GRAIN = 1 << 15  # PyTorch runs simple operations on fewer elements than this in the thread that calls them
NARROW = 64  # classes up to which torch.softmax, made for long rows, is slower than its parts


class _WithSlope(torch.autograd.Function):
    """A value (...) whose gradient (..., K) is known: `slope`, which the first backward pass uses up.

    A second backward pass has it made again by `remake`; to differentiate the gradient itself, `plain` is used.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, value: Tensor, slope: Tensor, remake: Any, plain: Any) -> Tensor:
        ctx.save_for_backward(scores)
        ctx.slope, ctx.remake, ctx.plain = slope, remake, plain
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (scores,) = ctx.saved_tensors
        slope, ctx.slope = ctx.slope, None
        if torch.is_grad_enabled():
            (slope,) = torch.autograd.grad(ctx.plain(scores).sum(), scores, create_graph=True)
            return slope * grad[..., None], None, None, None, None
        if slope is None:
            slope = ctx.remake(scores)
        if torch._C._functorch.is_legacy_batchedtensor(grad):  # is_grads_batched: many upstream gradients
            return slope * grad[..., None], None, None, None, None
        return _scaled(slope, grad), None, None, None, None


def _scaled(slope: Tensor, grad: Tensor) -> Tensor:
    """`slope` (..., K) times `grad` (...), in place."""
    if slope.is_cuda or slope.numel() < GRAIN or not slope.is_contiguous():
        return slope.mul_(grad[..., None])
    flat, by = slope.view(-1, slope.shape[-1]), grad.reshape(-1, 1)
    _in_blocks(flat, lambda rows: flat[rows].mul_(by[rows]))
    return slope


Work = Callable[[Tensor, slice, Tensor], Tensor]


def value_and_slope(scores: Tensor, work: Work, wanted: bool = True) -> tuple[Tensor, Tensor]:
    """Losses (...) and their gradients (..., K) in the layout of the scores, a block of rows at a time.

    ``work(v, rows, slope)`` gives the losses of the rows v (n, K) and fills `slope` (n, K), all in place: large
    temporary tensors cost more to get from the system than to compute with. Without `wanted` the gradient is dropped.
    """
    n, K = scores.shape[:-1].numel(), scores.shape[-1]
    flat = scores.detach().reshape(n, K)
    if flat.numel() <= GRAIN and not flat.is_cuda:  # one block, too small for more than the caller's own thread
        slope = torch.empty_like(flat)
        with torch.no_grad():
            value = work(flat, slice(0, n), slope)
        return value.reshape(scores.shape[:-1]), slope.reshape(scores.shape) if wanted else slope[:0]
    slope = torch.empty_like(flat if wanted else flat[:0])
    value = flat.new_empty(n)

    def block(rows: slice) -> None:
        v = flat[rows]
        value[rows] = work(v, rows, slope[rows] if wanted else torch.empty_like(v))

    _in_blocks(flat, block)
    return value.reshape(scores.shape[:-1]), slope.reshape(scores.shape) if wanted else slope


def _in_blocks(flat: Tensor, block: Callable[[slice], object]) -> None:
    """``block(rows)`` for all rows of a tensor (n, K), a cache's worth at a time."""
    n, K = flat.shape
    if flat.is_cuda:
        block(slice(0, n))
        return
    threads = torch.get_num_threads()
    step = max(1, min(BLOCK // K, max(-(-n // threads), LEAST // K)))
    share_out(-(-n // step), lambda i: block(slice(i * step, min((i + 1) * step, n))), threads)


def with_slope(scores: Tensor, work: Work, plain: Callable[[Tensor], Tensor]) -> Tensor:
    """A loss (...) that is made together with its gradient; ``plain(scores)`` is the same loss for autograd."""
    wanted = torch.is_grad_enabled() and scores.requires_grad
    value, slope = value_and_slope(scores, work, wanted)
    if not wanted:
        return value
    out: Tensor = _WithSlope.apply(scores, value, slope, lambda v: value_and_slope(v, work)[1], plain)
    return out


def softmax_into(out: Tensor, x: Tensor) -> Tensor:
    """softmax(x) in `out`, (n, K), for scores whose largest is 0."""
    if out.stride(-1) == 1 and out.shape[-1] > NARROW:
        return torch.softmax(x, -1, out=out)
    torch.exp(x, out=out)
    return out.div_(out.sum(-1, keepdim=True))
