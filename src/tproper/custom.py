"""Your own potential: a convex F, or a negative Bayes risk S, given as a function.

`ConvexPotential` needs F alone; `BayesRisk` needs S alone (the Savage representation, Theorem 4). Derivatives come
from autograd, conjugates from Newton's method, so certificates say "numerical".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from . import _solvers
from ._numerics import centre
from .potentials import Domain, Potential, _domain, _inside


class ConvexPotential(Potential):
    """A convex F on centred scores, ``F(v): (..., K) -> (...)``, written in torch.

    Parameters
    ----------
    function : callable
        F at centred scores; must be convex, with ``F(v) - max v`` bounded from below. `tproper.certify` tests this.
    domain : "simplex" or "affine"
        Where F* is finite: "affine" if F grows faster than linearly, "simplex" if it grows like max v.
    strictly_proper : bool
        Whether F* is strictly convex on the simplex: so for every differentiable F whose gradients fill its interior.
    """

    evidence: Literal["exact", "numerical"] = "numerical"

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        domain: Domain,
        strictly_proper: bool = True,
        name: str = "",
    ) -> None:
        if not callable(function):
            raise ValueError(f"function: expected a callable F(v), got {type(function).__name__}")
        self.function = function
        self.domain = _domain(domain)
        self.strictly_proper = strictly_proper
        self.name = name or getattr(function, "__name__", "custom")

    def _value(self, v: Tensor) -> Tensor:
        return self.function(v)

    def _conjugate(self, q: Tensor) -> Tensor:
        flat = q.reshape(-1, q.shape[-1]).double()
        inside = (flat.detach() >= 0).all(-1) if self.domain == "simplex" else torch.ones(len(flat), dtype=torch.bool)
        value = torch.full_like(flat[:, 0], math.inf)
        if bool(inside.any()):
            v = _solvers.newton_minimiser(_Plain(self), flat[inside].detach())
            value = value.masked_scatter(inside, (flat[inside] * v).sum(-1) - self._value(v))
        return value.reshape(q.shape[:-1]).to(q.dtype)

    def _inverse_link(self, p: Tensor) -> Tensor:
        flat = p.reshape(-1, p.shape[-1]).double()
        return _solvers.newton_minimiser(_Plain(self), flat.detach()).reshape(p.shape).to(p.dtype)


class _Plain:
    """A potential seen by the Newton solver as one with nothing squeezed."""

    k, alpha = 0.0, 2.0

    def __init__(self, base: Potential) -> None:
        self.base = base

    def _value(self, v: Tensor) -> Tensor:
        return self.base._value(v)


class BayesRisk(Potential):
    """A proper loss given by its negative Bayes risk S on the simplex: ``F(v) = max_p <p, v> - S(p)``.

    The Savage representation (Theorem 4) writes the same loss on probabilities,
    ``l(q, z) = -S'(q)_z + <q, S'(q)> - S(q)``; `savage_losses` gives that, and the two agree: ``l(q, z) = F(v) - v_z``
    at ``v = inverse_link(q)``.

    Parameters
    ----------
    function : callable
        S(p): (..., K) -> (...), convex on the simplex and twice differentiable inside it, written in torch.
    """

    domain: Domain = "simplex"
    evidence: Literal["exact", "numerical"] = "numerical"

    def __init__(self, function: Callable[[Tensor], Tensor], strictly_proper: bool = True, name: str = "") -> None:
        if not callable(function):
            raise ValueError(f"function: expected a callable S(p), got {type(function).__name__}")
        self.function = function
        self.strictly_proper = strictly_proper
        self.name = name or f"Bayes risk {getattr(function, '__name__', 'custom')}"

    def savage_losses(self, q: Tensor) -> Tensor:
        """Theorem 4: the losses (..., K) of all classes at probabilities q inside the simplex."""
        slope = self._slope(q)
        return (q * slope).sum(-1, keepdim=True) - self.function(q)[..., None] - slope

    def _slope(self, q: Tensor) -> Tensor:
        flat = q.reshape(-1, q.shape[-1])
        return torch.func.vmap(torch.func.grad(self.function))(flat).reshape(q.shape)

    def _value(self, v: Tensor) -> Tensor:
        p = self._maximiser(v)
        return (p * v).sum(-1) - self.function(p)  # p is held fixed: by the envelope theorem the gradient is p

    def _link(self, v: Tensor) -> Tensor:
        return self._maximiser(v)

    def _conjugate(self, q: Tensor) -> Tensor:
        return self.function(q)

    def _inverse_link(self, p: Tensor) -> Tensor:
        return centre(self._slope(_inside(p, self.name, open_set=True)))

    def _maximiser(self, v: Tensor) -> Tensor:
        """argmax over the simplex of <p, v> - S(p): Newton steps on the log-barrier problem, barrier -> 1e-13."""
        x = v.detach().reshape(-1, v.shape[-1]).double()
        K = x.shape[-1]
        p = torch.full_like(x, 1.0 / K)
        slope, curvature = (
            torch.func.vmap(torch.func.grad(self.function)),
            torch.func.vmap(torch.func.hessian(self.function)),
        )
        ones = torch.ones(K, 1, dtype=x.dtype).expand(len(x), K, 1)
        barrier = 1.0
        while barrier >= 1e-13:

            def objective(p: Tensor, barrier: float = barrier) -> Tensor:
                return self.function(p) - (p * x).sum(-1) - barrier * p.log().sum(-1)

            for _ in range(50):
                gradient = slope(p) - x - barrier / p
                H = curvature(p) + torch.diag_embed(barrier / p.square())
                solved = torch.linalg.solve(H, torch.cat([-gradient[..., None], ones], -1))
                step = solved[..., 0] - solved[..., 1] * (solved[..., 0].sum(-1) / solved[..., 1].sum(-1))[:, None]
                decrement = -(gradient * step).sum(-1)
                if bool((decrement <= 1e-20 + 1e-6 * barrier**2).all()):
                    break
                room = torch.where(step < 0, -p / step, math.inf).amin(-1)
                size = (0.99 * room).clamp_max(1.0)
                start = objective(p)
                for _ in range(40):
                    good = objective(p + size[:, None] * step) <= start + 1e-14 * start.abs()
                    if bool(good.all()):
                        break
                    size = torch.where(good, size, size / 2)
                p = p + size[:, None] * step
            barrier /= 10
        return (p / p.sum(-1, keepdim=True)).reshape(v.shape).to(v.dtype)
