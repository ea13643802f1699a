"""T from data: clean rows, features, several annotators, positive-unlabeled priors; tests of T; class shares.

Imports from `metrics` and the rooms above it.
"""

from .check import TransitionCheck, TransitionTest, check_transition
from .pu import PUEstimate, estimate_pu
from .sensitivity import Sensitivity, sensitivity

__all__ = [
    "PUEstimate",
    "Sensitivity",
    "TransitionCheck",
    "TransitionTest",
    "check_transition",
    "estimate_pu",
    "sensitivity",
]
