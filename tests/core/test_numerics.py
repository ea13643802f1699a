"""Values and gradients where floating point is hard: ties, zeros, huge scores, common shifts, overflow."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

import tproper as tp
from tproper._core.numerics import project_simplex, simplex_threshold

SIMPLEX = [
    tp.LogSumExp(),
    tp.Tsallis(0.3),
    tp.Tsallis(0.9),
    tp.Tsallis(0.99),
    tp.Tsallis(1.01),
    tp.Tsallis(1.5),
    tp.Tsallis(2.5),
    tp.Tsallis(10),
    tp.Sparsemax(),
    tp.Brier(domain="simplex"),
    tp.Spherical(domain="simplex"),
    tp.Max(),
]
EXTREME = [[1.0, -1.0, 0.5, -0.5], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, -1.0, -1.0], [1.0, -1.0, -1.0, -1.0]]


def named(F):
    return F.name


@pytest.mark.parametrize("F", SIMPLEX, ids=named)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e3, 1e6])
def test_gradient_is_the_link_at_ties_and_extremes(F, dtype, size):
    v = (size * torch.tensor(EXTREME, dtype=dtype)).requires_grad_()
    (gradient,) = torch.autograd.grad(F.value(v).sum(), v)
    link = F.link(v)
    assert torch.isfinite(gradient).all()
    assert torch.allclose(gradient + (1 - gradient.sum(-1, keepdim=True)) / 4, link, atol=2e-6)
    assert torch.allclose(link.sum(-1), torch.ones(4, dtype=dtype), atol=1e-6)
    assert float(link.detach().min()) >= 0
    if link.requires_grad:
        (second,) = torch.autograd.grad((link * torch.arange(4)).sum(), v)
        assert torch.isfinite(second).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_projection_of_far_away_points(dtype):
    q = torch.tensor([[1e21, -1e21, 0.0], [1e6 + 0.5, 1e6, -1e6], [3e4, 3e4, 3e4]], dtype=dtype)
    p = project_simplex(q)
    assert torch.allclose(p.sum(-1), torch.ones(3, dtype=dtype))
    assert torch.allclose(p, torch.tensor([[1, 0, 0], [0.75, 0.25, 0], [1 / 3, 1 / 3, 1 / 3]], dtype=dtype), atol=1e-6)


def test_projection_of_many_classes_in_float32():
    v = torch.randn(4, 50_000, generator=torch.Generator().manual_seed(0))
    for q in (v, 0.01 * v, torch.where(v > 2.5, 0.0, -8.0)):
        exact = simplex_threshold(q.double())[:, 0]
        assert torch.allclose(simplex_threshold(q)[:, 0].double(), exact, atol=1e-5)


@pytest.mark.parametrize("make", [tp.BackwardLoss, tp.ForwardLoss])
@pytest.mark.parametrize("T", [tp.identity(6), tp.complementary(6), tp.symmetric_noise(6, 0.3), tp.pair_noise(6, 0.3)])
def test_a_common_shift_costs_no_digits(make, T):
    """Scores near 1e6 have a spacing of 1/16 in float32; their differences are exact, and so must be the loss."""
    v = torch.tensor([[0.0, 1.0, -2.0, 0.5, 0.25, 3.0]])
    y = torch.tensor([2])
    near, far = (make(T)(x.requires_grad_(), y) for x in (v.clone(), v + 1e6))
    assert far.item() == pytest.approx(near.item(), abs=2e-5)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.05, 1.5, 2.0, 3.0])
def test_squeezing_has_finite_derivatives_at_zero(alpha):
    F = tp.LogSumExp().squeezed(1.0, alpha, allow_improper=True)
    v = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(F.value(v).sum(), v, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum() + first[:, 0].sum(), v, retain_graph=True)
    (of_link,) = torch.autograd.grad(F.link(v)[:, 0].sum(), v)
    for x in (F.link(v), first, second, of_link):
        assert torch.isfinite(x).all()


def test_squeezing_beyond_float32_is_infinite_and_never_nan():
    v = torch.tensor([[1e6, 0.0, -1e6]])
    T, y = tp.complementary(3), torch.tensor([0])
    per_example = torch.as_tensor(T.matrix())[None]
    plain = tp.BackwardLoss(T, squeeze=(1.0, 7.0))
    weighted = tp.BackwardLoss(T, squeeze=(1.0, 7.0), class_weights=[1.0, 2.0, 1.5])
    for loss in (plain(v, y), plain(v, y, transitions=per_example), weighted(v, y)):
        assert torch.isposinf(loss)
    assert plain(v.double(), y).item() == pytest.approx(1e42, rel=1e-6)


@pytest.mark.parametrize("F", [F for F in SIMPLEX if F.domain == "simplex"], ids=named)
@pytest.mark.parametrize("K", [3, 7, 10])
def test_float32_probabilities_with_zeros_are_in_the_simplex(F, K):
    q = torch.full((K + 1,), 1 / K, dtype=torch.float32)
    q[-1] = 0
    assert torch.isfinite(F.conjugate(q))
    exact = F.conjugate(torch.tensor([1 / K] * K + [0.0], dtype=torch.float64)).item()
    assert F.conjugate(q).item() == pytest.approx(exact, rel=2e-2)  # Tsallis 0.3 sees (1e-8)^0.3 of rounding


def test_spherical_probabilities_outside_the_ball_are_their_limit():
    F = tp.Spherical()
    v = torch.tensor([[2.0, -1.0, -1.0], [1e6, 1e6, -2e6], [0.3, 0.1, -0.4]], dtype=torch.float64, requires_grad=True)
    p = F.probabilities(v)
    assert torch.allclose(p[:2], torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0]], dtype=torch.float64))
    assert torch.allclose(p[2], project_simplex(F.link(v))[2])
    surface = torch.tensor([[2.0, -1.0, -1.0]], dtype=torch.float64) / 6**0.5 * (1 - 1e-12)
    assert torch.allclose(F.probabilities(surface), p[:1].detach())
    (gradient,) = torch.autograd.grad(p[:, 0].sum(), v)
    assert torch.isfinite(gradient).all()


def test_forward_correction_of_impossible_labels_has_no_nan_gradient():
    v = torch.tensor([[0.0, -torch.inf, -torch.inf], [0.3, 0.1, 0.2]], requires_grad=True)
    loss = tp.ForwardLoss(tp.Transition(np.eye(3)), reduction="none")
    out = loss(v, [1, 1])
    assert torch.isposinf(out[0])
    out[1].backward()
    assert torch.isfinite(v.grad).all()


ENTROPY = tp.BayesRisk(lambda p: torch.xlogy(p, p).sum(-1))
CUSTOM = {
    "log-sum-exp": (tp.LogSumExp(), tp.ConvexPotential(lambda v: torch.logsumexp(v, -1), domain="simplex")),
    "Brier": (tp.Brier(), tp.ConvexPotential(lambda v: v.square().sum(-1) / 4 + 2 / 3, domain="affine")),
    "Bayes risk": (tp.LogSumExp(), ENTROPY),
}


@pytest.mark.parametrize(
    ("name", "alpha"),
    [*((n, a) for n in ("log-sum-exp", "Brier") for a in (1.0, 1.3, 2.0, 4.0)), ("Bayes risk", 1.3)],
)
def test_custom_potentials_squeeze_like_the_built_in_ones(name, alpha):
    q = torch.tensor([[0.7, 0.2, 0.1], [1.2, -0.15, -0.05], [0.34, 0.33, 0.33]], dtype=torch.float64)
    a, b = (F.squeezed(0.35, alpha).conjugate(q) for F in CUSTOM[name])
    assert torch.equal(torch.isinf(a), torch.isinf(b))
    assert torch.allclose(torch.nan_to_num(a, posinf=0), torch.nan_to_num(b, posinf=0), atol=1e-9)


def test_squeezing_twice_is_squeezing_with_the_sum():
    q = torch.tensor([[1.2, -0.15, -0.05], [0.5, 0.3, 0.2]], dtype=torch.float64)
    for alpha in (1.0, 2.0):
        twice = tp.LogSumExp().squeezed(0.3, alpha).squeezed(0.2, alpha)
        once = tp.LogSumExp().squeezed(0.5, alpha)
        assert torch.allclose(twice.conjugate(q), once.conjugate(q), atol=1e-8)
        assert twice.strictly_proper == once.strictly_proper


def test_a_kink_anywhere_in_the_chain_forbids_strictness():
    F = tp.LogSumExp().squeezed(0.3, 1.0).squeezed(0.2, 2.0)
    assert not F.strictly_proper


@pytest.mark.parametrize("k", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("alpha", [1.1, 1.7, 2.0, 7.0])  # others at random: test_random.py
def test_squeezed_inverse_links_of_every_base(k, alpha):
    """The gradient of F' at the claimed minimiser is q, for targets in and far outside the simplex."""
    q = torch.tensor([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0], [-1.0, 1.0, 1.0], [3.0, -0.5, -1.5]], dtype=torch.float64)
    bases = [tp.LogSumExp(), tp.Sparsemax(), tp.Tsallis(0.5), tp.Tsallis(3), tp.Brier(), tp.Spherical()]
    for base in [*bases, tp.Spherical(domain="simplex")]:
        F = base.squeezed(k, alpha)
        v = F.inverse_link(q)
        value = F.conjugate(q)
        assert torch.allclose((q * v).sum(-1) - F._value(v), value, rtol=1e-12, atol=1e-12)
        # Fenchel-Young at q' = link(v): rounding of v near zero is |1e-16|^(alpha - 1) in the link
        rounding = (1e-16 * v.abs().amax(-1)) ** min(1.0, alpha - 1)
        error = (F.link(v) - q).abs().amax(-1)
        assert (error <= 1e-9 * (1 + q.abs().amax(-1)) + 10 * k * alpha * rounding + 1e-16 * v.abs().amax(-1)).all()


