"""Losses of candidate sets in few passes over the scores.

A pass over boolean masks (n, K) costs about as much as a softmax; autograd makes many of them. The functions here look
at masks as bytes, and make the gradient along with the value, in place: what a step keeps is one (n, K) tensor, the
gradient itself.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ._checks import traced, transformed
from ._passes import with_slope

SMALLEST = 1e-30  # masses below it are close to underflow in float32, and are taken the exact way


def _bytes(masks: Tensor) -> Tensor:
    """Booleans as 0 and 1, without a copy where nothing is being traced (Inductor has no such view on a GPU)."""
    return masks.to(torch.uint8) if traced() else masks.view(torch.uint8)


def _indicator(masks: Tensor, dtype: torch.dtype) -> Tensor:
    """1_S as a new tensor of numbers. A boolean is a byte 0 or 1, and bytes are converted eight times as fast."""
    return _bytes(masks).to(dtype)


def mask_sizes(masks: Tensor) -> Tensor:
    """|S| of boolean masks (..., K): a sum of bytes, in half the time of a sum of booleans."""
    return _bytes(masks).sum(-1, dtype=torch.int32)


def log_set_mass(scores: Tensor, masks: Tensor) -> Tensor:
    """``log P``, P = sum over S of softmax(scores), for boolean masks (..., K); -inf, zero gradient, for an empty set.

    Gradient: ``p (1_S / P - 1)``. Exact however small the mass: where a row comes near underflow the batch goes the
    textbook way. So do transforms and GPUs, where values cannot be looked at or not cheaply.
    """
    if transformed() or scores.is_cuda:
        return _plain_mass(scores, masks)
    flat = masks.reshape(-1, masks.shape[-1])
    least = math.inf

    def work(v: Tensor, rows: slice, slope: Tensor) -> Tensor:
        nonlocal least
        p = torch.softmax(v, -1)
        torch.mul(_indicator(flat[rows], p.dtype), p, out=slope)
        mass = slope.sum(-1, keepdim=True)
        least = min(least, float(mass.min()))
        slope.div_(mass).sub_(p)
        return mass.log_()[:, 0]

    out = with_slope(scores, work, lambda v: _plain_mass(v, masks))
    return _plain_mass(scores, masks) if least < SMALLEST else out


def _plain_mass(scores: Tensor, masks: Tensor) -> Tensor:
    # log-sum-exp of nothing but -inf has a NaN gradient: an empty set is taken for a full one, then made -inf
    empty = ~masks.any(-1, keepdim=True)
    x = scores - scores.amax(-1, keepdim=True).detach()  # a common shift must not eat the digits
    inside = torch.logsumexp(x.masked_fill(~(masks | empty), -math.inf), -1)
    return (inside - torch.logsumexp(x, -1)).masked_fill(empty[..., 0], -math.inf)


def set_cross_entropy(
    scores: Tensor, masks: Tensor, size: Tensor, inside: Tensor, outside: Tensor, k: float = 0.0
) -> Tensor:
    """Backward-corrected cross entropy of targets r, `inside` (...) on sets of `size` (...) classes, `outside` else.

    ``logsumexp v - <r, v> + k/2 sum (v - mean v)^2``, squeezed with alpha = 2; gradient ``softmax v - r + k (v - mean
    v)``. Targets sum to one, so a common shift of v changes nothing: it is taken out before r, which may be large and
    of both signs, multiplies it.
    """
    if transformed():
        return _plain_cross_entropy(scores, masks, inside, outside, k)
    K = scores.shape[-1]
    flat, within, without = masks.reshape(-1, K), inside.reshape(-1, 1), outside.reshape(-1, 1)
    # r is `most` everywhere but for a step on the smaller side of the set: a sum over few entries keeps its digits
    crowded = (2 * size > K).reshape(-1, 1)
    most, step = torch.where(crowded, within, without), torch.where(crowded, without - within, within - without)
    if bool(crowded.any()):
        flat = flat ^ crowded

    def work(v: Tensor, rows: slice, slope: Tensor) -> Tensor:
        x = v - v.amax(-1, keepdim=True)
        torch.softmax(x, -1, out=slope)
        # the largest p is at least 1/K, so this log-sum-exp is exact however far apart the scores are
        value = -slope.amax(-1, keepdim=True).log_()
        mean = x.mean(-1, keepdim=True)
        x.sub_(mean)
        few = _indicator(flat[rows], x.dtype)
        slope.addcmul_(few, -step[rows]).sub_(most[rows])
        value -= step[rows] * few.mul_(x).sum(-1, keepdim=True) + mean
        if k:
            value += k / 2 * torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
            slope.add_(x, alpha=k)
        return value[:, 0]

    return with_slope(scores, work, lambda v: _plain_cross_entropy(v, masks, inside, outside, k))


def _plain_cross_entropy(scores: Tensor, masks: Tensor, inside: Tensor, outside: Tensor, k: float) -> Tensor:
    x = scores - scores.amax(-1, keepdim=True).detach()
    mean = x.mean(-1, keepdim=True)
    r = torch.where(masks, inside[..., None], outside[..., None])
    value = torch.logsumexp(x, -1) - mean[..., 0] - (r * (x - mean)).sum(-1)
    return value + k / 2 * (x - mean).square().sum(-1) if k else value
