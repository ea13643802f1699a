"""Input rules and their messages, numerics, tracing, and the block-wise mechanism that the losses' fast paths share.

Imports nothing of tproper.
"""

from . import checks, tracing
from .blocks import Work, add_at, softmax_into, value_and_slope, with_slope
from .checks import (
    COLUMN_SUM_TOL,
    RANK_TOL,
    SIMPLEX_TOL,
    ConditioningWarning,
    FloatArray,
    Labels,
    NotReconstructibleError,
)
from .numerics import (
    centre,
    critical_k_of,
    entmax,
    in_simplex,
    increasing_root,
    look_up,
    project_simplex,
    simplex_threshold,
    warm_root,
)
from .tracing import forward_mode, readable, traced, transformed

__all__ = [
    "COLUMN_SUM_TOL",
    "RANK_TOL",
    "SIMPLEX_TOL",
    "ConditioningWarning",
    "FloatArray",
    "Labels",
    "NotReconstructibleError",
    "Work",
    "add_at",
    "centre",
    "checks",
    "critical_k_of",
    "entmax",
    "forward_mode",
    "in_simplex",
    "increasing_root",
    "look_up",
    "project_simplex",
    "readable",
    "simplex_threshold",
    "softmax_into",
    "traced",
    "tracing",
    "transformed",
    "value_and_slope",
    "warm_root",
    "with_slope",
]
