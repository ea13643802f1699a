"""Conjugates and inverse links of squeezed potentials.

The conjugate of ``F'(v) = F(v) + sum_z psi(v_z)``, psi(x) = k/2 |x|^alpha, is an infimal convolution,

    F'*(q) = min over t and p of  F*(p) + sum_z psi*(q_z + t - p_z),

with t the multiplier of sum v = 0. Where F* is a sum over the simplex (log-sum-exp, Tsallis, sparsemax, Brier), each
coordinate solves one increasing scalar equation given t and lambda, the multiplier of sum p = 1; both multipliers
are roots of increasing functions too. Three nested bracketed roots give v to rounding at any k, alpha > 1 and q,
including alpha -> 1 where v reaches 1e18. Newton's method is tried first, being a hundred times faster; a duality gap
says whether it succeeded. For other F there is Newton's method alone, and the ellipsoid method where F has kinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from .._core import centre, centred_solve, critical_k_of, increasing_root, simplex_threshold
from ..errors import InputError
from .counted import Counted, Grouped, Penalty, centred, distinct, is_separable, settled
from .kinks import MOST_CLASSES, ellipsoid_minimiser
from .nested import nested_roots
from .newton import derivatives, newton, polished

if TYPE_CHECKING:  # `base` imports the solvers
    from .base import Potential, Separable, Squeezed

NOTHING = Penalty(0.0, 2.0)
GAP_TOL = 1e-13  # relative duality gap at which a conjugate counts as found
MISSED = 1e-6  # of a probability, by an inverse link
LARGEST = 700.0  # logarithm of what a float may hold, with room for sums over classes
ENOUGH = 1e-9  # and at which it is taken when no method comes nearer
MOST_DERIVATIVES = 1 << 27  # second derivatives held at a time: 1 GiB


class NotComputedError(RuntimeError):
    """A conjugate that exists but that no method here computes: a kink beside another squeezing, or an F too wild."""


def squeezed_conjugate(F: Squeezed, q: Tensor) -> Tensor:
    """F'*(q), ``inf`` where it is; its gradient with respect to q is the maximiser v (envelope theorem)."""
    _refuse_kinks(F)
    flat = q.reshape(-1, q.shape[-1]).double()
    if F.alpha == 1:
        value = _box_conjugate(F, flat)
    elif F.alpha < 1:
        value = _nonconvex_conjugate(F, flat)
    elif not bool((beyond := _beyond_floats(F, flat.detach())).any()):
        v, value = _maximum(F, flat.detach())
        if q.requires_grad:  # the step is zero, its derivative is not: second derivatives in q come out right
            v = v + newton_step(F.base, Penalty(F.k, F.alpha), v, flat)
            value = _attained(F, flat, v)
    else:
        value = torch.full_like(flat[:, 0], math.inf)
        if not bool(beyond.all()):
            value = value.masked_scatter(~beyond, squeezed_conjugate(F, flat[~beyond]))
    return value.reshape(q.shape[:-1]).to(q.dtype)


def _beyond_floats(F: Squeezed, q: Tensor) -> Tensor:
    """Whether F'*(q) is larger than any float holds, or its maximiser is: near alpha = 1, where it is finite in theory.

    Where it is that large, F is as good as max v, and ``F'*(q) = sum psi*(w)``; see `_as_if_max`.
    """
    if F.base.domain != "simplex" or F.alpha > 1.5 or len(q) == 0:
        return torch.zeros(len(q), dtype=torch.bool)
    penalty = Penalty(F.k, F.alpha)
    w = _as_if_max(penalty, q, torch.ones_like(q))[2]
    power = F.alpha / (F.alpha - 1)  # psi*(w) = k (alpha - 1) / 2 (w / slope)^power
    largest = power * (w.abs().amax(-1) / penalty.slope).log() + math.log(F.k * (F.alpha - 1) / 2)
    return largest > LARGEST


def squeezed_inverse_link(F: Squeezed, p: Tensor) -> Tensor:
    """The centred v that minimises ``F'(v) - <p, v>``; differentiable once in p through one Newton step."""
    if F.alpha < 1:
        raise InputError(f"alpha: expected alpha >= 1 for an inverse link, got {F.alpha:g}, where F is not convex")
    _refuse_kinks(F)
    flat = p.reshape(-1, p.shape[-1]).double()
    if F.alpha == 1:  # v = 0 for many p: nothing to differentiate
        with torch.no_grad():
            v = _box_minimiser(F, flat, *_most_uniform(F, flat)) if F.base.symmetric else _split_minimiser(F, flat)
    else:
        v = _maximum(F, flat.detach())[0]
        if F.alpha < 1.5 and F.base.differentiable:  # at a kink the link is any of many, and no equation holds
            v = _polished(F, flat.detach(), v)
        if p.requires_grad:
            v = v + newton_step(F.base, Penalty(F.k, F.alpha), v, flat)
    return v.reshape(p.shape).to(p.dtype)


