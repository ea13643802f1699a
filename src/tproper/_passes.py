"""Losses in few passes over the scores.

Autograd would write one (n, K) gradient for every term of a loss and add them up. The functions here know their
gradients in closed form and write one. Each returns what its backward pass needs as a second output, so that second
derivatives stay exact; under torch.compile the plain formula is used, which the compiler fuses by itself. `jvp` serves
forward mode (torch.func.jvp, jacfwd, hessian).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._checks import transformed

BLOCK = 1 << 19  # scores worked on at a time: some MB, which stay in the cache from one pass to the next


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
        return slope.mul_(grad[..., None]), None, None, None, None


def with_slope(
    scores: Tensor,  # (..., K)
    work: Callable[[Tensor, slice, Tensor], Tensor],
    plain: Callable[[Tensor], Tensor],
) -> Tensor:
    """A loss (...) that is made together with its gradient, a block of rows at a time.

    ``work(v, rows, slope)`` gives the losses of the rows v (n, K) and fills `slope` (n, K), all in place: large
    temporary tensors cost more to get from the system than to compute with. ``plain(scores)`` is the same loss for
    autograd.
    """
    n, K = scores.shape[:-1].numel(), scores.shape[-1]
    step = n if scores.is_cuda else max(1, BLOCK // K)

    def both(scores: Tensor, wanted: bool = True) -> tuple[Tensor, Tensor]:
        flat = scores.detach().reshape(n, K)
        slope = flat.new_empty(n if wanted else min(step, n), K)
        value = flat.new_empty(n)
        with torch.no_grad():
            for start in range(0, n, step):
                rows = slice(start, min(start + step, n))
                out = slope[rows] if wanted else slope[: rows.stop - start]
                value[rows] = work(flat[rows], rows, out)
        return value.reshape(scores.shape[:-1]), slope.reshape(scores.shape) if wanted else slope

    wanted = torch.is_grad_enabled() and scores.requires_grad
    value, slope = both(scores, wanted)
    if not wanted:
        return value
    made: Tensor = _WithSlope.apply(scores, value, slope, lambda v: both(v)[1], plain)
    return made


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


class DualSide(torch.autograd.Function):
    """F and its gradient p for potentials known by their conjugate, ``F(v) = max_p <p, v> - F*(p)``.

    ``dF = p`` and ``dp = J(p) dv``, J symmetric: both come from the potential, and second derivatives are exact because
    p is an output. Works under torch.func, whose extra batch dimension is one more leading dimension here.
    """

    @staticmethod
    def forward(v: Tensor, F: Any) -> tuple[Tensor, Tensor]:
        """F's value (...) and link (..., K)."""
        p: Tensor = F.maximiser(v)
        # v minus its largest entry keeps <p, v> exact at scores of 1e6
        top = v.amax(-1, keepdim=True)
        return (p * (v - top)).sum(-1) + top[..., 0] - F._conjugate(p), p

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Keep p and the potential."""
        ctx.F = inputs[1]
        ctx.save_for_backward(output[1])
        ctx.save_for_forward(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def jvp(ctx: Any, move: Tensor, _: None) -> tuple[Tensor, Tensor]:
        """``<p, dv>`` and ``J(p) dv``."""
        (p,) = ctx.saved_tensors
        return (p * move).sum(-1), ctx.F.jacobian_product(p, move)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_p: Tensor | None) -> tuple[Tensor | None, None]:
        """``grad * p + J(p) grad_p``."""
        (p,) = ctx.saved_tensors
        out = None if grad is None else grad[..., None] * p
        if grad_p is not None:
            through = ctx.F.jacobian_product(p, grad_p)
            out = through if out is None else out + through
        return out, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], v: Tensor, F: Any) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        """All work is batched already."""
        return DualSide.apply(v.movedim(in_dims[0], 0), F), (0, 0)
