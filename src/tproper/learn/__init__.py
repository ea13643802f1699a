"""The scikit-learn front: classifier, settings chosen by weak risk, solvers, saved models, data-parallel training.

Imports from `estimation` and the rooms above it.
"""

from .calibrator import Calibrator, calibrate
from .classifier import WeakLabelClassifier
from .saving import ModelFileError, load, not_replaceable, save, write_model
from .scaling import LOG_SCALES, SPREAD
from .scorer import CalibratedScorer, calibrated_scorer
from .search import L2, default_grid
from .selection import WeakLabelClassifierCV

LOG_SCALE_SPREAD = SPREAD["a"]

__all__ = [
    "L2",
    "LOG_SCALES",
    "LOG_SCALE_SPREAD",
    "CalibratedScorer",
    "Calibrator",
    "ModelFileError",
    "WeakLabelClassifier",
    "WeakLabelClassifierCV",
    "calibrate",
    "calibrated_scorer",
    "default_grid",
    "load",
    "not_replaceable",
    "save",
    "write_model",
]
