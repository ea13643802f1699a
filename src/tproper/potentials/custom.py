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

from .._core import centre, centred_solve, checks
from ..errors import InputError
from .base import Domain, Potential, checked_domain, inside_domain
from .conjugates import newton_minimiser
from .dual import DualSide

LAST_BARRIER = 9e-14  # of the interior-point method behind `BayesRisk`: p is that close to a face it belongs on


class ConvexPotential(Potential):
    """A potential of your own: a convex F on centred scores, ``F(v): (..., K) -> (...)``, written in torch.

    Parameters
    ----------
    function : callable
        F at centred scores; must be convex, with ``F(v) - max v`` bounded from below. `tproper.certify` tests this.
        Kinks (of max, abs, relu) are allowed: values and losses are those of the formula, the link is one fixed
        subgradient (autograd's), and the loss is proper, but not strictly: probabilities share a minimiser there, which
        the certificate shows. Conjugates, bounds and inverse links beyond kinks are found by the ellipsoid method, up
        to 16 classes; above, `NotComputedError` says so.
    domain : "simplex" or "affine"
        Where F* is finite: "affine" if F grows faster than linearly, "simplex" if it grows like max v.
    strictly_proper : bool
        Whether F* is strictly convex on the simplex: so for every differentiable F whose gradients fill its interior.
    name : str
        What messages call it.

    Examples
    --------
    >>> import tproper as tp
    >>> quartic = tp.ConvexPotential(lambda v: v.pow(4).sum(-1) / 4, domain="affine", name="quartic")
    >>> bool(tp.BackwardLoss(tp.complementary(3), quartic).certify().lower_bounded)
    True
    """

    evidence: Literal["exact", "numerical"] = "numerical"
    symmetric = False

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        domain: Domain,
        strictly_proper: bool = True,
        name: str = "",
    ) -> None:
        if not callable(function):
            raise InputError(f"function: expected a callable F(v), got {type(function).__name__}")
        self.function = function
        self.domain = checked_domain(domain)
        self.strictly_proper = strictly_proper
        self.name = name or getattr(function, "__name__", "custom")
        self._grown: set[int] = set()  # numbers of classes for which the growth of F has been compared with `domain`

    def _value(self, v: Tensor) -> Tensor:
        return self.function(v)

    def check_growth(self, K: int) -> None:
        """Refuse a `domain` that F's growth contradicts: F* would be called finite where it is not, or the reverse.

        F* is finite on the simplex alone iff F has the recession function max v, and everywhere iff F grows faster than
        linearly along every ray; a hundred rays are followed to ||v|| = 1e4.
        """
        if K in self._grown:
            return
        generator = torch.Generator().manual_seed(0)
        rays = centre(torch.randn(100, K, generator=generator, dtype=torch.float64))
        rays = torch.cat([rays, centre(torch.eye(K, dtype=torch.float64)), -centre(torch.eye(K, dtype=torch.float64))])
        rays = rays / rays.abs().amax(-1, keepdim=True)

        def slope(t: float) -> Tensor:
            return (self._value(t * rays) - self._value(t / 2 * rays)).nan_to_num(nan=math.inf) / (t / 2)

        near, far = slope(1e2), slope(1e4)
        # alpha = 1.01 gains 5 % from 1e2 to 1e4; log-sum-exp is linear to 1e-16 there
        linear = far.isfinite() & (far <= near + 0.01 * near.abs() + 1e-6)
        like_max = linear & ((far - rays.amax(-1)).abs() <= 0.01)
        wrong = ~like_max if self.domain == "simplex" else linear
        if bool(wrong.any()):
            i = int(wrong.nonzero()[0])
            grows = f"like {float(far[i]):.4g} t" if bool(linear[i]) else "faster than linearly"
            shown = checks.short([round(x, 3) for x in rays[i].tolist()])
            if bool(like_max.all()) or not bool(linear.any()):
                rule = f"{'simplex' if bool(like_max.all()) else 'affine'!r}"
            else:
                rule = "growth like max v ('simplex') or faster than linear ('affine') along every ray"
            raise InputError(
                f"domain: expected {rule}, got {self.domain!r} for {self.name}, which grows {grows} along t * {shown}"
            )
        self._grown.add(K)

    def _conjugate(self, q: Tensor) -> Tensor:
        self.check_growth(q.shape[-1])
        flat = q.reshape(-1, q.shape[-1]).double()
        inside = (flat.detach() >= 0).all(-1) if self.domain == "simplex" else torch.ones(len(flat), dtype=torch.bool)
        value = torch.full_like(flat[:, 0], math.inf)
        if bool(inside.any()):
            v = newton_minimiser(self, flat[inside])
            value = value.masked_scatter(inside, (flat[inside] * v).sum(-1) - self._value(v))
        return value.reshape(q.shape[:-1]).to(q.dtype)

    def _inverse_link(self, p: Tensor) -> Tensor:
        return newton_minimiser(self, p.reshape(-1, p.shape[-1]).double()).reshape(p.shape).to(p.dtype)


