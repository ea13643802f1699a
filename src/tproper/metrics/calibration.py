"""Calibration without clean labels: does 80% confidence mean right 8 times in 10?

Examples are put into bins by confidence; in each bin the mean confidence is compared with the accuracy that weak
labels give, ``mean of r_i[prediction_i]``. Noise in that accuracy makes every |difference| too large, the more so the
weaker the labels: the plain expected calibration error (ECE) of a perfectly calibrated model under complementary
labels can be 0.3. So the error reported here is the root of ``sum_b w_b (difference_b^2 - variance_b)``, whose square
is unbiased, and the plain ECE comes with the value that noise alone would give it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import FloatArray, Labels, checks, plain
from ..transitions import Reconstruction, Transition
from .statistics import (
    BinnedErrors,
    Reweigher,
    Score,
    estimate,
    heard,
    moment_slope,
    probabilities_of,
    setup,
)
from .weak import one_hot, score_of

MOST_BINS, FEWEST_BINS, CLEAN_PER_BIN = 15, 5, 50  # "auto": each bin worth 50 clean labels, within limits


@dataclass(frozen=True)
class Calibration:
    """A calibration curve and the error read off it. ``float()`` is the root-mean-square error.

    The curve has one entry per bin (top label), or per class and bin (class-wise): `edges`, `count`, `share`,
    `confidence`, `accuracy` and `accuracy_stderr`; bins without examples hold NaN.
    """

    kind: Literal["top label", "class-wise"]
    squared_error: Score  # unbiased: below 0 by chance where the model is well calibrated
    overconfidence: Score | None  # mean confidence minus accuracy; None when class-wise
    ece: float  # plain: sum of w_b |difference_b|, biased upwards by noise
    ece_of_noise: float  # what the plain ECE of a perfectly calibrated model would be, with this noise
    edges: FloatArray
    count: FloatArray
    share: FloatArray
    confidence: FloatArray
    accuracy: FloatArray
    accuracy_stderr: FloatArray

    @property
    def value(self) -> float:
        """Root-mean-square calibration error, 0 where its square is estimated below 0."""
        return math.sqrt(max(self.squared_error.value, 0.0))

    @property
    def stderr(self) -> float:
        """By the delta method; NaN at 0, where the root has no slope: use the interval."""
        return self.squared_error.stderr / (2 * self.value) if self.value > 0 else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The root of the interval of the square."""
        low, high = self.squared_error.interval
        return math.sqrt(max(low, 0.0)), math.sqrt(max(high, 0.0))

    @property
    def n(self) -> int:
        """Number of examples."""
        return self.squared_error.n

    @property
    def informative(self) -> bool:
        """Whether the interval says anything."""
        return self.squared_error.informative

    @property
    def note(self) -> str:
        """Why not, where it does not."""
        return self.squared_error.note

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        lines = [
            f"{self.kind} calibration error {self.value:.4g} (root mean square, 95% interval {low:.4g} to {high:.4g}, "
            f"n = {self.n})" + (f"; {self.note}" if self.note else ""),
            f"plain ECE {self.ece:.4g}, of which noise alone would give {self.ece_of_noise:.4g}",
        ]
        if self.overconfidence is not None:
            lines.append(str(self.overconfidence))
            lines.append(f"{'confidence':>12}{'accuracy':>12}{'stderr':>10}{'examples':>10}")
            for c, a, s, m in zip(self.confidence, self.accuracy, self.accuracy_stderr, self.count, strict=True):
                if m:
                    lines.append(f"{c:>12.4f}{a:>12.4f}{s:>10.4f}{int(m):>10}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: infinities are the texts "inf" and "-inf", NaN is None."""
        curve = ("edges", "count", "share", "confidence", "accuracy", "accuracy_stderr")
        out = {
            "kind": self.kind,
            "value": self.value,
            "stderr": self.stderr,
            "interval": self.interval,
            "n": self.n,
            "informative": self.informative,
            "note": self.note,
            "ece": self.ece,
            "ece_of_noise": self.ece_of_noise,
            "squared_error": self.squared_error.to_dict(),
            "overconfidence": None if self.overconfidence is None else self.overconfidence.to_dict(),
            "curve": {k: np.asarray(getattr(self, k)) for k in curve},
        }
        return dict(plain(out))


def weak_calibration(
    labels: Labels,
    probabilities: ArrayLike | Tensor,
    transition: Transition,
    *,
    bins: int | str | ArrayLike = "auto",
    strategy: Literal["quantile", "uniform"] = "quantile",
    classwise: bool = False,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Calibration:
    """Calibration curve and calibration error from weak labels.

    Parameters
    ----------
    probabilities : (n, K) class probabilities
    bins : how many; or their edges, increasing from 0 to 1; or "auto": as many as give each bin what
        50 clean labels are worth, from 5 to 15
    strategy : "quantile" for bins with equally many examples, "uniform" for bins of equal width
    classwise : look at every class's probability in turn, instead of that of the predicted class only. The errors of
        the classes are averaged; they are dependent, so standard error and interval are averages too, which is right
        where the classes' errors move together and too wide otherwise.
    """
    weigher, y = setup(labels, transition, reconstruction, prior)
    K, n = transition.num_classes, len(y)
    q = probabilities_of(probabilities, K, n)
    w = heard(sample_weight, weigher, y)
    if strategy not in ("quantile", "uniform"):
        raise ValueError(f"strategy: expected 'quantile' or 'uniform', got {strategy!r}")
    given = _given_edges(bins)
    if classwise:
        return _classwise(weigher, y, q, w, cast(int | str, bins) if given is None else given, strategy)
    top = TopLabel(weigher, q, y, w)
    if given is None:
        count = top.worthwhile_bins() if bins == "auto" else int(cast(int, bins))
        given = bin_edges(top.confidence, count, strategy)
    return top.calibration(given)


def _given_edges(bins: int | str | ArrayLike) -> FloatArray | None:
    if isinstance(bins, str):
        if bins != "auto":
            raise ValueError(f"bins: expected a number, edges or 'auto', got {bins!r}")
        return None
    if np.ndim(bins) == 0:
        checks.integer(bins, "bins", 1)
        return None
    edges = np.array(bins, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
        raise ValueError(f"bins: expected increasing edges from 0 to 1, got {bins!r}")
    return edges


def bin_edges(confidence: FloatArray, count: int, strategy: str) -> FloatArray:
    """Edges from 0 to 1. Ties can leave fewer bins of equal mass than asked for."""
    if strategy == "uniform":
        return np.linspace(0.0, 1.0, count + 1)
    inner = np.quantile(confidence, np.arange(1, count) / count)
    return np.concatenate([[0.0], np.unique(inner[(inner > 0) & (inner < 1)]), [1.0]])


def bin_sums(cell: np.ndarray, size: int, a: FloatArray, h: FloatArray) -> list[FloatArray]:
    """Per cell: examples, and the sums of a, a^2, a h, a^2 h, a^2 h^2."""
    terms = (np.ones_like(a), a, a * a, a * h, a * a * h, a * a * h * h)
    return [np.bincount(cell, weights=t, minlength=size).astype(np.float64) for t in terms]


class TopLabel:
    """Confidence and weak-label correctness of the predicted class; `batch` (..., n) handles many data sets at once."""

    def __init__(
        self,
        weigher: Reweigher,
        q: Tensor,
        labels: Tensor,
        weights: FloatArray | None,
        batch: tuple[int, ...] | None = None,
    ) -> None:
        self.batch = (len(labels),) if batch is None else batch
        K = q.shape[1]
        confidence, predicted = q.max(-1)
        hit = one_hot(predicted, K)
        self.confidence = confidence.numpy().reshape(self.batch)
        self.g = weigher(hit, labels).reshape(self.batch)
        self.weights = np.ones(self.batch) if weights is None else weights.reshape(self.batch)
        # targets sum to one, so confidence minus a hit is a class-wise score like any other
        self.overconfidence = estimate(
            weigher, lambda i: confidence[i, None] - hit(i), lambda i: q[i], labels, self.weights, self.batch
        )
        reference, shares = weigher.reference(
            hit, lambda i: (hit(i) + 1.0 / K) / 2, self.batch, np.random.default_rng(0)
        )
        # how the second moment goes with accuracy, for bins in which rare labels are missing
        self.slope = moment_slope(self.g, self.weights, reference, shares)

    def worthwhile_bins(self) -> int:
        """As many bins as hold 50 clean labels' worth each: a clean label has variance at most 1/4."""
        worth = self.g.shape[-1] / max(1.0, float(self.g.var()) / 0.25)
        return int(np.clip(worth / CLEAN_PER_BIN, FEWEST_BINS, MOST_BINS))

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
        variance = np.maximum(second + self.slope[..., None] * (accuracy - mean) - accuracy**2, 0)
        per_bin = (a * a).sum(-1, keepdims=True) / np.where(errors.shares > 0, errors.shares, 1.0)  # sum a^2 / share^2
        return np.maximum(errors.error, errors.shares * variance * per_bin)

    def calibration(self, edges: FloatArray) -> Calibration:
        """Curve, error and their uncertainty, of one data set."""
        errors = self.binned(edges)
        n = self.g.shape[-1]
        error = self.smoothed_error(errors)
        low, high = errors.interval(error)
        stderr = np.sqrt(error / np.where(errors.shares > 0, errors.shares, np.nan))
        return Calibration(
            kind="top label",
            squared_error=squared_score(float(errors.squared), float(errors.stderr()), (float(low), float(high)), n),
            overconfidence=score_of("overconfidence", self.overconfidence, n, -1.0, 1.0, 1.0),
            ece=float(np.nansum(errors.shares * np.abs(errors.difference))),
            ece_of_noise=float(np.nansum(errors.shares * stderr) * math.sqrt(2 / math.pi)),
            edges=edges,
            count=errors.counts,
            share=errors.shares,
            confidence=self.bin_confidence,
            accuracy=self.bin_confidence + errors.difference,
            accuracy_stderr=stderr,
        )


def squared_score(value: float, stderr: float, interval: tuple[float, float], n: int) -> Score:
    """A model cannot be off by more than 1: an interval of the root that is wider than 1/2 says nothing."""
    low, high = interval[0], min(interval[1], 1.0)
    wide = math.sqrt(high) - math.sqrt(low) > 0.5
    note = "too few weak labels to say anything about calibration" if wide else ""
    return Score("squared calibration error", value, stderr, (low, high), n, not wide, note)


def _classwise(
    weigher: Reweigher,
    labels: Tensor,
    q: Tensor,
    weights: FloatArray | None,
    bins: int | str | FloatArray,
    strategy: str,
) -> Calibration:
    n, K = q.shape
    a = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    if isinstance(bins, np.ndarray):
        edges = np.tile(bins, (K, 1))
    else:
        count = int(np.clip(n / CLEAN_PER_BIN, FEWEST_BINS, MOST_BINS)) if bins == "auto" else int(bins)
        if strategy == "uniform":
            edges = np.tile(np.linspace(0.0, 1.0, count + 1), (K, 1))
        else:  # equal mass in every class's own column; ties leave empty bins
            inner = np.quantile(q.numpy(), np.arange(1, count) / count, axis=0).T
            edges = np.concatenate([np.zeros((K, 1)), inner, np.ones((K, 1))], axis=1)
    B = edges.shape[1] - 1
    sums = [np.zeros(K * B) for _ in range(6)]
    confidence = np.zeros(K * B)
    inner_edges = torch.as_tensor(edges[:, 1:-1].copy())
    for i in weigher.blocks(n):
        p = q[i]
        cell = torch.searchsorted(inner_edges, p.T.contiguous()).T + B * torch.arange(K)
        flat, weight = cell.reshape(-1).numpy(), np.repeat(a[i.numpy()], K)
        h = (weigher.targets(labels[i]) - p).reshape(-1).numpy()
        for total, part in zip(sums, bin_sums(flat, K * B, weight, h), strict=True):
            total += part
        confidence += np.bincount(flat, weights=weight * p.reshape(-1).numpy(), minlength=K * B)
    errors = BinnedErrors(*(s.reshape(K, B) for s in sums))
    mass = sums[1].reshape(K, B)
    mean_confidence = np.where(mass > 0, confidence.reshape(K, B) / np.where(mass > 0, mass, 1.0), np.nan)
    low, high = errors.interval()
    stderr = np.sqrt(errors.variance)
    return Calibration(
        kind="class-wise",
        squared_error=squared_score(
            float(errors.squared.mean()), float(errors.stderr().mean()), (float(low.mean()), float(high.mean())), n
        ),
        overconfidence=None,
        ece=float(np.nansum(errors.shares * np.abs(errors.difference)) / K),
        ece_of_noise=float(np.nansum(errors.shares * stderr) / K * math.sqrt(2 / math.pi)),
        edges=edges,
        count=errors.counts,
        share=errors.shares,
        confidence=mean_confidence,
        accuracy=mean_confidence + errors.difference,
        accuracy_stderr=stderr,
    )
