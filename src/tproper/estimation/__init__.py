"""T from data: clean rows, features, several annotators, positive-unlabeled priors; tests of T; class shares.

Imports from `metrics` and the rooms above it.
"""

from .answers import Answers
from .clean import estimate_transition
from .crowds import AnnotatorEstimate, estimate_annotators
from .warnings import DependenceWarning, IdentifiabilityWarning

__all__ = [
    "AnnotatorEstimate",
    "Answers",
    "DependenceWarning",
    "IdentifiabilityWarning",
    "estimate_annotators",
    "estimate_transition",
]
