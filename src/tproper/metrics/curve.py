"""A calibration curve and the error read off it: what `weak_calibration` returns, however it was computed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from .._core import FloatArray, draw, plain
from .binned import BinnedErrors, QuadraticForm
from .score import Score, restrict, says_nothing
from .uncertainty import TransitionDraws

LIMITS = (0.0, 1.0)


@dataclass(frozen=True)
class Calibration:
    """A calibration curve and the error read off it: ``float()`` is the root-mean-square error.

    `weak_calibration` makes it. The curve has one entry per bin (top label), or per class and bin (class-wise); bins
    without examples hold NaN.

    Attributes
    ----------
    value : float
        The root-mean-square calibration error; `interval` is its 95% interval.
    squared_error : Score
        Its square, unbiased: below 0 by chance where the model is well calibrated.
    overconfidence : Score or None
        Mean confidence minus accuracy; None when class-wise.
    ece, ece_of_noise : float
        The plain expected calibration error, which noise biases upwards, and what it would be of a perfectly calibrated
        model with this noise.
    edges, count, share, confidence, accuracy, accuracy_stderr : arrays
        The curve.

    Examples
    --------
    >>> import tproper as tp
    >>> labels = [0] * 80 + [1] * 20
    >>> curve = tp.weak_calibration(labels, [[0.9, 0.1]] * 100, tp.identity(2), bins=1)
    >>> round(curve.overconfidence.value, 4)  # it says 0.9 and is right in 0.8
    0.1
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
        """Root-mean-square calibration error, 0 where its square is estimated below 0 (and at most 1)."""
        return math.sqrt(self.squared_error.shown)

    @property
    def shown(self) -> float:
        """The value: a root is always possible."""
        return self.value

    @property
    def at_end(self) -> bool:
        """Whether the error cannot be told apart from 0."""
        return self.squared_error.at_end

    @property
    def stderr(self) -> float:
        """By the delta method; NaN at 0, where the root has no slope: use the interval."""
        return self.squared_error.stderr / (2 * self.value) if self.value > 0 else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The root of the interval of the square."""
        low, high = self.squared_error.interval
        return math.sqrt(low), math.sqrt(high)

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

    @property
    def from_transition(self) -> float:
        """By what share the interval would be narrower if T were known."""
        return self.squared_error.from_transition

    def noted(self, note: str) -> Calibration:
        """The same with one more note on each of its scores."""
        over = None if self.overconfidence is None else self.overconfidence.noted(note)
        return replace(self, squared_error=self.squared_error.noted(note), overconfidence=over)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        told = "cannot be told apart from " if self.at_end else ""
        lines = [
            f"{self.kind} calibration error {told}{self.value:.4g} (root mean square, 95% interval {low:.4g} to "
            f"{high:.4g}, n = {self.n}{self.squared_error.share_text})" + (f"; {self.note}" if self.note else ""),
            f"plain ECE {self.ece:.4g}, of which noise alone would give {self.ece_of_noise:.4g}",
        ]
        if self.overconfidence is not None:
            lines.append(str(self.overconfidence))
            lines.append(f"{'confidence':>12}{'accuracy':>12}{'stderr':>10}{'examples':>10}")
            for c, a, s, m in zip(self.confidence, self.accuracy, self.accuracy_stderr, self.count, strict=True):
                if m:
                    lines.append(f"{c:>12.4f}{a:>12.4f}{s:>10.4f}{int(m):>10}")
        return "\n".join(lines)

    def plot(self, ax: Any = None, name: str = "weak labels") -> Any:
        """The curve with 95% bars beside the diagonal, on matplotlib's axes (by default new ones)."""
        return draw("curve", self, ax, name=name)

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
            "from_transition": self.from_transition,
            "ece": self.ece,
            "ece_of_noise": self.ece_of_noise,
            "squared_error": self.squared_error.to_dict(),
            "overconfidence": None if self.overconfidence is None else self.overconfidence.to_dict(),
            "curve": {k: np.asarray(getattr(self, k)) for k in curve},
        }
        return dict(plain(out))


def bin_edges(confidence: FloatArray, count: int, strategy: str, ties: bool = False) -> FloatArray:
    """Edges from 0 to 1. Ties leave fewer bins of equal mass than asked for, or empty ones if `ties` are kept."""
    if strategy == "uniform":
        return np.linspace(0.0, 1.0, count + 1)
    inner = np.quantile(confidence, np.arange(1, count) / count)
    if not ties:
        inner = np.unique(inner[(inner > 0) & (inner < 1)])
    return np.concatenate([[0.0], inner, [1.0]])


