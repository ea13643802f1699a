"""What can be said of a model where labels contradict T: bounds that need less than T.

Candidate sets hold the true class, and that alone makes bounds: a prediction outside its set is wrong, so that accuracy
is at most the share I of predictions inside; log loss and Brier score lie between those of the best and the worst
candidate of each row. Accuracy from below needs to know how often a *wrong* prediction lies inside, which no set shows.
The model's second choices stand in for wrong predictions: with W the share of them inside,

    accuracy >= 1 - (1 - I) / (1 - W)        if wrong predictions are candidates no more often than second choices are,

for ``1 - I = P(wrong) P(outside | wrong)``. Second choices that are right count in W, which makes it large. Cour, Sapp
and Taskar (2011) have this bound with the ambiguity degree, the largest rate at which any class accompanies another, in
W's place: over real sets that is near one, and the bound zero.

Labels that are classes, or other single labels, show how far T is off at least: the total variation distance d between
the label shares of some group of rows and the nearest mixture of T's columns. If no column of T is off by more than
that, a score's mean ``<R e_y, s>`` is off by at most d times the mean of ``max_y <R e_y, s_i> - min_y <R e_y, s_i>``.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, NotReconstructibleError, compact, group_codes, plain
from ..estimation import Sensitivity
from ..metrics import Z95, Score, restrict
from ..transitions import Reconstruction, Transition

LIMITS = {"accuracy": (0.0, 1.0), "log_loss": (0.0, math.inf), "brier": (0.0, 2.0)}
FEWEST = 50  # rows of a group whose label shares are looked at
MOST = 200  # classes, and labels, up to which the distance to T is found
Codes = NDArray[np.int64] | None


@dataclass(frozen=True)
class Bounds:
    """Where a score lies, sampling error included (95%), and what that rests on instead of T."""

    low: float
    high: float
    rests_on: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dict(plain(asdict(self)))


def bounds_without(
    transition: Transition,
    labels: NDArray[Any],
    q: FloatArray,
    scores: dict[str, Any],
    moved: dict[str, Sensitivity],
    reconstruction: Reconstruction | None,
    groups: Any = None,
) -> dict[str, Bounds]:
    """Bounds of scores by name, for labels that contradict the transition; `scores` and `moved` are those by T."""
    codes = group_codes(groups, len(q))
    own = None if codes is None else compact(codes)
    if transition.per_class_labels:
        return candidate_bounds(np.asarray(labels, dtype=bool), q, own)
    distance = misfit(transition, np.asarray(labels), q)
    if distance is None or reconstruction is None:
        return _moved_bounds(moved)
    return _misfit_bounds(transition, reconstruction, q, scores, distance)


def candidate_bounds(masks: NDArray[np.bool_], q: FloatArray, groups: Codes = None) -> dict[str, Bounds]:
    """Bounds from candidate sets (n, K) that hold the true class, whatever else they hold."""
    n = len(q)
    row, order = np.arange(n), np.argsort(-q, axis=1, kind="stable")
    inside, second = masks[row, order[:, 0]].astype(float), masks[row, order[:, 1]].astype(float)
    I, W = float(inside.mean()), float(second.mean())
    high = min(I + Z95 * _error(inside, groups), 1.0)
    alone = inside * (masks.sum(axis=1) == 1)  # the prediction is the only candidate: it is right
    low = float(alone.mean()) - Z95 * _error(alone, groups)
    if W < 1:
        slope = inside / (1 - W) - second * (1 - I) / (1 - W) ** 2  # of the bound, row by row
        low = max(low, 1 - (1 - I) / (1 - W) - Z95 * _error(slope, groups))
    told = (
        f"true classes are candidates, {I:.1%} of predictions are, and a wrong prediction is one no more often than "
        f"the model's second choices, {W:.1%}"
    )
    out = {"accuracy": Bounds(min(max(low, 0.0), high), high, told)}
    with np.errstate(divide="ignore"):
        each = {"log_loss": -np.log(q), "brier": (q**2).sum(axis=1, keepdims=True) - 2 * q + 1}
    for name, s in each.items():
        best = np.where(masks, s, np.inf).min(axis=1)
        worst = np.where(masks, s, -np.inf).max(axis=1)
        low, high = (float(x.mean()) if np.isfinite(x).all() else math.inf for x in (best, worst))
        low, high = (
            end + sign * Z95 * _error(x, groups) if math.isfinite(end) else end
            for end, sign, x in ((low, -1, best), (high, 1, worst))
        )
        ends = (restrict(low, LIMITS[name]), restrict(high, LIMITS[name]))
        out[name] = Bounds(*ends, "true classes are candidates: from each row's best candidate to its worst")
    return out


def _error(values: FloatArray, groups: Codes) -> float:
    """The standard error of the mean of rows, or of groups of rows."""
    n, away = len(values), values - values.mean()
    if groups is not None:
        away = np.bincount(groups, weights=away)
    m = len(away)
    return math.inf if m < 2 else float(np.sqrt((away**2).sum() * m / (m - 1)) / n)


def misfit(transition: Transition, labels: NDArray[Any], q: FloatArray) -> float | None:
    """How far T is off at least: the largest total variation distance from the label shares of all rows, or of rows
    with one predicted class, to a mixture of T's columns. None where labels are no rows of a table, or too many."""
    if labels.ndim != 1 or max(transition.num_classes, transition.num_weak_labels) > MOST:
        return None
    T, predicted = transition.matrix(), q.argmax(axis=1)
    parts = [np.ones(len(q), dtype=bool), *(predicted == c for c in np.unique(predicted))]
    shares = [np.bincount(labels[part], minlength=len(T)) / part.sum() for part in parts if part.sum() >= FEWEST]
    return max((_to_hull(T, f) for f in shares), default=None)


