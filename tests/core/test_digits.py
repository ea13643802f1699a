"""Digits that must not be lost: large scores, large targets, zeros, few bits."""

import math

import numpy as np
import pytest
import torch

import tproper as tp

UNIFORM = [tp.symmetric_noise(10, 0.2), tp.symmetric_noise(2, 0.1), tp.complementary(3, noise=0.1), tp.complementary(4)]


def dense(T):
    return tp.Transition(T.matrix())


@pytest.mark.parametrize("score", [1.0, 21.0, 1e4, 1e6, 1e8, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "T", [tp.symmetric_noise(10, 0.2), tp.complementary(3, noise=0.1), tp.complementary(4)], ids=str
)
def test_forward_loss_of_uniform_noise_at_large_scores(T, dtype, score):
    K = T.num_classes
    v = torch.zeros(K, K, dtype=dtype)
    v[:, 0] = score
    v.requires_grad_()
    labels = torch.arange(K)
    found = tp.ForwardLoss(T, reduction="none")(v, labels)
    expected = tp.ForwardLoss(dense(T), reduction="none")(v.detach().double(), labels)
    torch.testing.assert_close(found.double(), expected, rtol=4 * torch.finfo(dtype).eps, atol=1e-300)
    assert bool((found.detach().double() >= torch.as_tensor(tp.ForwardLoss(T).lower_bounds()) * (1 - 1e-7)).all())
    exact = v.detach().double().requires_grad_()
    tp.ForwardLoss(dense(T))(exact, labels).backward()
    tp.ForwardLoss(T)(v, labels).backward()
    torch.testing.assert_close(v.grad.double(), exact.grad, rtol=8 * torch.finfo(dtype).eps, atol=1e-12)


@pytest.mark.parametrize(
    "T", [tp.symmetric_noise(2, 0.1), tp.complementary(3), tp.complementary(3, noise=0.2)], ids=str
)
def test_all_probability_on_one_class(T):
    K = T.num_classes
    v = torch.full((K, K), -math.inf, dtype=torch.float64)
    v[:, 0] = 0.0
    labels = torch.arange(K)
    found = tp.ForwardLoss(T, reduction="none")(v, labels)
    assert found.tolist() == pytest.approx(tp.ForwardLoss(dense(T), reduction="none")(v, labels).tolist())
    plain = torch.func.vmap(lambda s, y: tp.ForwardLoss(T, reduction="none")(s, y))(v, labels)
    assert found.tolist() == pytest.approx(plain.tolist())


@pytest.mark.parametrize("potential", [tp.Brier(), tp.LogSumExp(), tp.Sparsemax(), tp.Tsallis(1.5)], ids=repr)
@pytest.mark.parametrize("m", [1, 3])
def test_backward_losses_with_large_targets(potential, m):
    """Targets of many classes are large and of both signs; so is F. Their products must not be summed."""
    T = tp.multi_complementary(1000, m)
    v = torch.randn(8, 1000, generator=torch.Generator().manual_seed(0))
    labels = T.sample(np.arange(8), seed=0)
    loss = tp.BackwardLoss(T, potential, reduction="none")
    expected = loss(v.double(), labels)
    torch.testing.assert_close(loss(v, labels).double(), expected, rtol=1e-5, atol=2e-3)


@pytest.mark.parametrize("potential", [tp.Brier(), tp.Sparsemax(), tp.Brier().squeezed(1.0, 1.5)], ids=repr)
def test_a_common_shift_takes_no_digits(potential):
    v = torch.randn(50, 10, generator=torch.Generator().manual_seed(0))
    shifted = v.half().float() * 64 + 2**17  # both scores and shift are exact in float32
    labels = torch.arange(50) % 10
    loss = tp.BackwardLoss(tp.complementary(10), potential, reduction="none")
    exact = loss(shifted.double(), labels)
    torch.testing.assert_close(loss(shifted, labels).double(), exact, rtol=2e-6, atol=1e-3)


def test_outside_the_ball_a_spherical_loss_is_infinite():
    v = torch.tensor([[1.0, -1.0, 0.0]])
    loss = tp.BackwardLoss(tp.complementary(3), tp.Spherical(), reduction="none")
    assert [float(loss(v, [y])) for y in range(3)] == [math.inf] * 3
    assert float(tp.BackwardLoss(tp.complementary(3), tp.Brier())(torch.tensor([[1e20, 0.0, 0.0]]), [1])) == math.inf


@pytest.mark.parametrize(
    ("a", "scores"),
    [
        (8.0, [0.068374, -0.068374]),
        (20.0, [0.02, -0.005, -0.015]),
        (40.0, [1e-7, 0.0, -1e-7]),
        (64.0, [0.036, 0.021, -0.057]),
    ],
)
def test_links_of_tsallis_with_large_a(a, scores):
    """Against a bisection for lambda with 260 digits: near zero, p needs that many."""
    mp = pytest.importorskip("mpmath")
    v = torch.tensor(scores, dtype=torch.float64)
    p = tp.Tsallis(a).link(v)
    with mp.workdps(260):
        x = [mp.mpf(s) for s in scores]
        power = mp.mpf(1) / (mp.mpf(a) - 1)

        def shares(level):
            return [((a - 1) * (s - level)) ** power if s > level else mp.mpf(0) for s in x]

        low, high = max(x) - 2, max(x)
        for _ in range(1200):
            middle = (low + high) / 2
            low, high = (middle, high) if sum(shares(middle)) > 1 else (low, middle)
        exact = [float(share) for share in shares(low)]
    assert p.tolist() == pytest.approx(exact, abs=1e-14)


def test_a_row_of_sets_does_not_see_the_other_rows():
    loss = tp.ForwardLoss(tp.partial_labels(3, 0.3), reduction="none")
    masks = torch.tensor([[True, False, False]] * 2)
    v = torch.tensor([[1e6, 1e6 + 100, 1e6], [1e6, 1e6 + 1, 1e6]])
    torch.testing.assert_close(loss(v, masks)[1], loss(v[1:], masks[1:])[0])
    torch.testing.assert_close(loss(v, masks).double(), loss(v.double(), masks), rtol=1e-6, atol=1e-6)


def test_a_singular_transition_in_float32_is_seen():
    T = torch.tensor([[0.1, 0.2, 0.15], [0.3, 0.3, 0.3], [0.6, 0.5, 0.55]])
    with pytest.raises(tp.NotReconstructibleError, match="expected rank 3 for every example, got less at row 0"):
        tp.BackwardLoss(tp.identity(3))(torch.randn(1, 3), [0], transitions=T[None])


def test_a_learned_transition_with_zeros_has_a_gradient():
    T = torch.eye(2, dtype=torch.float64).requires_grad_()
    tp.ForwardLoss(tp.identity(2))(torch.zeros(1, 2, dtype=torch.float64), [0], transitions=T[None]).backward()
    assert T.grad.tolist() == [[-1.0, -1.0], [0.0, 0.0]]


def test_bounds_of_weighted_losses_do_not_hang_on_rounding():
    T, w = tp.symmetric_noise(4, 0.3), [1, 2, 3, 4]
    for transition in (T, dense(T)):
        assert tp.BackwardLoss(transition, tp.Brier(), class_weights=w).lower_bounds()[0] == -math.inf


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_probabilities_in_few_bits(dtype):
    v = torch.randn(50, 1000, generator=torch.Generator().manual_seed(0)).to(dtype)
    F = tp.LogSumExp().squeezed(1.0, 2.0)
    p = F.probabilities(v)
    assert p.dtype == dtype
    assert float((p.double().sum(-1) - 1).abs().max()) < 4e-3
    y = tp.complementary(1000).sample(np.arange(50), seed=0)
    assert math.isfinite(tp.weak_brier(y, p, tp.complementary(1000)).value)


SPARSE = [tp.Sparsemax(), tp.Brier("simplex"), tp.Spherical("simplex"), tp.Tsallis(1.5)]


@pytest.mark.parametrize("base", SPARSE, ids=repr)
def test_sparse_links_squeezed_with_alpha_1_outside_of_the_simplex(base):
    """The supremum is attained at the inverse link, which is also the conjugate's gradient."""
    F = base.squeezed(1.0, 1.0)
    q = 0.25 + 0.4 * torch.randn(40, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    q = q / q.sum(-1, keepdim=True)
    q = q[torch.isfinite(F.conjugate(q)) & (q.abs().amax(-1) < 5)]
    v = F.inverse_link(q)
    torch.testing.assert_close((q * v).sum(-1) - F.value(v), F.conjugate(q), rtol=1e-9, atol=1e-9)
    move = torch.tensor([1.0, -1.0, 0.0, 0.0], dtype=torch.float64)
    leaf = q.clone().requires_grad_()
    (slope,) = torch.autograd.grad(F.conjugate(leaf).sum(), leaf)
    step = 1e-6 * move
    measured = (F.conjugate(q + step) - F.conjugate(q - step)) / 2e-6
    ok = torch.isfinite(measured)
    assert float(((slope @ move - measured)[ok].abs() < 1e-3).double().mean()) > 0.9  # kinks apart


def test_minimum_variance_for_a_class_that_hardly_occurs():
    T = tp.Transition([[0.5, 0, 0], [0.5, 0, 0], [0, 0.5, 0.2], [0, 0.5, 0.3], [0, 0, 0.5]])
    R = T.reconstruction("min_variance", prior=[1 - 2e-20, 1e-20, 1e-20])
    assert np.abs(R.matrix() @ T.matrix() - np.eye(3)).max() < 1e-9
