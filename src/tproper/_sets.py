"""Losses of candidate sets in few passes over the scores.

A pass over boolean masks (n, K) costs about as much as a softmax; autograd makes many of them. The functions here look
at masks as bytes, and make the gradient along with the value, in place: what a step keeps is one (n, K) tensor, the
gradient itself.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

SMALLEST = 1e-30  # masses below it are close to underflow in float32, and are taken the exact way


def _traced() -> bool:
    """Under torch.compile, which fuses the plain formula itself, and functorch, which cannot look inside."""
    return torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None


def _bytes(masks: Tensor) -> Tensor:
    """Booleans as 0 and 1, without a copy where nothing is being traced (Inductor has no such view on a GPU)."""
    return masks.to(torch.uint8) if _traced() else masks.view(torch.uint8)


def _indicator(masks: Tensor, dtype: torch.dtype) -> Tensor:
    """1_S as a new tensor of numbers. A boolean is a byte 0 or 1, and bytes are converted eight times as fast."""
    return _bytes(masks).to(dtype)


def mask_sizes(masks: Tensor) -> Tensor:
    """|S| of boolean masks (..., K): a sum of bytes, in half the time of a sum of booleans."""
    return _bytes(masks).sum(-1, dtype=torch.int32)


class _WithSlope(torch.autograd.Function):
    """A value (n,) whose gradient (n, K) is known: `slope`. To differentiate the gradient itself, `plain` is used."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, value: Tensor, slope: Tensor, plain: Any) -> Tensor:
        ctx.save_for_backward(scores, slope)
        ctx.plain = plain
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        scores, slope = ctx.saved_tensors
        if torch.is_grad_enabled():
            (slope,) = torch.autograd.grad(ctx.plain(scores).sum(), scores, create_graph=True)
        return slope * grad[..., None], None, None, None


def log_set_mass(scores: Tensor, masks: Tensor) -> Tensor:
    """``log P``, P = sum over S of softmax(scores), for boolean masks (..., K); -inf, zero gradient, for an empty set.

    Gradient: ``p (1_S / P - 1)``. Exact however small the mass: where a row comes near underflow the batch goes the
    textbook way. So do transforms and GPUs, where values cannot be looked at or not cheaply.
    """
    if _traced() or scores.is_cuda:
        return _plain_mass(scores, masks)
    with torch.no_grad():
        p = torch.softmax(scores, -1)
        own = _indicator(masks, p.dtype).mul_(p)
        mass = own.sum(-1, keepdim=True)
        tiny = bool((mass < SMALLEST).any())
        value, slope = mass.log()[..., 0], own.div_(mass).sub_(p)
    if tiny:
        return _plain_mass(scores, masks)
    out: Tensor = _WithSlope.apply(scores, value, slope, lambda v: _plain_mass(v, masks))
    return out


def _plain_mass(scores: Tensor, masks: Tensor) -> Tensor:
    # log-sum-exp of nothing but -inf has a NaN gradient: an empty set is taken for a full one, then made -inf
    empty = ~masks.any(-1, keepdim=True)
    inside = torch.logsumexp(scores.masked_fill(~(masks | empty), -math.inf), -1)
    return (inside - torch.logsumexp(scores, -1)).masked_fill(empty[..., 0], -math.inf)


def set_cross_entropy(scores: Tensor, masks: Tensor, c: Tensor, rest: Tensor, k: float = 0.0) -> Tensor:
    """Backward-corrected cross entropy of targets ``r = c 1_S + rest``, squeezed with alpha = 2 and coefficient k.

    ``logsumexp v - c sum_S v - rest sum v + k/2 sum (v - mean v)^2``; gradient ``softmax v - r + k (v - mean v)``.
    `c` and `rest` (...) are such that r sums to one.
    """
    if _traced():
        return _plain_cross_entropy(scores, masks, c, rest, k)
    with torch.no_grad():
        x = scores - scores.amax(-1, keepdim=True)  # targets sum to one, so a common shift changes nothing
        slope = torch.softmax(x, -1)
        # the largest p is at least 1/K, so this log-sum-exp is exact however far apart the scores are
        value = -slope.amax(-1).log()
        inside, total = _indicator(masks, x.dtype), x.sum(-1)
        slope.addcmul_(inside, -c[..., None]).sub_(rest[..., None])
        value -= c * inside.mul_(x).sum(-1) + rest * total
        if k:
            x.sub_(total[..., None] / x.shape[-1])
            value += k / 2 * torch.linalg.vector_norm(x, dim=-1).square()
            slope.add_(x, alpha=k)
    out: Tensor = _WithSlope.apply(scores, value, slope, lambda v: _plain_cross_entropy(v, masks, c, rest, k))
    return out


def _plain_cross_entropy(scores: Tensor, masks: Tensor, c: Tensor, rest: Tensor, k: float) -> Tensor:
    losses = -torch.log_softmax(scores, -1)
    value = c * (losses * masks).sum(-1) + rest * losses.sum(-1)
    if not k:
        return value
    return value + k / 2 * (scores - scores.mean(-1, keepdim=True)).square().sum(-1)
