"""Means, standard errors and intervals for scores of weak labels: the statistics behind `metrics`.

A score of weak labels is a mean of ``g_i = <R e_{y_i}, s_i>``, where ``s_i`` holds the score that example i would
get under each class. The g are unbiased, yet far from normal: a complementary label over 10 classes turns
"correct or not" into 1 or -8, with -8 rare. The usual ``mean +- 1.96 stderr`` then misses, and where the rare label
did not turn up at all it collapses to a point. Three things put that right:

* the interval asks of every candidate mean what variance it would entail, as Wilson's interval does for a
  proportion, instead of taking the variance of the sample for all of them (`Estimate`);
* how variance goes with the mean is learned from the sample together with a reference: labels drawn from the
  model's own predictions and T, which holds the rare labels at their rates even where the sample holds none. A model
  that is certain of itself is not believed entirely: one example's worth of the reference is drawn uniformly;
* a sample without spread gets that of one example of the reference, so that only a constant score has no width.

For T = I the interval of an accuracy is Wilson's, but for its dip around one count (`LEAST_VARIANCE`). All functions
work along the last axis, so that a test can run thousands of data sets at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit
from torch import Tensor

from .._core import FloatArray, as_tensors, drawn_classes
from ..transitions import NO_ANSWER, Reconstruction, Transition, is_soft
from .uncertainty import TransitionDraws, draws_of

Z95 = 1.959963984540054  # the 97.5% point of the normal distribution
LEVEL = 0.95
BLOCK = 1 << 22  # entries (examples x classes) handled at a time
REFERENCE_DRAWS = 512  # at least this many reference labels ...
SCATTER_DRAWS = 8192  # labels drawn where a scatter is all that is known of a mean
REFERENCE_ROWS = 4096  # ... from at most this many examples: beyond, the correction is too small to matter
MOST_SHIFT = 0.5  # of z0: beyond, a thousand draws have no quantile to read
# How far variance may fall as the mean moves, as a share of the sample's: an interval around one count of n reaches
# down to -log(.95)/n, where 5% of samples show a count. Wilson's own (.17) covers 90% there: Brown, Cai and DasGupta
# (2001), who mend it so. Where g has more than two values the relation is an extrapolation, which needs a bound too.
LEAST_VARIANCE = ((1 + math.log(LEVEL)) / Z95) ** 2
LEAST_KEPT = 0.1  # of the sample's variance, whatever is taken off

Values = Callable[[Tensor], Tensor]  # example indices (m,) -> one value per class (m, K)


class Reweigher:
    """``<R e_y, values>`` for batches of examples, in blocks: memory stays bounded whatever n and K are.

    With `labels` whose T is estimated, posterior draws of T come with it (`draws`), and where several answers tell the
    classes, a correction of the targets (`classes`).
    """

    def __init__(
        self,
        transition: Transition,
        reconstruction: Reconstruction,
        labels: Tensor | None = None,
        weights: FloatArray | None = None,
    ) -> None:
        self.transition = transition
        self.reconstruction = reconstruction
        self.tables = as_tensors(reconstruction.tables())
        self.soft = labels is not None and is_soft(labels)
        answers = None if self.soft else labels
        self.draws = None if labels is None else draws_of(transition, reconstruction, answers, weights)
        self.classes = None if self.draws is None else self.draws.classes
        self.correction = None if self.classes is None else torch.as_tensor(self.classes.correction)

    def blocks(self, n: int) -> list[Tensor]:
        """Example indices, a block at a time."""
        return list(torch.arange(n).split(max(1, BLOCK // self.transition.num_classes)))

    def targets(self, labels: Tensor) -> Tensor:
        """The targets (m, K) of encoded labels."""
        targets = self.reconstruction.evidence(labels, torch.float64, self.tables).dense(torch.float64)
        return targets if self.correction is None else targets @ self.correction.T

    def weigh(self, values: Tensor, labels: Tensor) -> Tensor:
        """``<r_i, s_i>`` (m,) of encoded labels, for values s_i (m, K)."""
        if self.correction is not None:
            values = values @ self.correction  # <A r, s> = <r, A' s>
        return self.reconstruction.evidence(labels, torch.float64, self.tables).inner(values)

    def luck(self, labels: Tensor, a: FloatArray, sums: FloatArray, posteriors: FloatArray) -> float:
        """The variance of a mean with weights a that the corrected targets are free of; `sums` are `target_sums`.

        `posteriors` (n, K) are those of the classes, given all answers.
        """
        P = torch.as_tensor(posteriors)
        share = torch.as_tensor(a) @ P
        means = torch.as_tensor(sums) / share.clamp_min(1.0 / len(P))[:, None]  # S[z]: what class z scores
        total = 0.0
        for i in self.blocks(len(labels)):
            off = self.targets(labels[i]) @ means.T - means.diag()  # <r_i - e_z, S[z]>
            total += float(torch.as_tensor(a[i.numpy()] ** 2) @ (P[i] * off**2).sum(1))
        return total

    def scatter(self, values: Values, posterior: Values, labels: Tensor, a: FloatArray) -> float:
        """``sum_i a_i^2 E g_i^2``, with class probabilities `posterior`: how labels scatter a mean, whatever was drawn.

        By labels drawn for the examples whose scores are not all 0, which may be a handful.
        """
        live = torch.cat([i[(values(i) != 0).any(-1)] for i in self.blocks(len(labels))])
        if not len(live):
            return 0.0
        rows = live[torch.linspace(0, len(live) - 1, min(len(live), SCATTER_DRAWS)).round().long()]
        picked, rng, total = rows.repeat(-(-SCATTER_DRAWS // len(rows))), np.random.default_rng(0), 0.0
        for part in self.blocks(len(picked)):
            i = picked[part]
            drawn, shares = drawn_labels(self.transition, posterior(i), labels[i], rng)
            total += float(shares @ (a[i.numpy()] * self.weigh(values(i), drawn).numpy()) ** 2)
        return total / len(picked) * len(live)

    def target_sums(self, labels: Tensor, values: Values, a: FloatArray) -> FloatArray:
        """``G[c, z] = sum_i a_i r_i[c] s_i(z)`` (K, Z): all that a mean knows of the examples, whatever T is."""
        sums = [
            (torch.as_tensor(a[i.numpy()])[:, None] * self.targets(labels[i])).T @ values(i)
            for i in self.blocks(len(labels))
        ]
        return torch.stack(sums).sum(0).numpy()

    def cell_sums(self, labels: Tensor, cell: Tensor, a: FloatArray, size: int) -> FloatArray:
        """``G[c, j] = sum of a_i r_i[c]`` over the examples in cell j (K, size); `cell` is (n,) or (n, cells each)."""
        out = torch.zeros(size, self.transition.num_classes, dtype=torch.float64)
        places = cell if cell.ndim == 2 else cell[:, None]
        for i in self.blocks(len(labels)):
            r = torch.as_tensor(a[i.numpy()])[:, None] * self.targets(labels[i])
            for k in range(places.shape[1]):
                out.index_add_(0, places[i, k], r)
        return out.T.numpy()

    def __call__(self, values: Values, labels: Tensor) -> FloatArray:
        """g (n,) for n encoded labels."""
        parts = [self.weigh(values(i), labels[i]) for i in self.blocks(len(labels))]
        return torch.cat(parts).numpy()

    def reference(
        self, values: Values, posterior: Values, labels: Tensor, batch: tuple[int, ...], rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """g of labels drawn from the model's own predictions, with importance weights; both (..., m)."""
        n = batch[-1]
        rows = reference_rows(n)
        sets = int(np.prod(batch[:-1], dtype=np.int64))
        picked = torch.as_tensor((np.arange(sets)[:, None] * n + rows).reshape(-1))
        g, weight = [], []
        for part in self.blocks(len(picked)):
            i = picked[part]
            drawn, shares = drawn_labels(self.transition, posterior(i), labels[i], rng)
            weight.append(shares)
            g.append(self.weigh(values(i), drawn).numpy())
        shape = (*batch[:-1], len(rows))
        return np.concatenate(g).reshape(shape), np.concatenate(weight).reshape(shape)


