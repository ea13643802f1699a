"""Values whose gradient is known: the dual side of a potential, as an autograd function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._core import inner


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
        return inner(p, v - top) + top[..., 0] - F._conjugate(p), p

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


def dual_side(v: Tensor, F: Any) -> tuple[Tensor, Tensor]:
    """`DualSide`, in a form that torch.compile can follow while it traces."""
    if not torch.compiler.is_compiling():
        out: tuple[Tensor, Tensor] = DualSide.apply(v, F)
        return out
    p = F.maximiser(v)
    top = v.amax(-1, keepdim=True).detach()
    fixed = p.detach()  # the envelope theorem: dF = p, as if p did not move
    return inner(fixed, v - top) + top[..., 0] - F._conjugate(fixed), p
