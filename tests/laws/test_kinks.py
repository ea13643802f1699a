"""Convex potentials with kinks: values, losses, conjugates, bounds are right; strictness is denied with a proof."""

import numpy as np
import pytest
import torch
from refusals import refused
from scipy.optimize import linprog

import tproper as tp
from tproper.potentials.conjugates import NotComputedError
from tproper.potentials.kinks import MOST_CLASSES, ellipsoid_minimiser

KINKED = {
    "max": (lambda v: v.amax(-1), "simplex"),
    "max and square": (lambda v: v.abs().amax(-1) + v.square().sum(-1) / 4, "affine"),
    "abs": (lambda v: torch.logsumexp(v, -1) + (v - 0.3).abs().sum(-1) / 8 + v.square().sum(-1) / 8, "affine"),
    "larger of two": (lambda v: torch.maximum(torch.logsumexp(v, -1), v.amax(-1) + 1.0), "simplex"),
}


def potential(name):
    function, domain = KINKED[name]
    return tp.ConvexPotential(function, domain=domain, name=name)


def draw(n, K, seed=0, scale=1.0):
    return torch.as_tensor(scale * np.random.default_rng(seed).standard_normal((n, K)))


def targets(domain, n, K):
    """Probabilities for potentials on the simplex, and for the others also points beyond it."""
    q = torch.as_tensor(np.random.default_rng(1).dirichlet(np.ones(K), n))
    return q if domain == "simplex" else q + 0.3 * (q.flip(0) - q)


@pytest.mark.parametrize("name", KINKED)
def test_losses_are_those_of_the_formula(name):
    function, domain = KINKED[name]
    T = tp.symmetric_noise(3, 0.2)
    loss = tp.BackwardLoss(T, potential=tp.ConvexPotential(function, domain=domain), reduction="none")
    v = (draw(50, 3) * 4).round() / 4  # many ties
    labels = torch.arange(50) % 3
    centred = v - v.mean(-1, keepdim=True)
    target = torch.as_tensor(T.reconstruction().targets(labels))
    assert torch.allclose(loss(v, labels), function(centred) - (target * centred).sum(-1))


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("K", [2, 4])
def test_fenchel_young_at_kinks(name, K):
    """F*(q) >= <q, v> - F(v) everywhere, with equality at the inverse link, which is also the slope of F*."""
    F = potential(name)
    q = targets(F.domain, 3, K).requires_grad_()
    value = F.conjugate(q)
    (slope,) = torch.autograd.grad(value.sum(), q)
    best = F.inverse_link(q.detach())
    value = value.detach()
    q = q.detach()
    assert torch.allclose(value, (q * best).sum(-1) - F.value(best), atol=1e-8)
    assert torch.allclose(slope - slope.mean(-1, keepdim=True), best, atol=1e-5)
    for size in (1e-3, 0.1, 2.0):  # nowhere is there a better score, near or far
        v = best[:, None] + draw(500, K, seed=2, scale=size)
        assert ((q[:, None] * (v - v.mean(-1, keepdim=True))).sum(-1) - F.value(v) <= value[:, None] + 1e-9).all()


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("name", KINKED)
def test_fenchel_young_squeezed(name, alpha):
    F = potential(name).squeezed(0.5, alpha)
    q = targets("affine" if alpha > 1 else F.domain, 3, 3)
    value, best = F.conjugate(q), F.inverse_link(q)
    assert torch.allclose(value, (q * best).sum(-1) - F.value(best), atol=1e-7)
    for size in (1e-3, 0.1, 2.0):
        v = best[:, None] + draw(500, 3, seed=2, scale=size)
        assert ((q[:, None] * (v - v.mean(-1, keepdim=True))).sum(-1) - F.value(v) <= value[:, None] + 1e-8).all()


def test_polyhedral_conjugates_are_linear_programs():
    """F(v) = max over rows a of <a, v> + b: F*(q) is the least -<b, w> with weights w of the rows that give q."""
    rng = np.random.default_rng(3)
    K, pieces = 4, 12
    rows = np.vstack([np.eye(K), rng.dirichlet(np.ones(K), pieces - K)])
    offsets = rng.standard_normal(pieces) * 0.3
    A, b = torch.as_tensor(rows), torch.as_tensor(offsets)
    F = tp.ConvexPotential(lambda v: (v @ A.T + b).amax(-1), domain="simplex")
    q = rng.dirichlet(np.ones(K), 5)
    for target, value in zip(q, F.conjugate(torch.as_tensor(q)), strict=True):
        program = linprog(-offsets, A_eq=np.vstack([rows.T, np.ones(pieces)]), b_eq=[*target, 1.0])
        assert float(value) == pytest.approx(program.fun, abs=1e-8)


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("K", [2, 3])
def test_a_certificate_shows_two_probabilities_that_share_a_minimiser(name, K):
    """Proper, not strictly: both are best served by the same score, by Fenchel and Young's equality."""
    F = potential(name)
    certificate = tp.certify(tp.BackwardLoss(tp.symmetric_noise(K, 0.2), potential=F))
    assert certificate.proper
    assert not certificate.strictly_proper
    assert any("F is not differentiable: proper, but probabilities share a minimiser" in n for n in certificate.notes)
    p, q, v = (torch.as_tensor(certificate.counterexample[key]) for key in ("p", "q", "v"))
    assert float((p - q).abs().max()) > 1e-4
    for x in (p, q):
        assert float(F.value(v) + F.conjugate(x) - x @ v) == pytest.approx(0, abs=1e-6)
        assert float(x.min()) >= 0
    bounds = certificate.bounds
    assert not np.isnan(bounds).any()
    assert certificate.lower_bounded == (F.domain == "affine")


