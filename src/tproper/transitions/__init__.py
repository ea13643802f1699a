"""T, how a true class becomes a weak label, beside its R, the way back.

One file per structure; the named families; T as text and as plain data; the names of labels.

Imports from `_core`.
"""

from . import families
from .annotators import AnnotatorTransition, AnswerReconstruction, CompleteReconstruction, annotators
from .base import (
    ENUMERATION_LIMIT,
    METHODS,
    EstimatedTransition,
    Reconstruction,
    Tables,
    Transition,
    reconstruct,
)
from .catalogue import ALIASES, BY_NAME, KINDS, Kind
from .dense import per_example_targets
from .diagnosis import Diagnosis
from .estimated_sets import EstimatedPartialLabels, FamilyTest
from .evidence import Dense, DenseRows, Kinds, Needs, Pattern, Rows, Spike, Step, Targets, Weighted, listed, smallest
from .families import (
    BagTransition,
    binary_noise,
    coarse_labels,
    complementary,
    identity,
    multi_complementary,
    multi_source,
    pair_noise,
    partial_labels,
    positive_unlabeled,
    symmetric_noise,
    unlabeled_sets,
)
from .kinds import POSITIVE_UNLABELED
from .named import (
    NamedTransition,
    case_control_pu,
    hierarchical_labels,
    none_of_these,
    ordinal_noise,
    partly_labeled,
)
from .noisy_sets import NoisySetReconstruction, NoisySetTransition, noisy_partial_labels
from .pairs import PairKernel, pair_prior, pairs
from .parsing import (
    TransitionLike,
    UnknownSizeError,
    make_transition,
    parse_transition,
    register_family,
    transition_from_dict,
    transition_to_dict,
)
from .questions import QuestionReconstruction, QuestionTransition, yes_no
from .sets import CandidateSetTransition, SetReconstruction
from .shrinkage import STRUCTURES, Shrunk, shrink, structure_of
from .soft import SoftLabels, as_given, hard_labels, is_soft, pieces, soft_silent, soft_targets
from .stacked import StackedTransition, is_estimated, posterior_draws
from .uniform import UniformReconstruction, UniformTransition
from .vocabulary import SET_SEPARATOR, UNLABELED, Vocabulary, is_index, item, weak_label_names

__all__ = [
    "ALIASES",
    "BY_NAME",
    "ENUMERATION_LIMIT",
    "KINDS",
    "METHODS",
    "POSITIVE_UNLABELED",
    "SET_SEPARATOR",
    "STRUCTURES",
    "UNLABELED",
    "AnnotatorTransition",
    "AnswerReconstruction",
    "BagTransition",
    "CandidateSetTransition",
    "CompleteReconstruction",
    "Dense",
    "DenseRows",
    "Diagnosis",
    "EstimatedPartialLabels",
    "EstimatedTransition",
    "FamilyTest",
    "Kind",
    "Kinds",
    "NamedTransition",
    "Needs",
    "NoisySetReconstruction",
    "NoisySetTransition",
    "PairKernel",
    "Pattern",
    "QuestionReconstruction",
    "QuestionTransition",
    "Reconstruction",
    "Rows",
    "SetReconstruction",
    "Shrunk",
    "SoftLabels",
    "Spike",
    "StackedTransition",
    "Step",
    "Tables",
    "Targets",
    "Transition",
    "TransitionLike",
    "UniformReconstruction",
    "UniformTransition",
    "UnknownSizeError",
    "Vocabulary",
    "Weighted",
    "annotators",
    "as_given",
    "binary_noise",
    "case_control_pu",
    "coarse_labels",
    "complementary",
    "families",
    "hard_labels",
    "hierarchical_labels",
    "identity",
    "is_estimated",
    "is_index",
    "is_soft",
    "item",
    "listed",
    "make_transition",
    "multi_complementary",
    "multi_source",
    "noisy_partial_labels",
    "none_of_these",
    "ordinal_noise",
    "pair_noise",
    "pair_prior",
    "pairs",
    "parse_transition",
    "partial_labels",
    "partly_labeled",
    "per_example_targets",
    "pieces",
    "positive_unlabeled",
    "posterior_draws",
    "reconstruct",
    "register_family",
    "shrink",
    "smallest",
    "soft_silent",
    "soft_targets",
    "structure_of",
    "symmetric_noise",
    "transition_from_dict",
    "transition_to_dict",
    "unlabeled_sets",
    "weak_label_names",
    "yes_no",
]
