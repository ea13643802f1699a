"""One law for every pair that the registry has kernels for: they compute the line, in every kind of use."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tproper as tp
from tproper.losses import fuse, plan_of
from tproper.losses.kernels import cpu, dispatch
from tproper.losses.kernels.registry import plan
from tproper.transitions import evidence

from .registry import TRANSITIONS, centred

SQUEEZES = {"plain": None, "alpha 2": (0.7, 2.0), "alpha 1.3": (0.3, 1.3), "alpha 1": (0.3, 1.0), "alpha 4": (0.1, 4.0)}
CASES = {f"{T}, {kind}": (T, kind) for T in TRANSITIONS for kind in ("forward", *SQUEEZES)}


def make(name: str, **options: object) -> tp.BackwardLoss | tp.ForwardLoss:
    T, kind = CASES[name]
    if kind == "forward":
        return tp.ForwardLoss(TRANSITIONS[T](), **options)
    return tp.BackwardLoss(TRANSITIONS[T](), squeeze=SQUEEZES[kind], **options)


def batch(T: tp.Transition, n: int = 11, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    labels = T.encode(T.sample(np.arange(n) % T.num_classes, 0))
    return 8 * centred(n, T.num_classes, scale=1.0).to(dtype), labels


def test_every_kind_of_evidence_is_in_the_law():
    met = {type(make(name).evidence(batch(make(name).transition)[1])) for name in CASES}
    known = {
        kind
        for base in (evidence.Targets, evidence.Rows)
        for kind in vars(evidence).values()
        if isinstance(kind, type) and issubclass(kind, base) and kind is not base
    }
    made_of_others = {evidence._SmallerSide, evidence.ScaledRows, evidence.MaskRows, evidence.Weighted}
    assert known - made_of_others == met


LONG = [f"{T}, {kind}" for T in ("identity", "complementary", "partial", "pair") for kind in ("forward", *SQUEEZES)]


@pytest.mark.parametrize(("name", "narrow"), [(name, cpu.NARROW) for name in CASES] + [(name, 1) for name in LONG])
def test_a_kernel_is_the_line(name, narrow, monkeypatch):
    monkeypatch.setattr(cpu, "NARROW", narrow)  # rows of more classes go another way
    for dtype, tol in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
        for reduction in ("mean", "sum", "none"):
            loss = make(name, reduction=reduction)
            assert not isinstance(plan(loss), str)
            v, y = batch(loss.transition, dtype=dtype)
            w = torch.linspace(0, 2, len(v), dtype=dtype)
            for weights in (None, w):
                a, b = v.clone().requires_grad_(), v.double().clone().requires_grad_()
                ours = loss(a, y, weights)
                line = loss._reduce(loss.pointwise(b, y), None if weights is None else w.double(), reduction)
                assert ours.dtype == dtype
                torch.testing.assert_close(ours.double(), line, rtol=tol, atol=tol * 10)
                up = torch.linspace(1, 2, max(1, line.numel()), dtype=torch.float64).reshape(line.shape)
                ours.backward(up.to(dtype))
                line.backward(up)
                size = float(b.grad.abs().max())
                torch.testing.assert_close(a.grad.double(), b.grad, rtol=tol, atol=10 * tol * size)


@pytest.mark.parametrize("narrow", [cpu.NARROW, 1])
@pytest.mark.parametrize("name", LONG)
def test_neither_a_common_shift_nor_scores_far_apart_cost_digits(name, narrow, monkeypatch):
    """In float32 a probability is 0 from a score 104 below the largest on: its logarithm must not be taken."""
    monkeypatch.setattr(cpu, "NARROW", narrow)
    loss = make(name, reduction="none")
    v, y = batch(loss.transition)
    for scores in (40 * v, v.mul(8).round().div(8) + 1e6):  # multiples of 1/8 keep their digits beside a million
        a, b = scores.float().requires_grad_(), scores.float().double().requires_grad_()
        ours, line = loss(a, y), loss.pointwise(b, y)
        torch.testing.assert_close(ours.double(), line, rtol=2e-6, atol=2e-5)
        ours.sum().backward()
        line.sum().backward()
        torch.testing.assert_close(a.grad.double(), b.grad, rtol=2e-6, atol=2e-5 * float(b.grad.abs().max()))


@pytest.mark.parametrize("name", [*CASES])
def test_values_and_gradients_for_a_solver(name):
    loss = make(name)
    v, y = batch(loss.transition)
    w = torch.linspace(0, 2, len(v), dtype=torch.float64)
    x = v.clone().requires_grad_()
    line = loss.pointwise(x, y)
    (gradient,) = torch.autograd.grad((line * w).sum(), x)
    for scores in (v, v.T.contiguous().T):
        losses, ours = loss.bind(y, w, class_major=scores.stride(-1) > 1)(scores)
        assert not losses.requires_grad
        torch.testing.assert_close(losses, line.detach() * w)
        torch.testing.assert_close(ours, gradient, rtol=1e-10, atol=1e-12)
        assert torch.equal(scores, v)  # left alone
    torch.testing.assert_close(loss.bind(y)(v)[0], line.detach())


@pytest.mark.parametrize("potential", [tp.Brier(), tp.Sparsemax(), tp.Tsallis(1.5), tp.Brier().squeezed(0.5, 1.5)])
def test_values_and_gradients_of_other_potentials_and_losses(potential):
    T = tp.complementary(4)
    for loss in (tp.BackwardLoss(T, potential), tp.BackwardLoss(T, potential, class_weights=[1, 2, 3, 4])):
        v, y = batch(T)
        x = v.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss.pointwise(x, y).sum(), x)
        losses, ours = loss.bind(y)(v)
        torch.testing.assert_close(losses, loss.pointwise(v, y))
        torch.testing.assert_close(ours, gradient, rtol=1e-9, atol=1e-11)


def test_a_pair_without_a_kernel_says_why():
    R = tp.complementary(4).reconstruction()
    assert plan_of(tp.Brier(), R) == "the potential is Brier (affine), not log-sum-exp"
    assert "alpha = 0.5" in plan_of(tp.LogSumExp().squeezed(1, 0.5, allow_improper=True), R)

    class Mine(tp.LogSumExp):
        """Another function, perhaps."""

    assert isinstance(plan_of(Mine(), R), str)
    assert (
        tp.BackwardLoss(tp.complementary(4), Mine())._work(torch.zeros(1, 4), torch.zeros(1, dtype=torch.int64)) is None
    )


def test_a_loss_of_your_own_is_never_replaced_by_a_kernel():
    class Half(tp.BackwardLoss):
        def pointwise(self, scores, labels):
            return super().pointwise(scores, labels) / 2

    T = tp.complementary(4)
    v, y = batch(T)
    torch.testing.assert_close(Half(T)(v, y), tp.BackwardLoss(T)(v, y) / 2)
    losses, gradient = tp.BackwardLoss(T).bind(y)(v)
    torch.testing.assert_close(Half(T).bind(y)(v), (losses / 2, gradient / 2))
    assert "Half is neither" in dispatch.unplanned(Half(T))


LEFT_OUT = {
    "forward": lambda reduction: tp.ForwardLoss(tp.identity(3), reduction=reduction),
    "forward, a label that cannot occur": lambda reduction: tp.ForwardLoss(
        tp.Transition([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]), reduction=reduction
    ),
    "backward": lambda reduction: tp.BackwardLoss(tp.identity(3), reduction=reduction),
    "gLS": lambda reduction: tp.BackwardLoss(tp.symmetric_noise(3, 0.1), squeeze=(1.0, 2.0), reduction=reduction),
    "spherical": lambda reduction: tp.BackwardLoss(tp.identity(3), tp.Spherical(), reduction=reduction),
    "GA": lambda reduction: tp.GradientAscentLoss(tp.identity(3)),
    "non-negative": lambda reduction: tp.NonNegativeLoss(tp.identity(3)),
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LEFT_OUT)
@pytest.mark.parametrize("bad", [[0.0, -torch.inf, 0.0], [torch.inf, 0.0, 0.0], [1e30, -1e30, 0.0], [torch.nan] * 3])
def test_weight_zero_leaves_a_row_out_whatever_stands_in_it(name, reduction, bad):
    """One rule for every loss, path and reduction: no value, no gradient."""
    loss = LEFT_OUT[name](reduction)
    good = torch.tensor([0.1, -0.2, 0.1])
    v = torch.stack([good, torch.tensor(bad)]).requires_grad_()
    y, w = torch.tensor([0, 1]), torch.tensor([2.0, 0.0])
    ways = [loss, fuse(loss, "torch")]
    if reduction == "mean" and bad[0] == 1e30:
        torch._dynamo.reset()
        ways.append(torch.compile(loss, backend="eager", fullgraph=True))
    for which in ways:
        v.grad = None
        out = which(v, y, w)
        alone = loss(good[None], y[:1], w[:1])
        torch.testing.assert_close(out.sum(), alone.sum())
        out.sum().backward()
        assert torch.isfinite(v.grad).all()
        assert not v.grad[1].any()
    stacked = torch.eye(3).expand(2, 3, 3)
    assert torch.isfinite(loss(v, y, w, stacked)).all()
