"""Which losses the kernel takes, which backend a call gets, and that it says so. No GPU is needed here."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from interpreted import passes_interpreted
from refusals import refused

import tproper as tp
from tproper.losses import fuse
from tproper.losses.kernels import dispatch as fused
from tproper.losses.kernels.registry import Plan, plan

K = 5
STRUCTURED = {
    "identity": tp.identity(K),
    "symmetric": tp.symmetric_noise(K, 0.3),
    "complementary": tp.complementary(K),
    "noisy complementary": tp.complementary(K, noise=0.05),
    "partial": tp.partial_labels(K, 0.2),
    "multi-complementary": tp.multi_complementary(K, 2),
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_structured_losses_are_planned(name):
    T = STRUCTURED[name]
    for loss in (tp.ForwardLoss(T), tp.BackwardLoss(T), tp.BackwardLoss(T, squeeze=(1.0, 1.5))):
        made = plan(loss)
        assert isinstance(made, Plan)
        assert made.forward == isinstance(loss, tp.ForwardLoss)
        assert made.by_size is None or made.by_size in loss.tables
    assert plan(tp.BackwardLoss(T, squeeze=(0.0, 2.0))).squeeze is None
    assert plan(tp.BackwardLoss(T, squeeze=(0.3, 2.0))).squeeze == (0.3, 2.0)


@pytest.mark.parametrize("name", ["identity", "symmetric", "complementary", "noisy complementary"])
def test_the_planned_numbers_are_the_target(name):
    """b + c on the label's class and b elsewhere: what the reconstruction says."""
    loss = tp.BackwardLoss(STRUCTURED[name])
    c, b = plan(loss).numbers
    target = loss.reconstruction.targets([3])[0]
    expected = torch.full((K,), b, dtype=torch.float64)
    expected[3] += c
    torch.testing.assert_close(target, expected, rtol=1e-12, atol=1e-15)
    d, o = plan(tp.ForwardLoss(STRUCTURED[name])).numbers
    assert STRUCTURED[name].matrix()[3, [3, 0]] == pytest.approx([d, o])


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (tp.BackwardLoss(tp.pair_noise(K, 0.1)), "R of pair_noise(5, 0.1) is dense"),
        (tp.ForwardLoss(tp.pair_noise(K, 0.1)), "T of pair_noise(5, 0.1) is dense"),
        (tp.BackwardLoss(tp.identity(K), tp.Brier()), "not log-sum-exp"),
        (tp.BackwardLoss(tp.identity(K), tp.Brier().squeezed(1, 2)), "not log-sum-exp"),
        (tp.BackwardLoss(tp.identity(K), class_weights=[1, 2, 3, 4, 5]), "class_weights"),
        (tp.BackwardLoss(tp.identity(K), tp.LogSumExp().squeezed(1, 0.5, allow_improper=True)), "alpha = 0.5"),
        (tp.GradientAscentLoss(tp.identity(K)), "GradientAscentLoss is neither"),
    ],
)
def test_what_the_kernel_does_not_know_is_said_and_runs_in_torch(loss, why, monkeypatch):
    assert why in fused.unplanned(loss)
    v, y = torch.randn(3, K), torch.tensor([0, 1, 2])
    assert torch.equal(fuse(loss)(v, y), loss(v, y))
    with pytest.raises(ValueError, match="backend: 'triton' cannot run this loss"):
        fuse(loss, "triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(fused, "triton_installed", lambda: True)
    assert why in fuse(loss).backend_for(v)
    with pytest.raises(AttributeError):  # `fuse` is the one way to choose
        loss.backend = "triton"


def test_a_call_that_the_kernel_cannot_run_says_why(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(fused, "triton_installed", lambda: True)
    loss = fuse(tp.BackwardLoss(tp.complementary(K)), "triton")
    with pytest.raises(ValueError, match="backend: 'triton' cannot run this call: scores are float64; use 'auto' or"):
        loss(torch.randn(3, K).double(), torch.tensor([0, 1, 2]))


def test_the_backend_is_visible(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    loss, v = tp.BackwardLoss(tp.complementary(K)), torch.randn(3, K)
    assert fuse(loss).backend_for(v) == "torch: scores are on cpu"
    assert fuse(loss, "torch").backend_for(v) == "torch: asked for"
    assert loss.backend == "auto"  # `fuse` leaves the loss it was given alone
    monkeypatch.setattr(fused, "triton_installed", lambda: False)
    with pytest.raises(ValueError, match="needs the package triton"):
        fuse(loss, "triton")
    with refused("backend"):
        fuse(loss, "cuda")


def test_obstacles_are_named(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(fused, "triton_installed", lambda: True)
    loss, v = tp.BackwardLoss(tp.complementary(K)), torch.randn(3, K)
    assert fuse(loss).backend_for(v) == "triton"
    assert fuse(loss).backend_for(v.double()) == "torch: scores are float64"
    assert "weights require a gradient" in fuse(loss).backend_for(v, torch.ones(3, requires_grad=True))
    seen = []

    def traced(x):
        seen.append(fuse(loss).backend_for(x))
        return loss(x, torch.tensor(1))

    torch.func.vmap(traced)(v)
    assert seen == ["torch: a functorch transform is active"]


def test_it_stands_in_for_the_loss(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    loss = tp.BackwardLoss(tp.complementary(K), squeeze=(1, 2))
    same, v = fuse(loss), torch.randn(4, K, dtype=torch.bfloat16)
    y, w = torch.tensor([0, 1, 2, 3]), torch.rand(4)
    assert torch.equal(same(v, y, w), loss(v, y, w))
    assert torch.equal(same.probabilities(v.float()), loss.probabilities(v.float()))
    assert (same.lower_bounds() == loss.lower_bounds()).all()
    assert same.certify().lower_bounded
    T = torch.as_tensor(loss.transition.matrix()).float().expand(4, K, K)
    assert torch.equal(same(v.float(), y, None, T), loss(v.float(), y, None, T))
    if fused.triton_installed():
        with pytest.raises(ValueError, match="cannot run this call: scores are on cpu"):
            fuse(loss, "triton")(v, y)
        with pytest.raises(ValueError, match="there is one transition per example"):
            fuse(loss, "triton")(v.float(), y, None, T)
    with refused("loss"):
        fuse(torch.nn.CrossEntropyLoss())


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="test_fused_kernel.py runs on the GPU itself")
def test_the_kernel_in_tritons_interpreter():
    passes_interpreted(Path(__file__).parent / "test_fused_kernel.py")
