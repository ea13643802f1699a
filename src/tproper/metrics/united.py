"""Scores from the rows that somebody checked and from all labels together: the argument ``true=`` of every score.

Without T, or with one that was estimated, perhaps from these very rows, a score is the checked rows' own, made precise
by what labels and predictions say of all rows (`checked`). Where T is known there is a second unbiased estimate, the
weak score of all rows. Both are means with an influence of every row, u and v, and the best mixture

    a weak + (1 - a) checked,      a = (|v|^2 - <u, v>) / |u - v|^2,

has the smaller error of both at least. Where the two contradict each other, by more than 2.58 standard errors of their
difference, T is wrong or the model has seen these labels: then the checked rows speak alone, and the score says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import FloatArray, Labels, NotReconstructibleError, checks, group_codes, warn
from ..errors import InputError
from ..transitions import Encoded, LabelSpace, Transition, read_transition
from .checked import CheckedRows, IntArray, Result, SelectionWarning
from .inputs import predictions_of, probabilities_of, weights_of
from .known import known_classes
from .sample import read_sample
from .score import Score, says_nothing, score_of
from .statistics import Z95
from .values import brier_losses, log_losses

APART = 2.58  # standard errors between the two estimates, at which they contradict each other
FEW_RIGHT = 20  # checked rows that are all predicted right: rarer by merit than by repetition
REPEATED = (
    "every checked row is predicted right: if whatever made the predictions was told these classes, it repeats them, "
    "and the score says nothing"
)
LEAST = 1e-6  # probability, for what a log loss is expected to be
Weak = Callable[[], Score]


@dataclass
class Rows:
    """Labels, known classes and weights, read once."""

    columns: IntArray
    true: IntArray
    K: int
    weights: FloatArray | None
    groups: IntArray | None
    transition: Transition | None  # without names: what encoded labels go on with
    space: LabelSpace
    labels: Encoded

    @classmethod
    def read(
        cls,
        labels: Labels,
        true: Any,
        transition: Transition | str | None,
        sample_weight: ArrayLike | None,
        groups: Any,
        K: int | None = None,
    ) -> Rows:
        """Rows of weight 0 keep their place; they count for nothing."""
        if transition is None and true is None:
            raise InputError(
                "transition: expected a tproper.Transition, or the classes of some rows as true=, got neither"
            )
        transition = None if transition is None else read_transition(transition, K)
        known = known_classes(labels, true, transition)
        n = len(known.true)
        if not (known.true >= 0).any():
            raise InputError("true: expected the class of some rows, got none")
        size = len(known.classes)
        if K is not None and size != K and known.space.classes is None and transition is None:
            size = K  # numbers of classes of which the last do not occur
        if int(known.true.max()) >= size:
            raise InputError(f"true: expected classes in [0, {size}), got {known.true.max()}")
        bare = None if transition is None else known.space.transition.named(None)
        weights = weights_of(sample_weight, n)
        true_ = known.true if weights is None else np.where(weights > 0, known.true, -1)
        return cls(known.columns, true_, size, weights, group_codes(groups, n), bare, known.space, known.encoded)

    def checked(self, *also: IntArray) -> CheckedRows:
        """With the predictions' columns; warns where the design cannot be right."""
        out = CheckedRows(self.columns, self.true, self.K, also=also, weights=self.weights, groups=self.groups)
        for doubt in out.doubts:
            warn(doubt, SelectionWarning)
        return out

    def table(self, values: Callable[[Tensor], Tensor]) -> FloatArray:
        """s_i(z) (n, K)."""
        return values(torch.arange(len(self.true))).numpy()


def accuracy(rows: Rows, predictions: Any, weak: Weak) -> Score:
    """Accuracy."""
    n, K = len(rows.true), rows.K
    predicted = predictions_of(predictions, K, n, space=rows.space).numpy()
    checked = rows.checked(predicted)
    result = checked.share((rows.true == predicted).astype(np.float64), checked.guesses[np.arange(n), predicted])
    each = np.eye(K)[predicted]
    score = _score(rows, checked, result, weak, each, "accuracy", 0.0, 1.0, 1 / K)
    known = rows.true >= 0
    return score.noted(REPEATED) if (predicted == rows.true)[known].all() and known.sum() >= FEW_RIGHT else score


