"""Calibration without clean labels: does 80% confidence mean right 8 times in 10?

Examples are put into bins by confidence; in each bin the mean confidence is compared with the accuracy that weak
labels give, ``mean of r_i[prediction_i]``. Noise in that accuracy makes every |difference| too large, the more so the
weaker the labels: the plain expected calibration error (ECE) of a perfectly calibrated model under complementary
labels can be 0.3. So the error reported here is the root of ``sum_b w_b (difference_b^2 - variance_b)``, whose square
is unbiased, and the plain ECE comes with the value that noise alone would give it.
"""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import FloatArray, Labels, checks
from ..errors import InputError
from ..transitions import Reconstruction, Transition
from .binned import BinnedErrors
from .classwise import classwise_calibration
from .curve import Calibration, bin_edges, bin_sums, make_curve, transition_covariance
from .inputs import width_of
from .sample import read_sample
from .score import score_of
from .statistics import Z95, Reweigher, estimate, moment_slope
from .values import halfway, one_hot

PULL = 0.6  # of the way from an accuracy to the far end of its Wilson interval; .5 is the middle
MOST_BINS, FEWEST_BINS, CLEAN_PER_BIN = 15, 5, 50  # "auto": each bin worth 50 clean labels, within limits


def worthwhile_bins(worth: float) -> int:
    """As many bins as hold 50 clean labels' worth each, within limits."""
    return int(np.clip(worth / CLEAN_PER_BIN, FEWEST_BINS, MOST_BINS))


