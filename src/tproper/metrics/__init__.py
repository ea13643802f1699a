"""Scores from weak labels alone, with standard errors and intervals; calibration; the same from clean labels.

Imports from `certificates` and the packages above it.
"""

from .balanced import weak_balanced_accuracy
from .binned import BinnedErrors
from .by_rules import posteriors_of_labels
from .calibration import TopLabel, weak_calibration
from .checked import CheckedRows, SelectionWarning, dependence
from .classes import A_CROWD
from .clean_scores import Reliability, clean_scores, reliability
from .conformal import PredictionSets, conformal
from .curve import Calibration, bin_edges, bin_sums, make_curve, transition_covariance
from .inputs import ReadLabels, encoded, predictions_of, probabilities_of, read_labels, weights_of, width_of
from .known import Known, known_classes
from .paired import PairedTest, paired_test
from .sample import Sample, read_sample
from .score import UNINFORMATIVE, Score, restrict, score_of
from .scorers import WeakScorer, forward_risk, last_step, weak_scorer
from .statistics import Z95, Beside, Estimate, drawn_labels, mean_of, reference_rows
from .uncertainty import TransitionDraws, draws_of
from .weak import weak_accuracy, weak_brier, weak_log_loss

__all__ = [
    "A_CROWD",
    "UNINFORMATIVE",
    "Z95",
    "Beside",
    "BinnedErrors",
    "Calibration",
    "CheckedRows",
    "Estimate",
    "Known",
    "PairedTest",
    "PredictionSets",
    "ReadLabels",
    "Reliability",
    "Sample",
    "Score",
    "SelectionWarning",
    "TopLabel",
    "TransitionDraws",
    "WeakScorer",
    "bin_edges",
    "bin_sums",
    "clean_scores",
    "conformal",
    "dependence",
    "drawn_labels",
    "draws_of",
    "encoded",
    "forward_risk",
    "known_classes",
    "last_step",
    "make_curve",
    "mean_of",
    "paired_test",
    "posteriors_of_labels",
    "predictions_of",
    "probabilities_of",
    "read_labels",
    "read_sample",
    "reference_rows",
    "reliability",
    "restrict",
    "score_of",
    "transition_covariance",
    "weak_accuracy",
    "weak_balanced_accuracy",
    "weak_brier",
    "weak_calibration",
    "weak_log_loss",
    "weak_scorer",
    "weights_of",
    "width_of",
]
