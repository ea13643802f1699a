"""The kernel computes the losses and gradients that plain PyTorch computes in float64.

It needs Triton, which GPU installations bring; with ``TRITON_INTERPRET=1`` it also runs on a CPU, through Triton's
interpreter. `benchmarks/scale_losses_gpu.py` makes the same comparison at full size.
"""

from __future__ import annotations

import os
from importlib import import_module

import pytest
import torch

pytest.importorskip("triton", reason="the kernel needs Triton, which GPU installs bring")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("no GPU, and TRITON_INTERPRET is not 1", allow_module_level=True)

import tproper as tp  # noqa: E402
from tproper.losses import fuse  # noqa: E402
from tproper.losses.kernels import dispatch as fused  # noqa: E402
from tproper.losses.kernels.registry import plan  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:overflow", "ignore:invalid value")
N = 5


def transitions(K):
    return [
        tp.identity(K),
        tp.symmetric_noise(K, 0.2),
        tp.complementary(K),
        tp.partial_labels(K, 0.3),
        tp.multi_complementary(K, 1),
    ]


def losses(T, reduction="mean"):
    return [
        tp.ForwardLoss(T, reduction=reduction),
        tp.BackwardLoss(T, reduction=reduction),
        tp.BackwardLoss(T, squeeze=(0.7, 2.0), reduction=reduction),
        tp.BackwardLoss(T, squeeze=(0.3, 1.3), reduction=reduction),
    ]


def problem(T, scale=3.0, n=N, dtype=torch.float32):
    g = torch.Generator().manual_seed(T.num_classes)
    v = (scale * torch.randn(n, T.num_classes, generator=g)).to(dtype)
    y = torch.as_tensor(T.sample(torch.randint(T.num_classes, (n,), generator=g), seed=0))
    return v.to(DEVICE), y.to(DEVICE)


def compare(loss, v, y, weights=None, upstream=1.0, config=None, tol=3e-6):
    loss = loss.to(DEVICE)
    a, b = v.detach().clone().requires_grad_(), v.detach().double().requires_grad_()
    if config:
        ours = fused.run(loss, a, y, weights, loss.reduction, config=config)
    else:
        ours = fuse(loss, "triton")(a, y, weights)
    exact = loss(b, y, None if weights is None else weights.double())
    assert ours.dtype == v.dtype
    (ours.float() * upstream).sum().backward()
    (exact * upstream).sum().backward()
    torch.testing.assert_close(ours.double(), exact, rtol=tol, atol=tol)
    size = b.grad.abs().max()
    torch.testing.assert_close(a.grad.double(), b.grad, rtol=tol, atol=float(tol * size))


@pytest.mark.parametrize("K", [2, 37])
def test_every_structured_loss(K):
    for T in transitions(K):
        for loss in losses(T):
            compare(loss, *problem(T))


@pytest.mark.parametrize("config", [(1, 16, 1), (4, 16, 1)])
def test_rows_in_several_blocks(config):
    """37 classes in blocks of 16: the way of 50,000 classes."""
    for T in transitions(37):
        for loss in losses(T):
            compare(loss, *problem(T), config=config)


def test_weights_and_bad_labels_where_rows_and_classes_fill_several_blocks():
    """The first row or the last one is bad; the others keep what they are alone."""
    memory = torch.zeros(2, dtype=torch.int64, device=DEVICE)
    weights = torch.linspace(0.2, 2.0, 7, device=DEVICE)
    for T in (tp.symmetric_noise(20, 0.2), tp.partial_labels(20, 0.3)):
        for loss in losses(T, "none")[::3]:
            loss = loss.to(DEVICE)
            v, y = problem(T, n=7)
            alone = v.clone().requires_grad_()
            expected = fused.run(loss, alone, y, weights, "none")
            (expected * weights).sum().backward()
            for row, wrong in ((0, -1), (6, 20)):
                bad, own = y.clone(), v.clone().requires_grad_()
                bad[row] = False if T.per_class_labels else wrong
                memory.zero_()
                found = fused.run(loss, own, bad, weights, "none", memory, (2, 16, 1))
                (found * weights).nan_to_num(0.0).sum().backward()
                others = [i for i in range(7) if i != row]
                assert memory.tolist() == [row + 1, 0 if T.per_class_labels else wrong]
                assert torch.isnan(found[row])
                assert not own.grad[row].any()
                torch.testing.assert_close(found[others], expected[others], rtol=1e-5, atol=1e-6)
                torch.testing.assert_close(own.grad[others], alone.grad[others], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [1, 5, 9000])
