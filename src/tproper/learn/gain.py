"""What a calibrating map saves, and how well that is known."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._core import FloatArray
from ..metrics import Beside, Score, drawn_labels, mean_of, reference_rows
from ..solvers import row_risks
from ..transitions import Transition

NAME = "fall of the weak risk"


def no_gain(n: int) -> Score:
    """Where nothing was changed, or nothing is known of what that changed."""
    return Score(NAME, 0.0, math.nan, (-math.inf, math.inf), n, informative=False)


def gain_of(
    transition: Transition,
    labels: Tensor,
    before: FloatArray,
    kept: FloatArray,
    weights: FloatArray,
    validated: float,
    parameters: int,
    chosen: int,
    groups: NDArray[np.int64] | None = None,
) -> Score:
    """The fall of the mean of ``-log (T p)_y`` from scores `before` to those of the map that is `kept` (n, K), with a
    95% interval.

    The map was fitted to these same labels. `validated`, the value, is the cross-validated fall, `parameters` how many
    the map has. With x the map in units of its standard error (p independent normal variables) and mu the best one,

        2 n (fall here) = |x|^2,    2 n (true fall) = |mu|^2 - |x - mu|^2 = |x|^2 - 2 x'(x - mu).

    Along mu, ``x'(x - mu)`` is |x| times a standard normal variable, which a plain interval around the fall here says
    exactly, however small mu is; across, it is chi square with p - 1 degrees of freedom. The optimism, fall here less
    `validated`, is about ``p / n``: p - 1 parts of it are taken off, and 2 (p - 1) squares of a part are added to the
    variance. A map that was `chosen` by the same labels is one with a large x: each choice counts as one more chi
    square.

    A few rows on which the model was sure and wrong decide, and where chance left them out mean and spread are too
    small together. So the plain interval is that of every other score (`tproper.metrics`): it asks of each candidate
    mean what spread it would entail, with labels drawn from the calibrated model as a reference.
    """
    n = len(labels)
    if weights.sum() ** 2 / (weights @ weights) < 2:  # one row has no standard error
        return no_gain(n)
    g = row_risks(transition, labels, before) - row_risks(transition, labels, kept)
    rows = reference_rows(n)
    apart = n if groups is None else 1 / float((np.bincount(groups, weights=weights / weights.sum()) ** 2).sum())
    doubt = 1.0 / (apart + 1)  # a model that says 0 or 1 may be wrong in one of n + 1 rows, or groups
    p = torch.softmax(torch.as_tensor(kept[rows]), -1)
    p = torch.where(p > 0, (1 - doubt) * p + doubt / p.shape[1], 0.0)  # a masked class stays out
    p /= p.sum(-1, keepdim=True)
    drawn, shares = drawn_labels(transition, p, labels[torch.tensor(rows)], np.random.default_rng(0))
    used = shares > 0
    rows, drawn, shares = rows[used], drawn[torch.as_tensor(used)], shares[used]
    reference = row_risks(transition, drawn, before[rows]) - row_risks(transition, drawn, kept[rows])
    part = max(float((weights / weights.sum() * g).sum()) - validated, 0.0) / parameters
    result = mean_of(
        g, weights, (reference, shares), few_decide=groups is not None, groups=groups,
        beside=Beside(stderr=math.sqrt(2 * (parameters - 1 + chosen)) * part),
    )  # fmt: skip
    low, high = (float(end) - (parameters - 1) * part for end in result.interval())
    stderr = float(np.hypot(result.stderr, math.sqrt(parameters) * part))
    return Score(NAME, validated, stderr, (min(low, validated), max(high, validated)), n)
