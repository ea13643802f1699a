"""What a calibrating map saves, and how well that is known."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .._core import FloatArray
from ..metrics import Estimate, Score, drawn_labels, moment_slope, reference_rows
from ..transitions import Transition
from .scaling import row_risks

NAME = "fall of the weak risk"


def no_gain(n: int) -> Score:
    """Where nothing was changed, or nothing is known of what that changed."""
    return Score(NAME, 0.0, math.nan, (-math.inf, math.inf), n, informative=False)


def gain_of(
    transition: Transition,
    labels: Tensor,
    before: FloatArray,
    after: FloatArray,
    weights: FloatArray,
    in_sample: float,
    parameters: int,
) -> Score:
    """The fall of the mean of ``-log (T p)_y`` from scores `before` to `after` (n, K), with a 95% interval for the map
    that is kept.

    `after` are cross-validated: each row's map was not fitted to its label. `in_sample` is the fall that the map fitted
    to all rows has on those same rows, `parameters` its number of parameters. Two things make the plain standard error
    too small on a few hundred labels, and both are allowed for:

    * a few rows on which the model was sure and wrong decide, and where chance left them out mean and spread are too
      small together. The interval is that of every other score (`tproper.metrics`): it asks of each candidate mean what
      spread it would entail, with labels drawn from the calibrated model as a reference.
    * the map was chosen by the same labels. With e the gradient of the mean risk at the best map and H its curvature,
      the fitted map lies ``H^-1 e`` away from the best one, and cross-validation takes the *mean* of ``e' H^-1 e`` off
      the in-sample fall, where the value it took here is due. With p parameters its standard deviation is
      ``sqrt(2 / p)`` of that mean (chi square), which the difference of the two falls shows.
    """
    n = len(labels)
    if weights.sum() ** 2 / (weights @ weights) < 2:  # one row has no standard error
        return no_gain(n)
    g = row_risks(transition, labels, before) - row_risks(transition, labels, after)
    rows = reference_rows(n)
    doubt = 1.0 / (n + 1)  # a model that says 0 or 1 may be wrong once in n + 1 times
    p = torch.softmax(torch.as_tensor(after[rows]), -1)
    p = torch.where(p > 0, (1 - doubt) * p + doubt / p.shape[1], 0.0)  # a masked class stays out
    drawn, shares = drawn_labels(transition, p / p.sum(-1, keepdim=True), np.random.default_rng(0))
    used = shares > 0
    rows, drawn, shares = rows[used], drawn[torch.as_tensor(used)], shares[used]
    reference = row_risks(transition, drawn, before[rows]) - row_risks(transition, drawn, after[rows])
    result = Estimate(g, weights, moment_slope(g, weights, reference, shares), True, (reference, shares))
    result.widen_by(float(np.sqrt(2 / parameters)) * max(in_sample - float(result.mean), 0.0))
    low, high = result.interval()
    stderr = float(np.hypot(result.stderr, result.stderr_transition))
    return Score(NAME, float(result.mean), stderr, (float(low), float(high)), n)
