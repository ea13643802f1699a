"""tproper: classifiers with trustworthy class probabilities from weak labels.

weak label y  ->  target r = R e_y  ->  loss = F(v) - <r, v>  ->  probabilities = gradient of F at v
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# A name is imported when it is first asked for: `import tproper` costs nothing, and neither does `tproper --help`.
_ROOMS = frozenset(
    ("transitions", "potentials", "losses", "certificates", "metrics", "estimation", "learn", "data", "plots", "lab")
)
_LAZY = {
    "BackwardLoss": "losses",
    "BayesRisk": "potentials",
    "BoundViolationWarning": "certificates",
    "Brier": "potentials",
    "Calibration": "metrics",
    "Certificate": "certificates",
    "ConditioningWarning": "_core",
    "ConvexPotential": "potentials",
    "Decomposition": "certificates",
    "Diagnosis": "transitions",
    "EstimatedTransition": "transitions",
    "ForwardLoss": "losses",
    "GradientAscentLoss": "losses",
    "LogSumExp": "potentials",
    "LossMonitor": "certificates",
    "Max": "potentials",
    "ModelFileError": "learn",
    "NonNegativeLoss": "losses",
    "NotReconstructibleError": "_core",
    "PUEstimate": "estimation",
    "PairedTest": "metrics",
    "Potential": "potentials",
    "Reconstruction": "transitions",
    "Score": "metrics",
    "Sparsemax": "potentials",
    "Spherical": "potentials",
    "Squeezed": "potentials",
    "Transition": "transitions",
    "TransitionCheck": "estimation",
    "Tsallis": "potentials",
    "UnboundedLossWarning": "certificates",
    "WeakLabelClassifier": "learn",
    "WeakLabelClassifierCV": "learn",
    "Witness": "certificates",
    "annotators": "transitions",
    "backward_loss": "losses",
    "binary_noise": "transitions",
    "certify": "certificates",
    "check_transition": "estimation",
    "coarse_labels": "transitions",
    "comparison": "certificates",
    "complementary": "transitions",
    "critical_k": "certificates",
    "decompose": "certificates",
    "estimate_pu": "estimation",
    "forward_loss": "losses",
    "fuse": "losses",
    "gradient_ascent_loss": "losses",
    "identity": "transitions",
    "load": "learn",
    "multi_complementary": "transitions",
    "multi_source": "transitions",
    "non_negative_loss": "losses",
    "pair_noise": "transitions",
    "paired_test": "metrics",
    "parse_transition": "transitions",
    "partial_labels": "transitions",
    "positive_unlabeled": "transitions",
    "save": "learn",
    "symmetric_noise": "transitions",
    "unlabeled_sets": "transitions",
    "weak_accuracy": "metrics",
    "weak_balanced_accuracy": "metrics",
    "weak_brier": "metrics",
    "weak_calibration": "metrics",
    "weak_log_loss": "metrics",
    "weak_scorer": "metrics",
}

if TYPE_CHECKING:
    from ._core import ConditioningWarning, NotReconstructibleError
    from .certificates import (
        BoundViolationWarning,
        Certificate,
        Decomposition,
        LossMonitor,
        UnboundedLossWarning,
        Witness,
        certify,
        comparison,
        critical_k,
        decompose,
    )
    from .estimation import PUEstimate, TransitionCheck, check_transition, estimate_pu
    from .learn import ModelFileError, WeakLabelClassifier, WeakLabelClassifierCV, load, save
    from .losses import (
        BackwardLoss,
        ForwardLoss,
        GradientAscentLoss,
        NonNegativeLoss,
        backward_loss,
        forward_loss,
        fuse,
        gradient_ascent_loss,
        non_negative_loss,
    )
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
        parse_transition,
        partial_labels,
        positive_unlabeled,
        symmetric_noise,
        unlabeled_sets,
    )


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    if name not in _LAZY:
        raise AttributeError(f"module 'tproper' has no attribute {name!r}")
    value = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "BackwardLoss",
    "BayesRisk",
    "BoundViolationWarning",
    "Brier",
    "Calibration",
    "Certificate",
    "ConditioningWarning",
    "ConvexPotential",
    "Decomposition",
    "Diagnosis",
    "EstimatedTransition",
    "ForwardLoss",
    "GradientAscentLoss",
    "LogSumExp",
    "LossMonitor",
    "Max",
    "ModelFileError",
    "NonNegativeLoss",
    "NotReconstructibleError",
    "PUEstimate",
    "PairedTest",
    "Potential",
    "Reconstruction",
    "Score",
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
    "estimate_pu",
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
    "symmetric_noise",
    "unlabeled_sets",
    "weak_accuracy",
    "weak_balanced_accuracy",
    "weak_brier",
    "weak_calibration",
    "weak_log_loss",
    "weak_scorer",
]