def weak_calibration(
    labels: Labels,
    probabilities: ArrayLike | Tensor,
    transition: Transition | str,
    *,
    bins: int | str | ArrayLike = "auto",
    strategy: Literal["quantile", "uniform"] = "quantile",
    classwise: bool = False,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Calibration:
    """Calibration curve and calibration error from weak labels alone.

    In each bin of confidence the accuracy is the mean of the targets ``r_i = R e_{y_i}`` at the predicted classes.
    There is no `true=`, as other scores have it: the squared error is not a mean over rows, to which checked and
    other rows could each add their part. Checked rows alone have ``tp.weak_calibration(true[checked],
    probabilities[checked], tp.identity(K))``.

    Parameters
    ----------
    labels : weak labels as the transition takes them
        One for each example.
    probabilities : (n, K) class probabilities
        Of a model that has not seen these labels.
    transition : Transition or text
        T.
    bins : int, array or "auto"
        How many; or their edges, increasing from 0 to 1; or "auto": as many as give each bin what 50 clean labels are
        worth, from 5 to 15.
    strategy : "quantile" or "uniform"
        Bins with equally many examples, or bins of equal width.
    classwise : bool
        Look at every class's probability in turn, instead of that of the predicted class only. The squared
        errors of the classes are averaged; an example counts in every class, and the interval knows how the classes'
        errors move together.
    reconstruction, prior, sample_weight, groups
        As for `weak_accuracy`.

    Returns
    -------
    Calibration
        The curve, the error with its interval, and by how much the model is too sure of itself.

    Examples
    --------
    >>> import tproper as tp
    >>> labels = [0] * 74 + [1] * 26  # 0.9 of 0.8 and 0.1 of 0.2
    >>> curve = tp.weak_calibration(labels, [[0.8, 0.2]] * 100, tp.symmetric_noise(2, 0.1), bins=1)
    >>> round(abs(curve.overconfidence.value), 6)
    0.0
    """
    sample = read_sample(
        labels, transition, width_of(probabilities), reconstruction=reconstruction, prior=prior,
        sample_weight=sample_weight, groups=groups,
    )  # fmt: skip
    q = sample.probabilities(probabilities)
    checks.choice(strategy, "strategy", ("quantile", "uniform"))
    edges = _given_edges(bins)
    if classwise:
        if edges is None:
            count = worthwhile_bins(sample.n) if bins == "auto" else int(cast(int, bins))
            columns = [bin_edges(column, count, strategy, ties=True) for column in q.T.numpy()]
            edges = np.stack(columns)
        else:
            edges = np.tile(edges, (sample.K, 1))
        curve = classwise_calibration(sample.weigher, sample.labels, q, sample.weights, edges, sample.groups)
        return curve.noted(sample.caution)
    top = TopLabel(sample.weigher, q, sample.labels, sample.weights, groups=sample.groups)
    if edges is None:
        count = top.worthwhile_bins() if bins == "auto" else int(cast(int, bins))
        edges = bin_edges(top.confidence, count, strategy)
    return top.calibration(edges).noted(sample.caution)


def _given_edges(bins: int | str | ArrayLike) -> FloatArray | None:
    if isinstance(bins, str):
        if bins != "auto":
            raise InputError(f"bins: expected a number, edges or 'auto', got {bins!r}")
        return None
    if np.ndim(bins) == 0:
        checks.integer(bins, "bins", 1)
        return None
    given = checks.array(bins, "bins")
    edges = given.astype(np.float64) if given.dtype.kind in "fiu" else np.empty(0)
    if edges.ndim != 1 or len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
        raise InputError(f"bins: expected increasing edges from 0 to 1, got {bins!r}")
    return edges


class TopLabel:
    """Confidence and weak-label correctness of the predicted class; `batch` (..., n) handles many data sets at once."""

    def __init__(
        self,
        weigher: Reweigher,
        q: Tensor,
        labels: Tensor,
        weights: FloatArray | None,
        batch: tuple[int, ...] | None = None,
        groups: NDArray[np.int64] | None = None,
    ) -> None:
        self.groups = groups
        self.batch = (len(labels),) if batch is None else batch
        K = q.shape[1]
        confidence, predicted = q.max(-1)
        hit = one_hot(predicted, K)
        self.confidence = confidence.numpy().reshape(self.batch)
        self.g = weigher(hit, labels).reshape(self.batch)
        self._weigher, self._labels, self._predicted = weigher, labels, predicted
        self.draws = weigher.draws
        self.weights = np.ones(self.batch) if weights is None else weights.reshape(self.batch)
        # targets sum to one, so confidence minus a hit is a class-wise score like any other
        self.overconfidence = estimate(
            weigher, lambda i: confidence[i, None] - hit(i), lambda i: q[i], labels, self.weights, self.batch,
            groups=groups,
        )  # fmt: skip
        reference, shares = weigher.reference(hit, halfway(hit), labels, self.batch, np.random.default_rng(0))
        # how the second moment goes with accuracy, for bins in which rare labels are missing
        self.slope = moment_slope(self.g, self.weights, reference, shares)

    def worthwhile_bins(self) -> int:
        """As many bins as hold 50 clean labels' worth each: a clean label has variance at most 1/4."""
        return worthwhile_bins(self.g.shape[-1] / max(1.0, float(self.g.var()) / 0.25))

    def binned(self, edges: FloatArray) -> BinnedErrors:
        """Sums of accuracy minus confidence in bins (left-open, but for the first)."""
        B = len(edges) - 1
        cell = np.searchsorted(edges[1:-1], self.confidence, side="left")
        sets = int(np.prod(self.batch[:-1], dtype=np.int64))
        cell = cell.reshape(sets, -1) + B * np.arange(sets)[:, None]
        sums = bin_sums(cell.ravel(), sets * B, self.weights.ravel(), (self.g - self.confidence).ravel())
        confidence = np.bincount(cell.ravel(), weights=(self.weights * self.confidence).ravel(), minlength=sets * B)
        self.bin_confidence = np.where(sums[1] > 0, confidence / np.where(sums[1] > 0, sums[1], 1), np.nan).reshape(
            *self.batch[:-1], B
        )
        return BinnedErrors(*(s.reshape(*self.batch[:-1], B) for s in sums))

    def group_covariance(self, errors: BinnedErrors, edges: FloatArray) -> FloatArray:
        """What rows of one group, which err together, add to the covariance of ``u_b`` (B, B).

        ``u_b - E u_b`` is a sum over groups of ``sqrt(w_b) / A_b sum_i a_i (h_i - d_b)``; the rows' own part, which the
        bins show, is taken off.
        """
        assert self.groups is not None
        B, count = len(edges) - 1, int(self.groups.max()) + 1
        cell = np.searchsorted(edges[1:-1], self.confidence, side="left")
        total = float(self.weights.sum())
        scale = np.sqrt(errors.weight) / np.where(errors.used, errors.shares * total, 1.0)
        off = self.weights * (self.g - self.confidence - np.where(errors.used, errors.difference, 0.0)[cell])
        z = np.bincount(self.groups * B + cell, weights=off * scale[cell], minlength=count * B).reshape(count, B)
        return np.asarray(z.T @ z * (count / (count - 1)) - np.diag(errors.error))

    def smoothed_error(self, errors: BinnedErrors) -> FloatArray:
        """``w_b var_b``, with the variance seen within the bin or that read off the whole sample: the larger one.

        Within a bin the variance is poorly known, and mostly too small, where rare labels carry it. Over the whole
        sample ``E g^2 = U + slope (accuracy - mean)``, with a bin's accuracy from a straight line in the confidence.
        """
        a = self.weights / self.weights.sum(-1, keepdims=True)
        mean = (a * self.g).sum(-1, keepdims=True)
        second = (a * self.g**2).sum(-1, keepdims=True)
        centre = (a * self.confidence).sum(-1, keepdims=True)
        x = self.confidence - centre
        power = (a * x * x).sum(-1, keepdims=True)
        tilt = np.where(power > 0, (a * x * self.g).sum(-1, keepdims=True) / np.where(power > 0, power, 1), 0.0)
        accuracy = np.clip(mean + tilt * (np.nan_to_num(self.bin_confidence) - centre), 0, 1)
        # Read the variance beyond the middle of Wilson's interval rather than at the estimate: where all examples
        # agree it is 0 at the estimate, and the next example may still disagree.
        pull = Z95**2 * (a * a).sum(-1, keepdims=True)  # q^2 / n
        accuracy = accuracy + PULL * pull / (1 + pull) * (self.slope[..., None] - 2 * accuracy)
        variance = np.maximum(second + self.slope[..., None] * (accuracy - mean) - accuracy**2, 0)
        per_bin = (a * a).sum(-1, keepdims=True) / np.where(errors.shares > 0, errors.shares, 1.0)  # sum a^2 / share^2
        return np.maximum(errors.error, errors.shares * variance * per_bin)

    def transition_table(self, edges: FloatArray) -> FloatArray:
        """Sums of targets by bin b and predicted class z, ``G[c, b, z]`` (K, B, K): all that a change of T needs."""
        B, K = len(edges) - 1, self._weigher.transition.num_classes
        place = torch.as_tensor(np.searchsorted(edges[1:-1], self.confidence, side="left"))
        sums = self._weigher.cell_sums(self._labels, place * K + self._predicted, self.weights, B * K)
        return sums.reshape(K, B, K)

    def calibration(self, edges: FloatArray) -> Calibration:
        """Curve, error and their uncertainty, of one data set."""
        errors = self.binned(edges)
        error = self.smoothed_error(errors)
        draws, covariance = self.draws, None
        if draws is not None:
            covariance = transition_covariance(draws, self.transition_table(edges), errors, float(self.weights.sum()))
        together = None if self.groups is None else self.group_covariance(errors, edges)
        known = errors.form(error, together)
        if together is not None:
            covariance = together if covariance is None else covariance + together
        added = 0.0 if covariance is None else np.diag(covariance)
        return make_curve(
            "top label",
            errors,
            (errors.form(error, covariance), known),
            self.bin_confidence,
            edges,
            (error + added) / np.where(errors.shares > 0, errors.shares, np.nan),
            score_of("overconfidence", self.overconfidence, self.g.shape[-1], -1.0, 1.0, 1.0),
            draws,
        )
