"""Scores from weak labels alone, with standard errors and intervals; calibration.

Imports from `certificates` and the rooms above it.
"""

from .calibration import Calibration, TopLabel, bin_edges, bin_sums, squared_score, weak_calibration
from .statistics import Z95, BinnedErrors, Score, probabilities_of, setup
from .weak import (
    PairedTest,
    paired_test,
    score_of,
    weak_accuracy,
    weak_balanced_accuracy,
    weak_brier,
    weak_log_loss,
    weak_scorer,
)

__all__ = [
    "Z95",
    "BinnedErrors",
    "Calibration",
    "PairedTest",
    "Score",
    "TopLabel",
    "bin_edges",
    "bin_sums",
    "paired_test",
    "probabilities_of",
    "score_of",
    "setup",
    "squared_score",
    "weak_accuracy",
    "weak_balanced_accuracy",
    "weak_brier",
    "weak_calibration",
    "weak_log_loss",
    "weak_scorer",
]