def spread_rows(n: int) -> NDArray[np.int64]:
    """At most 4,096 of n examples, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, REFERENCE_ROWS)).round().astype(np.int64))


@functools.lru_cache(maxsize=64)
def reference_rows(n: int) -> NDArray[np.int64]:
    """Which of n examples a reference is drawn for, some of them several times; the same for every score of n."""
    rows = spread_rows(n)
    out = np.tile(rows, -(-REFERENCE_DRAWS // len(rows)))
    out.flags.writeable = False
    return out


def drawn_labels(
    transition: Transition, p: Tensor, like: Tensor, rng: np.random.Generator
) -> tuple[Tensor, FloatArray]:
    """Weak labels of classes drawn from p (m, K), encoded, and their importance weights (m,).

    `like` are the labels of the same examples: an annotator who did not answer there gives none here.

    Classes are drawn half from p, half uniformly, and weighted back, so that the labels which are rare under the model
    are there for certain, at their small weights.
    """
    K = p.shape[-1]
    mixed = (p + 1.0 / K) / 2
    z = drawn_classes(mixed.numpy(), rng)
    at = torch.as_tensor(z)[:, None]
    weights = (p.gather(-1, at) / mixed.gather(-1, at))[:, 0].numpy()
    drawn = transition.encode(transition.draw(z, rng), validate=False)
    if transition.separate:
        drawn = drawn.masked_fill(like.isnan().any(-1) if is_soft(like) else like < 0, NO_ANSWER)
    return drawn, weights


def moment_slope(g: FloatArray, weights: FloatArray, reference: FloatArray, shares: FloatArray) -> FloatArray:
    """How the second moment of g goes with its mean: ``Cov(g^2, g) / Var g``.

    Taken over the sample and the reference together, at equal weight. Where g has two values it is their sum,
    whatever the weights are: ``g^2 = (a + b) g - a b``.
    """
    ours = weights / weights.sum(-1, keepdims=True)
    theirs = shares / shares.sum(-1, keepdims=True)
    x = np.concatenate([g, reference], -1)
    w = np.concatenate([ours, theirs], -1) / 2
    mean = (w * x).sum(-1)
    d = x - mean[..., None]
    variance = (w * d * d).sum(-1)
    flat = variance <= 1e-26 * (w * x * x).sum(-1)  # rounding: a constant, whose square moves with it
    return np.where(flat, 2 * mean, (w * x * x * d).sum(-1) / np.where(flat, 1.0, variance))


@dataclass(frozen=True)
class Beside:
    """What is known of a mean besides what its rows show; nothing by default."""

    value: FloatArray | None = None  # the estimate itself, where rows are what each adds to its error
    entailed: float | None = None  # variance of a mean of rows by what is known of their classes, whatever was drawn
    variance: float | None = None  # of the mean, which is there although the sample does not show it
    scatter: FloatArray | None = None  # (n,): of the g_i at every candidate mean, that of labels given their class
    one_more: float | None = None  # squares of one more example, or group: not seen yet, and it may come
    above: float = 0.0  # a variance on top of what the sample shows, of means above the estimate alone
    stderr: float = 0.0  # an error that does not come from the rows' spread, alike on both sides


@dataclass(frozen=True)
class Moved:
    """What the error of an estimated T does to a mean."""

    draws: TransitionDraws
    values: FloatArray  # (S,): the mean under posterior draws of T
    luck: float | None = None  # the part of the sample's variance that is not the mean's (`Reweigher.luck`)


@dataclass(frozen=True)
class Estimate:
    """A weighted mean of g (..., n) with what is needed for intervals and tests; `mean_of` makes it.

    With weights a_i that sum to one, ``error^2 = sum a_i^2 (g_i - mean)^2`` estimates the variance of the mean. Its
    error depends on that of the mean: at a mean that is off by delta the variance is about

        V(delta) = error^2 + bend * delta - spread * delta^2,

    ``spread = sum a_i^2`` (1/n) and ``bend = (sum a^3 / sum a^2) (slope - 2 mean)``, `slope` being `moment_slope`, but
    not below a share of ``error^2`` (`LEAST_VARIANCE`). The interval holds every mean with
    ``delta^2 <= q^2 (V(delta) + U)``, q that of Student's t, U the variance that an estimated T adds on that side.
    """

    mean: FloatArray
    stderr: FloatArray
    error2: FloatArray
    floor: FloatArray  # what V does not fall below
    bend: FloatArray
    spread: FloatArray
    freedom: FloatArray
    one: FloatArray | float  # the share of one example; of one group, where they are equal
    design: float = 1.0  # by how much groups make the variance larger
    transition_low: float = 0.0  # standard errors from T, below
    transition_high: float = 0.0  # and above
    above: float = 0.0  # a variance of means above the estimate
    draws: TransitionDraws | None = None

    @property
    def stderr_transition(self) -> float:
        """T's part of the standard error: the mean of the two sides."""
        return (self.transition_low + self.transition_high) / 2

    def interval(self, known: bool = False) -> tuple[FloatArray, FloatArray]:
        """The two roots of ``delta^2 = q^2 (V(delta) + U)``; `known`: as if T were known (U = 0)."""
        q2 = student_quantile(self.freedom) ** 2
        ends = []
        for side, from_T, more in ((-1, self.transition_low, 0.0), (1, self.transition_high, self.above)):
            extra = more + (0.0 if known else from_T**2)
            a, b, c = 1 + q2 * self.spread, q2 * self.bend, q2 * (self.error2 + extra)
            delta = (b + side * np.sqrt(b * b + 4 * a * c)) / (2 * a)
            ends.append(self.mean + side * np.maximum(side * delta, np.sqrt(q2 * (self.floor + extra))))
        return ends[0], ends[1]

    def statistic(self, null: float = 0.0) -> FloatArray:
        """How many standard errors, under the hypothesis that the mean is `null`, the estimate lies away from it."""
        delta = null - self.mean
        extra = np.where(delta < 0, self.transition_low**2, self.transition_high**2 + self.above)
        variance = np.maximum(self.error2 + self.bend * delta - self.spread * delta**2, self.floor) + extra
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(
                variance > 0, -delta / np.sqrt(np.where(variance > 0, variance, 1.0)), -np.sign(delta) * np.inf
            )
        return np.where(delta == 0, 0.0, t)


