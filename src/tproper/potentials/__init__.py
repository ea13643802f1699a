"""F: convex potentials on centred scores, their links and conjugates; generalised logit squeezing; your own F.

Imports from `_core`.
"""

from .base import Domain, Potential, Squeezed
from .conjugates import NotComputedError
from .custom import BayesRisk, ConvexPotential
from .simplex import Brier, LogSumExp, Max, Sparsemax, Spherical, Tsallis

__all__ = [
    "BayesRisk",
    "Brier",
    "ConvexPotential",
    "Domain",
    "LogSumExp",
    "Max",
    "NotComputedError",
    "Potential",
    "Sparsemax",
    "Spherical",
    "Squeezed",
    "Tsallis",
]
