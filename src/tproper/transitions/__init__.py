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
from .evidence import Kinds, listed
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
from .labels import (
    NO_ANSWER,
    SET_SEPARATOR,
    UNLABELED,
    Encoded,
    LabelSpace,
    Names,
    absent,
    columns_in_order,
    holds_collections,
    is_index,
    item,
    key,
    known_column,
    names_array,
    sorted_names,
    space_of,
)
from .named import (
    NamedTransition,
    case_control_pu,
    hierarchical_labels,
    none_of_these,
    ordinal_noise,
    partly_labeled,
)
from .noisy_sets import NoisySetReconstruction, NoisySetTransition, noisy_partial_labels
from .ordering import in_sorted_order, permuted, with_weak_labels
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
from .reading import form_of, settle, settle_sorted, stand_in, treats_alike
from .set_mass import indicator, mask_sizes
from .sets import CandidateSetTransition, SetReconstruction
from .shrinkage import STRUCTURES, Shrunk, shrink, structure_of
from .soft import SoftLabels, as_given, hard_labels, is_soft, pieces, soft_silent, soft_targets
from .stacked import StackedTransition, is_estimated, posterior_draws
from .uniform import UniformReconstruction, UniformTransition

__all__ = [
    "ALIASES",
    "BY_NAME",
    "ENUMERATION_LIMIT",
    "KINDS",
    "METHODS",
    "NO_ANSWER",
    "POSITIVE_UNLABELED",
    "SET_SEPARATOR",
    "STRUCTURES",
    "UNLABELED",
    "AnnotatorTransition",
    "AnswerReconstruction",
    "BagTransition",
    "CandidateSetTransition",
    "CompleteReconstruction",
    "Diagnosis",
    "Encoded",
    "EstimatedPartialLabels",
    "EstimatedTransition",
    "FamilyTest",
    "Kind",
    "Kinds",
    "LabelSpace",
    "NamedTransition",
    "Names",
    "NoisySetReconstruction",
    "NoisySetTransition",
    "QuestionReconstruction",
    "QuestionTransition",
    "Reconstruction",
    "SetReconstruction",
    "Shrunk",
    "SoftLabels",
    "StackedTransition",
    "Tables",
    "Transition",
    "TransitionLike",
    "UniformReconstruction",
    "UniformTransition",
    "UnknownSizeError",
    "absent",
    "annotators",
    "as_given",
    "binary_noise",
    "case_control_pu",
    "coarse_labels",
    "columns_in_order",
    "complementary",
    "families",
    "form_of",
    "hard_labels",
    "hierarchical_labels",
    "holds_collections",
    "identity",
    "in_sorted_order",
    "indicator",
    "is_estimated",
    "is_index",
    "is_soft",
    "item",
    "key",
    "known_column",
    "listed",
    "make_transition",
    "mask_sizes",
    "multi_complementary",
    "multi_source",
    "names_array",
    "noisy_partial_labels",
    "none_of_these",
    "ordinal_noise",
    "pair_noise",
    "parse_transition",
    "partial_labels",
    "partly_labeled",
    "per_example_targets",
    "permuted",
    "pieces",
    "positive_unlabeled",
    "posterior_draws",
    "reconstruct",
    "register_family",
    "settle",
    "settle_sorted",
    "shrink",
    "soft_silent",
    "soft_targets",
    "sorted_names",
    "space_of",
    "stand_in",
    "structure_of",
    "symmetric_noise",
    "transition_from_dict",
    "transition_to_dict",
    "treats_alike",
    "unlabeled_sets",
    "weak_label_names",
    "with_weak_labels",
    "yes_no",
]
