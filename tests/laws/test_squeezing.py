"""Laws of squeezed potentials at extremes: alpha near one, small k, targets far outside the simplex."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

import tproper as tp
from tproper._core import numerics as _numerics
from tproper.potentials import NotComputedError
from tproper.potentials import conjugates as _solvers
from tproper.potentials import counted as _counted
from tproper.potentials.nested import nested_roots

BASES = {
    "log-sum-exp": tp.LogSumExp(),
    "Tsallis 0.2": tp.Tsallis(0.2),
    "Tsallis 0.5": tp.Tsallis(0.5),
    "Tsallis 1.5": tp.Tsallis(1.5),
    "Tsallis 3": tp.Tsallis(3.0),
    "sparsemax": tp.Sparsemax(),
    "Brier, simplex": tp.Brier(domain="simplex"),
}


def extremes(n, seed):
    """(k, alpha, q): scores between 1e3 and 1e12, where F is neither negligible nor all there is."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        K = int(rng.integers(3, 90))
        q = rng.standard_normal(K) * 10 ** rng.uniform(-1, 1)
        yield 10 ** rng.uniform(-4, -1), rng.choice([1.2, 1.3, 1.4]), torch.as_tensor(q + (1 - q.sum()) / K)[None]


@pytest.mark.parametrize("extreme", [False, True])
def test_the_spherical_conjugate_is_the_best_of_brier_conjugates(extreme):
    """||p|| = min over c of c/2 + ||p||^2/(2c), and the Brier score knows the conjugate for each c.

    At extremes it need not be computed, but what is computed is right.
    """
    computed = 0
    for k, alpha, q in extremes(4, seed=0):
        if not extreme:
            k, alpha, q = 100 * k, alpha + 0.3, q[:, :20] + (1 - q[:, :20].sum(-1, keepdim=True)) / q[:, :20].shape[-1]

        def at(c, k=k, alpha=alpha, q=q):
            brier = tp.Brier(domain="simplex").squeezed(k * (2 * c) ** (1 - alpha), alpha)
            return c / 2 - 1 + (float(brier.conjugate(q)[0]) + 1) / (2 * c)

        try:
            claimed = float(tp.Spherical(domain="simplex").squeezed(k, alpha).conjugate(q)[0])
        except NotComputedError:
            continue
        best = minimize_scalar(at, bounds=(q.shape[-1] ** -0.5, 1), method="bounded", options={"xatol": 1e-7}).fun
        assert claimed == pytest.approx(best, rel=1e-9, abs=1e-9)
        computed += 1
    assert extreme or computed == 4


@pytest.mark.parametrize("domain", ["affine", "simplex"])
@pytest.mark.parametrize(("K", "k", "alpha"), [(2, 1e-4, 1.05), (34, 0.005, 1.4), (69, 0.24, 1.2), (13, 0.011, 1.3)])
def test_spherical_bounds_of_pair_noise(domain, K, k, alpha):
    loss = tp.BackwardLoss(tp.pair_noise(K, 0.35), potential=tp.Spherical(domain=domain), squeeze=(k, alpha))
    assert np.isfinite(loss.lower_bounds()).all()


@pytest.mark.parametrize("name", BASES)
def test_large_scores_are_settled_without_nested_roots(name, monkeypatch):
    """Nested roots never fail, and take seconds."""

    def refuse(*_):
        raise AssertionError("nested roots")

    monkeypatch.setattr(_solvers, "nested_roots", refuse)
    for k, alpha, q in extremes(15, seed=1):
        F = BASES[name].squeezed(k, alpha)
        claimed, v = F.conjugate(q), F.inverse_link(q)
        assert v.sum().abs() <= 1e-12 * v.abs().max()
        assert torch.allclose((q * v).sum(-1) - F.value(v), claimed, rtol=1e-12)


@pytest.mark.parametrize("name", ["Tsallis 0.5", "Tsallis 3", "log-sum-exp"])
def test_the_slow_solver_agrees_with_the_fast_one(name):
    base = BASES[name]
    for k, alpha, q in [(0.5, 1.5, [[2.5, -0.5, -1.0]]), (0.02, 1.3, [[0.9, 0.6, 0.1, -0.6]])]:
        F, target = base.squeezed(k, alpha), torch.tensor(q, dtype=torch.float64)
        v = nested_roots(base, _counted.Penalty(k, alpha), target)
        assert torch.allclose((target * v).sum(-1) - F.value(v), F.conjugate(target), rtol=1e-12)


@pytest.mark.parametrize("alpha", [1.05, 1.5, 2.0, 3.0])
def test_balanced_scores_sum_to_zero(alpha):
    """Also where many entries are nearly zero, and the slope of the sum is nearly infinite there."""
    u = torch.as_tensor(0.5 ** np.arange(60.0) * np.sign(np.sin(np.arange(60.0))))[None]
    penalty = _counted.Penalty(0.02, alpha)
    v = penalty.inverse(penalty.balanced(u, torch.ones_like(u)))
    assert v.sum().abs() <= 1e-11 * v.abs().max()


def test_roots_survive_infinite_slopes():
    """A small Newton step at a vertical tangent is no proof of a root."""

    def f(x):
        return x.sign() * x.abs().sqrt() + x - 1, 0.5 / x.abs().sqrt() + 1

    low, high = torch.tensor([-2.0]).double(), torch.tensor([2.0]).double()
    for start in (0.0, 1e-40, -1e-40, 1.5):
        x = _numerics.increasing_root(f, low, high, torch.tensor([start]).double())
        assert float(x) == pytest.approx((3 - 5**0.5) / 2, rel=1e-13)


