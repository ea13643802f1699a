"""Properness, lower bounds and witnesses of losses, and the monitor that holds a training run to them.

Imports from `losses` and the packages above it.
"""

from .certificate import Certificate, Decomposition, Witness, certify, comparison, critical_k, decompose
from .inspection import Inspection, inspect
from .monitor import BoundViolationWarning, LossMonitor, UnboundedLossWarning

__all__ = [
    "BoundViolationWarning",
    "Certificate",
    "Decomposition",
    "Inspection",
    "LossMonitor",
    "UnboundedLossWarning",
    "Witness",
    "certify",
    "comparison",
    "critical_k",
    "decompose",
    "inspect",
]
