"""T from data: clean rows, features, several annotators, positive-unlabeled priors; tests of T; class shares.

Imports from `metrics` and the rooms above it.
"""

from .check import TransitionCheck, TransitionTest, check_transition

__all__ = [
    "TransitionCheck",
    "TransitionTest",
    "check_transition",
]
