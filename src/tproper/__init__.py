"""tproper: classifiers with trustworthy class probabilities from weak labels.

weak label y  ->  target r = R e_y  ->  loss = F(v) - <r, v>  ->  probabilities = gradient of F at v
"""

from ._checks import ConditioningWarning, NotReconstructibleError
from .certificates import Certificate, Decomposition, Witness, certify, comparison, critical_k, decompose
from .custom import BayesRisk, ConvexPotential
from .families import (
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
from .potentials import Brier, LogSumExp, Max, Potential, Sparsemax, Spherical, Squeezed, Tsallis
from .reconstructions import Reconstruction
from .transitions import Diagnosis, Transition

__version__ = "0.1.0"

__all__ = [
    "BackwardLoss",
    "BayesRisk",
    "Brier",
    "Certificate",
    "ConditioningWarning",
    "ConvexPotential",
    "Decomposition",
    "Diagnosis",
    "ForwardLoss",
    "GradientAscentLoss",
    "LogSumExp",
    "Max",
    "NonNegativeLoss",
    "NotReconstructibleError",
    "Potential",
    "Reconstruction",
    "Sparsemax",
    "Spherical",
    "Squeezed",
    "Transition",
    "Tsallis",
    "Witness",
    "backward_loss",
    "binary_noise",
    "certify",
    "coarse_labels",
    "comparison",
    "complementary",
    "critical_k",
    "decompose",
    "forward_loss",
    "gradient_ascent_loss",
    "identity",
    "multi_complementary",
    "multi_source",
    "non_negative_loss",
    "pair_noise",
    "partial_labels",
    "positive_unlabeled",
    "symmetric_noise",
    "unlabeled_sets",
]
