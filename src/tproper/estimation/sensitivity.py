"""How far a score from weak labels moves when T's rates move: what a reader should know where T cannot be confirmed.

A score is ``v(T) = mean_i <R e_{y_i}, s_i> = trace(R S) / n`` with ``S[y, z]`` the sum of s_i(z) over the examples with
label y, so that another T costs one R and no pass over the examples. A *rate* is an entry ``T[y, z]`` strictly between
0 and 1; when it moves by m, the rest of its column shrinks or grows in proportion. Entries of exactly 0 and columns of
exactly one label are what the user knows, and stay. To first order, ``dv = -trace(dT R S R) / n`` (from ``R T = I``):
that picks the rates to move, and the scores at the moved T are computed exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import FloatArray, Labels, NotReconstructibleError, checks
from ..errors import InputError
from ..metrics import (
    Score,
    predictions_of,
    probabilities_of,
    read_labels,
    restrict,
    weak_accuracy,
    weak_brier,
    weak_log_loss,
    width_of,
)
from ..transitions import (
    AnnotatorTransition,
    Encoded,
    Reconstruction,
    Transition,
    is_soft,
    read_transition,
    space_of,
)

SCORES = {"accuracy": weak_accuracy, "log_loss": weak_log_loss, "brier": weak_brier}
MOVES = (0.05, 0.1)
DENSE_CLASSES = 400  # beyond, only the rate that all classes share is moved
MOST_RATES = 10  # moved one by one: those that matter most
INSIDE = 1e-3  # a moved rate stays this far from 0 and 1


@dataclass(frozen=True)
class Sensitivity:
    """A score at T, its range when the rates of T are off, and the rate that matters most. `sensitivity` makes it.

    All are possible values of the score (`Score.shown`): an estimate that chance or a wrong T carries past them is cut.

    Attributes
    ----------
    value : float
        The score at T.
    ranges : dict
        ``{move: (low, high)}``: how far the score goes if rates are off by so much.
    intervals : dict
        The ranges with the sampling error at their ends, 95%.
    rate : str
        The rate that matters most; `effect` is the change of the score per unit of it.

    Examples
    --------
    >>> import tproper as tp
    >>> labels, predictions = [0, 1] * 100, [0, 1, 0, 1, 1, 0, 0, 1, 0, 1] * 20
    >>> found = tp.sensitivity("accuracy", labels, predictions, tp.symmetric_noise(2, 0.1), moves=[0.05])
    >>> low, high = found.ranges[0.05]
    >>> low < found.value < high
    True
    """

    score: str
    value: float
    ranges: dict[float, tuple[float, float]]  # by how far the rates move, each alone or all of them at once
    rate: str  # the rate that matters most by itself; empty where T has none to move
    effect: float  # change of the score per unit of that rate, at T
    intervals: dict[float, tuple[float, float]]  # the ranges with the sampling error at their ends, 95%

    def __str__(self) -> str:
        if not self.rate:
            return f"{self.score} {self.value:.3f}: T has no rate that could be moved"
        moved = ", ".join(
            f"{low:.3f} to {high:.3f} if they are off by {100 * m:g} points" for m, (low, high) in self.ranges.items()
        )
        way = "rises" if self.effect > 0 else "falls"
        return (
            f"{self.score} {self.value:.3f} if T's rates are right, {moved}; {self.rate} matters most: "
            f"if it is one point higher than assumed, {self.score} {way} by {0.01 * abs(self.effect):.4f}"
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
    transition: Transition | str,
    moves: Sequence[float] = MOVES,
    *,
    classes: Sequence[Any] | None = None,
    annotators: Sequence[Any] | None = None,
) -> Sensitivity:
    """How far a weak score goes if the rates of T are off by each of `moves`, and which rate matters most.

    The range holds the rates that matter most moved one by one, and in every column at once the one that matters most,
    each in its worst direction. Where a moved T cannot be inverted, any score is possible. `intervals` go from the
    lower limit of the score at the one end to the upper limit at the other: where the truth is, if T is off by no more.

    Parameters
    ----------
    score : "accuracy", "log_loss" or "brier"
        Which score.
    labels : weak labels as the transition takes them
        One for each row.
    predictions : (n,) classes for "accuracy", else (n, K) probabilities
        As for `weak_accuracy`, `weak_log_loss` and `weak_brier`.
    transition : Transition or text
        T.
    moves : numbers in (0, 1]
        How far rates are off.
    classes, annotators : names, optional
        Names for the rate that matters most; numbers otherwise.

    Returns
    -------
    Sensitivity
        `ranges`, `intervals`, `rate` and `effect`; prints as one sentence.

    Examples
    --------
    >>> import tproper as tp
    >>> labels, predictions = [0, 1] * 100, [0, 1, 0, 1, 1, 0, 0, 1, 0, 1] * 20
    >>> found = tp.sensitivity("accuracy", labels, predictions, tp.symmetric_noise(2, 0.1))
    >>> sorted(found.ranges)
    [0.05, 0.1]
    """
    checks.choice(score, "score", SCORES)
    if isinstance(moves, (str, bytes)) or not isinstance(moves, Iterable):
        raise InputError(f"moves: expected a list of numbers in (0, 1], got {moves!r}")
    steps = [checks.real(m, "moves", 0, 1, low_open=True) for m in moves]
    if not steps:
        raise InputError("moves: expected at least one number in (0, 1], got none")
    transition = read_transition(transition, width_of(predictions, "predictions"))
    base = SCORES[score](labels, predictions, transition)
    if classes is not None and len(classes) != transition.num_classes:
        raise InputError(f"classes: expected the names of {transition.num_classes} classes, got {len(classes)}")
    if not math.isfinite(base.value):
        raise InputError(f"predictions: expected a finite {base.name}, got {base.value}; {base.note}")
    read = read_labels(transition, labels)
    K, n = transition.num_classes, len(read)
    if score == "accuracy":
        given: Any = predictions_of(predictions, K, n, space=read.space)
    else:
        given = probabilities_of(predictions, K, n, "predictions", read.space)
    y = read.labels
    if read.given is not None:
        y, given = y[read.given], given[read.given]
    names = read.space.classes if classes is None else classes
    return _around([_ScoreAt(score, y, given, base, K)], read.bare, steps, names, annotators)[score]


def sensitivities(
    labels: Labels,
    probabilities: FloatArray,
    transition: Transition,
    reconstruction: str | Reconstruction = "auto",
    *,
    classes: Sequence[Any] | None = None,
    annotators: Sequence[Any] | None = None,
) -> dict[str, Sensitivity]:
    """`sensitivity` of every score of the same probabilities, but for one that is not finite.

    `reconstruction`: that of "auto", from whoever has made it; scores that share it share the draws of an estimated T.
    """
    R, read = transition.reconstruction(reconstruction), read_labels(transition, labels)
    probabilities = probabilities_of(probabilities, transition.num_classes, len(read), space=read.space).numpy()
    y, transition = read.labels, read.bare
    classes = read.space.classes if classes is None else classes
    if read.given is not None:
        y, probabilities = y[read.given], probabilities[read.given]
    scored = []
    for name, score in SCORES.items():
        predictions = probabilities.argmax(axis=1) if name == "accuracy" else probabilities
        base = score(Encoded(y), predictions, transition, reconstruction=R)
        if math.isfinite(base.value):
            scored.append(_ScoreAt(name, y, predictions, base, transition.num_classes))
    return _around(scored, transition, MOVES, classes, annotators)


def _around(
    scored: Sequence[_ScoreAt],
    transition: Transition,
    steps: Sequence[float],
    classes: Sequence[Any] | None,
    annotators: Sequence[Any] | None,
) -> dict[str, Sensitivity]:
    """Scores of the same labels, by name."""
    crowd = _Annotators(scored, transition, annotators) if transition.separate else None
    out = {}
    for at in scored:
        rates = _rates(at, transition, classes) if crowd is None else crowd.rates(at)
        base = at.base
        ranges, intervals, low, high, limits = {}, {}, base.shown, base.shown, base.interval
        for m in sorted(steps):  # up to m, so that a larger move has the larger range
            values = [(v, moved) for moved in rates.moved(m) for v in rates.values(moved)]
            least, most = (end(values, key=lambda pair: pair[0], default=(base.value, None)) for end in (min, max))
            low, high = ranges[m] = min(low, restrict(least[0], base.limits)), max(high, restrict(most[0], base.limits))
            bottom, top = (base.interval if moved is None else at.limits(moved) for _, moved in (least, most))
            limits = intervals[m] = min(low, limits[0], bottom[0]), max(high, limits[1], top[1])
        out[at.name] = Sensitivity(base.name, base.shown, ranges, rates.name, rates.effect, intervals)
    return out


class _ScoreAt:
    """A weak score at T (`base`), and of the same labels and predictions at another T; anything is possible where that
    has no inverse."""

    def __init__(self, name: str, labels: Tensor, predictions: Any, base: Score, num_classes: int) -> None:
        self.name, self.labels, self.predictions, self.base = name, labels, predictions, base
        self.num_classes, self.anything = num_classes, base.limits

    def limits(self, T: Transition) -> tuple[float, float]:
        """Its interval."""
        try:
            return SCORES[self.name](Encoded(self.labels), self.predictions, T).interval
        except NotReconstructibleError:
            return self.anything

    def values(self, T: Transition) -> list[float]:
        """Its value, or the least and the greatest possible."""
        try:
            return [SCORES[self.name](Encoded(self.labels), self.predictions, T).value]
        except NotReconstructibleError:
            return list(self.anything)

    @cached_property
    def each(self) -> FloatArray:
        """s_i(z) (n, K): what example i scores if its class is z; a log loss that is not finite counts as 0."""
        given = checks.array(self.predictions, "predictions")
        if self.name == "accuracy":
            return np.eye(self.num_classes)[given.astype(np.int64)]
        q = given.astype(np.float64)
        with np.errstate(divide="ignore"):
            s = -np.log(q) if self.name == "log_loss" else (q**2).sum(axis=1, keepdims=True) - 2 * q + 1
        return np.where(np.isfinite(s), s, 0.0)

    def by_label(self, M: int) -> FloatArray:
        """S[y, z]: what the examples with label y score together if their class is z; shares count as such."""
        y, K = self.labels.numpy(), self.num_classes
        if is_soft(self.labels):
            return np.asarray(y.T @ self.each, dtype=np.float64)
        if self.name == "accuracy":  # without a table of n x K
            pairs = y * K + checks.array(self.predictions, "predictions").astype(np.int64)
            return np.bincount(pairs, minlength=M * K).reshape(M, K).astype(np.float64)
        return np.stack([np.bincount(y, self.each[:, z], M) for z in range(K)], axis=1)


@dataclass(frozen=True)
class _Rates:
    """The rate that matters most, T with rates moved by m, and the score there."""

    name: str
    effect: float
    moved: Callable[[float], list[Transition]]
    values: Callable[[Transition], list[float]]


def _none(at: _ScoreAt) -> _Rates:
    return _Rates("", 0.0, lambda m: [], at.values)


def _rates(at: _ScoreAt, transition: Transition, classes: Sequence[Any] | None) -> _Rates:
    """What can be moved."""
    K = transition.num_classes
    rate = transition.rate
    sets = transition.vacuous is not None  # a table of all of them is none to move entry by entry
    if sets and rate is None:
        return _none(at)
    if rate is not None and (sets or K > DENSE_CLASSES):
        if rate.fixed:
            return _none(at)
        return _one_rate(at, rate.name, lambda m: rate.other(_inside(rate.value, m)))
    return _table_rates(at, transition, classes)


def _one_rate(at: _ScoreAt, name: str, moved: Callable[[float], Transition]) -> _Rates:
    effect = _slope(at.values, moved(-INSIDE), moved(INSIDE))
    return _Rates(name, effect, lambda m: [moved(-m), moved(m)], at.values)


def _slope(values: Callable[[Transition], list[float]], low: Transition, high: Transition) -> float:
    return (values(high)[0] - values(low)[0]) / (2 * INSIDE)


def _inside(value: float, move: float) -> float:
    """A rate after its move, inside (0, 1)."""
    return min(max(value + move, min(INSIDE, value)), max(1 - INSIDE, value))


class _Annotators:
    """Each annotator's share of right answers, moved alone and all at once.

    The scores move mostly the same: what was made for one of them serves the others.
    """

    def __init__(self, scored: Sequence[_ScoreAt], transition: Transition, names: Sequence[Any] | None) -> None:
        self.scored, self.transition = scored, transition
        self.tables = [t.matrix() for t in transition.separate]
        if names is not None and len(names) != len(self.tables):
            raise InputError(f"annotators: expected the names of {len(self.tables)} annotators, got {len(names)}")
        self.names = range(len(self.tables)) if names is None else names
        self.made: dict[tuple[tuple[int, float], ...], Transition] = {}
        self.found: dict[Transition, dict[str, list[float]]] = {}

    def rates(self, at: _ScoreAt) -> _Rates:
        """What can be moved of one score."""
        movable = [a for a, T in enumerate(self.tables) if any(0 < T[z, z] < 1 for z in range(min(T.shape)))]
        if not movable:
            return _none(at)
        alone = movable[:MOST_RATES]

        def values(T: Transition) -> list[float]:
            return self._means(T)[at.name]

        slopes = [_slope(values, self._moved({a: -INSIDE}), self._moved({a: INSIDE})) for a in alone]
        worst = int(np.argmax(np.abs(slopes)))

        def every(m: float) -> list[Transition]:
            both = [self._moved(dict.fromkeys(movable, side * m)) for side in (-1, 1)]
            mixed = [
                self._moved({a: side * m if s > 0 else -side * m for a, s in zip(alone, slopes, strict=True)})
                for side in (-1, 1)
            ]
            return [*both, *mixed, *(self._moved({a: side * m}) for a in alone for side in (-1, 1))]

        name = f"the share of right answers of annotator {self.names[alone[worst]]}"
        return _Rates(name, slopes[worst], every, values)

    def _moved(self, moves: Mapping[int, float]) -> Transition:
        key = tuple(moves.items())
        if key not in self.made:
            new = list(self.transition.separate)
            for a, m in key:
                T = self.tables[a].copy()
                for z in range(min(T.shape)):
                    T[:, z] = _move(T[:, z], z, m)
                new[a] = Transition(T)
            self.made[key] = AnnotatorTransition(new, self.transition.rho)
        return self.made[key]

    def _means(self, T: Transition) -> dict[str, list[float]]:
        """The means of ``<r_i, s_i>`` at another T, by score, without their intervals."""
        if T not in self.found:
            try:
                R = T.reconstruction()
            except NotReconstructibleError:
                self.found[T] = {at.name: list(at.anything) for at in self.scored}
                return self.found[T]
            labels = self.scored[0].labels
            silent, targets = R.silent(labels), R.targets(labels).numpy()
            heard = slice(None) if silent is None else ~silent.numpy()
            self.found[T] = {
                at.name: [float((targets[heard] * at.each[heard]).sum(axis=1).mean())] for at in self.scored
            }
        return self.found[T]


def _move(column: FloatArray, y: int, m: float) -> FloatArray:
    """A column of T with entry y moved by m, the rest in proportion; an entry of 0 or 1 stays."""
    t = column[y]
    if not 0 < t < 1:
        return column
    new = _inside(float(t), m)
    out = column * ((1 - new) / (1 - t))
    out[y] = new
    return out


def _table_rates(at: _ScoreAt, transition: Transition, classes: Sequence[Any] | None) -> _Rates:
    """The entries of T, those of each source by themselves."""
    T = transition.matrix()
    S = at.by_label(len(T)) / len(at.labels)
    ends, weights = transition.source_rows
    R = transition.reconstruction().matrix()
    G = -(R @ S @ R).T  # (M, K): derivative of the score in T's entries
    rates = []  # (effect, source, row in the source, class)
    for d, w in enumerate(weights):
        own, slopes = T[ends[d] : ends[d + 1]] / w, G[ends[d] : ends[d + 1]]
        mean = (slopes * own).sum(axis=0)
        movable = (own > 0) & (own < 1)
        rest = np.where(movable, 1 - own, 1.0)
        effects = w * np.where(movable, slopes - (mean - slopes * own) / rest, 0.0)
        rates += [(float(effects[i, z]), d, int(i), int(z)) for i, z in np.argwhere(movable)]
    rates.sort(key=lambda rate: -abs(rate[0]))
    if not rates:
        return _none(at)
    top: dict[tuple[int, int], tuple[float, int, int, int]] = {}
    for rate in rates:  # the rate that matters most in each column
        top.setdefault((rate[1], rate[3]), rate)

    def shifted(chosen: Iterable[tuple[float, int, int, int]], m: float, worst: bool) -> Transition:
        out = T.copy()
        for effect, d, i, z in chosen:
            rows = slice(ends[d], ends[d + 1])
            step = m * (np.sign(effect) if worst else 1.0)
            out[rows, z] = weights[d] * _move(T[rows, z] / weights[d], i, float(step))
        return Transition(out)

    def moved(m: float) -> list[Transition]:
        alone = [shifted([rate], side * m, False) for rate in rates[:MOST_RATES] for side in (-1, 1)]
        return [*alone, *(shifted(top.values(), side * m, True) for side in (-1, 1))]

    def sign(matrix: FloatArray) -> float:
        return float(np.linalg.slogdet(matrix)[0]) if matrix.shape[0] == matrix.shape[1] else 1.0

    side_of_T = sign(T)

    def values(other: Transition) -> list[float]:
        if sign(other.matrix()) != side_of_T:
            return list(at.anything)  # on the way T could not be inverted
        try:
            return [float((other.reconstruction().matrix() * S.T).sum())]
        except NotReconstructibleError:
            return list(at.anything)

    effect, d, i, z = rates[0]
    name, side = space_of(transition, classes).entry(int(ends[d]) + i, z)
    return _Rates(name, side * effect, moved, values)
