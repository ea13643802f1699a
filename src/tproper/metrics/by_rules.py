"""Accuracy by the answers of rules, which are made of the features that the model sees too.

Unbiased scores need labels that are independent of the model's errors given the class. Rules are not: a model that sees
the same words foretells their errors, and scores near 1 whatever it knows. Two things can be said. By themselves, the
answers give each row a posterior q over the classes, and a model that knows of the class no more than they is right in
``mean q_i[prediction]``; one that errs independently of them is right in the unbiased estimate. The truth lies between
the two, as far as T is right; rules that err together make q too sure, for which the lower end is taken with a share of
the rows out of their reach (`LAPSE`), as in `estimation.gold`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._core import FloatArray, as_tensors, mixture_shares
from ..transitions import Transition
from .score import Score
from .statistics import Z95

SHARES = 50  # rounds of EM for the classes' shares
EVENLY = 0.5  # rows of each class, for each row given, that count as seen
LAPSE = 0.1  # of the rows, on which rules may err together


def posteriors_of_labels(transition: Transition, labels: Tensor, scores: FloatArray | None = None) -> FloatArray:
    """P(class | label) (n, K) by T, the classes' shares by EM, drawn to even ones as those of rules are; or by the
    prior of each row that a model's scores (n, K) give."""
    logs = transition.rows(labels, torch.float64, as_tensors(transition.tables())).logs(torch.float64)
    if scores is not None:
        both: FloatArray = torch.softmax(logs + torch.log_softmax(torch.as_tensor(scores), -1), -1).numpy()
        return both
    n = len(logs)
    likelihood = (logs - logs.amax(-1, keepdim=True)).exp().numpy()[None]
    shares = mixture_shares(likelihood, np.ones((1, n)), EVENLY * n, SHARES, 0.0)[0]
    out: FloatArray = torch.softmax(logs + torch.as_tensor(shares).log(), -1).numpy()
    return out


def accuracy_by_rules(
    transition: Transition,
    labels: Tensor,
    predicted: Tensor,
    weights: FloatArray,
    groups: NDArray[np.int64] | None,
    most: float,
) -> Score:
    """Between what the rules say by themselves and `most`, the upper end of the unbiased estimate."""
    q, n = posteriors_of_labels(transition, labels), len(labels)
    own = q[np.arange(n), predicted.numpy()]
    value = float(weights @ own)
    errors = weights * (own - value)
    if groups is not None:
        errors = np.bincount(groups, errors)
    error = math.sqrt(float((errors**2).sum()) * len(errors) / max(len(errors) - 1, 1))
    low = max((1 - LAPSE) * value + LAPSE / q.shape[1] - Z95 * error, 0.0)
    high = min(max(most, value), 1.0)
    note = (
        f"{value:.3f} by the rules alone, and more if they err independently of what the model sees; a tenth of the "
        "rows may be out of their reach. Nothing in their answers says where between: the class of some rows (true=) "
        "does"
    )
    return Score("accuracy", (low + high) / 2, (high - low) / 2 / Z95, (low, high), n, True, note, (0.0, 1.0))