def _to_hull(T: FloatArray, shares: FloatArray) -> float:
    """``min over class shares p of the total variation distance between `shares` and T p``, a linear program."""
    from scipy.optimize import linprog

    M, K = T.shape  # minimise sum(u) with u >= shares - T p, u >= 0
    cost = np.r_[np.zeros(K), np.ones(M)]
    out = linprog(cost, A_ub=np.c_[-T, -np.eye(M)], b_ub=-shares, A_eq=np.r_[np.ones(K), np.zeros(M)][None], b_eq=[1.0])
    return float(out.fun)


def _misfit_bounds(
    transition: Transition, R: Reconstruction, q: FloatArray, scores: dict[str, Any], distance: float
) -> dict[str, Bounds]:
    targets = R.matrix()  # (K, M)
    told = (
        f"no column of {transition.name} is off by more than these labels show it to be, {distance:.3f} in total "
        "variation"
    )
    out = {}
    with np.errstate(divide="ignore"):
        each = {
            "accuracy": np.eye(q.shape[1])[q.argmax(axis=1)],
            "log_loss": -np.log(q),
            "brier": (q**2).sum(axis=1, keepdims=True) - 2 * q + 1,
        }
    for name, s in each.items():
        score = scores.get(name)
        if not isinstance(score, Score) or not (np.isfinite(s).all() and math.isfinite(score.stderr)):
            continue
        values = s @ targets  # (n, M)
        moved = distance * float((values.max(axis=1) - values.min(axis=1)).mean()) + Z95 * score.stderr
        low, high = (restrict(score.value + side * moved, LIMITS[name]) for side in (-1, 1))
        out[name] = Bounds(low, high, told)
    return out


def _moved_bounds(moved: dict[str, Sensitivity]) -> dict[str, Bounds]:
    """Where nothing shows by how much T is off: the largest moves of its rates that are looked at."""
    out = {}
    for name, s in moved.items():
        if s.intervals:
            most = max(s.intervals)
            low, high = (restrict(x, LIMITS[name]) for x in s.intervals[most])
            out[name] = Bounds(
                low, high, f"no rate of T is off by more than {100 * most:.0f} points, which is not known"
            )
    return out


def reconstruction_of(transition: Transition) -> Reconstruction | None:
    """R, or None where T has none."""
    try:
        return transition.reconstruction()
    except NotReconstructibleError:
        return None
