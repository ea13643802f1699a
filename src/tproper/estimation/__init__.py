"""T from data: clean rows, features, several annotators, positive-unlabeled priors; tests of T; class shares.

Imports from `metrics` and the packages above it.
"""

from .alone import one_thread
from .answers import Answers
from .arguments import feature_matrix
from .by_group import GroupTransitions, transitions_by_group
from .check import TransitionCheck, TransitionTest, check_transition
from .clean import estimate_transition
from .crowds import AnnotatorEstimate, estimate_annotators
from .mixed import SourcesEstimate
from .prevalence import Prevalence, weak_prevalence
from .pu import PUEstimate, estimate_pu
from .sensitivity import Sensitivity, sensitivities, sensitivity
from .warnings import DependenceWarning, FamilyWarning, IdentifiabilityWarning

__all__ = [
    "AnnotatorEstimate",
    "Answers",
    "DependenceWarning",
    "FamilyWarning",
    "GroupTransitions",
    "IdentifiabilityWarning",
    "PUEstimate",
    "Prevalence",
    "Sensitivity",
    "SourcesEstimate",
    "TransitionCheck",
    "TransitionTest",
    "check_transition",
    "estimate_annotators",
    "estimate_pu",
    "estimate_transition",
    "feature_matrix",
    "one_thread",
    "sensitivities",
    "sensitivity",
    "transitions_by_group",
    "weak_prevalence",
]