def _polished(F: Squeezed, p: Tensor, v: Tensor) -> Tensor:
    """The inverse link by its own equation: near alpha = 1 a maximum knows few digits of where it is."""
    missed = (F._link(v) - p).abs().amax(-1)
    if bool((rest := missed > 1e-10).any()):
        q, count, penalty = p[rest], torch.ones_like(p[rest]), Penalty(F.k, F.alpha)
        at, left = polished(Counted(F.base, count) if is_separable(F.base) else F.base, penalty, q, count, v[rest])
        # the largest score takes what is left of the sum, which is the rounding of its own
        at = at.scatter_add(-1, at.abs().argmax(-1, keepdim=True), -at.sum(-1, keepdim=True))
        v = v.masked_scatter(rest[:, None], torch.where((left < missed[rest])[:, None], at, v[rest]))
        missed = (F._link(v) - p).abs().amax(-1)
        rounding = 8 * torch.finfo(v.dtype).eps * v.abs().amax(-1)  # of large scores: no float is nearer
        if bool((missed > MISSED + rounding).any()):
            raise NotComputedError(
                f"inverse_link: numerical, not computed for {F.name}: near alpha = 1 some scores are smaller than "
                f"floats are, and probabilities would be missed by {float(missed.max()):.2g}; take alpha >= 1.02, or 1"
            )
    return v


def _refuse_kinks(F: Squeezed) -> None:
    """A kink beside another squeezing has no solver here."""
    inner = getattr(F.base, "alpha", None)  # of a base that is squeezed itself, with another alpha
    if inner == 1 or (inner is not None and F.alpha == 1):
        raise NotComputedError(
            f"conjugate: numerical, not computed for {F.name}; squeeze once, or twice with exponents above 1"
        )


def _maximum(F: Squeezed, q: Tensor) -> tuple[Tensor, Tensor]:
    """The centred v that minimises ``F'(v) - <q, v>``, q (B, K), and F'*(q)."""
    if len(q) == 0:
        return q, q.sum(-1)
    penalty = Penalty(F.k, F.alpha)
    if is_separable(F.base):
        return _separable_maximum(F, F.base, penalty, q)
    v = _unknown(F, penalty, q)
    return v, _attained(F, q, v)


def _attained(F: Squeezed, q: Tensor, v: Tensor) -> Tensor:
    return (q * v).sum(-1) - F._value(v)


def _separable_maximum(F: Squeezed, base: Separable, penalty: Penalty, q: Tensor) -> tuple[Tensor, Tensor]:
    """`_maximum` where F* is a sum over the simplex: each attempt says how well it did.

    Where scores reach 1e15 (alpha near 1, small k) F is as good as max v. Below that Newton's method starts from there,
    with the ties at the top moved apart as F wants them; then from a small multiple of q. What is still open is found
    by nested roots, which cannot fail; where the density is steep, Newton's method would.
    """
    values, count, index = distinct(q)
    if values.shape[-1] > q.shape[-1] // 4:  # little to be saved
        values, count, index = q, torch.ones_like(q), torch.arange(q.shape[-1], device=q.device).expand_as(q)
    seen = Counted(base, count)
    v, p, w = _as_if_max(penalty, values, count)
    if not base.differentiable:
        v = v.gather(-1, index)
        return v, _attained(F, q, v)
    gap = _limit_gap(seen._value(v), seen.conjugate(p), penalty, v, p, w, count)
    floor = p.clamp_min(1e-9)
    apart = base._inverse_link(floor / (count * floor).sum(-1, keepdim=True))
    apart = centred(v + torch.where(p > 0, apart - apart.amax(-1, keepdim=True), 0.0), count)
    for start in () if base.steep else (apart, torch.zeros_like(v)):

        def attempt(rows: Tensor, start: Tensor = start) -> tuple[Tensor, Tensor]:
            # where Newton's method works it takes a dozen evaluations; elsewhere it takes thousands
            return newton(Counted(base, count[rows]), penalty, values[rows], count[rows], start[rows], budget=60)

        _improve(v, gap, attempt)
    v = settled(v, count)
    value = (count * (values * v - penalty.value(v))).sum(-1) - seen._value(v)
    v = v.gather(-1, index)
    if bool((rest := ~(gap <= GAP_TOL)).any()):
        v[rest] = nested_roots(base, penalty, q[rest])
        value[rest] = _attained(F, q[rest], v[rest])
    return v, value


