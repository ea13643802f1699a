"""The scikit-learn front: classifier, settings chosen by weak risk, solvers, saved models, data-parallel training.

Imports from `estimation` and the rooms above it.
"""

from .classifier import WeakLabelClassifier
from .saving import ModelFileError, load, not_replaceable, save, write_model
from .search import L2, default_grid
from .selection import WeakLabelClassifierCV

__all__ = [
    "L2",
    "ModelFileError",
    "WeakLabelClassifier",
    "WeakLabelClassifierCV",
    "default_grid",
    "load",
    "not_replaceable",
    "save",
    "write_model",
]
