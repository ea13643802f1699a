"""Scores and class shares from rows that somebody checked, among many that have labels alone.

Let s_i be what row i scores by its true class (1 where a prediction is right; 1 where the class is z). It is known for
the checked rows; labels, and a model's predictions, are known for all. Given these the true class has some
probabilities, so that all rows together say how many there are of each kind, and the checked ones how each kind scores:

    theta = sum_h W_h theta_h,      W_h = N_h / n of all rows,      theta_h = mean of s over the n_h checked rows of h.

The strata h are made of rows with like *working scores* m_i = E[s | labels, predictions], which EM of a naive Bayes
model of all rows gives. If that model is wrong the strata are less good, and nothing else: the mean of each is that of
checked rows. Where labels are one column and the strata are its values this is the maximum likelihood of labels and
classes together, and reaches the efficiency bound (Robins and Rotnitzky, 1995) that prediction-powered inference
approaches (Angelopoulos, Duchi and Zrnic, 2023); T appears nowhere.

What is assumed: given its stratum, whether a row was checked does not depend on its class. Rows drawn at random meet
that. So do "100 rows of each label": where the labels of checked rows differ from those of all rows, every label is a
stratum of its own (`Design`).

Intervals of shares are those of the profile likelihood, over the t_h and W_h that have a candidate theta; where few
checked rows decide, score intervals (Wilson, 1927; Miettinen and Nurminen, 1985, for strata), which judge a candidate
by the variance ``sum W_h^2 t_h (1 - t_h) / n_h + sum W_h (t_h - theta)^2 / n`` at the most likely t_h that have it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, xlogy

from .._core import FloatArray
from ..errors import InputError
from .statistics import LEAST_VARIANCE, Z95, student_quantile

ROUNDS, SETTLED = 200, 1e-5  # of EM
HELD_OUT = 10  # folds of checked rows
PSEUDO = 1.0  # rows of each class, spread evenly over what a column may say
FEW = 8.0  # checked rows of a kind, below which likelihood alone promises too much
FEWEST, MOST = 8, 12  # checked rows in a stratum, strata of rows that were checked alike
FINE = 40  # groups of working scores that are merged into strata
CHOSEN = 0.01  # p-value at which labels of checked rows differ from those of all
CHANCE = 1e-3  # ... and at which they still do in every stratum
LEAST_SPREAD = 0.1  # variance of a share's values, relative to that of zeros and ones
COLUMNS = 3  # strata of the design are values of at most so many columns together

IntArray = NDArray[np.int64]


class SelectionWarning(UserWarning):
    """Rows were checked in a way that what is known of them does not explain: estimates from them may be biased.

    Examples
    --------
    >>> import warnings, numpy as np, tproper as tp
    >>> labels = [0] * 500 + [1] * 500
    >>> true = [0] * 100 + [-1] * 900  # checked where the label is 0, and nowhere else
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     found = tp.weak_prevalence(labels, true=np.array(true), num_classes=2)
    >>> [w.category.__name__ for w in caught]
    ['SelectionWarning']
    """


def guesses(columns: IntArray, true: IntArray, K: int) -> FloatArray:
    """P(class | what the columns say) (n, K): naive Bayes by EM, the classes of checked rows known.

    `columns` (n, m) are codes, -1 where a column says nothing. Which rows were checked may depend on the columns:
    the likelihood is the same.
    """
    return next(_guesses_of_each(columns, true[None], K))


def _guesses_of_each(columns: IntArray, true: IntArray, K: int) -> Iterator[FloatArray]:
    """`guesses` for each row of `true` (F, n), all at once: EM of each ends when it has settled."""
    patterns, index = np.unique(columns, axis=0, return_inverse=True)
    index = index.reshape(-1)
    F, U = len(true), len(patterns)
    free = np.stack([np.bincount(index[one < 0], minlength=U) for one in true])[:, :, None].astype(np.float64)
    known = np.zeros((F, U, K))
    fold, row = np.nonzero(true >= 0)
    np.add.at(known, (fold, index[row], true[fold, row]), 1.0)
    sizes = patterns.max(axis=0, initial=-1) + 1
    said = [np.eye(M + 1)[c][:, :M] for c, M in zip(patterns.T, sizes, strict=True)]  # (patterns, M); zeros at -1

    def maximised(weight: FloatArray) -> FloatArray:
        """log P(class) + log P(pattern | class) (folds, patterns, K)."""
        total = weight.sum(axis=1, keepdims=True) + PSEUDO / K
        logs = np.log(total / total.sum(axis=2, keepdims=True)).repeat(U, axis=1)
        for one in said:
            T = one.T @ weight + PSEUDO / max(one.shape[1], 1)
            logs += one @ np.log(T / T.sum(axis=1, keepdims=True))
        return logs

    weight, P = known + 1e-3 * free / K, np.full((F, U, K), np.inf)
    moving = np.arange(F)
    for _ in range(ROUNDS):
        logs = maximised(weight[moving])
        new = np.exp(logs - logs.max(axis=2, keepdims=True))
        new /= new.sum(axis=2, keepdims=True)
        far = np.abs(new - P[moving]).max(axis=(1, 2), initial=0.0) >= SETTLED
        P[moving], weight[moving] = new, known[moving] + free[moving] * new
        moving = moving[far]
        if not len(moving):
            break
    return (one[index] for one in P)  # one by one: rows may be many


def held_out_guesses(columns: IntArray, true: IntArray, K: int, groups: IntArray | None = None) -> FloatArray:
    """`guesses` (n, K) for which no row's own class was used: each checked row's by the classes of other folds.

    The guesses of checked rows are compared with their classes, and those of the others stand for theirs: both have to
    be as good. Guesses that have seen the classes they are compared with look better than they are elsewhere
    (cross-prediction: Zrnic and Candes, 2024); the others' are the mean over folds.
    """
    rows = np.flatnonzero(true >= 0)
    units = rows if groups is None else np.unique(groups[rows], return_inverse=True)[1].reshape(-1)
    names = np.unique(units, return_inverse=True)[1].reshape(-1)
    count = int(names.max()) + 1
    if count < 2:
        return guesses(columns, true, K)
    folds = np.random.default_rng(0).permutation(np.arange(count) % min(HELD_OUT, count))[names]
    out, times = np.zeros((len(true), K)), np.zeros(len(true))
    left = np.repeat(true[None], int(folds.max()) + 1, axis=0)
    left[folds, rows] = -1
    for fold, P in enumerate(_guesses_of_each(columns, left, K)):
        some = np.ones(len(true), dtype=bool)
        some[rows[folds != fold]] = False
        out[some] += P[some]
        times += some
    return out / times[:, None]


def dependence(values: IntArray, checked: NDArray[np.bool_], strata: IntArray) -> float:
    """p-value of: given the stratum, checked rows have the values of all rows (Pearson; rare ones merged)."""
    total, freedom = 0.0, 0
    for h in np.unique(strata):
        rows = strata == h
        y, own = values[rows], checked[rows]
        share = own.mean()
        if not 0 < share < 1:
            continue
        N = np.bincount(y - y.min())
        n = np.bincount((y - y.min())[own], minlength=len(N))
        rare = N * min(share, 1 - share) < 5
        N, n = (np.append(c[~rare], c[rare].sum()) for c in (N, n))
        N, n = N[N > 0], n[N > 0]
        if len(N) < 2:
            continue
        total += float(((n - N * share) ** 2 / (N * share * (1 - share))).sum())
        freedom += len(N) - 1
    return float(chdtrc(freedom, total)) if freedom else 1.0


@dataclass
class Design:
    """Which rows were checked: at random, as far as the columns show, or by the values of some columns."""

    strata: IntArray  # (n,) rows that were checked alike, by what the columns show
    by: list[int]  # the columns that it went by
    p_value: float  # of the column that it went by most, before that was known
    rest: float  # p-value that it went by anything else that the columns show

    @classmethod
    def of(cls, columns: Sequence[IntArray], checked: NDArray[np.bool_]) -> Design:
        """As the columns show it."""
        strata = np.zeros(len(checked), dtype=np.int64)
        by: list[int] = []
        first = rest = 1.0
        while True:
            left = [i for i in range(len(columns)) if i not in by]
            p = {i: dependence(columns[i], checked, strata) for i in left}
            worst = min(p, key=lambda i: p[i], default=None)
            rest = min(1.0, p[worst] * len(left)) if worst is not None else 1.0
            first = rest if not by else first
            if worst is None or rest >= (CHANCE if by else CHOSEN) or len(by) == COLUMNS:
                return cls(strata, by, first, rest)
            by.append(worst)
            strata = np.unique(np.stack([strata, columns[worst]]), axis=1, return_inverse=True)[1].reshape(-1)

    @property
    def explained(self) -> bool:
        """Whether, given the strata, nothing shows what else checking went by."""
        return self.rest >= CHANCE


def alike(m: FloatArray, design: IntArray, checked: NDArray[np.bool_]) -> IntArray:
    """Strata (n,) of rows with like working scores m, within those of the design.

    From the finest groups, neighbours are merged where that loses least (Ward, 1963) until each has `FEWEST` checked
    rows and there are at most `MOST` of them. A stratum of the design is never merged with another.
    """
    out = np.zeros(len(m), dtype=np.int64)
    start = 0
    for h in np.unique(design):
        rows = np.flatnonzero(design == h)
        values, index = np.unique(np.round(m[rows], 9), return_inverse=True)
        if len(values) > FINE:
            edges = np.quantile(m[rows], np.linspace(0, 1, FINE + 1)[1:-1])
            index = np.unique(np.searchsorted(edges, m[rows]), return_inverse=True)[1]
        index = index.reshape(-1)
        N: Any = np.bincount(index).astype(np.float64)
        mean: Any = np.bincount(index, m[rows]) / N
        n: Any = np.bincount(index, checked[rows])
        groups = [[g] for g in range(len(N))]
        while len(groups) > 1 and (min(n) < FEWEST or len(groups) > MOST):
            loss = N[:-1] * N[1:] / (N[:-1] + N[1:]) * (mean[1:] - mean[:-1]) ** 2
            if min(n) < FEWEST:
                small = int(np.argmin(n))
                sides = [j for j in (small - 1, small) if 0 <= j < len(loss)]
                at = min(sides, key=lambda j: loss[j])
            else:
                at = int(loss.argmin())
            both = N[at] + N[at + 1]
            mean[at] = (N[at] * mean[at] + N[at + 1] * mean[at + 1]) / both
            N[at], n[at] = both, n[at] + n[at + 1]
            groups[at] += groups.pop(at + 1)
            mean, N, n = (np.delete(x, at + 1) for x in (mean, N, n))
        place = np.empty(index.max() + 1, dtype=np.int64)
        for g, members in enumerate(groups):
            place[members] = g
        out[rows] = start + place[index]
        start += len(groups)
    return out


@dataclass
class Strata:
    """What a share in [0, 1] looks like by stratum: the strata's shares W of all rows, checked rows, their sum of s.

    `n` is the number of all rows, `deff` by how much rows that go together raise the variance. Strata of which no row
    was checked are `open`: their mean may be anything.
    """

    W: FloatArray
    checked: FloatArray
    hits: FloatArray
    n: float
    deff: float = 1.0

    @property
    def open(self) -> NDArray[np.bool_]:
        """Strata of which no row was checked."""
        return self.checked <= 0

    def means(self, tilt: float, W: FloatArray) -> FloatArray:
        """The most likely means of the strata under a Lagrange multiplier of ``sum W t``: they solve
        ``hits / t - (checked - hits) / (1 - t) = tilt W``. A positive one lowers them."""
        a = tilt * W
        b = self.checked + a
        root = np.sqrt(np.maximum(b * b - 4 * a * self.hits, 0.0))
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.where(b > 0, 2 * self.hits / (b + root), (b - root) / (2 * a))
        return np.where(self.open, 0.0, np.clip(t, 0.0, 1.0))

    def profiled(self, tilt: float) -> tuple[float, float]:
        """A candidate theta, and the greatest log-likelihood with it, of the strata's shares too."""
        W = self.W
        t = self.means(tilt, W)
        for _ in range(4):
            W = self.W / np.maximum(1 + tilt * (t - W @ t) / self.n, 0.1)
            W = W / W.sum()
            t = self.means(tilt, W)
        own = xlogy(self.hits, t) + xlogy(self.checked - self.hits, 1 - t)
        return float(W @ t), float(own.sum() + self.n * xlogy(self.W, W).sum())

    def variance(self, t: FloatArray) -> float:
        """Of the estimate, if t are the strata's means."""
        c, known = np.where(self.open, 1.0, self.checked), ~self.open
        theta = float(self.W @ t) / max(float(self.W[known].sum()), 1e-300)
        within = float((self.W**2 * t * (1 - t) / c)[known].sum())
        return self.deff * (within + float((self.W * (t - theta) ** 2)[known].sum()) / self.n)

    def by_score(self, quantile: float) -> tuple[float, float]:
        """The ends of the score interval: of the theta that are no more than `quantile` of their own standard errors
        away."""
        theta = float(self.W @ self.means(0.0, self.W))

        def away(tilt: float) -> float:
            t = self.means(tilt, self.W)
            return abs(theta - float(self.W @ t)) - quantile * math.sqrt(self.variance(t))

        low, high = (float(self.W @ self.means(self._root(away, sign), self.W)) for sign in (1, -1))
        return low, high

    def by_likelihood(self, quantile: float) -> tuple[float, float]:
        """The ends of the profile likelihood's interval."""
        top = self.profiled(0.0)[1] - 0.5 * quantile**2 * self.deff

        def away(tilt: float) -> float:
            return top - self.profiled(tilt)[1]

        low, high = (self.profiled(self._root(away, sign))[0] for sign in (1, -1))
        return low, high

    def _root(self, away: Callable[[float], float], sign: int) -> float:
        """The multiplier of that sign at which `away` passes 0, from inside."""
        from scipy.optimize import brentq

        rows = float(self.checked.sum())
        inner, outer = 0.0, 0.5 * math.sqrt(max(rows, 1.0))
        while away(sign * outer) <= 0 and outer < 1e7 * max(rows, 1.0):
            inner, outer = outer, 3 * outer
        if away(sign * outer) <= 0 or away(sign * inner) > 0:
            return sign * inner
        # where all checked rows agree, means do not move until the multiplier is large: that zero is none to stop at
        return sign * float(brentq(lambda x: away(sign * x) or -1e-300, inner, outer, rtol=1e-4))

    def interval(self, modelled: bool = False) -> tuple[float, float, float]:
        """The estimate and its interval.

        By the score where few checked rows, of either kind, decide; else by likelihood, whose interval is narrower and
        holds as well. Strata that a model made (`modelled`) cost it as many degrees of freedom as there are; where they
        are plain labels it is set halfway between likelihood and normal theory, which err in opposite directions.
        """
        t = self.means(0.0, self.W)
        theta, unknown = float(self.W @ t), float(self.W[self.open].sum())
        rows = float(self.checked.sum())
        spare = max(rows - int((~self.open).sum()), 1.0)
        few = min(float(self.hits.sum()), rows - float(self.hits.sum())) < FEW
        if few:
            low, high = self.by_score(Z95)
        else:
            quantile = float(student_quantile(np.array(spare)))
            low, high = self.by_likelihood(quantile * (math.sqrt(rows / spare) if modelled else 1.0))
            if not modelled:
                half = quantile * math.sqrt(self.variance(t))
                low, high = (low + theta - half) / 2, (high + theta + half) / 2
        theta = min(theta, 1.0)  # the strata's shares add up to one but for rounding
        return theta + unknown / 2, max(min(low, theta), 0.0), min(max(high, theta) + unknown, 1.0)


