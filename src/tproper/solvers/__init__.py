"""Solvers: a problem in, a solution out, nothing of estimators or tables. Linear models, minibatches, boosted trees;
one temperature, and scores of rows that a model has not seen.

Imports from `losses` and the rooms above it.
"""

from . import boosting, linear, minibatch
from .cross_fit import cross_fit, splits_of
from .linear import ScoreLoss, evidence_loss, score_loss
from .temperature import (
    LOG_SCALES,
    RunningScale,
    best_log_scale,
    calibrated_risks,
    centred,
    forward_risk,
    matching_scale,
    not_clearly_worse,
    row_risks,
)

__all__ = [
    "LOG_SCALES",
    "RunningScale",
    "ScoreLoss",
    "best_log_scale",
    "boosting",
    "calibrated_risks",
    "centred",
    "cross_fit",
    "evidence_loss",
    "forward_risk",
    "linear",
    "matching_scale",
    "minibatch",
    "not_clearly_worse",
    "row_risks",
    "score_loss",
    "splits_of",
]