def mean_of(
    g: FloatArray,
    weights: FloatArray,
    reference: tuple[FloatArray, FloatArray],
    *,
    student: bool = True,
    few_decide: bool = False,
    groups: NDArray[np.int64] | None = None,
    of_T: Moved | None = None,
    beside: Beside | None = None,
) -> Estimate:
    """The mean of g (..., n), finished: the one place in which rows become an `Estimate`, and nothing changes it later.

    `reference` are g of labels that were drawn from the model, and their shares. With `student`, q is that of Student's
    t with n - 1 degrees of freedom, else the normal one; with `few_decide`, that of Student's t with as many as the
    kurtosis leaves (`_freedom`). Rows of one of the `groups` (n,) err together (one data set at a time).
    """
    a = weights / weights.sum(-1, keepdims=True)
    mean, spread = (a * g).sum(-1), (a * a).sum(-1)
    population = (a * a * (g - mean[..., None]) ** 2).sum(-1)  # n in the denominator, as Wilson has it
    with np.errstate(divide="ignore", invalid="ignore"):
        stderr = np.sqrt(population / (1 - spread))  # n - 1, the unbiased one
    error2 = stderr**2 if student else population
    values, shares = reference
    bend = (a**3).sum(-1) / spread * (moment_slope(g, weights, values, shares) - 2 * mean)
    freedom = 1 / spread - 1 if student else np.full_like(mean, np.inf)
    if few_decide:
        freedom = _freedom(a, g, values, shares, bent=not student, most=freedom)
    out = Estimate(mean, stderr, error2, LEAST_VARIANCE * error2, bend, spread, freedom, spread)
    if student:  # a sample without spread gets that of a mean in which one example, or group, of n + 1 is the model's
        apart = (shares * (values - mean[..., None]) ** 2).sum(-1) / shares.sum(-1)
        out = _at_least(out, spread**2 / (1 + spread) * apart)
    if groups is not None:
        out = _by_group(out, a, g, groups, few_decide)
        if student:
            out = _at_least(out, out.one**2 / (1 + out.one) * apart)
    if of_T is not None:
        out = _with_T(out, of_T)
    return out if beside is None else _with_known(out, beside, a)


