"""T from data: clean rows, features, several annotators, positive-unlabeled priors; tests of T; class shares.

Imports from `metrics` and the rooms above it.
"""

from .clean import estimate_transition
from .features import IdentifiabilityWarning
from .partial import FamilyWarning
from .prevalence import Prevalence, weak_prevalence

__all__ = [
    "FamilyWarning",
    "IdentifiabilityWarning",
    "Prevalence",
    "estimate_transition",
    "weak_prevalence",
]
