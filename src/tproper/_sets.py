"""log of the probability of a candidate set, in few passes over the scores.

``log sum_{z in S} p_z`` for p = softmax(v). The textbook way, a log-sum-exp over scores masked with -inf, costs several
passes over (n, K) for value and gradient each; here one softmax serves both.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

SMALLEST = 1e-30  # masses below it are close to underflow in float32, and are taken the exact way


class _LogSetMass(torch.autograd.Function):
    """(log P, its gradient ``p (1_S / P - 1)``), P = sum of p over S; the second is returned to be reused."""

    @staticmethod
    def forward(scores: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
        p = torch.softmax(scores, -1)
        own = p * inside
        mass = own.sum(-1, keepdim=True)
        # both parts are small where P is close to 1, and are summed as they are: no 1 - P
        return mass.log()[..., 0], own.div_(mass).sub_(p)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(inputs[0], inputs[1], output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_slope: Tensor | None) -> tuple[Tensor | None, None]:
        scores, inside, slope = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient that is to be differentiated itself: the textbook way
            (slope,) = torch.autograd.grad(_textbook(scores, inside.bool()).sum(), scores, create_graph=True)
        return None if grad is None else slope * grad[..., None], None


def _textbook(scores: Tensor, masks: Tensor) -> Tensor:
    # log-sum-exp of nothing but -inf has a NaN gradient: an empty set is taken for a full one, then made -inf
    empty = ~masks.any(-1, keepdim=True)
    inside = torch.logsumexp(scores.masked_fill(~(masks | empty), -math.inf), -1)
    return (inside - torch.logsumexp(scores, -1)).masked_fill(empty[..., 0], -math.inf)


def log_set_mass(scores: Tensor, masks: Tensor) -> Tensor:
    """``log sum_{z in S} softmax(scores)_z`` for boolean masks (..., K); -inf with zero gradient for an empty set.

    Exact however small the mass: rows where it comes near underflow make the batch go the textbook way. So do
    torch.compile, functorch transforms and CUDA graphs, where values cannot be looked at.
    """
    traced = torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None
    if traced or scores.is_cuda:
        return _textbook(scores, masks)
    value, _ = _LogSetMass.apply(scores, masks.to(scores.dtype))
    if bool((value.detach() < math.log(SMALLEST)).any()):
        return _textbook(scores, masks)
    out: Tensor = value
    return out
