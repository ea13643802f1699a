"""Newton's method for squeezed potentials, with a duality gap that says whether it succeeded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeGuard

import torch
from torch import Tensor

from ._numerics import increasing_root


class Base(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def domain(self) -> str: ...
    @property
    def symmetric(self) -> bool: ...
    @property
    def differentiable(self) -> bool: ...

    def _value(self, v: Tensor) -> Tensor: ...
    def _link(self, v: Tensor) -> Tensor: ...
    def _conjugate(self, q: Tensor) -> Tensor: ...
    def _inverse_link(self, p: Tensor) -> Tensor: ...
    def conjugate(self, q: Tensor) -> Tensor: ...


class Separable(Base, Protocol):
    """``F*(p) = sum_z phi(p_z)`` on the simplex: ``p_z = density(v_z - lambda)``, increasing."""

    def density(self, s: Tensor) -> tuple[Tensor, Tensor]: ...
    def density_range(self, K: int) -> tuple[float, float]: ...
    def curvature(self, p: Tensor) -> Tensor: ...
    def phi(self, p: Tensor) -> Tensor: ...


class SqueezedLike(Protocol):
    k: float
    alpha: float

    @property
    def base(self) -> Base: ...

    def _value(self, v: Tensor) -> Tensor: ...


def is_separable(base: object) -> TypeGuard[Separable]:
    """Whether the nested-root solver applies to this base potential."""
    return hasattr(base, "density") and getattr(base, "domain", "") == "simplex"


class Penalty:
    """psi(x) = k/2 |x|^alpha with its derivative u = psi'(x), the inverse x = g(u) of that, and its curvature."""

    def __init__(self, k: float, alpha: float) -> None:
        self.k, self.alpha = k, alpha
        self.slope = k * alpha / 2

    def value(self, x: Tensor) -> Tensor:
        return self.k / 2 * (x.square() if self.alpha == 2 else x.abs().pow(self.alpha))

    def derivative(self, x: Tensor) -> Tensor:
        if self.alpha == 2:
            return self.slope * x
        return self.slope * x.sign() * x.abs().pow(self.alpha - 1)

    def inverse(self, u: Tensor) -> Tensor:
        if self.alpha == 2:
            return u / self.slope
        return u.sign() * (u.abs() / self.slope).pow(1 / (self.alpha - 1))

    def inverse_slope(self, u: Tensor) -> Tensor:
        return (u.abs() / self.slope).pow(1 / (self.alpha - 1) - 1) / (self.slope * (self.alpha - 1))

    def curvature(self, x: Tensor) -> Tensor:
        return self.slope * (self.alpha - 1) * x.abs().clamp_min(1e-300).pow(self.alpha - 2)

    def balanced(self, u: Tensor, count: Tensor) -> Tensor:
        """u shifted by the constant that makes the scores g(u) sum to zero."""
        # the root is sought relative to the largest u, whose rounding is all that u knows of its own shift
        offset = 2 * u.abs().amax(-1, keepdim=True)

        def total(x: Tensor) -> tuple[Tensor, Tensor]:
            shifted = u + (x - offset)
            return _sum(count * self.inverse(shifted)), _sum(count * self.inverse_slope(shifted))

        low, high = offset - u.amax(-1, keepdim=True), offset - u.amin(-1, keepdim=True)
        shifted = u + (increasing_root(total, low, high) - offset)
        if self.alpha <= 2:
            return shifted
        # Beyond alpha = 2 a score near zero is a high root of its u, whose rounding is then visible: that score itself
        # becomes the unknown.
        near = shifted.abs().argmin(-1, keepdim=True)
        apart = u - u.gather(-1, near)

        def again(x: Tensor) -> tuple[Tensor, Tensor]:
            return _sum(count * self.inverse(apart + self.derivative(x))), torch.full_like(x, math.nan)

        reach = self.inverse(2 * self.slope * 1e-300 + 1e-14 * offset + 2 * shifted.abs().gather(-1, near))
        return apart + self.derivative(increasing_root(again, -reach, reach))

    def gap(self, v: Tensor, w: Tensor) -> Tensor:
        """psi(v) + psi*(w) - v w >= 0, elementwise: zero iff w = psi'(v)."""
        x = self.inverse(w)
        return self.value(v) - self.value(x) + (x - v) * w


def _sum(x: Tensor) -> Tensor:
    return x.sum(-1, keepdim=True)


