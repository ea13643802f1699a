"""Losses made block by block with their gradients: the same numbers whatever the blocks, and in every kind of use."""

import pytest
import torch

import tproper as tp
from tproper.losses.kernels import cpu as _passes

from .registry import TRANSITIONS

KINDS = {
    "backward": tp.BackwardLoss,
    "gLS": lambda T: tp.BackwardLoss(T, squeeze=(0.7, 2.0)),
    "forward": tp.ForwardLoss,
}
CASES = {f"{T}, {kind}": (T, kind) for T in TRANSITIONS for kind in KINDS}


@pytest.fixture(params=CASES)
def problem(request):
    name, kind = CASES[request.param]
    loss = KINDS[kind](TRANSITIONS[name]())
    generator, T = torch.Generator().manual_seed(0), loss.transition
    scores = 3 * torch.randn(7, T.num_classes, generator=generator)
    labels = T.sample(torch.randint(T.num_classes, (7,), generator=generator), seed=1)
    return loss, scores, T.encode(labels)


def gradient(loss, scores, labels, **kwargs):
    v = scores.detach().clone().requires_grad_()
    value = loss(v, labels)
    (out,) = torch.autograd.grad(value, v, **kwargs)
    return value.detach(), out


def test_blocks_change_nothing(problem, monkeypatch):
    """The same numbers to the last bit, with gradients, without, and in inference mode."""
    small = gradient(*problem)
    monkeypatch.setattr(_passes, "GRAIN", 1)  # else these seven rows are one block
    whole = gradient(*problem)
    torch.testing.assert_close(whole, small)
    for rows in (1, 2, 4):
        monkeypatch.setattr(_passes, "BLOCK", rows * problem[1].shape[-1])
        for a, b in zip(gradient(*problem), whole, strict=True):
            assert torch.equal(a, b)
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                assert torch.equal(problem[0](*problem[1:]), whole[0])


def test_a_second_backward_pass_gives_the_same_gradient(problem):
    loss, scores, labels = problem
    v = scores.clone().requires_grad_()
    value = loss(v, labels)
    first, second = (torch.autograd.grad(value, v, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)
    (third,) = torch.autograd.grad(value, v, create_graph=True)
    torch.testing.assert_close(third.detach(), first)
    assert torch.autograd.grad(third.square().sum(), v)[0].abs().max() > 0


def test_views_batches_of_upstream_gradients_and_more_dimensions(problem):
    loss, scores, labels = problem
    value, expected = gradient(*problem)
    strided = torch.stack([scores, scores], dim=-1)[..., 0]
    torch.testing.assert_close(gradient(loss, strided, labels)[1], expected)
    v = scores.clone().requires_grad_()
    (many,) = torch.autograd.grad(loss(v, labels), v, torch.tensor([1.0, -2.0]), is_grads_batched=True)
    torch.testing.assert_close(many, torch.stack([expected, -2 * expected]))
    deep = gradient(loss, scores[None].expand(2, *scores.shape), labels[None].expand(2, *labels.shape))
    torch.testing.assert_close(deep[0], value)
    torch.testing.assert_close(deep[1], torch.stack([expected, expected]) / 2)


def test_the_scores_are_left_alone(problem):
    loss, scores, labels = problem
    before = scores.clone()
    gradient(loss, scores, labels)
    assert torch.equal(scores, before)