@dataclass
class Result:
    """An estimate from checked rows and all labels, as `score_of` reads it."""

    mean: float
    stderr: float
    ends: tuple[float, float]
    influence: FloatArray  # (n,): what each row adds to the error; sums to zero
    freedom: float = math.inf
    stderr_transition: float = 0.0
    draws: None = None

    def interval(self, known: bool = False) -> tuple[float, float]:
        """95%."""
        return self.ends

    def statistic(self, null: float = 0.0) -> float:
        """How many standard errors the estimate lies away from `null`, so that the interval's ends are at 1.96."""
        end = self.ends[0] if null < self.mean else self.ends[1]
        quantile = float(student_quantile(np.array(self.freedom)))
        return (self.mean - null) / max(abs(self.mean - end) / quantile, 1e-300)


class CheckedRows:
    """Rows whose class somebody has looked up, among all that have labels.

    Parameters
    ----------
    columns : (n, m) codes of what is known of all rows, -1 where nothing: the labels
    true : (n,) classes, -1 where nobody looked
    K : number of classes
    also : more columns (n,), such as what a model predicts
    weights : (n,), of rows; chances : (n,), of checked rows: the inverse of the probability of being checked
    groups : (n,) codes; rows of one group are not independent
    """

    def __init__(
        self,
        columns: IntArray,
        true: IntArray,
        K: int,
        *,
        also: Sequence[IntArray] = (),
        weights: FloatArray | None = None,
        chances: FloatArray | None = None,
        groups: IntArray | None = None,
    ) -> None:
        self.true, self.K, self.n, self.groups = true, K, len(true), groups
        self.checked = true >= 0
        if not self.checked.any():
            raise InputError("true: expected the class of some rows, got none")
        self.labels = columns.shape[1]
        self.weights = np.ones(self.n) if weights is None else weights
        self.inverse = self.weights if chances is None else self.weights * chances
        self.weighted = chances is not None
        every = [*columns.T, *also]
        if columns.shape[1] > 1:  # answers that differ are what a doubtful row looks like
            every.append(_most_votes(columns))
        self.names = [*self._label_names(), *["the model's prediction"] * len(also), "how many labels agree"]
        self.design = Design.of(every, self.checked) if chances is None else _as_weighted(self.checked)
        self._said = np.column_stack([columns, *also])
        self.guesses = guesses(self._said, true, K)
        self.held_out: FloatArray | None = None  # guesses that no row's own class went into, when a mean asks for them
        self.modelled = columns.shape[1] + len(also) > 1 or bool(self.design.by) or self.weighted

    def _label_names(self) -> list[str]:
        return ["the label"] if self.labels == 1 else [f"the label of source {a}" for a in range(self.labels)]

    @property
    def sentence(self) -> str:
        """What the estimates assume, in one sentence."""
        if self.weighted:
            return "assumes that each checked row stands for as many rows as sample_weight says"
        if not self.design.by:
            return (
                f"assumes that the {int(self.checked.sum())} checked rows are a random sample of all rows (nothing in "
                "the labels speaks against it)"
            )
        by = " and ".join(self.names[i] for i in self.design.by)
        return (
            f"the {int(self.checked.sum())} checked rows were chosen by {by} (p = {self.design.p_value:.2g}), so each "
            f"of its values is estimated by itself; assumes that among rows alike in {by} checking was random"
        )

    @property
    def doubts(self) -> list[str]:
        """Where the design cannot be right, or leaves something out."""
        out = []
        if not self.design.explained:
            by = " and ".join(self.names[i] for i in self.design.by)
            out.append(
                f"the checked rows differ from the others in more than {by} (p = {self.design.rest:.2g}): what was "
                "checked was chosen in a way that these labels do not show; give sample_weight, the inverse of each "
                "checked row's probability of being checked"
            )
        seen = np.unique(self.design.strata[self.checked])
        left = ~np.isin(self.design.strata, seen)
        if left.any():
            by = " and ".join(self.names[i] for i in self.design.by)
            out.append(
                f"checking went by {by}, and {left.mean():.1%} of the rows have values of which none was checked: "
                "nothing is known of these rows' classes, and the intervals hold whatever they are"
            )
        return out

    def only(self, some: NDArray[np.bool_]) -> CheckedRows:
        """Some of the rows, chosen by what is known of all; what was checked among them was chosen as among all."""
        out = copy.copy(self)
        out.true, out.checked, out.n = self.true[some], self.checked[some], int(some.sum())
        out.weights, out.inverse, out.guesses = self.weights[some], self.inverse[some], self.guesses[some]
        out.groups = None if self.groups is None else self.groups[some]
        out._said, out.held_out = self._said[some], None if self.held_out is None else self.held_out[some]
        strata = np.unique(self.design.strata[some], return_inverse=True)[1].reshape(-1)
        out.design = replace(self.design, strata=strata)
        return out

    def _strata(self, working: FloatArray) -> IntArray:
        return alike(working, self.design.strata, self.checked)

    def _sums(self, s: FloatArray, h: IntArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Shares W of strata, effective checked rows, means of s, and how many rows all are worth."""
        H = int(h.max()) + 1
        w = self.weights / self.weights.sum()
        W = np.bincount(h, w, H)
        own, v = h[self.checked], self.inverse[self.checked]
        total, squares = np.bincount(own, v, H), np.bincount(own, v * v, H)
        c = np.divide(total**2, squares, out=np.zeros(H), where=squares > 0)
        mean = np.divide(np.bincount(own, v * s[self.checked], H), total, out=np.zeros(H), where=total > 0)
        return np.asarray(W, np.float64), c, mean, 1 / float((w * w).sum())

    def _influence(self, s: FloatArray, h: IntArray, W: FloatArray, each: FloatArray) -> FloatArray:
        """Errors (n,): of the strata's means by their checked rows, and of what all rows say (`each`) of the strata."""
        w = self.weights / self.weights.sum()
        out: FloatArray = w * (each - w @ each)
        own, v = h[self.checked], self.inverse[self.checked]
        total = np.bincount(own, v, len(W))
        centre = np.bincount(own, v * s[self.checked], len(W)) / np.where(total > 0, total, 1.0)
        out[self.checked] += W[own] * v / total[own] * (s[self.checked] - centre[own])
        return out

    def _deff(self, influence: FloatArray) -> tuple[float, float]:
        """By how much groups raise the variance, and their degrees of freedom."""
        if self.groups is None:
            return 1.0, math.inf
        sums = np.bincount(self.groups, influence)
        G = len(np.unique(self.groups[self.checked]))
        plain = float((influence**2).sum())
        return max(float((sums**2).sum()) / max(plain, 1e-300) * G / max(G - 1, 1), 1.0), max(G - 1.0, 1.0)

    def share(self, s: FloatArray, working: FloatArray) -> Result:
        """The mean of s (n,) in [0, 1], which counts for checked rows; `working` (n,) is what it is expected to be."""
        h = self._strata(working)
        W, c, mean, n = self._sums(s, h)
        influence = self._influence(s, h, W, mean[h])
        own = h[self.checked]
        among = float(((s[self.checked] - mean[own]) ** 2).sum())
        binary = float((mean[own] * (1 - mean[own])).sum())
        c = c / min(max((among + 0.25) / (binary + 0.25), LEAST_SPREAD), 1.0)  # values between 0 and 1 scatter less
        deff, freedom = self._deff(influence)
        more = 1.0 if math.isinf(freedom) else (float(student_quantile(np.array(freedom))) / Z95) ** 2
        strata = Strata(W, c, c * mean, n, deff * more)
        value, low, high = strata.interval(self.modelled)
        stderr = max(math.sqrt(strata.variance(mean)), (high - low) / 4 / Z95)
        return Result(value, stderr, (low, high), influence)

    def mean(self, each: FloatArray) -> Result:
        """The mean of any score of the true class, of ``each[i, z]`` (n, K), by the guesses' own mean and the checked
        rows' differences from it.

        ``theta = mean of b m + sum_h W_h mean of (s - b m)``, m the score that is expected of each row: b, the slope of
        s in m among checked rows, is power-tuned (Angelopoulos, Duchi and Zrnic, 2023), so that guesses that say
        nothing do no harm. Scores are skewed (a log loss, where few rows are costly): as in `statistics` every
        candidate mean is judged by the variance that goes with it, ``V + bend delta``, and rows whose classes are drawn
        from the guesses stand beside the checked ones in both, since these may lack what is rare.
        """
        if self.held_out is None:
            self.held_out = held_out_guesses(self._said, self.true, self.K, self.groups)
        guessed_classes = self.held_out
        working = (guessed_classes * each).sum(axis=1)
        s = np.where(self.checked, each[np.arange(self.n), np.maximum(self.true, 0)], 0.0)
        h = np.unique(self.design.strata, return_inverse=True)[1].reshape(-1)
        W, c, m_mean, _ = self._sums(working, h)
        s_mean = self._sums(s, h)[2]
        own, v = h[self.checked], self.inverse[self.checked]
        dm, ds = working[self.checked] - m_mean[own], s[self.checked] - s_mean[own]
        squares = float((v * dm * dm).sum())
        slope = float(np.clip((v * dm * ds).sum() / squares, 0.0, 1.5)) if squares > 1e-12 else 0.0
        w = self.weights / self.weights.sum()
        expected = slope * working + (s_mean - slope * m_mean)[h]
        value = float(w @ expected)
        influence = self._influence(np.where(self.checked, s - slope * working, 0.0), h, W, expected)
        spare = max(float(c.sum()) - len(W) - 1, 1.0)
        deff, groups = self._deff(influence)
        # second and third moments of what checked rows add, as they are, and as the guesses have them
        a = W[own] * v / np.bincount(own, v, len(W))[own]
        e = ds - slope * dm
        off = each - slope * working[:, None]
        off = off - (guessed_classes * off).sum(axis=1, keepdims=True)
        share = np.divide(W**2, np.maximum(c, 1), out=np.zeros(len(W)), where=c > 0)
        cube = np.divide(W**3, np.maximum(c, 1) ** 2, out=np.zeros(len(W)), where=c > 0)
        rows = np.bincount(h, minlength=len(W))
        seen = float((a * a * e * e).sum()) * float(c.sum()) / spare, float((a**3 * e**3).sum())
        guessed = tuple(
            float(factor @ (np.bincount(h, (guessed_classes * off**k).sum(axis=1), len(W)) / rows))
            for k, factor in ((2, share), (3, cube))
        )
        second, third = max(seen[0], (seen[0] + guessed[0]) / 2), (seen[1] + guessed[1]) / 2
        among = w * (expected - value)
        least = float(np.ptp(s[self.checked])) / (float(c.sum()) + Z95**2) / 2
        variance = deff * max(second + float((among**2).sum()), least**2)
        bend = (third + float((among**3).sum())) / max(second + float((among**2).sum()), 1e-300) * deff
        freedom = min(spare, groups)
        q2 = float(student_quantile(np.array(freedom))) ** 2
        root = math.sqrt(q2 * q2 * bend * bend + 4 * q2 * variance)
        closest = math.sqrt(q2 * LEAST_VARIANCE * variance)
        below, above = max((root - q2 * bend) / 2, closest), max((root + q2 * bend) / 2, closest)
        left = float(W[c <= 0].sum()) * float(np.ptp(s[self.checked]))  # rows like none that was checked
        return Result(value, math.sqrt(variance), (value - below - left, value + above + left), influence, freedom)


def _as_weighted(checked: NDArray[np.bool_]) -> Design:
    return Design(np.zeros(len(checked), dtype=np.int64), [], 1.0, 1.0)


def _most_votes(columns: IntArray) -> IntArray:
    """How many columns say what most of them say (n,)."""
    votes = np.stack([(columns == y).sum(axis=1) for y in range(int(columns.max(initial=0)) + 1)], axis=1)
    out: IntArray = votes.max(axis=1)
    return out
