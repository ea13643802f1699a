"""Is one model better than another? From weak labels alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import stdtr
from torch import Tensor

from .._core import Labels, checks
from ..errors import InputError
from ..transitions import Reconstruction, Transition
from . import united
from .checked import Result
from .inputs import width_of
from .sample import Sample, read_sample
from .score import Score, says_nothing, within
from .statistics import Beside, Estimate, Values
from .values import brier_losses, halfway, infinite_rows, log_losses, one_hot

EITHER = 0.8  # of the rows in which two predictions differ, one of the two is right, at least
ScoreName = Literal["accuracy", "log_loss", "brier"]


@dataclass(frozen=True)
class PairedTest(Score):
    """Score of model a minus score of model b on the same examples: a `Score`, whose value is the difference.

    `paired_test` makes it. With an estimated T the interval and the p-value include T's own error.

    Attributes
    ----------
    value, stderr, interval
        The difference, its standard error and its 95% interval.
    p_value : float
        Two-sided, of the hypothesis that both are equally good.
    better : "a", "b" or None
        Which one is better; None where the interval holds 0.

    Examples
    --------
    >>> import tproper as tp
    >>> labels = [0, 1] * 50
    >>> test = tp.paired_test(labels, labels, [0] * 100, tp.symmetric_noise(2, 0.1), score="accuracy")
    >>> test.better, test.p_value < 0.001
    ('a', True)
    """

    p_value: float = 1.0  # two-sided, of the hypothesis that both are equally good
    better: Literal["a", "b"] | None = None  # None: the interval holds 0

    @property
    def score(self) -> str:
        """Which score is compared."""
        return self.name

    @property
    def difference(self) -> float:
        """The value."""
        return self.value

    def noted(self, note: str) -> PairedTest:
        """The test with one more note; where it says nothing for it, it decides nothing either."""
        out = super().noted(note)
        return out if out.informative else replace(out, p_value=1.0, better=None)

    def __str__(self) -> str:
        low, high = self.interval
        verdict = f"{self.better} is better" if self.better else "no difference shown"
        return (
            f"{self.name} of a minus b: {self.shown:.4g} (95% interval {low:.4g} to {high:.4g}, "
            f"p = {self.p_value:.3g}, n = {self.n}{self.share_text}): {verdict}"
            + (f"; {self.note}" if self.note else "")
        )


def paired_test(
    labels: Labels,
    a: ArrayLike | Tensor,
    b: ArrayLike | Tensor,
    transition: Transition | str | None,
    score: ScoreName = "log_loss",
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    true: ArrayLike | None = None,
) -> PairedTest:
    """Is model a better than model b? From their predictions for the same examples and weak labels alone.

    The difference of the scores is estimated example by example, ``<r_i, s_i^a - s_i^b>``: what the two models
    share, above all the noise of the labels they agree on, drops out. The p-value and the interval belong
    together: p < 0.05 exactly where the interval does not hold 0.

    Parameters
    ----------
    labels : weak labels as the transition takes them
        One for each example.
    a, b : (n, K) class probabilities
        For ``score="accuracy"`` predicted classes (n,) will do.
    transition : Transition, text or None
        T; None where `true` is given.
    score : "log_loss", "brier" or "accuracy"
        Lower is better for the first two, higher for the last.
    reconstruction, prior, sample_weight, groups
        As for `weak_accuracy`.
    true : (n,) classes, -1 or None where unknown, optional
        Rows that somebody has checked: their scores, made precise by all labels, decide, whatever T is (it may be
        None). Accuracies differ only where predictions do, which is known of all rows.

    Returns
    -------
    PairedTest
        `value` (a minus b), `interval`, `p_value` and `better`.

    Examples
    --------
    >>> import tproper as tp
    >>> labels = [0, 1] * 50
    >>> good, bad = [[0.8, 0.2], [0.2, 0.8]] * 50, [[0.6, 0.4]] * 100
    >>> tp.paired_test(labels, good, bad, tp.symmetric_noise(2, 0.1)).better
    'a'
    """
    checks.choice(score, "score", ("accuracy", "log_loss", "brier"))
    if true is not None or transition is None:
        K = width_of(a, "a") or width_of(b, "b")
        rows = united.Rows.read(labels, true, transition, sample_weight, groups, K)
        found, said = united.difference(rows, score, a, b)
        return _verdict(found, score, len(rows.true), rows.K).noted(said)
    sample = read_sample(
        labels, transition, width_of(a, "a") or width_of(b, "b"), reconstruction=reconstruction, prior=prior,
        sample_weight=sample_weight, groups=groups,
    )  # fmt: skip
    (values_a, posterior_a), (values_b, posterior_b) = (
        _one_model(sample, score, given, name) for name, given in (("a", a), ("b", b))
    )
    result = sample.estimate(
        lambda i: values_a(i) - values_b(i), lambda i: (posterior_a(i) + posterior_b(i)) / 2, few_decide=True,
        beside=_few_differ(sample, values_a, values_b) if score == "accuracy" else None,
    )  # fmt: skip
    return _verdict(result, score, sample.n, sample.K).noted(sample.caution)


def _few_differ(sample: Sample, values_a: Values, values_b: Values) -> Beside:
    """What is known of a difference of accuracies before any label is seen, and what a few rows may hide.

    Only rows count in which the predictions differ. Were the models equally good, each would be right as often as the
    other there (`EITHER` of the time one of them is): their labels scatter at least as that entails, although none of
    the rare labels may be among those that were drawn. And there may be one more row, so far unseen, in which the one
    is right and the other wrong, either way round (Bonett and Price, 2012): no sample says that there is none. With
    groups it is one more group, in as many of whose rows predictions differ as in the others where they do, and in all
    of them if there is no other.
    """

    def difference(i: Tensor) -> Tensor:
        return values_a(i) - values_b(i)

    def even(i: Tensor) -> Tensor:
        return EITHER * (values_a(i) + values_b(i)) / 2 + (1 - EITHER) / sample.K

    entailed = sample.weigher.scatter(difference, even, sample.labels, sample.shares)
    return Beside(entailed=entailed, one_more=2.0 * _share_that_differs(sample, difference))


def _share_that_differs(sample: Sample, difference: Values) -> float:
    """The mean square, over the groups in which predictions differ and one more, of the share of rows where they do;
    1 where rows are their own groups."""
    if sample.groups is None:
        return 1.0
    differs = torch.cat([(difference(i) != 0).any(-1) for i in sample.weigher.blocks(sample.n)]).numpy()
    whole, part = (np.bincount(sample.groups, weights=sample.shares * x) for x in (np.ones(sample.n), differs))
    shares = part[part > 0] / whole[part > 0]
    return float((1.0 + (shares**2).sum()) / (1.0 + len(shares)))


def _one_model(sample: Sample, score: str, given: ArrayLike | Tensor, name: str) -> tuple[Values, Values]:
    """Class-wise scores of one model, and class probabilities to go with them."""
    if score == "accuracy" and checks.array(given, name).ndim == 1:
        hit = one_hot(sample.predictions(given, name), sample.K)
        return hit, halfway(hit)
    q = sample.probabilities(given, name)
    if score == "log_loss" and (count := infinite_rows(sample.weigher, q, sample.labels)):
        raise InputError(
            f"{name}: expected probabilities > 0 for the log loss, got 0 for a class that the weak label cannot "
            f"rule out in {count} of {sample.n} examples; use score='brier'"
        )
    if score == "log_loss":
        return log_losses(q), lambda i: q[i]
    return (brier_losses(q) if score == "brier" else one_hot(q.argmax(-1), sample.K)), lambda i: q[i]


def _verdict(result: Estimate | Result, score: ScoreName, n: int, K: int) -> PairedTest:
    limits = {"accuracy": (-1.0, 1.0), "brier": (-2.0, 2.0), "log_loss": (-math.inf, math.inf)}[score]
    stderr, (low, high), from_T, share, why = within(result, limits)
    p_value = 1.0
    better: Literal["a", "b"] | None = None
    if not why:
        p_value = float(2 * stdtr(float(result.freedom), -abs(float(result.statistic()))))
        guess = {"accuracy": 1 - 1 / K, "log_loss": math.log(K), "brier": 1 - 1 / K}[score]
        if low > 0 or high < 0:
            better = "a" if (low > 0) == (score == "accuracy") else "b"
        elif high - low > guess:
            why = "too few weak labels: the interval is wider than from a perfect model to a guess"
    facts = (score.replace("_", " "), float(result.mean), stderr, (low, high), n, True, "", limits, from_T, share)
    test = PairedTest(*facts, p_value, better)
    return says_nothing(test, why) if why else test
