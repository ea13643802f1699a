"""Losses in few passes over the scores.

Autograd would write one (n, K) gradient for every term of a loss and add them up. The functions here know their
gradients in closed form and write one. Each returns what its backward pass needs as a second output, so that second
derivatives stay exact; under torch.compile the plain formula is used, which the compiler fuses by itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def add_at(out: Tensor, index: Tensor, value: Tensor) -> Tensor:
    """scatter_add along the classes, in place unless a second derivative is being recorded."""
    return out.scatter_add(-1, index, value) if torch.is_grad_enabled() else out.scatter_add_(-1, index, value)


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
        ctx.set_materialize_grads(False)

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


def uniform_cross_entropy(scores: Tensor, labels: Tensor, c: float) -> Tensor:
    """Backward-corrected cross entropy for targets ``c e_y + (1 - c)/K`` (uniform noise, complementary labels)."""
    index = labels[..., None]
    if torch.compiler.is_compiling():
        logp = torch.log_softmax(scores, -1)
        return -c * logp.gather(-1, index)[..., 0] - (1 - c) * logp.mean(-1)
    out: Tensor = _UniformCrossEntropy.apply(scores, index, c)[0]
    return out


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
        ctx.set_materialize_grads(False)

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
