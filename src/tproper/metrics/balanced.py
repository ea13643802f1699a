"""Balanced accuracy from weak labels: a mean of ratios."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from torch import Tensor

from .._core import FloatArray, Labels, checks
from ..transitions import Reconstruction, Transition
from . import united
from .sample import Sample, read_sample
from .score import Score, says_nothing
from .statistics import Z95, Beside, Reweigher, Values
from .values import halfway, one_hot

LEAST_SIGNAL = 5  # standard errors by which a class's share must be known to be there, for a ratio to say anything
LESS = 0.5  # by how many of them a share that is shown is likely too large, all in all
FEW, POOR = "too few weak labels", "T is known too poorly"
ADVICE = "for a ratio; pass the class proportions as prior if they are known"


def weak_balanced_accuracy(
    labels: Labels,
    predictions: ArrayLike | Tensor,
    transition: Transition | str | None,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    true: ArrayLike | None = None,
) -> Score:
    """Balanced accuracy from weak labels alone, the mean recall of the classes: ``1/K sum_z N_z / D_z``.

    ``N_z`` = P(class z, predicted z) and ``D_z`` = P(class z) are means of ``r_i[z] 1[prediction_i = z]`` and
    ``r_i[z]``. With the class shares as `prior`, these take the place of D, and the estimate is unbiased and far less
    noisy. Otherwise it is a ratio of estimates, and no ratio is unbiased: what is left of the bias grows with the
    relative errors of the D_z. Where a class's relative error is above 1/5, or none of its labels was met, the score
    says that it is not informative (scikit-learn leaves such a class out, and so scores the others alone). Do not keep
    only the samples that are informative: D_z errs upwards in them, and the ratio downwards. The standard error is the
    delta method's.

    Parameters
    ----------
    labels : weak labels as the transition takes them
        Indices, names, candidate masks or sets, (source, label) pairs.
    predictions : (n,) predicted classes
    transition : Transition, text or None
        T. An `EstimatedTransition` widens the interval by its own error. None where `true` is given.
    reconstruction : str or Reconstruction
        How to choose R; see `Transition.reconstruction`. Several scores by one estimated T take a fraction of the time
        if R is made once and given to each: they then share the draws of T.
    prior : (K,) array, optional
        The class shares of the population, if they are known.
    sample_weight : (n,) array, optional
        A row of weight 0 counts as if it had not been passed.
    groups : (n,) array, optional
        Rows of one group (of one person, document, item) are not independent: the standard error then comes from the
        sums of groups, and the degrees of freedom from their number.
    true : (n,) classes, -1 or None where unknown, optional
        Rows that somebody has checked: they and all labels are used together, and T is used where it is known alone.
        Assumes that rows were checked at random, or by their labels and the predictions alone: the score's note says
        what was found.

    Returns
    -------
    Score
        Its `value`, standard error `stderr` and 95% `interval`; prints as one line.

    Examples
    --------
    >>> import tproper as tp
    >>> labels = [0] * 40 + [1] * 10 + [1] * 40 + [0] * 10  # a tenth of them wrong
    >>> predictions = [0] * 50 + [1] * 50
    >>> score = tp.weak_balanced_accuracy(labels, predictions, tp.symmetric_noise(2, 0.1), prior=[0.5, 0.5])
    >>> round(score.value, 4)
    0.875
    """
    if true is not None or transition is None:
        return united.balanced(united.Rows.read(labels, true, transition, sample_weight, groups), predictions)
    sample = read_sample(
        labels, transition, reconstruction=reconstruction, prior=prior, sample_weight=sample_weight, groups=groups
    )
    predicted = sample.predictions(predictions)
    if prior is not None:
        return _by_prior(sample, predicted, checks.probability_vector(prior, "prior", sample.K))
    return _by_ratios(sample, predicted)


def _by_prior(sample: Sample, predicted: Tensor, prior: FloatArray) -> Score:
    """With known class shares: an unbiased mean."""
    hit, scale = one_hot(predicted, sample.K), torch.as_tensor(1.0 / (sample.K * prior))
    known = _known_classes(sample, predicted, torch.as_tensor(prior))
    scatter = sample.weigher.scatter(lambda i: hit(i) * scale, known, sample.labels, sample.shares)
    scatter += _never_predicted(sample, predicted, torch.as_tensor(prior))
    result = sample.estimate(
        lambda i: hit(i) * scale, halfway(hit), student=False, beside=Beside(entailed=scatter)
    )  # fmt: skip
    width = 2 * Z95 * math.sqrt(scatter * result.design + result.stderr_transition**2)
    return sample.score("balanced accuracy", result, (0.0, 1.0), 1.0 / sample.K, expected=width)


def _by_ratios(sample: Sample, predicted: Tensor) -> Score:
    """With class shares that are estimated from the same labels: a mean of ratios."""
    hit = one_hot(predicted, sample.K)
    shares = ClassShares(sample.weigher, sample.labels, predicted, sample.weights, sample.groups)
    if not bool((shares.D > 0).all()):
        z = int((shares.D <= 0).nonzero()[0])
        unknown = Score("balanced accuracy", math.nan, math.nan, (0.0, 1.0), sample.n, limits=(0.0, 1.0))
        why = f"the share of class {z} is estimated as {float(shares.D[z]):.3g}: {FEW} {ADVICE}"
        return says_nothing(unknown, why).noted(sample.caution)
    known = Beside(
        value=np.asarray(shares.recall.mean()),
        variance=shares.unseen_variance(),
        above=shares.selected_variance(),
    )
    result = sample.estimate(shares.influence(hit), halfway(hit), student=False, beside=known)
    sampling = shares.D_stderr
    shares.widen()
    score = sample.score("balanced accuracy", result, (0.0, 1.0), 1.0 / sample.K)
    weak = shares.D_stderr * LEAST_SIGNAL > shares.D
    if bool(weak.any()) and score.informative:
        z = int(weak.nonzero()[0])
        share = f"the share of class {z} is {float(shares.D[z]):.3g}, standard error {float(shares.D_stderr[z]):.2g}"
        why = POOR if float(shares.D_stderr[z]) > 2 * float(sampling[z]) else FEW
        return says_nothing(score, f"{share}: {why} {ADVICE}").noted(sample.caution)
    return score


def _known_classes(sample: Sample, predicted: Tensor, prior: Tensor) -> Values:
    """Class probabilities of rows by their prediction, where the class shares are known and half of each class is
    predicted right: how weak labels scatter then, whether or not the rare ones were drawn.
    """
    share = torch.zeros(sample.K, dtype=torch.float64).index_add_(0, predicted, torch.as_tensor(sample.shares))
    right = (prior / 2 / share.clamp_min(1e-300)).clamp_max(1.0)  # P(class c | predicted c)

    def posterior(i: Tensor) -> Tensor:
        c = predicted[i]
        p = prior.expand(len(i), -1).clone()
        p[torch.arange(len(i)), c] = 0.0
        p = p / p.sum(1, keepdim=True) * (1 - right[c, None])
        p[torch.arange(len(i)), c] = right[c]
        return p

    return posterior


def _never_predicted(sample: Sample, predicted: Tensor, prior: Tensor) -> float:
    """What is missing in that scatter of classes that are predicted less often than half of their rows would be.

    A sample without a row predicted as a rare class shows no scatter of that class's recall, which it does not show
    either: such samples are not the precise ones.
    """
    a = torch.as_tensor(sample.shares)
    share = torch.zeros(sample.K, dtype=torch.float64).index_add_(0, predicted, a)
    missing = (prior / 2 - share).clamp_min(0.0) / (sample.K * prior) ** 2
    return float(missing.sum() * (a**2).sum())


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
        self._safe = torch.where(D > 0, D, 1.0)
        self.recall = (N * D + covariance) / torch.where(D > 0, D**2 + variance, 1.0)

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

    def unseen_variance(self) -> float:
        """Variance from classes that are predicted always right or never, whose sample shows no spread.

        Class z has at most ``m = n D_z`` examples' worth of evidence, and Wilson's interval of 0 or m out of m reaches
        ``q^2 / (m + q^2)`` inwards: q times the standard error taken here.
        """
        m = self.D / float(self._a2)
        alike = (self.recall <= 0.5 / m) | (self.recall >= 1 - 0.5 / m)
        stderr = torch.where(alike, Z95 / (m.clamp_min(0) + Z95**2), 0.0) / len(self.D)
        return float((stderr**2).sum())

    def selected_variance(self) -> float:
        """Variance, on the upper side, for shares that are hardly known well enough: they are shown where chance has
        made them large, and a ratio too small.

        A share of s standard errors is shown from `LEAST_SIGNAL` on. Normal errors about a mean of m standard errors
        that pass it lie above m by the inverse of Mills' ratio, ``phi(m - LEAST_SIGNAL) / Phi(m - LEAST_SIGNAL)``: 1.1
        of them at `LESS` below, .07 at 2 above. m is taken for `LESS` below s.
        """
        over = (self.D / self.D_stderr.clamp_min(1e-300) - LESS - LEAST_SIGNAL).clamp(-8.0, 8.0)
        above = (-0.5 * over**2).exp() / math.sqrt(2 * math.pi) / torch.special.ndtr(over)
        off = above * self.recall.abs() * self.D_stderr / self._safe / len(self.D)
        return float((off**2).sum())

    def influence(self, hit: Values) -> Values:
        """Class-wise scores whose mean under the targets is 0 and whose spread is that of the ratio."""
        scale = 1.0 / (self._safe * len(self.D))
        return lambda i: (hit(i) - self.recall) * scale

    def widen(self) -> None:
        """T's own error in the shares, where T is estimated. In the recalls it is that of their influence, as in any
        score: the ratio itself has no end where a draw of T leaves a class without a share."""
        draws = self._weigher.draws
        if draws is not None:
            low, high = np.quantile(draws.targets(self.D.numpy()), ndtr([-1.0, 1.0]), axis=0)
            self.D_stderr = torch.hypot(self.D_stderr, torch.as_tensor((high - low) / 2))
