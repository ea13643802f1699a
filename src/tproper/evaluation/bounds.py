"""What can be said of a model where labels contradict T: bounds that need less than T.

Candidate sets hold the true class, and that alone makes bounds: a prediction outside its set is wrong, so that accuracy
is at most the share I of predictions inside; log loss and Brier score lie between those of the best and the worst
candidate of each row. Accuracy from below needs to know how often a *wrong* prediction lies inside, which no set shows.
The model's second choices stand in for wrong predictions: with W the share of them inside,

    accuracy >= 1 - (1 - I) / (1 - W)        if wrong predictions are candidates no more often than second choices are,

for ``1 - I = P(wrong) P(outside | wrong)``. Second choices that are right count in W, which makes it large; a model
that has learned from such sets errs towards candidates, which makes it too small (over MSRCv2's sets 46% of wrong
predictions are candidates, and 38% of second choices: there only the sampling error of few rows covers the truth).
Cour, Sapp and Taskar (2011) have this bound with the ambiguity degree, the largest rate at which any class accompanies
another, in W's place: over real sets that is near one, and the bound zero.

A label that T gives to some classes never is a set of the others, so long as T's zeros are right: "not this class" has
these bounds too. Labels that are classes, sometimes wrong ones, leave possible every noise between that of T and none
that they do not contradict: scores are taken at ``(1 - m) T + m I`` for all m at which the tests of T pass, and at
m = 1, where accuracy is the agreement with the labels. The bounds go from the least of these intervals' ends to the
greatest.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import FloatArray, NotReconstructibleError, compact, group_codes, plain
from ..estimation import Sensitivity, check_transition
from ..metrics import Z95, restrict
from ..transitions import Encoded, Reconstruction, Transition, identity
from .streamed import scores_of

LIMITS = {"accuracy": (0.0, 1.0), "log_loss": (0.0, math.inf), "brier": (0.0, 2.0)}
SHARPER = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)  # shares of the identity in T, below one
Z90 = 1.6448536269514722  # the 95% point of the normal distribution
Codes = NDArray[np.int64] | None


@dataclass(frozen=True)
class Bounds:
    """Where a score lies, sampling error included (95%), and what that rests on instead of T."""

    low: float
    high: float
    rests_on: str
    needs: str = "candidates"  # of T: nothing but candidates; its "zeros"; "less noise" than it says; "rates" near it
    within: float | None = None  # how far "rates" may be off

    @property
    def heading(self) -> str:
        """What stands above such bounds in a table."""
        return {
            "candidates": "bounds, without T",
            "zeros": "bounds, from T's zeros alone",
            "less noise": "bounds, if T is too noisy",
            "rates": f"bounds, T off by up to {100 * (self.within or 0):.0f} points",
        }[self.needs]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dict(plain(asdict(self)))


def bounds_without(
    transition: Transition,
    labels: NDArray[Any],
    q: FloatArray,
    moved: dict[str, Sensitivity],
    groups: Any = None,
) -> dict[str, Bounds]:
    """Bounds of scores by name, for labels that contradict the transition; `moved` is how scores move with it."""
    codes = group_codes(groups, len(q))
    own = None if codes is None else compact(codes)
    if labels.dtype == bool:  # masks
        return candidate_bounds(labels, q, own)
    if np.ndim(labels) == 1:  # rows of a table
        T = transition.matrix()
        if T.shape[0] == T.shape[1] and (T.argmax(axis=0) == np.arange(len(T))).all():
            return _sharper_bounds(T, transition.name, np.asarray(labels), q, groups)
        if not T.all():
            return candidate_bounds(
                T[labels] > 0, q, own, f"the zeros of {transition.name} are right, so that ", "zeros"
            )
    return _moved_bounds(moved)


def candidate_bounds(
    masks: NDArray[np.bool_], q: FloatArray, groups: Codes = None, because: str = "", needs: str = "candidates"
) -> dict[str, Bounds]:
    """Bounds from candidate sets (n, K) that hold the true class, whatever else they hold."""
    n = len(q)
    row, order = np.arange(n), np.argsort(-q, axis=1, kind="stable")
    inside, second = masks[row, order[:, 0]].astype(float), masks[row, order[:, 1]].astype(float)
    I, W = float(inside.mean()), float(second.mean())
    high = min(I + Z90 * _error(inside, groups), 1.0)  # the truth can only be beyond one end
    alone = inside * (masks.sum(axis=1) == 1)  # the prediction is the only candidate: it is right
    low = float(alone.mean()) - Z95 * _error(alone, groups)
    if W < 1:
        slope = inside / (1 - W) - second * (1 - I) / (1 - W) ** 2  # of the bound, row by row
        low = max(low, 1 - (1 - I) / (1 - W) - Z95 * _error(slope, groups))
    told = (
        f"{because}true classes are candidates, {I:.1%} of predictions are, and a wrong prediction is one no more "
        f"often than the model's second choices, {W:.1%}"
    )
    out = {"accuracy": Bounds(min(max(low, 0.0), high), high, told, needs)}
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
        told = "true classes are candidates: from each row's best candidate to its worst"
        out[name] = Bounds(*ends, told, needs)
    return out


def _error(values: FloatArray, groups: Codes) -> float:
    """The standard error of the mean of rows, or of groups of rows."""
    n, away = len(values), values - values.mean()
    if groups is not None:
        away = np.bincount(groups, weights=away)
    m = len(away)
    return math.inf if m < 2 else float(np.sqrt((away**2).sum() * m / (m - 1)) / n)


def _sharper_bounds(T: FloatArray, name: str, labels: NDArray[Any], q: FloatArray, groups: Any) -> dict[str, Bounds]:
    """Scores at all T between this one and the identity that labels do not contradict."""
    between = (Transition((1 - m) * T + m * np.eye(len(T))) for m in SHARPER)
    possible = [t for t in between if check_transition(Encoded(torch.as_tensor(labels)), t, q, groups=groups).plausible]
    found = [scores_of(t, labels, q, groups=groups) for t in (*possible, identity(len(T))) if reconstruction_of(t)]
    told = f"T lies between {name} and labels without errors, where these labels do not contradict it"
    out = {}
    for score in LIMITS:
        ends = [s[score].interval for s in found]
        out[score] = Bounds(min(low for low, _ in ends), max(high for _, high in ends), told, "less noise")
    return out


def _moved_bounds(moved: dict[str, Sensitivity]) -> dict[str, Bounds]:
    """Where nothing shows by how much T is off: the largest moves of its rates that are looked at."""
    out = {}
    for name, s in moved.items():
        if s.intervals:
            most = max(s.intervals)
            low, high = (restrict(x, LIMITS[name]) for x in s.intervals[most])
            told = f"no rate of T is off by more than {100 * most:.0f} points, which nobody knows"
            out[name] = Bounds(low, high, told, "rates", most)
    return out


def reconstruction_of(transition: Transition) -> Reconstruction | None:
    """R, or None where T has none."""
    try:
        return transition.reconstruction()
    except NotReconstructibleError:
        return None
