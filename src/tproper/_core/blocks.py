"""Losses computed together with their gradients, in few passes over the scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

BLOCK = 1 << 20  # scores worked on at a time by one thread: temporaries stay in the cache
SHARED = 1 << 22  # by several: every operation ends in a barrier, which waits where another program keeps a core busy
GRAIN = 1 << 15  # PyTorch runs simple operations on fewer elements than this in the thread that calls them
EVERY = slice(None)
NARROW = 64  # classes up to which torch.softmax, made for long rows, is slower than its parts


class _WithSlope(torch.autograd.Function):
    """Losses (...), or a mean of them, whose gradient (..., K) is `scale` times `slope`, which is used up.

    A second backward pass has it made again by `remake`; to differentiate the gradient itself, `plain` is used.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, value: Tensor, slope: Tensor, scale: float, remake: Any, plain: Any
    ) -> Tensor:
        ctx.save_for_backward(scores)
        ctx.rest = slope, scale, remake, plain
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slope, scale, remake, plain = ctx.rest
        each = grad[..., None] if grad.ndim else grad
        if torch.is_grad_enabled():
            (scores,) = ctx.saved_tensors
            (slope,) = torch.autograd.grad(plain(scores).sum(), scores, create_graph=True)
            return slope * each, None, None, None, None, None
        if slope is None:
            slope = remake(ctx.saved_tensors[0])
        ctx.rest = None, scale, remake, plain
        if torch._C._functorch.is_legacy_batchedtensor(grad):  # is_grads_batched: many upstream gradients
            return slope * (each * scale), None, None, None, None, None
        if scale != 1.0:
            each = each * scale
        elif slope.numel() > GRAIN and grad.numel() == 1 and float(grad) == 1.0:  # a pass saved
            return slope, None, None, None, None, None
        return slope.mul_(each), None, None, None, None, None


class Work(NamedTuple):
    """What is done to rows of the batch.

    ``run(v, rows, slope, share)`` gives the losses (n,) of the scores v (n, K) of these rows, and fills `slope` (n, K)
    with `share` of their gradients. With `temporaries` of that size it runs on a block of rows at a time: fresh memory
    costs more than the arithmetic. Else several threads run on all rows, each on those that are in its cache.
    """

    run: Callable[[Tensor, slice, Tensor, float], Tensor]
    temporaries: bool = True


def value_and_slope(scores: Tensor, work: Work, wanted: bool = True, share: float = 1.0) -> tuple[Tensor, Tensor]:
    """Losses (...) and `share` of their gradients (..., K) in the layout of the scores; the latter only if `wanted`."""
    K = scores.shape[-1]
    n = scores.numel() // K
    flat = scores.detach() if scores.ndim == 2 else scores.detach().reshape(n, K)
    if n * K <= GRAIN and not flat.is_cuda:  # one block, too small for more than the caller's own thread
        slope = torch.empty_like(flat)
        value = work.run(flat, EVERY, slope, share)  # nothing in it requires a gradient
        if scores.ndim != 2:
            value, slope = value.reshape(scores.shape[:-1]), slope.reshape(scores.shape)
        return value, slope if wanted else slope[:0]
    slope = torch.empty_like(flat if wanted else flat[:0])
    value = flat.new_empty(n)
    alone = torch.get_num_threads() == 1
    blocks = work.temporaries or not wanted or alone
    step = max(1, (BLOCK if alone else SHARED) // K) if blocks and not flat.is_cuda else n
    with torch.no_grad():
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            v = flat[rows]
            value[rows] = work.run(v, rows, slope[rows] if wanted else torch.empty_like(v), share)
    return value.reshape(scores.shape[:-1]), slope.reshape(scores.shape) if wanted else slope


def with_slope(scores: Tensor, work: Work, plain: Callable[[Tensor], Tensor], mean: bool = False) -> Tensor:
    """A loss (...), or its `mean`, made together with its gradient; ``plain(scores)`` is the loss for autograd."""
    wanted = torch.is_grad_enabled() and scores.requires_grad
    scale = scores.shape[-1] / scores.numel() if mean else 1.0
    share = 1.0
    if scores.numel() > GRAIN:  # the mean's share is taken into account block by block, which saves a pass
        scale, share = 1.0, scale
    value, slope = value_and_slope(scores, work, wanted, share)
    if mean:
        value = value.mean()
    if not wanted:
        return value
    remake = lambda v: value_and_slope(v, work, share=share)[1]  # noqa: E731
    reduced = (lambda v: plain(v).mean()) if mean else plain
    out: Tensor = _WithSlope.apply(scores, value, slope, scale, remake, reduced)
    return out


def finds_top(out: Tensor) -> bool:
    """Whether `softmax_into` looks for the largest score itself, which costs no pass of its own."""
    return out.stride(-1) == 1 and out.shape[-1] > NARROW


def softmax_into(out: Tensor, x: Tensor, shifted: bool = False) -> Tensor | None:
    """softmax(x) in `out`, (n, K); gives logsumexp(x) (n, 1) where it is at hand.

    `shifted`: the largest score of every row is 0.
    """
    if finds_top(out):
        torch.softmax(x, -1, out=out)
        return None
    torch.exp(x if shifted else x - x.amax(-1, keepdim=True), out=out)
    total = out.sum(-1, keepdim=True)
    out.div_(total)
    return total.log_() if shifted else None
