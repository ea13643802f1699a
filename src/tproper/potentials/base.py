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
from typing import Literal

import torch
from torch import Tensor

from .._core import centre, checks, project_simplex, tracing
from ..errors import InputError
from . import conjugates as _solvers

Domain = Literal["simplex", "affine"]


def normalised(q: Tensor, gone: Tensor | None = None) -> Tensor:
    """q shifted to sum to one; F* does not see the shift, because F lives on centred scores. Classes `gone` get 0."""
    if gone is None:
        return q + (1 - q.sum(-1, keepdim=True)) / q.shape[-1]
    return (q + (1 - q.sum(-1, keepdim=True)) / (~gone).sum(-1, keepdim=True)).masked_fill(gone, 0.0)


def _on_plane(p: Tensor) -> Tensor:
    """p normalised, unless its sum is one to rounding: shifted by 1e-17, a probability of 1e-20, or 0, would change."""
    exact = (p.sum(-1, keepdim=True) - 1).abs() <= p.shape[-1] * torch.finfo(p.dtype).eps
    return torch.where(exact, p, normalised(p))


def outside_simplex(q: Tensor) -> Tensor:
    """Which rows of q, summing to one, leave the simplex by more than 1e-12 (by more than rounding, in float32)."""
    return q.amin(-1) < -_simplex_tol(q)


def _simplex_tol(q: Tensor) -> float:
    return max(checks.SIMPLEX_TOL, 8 * torch.finfo(q.dtype).eps)


def floating(v: Tensor, name: str) -> Tensor:
    """Scores or probabilities (..., K), K >= 2."""
    if not isinstance(v, Tensor) or not v.is_floating_point() or v.ndim < 1 or v.shape[-1] < 2:
        got = f"{v.dtype} {tuple(v.shape)}" if isinstance(v, Tensor) else type(v).__name__
        raise InputError(f"{name}: expected a floating torch tensor (..., K) with K >= 2, got {got}")
    return v


