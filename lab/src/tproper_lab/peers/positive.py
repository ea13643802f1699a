"""Losses for positive and unlabeled examples: label 0 = labeled positive, 1 = unlabeled; class 0 is the positive one.

The unlabeled are what is left of one sample after each positive was labeled with probability r = P(labeled | positive),
which T holds. A batch of n with n_L labeled has the prior ``pi = n_L / (n r)``, so that the papers' positive risks
``pi mean_L l`` are ``sum_L l / (n r)``, and ``mean_U l`` over all of the population is the mean over the whole batch.
With the prior known instead, `positive_unlabeled(prior=..., labeled=..., n=...)` gives the T.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tproper.certificates import certify
from tproper.losses import BackwardLoss, NonNegativeLoss
from tproper.transitions import Transition

from ..methods import Method, Softmax, register


def logistic(margin: Tensor) -> Tensor:
    """``log(1 + exp(-m))``, m = v_0 - v_1: cross entropy of two classes."""
    return torch.nn.functional.softplus(-margin)


def sigmoid(margin: Tensor) -> Tensor:
    """``1 / (1 + exp(m))``: bounded, and the choice of Kiryo et al.'s experiments. Its minimiser is a sign, no p."""
    return torch.sigmoid(-margin)


class PositiveUnlabeled(Softmax):
    """The risks of PU learning, with a loss l of the margin.

    ``positive = pi R_p^+`` and ``negative = R_u^- - pi R_p^-``; both are estimated without bias (du Plessis et al.
    2015), and the second can become negative though its mean cannot.
    """

    def __init__(self, rate: float, loss: Callable[[Tensor], Tensor], join: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.rate, self.loss, self.join = rate, loss, join

    def __call__(self, scores: Tensor, labels: Tensor, learned: Tensor | None) -> Tensor:
        """What `join` makes of the two risks.  # (S,)"""
        margin = scores[..., 0] - scores[..., 1]
        weight = (labels == 0).to(scores.dtype) / self.rate
        as_positive, as_negative = self.loss(margin), self.loss(-margin)
        positive = (weight * as_positive).mean(1)
        return self.join(positive, ((1 - weight) * as_negative).mean(1))


def unbiased(positive: Tensor, negative: Tensor) -> Tensor:
    """uPU: ``pi R_p^+ + R_u^- - pi R_p^-`` (du Plessis et al. 2015)."""
    return positive + negative


def non_negative(positive: Tensor, negative: Tensor) -> Tensor:
    """nnPU: ``pi R_p^+ + max(0, R_u^- - pi R_p^-)`` (Kiryo et al. 2017, eq. 6)."""
    return positive + negative.clamp_min(0)


def ascending(positive: Tensor, negative: Tensor) -> Tensor:
    """nnPU's Algorithm 1 with beta = 0, gamma = 1: where the negative risk is below 0, climb out of it alone."""
    return torch.where(negative >= 0, positive + negative, -negative)


def _make(
    loss: Callable[[Tensor], Tensor], join: Callable[[Tensor, Tensor], Tensor]
) -> Callable[[Transition], PositiveUnlabeled]:
    return lambda T: PositiveUnlabeled(float(T.matrix()[0, 0]), loss, join)


PU = frozenset({"pu"})
DU_PLESSIS = "du Plessis, Niu & Sugiyama 2015, ICML"
KIRYO = "Kiryo, Niu, du Plessis & Sugiyama 2017, NeurIPS"
BATCH = "the risk of a whole batch is not a sum over its examples, so there is no loss that certify could decide; "

register(  # its mean over a batch is that of the backward loss, and so is its certificate
    Method("upu", "uPU", DU_PLESSIS, PU, _make(logistic, unbiased), lambda T: certify(BackwardLoss(T)))
)
register(  # equal to the non-negative loss of the library on these labels
    Method("nnpu", "nnPU", KIRYO, PU, _make(logistic, non_negative), lambda T: certify(NonNegativeLoss(T)))
)
register(
    Method(
        "nnpu_ascent", "nnPU, Algorithm 1", KIRYO, PU, _make(logistic, ascending),
        words=BATCH + "its value is never below 0; where no batch has a negative risk it is upu, which is proper",
    )
)  # fmt: skip
register(
    Method(
        "nnpu_sigmoid", "nnPU, sigmoid loss", KIRYO, PU, _make(sigmoid, ascending),
        words=BATCH + "its value is never below 0; the sigmoid loss is minimised by the sign of p - 1/2 and tells "
        "nothing else of p",
    )
)  # fmt: skip
