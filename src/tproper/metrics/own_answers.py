"""Predictions that were made from the very answers they are scored by.

A score from weak labels is unbiased where the prediction depends on the class alone, not on the labels. The vote of the
annotators is no such prediction: scored by their answers it looks nearly perfect. Given the class z, a prediction that
was made without the answers agrees with their vote v with a probability of at most ``max_c P(v = c | z)``: over all
items about as often as the vote is right, by T. Predictions that nearly always agree with it, and more often than that,
were made from it (or T is far too pessimistic, which no score survives either).
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import bdtr
from torch import Tensor

from .._core import mixture_shares
from ..transitions import Transition, is_soft
from .score import Score, says_nothing

NEARLY = 0.99  # of the items: predictions that agree less often are not those of a vote
LEVEL = 1e-4
ROUNDS = 50  # of EM for the class shares


def doubted(score: Score, transition: Transition, answers: Tensor, predicted: Tensor) -> Score:
    """The score, or one that says nothing where the predictions were made from the answers."""
    if not transition.separate:
        return score
    if is_soft(answers):  # what each annotator believes most
        answers = torch.where(answers.isnan().any(-1), -1, answers.nan_to_num(0.0).argmax(-1))
    logs = transition.evidence(answers).logs(torch.float64)
    likelihood = (logs - logs.amax(1, keepdim=True)).exp().nan_to_num(nan=1.0)  # answers that T calls impossible
    seen = likelihood.numpy()[None], np.ones((1, len(likelihood)))
    joint = likelihood * torch.as_tensor(mixture_shares(*seen, rounds=ROUNDS, tolerance=0.0)[0])
    posterior, n = joint / joint.sum(1, keepdim=True), len(predicted)
    for votes in (posterior, _counts(answers, transition.num_classes)):
        winners = votes >= votes.amax(1, keepdim=True) * (1 - 1e-9)  # (n, K); ties are anyone's
        right = float((posterior * winners).amax(1).mean())
        agreed = winners.gather(1, predicted[:, None])[:, 0]
        others = n - int(agreed.sum())
        if others <= (1 - NEARLY) * n and bdtr(others, n, 1 - right) < LEVEL:
            why = (
                f"{1 - others / n:.1%} of the predictions agree with the vote of the answers, which is right "
                f"for {right:.1%} by T: predictions made from the answers cannot be scored by them"
            )
            return says_nothing(score, why)
    return score


def _counts(labels: Tensor, K: int) -> Tensor:
    """How many answers name each class (n, K)."""
    out = torch.zeros(len(labels), K + 1, dtype=torch.float64)
    column = torch.where((labels < 0) | (labels >= K), K, labels)
    return out.scatter_add_(1, column, torch.ones(column.shape, dtype=torch.float64))[:, :K]