def log_loss(rows: Rows, probabilities: Any, weak: Weak) -> Score:
    """Log loss."""
    q = probabilities_of(probabilities, rows.K, len(rows.true), space=rows.space)
    zeros = int((q == 0).any(-1).sum())
    known = np.flatnonzero(rows.true >= 0)
    infinite = int((q.numpy()[known, rows.true[known]] == 0).sum())
    if infinite:
        limits = (0.0, math.inf)
        score = Score("log loss", math.inf, math.nan, limits, len(rows.true), limits=limits)
        return says_nothing(score, f"{infinite} checked rows are of a class to which the model gives probability 0")
    note = f"{zeros} rows give probability 0 to some class: one of that class would make the log loss infinite"
    checked = rows.checked(*_columns(q))
    each = -np.log(np.maximum(q.numpy(), LEAST))
    result = checked.mean(each)
    guess = math.log(rows.K)
    return _score(rows, checked, result, weak, each, "log loss", math.inf, 0.0, guess, note if zeros else "")


def brier(rows: Rows, probabilities: Any, weak: Weak) -> Score:
    """Brier score."""
    q = probabilities_of(probabilities, rows.K, len(rows.true), space=rows.space)
    checked = rows.checked(*_columns(q))
    each = rows.table(brier_losses(q))
    result = checked.mean(each)
    return _score(rows, checked, result, weak, each, "Brier score", 2.0, 0.0, (rows.K - 1) / rows.K)


def balanced(rows: Rows, predictions: Any) -> Score:
    """Balanced accuracy: the mean of the recalls of the classes that occur among the checked rows (delta method)."""
    n, K = len(rows.true), rows.K
    predicted = predictions_of(predictions, K, n, space=rows.space).numpy()
    checked = rows.checked(predicted)
    hit = np.eye(K)[predicted]
    one = np.eye(K)
    D = np.array([checked.mean(np.tile(one[z], (n, 1))).mean for z in range(K)])
    N = np.array([checked.mean(hit[:, z, None] * one[z]).mean for z in range(K)])
    seen = np.bincount(rows.true[rows.true >= 0], minlength=K)
    present = (seen > 0) & (D > 0)
    recall = np.clip(np.divide(N, D, out=np.zeros(K), where=present), 0.0, 1.0)
    scale = np.divide(1.0, D * present.sum(), out=np.zeros(K), where=present)
    each = (hit - recall) * scale
    result = checked.mean(each)
    alike = present & ((recall * seen < 0.5) | ((1 - recall) * seen < 0.5))  # always right or never: Wilson's reach
    extra = float(((Z95 / (seen + Z95**2) / present.sum())[alike] ** 2).sum())
    value = float(recall[present].mean())
    half = math.hypot((result.ends[1] - result.ends[0]) / 2, Z95 * math.sqrt(extra))
    result = replace(result, mean=value, stderr=math.hypot(result.stderr, math.sqrt(extra)))
    result = replace(result, ends=(value - half, value + half))
    score = score_of("balanced accuracy", result, n, 0.0, 1.0, 1 / int(present.sum()))
    if not present.all():
        lacking = ", ".join(map(str, np.flatnonzero(~present).tolist()))
        score = score.noted(f"no checked row is of class {lacking}: the mean is that of the others")
    return score.noted(checked.sentence)


def difference(rows: Rows, score: str, a: Any, b: Any) -> tuple[Result, str]:
    """Score of model a minus score of model b, and what it assumes."""
    n, K = len(rows.true), rows.K
    if score == "accuracy":
        one, two = (_predicted(rows, given, K, n, name) for given, name in ((a, "a"), (b, "b")))
        return _discordant(rows, one, two)
    qa, qb = (probabilities_of(given, K, n, name, rows.space) for given, name in ((a, "a"), (b, "b")))
    if score == "log_loss" and bool(((qa == 0) | (qb == 0)).any()):
        raise InputError("a: expected probabilities > 0 for the log loss, got 0; use score='brier'")
    values = log_losses if score == "log_loss" else brier_losses
    each = rows.table(values(qa)) - rows.table(values(qb))
    checked = rows.checked(qa.argmax(-1).numpy(), qb.argmax(-1).numpy())
    return checked.mean(each), checked.sentence