def _at_least(out: Estimate, variance: FloatArray | float) -> Estimate:
    """With a variance of the mean that is known to be there although the sample does not show it."""
    return replace(out, error2=np.fmax(out.error2, variance), floor=np.fmax(out.floor, variance))


def _by_group(out: Estimate, a: FloatArray, g: FloatArray, groups: NDArray[np.int64], few_decide: bool) -> Estimate:
    """Rows of one group err together: the variance is that of sums of groups, ``sum_G (sum_i a_i (g_i - mean))^2``.

    It takes the place of the rows' own in all that they say of the variance (`design` is the ratio of the two), as
    if there were fewer rows; never more, since a ratio below one is mostly chance. Where no row differs from the
    others nothing shows how rows go together, and a group counts as one row. Degrees of freedom are the groups'.
    """
    squares = np.bincount(groups, weights=a * (g - out.mean)) ** 2
    one = float((np.bincount(groups, weights=a) ** 2).sum())  # one over their number, where groups are equal
    total, rows = float(squares.sum()) / (1 - one), float(out.stderr**2)
    design = max(total / rows, 1.0) if rows > 0 else one / float(out.spread)
    error2, floor, bend, spread = (design * x for x in (out.error2, out.floor, out.bend, out.spread))
    freedom = 1 / one - 1
    uneven = float(((squares - squares.mean()) ** 2).sum())
    if few_decide and uneven > 0:  # as `_freedom` has it, of the groups
        freedom = min(freedom, max(2 * float(squares.sum()) ** 2 / uneven, 1.0))
    freedoms, stderr = np.minimum(out.freedom, freedom), np.sqrt(design) * out.stderr
    return Estimate(out.mean, stderr, error2, floor, bend, spread, freedoms, one, design)


