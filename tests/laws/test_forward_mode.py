"""Forward-mode derivatives: Jacobian-vector products and forward-over-reverse Hessians, for every loss and potential.

A loss that is made together with its gradient has no formulas for forward mode to follow; without care it would
drop the derivative in silence.
"""

import pytest
import torch
from torch.autograd import forward_ad

from .registry import LOSSES, POTENTIALS, TRANSITIONS, centred, every_label


def directional(function, x, move):
    """The derivative of function at x along move, by dual numbers outside of torch.func."""
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(x, move))).tangent
    assert tangent is not None, "the derivative was dropped"
    return tangent


def agree(function, x, move):
    slope = torch.autograd.functional.jvp(function, x, move)[1]  # by two backward passes
    torch.testing.assert_close(torch.func.jvp(function, (x,), (move,))[1], slope)
    torch.testing.assert_close(directional(function, x, move), slope)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("transition", TRANSITIONS)
def test_losses(transition, loss):
    T = TRANSITIONS[transition]()
    module = LOSSES[loss](T)
    labels = every_label(T)[:12]
    scores, move = (centred(len(labels), T.num_classes, seed) for seed in (0, 1))
    agree(lambda v: module(v, labels), scores, move)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("transition", TRANSITIONS)
def test_hessians_of_losses(transition, loss):
    T = TRANSITIONS[transition]()
    module = LOSSES[loss](T)
    labels = every_label(T)[:4]
    scores = centred(len(labels), T.num_classes, 2)

    def total(v):
        return module(v, labels).sum()

    expected = torch.autograd.functional.hessian(total, scores)
    torch.testing.assert_close(torch.func.hessian(total)(scores), expected)


@pytest.mark.parametrize("name", POTENTIALS)
def test_potentials_and_links(name):
    F = POTENTIALS[name]()
    v, move = centred(5, 4, 0), centred(5, 4, 1)
    agree(F.value, v, move)
    agree(F.link, v, move)