def _discordant(rows: Rows, one: IntArray, two: IntArray) -> tuple[Result, str]:
    """Accuracies differ in the rows alone on which the models do: ``P(differ) E[a right - b right | differ]``."""
    n = len(rows.true)
    every = rows.checked(one, two)
    w = every.weights / every.weights.sum()
    apart = one != two
    share = min(float(w[apart].sum()), 1.0)  # rounding
    if not (apart & every.checked).any():
        return Result(0.0, max(share / 2, 1e-300), (-share, share), np.zeros(n)), every.sentence
    some = every.only(apart)
    right = (rows.true == one).astype(np.float64) - (rows.true == two)
    P, at = every.guesses, np.arange(n)
    working = (1 + P[at, one] - P[at, two]) / 2
    half = some.share(((1 + right) / 2)[apart], working[apart])
    value = share * (2 * half.mean - 1)
    among = abs(2 * half.mean - 1) * math.sqrt(share * (1 - share) * float((w * w).sum()))
    below, above = (math.hypot(2 * share * abs(half.mean - end), Z95 * among) for end in half.ends)
    stderr = math.hypot(2 * share * half.stderr, among)
    return Result(value, stderr, (value - below, value + above), np.zeros(n)), every.sentence


def _predicted(rows: Rows, given: Any, K: int, n: int, name: str) -> IntArray:
    if checks.array(given, name).ndim == 1:
        return predictions_of(given, K, n, name, rows.space).numpy()
    out: IntArray = probabilities_of(given, K, n, name, rows.space).argmax(-1).numpy()
    return out


def _columns(q: Tensor) -> tuple[IntArray, ...]:
    """What a model's probabilities say, in few words: the class, and whether it is surer than in half its rows."""
    confidence, predicted = (x.numpy() for x in q.max(-1))
    K = q.shape[1]
    middle = np.array([np.median(confidence[predicted == z]) if (predicted == z).any() else 0.0 for z in range(K)])
    return (2 * predicted + (confidence > middle[predicted]),)


def _score(
    rows: Rows,
    checked: CheckedRows,
    result: Result,
    weak: Weak,
    each: FloatArray,
    name: str,
    worst: float,
    best: float,
    guess: float,
    open_note: str = "",
) -> Score:
    n = len(rows.true)
    result, said = _with_T(rows, result, weak, each)
    score = score_of(name, result, n, worst, best, guess, open_note, open_end=bool(open_note))
    return score.noted("; ".join(filter(None, (checked.sentence, said))))


def _with_T(rows: Rows, result: Result, weak: Weak, each: FloatArray) -> tuple[Result, str]:
    """The mixture with the weak score, where T is known and nothing speaks against it."""
    T = rows.transition
    if T is None or rows.weights is not None:
        return result, ""
    if T.estimated:
        return result, "T was estimated, perhaps from these rows, and is not used for this score"
    try:
        alone = weak()
    except NotReconstructibleError:
        return result, "T does not tell the classes apart, and is not used"
    if not math.isfinite(alone.value) or (T.separate and not alone.informative):
        return result, ""
    sample = read_sample(rows.labels, T)
    g = np.zeros(len(rows.true))
    kept = slice(None) if sample.kept is None else sample.kept.numpy()
    s = torch.as_tensor(each)[kept]
    g[kept] = sample.weigher(lambda i: s[i], sample.labels)
    u = np.zeros(len(g))
    u[kept] = (g[kept] - g[kept].mean()) / sample.n
    v = result.influence
    uu, vv, uv = (_inner(x, y, rows.groups) for x, y in ((u, u), (v, v), (u, v)))
    apart = uu + vv - 2 * uv
    if apart <= 0 or vv <= 0:
        return result, ""
    gap = (alone.value - result.mean) / math.sqrt(apart)
    if abs(gap) > APART:
        return result, (
            f"the score by T alone would be {alone.shown:.4g}, {abs(gap):.1f} standard errors away: T is doubtful, or "
            "the model has seen these labels, and T is not used"
        )
    a = float(np.clip((vv - uv) / apart, 0.0, 1.0))
    shrunk = math.sqrt(max(a * a * uu + (1 - a) ** 2 * vv + 2 * a * (1 - a) * uv, 0.0) / vv)
    mean = a * alone.value + (1 - a) * result.mean
    ends = mean - shrunk * (result.mean - result.ends[0]), mean + shrunk * (result.ends[1] - result.mean)
    mixed = replace(result, mean=mean, stderr=shrunk * result.stderr, ends=ends, influence=a * u + (1 - a) * v)
    return mixed, f"{a:.0%} of its weight is that of the labels under T, which is taken as known"


def _inner(u: FloatArray, v: FloatArray, groups: IntArray | None) -> float:
    if groups is None:
        return float(u @ v)
    return float(np.bincount(groups, u) @ np.bincount(groups, v))