def _with_T(out: Estimate, of_T: Moved) -> Estimate:
    """With T's own error.

    Each side gets the standard error whose 1.96-fold reaches that side's 2.5% quantile: far out where T comes close
    to singular, and unmoved by the few draws beyond it.
    """
    low, high = np.quantile(of_T.values, bias_corrected_levels(of_T.values, float(out.mean)))
    sides = max(float(out.mean - low), 0.0) / Z95, max(float(high - out.mean), 0.0) / Z95
    out = replace(out, transition_low=sides[0], transition_high=sides[1], draws=of_T.draws)
    if of_T.luck is None:
        return out
    kept = np.maximum(1 - of_T.luck / np.where(out.error2 > 0, out.error2, 1.0), LEAST_KEPT)
    return replace(out, error2=kept * out.error2, floor=kept * out.floor, stderr=np.sqrt(kept) * out.stderr)


def _with_known(out: Estimate, beside: Beside, a: FloatArray) -> Estimate:
    """With what is known besides: variances that the sample does not show, and errors that are not the rows'."""
    if beside.value is not None:
        out = replace(out, mean=beside.value)
    if beside.entailed is not None:
        out = _at_least(out, out.design * beside.entailed)
    if beside.variance is not None:
        out = _at_least(out, beside.variance)
    if beside.scatter is not None:
        out = replace(out, floor=np.fmax(out.floor, out.design * (a * a * beside.scatter).sum()))
    if beside.one_more is not None:
        more = beside.one_more * float(out.one) ** 2
        out = replace(out, error2=out.error2 + more, floor=out.floor + more)
    low, high = (float(np.hypot(e, beside.stderr)) for e in (out.transition_low, out.transition_high))
    return replace(out, transition_low=low, transition_high=high, above=beside.above)


