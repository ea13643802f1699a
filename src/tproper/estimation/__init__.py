"""T from data: clean rows, features, several annotators, positive-unlabeled priors; tests of T; class shares.

Imports from `metrics` and the rooms above it.
"""

from .clean import estimate_transition
from .features import IdentifiabilityWarning

__all__ = ["IdentifiabilityWarning", "estimate_transition"]
