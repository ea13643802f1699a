"""Closed forms against brute force, on inputs that nobody chose."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

import tproper as tp
from tproper._core import drawn_classes
from tproper._core.numerics import critical_k_of, project_simplex

seeds = st.integers(0, 10**6)


def stochastic(M: int, K: int, rng: np.random.Generator) -> np.ndarray:
    T = rng.dirichlet(np.full(M, rng.choice([0.3, 1.0, 4.0])), K).T
    return T / T.sum(axis=0)


@given(seeds, st.integers(2, 6), st.floats(0.1, 5))
def test_critical_k_is_the_value_of_its_linear_program(seed, K, spread):
    """min over p in the simplex of max(r - p) - min(r - p)."""
    r = spread * np.random.default_rng(seed).standard_normal(K)
    r += (1 - r.sum()) / K
    # variables p (K), a, b: a <= r - p <= b, minimise b - a
    above = np.hstack([-np.eye(K), np.zeros((K, 1)), -np.ones((K, 1))])
    below = np.hstack([np.eye(K), np.ones((K, 1)), np.zeros((K, 1))])
    found = linprog(
        np.append(np.zeros(K), [-1.0, 1.0]),
        A_ub=np.vstack([above, below]),
        b_ub=np.concatenate([-r, r]),
        A_eq=[np.append(np.ones(K), [0.0, 0.0])],
        b_eq=[1.0],
        bounds=[(0, None)] * K + [(None, None)] * 2,
    )
    assert critical_k_of(r[None])[0] == pytest.approx(found.fun, abs=1e-8)


@given(seeds, st.integers(2, 8), st.floats(0.01, 1e3))
def test_projections_satisfy_the_variational_inequality(seed, K, spread):
    """p is the projection of q iff <q - p, x - p> <= 0 for every vertex x of the simplex."""
    q = torch.as_tensor(spread * np.random.default_rng(seed).standard_normal(K))
    p = project_simplex(q)
    assert p.min() >= 0
    assert abs(p.sum() - 1) < 1e-12
    vertices = torch.eye(K, dtype=torch.float64)
    assert ((vertices - p) @ (q - p)).max() <= 1e-11 * (1 + spread)


@given(seeds, st.integers(2, 5), st.integers(0, 3))
def test_reconstructions_of_random_transitions(seed, K, more):
    rng = np.random.default_rng(seed)
    T = tp.Transition(stochastic(K + more, K, rng))
    assume(T.diagnose().condition_number < 1e5)
    tightest = tp.critical_k(T, reconstruction="tightest").max()
    prior = rng.dirichlet(np.full(K, 5.0))
    weak = T.matrix() @ prior
    variance = ((T.reconstruction("min_variance", prior=prior).matrix() ** 2) @ weak).sum()
    for method in ("auto", "pinv", "min_variance", "tightest"):
        R = T.reconstruction(method)
        assert np.abs(R.matrix() @ T.matrix() - np.eye(K)).max() < 1e-7
        assert np.abs(R.matrix().sum(axis=0) - 1).max() < 1e-9
        assert tightest <= tp.critical_k(T, reconstruction=method).max() + 1e-6
        assert variance <= ((R.matrix() ** 2) @ weak).sum() * (1 + 1e-9)


@given(seeds, st.integers(2, 5), st.integers(0, 3), st.sampled_from([1.2, 1.5, 2.0, 3.0]), st.floats(0.05, 5))
def test_bounds_of_random_losses_are_greatest_lower_bounds(seed, K, more, alpha, k):
    """By an optimiser that knows nothing of conjugates, every label's loss comes to its bound, and not below it."""
    rng = np.random.default_rng(seed)
    T = tp.Transition(stochastic(K + more, K, rng))
    assume(T.diagnose().condition_number < 30)
    loss = tp.BackwardLoss(T, squeeze=(k, alpha), reduction="none")
    y = int(rng.integers(K + more))
    bound = loss.lower_bounds()[y]

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        v = torch.as_tensor(x[None]).requires_grad_()
        out = loss(v, [y])
        (g,) = torch.autograd.grad(out.sum(), v)
        return float(out.detach()), g[0].numpy()

    size = np.abs(loss.potential.inverse_link(loss.reconstruction.targets([y])).numpy()).max()
    best = min(
        minimize(objective, s * rng.standard_normal(K), jac=True, options={"gtol": 1e-9}).fun for s in (0.1, 1.0, size)
    )
    assert best >= bound - 1e-8 * (1 + abs(bound))
    assert best <= bound + 1e-4 * (1 + abs(bound))


@settings(max_examples=8)  # of five potentials each; the critical k itself is held to its program above
@given(seeds, st.integers(2, 5), st.floats(0.3, 3))
def test_at_alpha_one_boundedness_begins_at_the_critical_k(seed, K, spread):
    r = spread * np.random.default_rng(seed).standard_normal(K)
    r += (1 - r.sum()) / K
    k = float(critical_k_of(r[None])[0])
    assume(k > 1e-3)
    for F in (tp.LogSumExp(), tp.Sparsemax(), tp.Tsallis(1.5), tp.Tsallis(0.5), tp.Spherical(domain="simplex")):
        assert torch.isfinite(F.squeezed(k * (1 + 1e-9), 1.0).conjugate(torch.as_tensor(r)))
        assert torch.isposinf(F.squeezed(k * (1 - 1e-9), 1.0).conjugate(torch.as_tensor(r)))