def _improve(
    v: Tensor, gap: Tensor, attempt: Callable[[Tensor], tuple[Tensor, Tensor]], enough: float = GAP_TOL
) -> None:
    """Another attempt at the rows that are still open: kept, in place, where its gap is smaller."""
    if bool((rest := ~(gap <= enough)).any()):
        other, size = attempt(rest)
        better = ~(size >= gap[rest])
        v[rest] = torch.where(better[:, None], other, v[rest])
        gap[rest] = torch.where(better, size, gap[rest])


def _unknown(F: Squeezed, penalty: Penalty, q: Tensor) -> Tensor:
    """The minimiser for a potential about which nothing is known, by its second derivatives (B, K, K).

    Most treat classes alike, so that equal targets have equal scores: these are tried first, and the gap of all K
    scores says whether it was so.
    """
    v, gap, ones = q.clone(), torch.full_like(q[:, 0], math.inf), torch.ones_like(q)
    values, count, index = distinct(q)

    def by_groups(rows: Tensor) -> tuple[Tensor, Tensor]:
        x = newton(Grouped(F.base, index[rows]), penalty, values[rows], count[rows])[0]
        return newton(F.base, penalty, q[rows], ones[rows], x.gather(-1, index[rows]), budget=0)

    def by_newton(rows: Tensor) -> tuple[Tensor, Tensor]:
        targets = q[rows]
        if targets.numel() * q.shape[-1] > MOST_DERIVATIVES:
            raise NotComputedError(
                f"conjugate: numerical, not computed for {F.name} at {len(targets)} targets of {q.shape[-1]} classes, "
                f"whose second derivatives take {targets.numel() * q.shape[-1] / 2**27:.0f} GiB"
            )
        return newton(F.base, penalty, targets, ones[rows])

    def by_limit(rows: Tensor) -> tuple[Tensor, Tensor]:
        v, p, w = _as_if_max(penalty, q[rows], ones[rows])
        return v, _limit_gap(F.base._value(v), F.base._conjugate(p), penalty, v, p, w, ones[rows])

    def by_cuts(rows: Tensor) -> tuple[Tensor, Tensor]:
        return ellipsoid_minimiser(F._value, q[rows], v[rows])

    attempts = [by_newton] if F.base.domain == "affine" else [by_newton, by_limit]
    # scores are often that large below alpha = 1.5; elsewhere Newton's method is the safer bet
    attempts = attempts[::-1] if F.alpha < 1.5 else attempts
    few = [by_groups] if values.shape[-1] <= q.shape[-1] // 4 else []
    for attempt in [*few, *attempts, by_cuts]:
        _improve(v, gap, attempt, ENOUGH if attempt is by_cuts else GAP_TOL)
    return _settled(F.name, v, gap)


