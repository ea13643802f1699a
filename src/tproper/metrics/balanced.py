"""Balanced accuracy from weak labels: a mean of ratios."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from torch import Tensor

from .._core import FloatArray, Labels, checks
from ..errors import InputError
from ..transitions import Reconstruction, Transition
from . import united
from .inputs import Sample
from .score import Score, says_nothing, score_of
from .statistics import Z95, Reweigher, Values
from .values import halfway, one_hot

FEW, POOR = "too few weak labels", "T is known too poorly"
ADVICE = "for a ratio; pass the class proportions as prior if they are known"


def weak_balanced_accuracy(
    labels: Labels,
    predictions: ArrayLike | Tensor,
    transition: Transition | None,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    true: ArrayLike | None = None,
) -> Score:
    """The mean over classes of the share of the class that is predicted right: ``1/K sum_z N_z / D_z``.

    ``N_z`` = P(class z, predicted z) and ``D_z`` = P(class z) are means of ``r_i[z] 1[prediction_i = z]`` and
    ``r_i[z]``. If the class proportions are known, pass them as `prior`: they take the place of D, and the estimate
    is unbiased and far less noisy. Otherwise it is a ratio of estimates, and no ratio is unbiased: the bias left by
    `ClassShares` grows with the relative errors of the D_z (`benchmarks/coverage.py` measures it). Where a
    class's relative error is above 1/3 the score says that it is not informative. Do not keep only the samples that
    are: D_z errs upwards in them, and the ratio downwards. The standard error is the delta method's. A class that
    certainly does not occur is left out, as scikit-learn does. `true`: as for `weak_accuracy`; T is then not used.
    """
    if true is not None:
        return united.balanced(united.Rows.read(labels, true, transition, sample_weight, groups), predictions)
    if transition is None:
        raise InputError("transition: expected a tproper.Transition, or the classes of some rows as true=, got neither")
    sample = Sample(labels, transition, reconstruction, prior, sample_weight, groups)
    return _balanced(sample, sample.predictions(predictions), prior).noted(transition.caution)


def _balanced(sample: Sample, predicted: Tensor, prior: ArrayLike | None) -> Score:
    K, n, weigher = sample.K, sample.n, sample.weigher
    hit = one_hot(predicted, K)
    if prior is not None:
        scale = torch.as_tensor(1.0 / (K * checks.probability_vector(prior, "prior", K)))
        result = sample.estimate(lambda i: hit(i) * scale, halfway(hit), student=False)
        return score_of("balanced accuracy", result, n, 0.0, 1.0, 1.0 / K)
    shares = ClassShares(weigher, sample.labels, predicted, sample.weights, sample.groups)
    present = shares.D != 0
    if not bool((shares.D[present] > 0).all()):
        z = int(((shares.D <= 0) & present).nonzero()[0])
        unknown = Score("balanced accuracy", math.nan, math.nan, (0.0, 1.0), n, limits=(0.0, 1.0))
        return says_nothing(unknown, f"the share of class {z} is estimated as {float(shares.D[z]):.3g}: {FEW} {ADVICE}")
    result = sample.estimate(shares.influence(hit), halfway(hit), student=False)
    result.mean = np.asarray(shares.value())
    result.at_least(shares.unseen_variance())
    sampling = shares.D_stderr
    shares.widen()
    score = score_of("balanced accuracy", result, n, 0.0, 1.0, 1.0 / int(present.sum()))
    weak = (shares.D_stderr * 3 > shares.D) & present
    if bool(weak.any()) and score.informative:
        z = int(weak.nonzero()[0])
        share = f"the share of class {z} is {float(shares.D[z]):.3g}, standard error {float(shares.D_stderr[z]):.2g}"
        why = POOR if float(shares.D_stderr[z]) > 2 * float(sampling[z]) else FEW
        return says_nothing(score, f"{share}: {why} {ADVICE}")
    if not bool(present.all()) and score.informative:
        absent = ", ".join(map(str, (~present).nonzero()[:, 0].tolist()))
        left = f"left out, since they do not occur: classes {absent}"
        return replace(score, note=f"{left}; {score.note}" if score.note else left)
    return score


class ClassShares:
    """``D_z`` and the recalls ``N_z / D_z``, one per class.

    The mean of a ratio is not the ratio of the means. Beale's estimator ``(N D + Cov(N, D)) / (D^2 + Var D)`` of N / D
    has a bias of order 1/n^2 and stays bounded where D comes close to 0. With clean labels it is N / D itself.
    """

    def __init__(
        self,
        weigher: Reweigher,
        labels: Tensor,
        predicted: Tensor,
        weights: FloatArray | None,
        groups: NDArray[np.int64] | None = None,
    ) -> None:
        n = len(labels)
        self._weigher = weigher
        a = (
            torch.full((n,), 1.0 / n, dtype=torch.float64)
            if weights is None
            else torch.as_tensor(weights / weights.sum())
        )
        if groups is not None:
            parts = self._by_group(weigher, labels, predicted, a, torch.as_tensor(groups))
        else:
            parts = self._by_row(weigher, labels, predicted, a)
        D, N, D1, N1, D2, N2, self._a2 = parts
        spread = float(self._a2)
        variance = (D2 - 2 * D * D1 + spread * D**2).clamp_min(0)
        covariance = N2 - D * N1 - N * D1 + spread * N * D
        self.D, self.D_stderr = D, variance.sqrt()
        self.present = D > 0
        self._safe = torch.where(self.present, D, 1.0)
        self.recall = (N * D + covariance) / torch.where(self.present, D**2 + variance, 1.0)

    @staticmethod
    def _by_row(weigher: Reweigher, labels: Tensor, predicted: Tensor, a: Tensor) -> tuple[Tensor, ...]:
        """Sums over rows of a d, a n, a^2 d, a^2 n, a^2 d^2, a^2 n d (K,), and a^2.

        d are the targets, n those where the class was predicted.
        """
        D, N, D1, N1, D2, N2 = (torch.zeros(weigher.transition.num_classes, dtype=torch.float64) for _ in range(6))
        for i in weigher.blocks(len(labels)):
            r = weigher.targets(labels[i])
            own = r.gather(1, predicted[i, None])[:, 0]  # r of the predicted class
            D += a[i] @ r
            D1 += a[i] ** 2 @ r
            D2 += a[i] ** 2 @ r**2
            N.index_add_(0, predicted[i], a[i] * own)
            N1.index_add_(0, predicted[i], a[i] ** 2 * own)
            N2.index_add_(0, predicted[i], a[i] ** 2 * own**2)
        return D, N, D1, N1, D2, N2, (a**2).sum()

    @staticmethod
    def _by_group(
        weigher: Reweigher, labels: Tensor, predicted: Tensor, a: Tensor, groups: Tensor
    ) -> tuple[Tensor, ...]:
        """The same sums, a group's weighted mean in the place of a row."""
        K, count = weigher.transition.num_classes, int(groups.max()) + 1
        d, n = (torch.zeros(count, K, dtype=torch.float64) for _ in range(2))
        for i in weigher.blocks(len(labels)):
            r = a[i, None] * weigher.targets(labels[i])
            d.index_add_(0, groups[i], r)
            hit = torch.nn.functional.one_hot(predicted[i], K)
            n.index_add_(0, groups[i], r * hit)
        own = torch.zeros(count, dtype=torch.float64).index_add_(0, groups, a)
        return d.sum(0), n.sum(0), own @ d, own @ n, (d * d).sum(0), (n * d).sum(0), (own**2).sum()

    def value(self) -> float:
        """Mean of the recalls over the classes that occur."""
        return float(self.recall[self.present].mean())

    def unseen_variance(self) -> float:
        """Variance from classes that are predicted always right or never, whose sample shows no spread.

        Class z has at most ``m = n D_z`` examples' worth of evidence, and Wilson's interval of 0 or m out of m reaches
        ``q^2 / (m + q^2)`` inwards: q times the standard error taken here.
        """
        m = self.D / float(self._a2)
        alike = self.present & ((self.recall <= 0.5 / m) | (self.recall >= 1 - 0.5 / m))
        stderr = torch.where(alike, Z95 / (m.clamp_min(0) + Z95**2), 0.0) / self.present.sum()
        return float((stderr**2).sum())

    def influence(self, hit: Values) -> Values:
        """Class-wise scores whose mean under the targets is 0 and whose spread is that of the ratio."""
        scale = torch.where(self.present, 1.0 / (self._safe * self.present.sum()), 0.0)
        return lambda i: (hit(i) - self.recall) * scale

    def widen(self) -> None:
        """T's own error in the shares, where T is estimated. In the recalls it is that of their influence, as in any
        score: the ratio itself has no end where a draw of T leaves a class without a share."""
        draws = self._weigher.draws
        if draws is not None:
            low, high = np.quantile(draws.targets(self.D.numpy()), ndtr([-1.0, 1.0]), axis=0)
            self.D_stderr = torch.hypot(self.D_stderr, torch.as_tensor((high - low) / 2))