def test_second_derivatives():
    y = torch.tensor([0, 2, 1])
    v = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    losses = [tp.BackwardLoss(tp.complementary(4), squeeze=(0.5, 2)), tp.ForwardLoss(tp.complementary(4))]
    losses += [tp.BackwardLoss(tp.pair_noise(4, 0.2), tp.Tsallis(1.5)), tp.ForwardLoss(tp.pair_noise(4, 0.2))]
    for loss in losses:
        assert torch.autograd.gradgradcheck(lambda v, loss=loss: loss(v, y), v)
    q = torch.tensor([[1.2, -0.15, -0.05]], dtype=torch.float64, requires_grad=True)
    F = tp.LogSumExp().squeezed(1.0, 1.5)
    assert torch.autograd.gradcheck(F.conjugate, q)
    assert torch.autograd.gradgradcheck(F.conjugate, q)
    assert torch.autograd.gradcheck(F.inverse_link, q)


def weighted_gini(p):
    return (torch.linspace(1, 2, 3, dtype=p.dtype) * p * (p - 1)).sum(-1) + 0.1 * torch.xlogy(p, p).sum(-1)


def test_bayes_risks_are_differentiable_twice():
    F, v = tp.BayesRisk(weighted_gini), torch.tensor([[0.2, -0.1, 0.3]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(F.link, v, fast_mode=True)
    assert torch.autograd.gradgradcheck(F.value, v, fast_mode=True)


def test_near_singular_transitions_keep_their_inverse():
    for gap in (1e-3, 1e-6, 1e-9):
        T = tp.Transition((1 - gap) / 3 * np.ones((3, 3)) + gap * np.eye(3))
        with pytest.warns(tp.ConditioningWarning) if gap < 1e-7 else nullcontext():
            R = T.reconstruction()
        assert R.residual < 1e-6
        assert np.allclose(R.matrix(), (np.eye(3) - 1 / 3) / gap + 1 / 3, rtol=1e-5)
