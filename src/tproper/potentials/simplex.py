"""The named potentials: log-sum-exp, Tsallis, Brier, sparsemax, spherical, max."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .._core import centre, checks, entmax, project_simplex, spherical_threshold
from ..errors import InputError
from .base import Domain, Potential, Separable, checked_domain, floating, inside_domain
from .dual import dual_side


class LogSumExp(Separable):
    """Cross entropy: ``F(v) = log sum_z exp v_z``. The link is softmax, and ``F*(p) = sum p log p``.

    Examples
    --------
    >>> import math, torch, tproper as tp
    >>> F = tp.LogSumExp()
    >>> round(F.value(torch.zeros(3)).item() - math.log(3), 5)
    0.0
    >>> F.link(torch.tensor([0.0, math.log(3)])).round(decimals=4)
    tensor([0.2500, 0.7500])
    """

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

    def _inverse_link(self, p: Tensor) -> Tensor:
        return centre(inside_domain(p, self.name, open_set=True).log())

    def _phi(self, p: Tensor) -> Tensor:
        return torch.xlogy(p.clamp_min(0), p.clamp_min(0))

    def _density(self, s: Tensor) -> tuple[Tensor, Tensor]:
        p = s.exp()
        return p, p

    def _density_range(self, K: int) -> tuple[float, float]:
        return -math.log(K), 0.0

    def _counted_link(self, v: Tensor, count: Tensor) -> Tensor:
        p = (v - v.amax(-1, keepdim=True)).exp()
        return p / (count * p).sum(-1, keepdim=True)

    def _curvature(self, p: Tensor) -> Tensor:
        return p


class SparsePotential(Separable):
    """Potentials known by their conjugate on the simplex; their links may be sparse.

    ``F(v) = <p, v> - F*(p)`` with p = `maximiser`, so dF = p exactly, whatever branch the maximiser took, and the
    link's Jacobian is symmetric with zero column sums, at scores on the edge of the support too.
    """

    domain: Domain = "simplex"

    def _value(self, v: Tensor) -> Tensor:
        return dual_side(v, self)[0]

    def _link(self, v: Tensor) -> Tensor:
        return dual_side(v, self)[1]

    @abstractmethod
    def maximiser(self, v: Tensor) -> Tensor:
        """argmax over the simplex of <p, v> - F*(p)."""

    def jacobian_product(self, p: Tensor, x: Tensor) -> Tensor:
        """``(diag(s) - s s^T / sum s) x``, s the curvature at p: the link's Jacobian."""
        s = self._curvature(p)
        return s * (x - (s * x).sum(-1, keepdim=True) / s.sum(-1, keepdim=True))


@torch.library.custom_op("tproper::entmax", mutates_args=())
def _traced_entmax(v: Tensor, a: float) -> Tensor:
    """`entmax` as one node of a graph: a compiler cannot follow its search for a root."""
    return entmax(v, a)


@_traced_entmax.register_fake
def _(v: Tensor, a: float) -> Tensor:
    return torch.empty_like(v)


