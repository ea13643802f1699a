"""Masked classes, of score -inf: no NaN, no bound crossed, the limit of falling scores, and vmap as eager."""

import math

import numpy as np
import pytest
import torch

import tproper as tp

from .registry import POTENTIALS, TRANSITIONS, every_label

NAMED = {name: make for name, make in POTENTIALS.items() if not name.startswith("a ") and name != "spherical, affine"}
AT_ONE = {
    f"{name}, alpha 1": (lambda make=make, k=k: make().squeezed(k, 1.0))
    for name, make in {**NAMED, "max": tp.Max}.items()
    if "squeezed" not in name
    for k in (0.2, 40.0)  # below the critical k of most T, and above that of all
}
MASKED = {**NAMED, "max": tp.Max, **AT_ONE}
KINDS = ["identity", "symmetric", "complementary", "partial", "pair", "two sources", "three annotators"]


def scores_with(K: int, gone: list[int], low: float, rows: int) -> torch.Tensor:
    v = torch.linspace(-0.2, 0.3, K, dtype=torch.float64)
    v[gone] = low
    return v.expand(rows, K).clone()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("potential", MASKED)
def test_a_masked_class_is_the_limit_of_falling_scores(potential, name):
    """Where a masked class has a part in the target the loss goes where it goes as the score falls: up, or down."""
    T, F = TRANSITIONS[name](), MASKED[potential]()
    K, y = T.num_classes, every_label(TRANSITIONS[name]())
    loss = tp.BackwardLoss(T, F, reduction="none")
    targets = loss.reconstruction.targets(y)
    bounded = np.isfinite(loss.lower_bounds())
    for gone in ([0], [K - 1], [0, 1]):
        out = loss(scores_with(K, gone, -math.inf, len(y)), y)
        assert not out.isnan().any()
        assert not (out[bounded] == -math.inf).any()
        touched = (targets[:, gone] != 0).any(-1)
        near, high, far = (loss(scores_with(K, gone, low, len(y)), y) for low in (-1e6, -1e20, -2e20))
        rises, falls = far - high > 1e12, far - high < -1e12
        assert torch.isposinf(out[touched & rises]).all()
        assert torch.isneginf(out[touched & falls]).all()
        steady = touched & ~rises & ~falls
        torch.testing.assert_close(out[steady], near[steady], rtol=1e-6, atol=1e-6)
        assert torch.isfinite(out[~touched]).all()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("potential", MASKED)
def test_masked_classes_under_vmap(potential, name):
    T = TRANSITIONS[name]()
    y = every_label(T)
    for loss in (tp.BackwardLoss(T, MASKED[potential](), reduction="none"), tp.ForwardLoss(T, reduction="none")):
        for gone in ([0], [0, 1]):
            v = scores_with(T.num_classes, gone, -math.inf, len(y))
            torch.testing.assert_close(torch.func.vmap(loss)(v, y), loss(v, y))


@pytest.mark.parametrize("make", [tp.GradientAscentLoss, tp.NonNegativeLoss])
def test_masked_classes_of_batch_losses(make):
    v = torch.tensor([[1.0, -math.inf, 0.5]]).requires_grad_()
    loss = make(tp.identity(3))
    torch.testing.assert_close(loss(v, [0]), torch.nn.functional.cross_entropy(v, torch.tensor([0])))
    loss(v, [0]).backward()
    assert torch.isfinite(v.grad).all()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 3.0, 4.0, 5.0]])
def test_gradients_beside_masked_classes_are_finite(name, weights):
    T = TRANSITIONS[name]()
    y = every_label(T)
    w = None if weights is None else weights[: T.num_classes]
    for squeeze in (None, (1.0, 2.0), (40.0, 1.0)):
        loss = tp.BackwardLoss(T, squeeze=squeeze, class_weights=w, reduction="none")
        v = scores_with(T.num_classes, [0], -math.inf, len(y)).requires_grad_()
        out = loss(v, y)
        assert not out.isnan().any()
        if out.isfinite().any():
            (gradient,) = torch.autograd.grad(out[out.isfinite()].sum(), v)
            assert torch.isfinite(gradient).all()
