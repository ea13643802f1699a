"""Newton's method for squeezed potentials, with a duality gap that says whether it succeeded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch
from torch import Tensor

from .counted import Counted, Grouped, Penalty, centred, row_sum, settled

if TYPE_CHECKING:  # `base` imports the solvers
    from .base import Potential

    AnyPotential: TypeAlias = Potential | Counted | Grouped


def newton(
    base: AnyPotential,
    penalty: Penalty,
    q: Tensor,
    count: Tensor,
    better: Tensor | None = None,
    budget: float = math.inf,
) -> tuple[Tensor, Tensor]:
    """Damped Newton steps on ``F(v) + psi(v) - <q, v>``, sum v = 0; returns v and the relative duality gap.

    They begin at `better` where that is better than a small multiple of q, and end after `budget` evaluations.
    """
    problem = _Problem(base, penalty, q, count, budget)
    v, u, value = problem.start(better)
    before, stuck = torch.full_like(value, math.inf), torch.zeros_like(value, dtype=torch.bool)
    for _ in range(100):
        if problem.budget <= 0:
            break
        move = problem.move(v, u)
        fall = -(count * move.residual * move.step).sum(-1)
        size = 1 + value.abs()
        stalled = (fall <= 1e-18 * size) & (fall > 0.1 * before)  # rounding is all that is left
        exact = (move.residual.abs() <= 1e-15 * problem.scale).all(-1)
        done = exact | (fall <= 1e-30 * size) | stalled | stuck | fall.isnan()
        if bool(done.all()):
            break
        before = fall
        at, slope, lower, good = problem.search(v, u, value, move, fall, done)
        stuck = stuck | ~good  # no descent along a descent direction: beyond floating point
        take = good & ~done
        v, u = torch.where(take[:, None], at, v), torch.where(take[:, None], slope, u)
        value = torch.where(take, lower, value)
    v = settled(v, count)  # which the gap takes for granted
    return v, problem.gap(v, u) / (1 + value.abs() + (count * q * v).sum(-1).abs())


def polished(base: AnyPotential, penalty: Penalty, q: Tensor, count: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """v with ``grad F(v) + psi'(v) = q + t`` to rounding, and what is left of it.

    Near alpha = 1 the objective does not see scores of 1e-80 beside 1, but their slopes are as large as any: steps are
    taken in ``u = psi'(v)``, and judged by the equation itself.
    """
    problem = _Problem(base, penalty, q, count, math.inf)
    u = penalty.balanced(penalty.derivative(v), count)
    v = penalty.inverse(u)
    move = problem.move(v, u)
    left = move.residual.abs().amax(-1)
    for _ in range(100):
        if bool((left <= 1e-14).all()):
            break
        dense = penalty.curvature(v) * move.step
        du = torch.where(penalty.curvature(v) > 1, move.mu - move.residual - move.hessian(move.step), dense)
        length, moved = torch.ones_like(left), torch.zeros_like(left, dtype=torch.bool)
        for _ in range(12):
            other = penalty.balanced(u + length[:, None] * du, count)
            at = penalty.inverse(other)
            rest = centred(base._link(at) + other - q, count).abs().amax(-1)
            better = (rest < left) & ~moved
            u, v = torch.where(better[:, None], other, u), torch.where(better[:, None], at, v)
            left, moved = torch.where(better, rest, left), moved | better
            if bool((moved | (left <= 1e-14)).all()):
                break
            length = length / 2
        if not bool(moved.any()):
            break
        move = problem.move(v, u)
    return v, left


class _Move(NamedTuple):
    """A Newton step: ``(H + E) step = mu - residual``."""

    p: Tensor  # grad F
    residual: Tensor
    mu: Tensor
    step: Tensor
    hessian: Callable[[Tensor], Tensor]


class _Problem:
    """Minimise ``F(v) + psi(v) - <q, v>`` over centred v.

    Below alpha = 2 psi has infinite curvature at zero, so there the steps are taken in ``u = psi'(v)``, where all is
    smooth: the direction is the same, ``E dv = du``.
    """

    def __init__(self, base: AnyPotential, penalty: Penalty, q: Tensor, count: Tensor, budget: float) -> None:
        self.base, self.penalty, self.q, self.count = base, penalty, q, count
        self.budget = budget  # evaluations of the objective that are left
        self.dual = penalty.dual
        self.scale = 1 + q.abs().amax(-1, keepdim=True)

    def objective(self, x: Tensor) -> Tensor:
        self.budget -= 1
        return self.base._value(x) + (self.count * (self.penalty.value(x) - self.q * x)).sum(-1)

    def start(self, better: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """v, u and the objective to begin with."""
        penalty, count = self.penalty, self.count
        v = 1e-2 * centred(self.q, count) / self.scale
        u = penalty.derivative(v)
        if self.dual:
            u = penalty.balanced(u, count)
            v = penalty.inverse(u)
        elif penalty.k > 0:  # psi is flat at zero: start where it alone would put v, inside the domain of F
            v = centred(penalty.inverse(centred(self.q, count)), count)
            for _ in range(60):
                outside = ~torch.isfinite(self.objective(v) + self.base._link(v).sum(-1))  # on the edge, links are not
                if not bool(outside.any()):
                    break
                v = torch.where(outside[:, None], v / 2, v)
            u = penalty.derivative(v)
        value = self.objective(v)
        if better is None:
            return v, u, value
        other = self.objective(better)
        use = ((other < value) & (better != 0).any(-1))[:, None]  # at v = 0 all curvatures are infinite: no way out
        u = torch.where(use, penalty.derivative(better), u)
        return torch.where(use, better, v), u, torch.where(use[:, 0], other, value)

    def move(self, v: Tensor, u: Tensor) -> _Move:
        """The Newton step at v."""
        p, hessian, solve = _linearised(self.base, self.penalty, v, u, self.count)
        residual = centred(p + u - self.q, self.count)
        along, flat = solve(-residual), solve(torch.ones_like(v))
        mu = -row_sum(self.count * along) / row_sum(self.count * flat)
        return _Move(p, residual, mu, along + mu * flat, hessian)

    def search(
        self, v: Tensor, u: Tensor, start: Tensor, move: _Move, fall: Tensor, done: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The longest of the steps 1, 1/2, 1/4, ... that falls enough: v, u, the objective, and which rows have one."""
        penalty, size = self.penalty, 1 + start.abs()
        # E dv = du; where E is infinite the equation itself gives du
        du = torch.where(v == 0, move.mu - move.residual - move.hessian(move.step), penalty.curvature(v) * move.step)
        length = torch.where(done, 0.0, 1.0).to(v.dtype)
        for _ in range(20 if self.dual else 40):
            if self.dual:
                slope = penalty.balanced(u + length[:, None] * du, self.count)
                at = penalty.inverse(slope)
            else:
                at = centred(v + length[:, None] * move.step, self.count)
                slope = penalty.derivative(at)
            value = self.objective(at)
            # rounding must not stop the last steps, which change the objective by less than its last digit
            good = value <= start - 1e-4 * length * fall + 1e-14 * size
            if not self.dual and bool((good & ~done).any()):
                # nor may a step run far up the other side, to the edge of F's domain
                uphill = self.base._link(at) + slope - self.q
                good &= (self.count * uphill * move.step).sum(-1) <= 0.9 * fall + 1e-14 * size
            if bool((good | done).all()) or self.budget <= 0:
                break
            length = torch.where(good, length, length / 2)
        return at, slope, value, good

    def gap(self, v: Tensor, u: Tensor) -> Tensor:
        """``psi(v) + psi*(q + t - p) - <v, q + t - p>``, p = grad F(v), which bounds the error of the objective.

        However the iteration went. `_predicted_gap` often bounds it better. With nothing squeezed: ``max |q - p|``.
        """
        penalty, off = self.penalty, self.q - self.base._link(v)
        if not penalty.k > 0:
            return off.abs().amax(-1)
        gap = (self.count * penalty.gap(v, penalty.balanced(off, self.count))).sum(-1)
        return torch.fmin(gap, self._predicted_gap(v, u)) if isinstance(self.base, Counted) else gap

    def _predicted_gap(self, v: Tensor, u: Tensor) -> Tensor:
        """The duality gap of v with the p that one more Newton step would reach.

        ``F(v) + F*(p) - <p, v>  +  sum psi(v) + psi*(w) - v w``, w = q + t - p, bounds the error for any p of the
        simplex. At scores of 1e8 the gradient p = grad F(v) is known to 1e-8 only, and psi*'' is large: that p will not
        do. On the support of p the equation ``p = q + t - psi'(v)`` knows it to rounding; off it, the gradient does.
        """
        base, penalty, count = self.base, self.penalty, self.count
        assert isinstance(base, Counted)
        move, curved = self.move(v, u), penalty.curvature(v)
        by_penalty = base.curvature(move.p) > curved
        change = torch.where(by_penalty, move.mu - move.residual - curved * move.step, move.hessian(move.step))
        p = (move.p + change).clamp_min(0)
        p = p / row_sum(count * p)
        top = v.amax(-1, keepdim=True)
        gap = base._value(v - top) + base.conjugate(p) - (count * p * (v - top)).sum(-1)
        return gap.clamp_min(0) + (count * penalty.gap(v, penalty.balanced(self.q - p, count))).sum(-1)