@given(seeds, st.integers(2, 4), st.integers(0, 2), st.booleans())
def test_one_transition_per_example(seed, K, more, single):
    """Each example's own T gives what a loss made for that T gives, in float32 too."""
    rng = np.random.default_rng(seed)
    Ts = [tp.Transition(stochastic(K + more, K, rng)) for _ in range(4)]
    assume(all(T.diagnose().condition_number < 1e3 for T in Ts))
    stack = torch.as_tensor(np.stack([T.matrix() for T in Ts]))
    v = torch.as_tensor(rng.standard_normal((4, K)))
    y = torch.as_tensor(rng.integers(K + more, size=4))
    for make in (tp.BackwardLoss, tp.ForwardLoss):
        each = torch.stack([make(T)(v[i], y[i]) for i, T in enumerate(Ts)])
        scores = v.float() if single else v
        got = make(Ts[0], reduction="none")(scores, y, transitions=stack)
        assert got.dtype == scores.dtype
        assert torch.allclose(got.double(), each, rtol=1e-3 if single else 1e-9, atol=1e-3 if single else 1e-9)


@given(seeds, st.integers(2, 6), st.floats(0.01, 0.95))
def test_targets_of_random_candidate_sets(seed, K, p):
    """Unbiasedness by enumeration, and the adjoint: <R e_S, x> without the target."""
    T = tp.partial_labels(K, p)
    rng = np.random.default_rng(seed)
    masks = torch.as_tensor(T.sample(rng.integers(K, size=7), seed=seed))
    x = torch.as_tensor(rng.standard_normal((7, K)))
    for method in ("min_variance", "pinv", "tightest"):
        R = T.reconstruction(method)
        assert np.abs(R.matrix() @ T.matrix() - np.eye(K)).max() < 1e-6
        want = (R.targets(masks) * x).sum(-1)
        assert torch.allclose(
            R.evidence(masks).inner(x), want, rtol=1e-9, atol=1e-9 * float(R.targets(masks).abs().max())
        )


@given(seeds, st.sampled_from([0.2, 0.5, 0.8]), st.floats(0.02, 2))
def test_below_alpha_one_no_score_beats_the_bound(seed, alpha, k):
    """F is not convex there: the bound is found by a search, and a grid of scores must not go below it."""
    F = tp.LogSumExp().squeezed(k, alpha, allow_improper=True)
    p = torch.as_tensor(np.random.default_rng(seed).dirichlet(np.full(3, 0.3)))
    line = np.concatenate([-np.logspace(2, -4, 60), [0.0], np.logspace(-4, 2, 60)])
    a, b = (g.ravel() for g in np.meshgrid(line, line))
    v = torch.as_tensor(np.stack([a, b, -a - b], axis=-1))
    assert (v @ p - F.value(v)).max() <= F.conjugate(p) + 1e-9


BASES = [tp.LogSumExp(), tp.Sparsemax(), tp.Tsallis(0.5), tp.Tsallis(1.5), tp.Tsallis(4), tp.Brier(), tp.Spherical()]
BASES += [tp.Brier(domain="simplex"), tp.Spherical(domain="simplex"), tp.Max()]


@pytest.mark.parametrize("base", BASES, ids=lambda F: F.name)
@settings(max_examples=8)
@given(seeds, st.integers(2, 6), st.sampled_from([1.2, 1.5, 2.0, 3.0, 7.0]), st.floats(-1.0, 1.5), st.floats(0.1, 4))
def test_squeezed_conjugates_are_attained_and_never_exceeded(base, seed, K, alpha, log_k, spread):
    """F'*(q) is reached at the claimed scores, and no scores near them, or far from them, do better."""
    rng = np.random.default_rng(seed)
    q = spread * rng.standard_normal((3, K))
    q = torch.as_tensor(q + (1 - q.sum(axis=1, keepdims=True)) / K)
    F = base.squeezed(10**log_k, alpha)
    v, claimed = F.inverse_link(q), F.conjugate(q)
    assert torch.allclose((q * v).sum(-1) - F.value(v), claimed, rtol=1e-8, atol=1e-9)
    for scale in (1e-4, 1e-2, 1.0):
        trial = v + scale * (0.01 + v.abs().amax(-1, keepdim=True)) * torch.as_tensor(rng.standard_normal(v.shape))
        trial = trial - trial.mean(-1, keepdim=True)
        assert ((q * trial).sum(-1) - F.value(trial) <= claimed + 1e-9 * (1 + claimed.abs())).all()


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_classes_are_drawn_by_their_probabilities(axis, dtype):
    P = np.random.default_rng(0).dirichlet([0.2, 1.0, 3.0, 0.5], 40_000).astype(dtype)
    P[:3] = np.eye(4)[:3]
    P[3] = [0.25, 0.25, 0.25, 0.2499]  # a sum that rounding left below one
    rows = P.T if axis == 0 else P
    z = drawn_classes(rows, np.random.default_rng(1), axis)
    u = np.random.default_rng(1).random(len(P))
    assert z.tolist() == [min(int(np.searchsorted(p.cumsum(), x)), 3) for p, x in zip(P, u, strict=True)]
    np.testing.assert_allclose(np.bincount(z) / len(P), P.mean(axis=0), atol=0.006)
