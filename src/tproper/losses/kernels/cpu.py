"""Losses in few passes over the scores.

Autograd would write one (n, K) gradient for every term of a loss and add them up. The functions here know their
gradients in closed form and write one. Each returns what its backward pass needs as a second output, so that second
derivatives stay exact; under torch.compile the plain formula is used, which the compiler fuses by itself. `jvp` serves
forward mode (torch.func.jvp, jacfwd, hessian).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..._core import add_at, transformed, with_slope
from ...transitions import indicator


class _UniformCrossEntropy(torch.autograd.Function):
    """``logsumexp v - c v_y - (1 - c) mean v`` with gradient ``softmax v - r``, r = c e_y + (1 - c)/K."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, index: Tensor, c: float) -> tuple[Tensor, Tensor]:
        p = torch.softmax(scores, -1)
        # Scores are compared with the largest one before they are summed: a common shift must not eat their digits.
        # The largest p is at least 1/K, so its logarithm is exact however far apart the scores are.
        top = scores.amax(-1, keepdim=True)
        loss = c * (top - scores.gather(-1, index))[..., 0] - p.amax(-1).log()
        return (loss if c == 1.0 else loss - (1 - c) * (scores - top).mean(-1)), p

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.c = inputs[2]
        ctx.save_for_backward(inputs[1], output[1])
        ctx.save_for_forward(inputs[1], output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def jvp(ctx: Any, move: Tensor, *_: None) -> tuple[Tensor, Tensor]:
        index, p = ctx.saved_tensors
        mean = (p * move).sum(-1, keepdim=True)
        slope = mean - ctx.c * move.gather(-1, index) - (1 - ctx.c) * move.mean(-1, keepdim=True)
        return slope[..., 0], p * (move - mean)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_p: Tensor | None) -> tuple[Tensor | None, None, None]:
        index, p = ctx.saved_tensors
        out = None
        if grad is not None:
            g = grad[..., None]
            rest = (1 - ctx.c) / p.shape[-1]
            # (p - rest) g: two plain passes take half the time of one addcmul with two operands broadcast
            out = p * g if rest == 0 else (p * g).sub_(rest * g)
            out = add_at(out, index, -ctx.c * g)
        if grad_p is not None:
            through = p * (grad_p - (p * grad_p).sum(-1, keepdim=True))
            out = through if out is None else out + through
        return out, None, None


def uniform_cross_entropy(scores: Tensor, labels: Tensor, c: float, k: float = 0.0) -> Tensor:
    """Backward-corrected cross entropy for targets ``c e_y + (1 - c)/K`` (uniform noise, complementary labels).

    Squeezed with alpha = 2 and coefficient k: ``logsumexp v - <r, v> + k/2 sum (v - mean v)^2``, with gradient
    ``softmax v - r + k (v - mean v)``.
    """
    if transformed() or scores.is_cuda:
        return _plain_uniform(scores, labels, c, k)
    index, rest = labels.reshape(-1, 1), (1 - c) / scores.shape[-1]

    def work(v: Tensor, rows: slice, slope: Tensor) -> Tensor:
        torch.softmax(v, -1, out=slope)
        # The largest p is at least 1/K, so its logarithm is exact however far apart the scores are.
        loss = -slope.amax(-1, keepdim=True).log_()
        # Scores are compared with the largest one before they are summed: a common shift must not eat their digits.
        x = v - v.amax(-1, keepdim=True)
        loss.sub_(x.gather(-1, index[rows]), alpha=c)
        if c != 1.0 or k:
            mean = x.mean(-1, keepdim=True)
            loss.sub_(mean, alpha=1 - c)
        if k:
            x.sub_(mean)
            loss.add_(torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_(), alpha=k / 2)
            slope.add_(x, alpha=k)
        if rest:
            slope.sub_(rest)
        slope.scatter_add_(-1, index[rows], loss.new_full(loss.shape, -c))
        return loss[:, 0]

    return with_slope(scores, work, lambda v: _plain_uniform(v, labels, c, k))


def _plain_uniform(scores: Tensor, labels: Tensor, c: float, k: float) -> Tensor:
    index = labels[..., None]
    if torch.compiler.is_compiling():
        logp = torch.log_softmax(scores, -1)
        value = -c * logp.gather(-1, index)[..., 0] - (1 - c) * logp.mean(-1)
    else:
        value = _UniformCrossEntropy.apply(scores, index, c)[0]
    return value + k / 2 * squared_deviation(scores) if k else value


class _SquaredDeviation(torch.autograd.Function):
    """``sum_z (v_z - mean v)^2``, and the deviations; gradient ``2 (v - mean v)``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor) -> tuple[Tensor, Tensor]:
        u = scores - scores.mean(-1, keepdim=True)
        return torch.linalg.vector_norm(u, dim=-1).square(), u

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(output[1])
        ctx.save_for_forward(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def jvp(ctx: Any, move: Tensor) -> tuple[Tensor, Tensor]:
        (u,) = ctx.saved_tensors
        centred = move - move.mean(-1, keepdim=True)
        return 2 * (u * centred).sum(-1), centred

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_u: Tensor | None) -> Tensor | None:
        (u,) = ctx.saved_tensors
        out = None if grad is None else u * (2 * grad[..., None])
        if grad_u is not None:
            through = grad_u - grad_u.mean(-1, keepdim=True)
            out = through if out is None else out + through
        return out


def squared_deviation(scores: Tensor) -> Tensor:
    """``sum_z (v_z - mean v)^2`` of each row: squeezing with alpha = 2, without its coefficient."""
    if torch.compiler.is_compiling():
        return (scores - scores.mean(-1, keepdim=True)).square().sum(-1)
    out: Tensor = _SquaredDeviation.apply(scores)[0]
    return out


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
        few = indicator(flat[rows], x.dtype)
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
