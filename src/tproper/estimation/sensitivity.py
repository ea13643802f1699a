"""How far a score from weak labels moves when T's rates move: what a reader should know where T cannot be confirmed.

A score is ``v(T) = mean_i <R e_{y_i}, s_i> = trace(R S) / n`` with ``S[y, z]`` the sum of s_i(z) over the examples with
label y, so that another T costs one R and no pass over the examples. A *rate* is an entry ``T[y, z]`` strictly between
0 and 1; when it moves by m, the rest of its column shrinks or grows in proportion. Entries of exactly 0 and columns of
exactly one label are what the user knows, and stay. To first order, ``dv = -trace(dT R S R) / n`` (from ``R T = I``):
that picks the rates to move, and the scores at the moved T are computed exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import FloatArray, Labels, NotReconstructibleError, checks
from ..metrics import weak_accuracy, weak_brier, weak_log_loss
from ..transitions import (
    CandidateSetTransition,
    StackedTransition,
    Transition,
    UniformTransition,
    families,
    partial_labels,
    weak_label_names,
)

SCORES = {"accuracy": weak_accuracy, "log_loss": weak_log_loss, "brier": weak_brier}
ANYTHING = {"accuracy": (0.0, 1.0), "log_loss": (0.0, math.inf), "brier": (0.0, 2.0)}
DENSE_CLASSES = 400  # beyond, only the rate that all classes share is moved
MOST_RATES = 10  # moved one by one: those that matter most
INSIDE = 1e-3  # a moved rate stays this far from 0 and 1


@dataclass(frozen=True)
class Sensitivity:
    """A score at T, its range when the rates of T move, and the rate that matters most. Prints as one sentence."""

    score: str
    value: float
    ranges: dict[float, tuple[float, float]]  # by how far the rates move, each alone or all of them at once
    rate: str  # the rate that matters most by itself; empty where T has none to move
    effect: float  # change of the score per unit of that rate, at T
    intervals: dict[float, tuple[float, float]]  # the ranges with the sampling error at their ends, 95%

    def __str__(self) -> str:
        if not self.rate:
            return f"{self.score} {self.value:.3f}: T has no rate that could be moved"
        moved = ", ".join(f"{low:.3f} to {high:.3f} if they are off by {m:g}" for m, (low, high) in self.ranges.items())
        return (
            f"{self.score} {self.value:.3f} if T's rates are right, {moved}; {self.rate} matters most: "
            f"{0.01 * self.effect:+.4f} for each +.01"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        ends = [
            {"move": m, "low": low, "high": high, "interval": list(self.intervals[m])}
            for m, (low, high) in self.ranges.items()
        ]
        return {"score": self.score, "value": self.value, "ranges": ends, "rate": self.rate, "effect": self.effect}


def sensitivity(
    score: str,
    labels: Labels,
    predictions: ArrayLike | Tensor,
    transition: Transition,
    moves: Sequence[float] = (0.05, 0.1),
    *,
    classes: Sequence[Any] | None = None,
    annotators: Sequence[Any] | None = None,
) -> Sensitivity:
    """How far a weak score moves when T's rates move by each of `moves`, and which rate matters most.

    The range holds the rates that matter most moved one by one, and in every column at once the one that matters most,
    each in its worst direction. Where a moved T cannot be inverted, any score is possible. `intervals` go from the
    lower limit of the score at the one end to the upper limit at the other: where the truth is, if T is off by no more.

    Parameters
    ----------
    score : "accuracy" (predictions are classes), "log_loss" or "brier" (predictions are probabilities (n, K))
    labels, predictions, transition : as for `weak_accuracy`, `weak_log_loss` and `weak_brier`
    moves : numbers in (0, 1]
    classes, annotators : names, optional
        Names for the rate that matters most; numbers otherwise.
    """
    if score not in SCORES:
        raise ValueError(f"score: expected one of {', '.join(SCORES)}, got {score!r}")
    if isinstance(moves, (str, bytes)) or not isinstance(moves, Iterable):
        raise ValueError(f"moves: expected a list of numbers in (0, 1], got {moves!r}")
    steps = [checks.real(m, "moves", 0, 1, low_open=True) for m in moves]
    if not steps:
        raise ValueError("moves: expected at least one number in (0, 1], got none")
    base = SCORES[score](labels, predictions, transition)
    names = Names(transition, classes, annotators)
    if not math.isfinite(base.value):
        raise ValueError(f"predictions: expected a finite {base.name}, got {base.value}; {base.note}")
    rates, value_at = _rates(score, labels, predictions, transition, names)
    limits_at = _limits(score, labels, predictions, transition)
    ranges, intervals, low, high, limits = {}, {}, base.value, base.value, base.interval
    for m in sorted(steps):  # up to m, so that a larger move has the larger range
        values = [(v, moved) for moved in rates.moved(m) for v in value_at(moved)]
        least, most = (end(values, key=lambda pair: pair[0], default=(base.value, None)) for end in (min, max))
        low, high = ranges[m] = min(low, least[0]), max(high, most[0])
        bottom, top = (base.interval if moved is None else limits_at(moved) for _, moved in (least, most))
        limits = intervals[m] = min(low, limits[0], bottom[0]), max(high, limits[1], top[1])
    return Sensitivity(base.name, base.value, ranges, rates.name, rates.effect, intervals)


def _limits(
    score: str, labels: Labels, predictions: Any, transition: Transition
) -> Callable[[Any], tuple[float, float]]:
    """The interval of the score at a T that was moved."""

    def limits(moved: Any) -> tuple[float, float]:
        T = moved if isinstance(moved, Transition) else Transition(moved)
        y = labels if isinstance(moved, Transition) else transition.encode(_plain_labels(labels))
        try:
            return SCORES[score](y, predictions, T).interval
        except NotReconstructibleError:
            return ANYTHING[score]

    return limits


def _plain_labels(labels: Labels) -> Any:
    return labels.to_numpy() if hasattr(labels, "to_numpy") else labels


class Names:
    """The names of labels, classes and annotators."""

    def __init__(self, transition: Transition, classes: Sequence[Any] | None, annotators: Sequence[Any] | None) -> None:
        K = transition.num_classes
        if classes is not None and len(classes) != K:
            raise ValueError(f"classes: expected the names of {K} classes, got {len(classes)}")
        self.transition, self.given = transition, classes is not None
        self.classes = list(range(K)) if classes is None else list(classes)
        self.annotators = annotators

    def label(self, y: int) -> Any:
        """The label of a row of T; a pair (source, label) for several sources."""
        return (weak_label_names(self.transition, self.classes) if self.given else self.transition.weak_labels)[y]

    def annotator(self, a: int) -> Any:
        """Who answers."""
        return a if self.annotators is None else self.annotators[a]


@dataclass(frozen=True)
class _Rates:
    """The rate that matters most, and the tables with rates moved by m."""

    name: str
    effect: float
    moved: Callable[[float], list[Any]]


def _rates(
    score: str, labels: Labels, predictions: Any, transition: Transition, names: Names
) -> tuple[_Rates, Callable[[Any], list[float]]]:
    """What can be moved, and the score at what was moved."""

    def by_function(T: Transition) -> list[float]:
        try:
            return [SCORES[score](labels, predictions, T).value]
        except NotReconstructibleError:
            return list(ANYTHING[score])

    several = hasattr(transition, "transitions")
    value_of = _means(score, labels, predictions, transition) if several else by_function

    def slope(at: Callable[[float], Transition]) -> float:
        low, high = (value_of(at(side * INSIDE))[0] for side in (-1, 1))
        return (high - low) / (2 * INSIDE)

    if isinstance(transition, families.IndependentSets):
        K, p = transition.num_classes, transition.p
        at = _around(p, lambda q: partial_labels(K, q))
        return _Rates("p, the probability of a wrong candidate,", slope(at), lambda m: [at(-m), at(m)]), by_function
    if isinstance(transition, CandidateSetTransition):
        return _Rates("", 0.0, lambda m: []), by_function
    if several:
        return _annotator_rates(transition, slope, names), value_of
    if isinstance(transition, UniformTransition) and transition.num_classes > DENSE_CLASSES:
        K, d, name = transition.num_classes, transition.diagonal, transition.name
        if not 0 < d < 1:
            return _Rates("", 0.0, lambda m: []), by_function
        at = _around(d, lambda q: UniformTransition(K, q, name))
        return _Rates("P(label = class)", slope(at), lambda m: [at(-m), at(m)]), by_function
    return _table_rates(score, labels, predictions, transition, names)


def _means(score: str, labels: Labels, predictions: Any, transition: Transition) -> Callable[[Transition], list[float]]:
    """The score at another T of the annotators: the mean of ``<r_i, s_i>`` alone, without its interval."""
    y = transition.encode(_plain_labels(labels)).cpu()
    s = _each_score(score, predictions, len(y), transition.num_classes)

    def value(T: Transition) -> list[float]:
        try:
            R = T.reconstruction()
        except NotReconstructibleError:
            return list(ANYTHING[score])
        silent = R.silent(y)
        heard = np.ones(len(y), dtype=bool) if silent is None else ~silent.numpy()
        return [float((R.targets(y).numpy()[heard] * s[heard]).sum(axis=1).mean())]

    return value


def _around(value: float, make: Callable[[float], Transition]) -> Callable[[float], Transition]:
    return lambda m: make(_inside(value, m))


def _inside(value: float, move: float) -> float:
    """A rate after its move, inside (0, 1)."""
    return min(max(value + move, min(INSIDE, value)), max(1 - INSIDE, value))


def _annotator_rates(transition: Any, slope: Callable[[Callable[[float], Transition]], float], names: Names) -> _Rates:
    """Each annotator's share of right answers, alone and all at once."""
    tables = [t.matrix() for t in transition.transitions]

    def at(chosen: Sequence[int]) -> Callable[[float], Transition]:
        def moved(m: float) -> Transition:
            new = list(transition.transitions)
            for a in chosen:
                T = tables[a].copy()
                for z in range(min(T.shape)):
                    T[:, z] = _move(T[:, z], z, m)
                new[a] = Transition(T)
            return type(transition)(new)

        return moved

    movable = [a for a, T in enumerate(tables) if any(0 < T[z, z] < 1 for z in range(min(T.shape)))]
    if not movable:
        return _Rates("", 0.0, lambda m: [])
    alone = movable[:MOST_RATES]
    slopes = [slope(at([a])) for a in alone]
    worst = int(np.argmax(np.abs(slopes)))
    up = [a for a, s in zip(alone, slopes, strict=True) if s > 0]
    down = [a for a in alone if a not in up]

    def every(m: float) -> list[Any]:
        both = [at(movable)(side * m) for side in (-1, 1)]
        mixed = [type(transition)(_mixed(transition, at(up)(side * m), at(down)(-side * m), up)) for side in (-1, 1)]
        return [*both, *mixed, *(at([a])(side * m) for a in alone for side in (-1, 1))]

    name = f"the share of right answers of annotator {names.annotator(alone[worst])}"
    return _Rates(name, slopes[worst], every)


