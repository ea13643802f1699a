"""Class-wise scores ``s_i(z)``: what example i would score if its class were z. Example indices (m,) -> (m, K)."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core import checks
from .statistics import BLOCK, Reweigher, Values


def one_hot(predictions: Tensor, K: int) -> Values:
    """1 at the predicted class: the accuracy of each class."""
    return lambda i: torch.nn.functional.one_hot(predictions[i], K).double()


def halfway(values: Values) -> Values:
    """Class probabilities to go with bare predictions: which ones matters little, since they only say how variance
    goes with accuracy."""

    def posterior(i: Tensor) -> Tensor:
        hit = values(i)
        return (hit + 1.0 / hit.shape[-1]) / 2

    return posterior


def log_losses(q: Tensor) -> Values:
    """``-log q_z``; a probability of 0 is left out here and accounted for by `infinite_rows`."""
    return lambda i: torch.where(q[i] > 0, -q[i].log(), 0.0)


def brier_losses(q: Tensor) -> Values:
    """``||q - e_z||^2``."""
    return lambda i: (q[i] ** 2).sum(-1, keepdim=True) - 2 * q[i] + 1


def infinite_rows(weigher: Reweigher, q: Tensor, labels: Tensor) -> int:
    """Examples in which a class of probability 0 has a target other than 0: their log loss is not finite."""
    rows = (q == 0).any(-1).nonzero()[:, 0]
    count = 0
    for part in rows.split(max(1, BLOCK // q.shape[1])):
        count += int(((q[part] == 0) & (weigher.targets(labels[part]).abs() > checks.SIMPLEX_TOL)).any(-1).sum())
    return count
