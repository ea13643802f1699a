"""T from data: clean rows, features, several annotators, positive-unlabeled priors; tests of T; class shares.

Imports from `metrics` and the rooms above it.
"""

from .check import TransitionCheck, TransitionTest, check_transition
from .pu import PUEstimate, estimate_pu

__all__ = [
    "PUEstimate",
    "TransitionCheck",
    "TransitionTest",
    "check_transition",
    "estimate_pu",
]