def _freedom(
    a: FloatArray, g: FloatArray, reference: FloatArray, shares: FloatArray, bent: bool, most: FloatArray
) -> FloatArray:
    """Degrees of freedom of the variance of a mean with weights a: fewer than `most` where few examples decide it, as
    where two models differ in some rows alone, or where one label in twenty has a target of 10.

    The variance of a sample variance is ``(kurtosis - 1) / n`` of its square, that of a chi square with f degrees of
    freedom ``2 / f`` (Satterthwaite, 1946): f is ``2 n / (kurtosis - 1)``, the kurtosis being that of the sample and
    the reference together. `bent`: what the mean tells of the variance, ``V(delta)``, is taken off, so that only the
    part of ``(g - mean)^2`` counts that is not linear in g: none where g has two values, where Wilson's is exact.
    """
    n = 1 / (a * a).sum(-1)
    g = np.concatenate([g, reference], -1)
    a = np.concatenate([a, shares / shares.sum(-1, keepdims=True)], -1) / 2
    away = g - (a * g).sum(-1, keepdims=True)
    variance = (a * away**2).sum(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        tilt = (a * away**3).sum(-1, keepdims=True) / variance if bent else 0.0
        excess = (a * (away**2 - variance - tilt * away) ** 2).sum(-1) / variance[..., 0] ** 2
        return np.where(excess > 0, np.clip(2 * n / excess, 1.0, most), most)


def bias_corrected_levels(values: FloatArray, at: float) -> FloatArray:
    """The levels of `values` that bound a 95% interval, if `at` is what they scatter about (Efron, 1987).

    An inverse of a noisy T is too large on average, for the estimate as for the draws around it: the draws lie above
    the estimate by as much as the estimate does above the truth. With ``z0`` the normal quantile of the share of draws
    below the estimate, the levels are ``Phi(2 z0 -+ 1.96)``; 2.5% and 97.5% where that share is half.
    """
    share = float(np.mean(values < at) + np.mean(values == at) / 2)
    z0 = np.clip(ndtri(share), -MOST_SHIFT, MOST_SHIFT)
    return np.asarray(ndtr([2 * z0 - Z95, 2 * z0 + Z95]))


def lower_tail(away: float) -> float:
    """The share of a normal estimate's lower tail in the 5% that a parameter >= 0 excludes, `away` standard deviations
    above 0: half of them from 1.96 on, none at 0 (Feldman and Cousins, 1998).

    They exclude the values whose likelihood is smallest against that of the best parameter >= 0. With a in the lower
    tail, ``t = Phi^-1(.95 + a)`` and ``s = Phi^-1(1 - a)``, that is so where ``away^2 - 2 s away + t^2 = 0``.
    """
    return float(np.interp(away, *_tails()))


@functools.cache
def _tails() -> tuple[FloatArray, FloatArray]:
    a = np.geomspace(1e-12, (1 - LEVEL) / 2, 200)
    t, s = ndtri(LEVEL + a), ndtri(1 - a)
    away = t**2 / (s + np.sqrt(np.maximum(s**2 - t**2, 0)))
    return np.append(0.0, away), np.append(0.0, a)


def student_quantile(df: FloatArray) -> FloatArray:
    """The 97.5% point of Student's t."""
    return np.asarray(stdtrit(np.maximum(df, 1e-3), (1 + LEVEL) / 2))


def estimate(
    weigher: Reweigher,
    values: Values,
    posterior: Values,
    labels: Tensor,
    weights: FloatArray | None = None,
    batch: tuple[int, ...] | None = None,
    student: bool = True,
    few_decide: bool = False,
    groups: NDArray[np.int64] | None = None,
    beside: Beside | None = None,
) -> Estimate:
    """Mean of ``<r_i, s_i>`` over examples, for scores `values` and a model's class probabilities `posterior`.

    `batch` (..., n) splits the examples into data sets that are handled side by side. The reference labels come
    from a generator with a fixed seed, so that the same data always give the same interval. With an estimated T the
    interval is widened by T's own error (one data set at a time). `groups` (n,) number the groups of rows that are not
    independent (one data set, too).
    """
    batch = (len(labels),) if batch is None else batch
    g = weigher(values, labels).reshape(batch)
    w = np.ones(batch) if weights is None else weights.reshape(batch)
    doubt = 1.0 / (batch[-1] + 1)  # a model that says 0 or 1 may be wrong once in n + 1 times

    def doubtful(i: Tensor) -> Tensor:
        p = posterior(i)
        return (1 - doubt) * p + doubt / p.shape[-1]

    reference = weigher.reference(values, doubtful, labels, batch, np.random.default_rng(0))
    of_T = None
    if weigher.draws is not None:
        a = w / w.sum()
        sums = weigher.target_sums(labels, values, a)
        luck = None if weigher.classes is None else weigher.luck(labels, a, sums, weigher.classes.posteriors)
        of_T = Moved(weigher.draws, weigher.draws.means(sums), luck)
    return mean_of(
        g, w, reference, student=student, few_decide=few_decide, groups=groups, of_T=of_T, beside=beside
    )  # fmt: skip
