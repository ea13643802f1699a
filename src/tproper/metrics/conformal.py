"""Prediction sets from weak labels: which classes can a row still have, so that nine sets in ten hold the true one?

The set of a row is every class whose probability is at least t. With the target ``r_i = R e_{y_i}`` of a weak label,

    C(t) = mean_i sum_z r_i[z] 1[q_i(z) >= t]        has mean        c(t) = P(q(Z) >= t),

the share of sets that hold the true class: a weak mean, for every T that has a reconstruction. For clean labels C is
the empirical distribution of the true classes' probabilities, and its crossing of the level is split conformal
prediction's threshold (Papadopoulos et al., 2002). Weak labels bring two things that clean ones do not have:

* C is not monotone, since targets are negative at times, while c is. The threshold is the *last crossing*, coming from
  t = 1: below it C never falls short of the level again;
* the error of C at the crossing passes to c, and c cannot pass 1: what errors add above is cut off, what they take
  below is not, so that ``E c(threshold)`` falls short where the error is large. So the level that C must reach is
  raised until the mean is the level that was asked for, over normal errors with the covariance of C(t) over all t, the
  error of an estimated T among them, about a monotone fit to C (`_raised`).

Of n clean rows one more may lie anywhere among them, so that C must reach ``level (1 + 1/n)``. An estimated T is worth
the clean rows whose C had its error, and adds one over their number.

For noisy labels with a known T see Sesia, Wang and Tong (arXiv 2309.05092) and arXiv 2501.12749 and 2501.18060; this is
for any reconstructible T. It assumes that T is right and that new rows are like these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import FloatArray, Labels, checks
from ..transitions import Reconstruction, Transition
from .inputs import probabilities_of, width_of
from .sample import Sample, read_sample
from .score import Score

STEPS, COARSE = 2000, 160  # thresholds that are looked at, and those whose errors are
MOST_ENTRIES = 1 << 22  # probabilities that say where thresholds should be
DRAWS = 1000  # of the errors of C(t)
CELLS = 1 << 24  # sums by class, class and threshold, where T is estimated
RAISED = 4.0  # standard errors by which the level is raised at most
MOST_FOR_TRANSITION = 0.01  # ... for rows that an estimated T is worth


@dataclass(frozen=True)
class PredictionSets:
    """A threshold for class probabilities, and how many of its sets hold the true class. Prints as sentences.

    `conformal` makes it.

    Attributes
    ----------
    threshold : float
        A class is in a row's set if its probability is at least this; 0 where nothing less than all classes will do.
    level : float
        The share of sets that was asked to hold the true class.
    coverage : Score
        The share that does, by the labels that chose the threshold, with a 95% interval.
    size : float
        Classes in a set, in the mean over these rows.
    transition : str
        The T that all of it rests on.

    Examples
    --------
    >>> import tproper as tp
    >>> labels, p = [0] * 90 + [1] * 10, [[0.7, 0.3]] * 80 + [[0.6, 0.4]] * 20
    >>> found = tp.conformal(p, labels, tp.identity(2), level=0.8)
    >>> found.sets([[0.9, 0.1], [0.5, 0.5]]).shape
    (2, 2)
    """

    threshold: float
    level: float
    coverage: Score
    size: float
    num_classes: int
    transition: str

    def sets(self, probabilities: ArrayLike | Tensor) -> NDArray[np.bool_]:
        """Which classes each row can still have (n, K), by its class probabilities.

        A set may be empty: no class of that row is as likely as true classes mostly are.
        """
        n = len(checks.array(probabilities, "probabilities"))
        out: NDArray[np.bool_] = probabilities_of(probabilities, self.num_classes, n).numpy() >= self.threshold
        return out

    def __str__(self) -> str:
        low, high = self.coverage.interval
        lines = [
            f"prediction sets that should hold the true class of {self.level:.0%} of all rows: every class with a "
            f"probability of at least {self.threshold:.4g}, {self.size:.3g} of {self.num_classes} classes on average",
            f"share of sets that hold it: {self.coverage.shown:.4g} (95% interval {low:.4g} to {high:.4g}, "
            f"n = {self.coverage.n}{self.coverage.share_text}), if the labels came from {self.transition} and new rows "
            "are like these",
        ]
        if self.threshold <= 0:
            lines.append("these labels say too little for smaller sets: each holds every class")
        return "\n".join([*lines, *filter(None, [self.coverage.note])])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "threshold": self.threshold,
            "level": self.level,
            "coverage": self.coverage.to_dict(),
            "size": self.size,
            "transition": self.transition,
        }


def conformal(
    probabilities: ArrayLike | Tensor,
    labels: Labels,
    transition: Transition | str,
    level: float = 0.9,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> PredictionSets:
    """Sets of classes that hold the true one for a share `level` of new rows, calibrated by weak labels alone.

    Whatever the model is: a bad one has larger sets, not fewer that are right. If T is right and new rows are like
    these, the mean share over samples is `level` or a little more.

    Parameters
    ----------
    probabilities : (n, K) class probabilities
        Of a model that has not seen these labels (held-out or cross-fitted).
    labels : weak labels as the transition takes them
        One for each row.
    transition : Transition or text
        T; the error of an estimated one makes sets larger and the interval wider.
    level : float
        The share of sets that are to hold the true class, between 0 and 1.
    reconstruction, prior, sample_weight, groups
        As for `weak_accuracy`.

    Returns
    -------
    PredictionSets
        `threshold`, `sets(probabilities)` -> (n, K) booleans, `coverage` (a `Score`).

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng, T = np.random.default_rng(0), tp.symmetric_noise(3, 0.3)
    >>> p = rng.dirichlet([0.3, 0.3, 0.3], size=2000)
    >>> z = (rng.random(2000)[:, None] > p.cumsum(1)).sum(1).clip(0, 2)
    >>> found = tp.conformal(p, T.sample(z, 1), T, level=0.9)
    >>> bool(abs(found.sets(p)[np.arange(2000), z].mean() - 0.9) < 0.05)
    True
    """
    level = checks.real(level, "level", 0, 1, low_open=True, high_open=True)
    sample = read_sample(
        labels, transition, width_of(probabilities), reconstruction=reconstruction, prior=prior,
        sample_weight=sample_weight, groups=groups,
    )  # fmt: skip
    q = sample.probabilities(probabilities)
    grid = _grid(q)
    a = sample.shares
    mean = _coverages(sample, q, a, grid)
    rows = 1.0 / float(a @ a)  # as many as weights stand for
    some = _some(grid, mean)
    needed = _raised(sample, q, a, grid[some], mean[some], level, rows)
    threshold = float(grid[_last_crossing(mean, needed)])
    chosen = q >= threshold
    result = sample.estimate(lambda i: chosen[i].double(), lambda i: q[i], student=False, few_decide=True)
    score = sample.score("coverage", result, (0.0, 1.0), 0.0)
    size = float(torch.as_tensor(a) @ chosen.double().sum(1))
    return PredictionSets(threshold, level, score, size, sample.K, sample.transition.name)


def _grid(q: Tensor) -> FloatArray:
    """Thresholds from 0 up: all probabilities that occur, or of very many some, half of them spread evenly over the
    entries and half over what the model believes, so that neither many small nor few large ones are passed over."""
    rows = max(1, MOST_ENTRIES // q.shape[1])
    some = q[torch.linspace(0, len(q) - 1, min(len(q), rows)).round().long()]
    values = np.sort(some.numpy().ravel())
    distinct = np.unique(values)
    if len(distinct) > STEPS:
        levels = (np.arange(STEPS // 2) + 0.5) / (STEPS // 2)
        believed = np.cumsum(values)
        by_belief = values[np.minimum(np.searchsorted(believed, levels * believed[-1]), len(values) - 1)]
        by_entry = values[(levels * len(values)).astype(np.int64)]
        distinct = np.unique(np.concatenate([by_belief, by_entry]))
    return np.unique(np.concatenate([[0.0], distinct]))


def _places(q: Tensor, grid: FloatArray) -> Tensor:
    """The last threshold that each probability (m, K) passes."""
    return torch.searchsorted(torch.as_tensor(grid), q.contiguous(), right=True) - 1


def _contained(sample: Sample, q: Tensor, grid: FloatArray, i: Tensor) -> Tensor:
    """``sum_z r_i[z] 1[q_i(z) >= t]`` of some examples (m, thresholds)."""
    out = torch.zeros(len(i), len(grid), dtype=torch.float64)
    out.scatter_add_(1, _places(q[i], grid), sample.weigher.targets(sample.labels[i]))
    return out.flip(1).cumsum(1).flip(1)


def _blocks(sample: Sample, size: int) -> list[Tensor]:
    return list(torch.arange(sample.n).split(max(1, CELLS // max(size, sample.K))))


def _coverages(sample: Sample, q: Tensor, a: FloatArray, grid: FloatArray) -> FloatArray:
    """C(t) at the thresholds."""
    out = torch.zeros(len(grid), dtype=torch.float64)
    for i in _blocks(sample, sample.K):  # sums by threshold first: no table of examples x thresholds
        r = sample.weigher.targets(sample.labels[i]) * torch.as_tensor(a[i.numpy()])[:, None]
        out.index_add_(0, _places(q[i], grid).reshape(-1), r.reshape(-1))
    return out.flip(0).cumsum(0).flip(0).numpy()


def _last_crossing(mean: FloatArray, needed: float) -> int:
    """The largest threshold from which on, going down, C(t) is what is needed; the least of them, where none is."""
    short = np.flatnonzero(mean[1:] < needed - 1e-12)
    return int(short[0]) if len(short) else len(mean) - 1


def _some(grid: FloatArray, mean: FloatArray) -> NDArray[np.int64]:
    """A few thresholds, spread evenly over what they cover, the least among them."""
    if len(grid) <= COARSE:
        return np.arange(len(grid))
    covered = _monotone(mean)
    levels = np.linspace(1.0, 0.0, COARSE)
    return np.unique(np.r_[0, np.searchsorted(-covered, -levels, side="right") - 1])


def _monotone(mean: FloatArray) -> FloatArray:
    """The nearest coverages that fall with the threshold and are possible: midway between the monotone ends."""
    high = np.maximum.accumulate(mean[::-1])[::-1]
    low = np.minimum.accumulate(mean)
    return np.clip((high + low) / 2, 0.0, 1.0)


def _raised(
    sample: Sample, q: Tensor, a: FloatArray, grid: FloatArray, mean: FloatArray, asked: float, rows: float
) -> float:
    """What C(t) must reach for c at the last crossing to have the mean that was asked for."""
    errors, of_T = _errors(sample, q, a, grid, mean)
    covered = _monotone(mean)
    at = int(np.argmin(np.abs(covered - asked)))
    more = 0.0 if of_T is None else min(float(of_T[:, at].var()) / (asked * (1 - asked)), MOST_FOR_TRANSITION)
    level = min(asked * (1 + 1 / rows + more), 1.0)
    paths = covered + errors  # (draws, thresholds): what C(t) would be in other samples
    worst = np.minimum.accumulate(paths[:, 1:], axis=1)  # the least of C from the smallest threshold on
    spread = float(errors[:, at].std())

    def reached(needed: float) -> float:
        last = (worst >= needed).sum(axis=1)
        return float(covered[last].mean())

    low, high = level, level + RAISED * spread
    if reached(low) >= level or spread == 0:
        return low
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < level else (low, middle)
    return high


def _errors(
    sample: Sample, q: Tensor, a: FloatArray, grid: FloatArray, mean: FloatArray
) -> tuple[FloatArray, FloatArray | None]:
    """Draws of the error of C(t) (draws, thresholds), and the part of it that comes from an estimated T."""
    rng, size = np.random.default_rng(0), len(grid)
    groups = sample.groups
    total = torch.zeros(size, size, dtype=torch.float64)
    sums = None if groups is None else torch.zeros(int(groups.max()) + 1, size, dtype=torch.float64)
    for i in _blocks(sample, size):
        apart = (_contained(sample, q, grid, i) - torch.as_tensor(mean)) * torch.as_tensor(a[i.numpy()])[:, None]
        if sums is None:
            total += apart.T @ apart
        else:
            sums.index_add_(0, torch.as_tensor(groups)[i], apart)
    covariance = (total if sums is None else sums.T @ sums).numpy()
    values, vectors = np.linalg.eigh(covariance)
    out = (rng.standard_normal((DRAWS, size)) * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    out[:, 0] = 0.0  # all classes hold the true one
    draws = sample.weigher.draws
    if draws is None:
        return out, None
    of_T = _of_transition(sample, q, a, grid, mean)[rng.integers(len(draws.inverses), size=DRAWS)]
    return out + of_T, of_T


def _of_transition(sample: Sample, q: Tensor, a: FloatArray, grid: FloatArray, mean: FloatArray) -> FloatArray:
    """C(t) under posterior draws of T, less C(t) (draws, thresholds)."""
    draws = sample.weigher.draws
    assert draws is not None
    K, size = sample.K, len(grid)
    step = max(1, math.ceil(K * K * size / CELLS))  # of many classes at fewer thresholds, and between them by a line
    at = np.unique(np.r_[np.arange(0, size, step), size - 1])
    coarse = grid[at]
    cell = _places(q, coarse) + len(coarse) * torch.arange(K)
    table = sample.weigher.cell_sums(sample.labels, cell, a, K * len(coarse)).reshape(K, K, len(coarse))
    table = np.cumsum(table[:, :, ::-1], axis=2)[:, :, ::-1]  # [c, z, t]: of r[c] where q(z) >= t
    moved = draws.means(np.moveaxis(table, 1, 2)) - mean[at]
    return np.stack([np.interp(np.arange(size), at, row) for row in moved])
