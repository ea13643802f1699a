"""Losses for partial labels: candidate masks (S, n, K), one of which is the true class.

All take the wrong candidates to be uniform. With s the mask, p = softmax(scores):

* CC averages nothing: ``-log sum over s of p``;
* RC and PRODEN weigh the candidates' cross entropies by how likely the model finds them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..methods import Method, Pointwise, pointwise, register
from .complementary import log_mass

SETS = ("partial", "multi_complementary")


def cc(scores: Tensor, masks: Tensor) -> Tensor:
    """CC: ``-log sum over s of p`` (Feng et al. 2020a). Forward correction but for a constant of the set."""
    return -log_mass(scores, masks)


def average(scores: Tensor, masks: Tensor) -> Tensor:
    """AVG: the mean cross entropy of the candidates, where RC and PRODEN start (Jin & Ghahramani 2002)."""
    log_p = torch.log_softmax(scores, -1)
    return -(log_p * masks).sum(-1) / masks.sum(-1).clamp_min(1)


def confidence(scores: Tensor, masks: Tensor) -> Tensor:
    """``p_z / sum over s of p`` in the set and 0 outside, without gradient.  # (S, n, K)"""
    return torch.softmax(scores.detach().masked_fill(~masks, -math.inf), -1)


def self_weighted(scores: Tensor, masks: Tensor) -> Tensor:
    """``-sum over s of w_z log p_z``, w the model's own confidence, detached.

    RC (Feng et al. 2020a) and PRODEN (Lv et al. 2020) with cross entropy. Their authors keep each
    example's w from the last time it was seen, and start from w = 1/|s|; here w comes from the current scores, a common
    variant without state. The gradient of this variant, ``-sum w_z d log p_z``, is that of CC: the three train the same
    model, step by step.
    """
    return -(confidence(scores, masks) * torch.log_softmax(scores, -1)).sum(-1)


def _self_weighted(name: str, title: str, reference: str) -> Method:
    words = (
        "its weights are detached, so its gradient is that of no loss that it computes and certify does not apply; "
        "with weights from the current scores the gradient is that of cc, whose card holds for what is trained"
    )
    return Method(
        name, title, reference, frozenset(SETS), lambda _: Pointwise(self_weighted), words=words, pointwise=True,
        uses_t=False,
    )  # fmt: skip


FENG = "Feng, Lv, Han, Xu, Niu, Geng, An & Sugiyama 2020, NeurIPS"

register(pointwise("cc", "CC", FENG, SETS, cc))
register(pointwise("avg", "AVG", "Jin & Ghahramani 2002, NeurIPS", SETS, average))
register(_self_weighted("rc", "RC", FENG))
register(_self_weighted("proden", "PRODEN", "Lv, Xu, Feng, Niu, Geng & Sugiyama 2020, ICML"))
