"""Newton's method for squeezed potentials, with a duality gap that says whether it succeeded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeGuard

import torch
from torch import Tensor

from .._core import increasing_root, warm_root


class Base(Protocol):
    """What Newton's method asks of the potential under the squeezing."""

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
    """What it asks of the squeezed potential."""

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
        shifted = u + (warm_root(total, low, high, offset) - offset)
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


def centred(x: Tensor, count: Tensor) -> Tensor:
    """x - mean(x), with counts."""
    return x - _sum(count * x) / _sum(count)


def distinct(q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct entries of each row with their counts, and where each entry went; equal entries get equal scores."""
    order = torch.sort(q, dim=-1)
    fresh = torch.ones_like(q, dtype=torch.bool)
    fresh[:, 1:] = order.values[:, 1:] != order.values[:, :-1]
    group = fresh.cumsum(-1) - 1  # position of each sorted entry among the distinct ones
    width = int(group.max()) + 1
    values = q.new_zeros(len(q), width).scatter(1, group, order.values)
    count = q.new_zeros(len(q), width).scatter_add(1, group, torch.ones_like(q))
    # unused slots repeat the row's largest value with count zero, which leaves all sums alone
    values = torch.where(count > 0, values, q.amax(-1, keepdim=True))
    index = torch.empty_like(order.indices).scatter(1, order.indices, group)
    return values, count, index


class Counted:
    """A separable potential seen through distinct scores and their counts: two values cost two numbers, not K."""

    def __init__(self, base: Separable, count: Tensor) -> None:
        self.base, self.count = base, count
        self.curvature, self.scores = base.curvature, base._inverse_link
        low, high = sorted(-e for e in base.density_range(int(count[0].sum())))
        self.ends = torch.full_like(count[:, :1], low), torch.full_like(count[:, :1], high)
        self.last = self.ends[0]  # lambda of the scores seen last, near which the next ones are
        # a Tsallis link is a root in any case, better sought from where the last one was
        self.closed_form = bool((count == 1).all()) and not hasattr(base, "maximiser")

    def _link(self, v: Tensor) -> Tensor:
        """``p = density(v - lambda)`` with lambda such that the counted p sum to one."""
        if self.closed_form:
            return self.base._link(v)
        x = v - v.amax(-1, keepdim=True)

        def missing(lam: Tensor) -> tuple[Tensor, Tensor]:
            p, slope = self.base.density(x - lam)
            return 1 - _sum(self.count * p), _sum(self.count * slope)

        self.last = warm_root(missing, *self.ends, self.last)
        p = self.base.density(x - self.last)[0]
        return p / _sum(self.count * p)

    def _value(self, v: Tensor) -> Tensor:
        p, top = self._link(v), v.amax(-1)
        return (self.count * p * (v - top[:, None])).sum(-1) - self.conjugate(p) + top

    def conjugate(self, p: Tensor) -> Tensor:
        """F*(p)"""
        return (self.count * self.base.phi(p)).sum(-1)


class Sphere:
    """The spherical potential on the simplex, ``F(v) = 1 + tau``, ``p = c (v - tau)_+``, c = ||p||, with counts.

    On the n entries of the support its Hessian is ``c (I - 1 1^T / n) + b b^T``, ``b = sqrt(c n) (p - 1/n)``: that of a
    sum over the simplex, and one direction b more.
    """

    def __init__(self, count: Tensor) -> None:
        self.count = count

    def _above(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """tau and ``(v - tau)_+``, whose counted squares sum to one: a quadratic for each support, by sorting."""
        top = v.amax(-1, keepdim=True)
        x, order = torch.sort(v - top, dim=-1, descending=True)
        count = self.count.gather(-1, order)
        n = count.cumsum(-1).clamp_min(1)
        mean = (count * x).cumsum(-1) / n
        room = (1 / n - ((count * x.square()).cumsum(-1) / n - mean.square()).clamp_min(0)).clamp_min(0)
        tau = mean - room.sqrt()
        # tau >= top - 1: entries further down are out, whatever the rounding of their long cumulative sums says
        support = ((x > tau) & (room > 0) & (x > -1)).sum(-1, keepdim=True).clamp_min(1)
        tau = tau.gather(-1, support - 1)
        return tau + top, torch.relu(v - top - tau)

    def _value(self, v: Tensor) -> Tensor:
        return 1 + self._above(v)[0][:, 0]

    def _link(self, v: Tensor) -> Tensor:
        above = self._above(v)[1]
        return above / _sum(self.count * above)

    def conjugate(self, p: Tensor) -> Tensor:
        """F*(p)"""
        return (self.count * p.square()).sum(-1).sqrt() - 1

    def scores(self, p: Tensor) -> Tensor:
        """The inverse link, up to a constant."""
        return p / _sum(self.count * p.square()).sqrt()

    def curvature(self, p: Tensor) -> Tensor:
        """c on the support."""
        return _sum(self.count * p.square()).sqrt() * (p > 0)

    def bend(self, p: Tensor) -> Tensor:
        """b on the support."""
        s = self.curvature(p)
        n = _sum(self.count * (p > 0))
        return (s * n).sqrt() * (p - 1 / n)


def counted(base: Base, count: Tensor) -> Counted | Sphere:
    """A potential on the simplex that is known by its formula, with counts."""
    return Counted(base, count) if is_separable(base) else Sphere(count)


def in_ball(k: float, alpha: float, q: Tensor) -> Tensor:
    """The minimiser for the affine spherical potential, ``F(v) = 1 - sqrt((1 - ||v||^2)/K)``: three nested roots.

    Plain steps crawl along the surface of the ball. But grad F = c v with ``c = 1/sqrt(K (1 - ||v||^2))``: for a given
    c and t each score solves ``c v + psi'(v) = q + t`` alone, v grows with t, and ||v|| shrinks as c grows.
    """
    values, count, index = distinct(q)
    penalty, K = Penalty(k, alpha), q.shape[-1]
    v = torch.zeros_like(values)
    t = -q.mean(-1, keepdim=True)

    def inverse_slope(c: Tensor) -> Tensor:
        """dv/dt"""
        return 1 / (c + penalty.curvature(v))

    def scores(c: Tensor, t: Tensor) -> Tensor:
        y = values + t

        def balance(x: Tensor) -> tuple[Tensor, Tensor]:
            return c * x + penalty.derivative(x) - y.abs(), c + penalty.curvature(x)

        # one of the two terms is at least half of y, and neither is more
        low = torch.minimum(y.abs() / (2 * c), penalty.inverse(y.abs() / 2))
        high = torch.minimum(y.abs() / c, penalty.inverse(y.abs()))
        return y.sign() * warm_root(balance, low, high, torch.where(v * y > 0, v.abs(), high))

    def spread(c: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal v, t

        def total(x: Tensor) -> tuple[Tensor, Tensor]:
            nonlocal v
            v = scores(c, x)
            return _sum(count * v), _sum(count * inverse_slope(c))

        t = warm_root(total, -values.amax(-1, keepdim=True), -values.amin(-1, keepdim=True), t, tol=2e-14)
        v = scores(c, t)
        a = inverse_slope(c)
        moves = (_sum(count * v * a) / _sum(count * a) - v) * a  # dv/dc
        room = 1 - 1 / (K * c.square())
        return room - _sum(count * v.square()), 2 / (K * c**3) - 2 * _sum(count * v * moves)

    low = torch.full_like(t, K**-0.5)
    high = 1 + (1 + q.square().sum(-1, keepdim=True)).sqrt()
    spread(warm_root(spread, low, high, q.square().sum(-1, keepdim=True).sqrt(), tol=2e-13))
    norm = _sum(count * v.square()).sqrt()
    return torch.where(norm < 1, v, v * (1 - 1e-15) / norm).gather(-1, index)


def newton(
    base: Base | Counted | Sphere,
    k: float,
    alpha: float,
    q: Tensor,
    count: Tensor,
    better: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Damped Newton steps on ``F(v) + psi(v) - <q, v>``, sum v = 0; returns v and the relative duality gap.

    Below alpha = 2 psi has infinite curvature at zero, so there the steps are taken in ``u = psi'(v)``, where all is
    smooth: the direction is the same, ``E dv = du``. The gap, ``psi(v) + psi*(q + t - p) - <v, q + t - p>`` with
    p = grad F(v), bounds the error of the objective rigorously, however the iteration went; `_predicted_gap` often
    bounds it better. The steps begin at `better` where that is better than a small multiple of q.
    """
    penalty = Penalty(k, alpha)
    squeezed, dual = k > 0, k > 0 and alpha < 2
    scale = 1 + q.abs().amax(-1, keepdim=True)

    def objective(x: Tensor) -> Tensor:
        return base._value(x) + (count * ((penalty.value(x) if squeezed else 0.0) - q * x)).sum(-1)

    v = 1e-2 * centred(q, count) / scale
    u = penalty.derivative(v) if squeezed else torch.zeros_like(v)
    if dual:
        u = penalty.balanced(u, count)
        v = penalty.inverse(u)
    elif squeezed:  # psi is flat at zero: start where it alone would put v, inside the domain of F
        v = centred(penalty.inverse(centred(q, count)), count)
        for _ in range(60):
            outside = ~torch.isfinite(objective(v))
            if not bool(outside.any()):
                break
            v = torch.where(outside[:, None], v / 2, v)
        u = penalty.derivative(v)
    start = objective(v)
    if better is not None:
        value = objective(better)
        use = ((value < start) & (better != 0).any(-1))[:, None]  # at v = 0 all curvatures are infinite: no way out
        v, u = torch.where(use, better, v), torch.where(use, penalty.derivative(better), u)
        start = torch.where(use[:, 0], value, start)
    before, stuck = torch.full_like(start, math.inf), torch.zeros_like(start, dtype=torch.bool)
    for _ in range(100):
        p, hessian, solve = _linearised(base, penalty if squeezed else None, v, u, count)
        residual = centred(p + u - q, count)
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
                moved = centred(v + length[:, None] * step, count)
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
    v = centred(v, count)  # which the gap takes for granted
    p = base._link(v)
    gap = (q - p).abs().amax(-1)
    if squeezed:
        gap = (count * penalty.gap(v, penalty.balanced(q - p, count))).sum(-1)
        if isinstance(base, Counted | Sphere):
            gap = torch.fmin(gap, _predicted_gap(base, penalty, v, u, q, count))
    return v, gap / (1 + start.abs() + (count * q * v).sum(-1).abs())


def _predicted_gap(base: Counted | Sphere, penalty: Penalty, v: Tensor, u: Tensor, q: Tensor, count: Tensor) -> Tensor:
    """The duality gap of v with the p that one more Newton step would reach.

    ``F(v) + F*(p) - <p, v>  +  sum psi(v) + psi*(w) - v w``, w = q + t - p, bounds the error for any p of the simplex.
    At scores of 1e8 the gradient p = grad F(v) is known to 1e-8 only, and psi*'' is large: that p will not do. On the
    support of p the equation ``p = q + t - psi'(v)`` knows it to rounding; off it, the gradient does.
    """
    p, hessian, solve = _linearised(base, penalty, v, u, count)
    residual = centred(p + u - q, count)
    along, flat = solve(-residual), solve(torch.ones_like(v))
    mu = -_sum(count * along) / _sum(count * flat)
    step = along + mu * flat
    curved = penalty.curvature(v)
    by_penalty = base.curvature(p) > curved
    change = torch.where(by_penalty, mu - residual - curved * step, hessian(step))
    p = (p + change).clamp_min(0)
    p = p / _sum(count * p)
    top = v.amax(-1, keepdim=True)
    gap = base._value(v - top) + base.conjugate(p) - (count * p * (v - top)).sum(-1)
    return gap.clamp_min(0) + (count * penalty.gap(v, penalty.balanced(q - p, count))).sum(-1)


def _linearised(
    base: Base | Counted | Sphere, penalty: Penalty | None, v: Tensor, u: Tensor, count: Tensor
) -> tuple[Tensor, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """grad F, the product with H = Hessian of F, and the solution of ``(H + E) x = y``, E the penalty's curvature.

    In O(K) where F is separable, ``H = diag(s) - s s^T / sum s`` (Sherman-Morrison), or that and ``b b^T``. Below
    alpha = 2, E is infinite at zero and the solution is written with G = 1/E.
    """
    dual = penalty is not None and penalty.alpha < 2
    E = torch.zeros_like(v) if penalty is None else penalty.curvature(v)
    G = penalty.inverse_slope(u) if penalty is not None and dual else torch.ones_like(v)
    if isinstance(base, Counted | Sphere):
        p = base._link(v)
        s = base.curvature(p)
        total = _sum(count * s).clamp_min(1e-300)
        inverse = G / (1 + s * G) if dual else 1 / (s + E).clamp_min(1e-14)
        left = 1 / (1 + s * G) if dual else E * inverse  # 1 - s * inverse, which keeps its digits
        through = _sum(count * s * left).clamp_min(1e-300)

        def product(x: Tensor) -> Tensor:
            return s * (x - _sum(count * s * x) / total)

        def solve(y: Tensor) -> Tensor:
            x = inverse * y
            return x + inverse * s * (_sum(count * s * x) / through)

        if not isinstance(base, Sphere):
            return p, product, solve
        b = base.bend(p)
        down = -_sum(count * b * left)  # sum s inverse b, as b sums to zero
        bent = inverse * (b + s * (down / through))
        room = 1 + _sum(count * b.square() * inverse) + down.square() / through

        def bent_product(x: Tensor) -> Tensor:
            x = x - _sum(count * s * x) / total
            return s * x + b * _sum(count * b * x)

        return p, bent_product, lambda y: solve(y) - bent * (_sum(count * bent * y) / room)
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