@pytest.mark.parametrize("a", [0.5, 1.5, 3.0])
def test_a_thousand_classes_are_certified_by_the_distinct_entries_of_their_targets(a, monkeypatch):
    """Two numbers for each set size, not a thousand: `benchmarks/certificates.py` has the seconds."""
    widths = []
    original = _solvers._as_if_max  # every attempt begins there
    monkeypatch.setattr(_solvers, "_as_if_max", lambda *given: widths.append(given[1].shape[-1]) or original(*given))
    loss = tp.BackwardLoss(tp.partial_labels(1000, 0.01), potential=tp.Tsallis(a), squeeze=(1.0, 2.0))
    assert tp.certify(loss).lower_bounded
    assert set(widths) == {2}


KINKED = {
    "a kink below": tp.LogSumExp().squeezed(0.3, 1.0).squeezed(0.2, 2.0),
    "a kink above": tp.Spherical().squeezed(0.3, 1.5).squeezed(0.2, 1.0),
}


@pytest.mark.parametrize("name", KINKED)
def test_a_kink_beside_another_squeezing_is_not_computed_and_says_so(name):
    F, message = KINKED[name], "conjugate: numerical, not computed for .*; squeeze once, or twice with exponents above"
    q = torch.tensor([[1.2, -0.1, -0.1]], dtype=torch.float64)
    for call in (F.conjugate, F.inverse_link, lambda q: tp.BackwardLoss(tp.complementary(3), F).lower_bounds()):
        with pytest.raises(NotComputedError, match=message):
            call(q)
    certificate = tp.certify(tp.BackwardLoss(tp.complementary(3), F))
    assert certificate.proper
    assert certificate.lower_bounded  # as the growth of F tells, whatever the bound is
    assert certificate.witness is None
    assert certificate.evidence == "numerical"
    assert np.isnan(certificate.bounds).all()
    assert "yes, by a bound that is not computed" in str(certificate)
    assert any("numerical, not computed" in note for note in certificate.notes)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_squeezing_again_with_the_same_exponent_adds_the_k(alpha):
    twice = tp.Sparsemax().squeezed(0.3, alpha).squeezed(0.2, alpha)
    assert (twice.k, twice.alpha, type(twice.base)) == (0.5, alpha, tp.Sparsemax)
    assert twice.name == tp.Sparsemax().squeezed(0.5, alpha).name


@pytest.mark.parametrize(("a", "k", "alpha"), [(10.0, 0.5, 3.0), (10.0, 0.3, 1.5), (30.0, 1.0, 2.0), (3.5, 0.3, 1.3)])
def test_a_link_that_is_nearly_a_step_is_inverted_by_its_shares(a, k, alpha, monkeypatch):
    """Newton's method would take thousands of evaluations there; roots in p give what roots in v do."""
    F = tp.Tsallis(a).squeezed(k, alpha)
    rng = np.random.default_rng(0)
    q = torch.as_tensor(rng.dirichlet(np.ones(4), 3))
    q = q + 1.5 * (q.flip(0) - q)
    monkeypatch.setattr(_solvers, "newton", None)
    value = F.conjugate(q)
    monkeypatch.setattr(F.base, "steep", False)
    v = nested_roots(F.base, _counted.Penalty(k, alpha), q)
    torch.testing.assert_close(value, (q * v).sum(-1) - F.value(v), rtol=1e-12, atol=1e-12)


def test_what_would_not_fit_into_memory_is_not_computed_and_says_so():
    F = tp.Brier().squeezed(1.0, 1.5)
    q = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(1000), 1000))
    with pytest.raises(NotComputedError, match="at 1000 targets of 1000 classes, whose second derivatives take 7 GiB"):
        F.conjugate(q)


UNEVEN = tp.ConvexPotential(lambda v: v.square().sum(-1) / 4 + v[..., 0].square() / 4, domain="affine")


@pytest.mark.parametrize("base", [tp.Spherical(), tp.Brier(), tp.Spherical(domain="simplex"), UNEVEN])
@pytest.mark.parametrize("alpha", [1.3, 2.0, 3.0])
def test_classes_with_equal_targets_share_a_coordinate(base, alpha, monkeypatch):
    """Where F treats classes alike; a potential that does not is found out by its gap."""
    F = base.squeezed(0.5, alpha)
    q = torch.full((2, 12), 0.25, dtype=torch.float64)
    q[0, 2], q[1, :3] = -1.75, -1.25 / 3
    shared = F.conjugate(q), F.inverse_link(q)
    monkeypatch.setattr(_solvers, "Grouped", None)
    monkeypatch.setattr(_solvers, "distinct", lambda q: (q, torch.ones_like(q), None))
    torch.testing.assert_close(shared[0], F.conjugate(q), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(shared[1], F.inverse_link(q), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("alpha", [1.001, 1.01, 1.02, 1.05, 1.1])
@pytest.mark.parametrize("base", [tp.LogSumExp(), tp.Tsallis(1.5), tp.Sparsemax(), tp.Brier(), tp.Spherical("simplex")])
def test_an_inverse_link_near_alpha_one_inverts_or_says_that_no_float_does(base, alpha):
    """Scores of 1e-80 beside 1 have slopes as large as any."""
    for k in (0.2, 3.0):
        F, p = base.squeezed(k, alpha), torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(5), 20))
        try:
            v = F.inverse_link(p)
        except NotComputedError:
            assert alpha < 1.02
            continue
        torch.testing.assert_close(F.probabilities(v), p, rtol=0, atol=1e-6)
