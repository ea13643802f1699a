"""CPU kernels: cross entropy, backward-corrected (squeezed or not) and forward-corrected, made with its gradient.

Autograd would write one (n, K) gradient for every term of a loss and add them up. A kernel knows the gradient in
closed form and writes one, a block of rows at a time: one routine for all `Targets`, one for all `Rows`. Where it
cannot answer it returns NaN, and the definition runs instead, as it does where derivatives of the gradient are wanted,
and under torch.compile and torch.func.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...transitions import Rows, Targets, smallest

BLOCK = 1 << 20  # scores worked on at a time by one thread: temporaries stay in the cache
SHARED = 1 << 22  # by several: every operation ends in a barrier, which waits where another program keeps a core busy
GRAIN = 1 << 15  # PyTorch runs simple operations on fewer elements than this in the thread that calls them
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

    ``run(v, some, slope, share)`` gives the losses (n,) of the scores v (n, K) of some rows, whose targets or rows of T
    are ``some``, and fills `slope` (n, K) with `share` of their gradients. With `temporaries` of that size it runs on
    a block of rows at a time: fresh memory costs more than the arithmetic. Else several threads run on all rows, each
    on those that are in its cache.
    """

    every: Targets | Rows  # of the whole batch
    run: Callable[[Tensor, Any, Tensor, float], Tensor]
    temporaries: bool = True


