"""Scores without clean labels: how good is a model, from weak labels and T alone.

Let ``s_i(z)`` be the score that example i gets if its class is z (is the prediction z; ``-log q_z``; ...). The target
``r_i = R e_{y_i}`` of its weak label has mean e_z given class z, so

    g_i = <r_i, s_i>          has mean s_i(z_i):

the mean of the g_i is an unbiased estimate of the mean score under the true classes, which nobody has seen. With
T = I it *is* the textbook score. It costs O(K) for an example. Each score comes with a standard error and a 95%
interval made for the heavy-tailed g of weak labels (`_scores`), and says so where it says nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import FloatArray, Labels, checks
from ..transitions import Reconstruction, Transition
from .statistics import (
    Estimate,
    Reweigher,
    Score,
    Values,
    as_array,
    estimate,
    heard,
    predictions_of,
    probabilities_of,
    setup,
)

ScoreName = Literal["accuracy", "log_loss", "brier"]


@dataclass(frozen=True)
class PairedTest:
    """Score of model a minus score of model b on the same examples."""

    score: str
    difference: float
    stderr: float
    interval: tuple[float, float]  # 95%
    p_value: float  # two-sided, of the hypothesis that both are equally good
    n: int
    better: Literal["a", "b"] | None  # None: the interval holds 0
    note: str = ""

    @property
    def value(self) -> float:
        """The difference, under the name that all scores have."""
        return self.difference

    def __float__(self) -> float:
        return self.difference

    def __str__(self) -> str:
        low, high = self.interval
        verdict = f"{self.better} is better" if self.better else "no difference shown"
        return (
            f"{self.score} of a minus b: {self.difference:.4g} (95% interval {low:.4g} to {high:.4g}, "
            f"p = {self.p_value:.3g}, n = {self.n}): {verdict}" + (f"; {self.note}" if self.note else "")
        )


# -- class-wise scores: example indices -> (m, K) ------------------------------------------------------------------


def one_hot(predictions: Tensor, K: int) -> Values:
    """1 at the predicted class: the accuracy of each class."""
    return lambda i: torch.nn.functional.one_hot(predictions[i], K).double()


def _log_losses(q: Tensor) -> Values:
    # a zero is left out here and accounted for by `_infinite_rows`
    return lambda i: torch.where(q[i] > 0, -q[i].log(), 0.0)


def _brier_losses(q: Tensor) -> Values:
    return lambda i: (q[i] ** 2).sum(-1, keepdim=True) - 2 * q[i] + 1


def _infinite_rows(weigher: Reweigher, q: Tensor, labels: Tensor, weights: FloatArray | None = None) -> int:
    """Examples in which a class of probability 0 has a target other than 0: their log loss is not finite."""
    zero = (q == 0).any(-1)
    rows = (zero if weights is None else zero & torch.as_tensor(weights > 0)).nonzero()[:, 0]
    count = 0
    for part in rows.split(max(1, (1 << 22) // q.shape[1])):
        count += int(((q[part] == 0) & (weigher.targets(labels[part]).abs() > checks.SIMPLEX_TOL)).any(-1).sum())
    return count


# -- scores --------------------------------------------------------------------------------------------------------


def score_of(name: str, found: Estimate, n: int, worst: float, best: float, guess: float) -> Score:
    """Wrap an estimate; `worst` and `best` bound the score, `guess` is what knowing nothing would give."""
    value, stderr = float(found.mean), float(found.stderr)
    least, most = min(worst, best), max(worst, best)
    if n < 2 or not math.isfinite(stderr):
        return Score(name, value, math.nan, (least, most), n, False, "one example has no standard error")
    low, high = (float(x) for x in found.interval())
    if high < least or low > most:
        note = (
            f"the whole interval lies outside the possible values {least:g} to {most:g}: "
            "these labels did not come from this transition"
        )
        return Score(name, value, stderr, (low, high), n, False, note)
    low, high = max(low, least), min(high, most)
    wide = math.isfinite(least) and math.isfinite(most) and high - low > (most - least) / 2
    if wide or (low <= min(guess, best) and high >= max(guess, best)):
        note = (
            "too few weak labels to say anything: the interval reaches from a perfect model to one that guesses"
            if not wide
            else "too few weak labels to say anything: the interval is wider than half of what is possible"
        )
        return Score(name, value, stderr, (low, high), n, False, note)
    return Score(name, value, stderr, (low, high), n)


def weak_accuracy(
    labels: Labels,
    predictions: ArrayLike | Tensor,
    transition: Transition,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Score:
    """Accuracy from weak labels: the mean of ``r_i[prediction_i]``.

    The value is unbiased, hence may pass 1 by chance; the interval does not. With clean labels (``tp.identity(K)``)
    it is the accuracy, and the interval is Wilson's.

    Parameters
    ----------
    labels : weak labels as the transition takes them (indices, candidate masks or sets, (source, label) pairs)
    predictions : (n,) predicted classes
    transition : Transition
    reconstruction, prior : how to choose R; see `Transition.reconstruction`
    sample_weight : (n,) array, optional
    """
    weigher, y = setup(labels, transition, reconstruction, prior)
    K, n = transition.num_classes, len(y)
    hit = one_hot(predictions_of(predictions, K, n), K)
    # which posterior goes with bare predictions matters little: it only says how variance goes with accuracy
    found = estimate(weigher, hit, lambda i: (hit(i) + 1.0 / K) / 2, y, heard(sample_weight, weigher, y), student=False)
    return score_of("accuracy", found, n, 0.0, 1.0, 1.0 / K)


def weak_log_loss(
    labels: Labels,
    probabilities: ArrayLike | Tensor,
    transition: Transition,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Score:
    """Log loss (natural logarithm) from weak labels: the mean of ``<r_i, -log q_i>``.

    Nothing is clipped: where a class has probability 0 and the weak label does not fix its target at 0, the
    estimate is infinite, and the note says so.
    """
    weigher, y = setup(labels, transition, reconstruction, prior)
    K, n = transition.num_classes, len(y)
    q = probabilities_of(probabilities, K, n)
    w = heard(sample_weight, weigher, y)
    infinite = _infinite_rows(weigher, q, y, w)
    if infinite:
        note = (
            f"{infinite} of {n} examples give probability 0 to a class that the weak label cannot rule out: "
            "no finite estimate of the log loss exists; use weak_brier, or a model that never says 0"
        )
        return Score("log loss", math.inf, math.nan, (0.0, math.inf), n, False, note)
    found = estimate(weigher, _log_losses(q), lambda i: q[i], y, w)
    return score_of("log loss", found, n, math.inf, 0.0, math.log(K))


def weak_brier(
    labels: Labels,
    probabilities: ArrayLike | Tensor,
    transition: Transition,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Score:
    """Brier score ``||q - e_z||^2`` (0 to 2) from weak labels.

    For two classes this is twice the binary convention ``(q_1 - z)^2``.
    """
    weigher, y = setup(labels, transition, reconstruction, prior)
    K, n = transition.num_classes, len(y)
    q = probabilities_of(probabilities, K, n)
    found = estimate(weigher, _brier_losses(q), lambda i: q[i], y, heard(sample_weight, weigher, y))
    return score_of("Brier score", found, n, 2.0, 0.0, (K - 1) / K)


def weak_balanced_accuracy(
    labels: Labels,
    predictions: ArrayLike | Tensor,
    transition: Transition,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Score:
    """The mean over classes of the share of the class that is predicted right: ``1/K sum_z N_z / D_z``.

    ``N_z`` = P(class z, predicted z) and ``D_z`` = P(class z) are means of ``r_i[z] 1[prediction_i = z]`` and
    ``r_i[z]``. If the class proportions are known, pass them as `prior`: they take the place of D, and the estimate
    is unbiased and far less noisy. Otherwise it is a ratio: nearly unbiased (`ClassShares`), with the standard error of
    the delta method. A class whose share cannot be told from 0 makes it
    uninformative; a class that certainly does not occur is left out, as scikit-learn does.
    """
    weigher, y = setup(labels, transition, reconstruction, prior)
    K, n = transition.num_classes, len(y)
    predicted = predictions_of(predictions, K, n)
    w = heard(sample_weight, weigher, y)
    hit = one_hot(predicted, K)
    if prior is not None:
        scale = torch.as_tensor(1.0 / (K * checks.probability_vector(prior, "prior", K)))
        found = estimate(weigher, lambda i: hit(i) * scale, lambda i: (hit(i) + 1.0 / K) / 2, y, w, student=False)
        return score_of("balanced accuracy", found, n, 0.0, 1.0, 1.0 / K)
    shares = ClassShares(weigher, y, predicted, w)
    present = shares.D != 0
    if not bool((shares.D[present] > 0).all()):
        z = int(((shares.D <= 0) & present).nonzero()[0])
        note = f"the share of class {z} is estimated as {float(shares.D[z]):.3g}: too few weak labels for a ratio"
        return Score("balanced accuracy", math.nan, math.nan, (0.0, 1.0), n, False, note)
    influence = shares.influence(hit)
    found = estimate(weigher, influence, lambda i: (hit(i) + 1.0 / K) / 2, y, w, student=False)
    found.mean = np.asarray(shares.value())
    score = score_of("balanced accuracy", found, n, 0.0, 1.0, 1.0 / int(present.sum()))
    weak = (shares.D_stderr * 3 > shares.D) & present
    if bool(weak.any()) and score.informative:
        z = int(weak.nonzero()[0])
        note = (
            f"the share of class {z} is {float(shares.D[z]):.3g}, standard error {float(shares.D_stderr[z]):.2g}: "
            "too few weak labels for a ratio; pass the class proportions as prior if they are known"
        )
        return Score(score.name, score.value, score.stderr, score.interval, n, False, note)
    if not bool(present.all()):
        absent = ", ".join(map(str, (~present).nonzero()[:, 0].tolist()))
        return Score(score.name, score.value, score.stderr, score.interval, n, score.informative,
                     score.note or f"left out, since they do not occur: classes {absent}")  # fmt: skip
    return score


class ClassShares:
    """``D_z`` and the recalls ``N_z / D_z``, one per class.

    The mean of a ratio is not the ratio of the means. Beale's estimator ``(N D + Cov(N, D)) / (D^2 + Var D)`` of N / D
    has a bias of order 1/n^2 and stays bounded where D comes close to 0. With clean labels it is N / D itself.
    """

    def __init__(self, weigher: Reweigher, labels: Tensor, predicted: Tensor, weights: FloatArray | None) -> None:
        K, n = weigher.transition.num_classes, len(labels)
        a = (
            torch.full((n,), 1.0 / n, dtype=torch.float64)
            if weights is None
            else torch.as_tensor(weights / weights.sum())
        )
        D, N, D1, N1, D2, N2 = (torch.zeros(K, dtype=torch.float64) for _ in range(6))
        for i in weigher.blocks(n):
            r = weigher.targets(labels[i])
            own = r.gather(1, predicted[i, None])[:, 0]  # r of the predicted class
            D += a[i] @ r
            D1 += a[i] ** 2 @ r
            D2 += a[i] ** 2 @ r**2
            N.index_add_(0, predicted[i], a[i] * own)
            N1.index_add_(0, predicted[i], a[i] ** 2 * own)
            N2.index_add_(0, predicted[i], a[i] ** 2 * own**2)
        spread = float((a**2).sum())
        variance = (D2 - 2 * D * D1 + spread * D**2).clamp_min(0)
        covariance = N2 - D * N1 - N * D1 + spread * N * D
        self.D, self.D_stderr = D, variance.sqrt()
        self.present = D > 0
        self._safe = torch.where(self.present, D, 1.0)
        self.recall = (N * D + covariance) / torch.where(self.present, D**2 + variance, 1.0)

    def value(self) -> float:
        """Mean of the recalls over the classes that occur."""
        return float(self.recall[self.present].mean())

    def influence(self, hit: Values) -> Values:
        """Class-wise scores whose mean under the targets is 0 and whose spread is that of the ratio."""
        scale = torch.where(self.present, 1.0 / (self._safe * self.present.sum()), 0.0)
        return lambda i: (hit(i) - self.recall) * scale


# -- two models ----------------------------------------------------------------------------------------------------


def paired_test(
    labels: Labels,
    a: ArrayLike | Tensor,
    b: ArrayLike | Tensor,
    transition: Transition,
    score: ScoreName = "log_loss",
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> PairedTest:
    """Is model a better than model b? From their predictions for the same examples and weak labels alone.

    The difference of the scores is estimated example by example, ``<r_i, s_i^a - s_i^b>``: what the two models
    share, above all the noise of the labels they agree on, drops out. The p-value and the interval belong
    together: p < 0.05 exactly where the interval does not hold 0.

    Parameters
    ----------
    a, b : (n, K) class probabilities; for ``score="accuracy"`` predicted classes (n,) will do
    score : "log_loss" and "brier" (lower is better), "accuracy" (higher is better)
    """
    if score not in ("accuracy", "log_loss", "brier"):
        raise ValueError(f"score: expected 'accuracy', 'log_loss' or 'brier', got {score!r}")
    weigher, y = setup(labels, transition, reconstruction, prior)
    K, n = transition.num_classes, len(y)
    w = heard(sample_weight, weigher, y)
    values: list[Values] = []
    posteriors: list[Values] = []
    for name, given in (("a", a), ("b", b)):
        if score == "accuracy" and as_array(given, name).ndim == 1:
            hit = one_hot(predictions_of(given, K, n, name), K)
            values.append(hit)
            posteriors.append(lambda i, hit=hit: (hit(i) + 1.0 / K) / 2)  # type: ignore[misc]
            continue
        q = probabilities_of(given, K, n, name)
        if score == "log_loss" and (count := _infinite_rows(weigher, q, y, w)):
            raise ValueError(
                f"{name}: expected probabilities > 0 for the log loss, got 0 for a class that the weak label cannot "
                f"rule out in {count} of {n} examples; use score='brier'"
            )
        kinds = {"log_loss": _log_losses(q), "brier": _brier_losses(q), "accuracy": one_hot(q.argmax(-1), K)}
        values.append(kinds[score])
        posteriors.append(lambda i, q=q: q[i])  # type: ignore[misc]
    found = estimate(
        weigher,
        lambda i: values[0](i) - values[1](i),
        lambda i: (posteriors[0](i) + posteriors[1](i)) / 2,
        y,
        w,
        student=score != "accuracy",
    )
    name = score.replace("_", " ")
    difference, stderr = float(found.mean), float(found.stderr)
    if n < 2:
        note = "one example has no standard error"
        return PairedTest(name, difference, math.nan, (-math.inf, math.inf), 1.0, n, None, note)
    low, high = (float(x) for x in found.interval())
    better: Literal["a", "b"] | None = None
    if low > 0 or high < 0:
        better = "a" if (low > 0) == (score == "accuracy") else "b"
    guess = {"accuracy": 1 - 1 / K, "log_loss": math.log(K), "brier": 1 - 1 / K}[score]
    note = (
        "too few weak labels: the interval is wider than from a perfect model to a guess" if high - low > guess else ""
    )
    return PairedTest(name, difference, stderr, (low, high), _p_value(found, score != "accuracy"), n, better, note)


def _p_value(found: Estimate, student: bool) -> float:
    from scipy.stats import norm, t  # slow to import, needed here only

    size = abs(float(found.statistic()))
    return float(2 * (t.sf(size, float(1 / found.spread) - 1) if student else norm.sf(size)))


# -- model selection -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeakScorer:
    """What `weak_scorer` returns: ``scorer(estimator, X, weak_labels)``, higher is better."""

    name: str
    transition: Transition
    reconstruction: str | Reconstruction = "auto"
    prior: ArrayLike | None = None

    def __call__(self, estimator: Any, X: Any, y: Labels, sample_weight: ArrayLike | None = None) -> float:
        """The score of a fitted estimator's predictions for X against weak labels."""
        sign, score = _SCORERS[self.name]
        probabilities = score in (weak_log_loss, weak_brier)
        given = self._probabilities(estimator, X) if probabilities else self._classes(estimator, X)
        found = score(
            y,
            given,
            self.transition,
            reconstruction=self.reconstruction,
            prior=self.prior,
            sample_weight=sample_weight,
        )
        return sign * found.value

    def _columns(self, estimator: Any) -> np.ndarray | None:
        """The class index of each of the estimator's classes, where they are indices; None where they are names."""
        classes = np.asarray(getattr(estimator, "classes_", np.arange(self.transition.num_classes)))
        K = self.transition.num_classes
        if classes.dtype.kind in "iu" and classes.min() >= 0 and classes.max() < K:
            return classes
        if len(classes) == K:
            return None
        raise ValueError(
            f"estimator: expected one whose classes are the {K} true classes, got classes {classes.tolist()[:12]}; "
            "an estimator that learned weak labels as if they were classes has no score"
        )

    def _probabilities(self, estimator: Any, X: Any) -> np.ndarray:
        found = np.asarray(estimator.predict_proba(X))
        columns = self._columns(estimator)
        if columns is None or len(columns) == self.transition.num_classes:
            return found
        wide = np.zeros((len(found), self.transition.num_classes), dtype=found.dtype)
        wide[:, columns] = found
        return wide

    def _classes(self, estimator: Any, X: Any) -> np.ndarray:
        found = np.asarray(estimator.predict(X))
        if self._columns(estimator) is not None:
            return found
        order = np.argsort(estimator.classes_)
        return order[np.searchsorted(np.asarray(estimator.classes_)[order], found)]


_SCORERS = {
    "accuracy": (1, weak_accuracy),
    "balanced_accuracy": (1, weak_balanced_accuracy),
    "log_loss": (-1, weak_log_loss),
    "neg_log_loss": (-1, weak_log_loss),
    "brier": (-1, weak_brier),
    "neg_brier": (-1, weak_brier),
}


def weak_scorer(
    name: str,
    transition: Transition,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
) -> WeakScorer:
    """A scorer for scikit-learn's ``scoring=``: model selection by cross-validation on weak labels.

    ``GridSearchCV(model, grid, scoring=tp.weak_scorer("log_loss", T)).fit(X, weak_labels)``. Higher is
    better, so that losses are negated. Probabilities come from ``predict_proba``, whose columns
    must be the true classes in order.

    Parameters
    ----------
    name : "accuracy", "balanced_accuracy", "log_loss" or "brier" ("neg_log_loss" and "neg_brier" mean the same)
    """
    if name not in _SCORERS:
        raise ValueError(f"name: expected one of {', '.join(_SCORERS)}, got {name!r}")
    if not isinstance(transition, Transition):
        raise ValueError(f"transition: expected a tproper.Transition, got {type(transition).__name__}")
    return WeakScorer(name, transition, reconstruction, prior)
