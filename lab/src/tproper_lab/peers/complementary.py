"""Losses for complementary labels ("not this class") that need no T: they take labels to be uniform.

Every function is ``(scores (S, n, K), labels) -> (S, n)``; p = softmax(scores), y the complementary label. Labels are
indices (S, n), or for MCL also candidate masks (S, n, K).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from tproper.extension import log_mixture

from ..methods import pointwise, register

ONE = ("complementary",)
SEVERAL = ("complementary", "multi_complementary")


def at(values: Tensor, labels: Tensor) -> Tensor:
    """The value of each example's label.  # (S, n, K), (S, n) -> (S, n)"""
    return values.gather(-1, labels[..., None])[..., 0]


def candidates(labels: Tensor, num_classes: int) -> Tensor:
    """Which classes a label leaves possible: masks as they are; all but y where y is complementary.  # (S, n, K)"""
    if labels.dtype == torch.bool:
        return labels
    return labels[..., None] != torch.arange(num_classes, device=labels.device)


def log_mass(scores: Tensor, mask: Tensor) -> Tensor:
    """``log sum over the mask of p``, in log space.  # (S, n, K) -> (S, n)"""
    return log_mixture(scores, torch.zeros_like(scores).masked_fill(~mask, -math.inf))


def scl_nl(scores: Tensor, labels: Tensor) -> Tensor:
    """SCL-NL: ``-log(1 - p_y)``, the negative-learning loss (Chou et al. 2020; Kim et al. 2019).

    Forward correction with the uniform T is ``-log((1 - p_y) / (K - 1))``: the same but for a constant.
    """
    return -log_mass(scores, candidates(labels, scores.shape[-1]))


def scl_exp(scores: Tensor, labels: Tensor) -> Tensor:
    """SCL-EXP: ``exp(p_y)`` (Chou et al. 2020)."""
    return at(torch.softmax(scores, -1), labels).exp()


def l_w(scores: Tensor, labels: Tensor) -> Tensor:
    """L-W: ``-(1 + w_y) log q_y`` with ``q = softmax(1 - p)`` and ``w = (1 - p) / (K - 1)`` (Gao & Zhang 2021).

    q models the complementary label itself; w, through which gradients flow, weighs labels
    that the model finds likely.
    """
    rest = 1 - torch.softmax(scores, -1)
    return -(1 + at(rest, labels) / (scores.shape[-1] - 1)) * at(torch.log_softmax(rest, -1), labels)


def pairwise_comparison(scores: Tensor, labels: Tensor) -> Tensor:
    """PC: ``sum over z != y of sigmoid(v_y - v_z)``, the sigmoid loss of each pair (Ishida et al. 2017)."""
    return torch.sigmoid(at(scores, labels)[..., None] - scores).sum(-1) - 0.5  # z = y gives one half


def order_preserving(scores: Tensor, labels: Tensor) -> Tensor:
    """OP: an ordinary loss of the negated scores, ``-log softmax(-v)_y`` (Liu et al. 2023).

    A class that labels exclude often gets a low score. The order of the scores is that of the classes' probabilities;
    softmax(v) is not those probabilities.
    """
    return -at(torch.log_softmax(-scores, -1), labels)


def mcl(of_mass: Callable[[Tensor], Tensor], scores: Tensor, labels: Tensor) -> Tensor:
    """MCL: ``2 (K - 1) / s * f(log C)``, C the mass of the candidates, s how many are excluded (Feng et al. 2020b).

    With f(C) = 1 - C this is, for sets of one size, the unbiased risk estimator of the mean absolute error; exp(-C) and
    -log C are the paper's upper bounds of it, convex in C.
    """
    mask = candidates(labels, scores.shape[-1])
    excluded = (~mask).sum(-1).clamp_min(1)  # a label that excludes nothing says nothing, and has no gradient
    return 2 * (scores.shape[-1] - 1) / excluded * of_mass(log_mass(scores, mask))


CHOU = "Chou, Niu, Lin & Sugiyama 2020, ICML"
FENG = "Feng, Kaneko, Han, Niu, An & Sugiyama 2020, ICML"
MASSES: dict[str, Callable[[Tensor], Tensor]] = {
    "mae": lambda c: -torch.expm1(c),
    "exp": lambda c: (-c.exp()).exp(),
    "log": lambda c: -c,
}

register(pointwise("scl_nl", "SCL-NL", CHOU, ONE, scl_nl))
register(pointwise("scl_exp", "SCL-EXP", CHOU, ONE, scl_exp))
register(pointwise("l_w", "L-W", "Gao & Zhang 2021, ICML", ONE, l_w))
register(pointwise("pc", "PC", "Ishida, Niu, Hu & Sugiyama 2017, NeurIPS", ONE, pairwise_comparison))
register(pointwise("op", "OP", "Liu, Cao, Zhang, Feng & An 2023, AISTATS", ONE, order_preserving))
for key, function in MASSES.items():
    register(pointwise(f"mcl_{key}", f"MCL-{key.upper()}", FENG, SEVERAL, partial(mcl, function)))
