"""F: convex potentials on centred scores, and what follows from each of them.

A proper loss is ``lambda_F(v, z) = F(v) - v_z`` (Theorem 5, the dual representation): F lives on 1^perp, its
gradient is the link to probabilities, and its convex conjugate F* is the negative Bayes risk on the simplex.
A potential is three methods (`_value`, `_link`, `_conjugate`; `_inverse_link` where it is known); everything
else lives once, in `Potential`. Potentials centre their scores themselves.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from . import _checks, _solvers
from ._numerics import centre, entmax, project_simplex
from ._passes import DualSide

Domain = Literal["simplex", "affine"]


def normalised(q: Tensor) -> Tensor:
    """q shifted to sum to one; F* does not see the shift, because F lives on centred scores."""
    return q + (1 - q.sum(-1, keepdim=True)) / q.shape[-1]


def outside_simplex(q: Tensor) -> Tensor:
    """Which rows of q, summing to one, leave the simplex by more than 1e-12 (by more than rounding, in float32)."""
    return q.amin(-1) < -_simplex_tol(q)


def _simplex_tol(q: Tensor) -> float:
    return max(_checks.SIMPLEX_TOL, 8 * torch.finfo(q.dtype).eps)


def _floating(v: Tensor, name: str) -> Tensor:
    if not isinstance(v, Tensor) or not v.is_floating_point() or v.ndim < 1 or v.shape[-1] < 2:
        got = f"{v.dtype} {tuple(v.shape)}" if isinstance(v, Tensor) else type(v).__name__
        raise ValueError(f"{name}: expected a floating torch tensor (..., K) with K >= 2, got {got}")
    return v


class Potential(ABC):
    """A closed convex F on 1^perp with ``F(v) - max v`` bounded from below (Condition 1 of Theorem 5).

    `domain` says where F* is finite: on the ``"simplex"`` only, or on the whole ``"affine"`` hull of it. It
    decides whether every backward loss made of F is bounded (Proposition 14).
    """

    name: str
    domain: Domain
    proper: bool = True  # F convex with Condition 1
    strictly_proper: bool = True  # F* strictly convex on the simplex (Appendix D)
    differentiable: bool = True  # F has a gradient everywhere in its domain
    symmetric: ClassVar[bool] = True  # F treats all classes alike
    evidence: Literal["exact", "numerical"] = "exact"  # how value, link and conjugate are computed

    def value(self, v: Tensor) -> Tensor:
        """F(v) for scores (..., K), centred first."""
        return self._value(centre(_floating(v, "v")))

    def link(self, v: Tensor) -> Tensor:
        """The gradient of F at v, normalised to sum to one. May leave the simplex; `probabilities` does not."""
        return self._link(centre(_floating(v, "v")))

    def probabilities(self, v: Tensor) -> Tensor:
        """The link projected onto the simplex; at a minimiser of an expected loss, the link itself (Prop. 6)."""
        q = self.link(v)
        return q if self.domain == "simplex" else project_simplex(q)

    def inverse_link(self, p: Tensor) -> Tensor:
        """Centred scores v with ``link(v) = p``: the minimiser of ``F(v) - <p, v>``."""
        return self._inverse_link(normalised(_floating(p, "p")))

    def conjugate(self, q: Tensor) -> Tensor:
        """``F*(q) = sup_v <q, v> - F(v)``, v centred; ``inf`` outside its domain. On the simplex: minus Bayes risk."""
        q = normalised(_floating(q, "q"))
        value = self._conjugate(q)
        return value if self.domain == "affine" else torch.where(outside_simplex(q), math.inf, value)

    def class_losses(self, v: Tensor) -> Tensor:
        """The supervised losses ``lambda_F(v, z) = F(v) - v_z`` of all classes (..., K)."""
        v = centre(v)
        return self._value(v)[..., None] - v

    def weak_loss(self, v: Tensor, weigh: Callable[[Tensor], Tensor], total: Tensor | float = 1.0) -> Tensor:
        """``total F(v) - <r, v>`` (...) for a target r that sums to `total`; ``weigh(x)`` is <r, x>.

        Not ``<r, F(v) - v>``: F may be large, and r's entries large and of both signs, which would eat the digits.
        """
        v = centre(v)
        return total * self._value(v) - weigh(v)

    def squeezed(self, k: float, alpha: float, allow_improper: bool = False) -> Squeezed:
        """Generalised logit squeezing (Corollary 15): ``F(v) + k/2 sum_z |v_z|^alpha``.

        With k > 0 and alpha > 1 every T-proper loss of the result is bounded from below. alpha = 1 is bounded
        from a critical k on; alpha < 1 is not convex, hence improper, and needs ``allow_improper=True``.
        """
        return Squeezed(self, k, alpha, allow_improper)

    def __repr__(self) -> str:
        return f"<potential {self.name}>"

    @abstractmethod
    def _value(self, v: Tensor) -> Tensor:
        """F at centred scores."""

    def _link(self, v: Tensor) -> Tensor:
        """Gradient of F at centred scores, summing to one; by autograd where no formula is given."""
        if _checks.transformed():
            return normalised(torch.func.grad(lambda x: self._value(x).sum())(v))
        with torch.enable_grad():
            x = v if v.requires_grad else v.detach().requires_grad_()
            (grad,) = torch.autograd.grad(self._value(x).sum(), x, create_graph=v.requires_grad)
        return normalised(grad)

    @abstractmethod
    def _conjugate(self, q: Tensor) -> Tensor:
        """F* at q summing to one; outside the domain any number will do."""

    @abstractmethod
    def _inverse_link(self, p: Tensor) -> Tensor:
        """Centred v with link(v) = p, p summing to one."""


def _inside(p: Tensor, name: str, open_set: bool) -> Tensor:
    """An inverse link exists on the simplex (on its interior, for links that reach zero only at infinity)."""
    if _checks.readable(p):
        low = float(p.detach().amin())
        if low < -_simplex_tol(p) or (open_set and low <= 0):
            rule = "strictly positive probabilities" if open_set else "probabilities"
            raise ValueError(f"p: expected {rule} for the inverse link of {name}, got an entry {low:g}")
    return p


class LogSumExp(Potential):
    """``F(v) = log sum_z exp v_z``: cross entropy. Link: softmax. ``F*(p) = sum p log p``."""

    name = "log-sum-exp"
    domain: Domain = "simplex"

    def _value(self, v: Tensor) -> Tensor:
        top = v.amax(-1, keepdim=True).detach()  # taken out first: the gradient of logsumexp rounds at scores of 1e6
        return torch.logsumexp(v - top, -1) + top[..., 0]

    def _link(self, v: Tensor) -> Tensor:
        return torch.softmax(v, -1)

    def class_losses(self, v: Tensor) -> Tensor:
        """``-log softmax(v)``: one fused pass, and no centring needed."""
        return -functional.log_softmax(v, -1)

    def weak_loss(self, v: Tensor, weigh: Callable[[Tensor], Tensor], total: Tensor | float = 1.0) -> Tensor:
        """Scores are compared with the largest one: at 1e6 a correct label's loss keeps its digits."""
        behind = v.amax(-1, keepdim=True).detach() - v
        return total * torch.logsumexp(-behind, -1) + weigh(behind)

    def _conjugate(self, q: Tensor) -> Tensor:
        return self.phi(q).sum(-1)

    def phi(self, p: Tensor) -> Tensor:
        """F* is a sum of this."""
        return torch.xlogy(p.clamp_min(0), p.clamp_min(0))

    def _inverse_link(self, p: Tensor) -> Tensor:
        return centre(_inside(p, self.name, open_set=True).log())

    def density(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """p_z and its slope as functions of ``s = v_z - lambda``, see `_solvers.Separable`."""
        p = s.exp()
        return p, p

    def density_range(self, K: int) -> tuple[float, float]:
        """s at p = 1/K and at p = 1."""
        return -math.log(K), 0.0

    def curvature(self, p: Tensor) -> Tensor:
        """The slope of `density` where it equals p."""
        return p


class Tsallis(Potential):
    """Tsallis entropies, ``F*(p) = (sum p^a - 1) / (a (a - 1))``, a > 0; a -> 1 is log-sum-exp, a = 2 sparsemax.

    Link: ``p_z = ((a-1)(v_z - lambda))_+^(1/(a-1))`` with lambda such that it sums to one. For a > 1 it is sparse.
    """

    domain: Domain = "simplex"

    def __init__(self, a: float) -> None:
        self.a = _checks.real(a, "a", 0, 64, low_open=True)
        if abs(self.a - 1) < 1e-4:
            raise ValueError(f"a: expected a number at least 0.0001 away from 1, where it is LogSumExp(), got {a!r}")
        self.name = f"Tsallis({self.a:g})"

    def _value(self, v: Tensor) -> Tensor:
        out: Tensor = DualSide.apply(v, self)[0]
        return out

    def _link(self, v: Tensor) -> Tensor:
        out: Tensor = DualSide.apply(v, self)[1]
        return out

    def maximiser(self, v: Tensor) -> Tensor:
        """argmax over the simplex of <p, v> - F*(p)."""
        return entmax(v, self.a)

    def jacobian_product(self, p: Tensor, x: Tensor) -> Tensor:
        """``(diag(s) - s s^T / sum s) x``, s the curvature at p: the link's Jacobian."""
        s = self.curvature(p)
        return s * (x - (s * x).sum(-1, keepdim=True) / s.sum(-1, keepdim=True))

    def _conjugate(self, q: Tensor) -> Tensor:
        return (q.clamp_min(0).pow(self.a).sum(-1) - 1) / (self.a * (self.a - 1))

    def phi(self, p: Tensor) -> Tensor:
        """F* is a sum of this."""
        return (p.clamp_min(0).pow(self.a) - p) / (self.a * (self.a - 1))

    def _inverse_link(self, p: Tensor) -> Tensor:
        p = _inside(p, self.name, open_set=self.a < 1).clamp_min(0)
        return centre(p.pow(self.a - 1) / (self.a - 1))

    def density(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """p_z and its slope as functions of ``s = v_z - lambda``."""
        p = ((self.a - 1) * s).clamp_min(0).pow(1 / (self.a - 1))
        return p, torch.where(p > 0, p.pow(2 - self.a), torch.zeros_like(p))

    def density_range(self, K: int) -> tuple[float, float]:
        """s at p = 1/K and at p = 1."""
        return K ** (1 - self.a) / (self.a - 1), 1 / (self.a - 1)

    def curvature(self, p: Tensor) -> Tensor:
        """The slope of `density` where it equals p: p^(2-a) on the support."""
        tiny = torch.finfo(p.dtype).tiny  # 0^(2-a) is infinite for a > 2
        return torch.where(p > 0, p.clamp_min(tiny).pow(2 - self.a), torch.zeros_like(p))


class Brier(Potential):
    """The Brier score, loss ``||q - e_z||^2``, ``F*(p) = ||p||^2 - 1``.

    ``domain="affine"`` takes the conjugate over all p that sum to one: ``F(v) = ||v||^2/4 + 1 - 1/K``, link
    ``1/K + v/2``; every backward loss made of it is bounded, whatever R. ``domain="simplex"`` restricts p to the
    simplex: link ``projection(v/2)``, the same loss at probabilities, bounded only for targets in the simplex.
    """

    def __init__(self, domain: Domain = "affine") -> None:
        self.domain = _domain(domain)
        self.name = f"Brier ({domain})"

    def _value(self, v: Tensor) -> Tensor:
        if self.domain == "affine":
            return v.square().sum(-1) / 4 + 1 - 1 / v.shape[-1]
        p = self._link(v)
        top = v.amax(-1, keepdim=True)
        return (p * (v - top)).sum(-1) + top[..., 0] - self._conjugate(p)

    def _link(self, v: Tensor) -> Tensor:
        return 1 / v.shape[-1] + v / 2 if self.domain == "affine" else project_simplex(v / 2)

    def _conjugate(self, q: Tensor) -> Tensor:
        return q.square().sum(-1) - 1

    def phi(self, p: Tensor) -> Tensor:
        """F* is a sum of this."""
        return p.square() - p

    def _inverse_link(self, p: Tensor) -> Tensor:
        if self.domain == "simplex":
            _inside(p, self.name, open_set=False)
        return 2 * centre(p)

    def density(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """p_z and its slope as functions of ``s = v_z - lambda`` (simplex domain)."""
        return (s / 2).clamp_min(0), (s > 0).to(s.dtype) / 2

    def density_range(self, K: int) -> tuple[float, float]:
        """s at p = 1/K and at p = 1."""
        return 2 / K, 2.0

    def curvature(self, p: Tensor) -> Tensor:
        """The slope of `density` where it equals p."""
        return (p > 0).to(p.dtype) / 2


class Sparsemax(Potential):
    """Half a Brier score on the simplex, ``F*(p) = (||p||^2 - 1)/2``; link: projection of v. Tsallis with a = 2."""

    name = "sparsemax"
    domain: Domain = "simplex"

    def _value(self, v: Tensor) -> Tensor:
        p = self._link(v)
        top = v.amax(-1, keepdim=True)
        return (p * (v - top)).sum(-1) + top[..., 0] - self._conjugate(p)

    def _link(self, v: Tensor) -> Tensor:
        return project_simplex(v)

    def _conjugate(self, q: Tensor) -> Tensor:
        return (q.square().sum(-1) - 1) / 2

    def phi(self, p: Tensor) -> Tensor:
        """F* is a sum of this."""
        return (p.square() - p) / 2

    def _inverse_link(self, p: Tensor) -> Tensor:
        return centre(_inside(p, self.name, open_set=False))

    def density(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """p_z and its slope as functions of ``s = v_z - lambda``."""
        return s.clamp_min(0), (s > 0).to(s.dtype)

    def density_range(self, K: int) -> tuple[float, float]:
        """s at p = 1/K and at p = 1."""
        return 1 / K, 1.0

    def curvature(self, p: Tensor) -> Tensor:
        """The slope of `density` where it equals p."""
        return (p > 0).to(p.dtype)


class Spherical(Potential):
    """The spherical score, loss ``1 - q_z / ||q||``, ``F*(p) = ||p|| - 1``.

    ``domain="affine"``: ``F(v) = 1 - sqrt((1 - ||v||^2)/K)`` on the ball ||v|| <= 1, ``inf`` outside, where there is no
    link (it is NaN) and `probabilities` are their limit at the surface, all on the largest score: keep scores inside
    the ball. ``domain="simplex"``: ``F(v) = 1 + tau`` with ``sum (v_z - tau)_+^2 = 1``, finite everywhere, link
    ``(v - tau)_+`` normalised.
    """

    def __init__(self, domain: Domain = "affine") -> None:
        self.domain = _domain(domain)
        self.name = f"spherical ({domain})"

    def _value(self, v: Tensor) -> Tensor:
        if self.domain == "simplex":
            return 1 + _solvers.spherical_threshold(v)[..., 0]
        room = 1 - v.square().sum(-1)
        inside = room >= 0
        return torch.where(inside, 1 - (torch.where(inside, room, 1.0) / v.shape[-1]).sqrt(), math.inf)

    def _link(self, v: Tensor) -> Tensor:
        if self.domain == "simplex":
            v = v - v.amax(-1, keepdim=True).detach()  # the link does not see a shift, but rounding does
            u = torch.relu(v - _solvers.spherical_threshold(v))
            return u / u.sum(-1, keepdim=True)
        K = v.shape[-1]
        return 1 / K + v / (K * (1 - v.square().sum(-1, keepdim=True))).sqrt()

    def probabilities(self, v: Tensor) -> Tensor:
        """The link projected onto the simplex; outside the ball its limit, all on the largest score."""
        if self.domain == "simplex":
            return self.link(v)
        v = centre(_floating(v, "v"))
        outside = v.square().sum(-1, keepdim=True) >= 1
        limit = (v == v.amax(-1, keepdim=True)).to(v.dtype)
        inside = project_simplex(self._link(torch.where(outside, 0.0, v)))
        return torch.where(outside, limit / limit.sum(-1, keepdim=True), inside)

    def _conjugate(self, q: Tensor) -> Tensor:
        return torch.linalg.vector_norm(q, dim=-1) - 1

    def quadratic(self) -> Brier:
        """What is left of F at a given c: ``||p|| = min over c of c/2 + ||p||^2/(2c)``. The solvers need it."""
        return Brier(self.domain)

    def _inverse_link(self, p: Tensor) -> Tensor:
        if self.domain == "simplex":
            _inside(p, self.name, open_set=False)
        return centre(p / torch.linalg.vector_norm(p, dim=-1, keepdim=True))


class Max(Potential):
    """``F(v) = max_z v_z``: the smallest potential there is, proper and not strictly proper. ``F* = 0`` on the simplex.

    Its loss tells only which class is the likeliest; the link spreads evenly over ties.
    """

    name = "max"
    domain: Domain = "simplex"
    strictly_proper = False
    differentiable = False

    def _value(self, v: Tensor) -> Tensor:
        return v.amax(-1)

    def _link(self, v: Tensor) -> Tensor:
        ties = (v == v.amax(-1, keepdim=True)).to(v.dtype)
        return ties / ties.sum(-1, keepdim=True)

    def _conjugate(self, q: Tensor) -> Tensor:
        return torch.zeros_like(q[..., 0])

    def _inverse_link(self, p: Tensor) -> Tensor:
        return torch.zeros_like(_inside(p, self.name, open_set=False))

    def density(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """A step: anything between 0 and 1 at s = 0."""
        return (s > 0).to(s.dtype), torch.zeros_like(s)

    def density_range(self, K: int) -> tuple[float, float]:
        """Both at s = 0."""
        return 0.0, 0.0

    def curvature(self, p: Tensor) -> Tensor:
        """None: F is linear where it has a gradient."""
        return torch.zeros_like(p)

    def phi(self, p: Tensor) -> Tensor:
        """F* is a sum of this."""
        return torch.zeros_like(p)


def _domain(domain: str) -> Domain:
    if domain not in ("affine", "simplex"):
        raise ValueError(f"domain: expected 'affine' or 'simplex', got {domain!r}")
    return domain  # type: ignore[return-value]


def _power(size: Tensor, exponent: float) -> Tensor:
    """size^exponent with derivative 0 at size = 0, where autograd would meet 0 * inf (exponents below 2)."""
    zero = size == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, size).pow(exponent))


class Squeezed(Potential):
    """Generalised logit squeezing of another potential (Corollary 15): ``F'(v) = F(v) + k/2 sum_z |v_z|^alpha``.

    Link: ``grad F(v) + (k alpha/2) |v|^(alpha-1) sgn v``, re-centred to sum to one; softmax is *not* it. For
    alpha > 1 and k > 0 the conjugate is finite on the whole affine hull, so every backward loss is bounded. For
    alpha = 1 it is finite on the base's domain widened by the box [-k/2, k/2]^K.
    """

    def __init__(self, base: Potential, k: float, alpha: float, allow_improper: bool = False) -> None:
        self.base = base
        self.k = _checks.real(k, "k", 0)
        self.alpha = _checks.real(alpha, "alpha", 0, low_open=True)
        if self.alpha < 1 and not allow_improper:
            raise ValueError(
                f"alpha: expected alpha >= 1, got {self.alpha:g}, where squeezing is not convex and the loss improper; "
                "pass allow_improper=True to study it all the same"
            )
        self.name = f"{base.name} + squeezing (k={self.k:g}, alpha={self.alpha:g})"
        active = self.k > 0
        self.domain = "affine" if active else base.domain
        self.proper = base.proper and (self.alpha >= 1 or not active)
        # F' differentiable with gradients everywhere makes F'* strictly convex; a kink of |v| at 0 maps many p to v = 0
        self.strictly_proper = base.strictly_proper if not active else (self.alpha > 1 and base.differentiable)
        self.differentiable = base.differentiable and (self.alpha > 1 or not active)
        self.evidence = base.evidence  # the conjugate is solved for, with a duality gap that bounds its error

    def penalty(self, v: Tensor) -> Tensor:
        """``k/2 sum_z |v_z|^alpha`` at centred scores."""
        if self.alpha == 2:
            return self.k / 2 * v.square().sum(-1)
        return self.k / 2 * (v.abs() if self.alpha == 1 else _power(v.abs(), self.alpha)).sum(-1)

    def _value(self, v: Tensor) -> Tensor:
        return self.base._value(v) + self.penalty(v)

    def _link(self, v: Tensor) -> Tensor:
        slope = v if self.alpha == 2 else v.sign() * (1.0 if self.alpha == 1 else _power(v.abs(), self.alpha - 1))
        return normalised(self.base._link(v) + self.k * self.alpha / 2 * slope)

    def _conjugate(self, q: Tensor) -> Tensor:
        return self.base.conjugate(q) if self.k == 0 else _solvers.squeezed_conjugate(self, q)

    def _inverse_link(self, p: Tensor) -> Tensor:
        return self.base.inverse_link(p) if self.k == 0 else _solvers.squeezed_inverse_link(self, p)