class BayesRisk(Potential):
    """A potential of your own, given by the negative Bayes risk S of a proper loss: ``F(v) = max_p <p, v> - S(p)``.

    The Savage representation (Theorem 4) writes the same loss on probabilities,
    ``l(q, z) = -S'(q)_z + <q, S'(q)> - S(q)``; `savage_losses` gives that, and the two agree: ``l(q, z) = F(v) - v_z``
    at ``v = inverse_link(q)``.

    Parameters
    ----------
    function : callable
        S(p): (..., K) -> (...), convex on the simplex and twice differentiable inside it, written in torch.
    strictly_proper : bool
        Whether S is strictly convex.
    name : str
        What messages call it.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> risk = tp.BayesRisk(lambda p: (p * p.log()).sum(-1), name="Shannon")
    >>> q = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    >>> bool(torch.allclose(risk.savage_losses(q), -q.log()))  # the log score
    True
    """

    domain: Domain = "simplex"
    evidence: Literal["exact", "numerical"] = "numerical"
    symmetric = False

    def __init__(self, function: Callable[[Tensor], Tensor], strictly_proper: bool = True, name: str = "") -> None:
        if not callable(function):
            raise InputError(f"function: expected a callable S(p), got {type(function).__name__}")
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

    def hessian(self, q: Tensor) -> Tensor:
        """The Hessians of S at rows q, by two backward passes: torch has no forward mode within forward mode."""
        return torch.func.vmap(torch.func.jacrev(torch.func.grad(self.function)))(q)

    def _value(self, v: Tensor) -> Tensor:
        out: Tensor = DualSide.apply(v, self)[0]
        return out

    def _link(self, v: Tensor) -> Tensor:
        out: Tensor = DualSide.apply(v, self)[1]
        return out

    def _conjugate(self, q: Tensor) -> Tensor:
        return self.function(q)

    def _inverse_link(self, p: Tensor) -> Tensor:
        return centre(self._slope(inside_domain(p, self.name, open_set=True)))

    def jacobian_product(self, p: Tensor, x: Tensor) -> Tensor:
        """``(H^-1 - H^-1 1 1^T H^-1 / 1^T H^-1 1) x``, H the Hessian of S and of the last barrier at p."""
        flat, rows = (t.reshape(-1, t.shape[-1]).double() for t in (p, x))
        H = self.hessian(flat) + torch.diag_embed(LAST_BARRIER / flat.square())
        return centred_solve(H, rows).reshape(x.shape).to(x.dtype)

    def maximiser(self, v: Tensor) -> Tensor:
        """argmax over the simplex of <p, v> - S(p): Newton steps on log-barrier problems, barrier -> 1e-13."""
        x = v.detach().reshape(-1, v.shape[-1]).double()
        lost = ~x.isfinite().all(-1, keepdim=True)  # no steps would settle there, and all other rows wait for them
        x = x.masked_fill(lost, 0.0)
        p = torch.full_like(x, 1.0 / x.shape[-1])
        barrier = 1.0
        while barrier >= LAST_BARRIER:
            close = 1e-2 if barrier / 10 >= LAST_BARRIER else 1e-16  # only the last problem is solved to the end

            def objective(p: Tensor, barrier: float = barrier) -> Tensor:
                return self.function(p) - (p * x).sum(-1) - barrier * p.log().sum(-1)

            for _ in range(50):
                gradient = self._slope(p) - x - barrier / p
                step = centred_solve(self.hessian(p) + torch.diag_embed(barrier / p.square()), -gradient)
                decrement = -(centre(gradient) * step).sum(-1)  # the multiplier of sum p = 1 would only add rounding
                if bool((decrement <= close * barrier).all()):
                    break
                room = torch.where(step < 0, -p / step, math.inf).amin(-1)
                size = (0.99 * room).clamp_max(1.0)
                start = objective(p)
                for _ in range(40):
                    good = objective(p + size[:, None] * step) <= start + 1e-14 * start.abs()
                    good |= decrement <= 1e-13 * (1 + start.abs())  # below its rounding the objective cannot judge
                    if bool(good.all()):
                        break
                    size = torch.where(good, size, size / 2)
                p = p + size[:, None] * step
            barrier /= 10
        return (p / p.sum(-1, keepdim=True)).masked_fill(lost, math.nan).reshape(v.shape).to(v.dtype)