class Potential(ABC):
    """What a proper loss is made of: a closed convex F of centred scores, ``F(v) - max v`` bounded below (Theorem 5).

    The loss of class z is ``F(v) - v_z``, and the probabilities are F's gradient, the `link`. `domain` says where the
    conjugate F* is finite: on the ``"simplex"`` alone, or on its whole ``"affine"`` hull, where every backward loss
    made of F is bounded (Proposition 14). This is the base class: use `LogSumExp`, `Brier`, ..., or `ConvexPotential`
    for your own.

    Attributes
    ----------
    name : str
        What messages call it.
    domain : "simplex" or "affine"
        Where F* is finite.
    strictly_proper : bool
        Whether only the true probabilities have the least loss.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> F, v = tp.LogSumExp(), torch.tensor([1.0, 0.0, -1.0])
    >>> isinstance(F, tp.Potential)
    True
    >>> bool(torch.allclose(F.link(v), v.softmax(0)))
    True
    """

    name: str
    domain: Domain
    proper: bool = True  # F convex with Condition 1
    strictly_proper: bool = True  # F* strictly convex on the simplex (Appendix D)
    differentiable: bool = True  # F has a gradient everywhere in its domain
    symmetric: bool = True  # F treats all classes alike
    evidence: Literal["exact", "numerical"] = "exact"  # how value, link and conjugate are computed
    radius: float = math.inf  # F is infinite at centred scores of a larger norm

    def recession(self, direction: Tensor) -> Tensor:
        """The slope of F far out along directions d (..., K): ``lim F(t d) / t``.

        ``F(v) - <r, v>`` is bounded from below iff ``<r, d>`` exceeds it for no d: it is the support function of F*'s
        domain, ``max_z d_z`` for the simplex and infinite, but at d = 0, for the affine hull.
        """
        d = centre(direction)
        return d.amax(-1) if self.domain == "simplex" else torch.where((d == 0).all(-1), 0.0, math.inf)

    def value(self, v: Tensor) -> Tensor:
        """F(v) for scores (..., K), centred first."""
        return self._value(centre(floating(v, "v")))

    def link(self, v: Tensor) -> Tensor:
        """The gradient of F at v, normalised to sum to one. May leave the simplex; `probabilities` does not."""
        return self._link(centre(floating(v, "v")))

    def probabilities(self, v: Tensor) -> Tensor:
        """The link projected onto the simplex; at a minimiser of an expected loss, the link itself (Prop. 6)."""
        q = self.link(v)
        return q if self.domain == "simplex" else project_simplex(q)

    def inverse_link(self, p: Tensor) -> Tensor:
        """Centred scores v with ``link(v) = p``: the minimiser of ``F(v) - <p, v>``."""
        return self._inverse_link(_on_plane(floating(p, "p")))

    def conjugate(self, q: Tensor) -> Tensor:
        """``F*(q) = sup_v <q, v> - F(v)``, v centred; ``inf`` outside its domain. On the simplex: minus Bayes risk."""
        q = _on_plane(floating(q, "q"))
        value = self._conjugate(q)
        return value if self.domain == "affine" else torch.where(outside_simplex(q), math.inf, value)

    def class_losses(self, v: Tensor) -> Tensor:
        """The supervised losses ``lambda_F(v, z) = F(v) - v_z`` of all classes (..., K)."""
        v = centre(v)
        return self._value(v)[..., None] - v

    def weak_loss(self, v: Tensor, weigh: Callable[[Tensor], Tensor], total: Tensor | float = 1.0) -> Tensor:
        """``total F(v) - <r, v>`` (...) for a target r that sums to `total`; ``weigh(x)`` is <r, x>.

        Not ``<r, F(v) - v>``: F may be large, and r's entries large and of both signs, which would cost digits.
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
        if tracing.transformation():
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


class Separable(Potential):
    """``F*(p) = sum_z phi(p_z)``; on the simplex ``p_z = density(v_z - lambda)``, lambda such that p sums to one.

    This is all that the solvers for squeezed potentials need to know.
    """

    steep: bool = False  # the density rises nearly like a step: `_inverse_density` takes its place

    @abstractmethod
    def _phi(self, p: Tensor) -> Tensor:
        """F* is a sum of this."""

    @abstractmethod
    def _density(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """p_z, increasing, and its slope as functions of ``s = v_z - lambda``."""

    def _inverse_density(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """s and its slope as functions of p_z."""
        raise NotImplementedError

    @abstractmethod
    def _density_range(self, K: int) -> tuple[float, float]:
        """s at p = 1/K and at p = 1."""

    @abstractmethod
    def _curvature(self, p: Tensor) -> Tensor:
        """The slope of the density where it equals p: ``1 / phi''(p)`` on the support, 0 outside of it."""

    def _counted_link(self, v: Tensor, count: Tensor) -> Tensor | None:
        """The link where `count` classes share each score, ``sum count p = 1``; None where it must be searched for."""
        return None

    def _conjugate(self, q: Tensor) -> Tensor:
        return self._phi(q).sum(-1)


def inside_domain(p: Tensor, name: str, open_set: bool) -> Tensor:
    """An inverse link exists on the simplex (on its interior, for links that reach zero only at infinity)."""
    if tracing.readable(p):
        low = float(p.detach().amin())
        if low < -_simplex_tol(p) or (open_set and low <= 0):
            rule = "strictly positive probabilities" if open_set else "probabilities"
            raise InputError(f"p: expected {rule} for the inverse link of {name}, got an entry {low:g}")
    return p


def checked_domain(domain: str) -> Domain:
    """ "affine" or "simplex"."""
    checks.choice(domain, "domain", ("affine", "simplex"))
    return domain  # type: ignore[return-value]


def power(size: Tensor, exponent: float) -> Tensor:
    """size^exponent with derivative 0 at size = 0, where autograd would meet 0 * inf (exponents below 2)."""
    zero = size == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, size).pow(exponent))


class Squeezed(Potential):
    """Generalised logit squeezing of another potential (Corollary 15): ``F'(v) = F(v) + k/2 sum_z |v_z|^alpha``.

    Link: ``grad F(v) + (k alpha/2) |v|^(alpha-1) sgn v``, re-centred to sum to one; softmax is *not* it. For
    alpha > 1 and k > 0 the conjugate is finite on the whole affine hull, so every backward loss is bounded. For
    alpha = 1 it is finite on the base's domain widened by the box [-k/2, k/2]^K. ``F.squeezed(k, alpha)`` makes one.

    Parameters
    ----------
    base : Potential
        F.
    k, alpha : float
        k >= 0, alpha >= 1.
    allow_improper : bool
        Take an alpha below 1, for study: squeezing is not convex there, and the loss is not proper.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> F = tp.LogSumExp().squeezed(1.0, 2.0)
    >>> F.link(torch.tensor([1.0, -1.0])).round(decimals=4)
    tensor([ 1.8808, -0.8808])
    >>> F.probabilities(torch.tensor([1.0, -1.0]))
    tensor([1., 0.])
    """

    def __init__(self, base: Potential, k: float, alpha: float, allow_improper: bool = False) -> None:
        if not isinstance(base, Potential):
            raise InputError(f"base: expected a potential, as LogSumExp(), got {type(base).__name__}")
        self.base = base
        self.k = checks.real(k, "k", 0)
        self.alpha = checks.real(alpha, "alpha", 0, low_open=True)
        if self.alpha < 1 and not allow_improper:
            raise InputError(
                f"alpha: expected alpha >= 1, got {self.alpha:g}, where squeezing is not convex and the loss improper; "
                "pass allow_improper=True to study it anyway"
            )
        self.name = f"{base.name} + squeezing (k={self.k:g}, alpha={self.alpha:g})"
        active = self.k > 0
        self.domain = "affine" if active else base.domain
        self.proper = base.proper and (self.alpha >= 1 or not active)
        # F' differentiable with gradients everywhere makes F'* strictly convex; a kink of |v| at 0 maps many p to v = 0
        self.strictly_proper = base.strictly_proper if not active else (self.alpha > 1 and base.differentiable)
        self.differentiable = base.differentiable and (self.alpha > 1 or not active)
        self.evidence = base.evidence  # the conjugate is solved for, with a duality gap that bounds its error
        self.symmetric, self.radius = base.symmetric, base.radius

    def recession(self, direction: Tensor) -> Tensor:
        """The base's, and ``k/2 ||d||_1`` for alpha = 1; infinite for alpha > 1, as below 1 the base's alone."""
        base = self.base.recession(direction)
        if self.k == 0 or self.alpha < 1:
            return base
        size = centre(direction).abs().sum(-1)
        return base + (self.k / 2 * size if self.alpha == 1 else torch.where(size > 0, math.inf, 0.0))

    def squeezed(self, k: float, alpha: float, allow_improper: bool = False) -> Squeezed:
        """Squeezing once more with the same alpha is squeezing once with the sum of both k."""
        again = Squeezed(self, k, alpha, allow_improper)
        same = again.alpha == self.alpha
        return Squeezed(self.base, self.k + again.k, alpha, allow_improper) if same else again

    def link(self, v: Tensor) -> Tensor:
        """The gradient; between alpha = 1 and 2 it is steep near v_z = 0, and no digit of a small score may be lost."""
        if not 1 < self.alpha < 2 or self.k == 0:
            return super().link(v)
        mean, top = floating(v, "v").mean(-1, keepdim=True), v.abs().amax(-1, keepdim=True)
        kept = (mean.abs() <= 4 * torch.finfo(v.dtype).eps * top) & top.isfinite()
        return self._link(torch.where(kept, v - (mean - mean.detach()), centre(v)))

    def penalty(self, v: Tensor) -> Tensor:
        """``k/2 sum_z |v_z|^alpha`` at centred scores."""
        v = v.masked_fill(v.isneginf(), 0.0)  # a class that has left (a mask) is not squeezed
        if self.alpha == 2:
            return self.k / 2 * v.square().sum(-1)
        return self.k / 2 * (v.abs() if self.alpha == 1 else power(v.abs(), self.alpha)).sum(-1)

    def weak_loss(self, v: Tensor, weigh: Callable[[Tensor], Tensor], total: Tensor | float = 1.0) -> Tensor:
        """The base's loss, in the way that keeps its digits, and the penalty."""
        return self.base.weak_loss(v, weigh, total) + total * self.penalty(centre(v))

    def _value(self, v: Tensor) -> Tensor:
        return self.base._value(v) + self.penalty(v)

    def _link(self, v: Tensor) -> Tensor:
        gone = v.isneginf()
        u = v.masked_fill(gone, 0.0)
        slope = u if self.alpha == 2 else u.sign() * (1.0 if self.alpha == 1 else power(u.abs(), self.alpha - 1))
        return normalised(self.base._link(v) + self.k * self.alpha / 2 * slope, gone)

    def _conjugate(self, q: Tensor) -> Tensor:
        return self.base.conjugate(q) if self.k == 0 else _solvers.squeezed_conjugate(self, q)

    def _inverse_link(self, p: Tensor) -> Tensor:
        return self.base.inverse_link(p) if self.k == 0 else _solvers.squeezed_inverse_link(self, p)
