"""Annotators with features: the class prior of an item becomes a classifier's p(x), and both are fitted together.

    maximise  sum_i log sum_z p_z(x_i) prod over answers (a, y) to i of T_a[y, z]

by turns: softmax regression given every T (its loss is the line above), then EM for the T given p(x). The p of an item
comes from a model that has not seen the item, because an overfitted one would explain away the annotators' errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._core import FloatArray, fold_numbers, standardised
from ..solvers import best_log_scale, cross_fit, evidence_loss, splits_of
from .alone import one_thread
from .dawid_skene import Crowd, Fit, advance
from .folds import Regressions
from .softmax import AXES, Design, LinearSoftmax, likelihoods_of, softmax

FOLDS = 5
ROUNDS = 12
PENALTIES = (1e-3, 1e-2, 1e-1)  # of the regression, for features of unit variance; chosen on held-out items
FIRST, LATER, LAST = 60, 25, 200  # iterations of the solver
EM_ROUNDS = 5
SETTLED = 2e-3  # mean change of the posteriors in a round
CHOICES = (0, 3)  # rounds in which the penalty is chosen: at first, and when T has come right
HEATS = (math.log(0.1), math.log(30.0))  # logarithms of the least and the largest factor of scores
LEAST = 1e-9  # of p(x): no answer can be outvoted by features alone


class Standardised:
    """Features of unit variance; a sparse matrix keeps its zeros and the units of its columns among each other."""

    def __init__(self, X: Any) -> None:
        d = X.shape[1]
        if issparse(X):
            total = float(X.multiply(X).sum()) / X.shape[0]
            self.mean, self.scale = np.zeros(d), np.full(d, np.sqrt(total / min(d, AXES)) or 1.0)
            self.design = Design((X / self.scale[0]).tocsr())
            return
        Z, self.mean, self.scale = standardised(X)
        self.design = Design(Z)

    def model(self, W: FloatArray, crowd: Crowd) -> LinearSoftmax:
        """W as coefficients of X itself."""
        model, given = self.design.model(W), crowd.answers.classes
        coef = model.coef_ / self.scale
        names = given if len(given) == crowd.num_classes else None
        return LinearSoftmax(coef, model.intercept_ - coef @ self.mean, names)


def fit_with_features(
    crowd: Crowd,
    fit: Fit,
    X: Any,
    rng: np.random.Generator,
    groups: NDArray[np.int64] | None = None,
    progress: Callable[[float], None] | None = None,
) -> tuple[FloatArray, LinearSoftmax]:
    """Log p(x) of each item, cross-fitted (n, K), and the classifier of all items; updates `fit`."""
    with one_thread(X.shape[0] * min(X.shape[1], AXES) * crowd.num_classes):
        return _by_turns(crowd, fit, X, rng, groups, progress or (lambda share: None))


def _by_turns(
    crowd: Crowd,
    fit: Fit,
    X: Any,
    rng: np.random.Generator,
    groups: NDArray[np.int64] | None,
    progress: Callable[[float], None],
) -> tuple[FloatArray, LinearSoftmax]:
    """The two in turn, until the posteriors stand still."""
    made = Standardised(X)
    design = made.design
    fold = fold_numbers(crowd.n, FOLDS, rng, groups)
    for r in range(ROUNDS):
        progress(r / ROUNDS)
        t = likelihoods(crowd, fit)
        if r in CHOICES:
            folds, l2 = choose_penalty(t, design, fold)
        scores = folds.scores(t, l2, 1 if r in CHOICES else LATER)
        heat = best_heat(scores, t)[0]
        log_prior = np.log(np.maximum(softmax(heat * scores).T, LEAST))
        before, fit.log_likelihood = fit.P, -np.inf
        advance(fit, EM_ROUNDS, log_prior)
        if r > max(CHOICES) and float(np.abs(fit.P - before).sum(axis=1).mean()) < SETTLED:
            break
    model = made.model(heat * folds.final(likelihoods(crowd, fit), l2, LAST), crowd)
    progress(1.0)
    return log_prior, model


def taught(
    crowd: Crowd, P: FloatArray, X: Any, rng: np.random.Generator, groups: NDArray[np.int64] | None = None
) -> LinearSoftmax:
    """A classifier of the items that have answers, which are told by their posteriors P; these stay as they are.

    Rules are made from the same features. A classifier that explains them foretells their errors too: taken for
    evidence of its own, it would confirm whatever they say.
    """
    some = np.flatnonzero((crowd.degree > 0) | (crowd.known >= 0))
    with one_thread(X.shape[0] * min(X.shape[1], AXES) * crowd.num_classes):
        return _taught(
            crowd, X[some], P[some].T.astype(np.float64).copy(), rng, None if groups is None else groups[some]
        )


def _taught(
    crowd: Crowd, X: Any, t: FloatArray, rng: np.random.Generator, groups: NDArray[np.int64] | None
) -> LinearSoftmax:
    """The classifier of rows with the probabilities t (K, n), by the penalty that predicts held-out ones best."""
    made = Standardised(X)
    design = made.design
    splits = splits_of(fold_numbers(X.shape[0], FOLDS, rng, groups))

    def loss(l2: float) -> float:
        def foretold(_: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> FloatArray:
            W = design.fit(t[:, train], design.start(len(t)), FIRST, train, l2, targets=True)
            return softmax(design.scores(W, test))

        p = cross_fit(foretold, splits, t.shape[1], axis=-1)
        return -float((t * np.log(np.maximum(p, LEAST))).sum())

    l2 = min(PENALTIES, key=loss)
    return made.model(design.fit(t, design.start(len(t)), LAST, l2=l2, targets=True), crowd)


def likelihoods(crowd: Crowd, fit: Fit) -> FloatArray:
    """What is known of each item, as likelihoods of the classes (K, n), the largest 1."""
    out = np.exp(fit.evidence - fit.evidence.max(axis=1, keepdims=True)).astype(np.float64)
    out[crowd.fixed] = np.eye(crowd.num_classes)[crowd.known[crowd.fixed]]
    return out.T.copy()


def choose_penalty(t: FloatArray, design: Design, fold: NDArray[np.int64]) -> tuple[Regressions, float]:
    """Fitted folds, and the penalty, with the best held-out likelihood of the answers at their best temperature."""
    tried = [(Regressions(design, fold, len(t)), l2) for l2 in PENALTIES]
    return max(tried, key=lambda pair: best_heat(pair[0].scores(t, pair[1], FIRST), t)[1])


def best_heat(scores: FloatArray, t: FloatArray) -> tuple[float, float]:
    """The factor of held-out scores with the best likelihood ``sum_i log sum_z t_iz p_z``, and that likelihood.

    A penalty that classifies best makes probabilities too timid: the factor gives them their confidence back.
    """
    n = t.shape[1]
    risk = evidence_loss(likelihoods_of(t), n)
    heat = math.exp(best_log_scale(scores, risk, limits=HEATS, start=0.0))
    return heat, -n * risk(heat * scores)[0]