def test_a_smooth_potential_has_no_kink():
    smooth = tp.ConvexPotential(lambda v: v.pow(4).sum(-1) / 4 + 50 * v.square().sum(-1), domain="affine")
    certificate = tp.certify(tp.BackwardLoss(tp.symmetric_noise(3, 0.2), potential=smooth))
    assert certificate.strictly_proper
    assert certificate.counterexample is None


def test_a_kink_outside_the_simplex_changes_nothing():
    """relu(1 + v) bends where p would be negative: no probabilities share a minimiser."""
    F = tp.ConvexPotential(lambda v: torch.relu(1 + v).sum(-1) / 3 + v.square().sum(-1) / 10, domain="affine")
    assert tp.certify(tp.BackwardLoss(tp.symmetric_noise(6, 0.2), potential=F)).strictly_proper


def test_the_link_at_a_kink_is_one_fixed_subgradient():
    F = potential("max")
    v = torch.zeros(3, dtype=torch.float64)
    p = F.link(v)
    assert torch.equal(p, F.link(v))
    w = draw(100, 3)
    w = w - w.mean(-1, keepdim=True)
    assert (F.value(w) >= F.value(v) + (p * (w - v)).sum(-1) - 1e-12).all()


def test_where_the_search_ends_it_is_said():
    K = MOST_CLASSES + 1
    F = potential("max and square")
    q = torch.full((1, K), 1.0 / K, dtype=torch.float64) + torch.linspace(-0.01, 0.01, K, dtype=torch.float64)
    message = r"the search stopped at a duality gap of .*; is F convex\? At kinks .* at most 16 classes"
    with pytest.raises(NotComputedError, match=message):
        F.conjugate(q)
    certificate = tp.certify(tp.BackwardLoss(tp.symmetric_noise(K, 0.2), potential=F))
    assert certificate.proper
    assert not certificate.strictly_proper
    assert any(n.startswith("strictness was not decided: conjugate: numerical") for n in certificate.notes)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_ellipsoid_method_bounds_its_own_error(n):
    """Against the known minimum of |v - c| and its square, wherever c is."""
    zero = torch.zeros(1, n + 1, dtype=torch.float64)
    c = draw(1, n + 1, scale=3.0)
    c = c - c.mean(-1, keepdim=True)
    v, gap = ellipsoid_minimiser(lambda x: (x - c).abs().sum(-1) + (x - c).square().sum(-1), zero, zero)
    assert float(gap) <= 1e-10
    assert torch.allclose(v, c, atol=1e-8)


def test_a_minimum_beyond_all_balls_is_not_claimed():
    v = torch.zeros(1, 3, dtype=torch.float64)
    _, gap = ellipsoid_minimiser(lambda x: torch.exp(-x[:, 0] / 1e5), torch.zeros(1, 3).double(), v)
    assert float(gap) == float("inf")


def test_beyond_the_domain_of_a_potential_nothing_is_claimed():
    """An infinite value says nothing about the minimum: it used to count as a lower bound on it."""
    ball = tp.ConvexPotential(lambda v: tp.Spherical()._value(v), domain="affine", name="a ball")
    q = 5 * draw(12, 5)
    _, gap = ellipsoid_minimiser(ball.squeezed(5.0, 4.0)._value, q, torch.full_like(q, 0.1).cumsum(-1))
    assert (gap > 1e-9).all()


def test_a_minimum_at_infinity_is_not_claimed_for_rounding():
    """At the critical k the loss falls towards 0 for ever, along a valley that no ellipsoid keeps the width of."""
    q = torch.tensor([[1.2, -0.15, -0.05]], dtype=torch.float64)
    v, gap = ellipsoid_minimiser(tp.LogSumExp().squeezed(0.35, 1.0)._value, q, torch.zeros_like(q))
    error = float(tp.LogSumExp().squeezed(0.35, 1.0).value(v) - (q * v).sum())
    assert 0 <= error <= float(gap)


@pytest.mark.parametrize("K", [2, 5])
def test_a_potential_that_is_infinite_outside_a_ball_grows_faster_than_linearly(K):
    """Its conjugate is finite everywhere; it used to be refused as one that "grows like inf t"."""
    F = tp.ConvexPotential(lambda v: tp.Spherical()._value(v), domain="affine", name="a ball")
    q = draw(5, K)
    torch.testing.assert_close(F.conjugate(q), tp.Spherical().conjugate(q), rtol=1e-9, atol=1e-9)
    wrong = tp.ConvexPotential(F.function, domain="simplex", name="a ball")
    with refused("domain"):
        wrong.conjugate(q)
