"""The scikit-learn front: classifier, settings chosen by weak risk, solvers, saved models, data-parallel training.

Imports from `estimation` and the packages above it.
"""

from .calibrator import Calibrator, calibrate
from .classifier import WeakLabelClassifier
from .estimating import KINDS, Estimated, estimate_labels, transition_of
from .export import export_onnx, export_trees
from .multilabel import MultiLabelClassifier, MultiLabelScores
from .saving import DESCRIPTION, ModelFileError, load, not_replaceable, save, write_model
from .scorer import CalibratedScorer, calibrated_scorer
from .search import L2, default_grid, with_params

__all__ = [
    "DESCRIPTION",
    "KINDS",
    "L2",
    "CalibratedScorer",
    "Calibrator",
    "Estimated",
    "ModelFileError",
    "MultiLabelClassifier",
    "MultiLabelScores",
    "WeakLabelClassifier",
    "calibrate",
    "calibrated_scorer",
    "default_grid",
    "estimate_labels",
    "export_onnx",
    "export_trees",
    "load",
    "not_replaceable",
    "save",
    "transition_of",
    "with_params",
    "write_model",
]