def value_and_slope(scores: Tensor, work: Work, wanted: bool = True, share: float = 1.0) -> tuple[Tensor, Tensor]:
    """Losses (...) and `share` of their gradients (..., K) in the layout of the scores; the latter only if `wanted`."""
    K = scores.shape[-1]
    n = scores.numel() // K
    flat = scores.detach() if scores.ndim == 2 else scores.detach().reshape(n, K)
    if n * K <= GRAIN and not flat.is_cuda:  # one block, too small for more than the caller's own thread
        slope = torch.empty_like(flat)
        value = work.run(flat, work.every, slope, share)  # nothing in it requires a gradient
        if scores.ndim != 2:
            value, slope = value.reshape(scores.shape[:-1]), slope.reshape(scores.shape)
        return value, slope if wanted else slope[:0]
    slope = torch.empty_like(flat if wanted else flat[:0])
    alone = torch.get_num_threads() == 1
    blocks = work.temporaries or not wanted or alone
    step = max(1, (BLOCK if alone else SHARED) // K) if blocks and not flat.is_cuda else n
    if step >= n and wanted:
        with torch.no_grad():
            value = work.run(flat, work.every, slope, share)
        return value.reshape(scores.shape[:-1]), slope.reshape(scores.shape)
    value = flat.new_empty(n)
    with torch.no_grad():
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            v = flat[rows]
            value[rows] = work.run(v, work.every[rows], slope[rows] if wanted else torch.empty_like(v), share)
    return value.reshape(scores.shape[:-1]), slope.reshape(scores.shape) if wanted else slope


def run(scores: Tensor, work: Work, plain: Callable[[Tensor], Tensor], mean: bool = False) -> Tensor:
    """Losses (...), or their `mean`, made block by block together with their gradient.

    ``plain(scores)`` is the definition, for autograd: it runs where the kernel answers NaN or -inf.
    """
    wanted = torch.is_grad_enabled() and scores.requires_grad
    scale = scores.shape[-1] / scores.numel() if mean else 1.0
    share = 1.0
    if scores.numel() > GRAIN:  # the mean's share is taken into account block by block, which saves a pass
        scale, share = 1.0, scale
    value, slope = value_and_slope(scores, work, wanted, share)
    reduced = (lambda v: plain(v).mean()) if mean else plain
    if mean:
        value = value.mean()
    if not float(value if mean else value.amin()) > -math.inf:  # NaN where one is
        return reduced(scores)
    if not wanted:
        return value
    remake = lambda v: value_and_slope(v, work, share=share)[1]  # noqa: E731
    out: Tensor = _WithSlope.apply(scores, value, slope, scale, remake, reduced)
    return out


def softmax_into(out: Tensor, x: Tensor, by_torch: bool, shifted: bool = False) -> Tensor | None:
    """softmax(x) in `out`, (n, K), `by_torch` or by its parts; gives logsumexp(x) (n, 1) where it is at hand.

    `shifted`: the largest score of every row is 0.
    """
    if by_torch:
        torch.softmax(x, -1, out=out)
        return None
    torch.exp(x if shifted else x - x.amax(-1, keepdim=True), out=out)
    total = out.sum(-1, keepdim=True)
    out.div_(total)
    return total.log_() if shifted else None


def cross_entropy(every: Targets, squeeze: tuple[float, float] | None = None) -> Work:
    """``logsumexp v - <r, v> + k/2 sum |u|^alpha``, u = v - mean v, for `flat` targets r that sum to one.

    Gradient: ``softmax v - r + k alpha/2 (|u|^(alpha-1) sgn u - its mean)``.
    """
    k, alpha = squeeze or (0.0, 2.0)
    # Where targets have large entries of both signs, <r, x> keeps its digits if x is centred first.
    centred = k != 0 or every.wide

    def work(v: Tensor, r: Targets, slope: Tensor, share: float) -> Tensor:
        # the largest score must be sought anyway where rows are short, and stands in for the label's
        by_torch = slope.stride(-1) == 1 and slope.shape[-1] > NARROW
        at = r.at if by_torch else None
        # Scores are compared with one of the row before they are summed: a common shift must not eat their digits.
        near = v.amax(-1, keepdim=True) if at is None else v.gather(-1, at)
        if centred:
            x = v - near
            log_sum = softmax_into(slope, x, by_torch, shifted=at is None)
            mean = x.mean(-1, keepdim=True)
            loss = r.product(x.sub_(mean), centred=True).add_(mean[:, 0])  # targets sum to one
        elif r.single and at is not None:  # <e_y, v - v_y> = 0
            loss = torch.zeros_like(near).squeeze(-1)
            log_sum = softmax_into(slope, v, by_torch)
        else:  # x is needed no longer than slope is free
            x = torch.sub(v, near, out=slope)
            loss = r.product(x)
            log_sum = softmax_into(slope, x, by_torch, shifted=at is None)
        if log_sum is None:
            log_sum = _log_sum(slope, v, near, at)
        loss = torch.sub(log_sum.squeeze(-1), loss)
        if k and alpha == 2:
            loss.add_(_square_sum(x), alpha=k / 2)
            slope.add_(x, alpha=k)
        elif k:
            bent = x.abs().pow_(alpha - 1).mul_(x.sign())
            slope.add_(bent - bent.mean(-1, keepdim=True), alpha=k * alpha / 2)
            loss.add_(bent.mul_(x).sum(-1), alpha=k / 2)
        r.subtract_(slope, share)
        return loss if r.silent is None else r.hush(loss)

    return Work(every, work, centred or every.temporaries)


def _log_sum(p: Tensor, v: Tensor, near: Tensor, at: Tensor | None) -> Tensor:
    """``logsumexp (v - near)`` (n, 1) from p = softmax(v), by the p of the score that is `near`."""
    own = p.amax(-1, keepdim=True) if at is None else p.gather(-1, at)
    if at is None or not bool((own < smallest(v.dtype)).any()):
        return own.log_().neg_()
    own = p.amax(-1, keepdim=True)  # the largest p is at least 1/K: its logarithm is exact however far apart scores are
    return v.amax(-1, keepdim=True).sub_(near).sub_(own.log_())


def forward_cross_entropy(every: Rows) -> Work:
    """``-log <t, p>``, p = softmax v, for `prepared` rows t of T; gradient ``p - q``, from prior to posterior."""

    def work(v: Tensor, t: Rows, slope: Tensor, share: float) -> Tensor:
        softmax_into(slope, v, slope.stride(-1) == 1 and slope.shape[-1] > NARROW)
        return t.posterior_(slope, share)

    return Work(every, work, every.temporaries)


def line(potential: Any, losses: Any, every: Targets) -> Work:
    """``s F(v) - <r, v>`` of `flat` targets r as it is defined, with the gradient ``s link(v) - r``."""

    def work(v: Tensor, r: Targets, slope: Tensor, share: float) -> Tensor:
        slope.copy_(potential.link(v))
        if isinstance(r.total, Tensor):
            slope.mul_(r.total[:, None])
        r.subtract_(slope, share)
        return losses(v, r)

    return Work(every, work)


def _square_sum(x: Tensor) -> Tensor:
    if x.stride(-1) == 1:  # needs no temporary, but is slow along columns
        return torch.linalg.vector_norm(x, dim=-1).square_()
    return x.square().sum(-1)
