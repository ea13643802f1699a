"""CPU kernels: cross entropy, backward-corrected (squeezed or not) and forward-corrected, made with its gradient.

Autograd would write one (n, K) gradient for every term of a loss and add them up. A kernel knows the gradient in
closed form and writes one, a block of rows at a time: one routine for all `Targets`, one for all `Rows`. Where it
cannot answer it returns NaN, and the definition runs instead, as it does where derivatives of the gradient are wanted,
and under torch.compile and torch.func.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..._core import Work, finds_top, softmax_into, tracing
from ...transitions import Rows, Targets, smallest
from .registry import Plan, plan


def possible(scores: Tensor) -> bool:
    """Whether scores are where kernels can look at them, and nothing is being traced."""
    return not scores.is_cuda and not tracing.transformed()


def runs(loss: Any, scores: Tensor) -> bool:
    """Whether a kernel here serves a call."""
    return loss.backend != "torch" and possible(scores) and isinstance(plan(loss), Plan)


def cross_entropy(
    targets: Targets, squeeze: tuple[float, float] | None, dtype: torch.dtype, class_major: bool = False
) -> Work:
    """``logsumexp v - <r, v> + k/2 sum |u|^alpha``, u = v - mean v, for targets r that sum to one.

    Gradient: ``softmax v - r + k alpha/2 (|u|^(alpha-1) sgn u - its mean)``.
    """
    k, alpha = squeeze or (0.0, 2.0)
    every = targets.flat(dtype, class_major)
    # Where targets have large entries of both signs, <r, x> keeps its digits if x is centred first.
    centred = k != 0 or every.wide

    def work(v: Tensor, rows: slice, slope: Tensor, share: float) -> Tensor:
        r = every[rows]
        # the largest score must be sought anyway where rows are short, and stands in for the label's
        at = r.at if finds_top(slope) else None
        # Scores are compared with one of the row before they are summed: a common shift must not eat their digits.
        near = v.amax(-1, keepdim=True) if at is None else v.gather(-1, at)
        if centred:
            x = v - near
            log_sum = softmax_into(slope, x, shifted=at is None)
            mean = x.mean(-1, keepdim=True)
            loss = r.product(x.sub_(mean), centred=True).add_(mean[:, 0])  # targets sum to one
        elif r.single and at is not None:  # <e_y, v - v_y> = 0
            loss = torch.zeros_like(near).squeeze(-1)
            log_sum = softmax_into(slope, v)
        else:  # x is needed no longer than slope is free
            x = torch.sub(v, near, out=slope)
            loss = r.product(x)
            log_sum = softmax_into(slope, x, shifted=at is None)
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
        return r.hush(loss)

    return Work(work, centred or every.temporaries)


def _log_sum(p: Tensor, v: Tensor, near: Tensor, at: Tensor | None) -> Tensor:
    """``logsumexp (v - near)`` (n, 1) from p = softmax(v), by the p of the score that is `near`."""
    own = p.amax(-1, keepdim=True) if at is None else p.gather(-1, at)
    if at is None or not bool((own < smallest(v.dtype)).any()):
        return own.log_().neg_()
    own = p.amax(-1, keepdim=True)  # the largest p is at least 1/K: its logarithm is exact however far apart scores are
    return v.amax(-1, keepdim=True).sub_(near).sub_(own.log_())


def forward_cross_entropy(rows: Rows, dtype: torch.dtype, class_major: bool = False) -> Work:
    """``-log <t, p>``, p = softmax v, for rows t of T; gradient ``p - q``, from prior to posterior."""
    every = rows.prepared(dtype, class_major)

    def work(v: Tensor, rows: slice, slope: Tensor, share: float) -> Tensor:
        softmax_into(slope, v)
        return every[rows].posterior_(slope, share)

    return Work(work, every.temporaries)


def line(potential: Any, losses: Any, targets: Targets, dtype: torch.dtype, class_major: bool = False) -> Work:
    """``s F(v) - <r, v>`` as it is defined, with the gradient ``s link(v) - r``."""
    every = targets.flat(dtype, class_major)

    def work(v: Tensor, rows: slice, slope: Tensor, share: float) -> Tensor:
        r = every[rows]
        slope.copy_(potential.link(v))
        if isinstance(r.total, Tensor):
            slope.mul_(r.total[:, None])
        r.subtract_(slope, share)
        return losses(v, r)

    return Work(work)


def _square_sum(x: Tensor) -> Tensor:
    if x.stride(-1) == 1:  # needs no temporary, but is slow along columns
        return torch.linalg.vector_norm(x, dim=-1).square_()
    return x.square().sum(-1)