def bin_sums(cell: np.ndarray, size: int, a: FloatArray, h: FloatArray) -> list[FloatArray]:
    """Per cell: examples, and the sums of a, a^2, a^3, a h, a^2 h, a^2 h^2."""
    terms = (np.ones_like(a), a, a * a, a**3, a * h, a * a * h, a * a * h * h)
    return [np.bincount(cell, weights=t, minlength=size).astype(np.float64) for t in terms]


def transition_covariance(draws: TransitionDraws, table: FloatArray, errors: BinnedErrors, total: float) -> FloatArray:
    """What T's own error adds to the covariance of ``u_b = sqrt(w_b) d_b`` (B, B), from draws of T.

    ``table[c, b, z]`` (K, B, K) sums the targets of the examples in bin b with predicted class z, their weights `total`
    together. Draws far out (T close to singular) count as the 1% of draws before them.
    """
    at_estimate = np.einsum("zbz->b", table)
    scale = np.sqrt(errors.weight) / np.where(errors.used, errors.shares * total, 1.0)
    shift = trimmed((draws.means(table) - at_estimate) * scale)
    return np.asarray(shift.T @ shift / len(shift))


def trimmed(draws: FloatArray) -> FloatArray:
    """Draws (S, ...) with the extreme half per cent at either end moved to the next inner one."""
    low, high = np.quantile(draws, [0.005, 0.995], axis=0)
    return np.clip(draws, low, high)


def make_curve(
    kind: Literal["top label", "class-wise"],
    errors: BinnedErrors,
    forms: tuple[QuadraticForm, QuadraticForm],
    confidence: FloatArray,
    edges: FloatArray,
    variance: FloatArray,
    overconfidence: Score | None,
    draws: TransitionDraws | None = None,
) -> Calibration:
    """Put a curve together.

    `forms` are the quadratic forms of the squared error (mean over the classes) with T's own error and without;
    `variance` is that of each bin's accuracy.
    """
    n = int(errors.counts.sum() if kind == "top label" else errors.counts[0].sum())
    with np.errstate(invalid="ignore"):
        stderr = np.sqrt(variance)
    classes = 1 if kind == "top label" else len(errors.counts)
    return Calibration(
        kind=kind,
        squared_error=squared_score(*forms, n, draws),
        overconfidence=overconfidence,
        ece=float(np.nansum(errors.shares * np.abs(errors.difference)) / classes),
        ece_of_noise=float(np.nansum(errors.shares * stderr) / classes * math.sqrt(2 / math.pi)),
        edges=edges,
        count=errors.counts,
        share=errors.shares,
        confidence=confidence,
        accuracy=confidence + errors.difference,
        accuracy_stderr=stderr,
    )


def squared_score(form: QuadraticForm, known: QuadraticForm, n: int, draws: TransitionDraws | None) -> Score:
    """The mean square of the errors; `known` is its form if T were known.

    A model cannot be off by more than 1: an interval of the root that is wider than 1/2 says nothing.
    """
    name = "squared calibration error"
    value, stderr = float(form.estimate), float(form.stderr())
    from_T = math.sqrt(max(stderr**2 - float(known.stderr()) ** 2, 0.0)) if draws is not None else 0.0
    score = Score(name, value, stderr, LIMITS, n, True, "", LIMITS, from_T)
    if draws is not None and draws.singular:
        return says_nothing(replace(score, from_transition=1.0), draws.note)
    low, high = (float(x) for x in form.interval())
    inner = low, high
    if draws is not None:  # a model that looks better than noise allows must not look better still for noise in T
        inner = float(known.interval()[0]), float(known.interval()[1])
        low, high = min(low, inner[0]), max(high, inner[1])
    if low > LIMITS[1]:
        outside = "the whole interval lies outside the possible values 0 to 1"
        return says_nothing(score, f"{outside}: these labels did not come from this transition")
    shown = restrict(value, LIMITS)  # the interval is that of a test, whose middle is not quite the estimate
    low, high = min(low, shown), max(min(high, 1.0), shown)
    share = 0.0
    if from_T > 0 and high > low:
        width = math.sqrt(min(inner[1], 1.0)) - math.sqrt(min(inner[0], 1.0))
        share = max(1 - width / (math.sqrt(high) - math.sqrt(low)), 0.0)
    score = replace(score, interval=(low, high), from_transition=share)
    wide = math.sqrt(high) - math.sqrt(low) > 0.5
    return says_nothing(score, "too few weak labels to say anything about calibration") if wide else score