def _as_if_max(penalty: Penalty, q: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The maximiser v for F = max v, with p and ``w = q + t - p``: p is the projection of q, whatever psi is.

    Every F whose conjugate lives on the simplex is max v up to a constant, so this is nearly its maximiser when large.
    """
    top = q.amax(-1, keepdim=True)
    tau = simplex_threshold(q - top, count)
    inside = (q >= 0).all(-1, keepdim=True)
    # q - p = min(q, tau): written so, equal entries stay equal to the last bit
    w = penalty.balanced(torch.where(inside, 0.0, torch.minimum(q, tau + top)), count)
    p = torch.where(inside, q, torch.relu(q - top - tau))
    return settled(torch.where(inside, 0.0, penalty.inverse(w)), count), p / (count * p).sum(-1, keepdim=True), w


def _limit_gap(
    value: Tensor, conjugate: Tensor, penalty: Penalty, v: Tensor, p: Tensor, w: Tensor, count: Tensor
) -> Tensor:
    """How far `_as_if_max` is from optimal for F: the duality gap relative to what is added up.

    ``F(v) + F*(p) - <p, v>  +  sum psi(v) + psi*(w) - v w``
    """
    gap = value + conjugate - (count * p * v).sum(-1) + (count * penalty.gap(v, w)).sum(-1)
    return gap / (1 + value.abs() + (count * penalty.value(v)).sum(-1) + (count * (w + p) * v).sum(-1).abs())


def newton_minimiser(F: Potential, q: Tensor) -> Tensor:
    """The centred v that minimises ``F(v) - <q, v>``, differentiable in q, for an F about which nothing is known."""
    fixed = q.detach()
    v, gap = newton(F, NOTHING, fixed, torch.ones_like(q))
    smooth = gap <= ENOUGH
    _improve(v, gap, lambda rows: ellipsoid_minimiser(F._value, fixed[rows], v[rows]), ENOUGH)
    _settled(F.name, v, gap)
    if q.requires_grad and bool(smooth.any()):  # at a kink v stays where it is when q moves
        v = v.index_put((smooth,), v[smooth] + newton_step(F, NOTHING, v[smooth], q[smooth]))
    return v


def _settled(name: str, v: Tensor, gap: Tensor) -> Tensor:
    """v where it has been found, an error otherwise."""
    if bool((~(gap <= ENOUGH)).any()):
        worst = float(torch.where(gap.isnan(), math.inf, gap).max())
        raise NotComputedError(
            f"conjugate: numerical, not computed for {name}: the search stopped at a duality gap of {worst:.2g}; "
            f"is F convex? At kinks (of max, abs, relu) at most {MOST_CLASSES} classes, and scores to 1e4, are searched"
        )
    return v


def _most_uniform(F: Squeezed, q: Tensor) -> tuple[Tensor, Tensor]:
    """alpha = 1: the p nearest to uniform with ``range(q - p) <= k``, and which rows have one at all.

    F'*(q) is then F*(p). A potential that treats classes alike prefers, for a given offset a, the box-constrained p
    that is ``clip(mu, q - a - k, q - a)``. What remains is convex in the single number a, with the derivative
    ``sum phi'(mu) - phi'(p_z)`` over the entries that the box holds (by its multipliers): a root again.
    """
    base, k = F.base, F.k
    if base.domain == "simplex":
        floor = 0.0
        low = simplex_threshold(q) - k
        high = q.amin(-1, keepdim=True).clamp_max(0)
    else:
        floor = -math.inf
        low, high = torch.full_like(q[:, :1], -k), torch.zeros_like(q[:, :1])
    feasible = (low <= high + 1e-12 * (1 + high.abs()))[:, 0]
    out = torch.full_like(q, 1 / q.shape[-1])
    if not bool(feasible.any()):
        return out, feasible
    values, count, index = distinct(q[feasible])
    high = high[feasible]
    low = torch.minimum(low[feasible], high)

    def phi_slope(p: Tensor) -> Tensor:
        if not is_separable(base):
            return p  # the Brier and spherical potentials: F* grows with ||p||
        with torch.enable_grad():
            x = p.detach().requires_grad_()
            return torch.autograd.grad(base._phi(x).sum(), x)[0] if base.differentiable else p

    def best(a: Tensor) -> tuple[Tensor, Tensor]:
        bottom, top = (values - a - k).clamp_min(floor), values - a
        top = torch.maximum(top, bottom)

        def filled(mu: Tensor) -> tuple[Tensor, Tensor]:
            p = torch.clamp(mu.expand_as(values), bottom, top)
            inside = ((p > bottom) & (p < top)).to(p.dtype)
            return (count * p).sum(-1, keepdim=True) - 1, (count * inside).sum(-1, keepdim=True)

        mu = increasing_root(filled, bottom.amin(-1, keepdim=True), top.amax(-1, keepdim=True))
        p = torch.clamp(mu.expand_as(values), bottom, top)
        held = (count > 0) & (((p <= bottom) & (bottom > floor)) | (p >= top)) & (p != mu)
        pull = torch.where(held, phi_slope(mu) - phi_slope(p), 0.0)
        return p, (count * pull).sum(-1, keepdim=True)

    def slope(a: Tensor) -> tuple[Tensor, Tensor]:
        return best(a)[1], torch.full_like(a, math.nan)  # no second derivative: bisection

    out[feasible] = best(increasing_root(slope, low, high))[0].gather(-1, index)
    return out, feasible


def _box_minimiser(F: Squeezed, q: Tensor, p: Tensor, feasible: Tensor) -> Tensor:
    """The v that attains ``F'*(q) = F*(p)`` at alpha = 1, p the most uniform point of the simplex in q's box.

    It is the base's inverse link of p, unless p has zeros: there a base with a sparse link leaves scores open, and
    what q asks of them decides. Where v does not attain the value, it is searched for.
    """
    v = F.base._inverse_link(p)
    value = F.base._conjugate(p)
    short = feasible & (value - _attained(F, q, v) > 1e-9 * (1 + value.abs()))
    if bool(short.any()):
        v[short] = _split_minimiser(F, q[short])
    return v


def _box_conjugate(F: Squeezed, q: Tensor) -> Tensor:
    """alpha = 1: the value, and the maximiser v as its gradient where v exists."""
    with torch.no_grad():
        if F.base.symmetric:
            p, feasible = _most_uniform(F, q)
            value = torch.where(feasible, F.base._conjugate(p), math.inf)
            v = _box_minimiser(F, q, p, feasible) if q.requires_grad else None
        else:
            box = critical_k_of(q.numpy()) <= F.k + 1e-12
            feasible = torch.as_tensor(box if F.base.domain == "simplex" else np.ones_like(box))
            v = torch.zeros_like(q)
            v[feasible] = _split_minimiser(F, q[feasible])
            value = torch.where(feasible, _attained(F, q, v), math.inf)
    return value if v is None else value + ((q - q.detach()) * v).sum(-1)


def _split_minimiser(F: Squeezed, q: Tensor) -> Tensor:
    """alpha = 1 for any convex base: minimise over ``v = a - b``, a, b >= 0, where the penalty is k/2 sum(a + b)."""
    from scipy.optimize import minimize

    K = q.shape[-1]

    def solve(target: Tensor) -> Tensor:
        def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
            with torch.enable_grad():
                v = torch.as_tensor(x[:K] - x[K:]).requires_grad_()
                smooth = F.base._value(v[None])[0] - (target * v).sum()
                (g,) = torch.autograd.grad(smooth, v)
            return float(smooth.detach()) + F.k / 2 * float(x.sum()), np.concatenate([g, -g]) + F.k / 2

        balance = {"type": "eq", "fun": lambda x: x[:K].sum() - x[K:].sum(), "jac": lambda x: np.repeat([1.0, -1.0], K)}
        solution = minimize(
            objective,
            np.full(2 * K, 1e-3),
            jac=True,
            bounds=[(0, None)] * (2 * K),
            constraints=[balance],
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-15},
        )
        return centre(torch.as_tensor(solution.x[:K] - solution.x[K:]))

    return torch.stack([solve(row) for row in q.detach()]) if len(q) else q


def _nonconvex_conjugate(F: Squeezed, q: Tensor) -> Tensor:
    """alpha < 1: inf where the base's conjugate is (the penalty grows too slowly), else the best maximum found."""
    value = F.base.conjugate(q.detach())
    out = torch.full_like(value, math.inf)
    for i in torch.isfinite(value).nonzero()[:, 0].tolist():
        out[i] = _nonconvex_maximum(F, q[i].detach())
    return out


def _nonconvex_maximum(F: Squeezed, q: Tensor) -> float:
    """max of ``<q, v> - F'(v)`` by descent from many starts; v = 0 is always one of them.

    The penalty is concave on either side of zero, so maximisers have exact zeros, and each choice of zeros is its own
    smooth problem. A potential that treats classes alike wants v in the order of q: the zeros are neighbours in that
    order, with negative scores ``-m softmax(b)`` below them and positive ones ``m softmax(a)`` above.
    """
    from scipy.optimize import minimize

    K = len(q)
    order = torch.argsort(q)
    cuts = sorted({round(x) for x in np.linspace(0, K, min(K, 12) + 1)})  # all of them up to 12 classes
    best = -float(F._value(torch.zeros_like(q)))
    for low in cuts:
        for high in (c for c in cuts if low <= c and low > 0 and c < K):

            def objective(x: np.ndarray, low: int = low, high: int = high) -> tuple[float, np.ndarray]:
                with torch.enable_grad():
                    t = torch.as_tensor(x).requires_grad_()
                    below, above = torch.softmax(t[1 : 1 + low], 0), torch.softmax(t[1 + low :], 0)
                    parts = [-below, torch.zeros(high - low, dtype=t.dtype), above]
                    v = torch.zeros_like(q).index_put((order,), t[0].exp() * torch.cat(parts))
                    out = F._value(v) - (q * v).sum()
                    (g,) = torch.autograd.grad(out, t)
                return float(out.detach()), g.numpy()

            for size in (-2.0, 0.5, 3.0):
                x0 = np.concatenate([[size], np.zeros(low + K - high)])
                best = max(best, -float(minimize(objective, x0, jac=True, method="L-BFGS-B").fun))
    return best


def newton_step(base: Potential, penalty: Penalty, v: Tensor, q: Tensor) -> Tensor:
    """The centred solution d of ``H d = q - grad F'(v)``, H the Hessian of F' at v, with q carrying the gradient."""
    size = v.abs().clamp_min(1e-12)  # keeps the penalty's curvature finite at v_z = 0
    H = derivatives(base._value, v)[1] + torch.diag_embed(penalty.curvature(size))
    H = H + 1 / v.shape[-1]  # flat along (1, ..., 1) otherwise; sum d = 0 does not see it
    return centred_solve(H, q - q.detach())
