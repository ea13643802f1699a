"""Scores without clean labels: how good is a model, from weak labels and T alone.

Let ``s_i(z)`` be the score that example i gets if its class is z (is the prediction z; ``-log q_z``; ...). The target
``r_i = R e_{y_i}`` of its weak label has mean e_z given class z, so

    g_i = <r_i, s_i>          has mean s_i(z_i):

the mean of the g_i is an unbiased estimate of the mean score under the true classes, which nobody has seen. With
T = I it *is* the textbook score. It costs O(K) for an example. Each score comes with a standard error and a 95%
interval made for the heavy-tailed g of weak labels (`statistics`), which an estimated T widens by its own error
(`uncertainty`), and says so where it says nothing, as of predictions made from the answers themselves (`own_answers`).
A row of weight 0 counts as if it had not been passed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import Labels, NotReconstructibleError, group_codes
from ..errors import InputError
from ..transitions import Reconstruction, SoftLabels, Transition, read_transition
from . import united
from .by_rules import accuracy_by_rules
from .inputs import ReadLabels, predictions_of, read_labels, weights_of, width_of
from .sample import Sample, read_sample
from .score import Score, says_nothing
from .statistics import Beside
from .values import brier_losses, halfway, infinite_rows, log_losses, one_hot


def weak_accuracy(
    labels: Labels,
    predictions: ArrayLike | Tensor,
    transition: Transition | str | None,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    true: ArrayLike | None = None,
) -> Score:
    """Accuracy from weak labels alone: the mean of ``r_i[prediction_i]``, with the target ``r_i = R e_{y_i}``.

    The value is unbiased, hence may pass 1 by chance; what is printed and the interval do not. With clean labels
    (``tp.identity(K)``) it is the accuracy, and the interval is Wilson's.

    Parameters
    ----------
    labels : weak labels as the transition takes them
        Indices, names, candidate masks or sets, (source, label) pairs.
    predictions : (n,) predicted classes
    transition : Transition, text or None
        T. An `EstimatedTransition` widens the interval by its own error. None where `true` is given.
    reconstruction : str or Reconstruction
        How to choose R; see `Transition.reconstruction`. Several scores by one estimated T take a fraction of the time
        if R is made once and given to each: they then share the draws of T.
    prior : (K,) array, optional
        Class shares for which R is to have the least variance.
    sample_weight : (n,) array, optional
        A row of weight 0 counts as if it had not been passed.
    groups : (n,) array, optional
        Rows of one group (of one person, document, item) are not independent: the standard error then comes from the
        sums of groups, and the degrees of freedom from their number.
    true : (n,) classes, -1 or None where unknown, optional
        Rows that somebody has checked: they and all labels are used together, and T is used where it is known alone.
        Assumes that rows were checked at random, or by their labels and the predictions alone: the score's note says
        what was found.

    Returns
    -------
    Score
        Its `value`, standard error `stderr` and 95% `interval`; prints as one line.

    Raises
    ------
    NotReconstructibleError
        T has no left inverse, so no score of classes follows from its labels.

    Examples
    --------
    >>> import tproper as tp
    >>> labels = [0] * 40 + [1] * 10 + [1] * 40 + [0] * 10  # a tenth of them wrong
    >>> predictions = [0] * 50 + [1] * 50  # 80 % of them agree with the labels
    >>> score = tp.weak_accuracy(labels, predictions, tp.symmetric_noise(2, 0.1))
    >>> round(score.value, 4), score.interval[0] < 0.875 < score.interval[1]
    (0.875, True)
    """
    if true is not None or transition is None:
        rows = united.Rows.read(labels, true, transition, sample_weight, groups)
        alone = lambda: weak_accuracy(labels, predictions, transition, groups=groups)  # noqa: E731
        return united.accuracy(rows, predictions, alone)
    transition = read_transition(transition)
    given: Any = {"reconstruction": reconstruction, "prior": prior, "sample_weight": sample_weight, "groups": groups}
    if transition.of_features and not isinstance(labels, SoftLabels):
        return _by_rules(read_labels(transition, labels), predictions, transition, given)
    return _unbiased_accuracy(read_sample(labels, transition, **given), predictions)


def _by_rules(
    read: ReadLabels, predictions: ArrayLike | Tensor, transition: Transition, given: Mapping[str, Any]
) -> Score:
    """Of sources that abstain: bounds, of which the upper one is that of the unbiased estimate where there is one."""
    y = read.labels
    w, codes = weights_of(given["sample_weight"], len(y)), group_codes(given["groups"], len(y))
    used = ~read.missing if w is None else ~read.missing & (w > 0)
    if not used.any():
        raise InputError(f"labels: expected at least one row with an answer, got none of {len(y)}")
    predicted = predictions_of(predictions, transition.num_classes, len(y), space=read.space)
    shares = np.full(len(y), 1.0) if w is None else w
    most = 1.0
    with suppress(NotReconstructibleError):  # too many rows of answers to list: no upper end but 1
        sample = replace(read_sample(read, transition, **given), caution="")  # which is heeded here
        most = _unbiased_accuracy(sample, predictions).interval[1]
    rows = torch.as_tensor(used)
    return accuracy_by_rules(
        transition, y[rows], predicted[rows], shares[used] / shares[used].sum(),
        None if codes is None else codes[used], most,
    )  # fmt: skip


def _unbiased_accuracy(sample: Sample, predictions: ArrayLike | Tensor) -> Score:
    """The mean of ``r_i[prediction_i]``."""
    predicted = sample.predictions(predictions)
    hit, weigher = one_hot(predicted, sample.K), sample.weigher
    least = None if weigher.soft else weigher.reconstruction.least_scatter()  # shares scatter less
    beside = None if least is None else Beside(scatter=least[predicted.numpy()])
    result = sample.estimate(hit, halfway(hit), student=False, few_decide=True, beside=beside)
    return sample.score("accuracy", result, (0.0, 1.0), 1.0 / sample.K, predicted)


def weak_log_loss(
    labels: Labels,
    probabilities: ArrayLike | Tensor,
    transition: Transition | str | None,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    true: ArrayLike | None = None,
) -> Score:
    """Log loss (natural logarithm) from weak labels alone: the mean of ``<r_i, -log q_i>``.

    Nothing is clipped: where a class has probability 0 and the weak label does not fix its target at 0, the
    estimate is infinite, and the note says so. Where no label has met such a class yet, the next one may: the interval
    then has no upper end.

    Parameters
    ----------
    labels : weak labels as the transition takes them
        Indices, names, candidate masks or sets, (source, label) pairs.
    probabilities : (n, K) class probabilities
        Of a model that has not seen these labels.
    transition : Transition, text or None
        T. An `EstimatedTransition` widens the interval by its own error. None where `true` is given.
    reconstruction : str or Reconstruction
        How to choose R; see `Transition.reconstruction`. Several scores by one estimated T take a fraction of the time
        if R is made once and given to each: they then share the draws of T.
    prior : (K,) array, optional
        Class shares for which R is to have the least variance.
    sample_weight : (n,) array, optional
        A row of weight 0 counts as if it had not been passed.
    groups : (n,) array, optional
        Rows of one group (of one person, document, item) are not independent: the standard error then comes from the
        sums of groups, and the degrees of freedom from their number.
    true : (n,) classes, -1 or None where unknown, optional
        Rows that somebody has checked: they and all labels are used together, and T is used where it is known alone.
        Assumes that rows were checked at random, or by their labels and the predictions alone: the score's note says
        what was found.

    Returns
    -------
    Score
        Its `value`, standard error `stderr` and 95% `interval`; prints as one line.

    Examples
    --------
    >>> import tproper as tp
    >>> labels = [0] * 40 + [1] * 10 + [1] * 40 + [0] * 10  # a tenth of them wrong
    >>> probabilities = [[0.8, 0.2]] * 50 + [[0.2, 0.8]] * 50
    >>> score = tp.weak_log_loss(labels, probabilities, tp.symmetric_noise(2, 0.1))
    >>> round(score.value, 4)  # -(0.875 log 0.8 + 0.125 log 0.2)
    0.3964
    """
    if true is not None or transition is None:
        rows = united.Rows.read(labels, true, transition, sample_weight, groups, width_of(probabilities))
        alone = lambda: weak_log_loss(labels, probabilities, transition, groups=groups)  # noqa: E731
        return united.log_loss(rows, probabilities, alone)
    sample = read_sample(
        labels, transition, width_of(probabilities), reconstruction=reconstruction, prior=prior,
        sample_weight=sample_weight, groups=groups,
    )  # fmt: skip
    q, n = sample.probabilities(probabilities), sample.n
    infinite = infinite_rows(sample.weigher, q, sample.labels)
    if infinite:
        why = (
            f"{infinite} of {n} examples give probability 0 to a class that the weak label cannot rule out: no finite "
            "estimate of the log loss exists; use weak_brier, or a model that never says 0"
        )
        limits = (0.0, math.inf)
        score = says_nothing(Score("log loss", math.inf, math.nan, limits, n, limits=limits), why)
        return score.noted(sample.caution)
    result = sample.estimate(log_losses(q), lambda i: q[i])
    zeros = int((q == 0).any(-1).sum())
    note = (
        f"{zeros} of {n} examples give probability 0 to some class: none of the labels met one, but a single one would "
        "make the log loss infinite, so it has no upper end; use weak_brier, or a model that never says 0"
    )
    open_end: Any = {"note": note, "open_end": True} if zeros else {}
    return sample.score("log loss", result, (math.inf, 0.0), math.log(sample.K), q.argmax(-1), **open_end)


def weak_brier(
    labels: Labels,
    probabilities: ArrayLike | Tensor,
    transition: Transition | str | None,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    true: ArrayLike | None = None,
) -> Score:
    """Brier score ``||q - e_z||^2`` (0 to 2) from weak labels alone: the mean of ``sum_z r_i[z] ||q_i - e_z||^2``.

    For two classes this is twice the binary convention ``(q_1 - z)^2``.

    Parameters
    ----------
    labels : weak labels as the transition takes them
        Indices, names, candidate masks or sets, (source, label) pairs.
    probabilities : (n, K) class probabilities
        Of a model that has not seen these labels.
    transition : Transition, text or None
        T. An `EstimatedTransition` widens the interval by its own error. None where `true` is given.
    reconstruction : str or Reconstruction
        How to choose R; see `Transition.reconstruction`. Several scores by one estimated T take a fraction of the time
        if R is made once and given to each: they then share the draws of T.
    prior : (K,) array, optional
        Class shares for which R is to have the least variance.
    sample_weight : (n,) array, optional
        A row of weight 0 counts as if it had not been passed.
    groups : (n,) array, optional
        Rows of one group (of one person, document, item) are not independent: the standard error then comes from the
        sums of groups, and the degrees of freedom from their number.
    true : (n,) classes, -1 or None where unknown, optional
        Rows that somebody has checked: they and all labels are used together, and T is used where it is known alone.
        Assumes that rows were checked at random, or by their labels and the predictions alone: the score's note says
        what was found.

    Returns
    -------
    Score
        Its `value`, standard error `stderr` and 95% `interval`; prints as one line.

    Examples
    --------
    >>> import tproper as tp
    >>> labels = [0] * 40 + [1] * 10 + [1] * 40 + [0] * 10  # a tenth of them wrong
    >>> probabilities = [[0.8, 0.2]] * 50 + [[0.2, 0.8]] * 50
    >>> score = tp.weak_brier(labels, probabilities, tp.symmetric_noise(2, 0.1))
    >>> round(score.value, 4)  # 0.875 0.08 + 0.125 1.28
    0.23
    """
    if true is not None or transition is None:
        rows = united.Rows.read(labels, true, transition, sample_weight, groups, width_of(probabilities))
        alone = lambda: weak_brier(labels, probabilities, transition, groups=groups)  # noqa: E731
        return united.brier(rows, probabilities, alone)
    sample = read_sample(
        labels, transition, width_of(probabilities), reconstruction=reconstruction, prior=prior,
        sample_weight=sample_weight, groups=groups,
    )  # fmt: skip
    q = sample.probabilities(probabilities)
    result = sample.estimate(brier_losses(q), lambda i: q[i])
    return sample.score("Brier score", result, (2.0, 0.0), (sample.K - 1) / sample.K, q.argmax(-1))
