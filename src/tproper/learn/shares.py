"""Never worse than the class shares: how far calibrated probabilities are drawn to them.

A model that cannot express the truth (a line for an exclusive or), or that has more features than rows, gives
probabilities whose *weak* risk may be low while their log loss is worse than that of no model at all: the shares of the
classes. The map ``a g(x) + (1 - a) log pi`` goes from the shares pi (a = 0) to the calibrated scores g (a = 1). What a
row gains over the shares has the unbiased estimate

    d_i(a) = <r_i, log p_a(x_i) - log pi>,        r_i the target of its weak label,

for scores by models and maps, and shares, that have not seen the row. The model stays as it is, since to draw it nearer
would make it too modest, where it clearly knows more than the shares:

* the mean of d(1) is more than `CLEAR` standard errors above 0; or
* its weak risk is below that of the shares by more than `LOWER`, and its claim stands: the gain that its own
  probabilities promise, ``mean of sum_z p log(p / pi)``, is not more than `CLEAR` standard errors above the mean of
  d(1). The weak risk says far more of weak labels than d does, and a model that cannot be right may lower it all the
  same; what such a model promises is more than it keeps.

An estimated T brings its own error into d. Where too little is known of it to invert it, nothing tells how good the
model is, and it stays as it is, too.

Elsewhere the a that is taken has the largest mean of d less `CAUTION` standard errors: the model has to show what it
adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._core import FloatArray, Split, as_tensors, mixture_shares
from ..metrics import draws_of
from ..solvers import cross_fit, row_risks
from ..transitions import Reconstruction, Transition, is_soft, pieces
from .defaults import uneven

KEPT = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the calibrated scores
CLEAR, LOWER, CAUTION = 2.5, 2.0, 1.645  # standard errors
ROUNDS = 500  # of EM for the shares
PSEUDO = 1.0  # rows of each class that the shares begin with


class Kinds:
    """The different labels among those of rows, and what they say of the classes: EM runs over these, not over rows."""

    def __init__(self, transition: Transition, labels: Tensor) -> None:
        self.K, share = transition.num_classes, None
        row = torch.arange(len(labels))
        if is_soft(labels):
            row, labels, share = pieces(transition, labels)
        # (of vectors of labels torch finds them another way, which is slow for single ones)
        kinds, of_piece = torch.unique(labels, dim=0 if labels.ndim > 1 else None, return_inverse=True)
        self.row, self.of_piece = row.numpy(), of_piece.numpy()
        self.share = None if share is None else share.numpy()
        logs = transition.rows(kinds, torch.float64, as_tensors(transition.tables())).logs(torch.float64)
        # (kinds, K), the largest of each 1
        self.likelihoods: FloatArray = torch.exp(logs - logs.amax(-1, keepdim=True)).numpy()

    def shares(self, weights: FloatArray) -> FloatArray:
        """The shares (K,) that make the labels, with weights (n,), likeliest, with one more row of each class."""
        each = weights[self.row] if self.share is None else weights[self.row] * self.share
        counts = np.bincount(self.of_piece, each, len(self.likelihoods))
        return mixture_shares(self.likelihoods[None], counts[None].astype(np.float64), PSEUDO, ROUNDS)[0]


def class_shares(transition: Transition, labels: Tensor, weights: FloatArray) -> FloatArray:
    """The shares of the classes (K,) that make the labels likeliest, with one more row of each class."""
    return Kinds(transition, labels).shares(weights)


def draw_to_shares(
    scores: FloatArray,
    labels: Tensor,
    transition: Transition,
    weights: FloatArray,
    splits: Sequence[Split],
    R: Reconstruction | None,
    groups: NDArray[np.int64] | None = None,
) -> tuple[float, FloatArray, FloatArray]:
    """How far to draw cross-validated scores (n, K) to the shares of the classes, these, and the logarithm of those
    that each row's fold did not go into (n, K). Without an R nothing tells how good the model is."""
    kinds = Kinds(transition, labels)
    shares = kinds.shares(weights)
    n = len(scores)
    prior = np.tile(np.log(shares), (n, 1))
    if R is None:
        return 0.0, shares, prior
    draws = (
        None if transition.separate else draws_of(transition, R, None if is_soft(labels) else labels, uneven(weights))
    )
    if draws is not None and draws.singular:  # nor does a T of which too little is known to invert it
        return 0.0, shares, prior
    targets = R.evidence(labels).dense(torch.float64).numpy()

    def log_shares(_: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> FloatArray:
        within = np.zeros(n)
        within[train] = weights[train]
        return np.tile(np.log(kinds.shares(within)), (len(test), 1))

    prior = cross_fit(log_shares, splits, n)
    share = weights / weights.sum()

    def logs(a: float) -> FloatArray:
        out: FloatArray = torch.log_softmax(torch.as_tensor(a * scores + (1 - a) * prior), -1).numpy()
        return out

    def gained(d: FloatArray) -> tuple[float, float]:
        """The mean gain over the shares, and its standard error: of a sample, T as it is."""
        mean = float(share @ d)
        away: Any = share * (d - mean)
        if groups is not None:
            away = np.bincount(groups, weights=away)
        m = len(away)
        return mean, float(np.sqrt((away**2).sum() * m / max(m - 1, 1)))

    def gained_by_targets(more: FloatArray) -> tuple[float, float]:
        """That of ``<r_i, more_i>``, with the error of an estimated T."""
        mean, error = gained((targets * more).sum(axis=1))
        if draws is not None:
            error = math.hypot(error, float(draws.means((targets * share[:, None]).T @ more).std()))
        return mean, error

    log_p = logs(1.0)
    mean, error = gained_by_targets(log_p - prior)
    if mean > CLEAR * error:
        return 0.0, shares, prior
    weak, weak_error = gained(row_risks(transition, labels, prior) - row_risks(transition, labels, scores))
    promised, _ = gained((np.exp(log_p) * (log_p - prior)).sum(axis=1))
    if weak > LOWER * weak_error and promised - mean < CLEAR * error:
        return 0.0, shares, prior
    gains = [gained_by_targets(logs(a) - prior) for a in KEPT]
    sure = [mean - CAUTION * error for mean, error in gains]
    return 1.0 - KEPT[int(np.argmax(sure))], shares, prior
