"""T, how a true class becomes a weak label, beside its R, the way back.

One file a structure; the named families; T as text and as plain data; the names of labels.

Imports from `_core`.
"""

from . import families
from .base import (
    ENUMERATION_LIMIT,
    METHODS,
    EstimatedTransition,
    Reconstruction,
    Tables,
    Transition,
    log_mixture,
    per_example_targets,
    reconstruct,
)
from .diagnosis import Diagnosis
from .families import (
    BagTransition,
    binary_noise,
    coarse_labels,
    complementary,
    identity,
    is_positive_unlabeled,
    multi_complementary,
    multi_source,
    pair_noise,
    partial_labels,
    positive_unlabeled,
    symmetric_noise,
    unlabeled_sets,
)
from .parsing import UnknownSizeError, make_transition, parse_transition, transition_from_dict, transition_to_dict
from .set_mass import indicator
from .sets import CandidateSetTransition, SetReconstruction
from .stacked import StackedTransition
from .uniform import UniformReconstruction, UniformTransition

__all__ = [
    "ENUMERATION_LIMIT",
    "METHODS",
    "BagTransition",
    "CandidateSetTransition",
    "Diagnosis",
    "EstimatedTransition",
    "Reconstruction",
    "SetReconstruction",
    "StackedTransition",
    "Tables",
    "Transition",
    "UniformReconstruction",
    "UniformTransition",
    "UnknownSizeError",
    "binary_noise",
    "coarse_labels",
    "complementary",
    "families",
    "identity",
    "indicator",
    "is_positive_unlabeled",
    "log_mixture",
    "make_transition",
    "multi_complementary",
    "multi_source",
    "pair_noise",
    "parse_transition",
    "partial_labels",
    "per_example_targets",
    "positive_unlabeled",
    "reconstruct",
    "symmetric_noise",
    "transition_from_dict",
    "transition_to_dict",
    "unlabeled_sets",
]