def _mixed(transition: Any, first: Any, second: Any, from_first: Sequence[int]) -> list[Transition]:
    return [(first if a in from_first else second).transitions[a] for a in range(len(transition.transitions))]


def _move(column: FloatArray, y: int, m: float) -> FloatArray:
    """A column of T with entry y moved by m, the rest in proportion; an entry of 0 or 1 stays."""
    t = column[y]
    if not 0 < t < 1:
        return column
    new = _inside(float(t), m)
    out = column * ((1 - new) / (1 - t))
    out[y] = new
    return out


def _table_rates(
    score: str, labels: Labels, predictions: Any, transition: Transition, names: Names
) -> tuple[_Rates, Callable[[Any], list[float]]]:
    T = transition.matrix()
    y = transition.encode(_plain_labels(labels)).cpu().numpy()
    S = _class_scores(score, y, predictions, *T.shape) / len(y)
    stacked = isinstance(transition, StackedTransition)
    ends = transition.offsets if isinstance(transition, StackedTransition) else np.array([0, len(T)])
    weights = transition.weights if isinstance(transition, StackedTransition) else np.ones(1)
    R = transition.reconstruction().matrix()
    G = -(R @ S @ R).T  # (M, K): derivative of the score in T's entries
    rates = []  # (effect, source, row in the source, class)
    for d, w in enumerate(weights):
        own, slopes = T[ends[d] : ends[d + 1]] / w, G[ends[d] : ends[d + 1]]
        mean = (slopes * own).sum(axis=0)
        movable = (own > 0) & (own < 1)
        rest = np.where(movable, 1 - own, 1.0)
        effect = w * np.where(movable, slopes - (mean - slopes * own) / rest, 0.0)
        rates += [(float(effect[i, z]), d, int(i), int(z)) for i, z in np.argwhere(movable)]
    rates.sort(key=lambda rate: -abs(rate[0]))
    if not rates:
        return _Rates("", 0.0, lambda m: []), lambda T: []
    top: dict[tuple[int, int], tuple[float, int, int, int]] = {}
    for rate in rates:  # the rate that matters most in each column
        top.setdefault((rate[1], rate[3]), rate)

    def shifted(chosen: Iterable[tuple[float, int, int, int]], m: float, worst: bool) -> FloatArray:
        out = T.copy()
        for effect, d, i, z in chosen:
            rows = slice(ends[d], ends[d + 1])
            step = m * (np.sign(effect) if worst else 1.0)
            out[rows, z] = weights[d] * _move(T[rows, z] / weights[d], i, float(step))
        return out

    def moved(m: float) -> list[Any]:
        alone = [shifted([rate], side * m, False) for rate in rates[:MOST_RATES] for side in (-1, 1)]
        return [*alone, *(shifted(top.values(), side * m, True) for side in (-1, 1))]

    sign = np.linalg.slogdet(T)[0] if T.shape[0] == T.shape[1] else 1.0

    def value_at(matrix: FloatArray) -> list[float]:
        if matrix.shape[0] == matrix.shape[1] and np.linalg.slogdet(matrix)[0] != sign:
            return list(ANYTHING[score])  # on the way T could not be inverted
        try:
            return [float((Transition(matrix).reconstruction().matrix() * S.T).sum())]
        except NotReconstructibleError:
            return list(ANYTHING[score])

    effect, d, i, z = rates[0]
    label, z_name = names.label(int(ends[d]) + i), names.classes[z]
    name = f"P(label {label} | class {z_name})"
    if transition.positive_unlabeled:
        name, effect = "r = P(labeled | positive)", effect if i == 0 else -effect
    elif stacked:
        name = f"P(label {label[1]} | class {z_name}) of source {label[0]}"
    return _Rates(name, effect, moved), value_at


