"""Losses: backward ``F(v) - <R e_y, v>``, forward ``-log (T p)_y``, the two batch heuristics, pairs and bags.

Imports from `_core`, `transitions` and `potentials`.
"""

from .backward import BackwardLoss
from .base import Reduction, WeakLabelLoss, bind_evidence, certificate_of
from .batch import BatchRiskLoss, GradientAscentLoss, NonNegativeLoss
from .bounds import Bounds, kinds_of, unknown, weighted
from .counts import AtLeastOneLoss, BagCountLoss
from .forward import ForwardLoss
from .forward_backward import ForwardBackwardLoss
from .kernels.fusing import fuse
from .kernels.registry import Plan, plan_of
from .names import (
    LOSSES,
    loss_from_dict,
    loss_to_dict,
    make_loss,
    make_potential,
    register_loss,
    register_potential,
)
from .pairs import PairLoss

__all__ = [
    "LOSSES",
    "AtLeastOneLoss",
    "BackwardLoss",
    "BagCountLoss",
    "BatchRiskLoss",
    "Bounds",
    "ForwardBackwardLoss",
    "ForwardLoss",
    "GradientAscentLoss",
    "NonNegativeLoss",
    "PairLoss",
    "Plan",
    "Reduction",
    "WeakLabelLoss",
    "bind_evidence",
    "certificate_of",
    "fuse",
    "kinds_of",
    "loss_from_dict",
    "loss_to_dict",
    "make_loss",
    "make_potential",
    "plan_of",
    "register_loss",
    "register_potential",
    "unknown",
    "weighted",
]