def test_the_sum_of_losses(n):
    given = torch.linspace(-1.0, 2.0, n, device=DEVICE)
    out = torch.empty((), dtype=torch.float64, device=DEVICE)
    import_module("tproper.losses.kernels.triton_rows").total(given, out, 0.5)
    torch.testing.assert_close(out, 0.5 * given.double().sum(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("small", [0, 1 << 18])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_reductions_weights_and_upstream_gradients(reduction, small, monkeypatch):
    monkeypatch.setattr(fused, "SMALL", small)
    T = tp.partial_labels(4, 0.3)
    weights = torch.linspace(0.2, 2.0, N, device=DEVICE)
    for loss in losses(T, reduction)[:3]:
        v, y = problem(T)
        upstream = torch.linspace(1, 2, N, device=DEVICE) if reduction == "none" else 1.7
        compare(loss, v, y, upstream=upstream)
        compare(loss, v, y, weights)


def test_small_losses_and_large_scores_stay_exact():
    """p_y close to 1 and to 0, and scores with a common offset of 1e4 (their own float32 rounding is shared)."""
    v = torch.tensor([[30.0, 0.0, -5.0], [0.0, 30.0, 1.0], [-200.0, 0.0, 200.0], [1e4, 1e4 + 1, 1e4 - 2]])
    y = torch.tensor([0, 0, 0, 1], device=DEVICE)
    tolerances = (1e-6, 1e-6, 1e-5, 1e-5)  # squeezing adds terms of the size of the scores, which cancel
    for T in (tp.identity(3), tp.symmetric_noise(3, 0.1), tp.complementary(3)):
        for loss, tol in zip(losses(T, "none"), tolerances, strict=True):
            compare(loss, v.to(DEVICE), y, tol=tol)
    sets = torch.tensor([[1, 0, 0], [1, 0, 1], [1, 1, 1], [0, 1, 1]], dtype=torch.bool, device=DEVICE)
    for loss, tol in zip(losses(tp.partial_labels(3, 0.3), "none"), tolerances, strict=True):
        compare(loss, v.to(DEVICE), sets, tol=tol)


def test_half_precision_scores_use_float32_sums():
    T = tp.complementary(40)
    for dtype, tol in ((torch.bfloat16, 8e-3), (torch.float16, 1e-3)):
        v, y = problem(T, scale=1.0, dtype=dtype)
        for loss in losses(T):
            compare(loss, v, y, tol=tol)


def test_leading_shapes_and_copies():
    T = tp.complementary(4)
    v, y = problem(T, n=6)
    loss = fuse(tp.BackwardLoss(T, reduction="none"), "triton")
    torch.testing.assert_close(loss(v.reshape(2, 3, 4), y.reshape(2, 3)), loss(v, y).reshape(2, 3))
    strided = torch.stack([v, v], -1)[..., 0]
    assert not strided.is_contiguous()
    torch.testing.assert_close(loss(strided, y), loss(v, y))


def test_the_gradient_may_be_asked_for_twice():
    T = tp.complementary(4)
    v, y = problem(T)
    v.requires_grad_()
    out = fuse(tp.BackwardLoss(T), "triton")(v, y)
    (first,) = torch.autograd.grad(out, v, retain_graph=True)
    kept = first.clone()
    (second,) = torch.autograd.grad(out, v, torch.tensor(3.0, device=DEVICE), retain_graph=True)
    torch.testing.assert_close(second, 3 * kept)
    assert torch.equal(first, kept)  # the first gradient is the caller's: nothing wrote into it


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_second_derivatives(reduction):
    """A penalty on the gradient: the plain formulation takes over where the gradient is to be differentiated."""
    T = tp.partial_labels(4, 0.3)
    loss = tp.BackwardLoss(T, squeeze=(0.5, 2.0), reduction=reduction).to(DEVICE)
    weights = torch.linspace(0.2, 2.0, N, device=DEVICE)
    results = []
    for which in (fuse(loss, "triton"), fuse(loss, "torch")):
        v, y = problem(T)
        v.requires_grad_()
        (g,) = torch.autograd.grad(which(v, y, weights).sum(), v, create_graph=True)
        (second,) = torch.autograd.grad(g.square().sum(), v)
        results.append((g.detach(), second))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_kernel_reports_a_bad_label_and_spoils_no_other_row(reduction):
    for T in transitions(37):
        for loss in losses(T, reduction):
            loss = loss.to(DEVICE)
            v, y = problem(T)
            bad = y.clone()
            bad[2] = False if T.per_class_labels else 37
            what = "non-empty candidate sets" if T.per_class_labels else r"\[0, 37\), got 37"
            with pytest.raises(ValueError, match=what):
                loss(v, bad)  # the first call looks before it runs
            loss(v, y)
            a, b = (v.clone().requires_grad_() for _ in range(2))
            value = loss(a, bad)
            assert torch.isnan(value if reduction != "none" else value[2]).all()
            value.sum().backward()
            if reduction == "none":
                assert torch.isfinite(value[[0, 1, 3, 4]]).all()
            with pytest.raises(ValueError, match=f"{what}.* at row 2 of an earlier batch"):
                loss(v, y)
            loss(b, y).sum().backward()
            assert not a.grad[2].any()
            kept = [0, 1, 3, 4]
            torch.testing.assert_close(a.grad[kept], b.grad[kept])


def test_the_kernel_reports_candidate_sets_of_another_size():
    T = tp.multi_complementary(7, 2)
    v, y = problem(T)
    bad = y.clone()
    bad[1, y[1].nonzero()[0]] = False
    for loss in losses(T):
        loss = loss.to(DEVICE)
        loss(v, y)
        assert torch.isnan(loss(v, bad))
        with pytest.raises(ValueError, match="expected candidate sets of 5 classes, got one of 4 at row 1"):
            loss(v, y)


def test_squeezing_may_be_annealed_in_place():
    loss = tp.BackwardLoss(tp.complementary(4), squeeze=(1.0, 2.0)).to(DEVICE)
    v, y = problem(loss.transition)
    for k in (1.0, 50.0):
        loss.potential.k = k
        torch.testing.assert_close(loss(v, y).double(), loss(v.double(), y), rtol=1e-5, atol=1e-5)


def test_labels_on_the_host_are_checked_there():
    loss = tp.BackwardLoss(tp.complementary(4)).to(DEVICE)
    v = torch.zeros(2, 4, device=DEVICE)
    for _ in range(2):
        assert torch.isfinite(loss(v, [0, 3]))
        with pytest.raises(ValueError, match=r"\[0, 4\), got 4"):
            loss(v, [0, 4])


def test_the_plan_follows_its_parts():
    loss = tp.BackwardLoss(tp.complementary(4))
    before = plan(loss)
    assert plan(loss) is before
    loss.potential = tp.LogSumExp().squeezed(0.5, 2.0)
    assert plan(loss).squeeze == (0.5, 2.0)


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_many_upstream_gradients_at_a_time(reduction):
    loss = tp.BackwardLoss(tp.complementary(4), squeeze=(1.0, 2.0), reduction=reduction).to(DEVICE)
    v, y = problem(loss.transition)
    v.requires_grad_()
    ups = torch.eye(N, device=DEVICE) if reduction == "none" else torch.tensor([1.0, 2.0], device=DEVICE)
    (found,) = torch.autograd.grad(loss(v, y), v, ups, is_grads_batched=True)
    (expected,) = torch.autograd.grad(loss(v.double(), y), v, ups.double(), is_grads_batched=True)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weight_zero_leaves_a_row_out_even_one_of_infinite_loss(reduction):
    loss = tp.ForwardLoss(tp.identity(3), reduction=reduction).to(DEVICE)
    v = torch.tensor([[0.0, 0.0, 0.0], [0.0, float("inf"), 0.0]], device=DEVICE)
    v[1, 1], v[1, 0] = 0.0, float("-inf")
    y, w = torch.tensor([1, 0], device=DEVICE), torch.tensor([2.0, 0.0], device=DEVICE)
    results = []
    for which in (fuse(loss, "triton"), fuse(loss, "torch")):
        x = v.clone().requires_grad_()
        out = which(x, y, w)
        out.sum().backward()
        assert torch.isfinite(out).all()
        assert not x.grad[1].any()
        results.append((out.detach(), x.grad))
    torch.testing.assert_close(results[0], results[1])