def distinct(q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct entries of each row with their counts, and where each entry went; equal entries get equal scores."""
    order = torch.sort(q, dim=-1)
    fresh = torch.ones_like(q, dtype=torch.bool)
    fresh[:, 1:] = order.values[:, 1:] != order.values[:, :-1]
    group = fresh.cumsum(-1) - 1  # position of each sorted entry among the distinct ones
    width = int(group.max()) + 1
    values = torch.zeros(len(q), width, dtype=q.dtype).scatter(1, group, order.values)
    count = torch.zeros(len(q), width, dtype=q.dtype).scatter_add(1, group, torch.ones_like(q))
    # unused slots repeat the row's largest value with count zero, which leaves all sums alone
    values = torch.where(count > 0, values, q.amax(-1, keepdim=True))
    index = torch.empty_like(order.indices).scatter(1, order.indices, group)
    return values, count, index


class Counted:
    """A separable potential seen through distinct scores and their counts: two values cost two numbers, not K."""

    def __init__(self, base: Separable, count: Tensor) -> None:
        self.base, self.count = base, count
        self.curvature = base.curvature
        self.ends = base.density_range(int(count[0].sum()))

    def _link(self, v: Tensor) -> Tensor:
        """``p = density(v - lambda)`` with lambda such that the counted p sum to one."""
        top = v.amax(-1, keepdim=True)
        x = v - top

        def missing(lam: Tensor) -> tuple[Tensor, Tensor]:
            p, slope = self.base.density(x - lam)
            return 1 - _sum(self.count * p), _sum(self.count * slope)

        low, high = sorted(-e for e in self.ends)
        p = self.base.density(x - increasing_root(missing, torch.full_like(top, low), torch.full_like(top, high)))[0]
        return p / _sum(self.count * p)

    def _value(self, v: Tensor) -> Tensor:
        p, top = self._link(v), v.amax(-1)
        return (self.count * (p * (v - top[:, None]) - self.base.phi(p))).sum(-1) + top


def newton(F: SqueezedLike, q: Tensor) -> tuple[Tensor, Tensor]:
    """Damped Newton steps on ``F(v) + psi(v) - <q, v>``, sum v = 0; returns v and the relative duality gap.

    Below alpha = 2 psi has infinite curvature at zero, so there the steps are taken in ``u = psi'(v)``, where all is
    smooth: the direction is the same, ``E dv = du``. The gap, ``psi(v) + psi*(q + t - p) - <v, q + t - p>`` with
    p = grad F(v), bounds the error of the objective rigorously, however the iteration went.
    """
    if is_separable(F.base):
        values, count, index = distinct(q)
        if values.shape[-1] <= q.shape[-1] // 4:
            v, gap = _newton(Counted(F.base, count), F.k, F.alpha, values, count)
            return v.gather(-1, index), gap
    return _newton(F.base, F.k, F.alpha, q, torch.ones_like(q))


class Quadratic:
    """``F(v) = c/2 ||v||^2``, one c (B, 1) per row."""

    domain = "affine"

    def __init__(self, c: Tensor) -> None:
        self.c = c

    def _value(self, v: Tensor) -> Tensor:
        return self.c[:, 0] / 2 * v.square().sum(-1)

    def _link(self, v: Tensor) -> Tensor:
        return self.c * v


def in_ball(k: float, alpha: float, q: Tensor) -> Tensor:
    """The minimiser for the affine spherical potential, ``F(v) = 1 - sqrt((1 - ||v||^2)/K)``, when plain steps fail.

    They crawl along the surface of the ball. But grad F = c v with ``c = 1/sqrt(K (1 - ||v||^2))``: for a given c the
    problem is quadratic, its solution v(c) shrinks as c grows, and the right c is the root of an increasing function.
    """
    K = q.shape[-1]
    size = q.square().sum(-1, keepdim=True)

    def solve(c: Tensor) -> Tensor:
        return _newton(Quadratic(c), k, alpha, q, torch.ones_like(q))[0]

    def excess(c: Tensor) -> tuple[Tensor, Tensor]:
        room = 1 - 1 / (K * c.square()) - solve(c).square().sum(-1, keepdim=True)
        return room, torch.full_like(c, math.nan)  # no derivative: bisection

    return solve(increasing_root(excess, torch.full_like(size, K**-0.5), 1 + (1 + size).sqrt()))


def _newton(
    base: Base | Counted | Quadratic, k: float, alpha: float, q: Tensor, count: Tensor
) -> tuple[Tensor, Tensor]:
    penalty = Penalty(k, alpha)
    squeezed, dual = k > 0, k > 0 and alpha < 2
    scale = 1 + q.abs().amax(-1, keepdim=True)
    K = _sum(count)

    def centred(x: Tensor) -> Tensor:
        return x - _sum(count * x) / K

    def objective(x: Tensor) -> Tensor:
        return base._value(x) + (count * ((penalty.value(x) if squeezed else 0.0) - q * x)).sum(-1)

    v = 1e-2 * centred(q) / scale
    u = penalty.derivative(v) if squeezed else torch.zeros_like(v)
    if dual:
        u = penalty.balanced(u, count)
        v = penalty.inverse(u)
    elif squeezed:  # psi is flat at zero: start where it alone would put v, inside the domain of F
        v = centred(penalty.inverse(centred(q)))
        for _ in range(60):
            outside = ~torch.isfinite(objective(v))
            if not bool(outside.any()):
                break
            v = torch.where(outside[:, None], v / 2, v)
        u = penalty.derivative(v)
    start = objective(v)
    before, stuck = torch.full_like(start, math.inf), torch.zeros_like(start, dtype=torch.bool)
    for _ in range(100):
        p, hessian, solve = _linearised(base, penalty if squeezed else None, v, u, count)
        residual = centred(p + u - q)
        along, flat = solve(-residual), solve(torch.ones_like(v))
        mu = -_sum(count * along) / _sum(count * flat)
        step = along + mu * flat
        fall = -(count * residual * step).sum(-1)
        size = 1 + start.abs()
        stalled = (fall <= 1e-18 * size) & (fall > 0.1 * before)  # rounding is all that is left
        done = (residual.abs() <= 1e-15 * scale).all(-1) | (fall <= 1e-30 * size) | stalled | stuck | fall.isnan()
        if bool(done.all()):
            break
        before = fall
        # E dv = du; where E is infinite the equation itself gives du
        du = torch.where(v == 0, mu - residual - hessian(step), penalty.curvature(v) * step) if dual else None
        length = torch.where(done, 0.0, 1.0).to(v.dtype)
        for _ in range(20 if dual else 40):
            if du is not None:
                u_new = penalty.balanced(u + length[:, None] * du, count)
                moved = penalty.inverse(u_new)
            else:
                moved = centred(v + length[:, None] * step)
            value = objective(moved)
            # rounding must not stop the last steps, which change the objective by less than its last digit
            good = value <= start - 1e-4 * length * fall + 1e-14 * size
            if not dual:  # nor may a step run far up the other side, to the edge of F's domain
                slope = base._link(moved) + (penalty.derivative(moved) if squeezed else 0.0) - q
                good &= (count * slope * step).sum(-1) <= 0.9 * fall + 1e-14 * size
            if bool((good | done).all()):
                break
            length = torch.where(good, length, length / 2)
        stuck = stuck | ~good  # no descent along a descent direction: beyond floating point
        take = (good & ~done)[:, None]
        v, start = torch.where(take, moved, v), torch.where(take[:, 0], value, start)
        u = torch.where(take, u_new if dual else penalty.derivative(moved) if squeezed else u, u)
    p = base._link(v)
    gap = (q - p).abs().amax(-1)
    if squeezed:
        gap = (count * penalty.gap(v, penalty.balanced(q - p, count))).sum(-1)
    return v, gap / (1 + start.abs() + (count * q * v).sum(-1).abs())


def _linearised(
    base: Base | Counted | Quadratic, penalty: Penalty | None, v: Tensor, u: Tensor, count: Tensor
) -> tuple[Tensor, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """grad F, the product with H = Hessian of F, and the solution of ``(H + E) x = y``, E the penalty's curvature.

    In O(K) where F is separable, ``H = diag(s) - s s^T / sum s`` (Sherman-Morrison). Below alpha = 2, E is infinite at
    zero and the solution is written with G = 1/E.
    """
    dual = penalty is not None and penalty.alpha < 2
    E = torch.zeros_like(v) if penalty is None else penalty.curvature(v)
    G = penalty.inverse_slope(u) if penalty is not None and dual else torch.ones_like(v)
    if isinstance(base, Counted) or is_separable(base):
        p = base._link(v)
        s = base.curvature(p)
        total = _sum(count * s).clamp_min(1e-300)
        inverse = G / (1 + s * G) if dual else 1 / (s + E).clamp_min(1e-14)
        through = _sum(count * (s / (1 + s * G) if dual else s * E * inverse)).clamp_min(1e-300)

        def product(x: Tensor) -> Tensor:
            return s * (x - _sum(count * s * x) / total)

        def solve(y: Tensor) -> Tensor:
            x = inverse * y
            return x + inverse * s * (_sum(count * s * x) / through)

        return p, product, solve
    p, H = derivatives(base._value, v)
    eye = torch.eye(v.shape[-1], dtype=v.dtype)
    if dual:
        W = G.sqrt()
        A = eye + W[:, :, None] * H * W[:, None, :]
        return p, lambda x: (H @ x[..., None])[..., 0], lambda y: W * torch.linalg.solve_ex(A, W * y)[0]
    # F is flat along (1, ..., 1), on which nothing depends; the ridge is for penalties that are flat at zero
    A = H + torch.diag_embed(E) + 1 / v.shape[-1]
    A = A + 1e-14 * A.diagonal(dim1=-2, dim2=-1).amax(-1)[:, None, None] * eye
    return p, lambda x: (H @ x[..., None])[..., 0], lambda y: torch.linalg.solve_ex(A, y)[0]


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