def _linearised(
    base: AnyPotential, penalty: Penalty, v: Tensor, u: Tensor, count: Tensor
) -> tuple[Tensor, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """grad F, the product with H = Hessian of F, and the solution of ``(H + E) x = y``, E the penalty's curvature.

    In O(K) where F is separable, ``H = diag(s) - s s^T / sum s`` (Sherman-Morrison). Below alpha = 2, E is infinite at
    zero and the solution is written with G = 1/E. Coordinates that `count` classes share count as often.
    """
    dual, E = penalty.dual, penalty.curvature(v)
    G = penalty.inverse_slope(u) if dual else torch.ones_like(v)
    if isinstance(base, Counted):
        p = base._link(v)
        s = base.curvature(p)
        total = row_sum(count * s).clamp_min(1e-300)
        inverse = G / (1 + s * G) if dual else 1 / (s + E).clamp_min(1e-14)
        left = 1 / (1 + s * G) if dual else E * inverse  # 1 - s * inverse, which keeps its digits
        through = row_sum(count * s * left).clamp_min(1e-300)

        def product(x: Tensor) -> Tensor:
            return s * (x - row_sum(count * s * x) / total)

        def solve(y: Tensor) -> Tensor:
            x = inverse * y
            return x + inverse * s * (row_sum(count * s * x) / through)

        return p, product, solve
    root = count.clamp_min(1).sqrt()  # slots that are not used have no part in any sum
    slope, H = derivatives(base._value, v)
    H = H / (root[:, :, None] * root[:, None, :])  # as if each class had its own coordinate, which keeps it symmetric
    eye = torch.eye(v.shape[-1], dtype=v.dtype)
    W = G.sqrt() if dual else torch.ones_like(v)
    if dual:
        A = eye + W[:, :, None] * H * W[:, None, :]
    else:
        # F is flat along (1, ..., 1), on which nothing depends; the ridge is for penalties that are flat at zero
        A = H + torch.diag_embed(E) + root[:, :, None] * root[:, None, :] / row_sum(count)[..., None]
        A = A + 1e-14 * A.diagonal(dim1=-2, dim2=-1).amax(-1)[:, None, None] * eye
    factors = torch.linalg.lu_factor_ex(A)[:2]

    def solved(y: Tensor) -> Tensor:
        return W * torch.linalg.lu_solve(*factors, (W * root * y)[..., None])[..., 0] / root

    return slope / root.square(), lambda x: (H @ (root * x)[..., None])[..., 0] / root, solved


def derivatives(value: Callable[[Tensor], Tensor], v: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients (B, K) and Hessians (B, K, K) of a function of rows: plain autograd, so that any F will do."""
    with torch.enable_grad():
        x = v.detach().requires_grad_()
        (g,) = torch.autograd.grad(value(x).sum(), x, create_graph=True)
        rows = [
            torch.autograd.grad(g[:, z].sum(), x, retain_graph=True)[0] if g.requires_grad else torch.zeros_like(x)
            for z in range(v.shape[-1])
        ]
    return g.detach(), torch.stack(rows, -2)