def _keep_entmax(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.a = inputs[1]
    ctx.save_for_backward(output)


def _entmax_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    (p,) = ctx.saved_tensors
    return Tsallis(ctx.a).jacobian_product(p, grad), None


_traced_entmax.register_autograd(_entmax_backward, setup_context=_keep_entmax)


class Tsallis(SparsePotential):
    """Tsallis entropies: ``F*(p) = (sum p^a - 1) / (a (a - 1))``. a -> 1 is log-sum-exp, a = 2 sparsemax.

    Link: ``p_z = ((a-1)(v_z - lambda))_+^(1/(a-1))`` with lambda such that it sums to one. For a > 1 it has zeros. For
    large a, ``v^(1/(a-1))`` is nearly a step: bounds of the squeezed potential are then found by roots within roots.

    Parameters
    ----------
    a : float
        From above 0 to 64, other than 1.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> p = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    >>> F = tp.Tsallis(1.5)
    >>> bool(torch.allclose(F.link(F.inverse_link(p)), p))
    True
    """

    def __init__(self, a: float) -> None:
        self.a = checks.real(a, "a", 0, 64, low_open=True)
        if abs(self.a - 1) < 1e-4:
            raise InputError(f"a: expected a number at least 0.0001 away from 1, where it is LogSumExp(), got {a!r}")
        self.name = f"Tsallis({self.a:g})"
        self.steep = self.a > 3

    def maximiser(self, v: Tensor) -> Tensor:
        """argmax over the simplex of <p, v> - F*(p)."""
        return _traced_entmax(v, self.a) if torch.compiler.is_compiling() else entmax(v, self.a)

    def _inverse_link(self, p: Tensor) -> Tensor:
        p = inside_domain(p, self.name, open_set=self.a < 1).clamp_min(0)
        return centre(self._inverse_density(p)[0])

    def _phi(self, p: Tensor) -> Tensor:
        return (p.clamp_min(0).pow(self.a) - p) / (self.a * (self.a - 1))

    def _density(self, s: Tensor) -> tuple[Tensor, Tensor]:
        p = ((self.a - 1) * s).clamp_min(0).pow(1 / (self.a - 1))
        return p, torch.where(p > 0, p.pow(2 - self.a), torch.zeros_like(p))

    def _inverse_density(self, p: Tensor) -> tuple[Tensor, Tensor]:
        return p.pow(self.a - 1) / (self.a - 1), p.pow(self.a - 2)

    def _density_range(self, K: int) -> tuple[float, float]:
        return K ** (1 - self.a) / (self.a - 1), 1 / (self.a - 1)

    def _curvature(self, p: Tensor) -> Tensor:
        tiny = torch.finfo(p.dtype).tiny  # 0^(2-a) is infinite for a > 2
        return torch.where(p > 0, p.clamp_min(tiny).pow(2 - self.a), torch.zeros_like(p))


class QuadraticPotential(SparsePotential):
    """``F*(p) = c (||p||^2 - 1)`` on the simplex, c = `scale`; link: projection of v / 2c."""

    scale: float

    def maximiser(self, v: Tensor) -> Tensor:
        """The projection of v / 2c."""
        return project_simplex(v / (2 * self.scale))

    def _inverse_link(self, p: Tensor) -> Tensor:
        if self.domain == "simplex":
            inside_domain(p, self.name, open_set=False)
        return 2 * self.scale * centre(p)

    def _phi(self, p: Tensor) -> Tensor:
        return self.scale * (p.square() - p)

    def _density(self, s: Tensor) -> tuple[Tensor, Tensor]:
        return (s / (2 * self.scale)).clamp_min(0), (s > 0).to(s.dtype) / (2 * self.scale)

    def _density_range(self, K: int) -> tuple[float, float]:
        return 2 * self.scale / K, 2 * self.scale

    def _curvature(self, p: Tensor) -> Tensor:
        return (p > 0).to(p.dtype) / (2 * self.scale)


class Brier(QuadraticPotential):
    """The Brier score: the loss is ``||q - e_z||^2``, and ``F*(p) = ||p||^2 - 1``.

    Parameters
    ----------
    domain : "affine" or "simplex"
        "affine" takes the conjugate over all p that sum to one: ``F(v) = ||v||^2/4 + 1 - 1/K``, link ``1/K + v/2``;
        every backward loss made of it is bounded, whatever R. "simplex" restricts p to the simplex: link
        ``projection(v/2)``, the same loss at probabilities, bounded only for targets in the simplex.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> F = tp.Brier()
    >>> F.link(torch.tensor([0.5, -0.5]))
    tensor([0.7500, 0.2500])
    >>> bool(tp.BackwardLoss(tp.complementary(3), F).certify().lower_bounded)
    True
    """

    scale = 1.0

    def __init__(self, domain: Domain = "affine") -> None:
        self.domain = checked_domain(domain)
        self.name = f"Brier ({domain})"

    def _value(self, v: Tensor) -> Tensor:
        if self.domain == "simplex":
            return super()._value(v)
        return v.masked_fill(v.isneginf(), 0.0).square().sum(-1) / 4 + 1 - 1 / _present(v)[..., 0]

    def _link(self, v: Tensor) -> Tensor:
        if self.domain == "simplex":
            return super()._link(v)
        return (1 / _present(v) + v / 2).masked_fill(v.isneginf(), 0.0)


def _present(v: Tensor) -> Tensor:
    """How many classes there are (..., 1): those of score -inf (masks) have left."""
    return (~v.isneginf()).sum(-1, keepdim=True).to(v.dtype)


class Sparsemax(QuadraticPotential):
    """Half a Brier score on the simplex: ``F*(p) = (||p||^2 - 1)/2``. The link is the projection of v, which has zeros.

    It is `Tsallis` with a = 2.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> tp.Sparsemax().link(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.7500, 0.2500, 0.0000])
    """

    name = "sparsemax"
    scale = 0.5


class Spherical(Potential):
    """The spherical score: the loss is ``1 - q_z / ||q||``, and ``F*(p) = ||p|| - 1``.

    Parameters
    ----------
    domain : "affine" or "simplex"
        "affine": ``F(v) = 1 - sqrt((1 - ||v||^2)/K)`` on the ball ||v|| <= 1, ``inf`` outside, where there is no link
        (it is NaN) and `probabilities` are their limit at the surface, all on the largest score: keep scores inside the
        ball. "simplex": ``F(v) = 1 + tau`` with ``sum (v_z - tau)_+^2 = 1``, finite everywhere, link ``(v - tau)_+``
        normalised.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> F = tp.Spherical("simplex")
    >>> v = F.inverse_link(torch.tensor([0.6, 0.4], dtype=torch.float64))
    >>> F.link(v).round(decimals=4).tolist()
    [0.6, 0.4]
    """

    def __init__(self, domain: Domain = "affine") -> None:
        self.domain = checked_domain(domain)
        self.name = f"spherical ({domain})"
        self.radius = 1.0 if self.domain == "affine" else math.inf

    def _value(self, v: Tensor) -> Tensor:
        if self.domain == "simplex":
            return 1 + spherical_threshold(v)[..., 0]
        room = 1 - v.square().sum(-1)
        inside = room >= 0
        return torch.where(inside, 1 - (torch.where(inside, room, 1.0) / v.shape[-1]).sqrt(), math.inf)

    def _link(self, v: Tensor) -> Tensor:
        if self.domain == "simplex":
            v = v - v.amax(-1, keepdim=True).detach()  # the link does not see a shift, but rounding does
            u = torch.relu(v - spherical_threshold(v))
            return u / u.sum(-1, keepdim=True)
        K = v.shape[-1]
        return 1 / K + v / (K * (1 - v.square().sum(-1, keepdim=True))).sqrt()

    def probabilities(self, v: Tensor) -> Tensor:
        """The link projected onto the simplex; outside the ball its limit, all on the largest score."""
        if self.domain == "simplex":
            return self.link(v)
        v = centre(floating(v, "v"))
        outside = v.square().sum(-1, keepdim=True) >= 1
        limit = (v == v.amax(-1, keepdim=True)).to(v.dtype)
        inside = project_simplex(self._link(torch.where(outside, 0.0, v)))
        return torch.where(outside, limit / limit.sum(-1, keepdim=True), inside)

    def _conjugate(self, q: Tensor) -> Tensor:
        return torch.linalg.vector_norm(q, dim=-1) - 1

    def _inverse_link(self, p: Tensor) -> Tensor:
        if self.domain == "simplex":
            inside_domain(p, self.name, open_set=False)
        return centre(p / torch.linalg.vector_norm(p, dim=-1, keepdim=True))


class Max(Separable):
    """``F(v) = max_z v_z``: the smallest potential there is, proper but not strictly proper. ``F* = 0`` on the simplex.

    Its loss tells only which class is the likeliest; the link spreads evenly over ties.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> tp.Max().link(torch.tensor([2.0, 2.0, 0.0]))
    tensor([0.5000, 0.5000, 0.0000])
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

    def _inverse_link(self, p: Tensor) -> Tensor:
        return torch.zeros_like(inside_domain(p, self.name, open_set=False))

    def _phi(self, p: Tensor) -> Tensor:
        return torch.zeros_like(p)

    def _density(self, s: Tensor) -> tuple[Tensor, Tensor]:
        return (s > 0).to(s.dtype), torch.zeros_like(s)  # a step: anything between 0 and 1 at s = 0

    def _density_range(self, K: int) -> tuple[float, float]:
        return 0.0, 0.0

    def _curvature(self, p: Tensor) -> Tensor:
        return torch.zeros_like(p)
