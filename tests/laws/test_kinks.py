"""Convex potentials with kinks: values and losses are right, and what Newton's method cannot find is said."""

import pytest
import torch

import tproper as tp
from tproper.potentials.conjugates import NotComputedError

KINKED = {
    "max": (lambda v: v.amax(-1), "simplex"),
    "max and square": (lambda v: v.abs().amax(-1) + v.square().sum(-1) / 4, "affine"),
    "abs": (lambda v: torch.logsumexp(v, -1) + (v - 0.3).abs().sum(-1) / 8 + v.square().sum(-1) / 8, "affine"),
}


@pytest.mark.parametrize("name", KINKED)
def test_losses_are_those_of_the_formula(name):
    function, domain = KINKED[name]
    T = tp.symmetric_noise(3, 0.2)
    loss = tp.BackwardLoss(T, potential=tp.ConvexPotential(function, domain=domain), reduction="none")
    v = torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    v = (v * 4).round() / 4  # many ties
    labels = torch.arange(50) % 3
    centred = v - v.mean(-1, keepdim=True)
    target = torch.as_tensor(T.reconstruction().targets(labels))
    assert torch.allclose(loss(v, labels), function(centred) - (target * centred).sum(-1))


@pytest.mark.parametrize("name", KINKED)
def test_a_conjugate_is_right_or_said_to_be_missing(name):
    """Fenchel-Young: F*(q) >= <q, v> - F(v) for every v; a number below that would be wrong."""
    function, domain = KINKED[name]
    F = tp.ConvexPotential(function, domain=domain)
    q = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64)
    try:
        value = F.conjugate(q)
    except NotComputedError as error:
        message = str(error)
        assert "is F convex, and smooth? It does not settle at kinks (of max, abs, relu)" in message
        return
    v = 2 * torch.randn(4000, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    v = v - v.mean(-1, keepdim=True)
    assert float(value) >= float(((q * v).sum(-1) - function(v)).max()) - 1e-6
