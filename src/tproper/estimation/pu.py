"""The class prior of positive-unlabeled data, and r = P(labeled | positive), from held-out scores.

Labels are a random part of the positives (SCAR), so for every set B of examples ``P(labeled | B) <= r``, with equality
where B holds positives only. Among B = {score >= t}, with shares q(t) of all examples and q_l(t) of the labeled ones,

    prior = q(t) P(positive | score >= t) / q_l(t) <= q(t) / q_l(t):

the ratio at the purest threshold is the best-bin estimate (Garg et al. 2021). Far up few labels are left, far down B is
not pure. So the threshold is the lowest at which B is still `PURITY` positive, and the ratio is corrected for what is
left, both by the curve ``P(labeled | score) = r sigmoid(a score + b)`` fitted by maximum likelihood. The correction is
at most 5% where such a threshold exists: the curve need hold only roughly. Where it does not exist the estimate rests
on the curve, and the notes say so. Free of the curve is the upper bound, the smallest ratio of the tails moved apart by
the Dvoretzky-Kiefer-Wolfowitz inequality. Separate samples of positives and unlabeled examples are one sample with
labels at random once they are pooled, of another prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import FloatArray, checks, group_codes, standardised
from ..errors import InputError
from ..metrics import Z95, Score
from ..solvers import cross_fit
from ..transitions import EstimatedTransition, of_positives
from .arguments import feature_matrix

Sampling = Literal["one sample", "two samples"]
PURITY = 0.95
BINS = 300
BOOTSTRAPS = 200
LEAST = 0.2  # of the labeled examples lie above the threshold, at least
FOLDS = 5
DENSE_C = 0.1  # of the logistic regression, for standardised features
SPARSE_C = 10.0  # of the logistic regression on sparse rows, whose mean square length is one
STILL = 1e-9  # a standard error at which all draws have ended at one point
RATE_END = 0.98  # beyond, a curve that never becomes pure has run to its end, and its draws stay there


@dataclass(frozen=True)
class PUEstimate:
    """Class prior and labeling rate of positive-unlabeled data, and the transition to train with.

    `estimate_pu` makes it; it prints as sentences.

    Attributes
    ----------
    prior, rate : Score
        P(positive) and P(labeled | positive), each with `value`, `stderr` and a 95% `interval`.
    transition : EstimatedTransition
        `positive_unlabeled` at this rate, with its error.
    upper_bound : float
        Of the prior, at 95%, whether or not positives can be told from negatives.
    purity : float
        The share of positives among the rows above the threshold that the estimate rests on.
    notes : list of str
        What a reader should know.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng = np.random.default_rng(0)
    >>> z = rng.random(2000) < 0.4
    >>> found = tp.estimate_pu(z & (rng.random(2000) < 0.5), scores=np.where(z, 2.0, 0.0) + rng.normal(size=2000))
    >>> found.prior.interval[0] < found.prior.value < found.upper_bound
    True
    """

    prior: Score
    rate: Score
    transition: EstimatedTransition
    upper_bound: float  # of the prior, at 95%, without any curve: positives need not be separable
    purity: float  # of the examples above the threshold
    sampling: Sampling
    notes: list[str]

    def __str__(self) -> str:
        lines = [str(self.prior), str(self.rate), f"upper bound of the prior {self.upper_bound:.4g} (95%)"]
        return "\n".join([*lines, *(f"- {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "prior": self.prior.to_dict(),
            "rate": self.rate.to_dict(),
            "upper_bound": self.upper_bound,
            "purity": self.purity,
            "sampling": self.sampling,
            "notes": list(self.notes),
        }


def estimate_pu(
    labeled: ArrayLike | Tensor,
    X: Any = None,
    scores: ArrayLike | Tensor | None = None,
    *,
    sampling: Sampling = "one sample",
    random_state: int = 0,
    groups: ArrayLike | None = None,
) -> PUEstimate:
    """The class prior and ``r = P(labeled | positive)`` of positive-unlabeled data, with 95% intervals.

    The intervals come from a bootstrap of the scores. They rest on labels given at random among the positives, and on
    examples above a threshold of the scores being positive but for at most 5% (where none are, on the whole curve, and
    the notes say so).

    Parameters
    ----------
    labeled : (n,) boolean
        True: labeled positive; False: unlabeled. 1 and 0, or 1 and -1, mean the same.
    X : (n, d) array or sparse matrix, optional
        Features; a logistic regression of `labeled`, cross-fitted, gives the scores.
    scores : (n,) array, optional
        Instead of X: scores that are higher where positives are likelier, from a model that has not seen these rows.
    sampling : "one sample" or "two samples"
        One sample whose positives are labeled at random with rate r: `prior` is the share of positives in it. Or a
        sample of positives beside a separate unlabeled sample: `prior` is the share of positives in the unlabeled one,
        and `rate` and `transition` belong to the two samples pooled, which is what a model is trained with.
    random_state : int
        Seed of the folds and of the bootstrap.
    groups : (n,) names, optional
        With `X`: examples of one group are never in different folds.

    Returns
    -------
    PUEstimate
        `prior`, `rate`, `transition` to train with, `upper_bound` and `notes`.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng = np.random.default_rng(0)
    >>> z = rng.random(2000) < 0.4
    >>> scores = np.where(z, 4.0, 0.0) + rng.normal(size=2000)
    >>> found = tp.estimate_pu(z & (rng.random(2000) < 0.5), scores=scores)
    >>> bool(abs(found.prior.value - 0.4) < 0.1), bool(abs(found.rate.value - 0.5) < 0.1)
    (True, True)
    """
    checks.choice(sampling, "sampling", ("one sample", "two samples"))
    seed = checks.integer(random_state, "random_state", 0)
    s = labeled_of(labeled)
    values = _scores_of(s, X, scores, seed, group_codes(groups, len(s)))
    table = _binned(values, s)
    rng = np.random.default_rng(seed)
    curve = _fit_curve(table)
    point = _estimate(table, curve)
    again = np.stack([_resample(table, sampling, rng) for _ in range(BOOTSTRAPS)])
    curves = _fit_curves(again, curve)
    draws = np.array([_estimate(t, c).pooled for t, c in zip(again, curves, strict=True)])
    share, n = s.mean(), len(s)
    rates = again[:, :, 1].sum(axis=1) / n / draws  # r: the share of labels by the prior

    def unlabeled_share(pooled: Any) -> Any:
        return pooled if sampling == "one sample" else (pooled - share) / (1 - share)

    prior = _score("class prior", float(unlabeled_share(point.pooled)), unlabeled_share(draws), n)
    rate = _score("r = P(labeled | positive)", float(share / point.pooled), rates, n)
    most = min(1.0, _upper_bound(table))
    bound = float(unlabeled_share(most))
    if min(prior.stderr, rate.stderr) < STILL or (point.purity < PURITY and rate.value > RATE_END):
        prior, rate = _at_an_end(prior, rate, bound, float(share) / most)
    notes = _notes(point, prior, bound, sampling, float(share))
    return PUEstimate(prior, rate, _transition(rate.value, rates, notes), bound, point.purity, sampling, notes)


def _transition(r: float, rates: FloatArray, notes: list[str]) -> EstimatedTransition:
    """T of the rate, with the draws of the rate."""
    matrix = np.array([[r, 0.0], [1 - r, 1.0]])
    cloud = np.stack([np.stack([rates, 0 * rates], -1), np.stack([1 - rates, 1 + 0 * rates], -1)], axis=1)
    transition = EstimatedTransition(matrix, draws=cloud, notes=notes)
    return of_positives(transition, f"positive_unlabeled({r:.4g}), estimated")


def labeled_of(value: Any) -> NDArray[np.bool_]:
    """True where an example is a labeled positive: booleans, 1 and 0, or 1 and -1."""
    array = checks.array(value, "labeled")
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"labeled: expected booleans (n,), True = labeled positive, got shape {array.shape}")
    if array.dtype.kind != "b":
        values = set(np.unique(array).tolist()) if array.dtype.kind in "iuf" else {None}
        if not (values <= {0, 1} or values <= {-1, 1}):
            raise InputError(
                "labeled: expected booleans (True = labeled positive), or 1 and 0, or 1 and -1, "
                f"got {checks.short(array[:5].tolist())}"
            )
        array = array == 1
    count = int(array.sum())
    if count < 20 or len(array) - count < 20:
        raise InputError(
            f"labeled: expected at least 20 labeled and 20 unlabeled examples, got {count} and {len(array) - count}"
        )
    return array


def _scores_of(s: NDArray[np.bool_], X: Any, scores: Any, seed: int, groups: NDArray[np.int64] | None) -> FloatArray:
    if (X is None) == (scores is None):
        raise InputError("X: expected either X or scores, got both or neither")
    if scores is None:
        return _cross_fitted(s, X, seed, groups)
    given = checks.array(scores, "scores")
    try:
        values = given.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"scores: expected {len(s)} numbers, got {checks.short(scores)}") from None
    if values.shape != s.shape:
        raise InputError(f"scores: expected one number for each of the {len(s)} examples, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise InputError(f"scores: expected finite numbers, got {values[~np.isfinite(values)][0]}")
    if np.ptp(values) == 0:
        raise InputError("scores: expected numbers that differ, got one value only")
    return values


def _cross_fitted(s: NDArray[np.bool_], X: Any, seed: int, groups: NDArray[np.int64] | None) -> FloatArray:
    """Log-odds of being labeled, each example's from a logistic regression that has not seen it."""
    from scipy.sparse import issparse
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    A = feature_matrix(X, len(s), "examples", sparse=True)
    sparse = issparse(A)
    if sparse:  # its columns keep their weights: those of words say how much each tells
        A = A / (float(np.sqrt(A.multiply(A).sum() / A.shape[0])) or 1.0)

    def log_odds(_: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> FloatArray:
        model = LogisticRegression(C=SPARSE_C if sparse else DENSE_C, max_iter=300)
        if sparse:
            return np.asarray(model.fit(A[train], s[train]).decision_function(A[test]))
        Z, mean, scale = standardised(A[train])
        return np.asarray(model.fit(Z, s[train]).decision_function((A[test] - mean) / scale))

    folds = (StratifiedKFold if groups is None else StratifiedGroupKFold)(FOLDS, shuffle=True, random_state=seed)
    return cross_fit(log_odds, list(folds.split(A, s, groups)), len(s))


# Scores in bins: (B, 3) midpoints, labeled and unlabeled counts, from the highest score down.


def _binned(values: FloatArray, s: NDArray[np.bool_]) -> FloatArray:
    """Bins of about equal numbers of examples; equal scores stay together."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))
    place = np.searchsorted(edges, values, side="left")
    size = len(edges) + 1
    count = np.bincount(place, minlength=size)
    centre, spread = values.mean(), values.std()
    middle = (np.bincount(place, values, size) / np.maximum(count, 1) - centre) / spread
    labels = np.bincount(place, s, size)
    return np.stack([middle, labels, count - labels], axis=1)[count > 0][::-1]


def _resample(table: FloatArray, sampling: Sampling, rng: np.random.Generator) -> FloatArray:
    cells = table[:, 1:]
    if sampling == "one sample":
        drawn = rng.multinomial(int(cells.sum()), (cells / cells.sum()).ravel()).reshape(cells.shape)
    else:
        drawn = np.stack([rng.multinomial(int(c.sum()), c / c.sum()) for c in cells.T], axis=1)
    return np.concatenate([table[:, :1], drawn], axis=1)


@dataclass(frozen=True)
class _Point:
    pooled: float  # prior of all rows together
    purity: float
    bounded: bool  # whether the estimate had to be kept within the share of labels and one


def _estimate(table: FloatArray, curve: FloatArray) -> _Point:
    """Ratio of the tails at the threshold, times the purity there."""
    x, labels, rest = table.T
    total = labels + rest
    positive = (total * _sigmoid(curve[1] * x + curve[2])).cumsum()
    purity = positive / np.maximum(total.cumsum(), 1e-300)
    tail = labels.cumsum() / labels.sum()
    pure = np.flatnonzero((purity >= PURITY) & (tail >= LEAST))
    at = int(pure[-1]) if len(pure) else int(np.searchsorted(tail, LEAST))
    pooled = float(total.cumsum()[at] / total.sum() * purity[at] / tail[at])
    least = float(labels.sum() / total.sum())
    kept = min(1.0, max(least, pooled))
    return _Point(kept, float(purity[at]), kept != pooled)


def _sigmoid(t: FloatArray) -> FloatArray:
    return 1 / (1 + np.exp(-np.clip(t, -50, 50)))


def _curve(table: FloatArray, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean negative log likelihood of ``P(labeled | x) = r sigmoid(a x + b)``, its gradient and its information.

    For tables (..., B, 3) and theta (..., 3), which holds the log-odds of r, a and b.
    """
    x, labels, rest = (table[..., i] for i in range(3))
    r = _sigmoid(theta[..., :1])
    g = _sigmoid(theta[..., 1:2] * x + theta[..., 2:])
    q = np.clip(r * g, 1e-12, 1 - 1e-12)
    total = labels + rest
    n = total.sum(axis=-1)
    loss = -(labels * np.log(q) + rest * np.log1p(-q)).sum(axis=-1) / n
    inner = r * g * (1 - g)
    J = np.stack([g * r * (1 - r), inner * x, inner], axis=-1)  # (..., B, 3)
    gradient = -((labels / q - rest / (1 - q))[..., None] * J).sum(axis=-2) / n[..., None]
    weighted = J * (total / (q * (1 - q)))[..., None]
    return loss, gradient, np.swapaxes(weighted, -1, -2) @ J / n[..., None, None]


LOW, HIGH = np.array([-10.0, 0.01, -40.0]), np.array([7.0, 50.0, 40.0])  # of the log-odds of r, a and b


def _fit_curve(table: FloatArray) -> FloatArray:
    """The curve of maximum likelihood, or a step below the labeled examples where that is as likely but for chance.

    Scores that separate the classes well leave open whether the positives are labeled at the rate r and all of them
    sure, or at a greater rate and none of them sure: within two units of the log likelihood (as AIC), they are sure.
    """
    from scipy.optimize import minimize

    x, labels = table[:, 0], table[:, 1]  # from the highest score down
    share = labels.sum() / table[:, 1:].sum()
    starts = [np.array([math.log(c / (1 - c)), 2.0, 0.0]) for c in (min(0.95, share * 1.5), min(0.97, share * 4))]
    bounds = list(zip(LOW, HIGH, strict=True))
    fits = [
        minimize(lambda t: _curve(table, t)[:2], t, jac=True, method="L-BFGS-B", bounds=bounds, tol=1e-12)
        for t in starts
    ]
    best = min(fits, key=lambda f: float(f.fun))
    last = int(np.searchsorted(labels.cumsum(), 0.98 * labels.sum()))
    above = min(0.99, labels[: last + 1].sum() / table[: last + 1, 1:].sum())
    step = np.clip([math.log(above / (1 - above)), 20.0, -20.0 * (x[last] - 0.3)], LOW, HIGH)
    sure = float(_curve(table, step)[0]) <= best.fun + 2 / table[:, 1:].sum()
    return np.asarray(step if sure and step[0] < best.x[0] else best.x)


def _fit_curves(tables: FloatArray, start: FloatArray) -> FloatArray:
    """The curves (S, 3) of many tables at once: Fisher scoring with a damping that each finds for itself."""
    theta = np.tile(start, (len(tables), 1))
    damping = np.full(len(tables), 1e-3)
    loss, gradient, information = _curve(tables, theta)
    for _ in range(60):
        scale = np.einsum("sii->si", information) + 1e-12
        damped = information + damping[:, None, None] * scale[:, :, None] * np.eye(3)
        new = np.clip(theta - np.linalg.solve(damped, gradient[..., None])[..., 0], LOW, HIGH)
        after = _curve(tables, new)
        better = after[0] <= loss
        moved = np.abs(new - theta).max(axis=1)
        theta = np.where(better[:, None], new, theta)
        loss = np.where(better, after[0], loss)
        gradient = np.where(better[:, None], after[1], gradient)
        information = np.where(better[:, None, None], after[2], information)
        damping = np.clip(np.where(better, damping / 5, damping * 10), 1e-9, 1e9)
        if (moved < 1e-6).all():
            break
    return theta


def _upper_bound(table: FloatArray) -> float:
    """The smallest ratio of the tails, moved apart by DKW with 2.5% each: an upper bound of the pooled prior."""
    _, labels, rest = table.T
    total = labels + rest
    above = total.cumsum() / total.sum() + math.sqrt(math.log(1 / 0.025) / (2 * total.sum()))
    below = labels.cumsum() / labels.sum() - math.sqrt(math.log(1 / 0.025) / (2 * labels.sum()))
    return float(np.min(np.where(below > 0, above / np.where(below > 0, below, 1.0), np.inf)))


def _score(name: str, value: float, draws: FloatArray, n: int) -> Score:
    """An interval on the log-odds scale from the bootstrap's spread."""
    stderr = float(draws.std(ddof=1))
    inside = min(max(value, 1e-6), 1 - 1e-6)
    width = Z95 * stderr / (inside * (1 - inside))
    low, high = _sigmoid(math.log(inside / (1 - inside)) + width * np.array([-1.0, 1.0])).tolist()
    return Score(name, value, stderr, (low, high), n)


def _at_an_end(prior: Score, rate: Score, most: float, least: float) -> tuple[Score, Score]:
    """Prior and rate of an estimate at the end of what is possible: up to the `most` and `least` that need no curve."""
    return (
        replace(prior, interval=(min(prior.value, prior.interval[0]), max(prior.value, most))),
        replace(rate, interval=(min(rate.value, least), max(rate.value, rate.interval[1]))),
    )


def _notes(point: _Point, prior: Score, bound: float, sampling: Sampling, share: float) -> list[str]:
    notes = ["Assumes that labels are a random sample of the positives, whatever their features (SCAR)"]
    if point.purity >= PURITY:
        notes.append(
            "Assumes a region where nearly all examples are positive: by the fitted curve, "
            f"{point.purity:.0%} of those with the highest scores are"
        )
    else:
        notes.append(
            f"No group of examples is nearly all positive (the purest are {point.purity:.0%}, by the fitted curve): "
            "the estimate rests on P(labeled | score) being a scaled sigmoid; without that only the upper bound "
            f"{bound:.3g} holds"
        )
    if sampling == "two samples":
        pooled = share + (1 - share) * prior.value
        notes.append(
            "prior is that of the unlabeled sample; rate and transition, and probabilities trained with it, belong to "
            f"the two samples pooled, of which {pooled:.3g} are positive"
        )
    if point.bounded:
        notes.append(
            "The estimate lies at the limit of what is possible: labels or scores break an assumption; if 1 stands "
            "for unlabeled in these labels, pass labels == 0"
        )
    if prior.interval[1] - prior.interval[0] > 0.5:
        notes.append("The interval is wider than .5: these scores hardly tell labeled from unlabeled examples")
    return notes
