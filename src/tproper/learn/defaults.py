"""Penalties and learning rates that suit the data, where the user names none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from .._core import FloatArray, limited_deviations
from ..losses import ForwardLoss, WeakLabelLoss
from ..solvers import linear, score_loss
from ..transitions import Transition

SHRINKAGE = 0.4  # measured: within a point of the tuned penalty in every block of docs/weak_table.md
NETWORK_L2 = 3e-4  # minibatch training: early stopping does what a penalty does for linear models
NETWORK_RATE = 3e-3  # Adam's, for clean labels
TREE_L2 = 1.0  # in rows' worth of curvature
TREE_RATE = 0.1
TREE_LEAVES = 15
TREE_ROWS = 20
INTERCEPT_SPREAD = 2.0  # standard deviation of the prior of forward losses' intercepts


def row_count(weights: FloatArray) -> float:
    """How many rows weights stand for: whole ones are repetitions; weights that sum to less than n are n rows."""
    return max(float(weights.sum()), float(np.count_nonzero(weights)))


def uneven(weights: FloatArray) -> FloatArray | None:
    """Weights, or None where all are equal: they then change nothing."""
    return None if (weights == weights[0]).all() else weights


def squared_slope(loss: WeakLabelLoss, labels: Tensor, weights: FloatArray | None) -> float:
    """The mean squared gradient of the loss at zero scores, relative to cross entropy's of clean labels.

    For a forward loss this is what one weak label says of its class, 1 for clean labels and 1/(K-1)^2 for
    complementary ones: the trace of the Fisher information, the mean of ``||q - 1/K||^2 / (1 - 1/K)``, q the posterior
    of the class given the label. For a backward loss q is the target ``R e_y``, and this is how much targets vary:
    (K-1)^2 for complementary labels.
    """
    K, n = loss.transition.num_classes, len(labels)
    w = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    _, E = score_loss(loss, labels, w)(np.zeros((K, n)))  # w (1/K - q)
    used = w > 0
    return float(np.sum(E[:, used] ** 2 / w[used]) / (1 - 1 / K))


def default_l2(X: Any, labels: Tensor, loss: WeakLabelLoss, weights: FloatArray | None, rows: float) -> float:
    """``0.4 s x (total variance of the features) / n``, where s says how weak labels differ from clean ones.

    A penalty is a prior on the scores' spread, so it is measured in the features' variance and shrinks with the rows.
    With g the `squared_slope`, s is ``sqrt(g)`` for forward losses. Weaker labels flatten them; with the full penalty
    they would give up classes, with one in proportion they would fit noise: the root lies between. Backward losses
    have the curvature of clean labels, and k more where they are squeezed, whatever the labels say, while the noise of
    their gradient grows with g: there s is ``(1 + k) g``. No feature counts far above the others
    (`limited_deviations`).
    """
    w = np.full(len(labels), 1.0 / len(labels)) if weights is None else weights / weights.sum()
    mean, variance = linear.moments(X, w)
    counted = float(np.sum(limited_deviations(variance, mean) ** 2))
    if isinstance(loss, ForwardLoss):
        strength = math.sqrt(informativeness(loss.transition, labels, weights))
    else:
        strength = (1 + linear.curvature(loss)) * squared_slope(loss, labels, weights)
    # no information or no variance: any penalty will do, and one keeps the problem well posed
    return SHRINKAGE * strength * counted / rows or NETWORK_L2


def informativeness(transition: Transition, labels: Tensor, weights: FloatArray | None) -> float:
    """What one weak label says of its class: the `squared_slope` of the forward log loss."""
    return squared_slope(ForwardLoss(transition, validate=False), labels, weights)


def label_information(loss: Any, labels: Tensor | None = None, weights: FloatArray | None = None) -> float:
    """`informativeness` of the labels of a forward loss, or of T's labels of a uniform class; 1 for other losses.

    Also 1 where labels say nothing at all: then no rate is better than another.
    """
    if not isinstance(loss, ForwardLoss):
        return 1.0
    T = loss.transition
    if labels is None:
        classes = np.arange(max(64, min(1024, (1 << 22) // T.num_classes))) % T.num_classes
        labels = T.encode(T.sample(classes, 0))
    information = informativeness(T, labels.cpu(), weights)
    return information if math.isfinite(information) and information > 0 else 1.0


def default_learning_rate(information: float) -> float:
    """``3e-3 / information^(1/4)``: three times the usual for complementary labels of ten classes.

    With information i of a label (`informativeness`), the gradient of a forward loss at zero scores is ``sqrt(i)``
    times that of cross entropy, and the part of it that points to the truth i times. Steps of gradient descent shrink
    by i, so that complementary labels want many times the usual rate. Adam divides by the gradient's size, and its
    progress shrinks by ``sqrt(i)`` alone; making up for all of that would enlarge the noise as much. The root lies
    between. Measured: docs/archive/learning_rates.md.
    """
    return NETWORK_RATE * information**-0.25


def default_tree_rate(information: float) -> float:
    """``.1 / information^(1/4)``, at most one half: Newton steps shrink with what a label says, as Adam's do not.

    They are taken with the curvature of clean labels, which bounds that of the forward loss of weak ones.
    """
    return min(TREE_RATE * information**-0.25, 0.5)


def default_leaf_rows(information: float, n: int) -> int:
    """``20 / information^(3/4)`` of n rows: leaves of few weak labels would follow their noise.

    Rows that are worth twenty clean ones (power 1) would leave too few leaves where labels say little. For the same
    reason a fifth of the rows is always enough.
    """
    return max(TREE_ROWS, min(math.ceil(TREE_ROWS * information**-0.75), n // 5))


def intercept_l2(loss: WeakLabelLoss, labels: Tensor, weights: FloatArray | None, rows: float) -> float:
    """A normal prior on the intercepts of weak labels' losses; 0 for clean labels.

    Free intercepts let a forward loss give up a class altogether (its intercept runs to minus infinity), which saves
    penalty and ruins the log loss. The prior is worth one label or two. Those of a backward loss follow the mean of
    the targets, which says next to nothing of the classes' shares where targets vary much (ten classes, a thousand
    complementary labels: a share of .1 becomes .1 give or take .09). Prior and noise are weighed as Bayes does: with g
    the `squared_slope`, a share of about ``1/K e^u``, u standard normal, wants ``g (1 + K k) / n``.
    """
    if linear.is_clean(loss.transition):
        return 0.0
    if isinstance(loss, ForwardLoss):
        return 1.0 / (INTERCEPT_SPREAD**2 * rows)
    return squared_slope(loss, labels, weights) * (1 + loss.transition.num_classes * linear.curvature(loss)) / rows
