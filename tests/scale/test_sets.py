"""Losses of candidate sets in few passes: values, gradients and extremes, against the plain formulas in float64."""

from __future__ import annotations

import math

import pytest
import torch

import tproper as tp
from tproper.transitions.set_mass import log_set_mass


def problem(n=40, K=9, scale=3.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    masks = torch.rand(n, K, generator=g) < 0.3
    masks[torch.arange(n), torch.randint(K, (n,), generator=g)] = True
    masks[0] = True  # the set of all classes
    masks[1] = False
    masks[1, 4] = True  # a single class
    return scale * torch.randn(n, K, generator=g), masks


@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
def test_value_and_gradient(scale):
    v, masks = problem(scale=scale)
    a, b = v.clone().requires_grad_(), v.double().requires_grad_()
    loss = tp.ForwardLoss(tp.partial_labels(9, 0.3), reduction="none")
    ours, exact = loss(a, masks), loss.pointwise(b, masks)
    torch.testing.assert_close(ours.double(), exact, rtol=2e-6, atol=2e-6)
    weights = torch.linspace(-1, 1, len(v))
    (ours * weights).sum().backward()
    (exact * weights).sum().backward()
    torch.testing.assert_close(a.grad.double(), b.grad, rtol=1e-5, atol=1e-6)


def test_gradcheck_and_second_derivatives():
    v, masks = problem(n=4, K=5)
    v = v.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: log_set_mass(x, masks[:4, :5]), v)
    assert torch.autograd.gradgradcheck(lambda x: log_set_mass(x, masks[:4, :5]), v)


def test_masses_near_underflow_are_exact():
    v = torch.tensor([[0.0, 200.0, 1.0], [0.0, 1e4, -1e4]], requires_grad=True)
    masks = torch.tensor([[True, False, True], [True, False, True]])
    loss = tp.ForwardLoss(tp.multi_complementary(3, 1), reduction="none")
    value = loss(v, masks)
    expected = torch.tensor([200.0 - math.log(1 + math.e), 1e4]) + math.log(2)
    torch.testing.assert_close(value, expected)
    value.sum().backward()
    torch.testing.assert_close(v.grad[1], torch.tensor([-1.0, 1.0, 0.0]))


def test_an_empty_set_or_one_of_masked_classes_is_impossible_and_has_no_gradient():
    empty, other = [False, False, False], [True, False, True]
    for v, mask in ((torch.randn(2, 3), empty), (torch.tensor([[-math.inf, 0.0, -math.inf], [0.0, 1.0, 2.0]]), other)):
        v.requires_grad_()
        value = log_set_mass(v, torch.tensor([mask, other]))
        assert torch.isneginf(value[0])
        value[1].backward(retain_graph=True)
        value[0].backward()
        assert torch.isfinite(v.grad).all()
        assert (v.grad[0] == 0).all()


def test_one_softmax_where_values_can_be_seen(monkeypatch):
    v, masks = problem()
    monkeypatch.setattr(tp.ForwardLoss, "pointwise", lambda *a: pytest.fail("took the plain way"))
    tp.ForwardLoss(tp.partial_labels(9, 0.3))(v, masks)


def test_under_vmap():
    v, masks = problem()
    stacked = torch.func.vmap(log_set_mass)(torch.stack([v, 2 * v]), torch.stack([masks, masks]))
    torch.testing.assert_close(stacked[1], log_set_mass(2 * v, masks))


def losses_of_sets(K, k):
    """A loss of candidate sets whose coefficients are of both signs, and large."""
    loss = tp.BackwardLoss(tp.partial_labels(K, 0.3), squeeze=(k, 2.0), reduction="none")
    loss.coefficient.copy_(torch.linspace(-2, 3, K + 1))
    return loss


@pytest.mark.parametrize("k", [0.0, 0.7])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_cross_entropy_of_sets(k, shift):
    v, masks = problem()
    v = (v + shift).clone()
    loss = losses_of_sets(v.shape[-1], k)
    a, b = v.clone().requires_grad_(), v.double().requires_grad_()
    ours, exact = loss(a, masks), loss.pointwise(b, masks)
    torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-5)
    ours.mean().backward()
    exact.mean().backward()
    torch.testing.assert_close(a.grad.double(), b.grad, rtol=1e-5, atol=1e-6)


def test_cross_entropy_gradients():
    v, masks = problem(n=4, K=5)
    v, masks = v.double().requires_grad_(), masks[:4, :5]
    loss = losses_of_sets(5, 0.3)
    assert torch.autograd.gradcheck(lambda x: loss(x, masks), v)
    assert torch.autograd.gradgradcheck(lambda x: loss(x, masks), v)
    torch.testing.assert_close(torch.func.vmap(lambda x: loss(x, masks))(v[None])[0], loss(v, masks))