def _class_scores(score: str, y: NDArray[np.int64], predictions: Any, M: int, K: int) -> FloatArray:
    """S[y, z]: the sum over the examples with label y of the score that they get if their class is z."""
    S = np.zeros((M, K))
    if score == "accuracy":
        np.add.at(S, (y, _plain(predictions).astype(np.int64)), 1.0)
        return S
    s = _each_score(score, predictions, len(y), K)
    for z in range(K):
        S[:, z] = np.bincount(y, s[:, z], M)
    return S


def _each_score(score: str, predictions: Any, n: int, K: int) -> FloatArray:
    """s_i(z) (n, K): what example i scores if its class is z; a log loss that is not finite counts as 0."""
    given = _plain(predictions)
    if score == "accuracy":
        out = np.zeros((n, K))
        out[np.arange(n), given.astype(np.int64)] = 1.0
        return out
    q = given.astype(np.float64)
    with np.errstate(divide="ignore"):
        s = -np.log(q) if score == "log_loss" else (q**2).sum(axis=1, keepdims=True) - 2 * q + 1
    return np.where(np.isfinite(s), s, 0.0)


def _plain(predictions: Any) -> NDArray[Any]:
    return predictions.detach().cpu().numpy() if isinstance(predictions, Tensor) else np.asarray(predictions)
