"""Laws of F: Fenchel-Young, links, conjugates, extremes."""

import math

import numpy as np
import pytest
import torch

import tproper as tp
from tproper._core import numerics

from . import laws
from .registry import POTENTIALS, SMOOTH, SYMMETRIC, centred, inside

EVERY = pytest.mark.parametrize("name", POTENTIALS)


@EVERY
def test_fenchel_young(name):
    laws.fenchel_young(POTENTIALS[name](), 4)


@pytest.mark.parametrize("name", SMOOTH)
def test_link_is_the_gradient(name):
    laws.link_is_the_gradient(POTENTIALS[name](), 4)


@EVERY
def test_inverse_link_inverts(name):
    laws.inverse_link_inverts(POTENTIALS[name](), 4)


@EVERY
def test_links_sum_to_one_and_probabilities_lie_in_the_simplex(name):
    F, v = POTENTIALS[name](), centred(20, 5, seed=1)
    assert (F.link(v).sum(-1) - 1).abs().max() < 1e-9
    laws.probabilities_lie_in_the_simplex(F, 5)


@EVERY
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_scores_that_are_not_numbers_have_no_probabilities(name, dtype):
    """A model that has diverged is not to look like one that says 0 to every class."""
    v = torch.tensor([[math.nan, 0.0, 1.0], [math.nan] * 3, [math.inf, 0.0, 0.0], [1.0, 0.0, 0.0]], dtype=dtype)
    p = POTENTIALS[name]().probabilities(v)
    assert p[:3].isnan().all()
    assert p[3].isfinite().all()


@pytest.mark.parametrize("name", SYMMETRIC)
def test_all_of_them_agree_on_the_likeliest_class(name):
    F, v = POTENTIALS[name](), centred(20, 5, seed=2)
    best = F.probabilities(v).gather(-1, v.argmax(-1, keepdim=True))[:, 0]
    assert torch.allclose(best, F.probabilities(v).amax(-1))


@EVERY
def test_potentials_do_not_see_a_shift(name):
    laws.shifts_change_nothing(POTENTIALS[name](), 4)


@EVERY
def test_convexity_and_condition_1(name):
    F = POTENTIALS[name]()
    a, b = centred(40, 4, seed=3), centred(40, 4, seed=4)
    assert (F.value((a + b) / 2) <= (F.value(a) + F.value(b)) / 2 + 1e-8).all()
    assert (F.value(a) - a.amax(-1)).min() > -2  # bounded from below


@pytest.mark.parametrize("name", [n for n in POTENTIALS if POTENTIALS[n]().domain == "simplex"])
def test_outside_the_simplex_the_conjugate_is_infinite(name):
    F = POTENTIALS[name]()
    q = torch.tensor([[1.2, -0.1, -0.1], [0.5, 0.3, 0.2]], dtype=torch.float64)
    assert torch.isposinf(F.conjugate(q)).tolist() == [True, False]


@pytest.mark.parametrize("name", SMOOTH)
def test_gradcheck(name):
    laws.derivatives_by_finite_differences(POTENTIALS[name](), 4)


@pytest.mark.parametrize("name", [n for n in POTENTIALS if POTENTIALS[n]().evidence == "exact"])
def test_the_conjugate_s_gradient_is_the_inverse_link(name):
    F, p = POTENTIALS[name](), inside(4, 4).requires_grad_()
    (gradient,) = torch.autograd.grad(F.conjugate(p).sum(), p)
    gradient = gradient - gradient.mean(-1, keepdim=True)
    assert torch.allclose(gradient, F.inverse_link(p.detach()), atol=1e-6)


