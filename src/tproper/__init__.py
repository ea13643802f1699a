"""tproper: classifiers with trustworthy class probabilities from weak labels.

weak label y  ->  target r = R e_y  ->  loss = F(v) - <r, v>  ->  probabilities = gradient of F at v
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._core import ConditioningWarning, NotReconstructibleError
from .certificates import Certificate, Decomposition, Witness, certify, comparison, critical_k, decompose
from .losses import (
    BackwardLoss,
    ForwardLoss,
    GradientAscentLoss,
    NonNegativeLoss,
    backward_loss,
    forward_loss,
    gradient_ascent_loss,
    non_negative_loss,
)
from .potentials import (
    BayesRisk,
    Brier,
    ConvexPotential,
    LogSumExp,
    Max,
    Potential,
    Sparsemax,
    Spherical,
    Squeezed,
    Tsallis,
)
from .transitions import (
    Diagnosis,
    EstimatedTransition,
    Reconstruction,
    Transition,
    annotators,
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

__version__ = "0.1.0"

# What needs scikit-learn, or is not part of every program, is imported when it is first asked for.
_LAZY = {
    "AnnotatorEstimate": "estimation",
    "Answers": "estimation",
    "BoundViolationWarning": "certificates",
    "Calibration": "metrics",
    "DependenceWarning": "estimation",
    "FamilyWarning": "estimation",
    "IdentifiabilityWarning": "estimation",
    "LossMonitor": "certificates",
    "ModelFileError": "learn",
    "PUEstimate": "estimation",
    "PairedTest": "metrics",
    "Prevalence": "estimation",
    "Score": "metrics",
    "Sensitivity": "estimation",
    "TransitionCheck": "estimation",
    "UnboundedLossWarning": "certificates",
    "WeakLabelClassifier": "learn",
    "WeakLabelClassifierCV": "learn",
    "estimate_transition": "estimation",
    "estimate_annotators": "estimation",
    "check_transition": "estimation",
    "estimate_pu": "estimation",
    "fuse": "losses",
    "load": "learn",
    "paired_test": "metrics",
    "parse_transition": "transitions",
    "save": "learn",
    "sensitivity": "estimation",
    "weak_accuracy": "metrics",
    "weak_balanced_accuracy": "metrics",
    "weak_brier": "metrics",
    "weak_calibration": "metrics",
    "weak_log_loss": "metrics",
    "weak_prevalence": "estimation",
    "weak_scorer": "metrics",
}

if TYPE_CHECKING:
    from .certificates import BoundViolationWarning, LossMonitor, UnboundedLossWarning
    from .estimation import (
        AnnotatorEstimate,
        Answers,
        DependenceWarning,
        FamilyWarning,
        IdentifiabilityWarning,
        Prevalence,
        PUEstimate,
        Sensitivity,
        TransitionCheck,
        check_transition,
        estimate_annotators,
        estimate_pu,
        estimate_transition,
        sensitivity,
        weak_prevalence,
    )
    from .learn import ModelFileError, WeakLabelClassifier, WeakLabelClassifierCV, load, save
    from .losses import fuse
    from .metrics import (
        Calibration,
        PairedTest,
        Score,
        paired_test,
        weak_accuracy,
        weak_balanced_accuracy,
        weak_brier,
        weak_calibration,
        weak_log_loss,
        weak_scorer,
    )
    from .transitions import parse_transition


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tproper' has no attribute {name!r}")
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "AnnotatorEstimate",
    "Answers",
    "BackwardLoss",
    "BayesRisk",
    "BoundViolationWarning",
    "Brier",
    "Calibration",
    "Certificate",
    "ConditioningWarning",
    "ConvexPotential",
    "Decomposition",
    "DependenceWarning",
    "Diagnosis",
    "EstimatedTransition",
    "FamilyWarning",
    "ForwardLoss",
    "GradientAscentLoss",
    "IdentifiabilityWarning",
    "LogSumExp",
    "LossMonitor",
    "Max",
    "ModelFileError",
    "NonNegativeLoss",
    "NotReconstructibleError",
    "PUEstimate",
    "PairedTest",
    "Potential",
    "Prevalence",
    "Reconstruction",
    "Score",
    "Sensitivity",
    "Sparsemax",
    "Spherical",
    "Squeezed",
    "Transition",
    "TransitionCheck",
    "Tsallis",
    "UnboundedLossWarning",
    "WeakLabelClassifier",
    "WeakLabelClassifierCV",
    "Witness",
    "annotators",
    "backward_loss",
    "binary_noise",
    "certify",
    "check_transition",
    "coarse_labels",
    "comparison",
    "complementary",
    "critical_k",
    "decompose",
    "estimate_annotators",
    "estimate_pu",
    "estimate_transition",
    "forward_loss",
    "fuse",
    "gradient_ascent_loss",
    "identity",
    "load",
    "multi_complementary",
    "multi_source",
    "non_negative_loss",
    "pair_noise",
    "paired_test",
    "parse_transition",
    "partial_labels",
    "positive_unlabeled",
    "save",
    "sensitivity",
    "symmetric_noise",
    "unlabeled_sets",
    "weak_accuracy",
    "weak_balanced_accuracy",
    "weak_brier",
    "weak_calibration",
    "weak_log_loss",
    "weak_prevalence",
    "weak_scorer",
]