@pytest.mark.parametrize("name", ["log-sum-exp", "Tsallis 1.5", "sparsemax", "Brier, simplex", "spherical, simplex"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_of_a_million(name, dtype):
    F = POTENTIALS[name]()
    v = torch.tensor([[1e6, 0.0, -1e6], [1e6, 1e6, -2e6], [1e6 + 1, 1e6, 1e6 - 1]], dtype=dtype, requires_grad=True)
    value, link = F.value(v), F.link(v)
    (gradient,) = torch.autograd.grad(value.sum(), v)
    for x in (value, link, gradient):
        assert torch.isfinite(x).all()
    assert value.dtype == link.dtype == dtype
    assert link[0].tolist() == pytest.approx([1, 0, 0], abs=1e-6)
    assert link[1].tolist() == pytest.approx([0.5, 0.5, 0], abs=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 1.2, 1.5, 2.0, 3.0])
def test_gradients_of_squeezing_at_zero_are_finite(alpha):
    F = tp.LogSumExp().squeezed(1.0, alpha)
    v = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(F.value(v).sum(), v)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", POTENTIALS)
def test_float32_follows_float64(name):
    F, v = POTENTIALS[name](), centred(6, 4)
    assert torch.allclose(F.value(v.float()).double(), F.value(v), atol=1e-5)
    assert torch.allclose(F.link(v.float()).double(), F.link(v), atol=1e-4)


@pytest.mark.parametrize(
    "base", [tp.LogSumExp(), tp.Tsallis(1.5), tp.Sparsemax(), tp.Brier(domain="simplex"), tp.Max()]
)
@pytest.mark.parametrize(("k", "alpha"), [(1.0, 2.0), (0.05, 1.3), (10.0, 3.0), (1e-3, 2.0), (1.0, 7.0)])
def test_squeezed_conjugates_by_brute_force(base, k, alpha):
    """sup_v <q, v> - F(v): no score found by an optimiser does better, and the claimed one is attained."""
    q = torch.tensor([[-2.0, 1.5, 1.5], [0.2, 0.3, 0.5], [3.0, -0.5, -1.5]], dtype=torch.float64)
    F = base.squeezed(k, alpha)
    claimed = F.conjugate(q)
    v = F.inverse_link(q)
    assert torch.allclose((q * v).sum(-1) - F.value(v), claimed, rtol=1e-9)
    for seed in range(20):
        for scale in (1e-3, 0.1, 1.0):
            trial = v + scale * (1 + v.abs().amax()) * centred(3, 3, seed=seed)
            assert ((q * trial).sum(-1) - F.value(trial) <= claimed + 1e-9 * (1 + claimed.abs())).all()


@pytest.mark.parametrize(
    ("alpha", "bound"), [(2.0, -33.35831565), (1.5, -231.9134293), (1.2, -87930.00011), (1.05, -4.40367551e18)]
)
def test_bounds_near_alpha_one(alpha, bound):
    loss = tp.BackwardLoss(tp.complementary(10), squeeze=(1.0, alpha))
    assert loss.lower_bounds()[0] == pytest.approx(bound, rel=1e-8)


def test_at_alpha_one_boundedness_starts_at_the_critical_k():
    T = tp.complementary(4)
    k = tp.critical_k(T)[0]
    assert k == pytest.approx(8 / 3)
    assert np.isfinite(tp.BackwardLoss(T, squeeze=(k * 1.0001, 1.0)).lower_bounds()).all()
    assert np.isneginf(tp.BackwardLoss(T, squeeze=(k * 0.9999, 1.0)).lower_bounds()).all()


def test_the_link_of_squeezing_is_not_softmax():
    p = torch.full((1, 10), 0.1 / 9, dtype=torch.float64)
    p[0, 0] = 0.9
    F = tp.LogSumExp().squeezed(1.0, 2.0)
    v = F.inverse_link(p)
    assert F.probabilities(v)[0, 0] == pytest.approx(0.9)
    assert torch.softmax(v, -1)[0, 0] == pytest.approx(0.1955, abs=1e-4)


def test_savage_equals_dual():
    S = tp.BayesRisk(lambda p: torch.xlogy(p, p).sum(-1))
    p = inside(5, 4)
    assert torch.allclose(S.savage_losses(p), -p.log(), atol=1e-9)
    v = S.inverse_link(p)
    assert torch.allclose(S.savage_losses(p), S.class_losses(v), atol=1e-6)
    assert torch.allclose(S.value(v), tp.LogSumExp().value(v), atol=1e-6)


@pytest.mark.parametrize("F", [tp.LogSumExp(), tp.Tsallis(0.5)])
def test_tiny_probabilities_survive_the_inverse_link(F):
    """A sum of one that is off by rounding moves no probability: 1e-20 stays 1e-20."""
    p = torch.tensor([[1 / 3, 1 / 3, 1 / 3 - 1e-16, 1e-20]], dtype=torch.float64)
    assert float(F.link(F.inverse_link(p))[0, 3]) == pytest.approx(1e-20, rel=1e-9)


@pytest.mark.parametrize("a", [0.3, 0.5, 1.5])
def test_zeros_survive_the_conjugate(a):
    """Probabilities that sum to one but for rounding are not shifted: (1e-17)^.3 is 8e-6."""
    p = torch.tensor([0.0, 0.7, 0.2, 0.1], dtype=torch.float64)
    assert float(p.sum()) != 1.0
    want = (sum(x**a for x in (0.1, 0.2, 0.7)) - 1) / (a * (a - 1))
    assert float(tp.Tsallis(a).conjugate(p)) == pytest.approx(want, rel=1e-13)


def test_textbook_losses():
    p = inside(5, 3)
    assert torch.allclose(tp.LogSumExp().class_losses(tp.LogSumExp().inverse_link(p)), -p.log())
    one_hot = torch.eye(3, dtype=torch.float64)
    brier = (p[:, None] - one_hot).square().sum(-1)
    spherical = 1 - p / p.norm(dim=-1, keepdim=True)
    for domain in ("affine", "simplex"):
        assert torch.allclose(tp.Brier(domain=domain).class_losses(tp.Brier().inverse_link(p)), brier)
        assert torch.allclose(tp.Spherical(domain=domain).class_losses(tp.Spherical().inverse_link(p)), spherical)


def test_tsallis_joins_its_neighbours():
    v = centred(6, 4)
    assert torch.allclose(tp.Tsallis(2.0).value(v), tp.Sparsemax().value(v), atol=1e-9)
    assert torch.allclose(tp.Tsallis(1.0005).value(v), tp.LogSumExp().value(v), atol=3e-3)
    assert torch.allclose(2 * tp.Sparsemax().value(v / 2), tp.Brier(domain="simplex").value(v), atol=1e-12)


def test_the_affine_spherical_potential_ends_at_the_unit_ball():
    v = torch.tensor([[2.0, -1.0, -1.0]], dtype=torch.float64)
    assert math.isinf(float(tp.Spherical().value(v)))
    assert math.isfinite(float(tp.Spherical(domain="simplex").value(v)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", [n for n in POTENTIALS if POTENTIALS[n]().domain == "simplex"])
def test_gradients_at_exact_thresholds(name, dtype):
    """Scores on a grid of .05, and the inverse links of uniform distributions, sit on the edges of supports.

    There too the gradient of F(v) - v_y is link - e_y, and the link's Jacobian is symmetric with zero column sums.
    """
    F, K = POTENTIALS[name](), 5
    grid = torch.randint(-30, 31, (200, K), generator=torch.Generator().manual_seed(0)).double() / 20
    edges = [torch.tensor([1.0] * j + [0.0] * (K - j), dtype=torch.float64) / j for j in range(1, K + 1)]
    if name != "a Bayes risk":  # numerical, slow, and never at an edge: its barrier keeps p inside
        grid = torch.cat([grid, *(c * torch.stack(edges) for c in (1.0, 2.0))])
    v = grid.to(dtype).requires_grad_()
    y = torch.arange(len(v)) % K
    (gradient,) = torch.autograd.grad((F.value(v) - (v - v.mean(-1, keepdim=True))[torch.arange(len(v)), y]).sum(), v)
    expected = F.link(v.detach()) - torch.nn.functional.one_hot(y, K)
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-5, torch.bfloat16: 0.04}[dtype]
    torch.testing.assert_close(gradient, expected.to(dtype), atol=tolerance, rtol=0)
    if dtype == torch.float64:
        some = v.detach()[:60] if name != "a Bayes risk" else v.detach()[:4]
        J = torch.stack([torch.autograd.functional.jacobian(F.link, row) for row in some])
        torch.testing.assert_close(J, J.transpose(-1, -2), atol=1e-7, rtol=1e-7)
        torch.testing.assert_close(J.sum(-2), torch.zeros_like(J.sum(-2)), atol=1e-7, rtol=0)


@pytest.mark.parametrize("a", [1.5, 2.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("scale", [1e-6, 0.3, 5.0, 1e3])
def test_links_by_sorting_are_those_by_the_root(a, dtype, scale):
    """Sizes of the support from one class to all, ties, masked classes, and a common shift."""
    generator = torch.Generator().manual_seed(0)
    for K in (2, 3, 40, 3000):
        v = scale * torch.randn(30, K, dtype=dtype, generator=generator)
        v[:10] = v[:10].round()
        v[10:15, 1:] -= torch.inf if K > 2 else 0.0
        exact = numerics.entmax_by_root(v.double(), a)
        assert exact.sum(-1).allclose(torch.ones((), dtype=torch.float64))
        tol = 1e-13 if dtype == torch.float64 else 3e-7
        assert (tp.Tsallis(a).maximiser(v).double() - exact).abs().max() < tol
        shifted = v + 4096  # rounds the scores, by this much
        lost = 4096 * torch.finfo(dtype).eps
        assert (tp.Tsallis(a).maximiser(shifted).double() - exact).abs().max() < tol + 2 * lost
