"""Input rules and their messages, numerics, tracing, files that are complete or absent, plugins.

Imports nothing of tproper.
"""

from . import checks, plugins, tracing
from .checks import (
    COLUMN_SUM_TOL,
    RANK_TOL,
    SIMPLEX_TOL,
    ConditioningWarning,
    FloatArray,
    Labels,
    NotReconstructibleError,
)
from .deprecation import deprecated, renamed_argument
from .encodings import other_encoding
from .files import Mark, TakenError, atomic_file, atomic_folder, mark, sweep, write_file
from .finite import Before, NonFiniteError, all_finite, finite_rows, optimizer_tensors
from .grouping import Split, compact, fold_numbers, group_codes, held_out_rows, random_folds
from .history import thin
from .logs import tell
from .memory import check_room, free_memory
from .mixture import mixture_shares
from .numerics import (
    as_tensors,
    centre,
    centred_basis,
    centred_solve,
    critical_k_of,
    entmax,
    in_simplex,
    increasing_root,
    inner,
    is_finite,
    limited_deviations,
    log_mixture,
    log_total,
    look_up,
    project_simplex,
    safe_log,
    short_of_one,
    simplex_threshold,
    spherical_threshold,
    standardised,
    units,
)
from .pictures import draw
from .plain import as_read, count_text, finite_number, json_hash, json_text, plain, read_json
from .progress import Progress, lines_of
from .sealed import DamagedError, read_sealed, write_sealed
from .streams import drawn_classes, label_stream, seeded_torch
from .values import ByValue
from .warned import gathered_warnings, warn

__all__ = [
    "COLUMN_SUM_TOL",
    "RANK_TOL",
    "SIMPLEX_TOL",
    "Before",
    "ByValue",
    "ConditioningWarning",
    "DamagedError",
    "FloatArray",
    "Labels",
    "Mark",
    "NonFiniteError",
    "NotReconstructibleError",
    "Progress",
    "Split",
    "TakenError",
    "all_finite",
    "as_read",
    "as_tensors",
    "atomic_file",
    "atomic_folder",
    "centre",
    "centred_basis",
    "centred_solve",
    "check_room",
    "checks",
    "compact",
    "count_text",
    "critical_k_of",
    "deprecated",
    "draw",
    "drawn_classes",
    "entmax",
    "finite_number",
    "finite_rows",
    "fold_numbers",
    "free_memory",
    "gathered_warnings",
    "group_codes",
    "held_out_rows",
    "in_simplex",
    "increasing_root",
    "inner",
    "is_finite",
    "json_hash",
    "json_text",
    "label_stream",
    "limited_deviations",
    "lines_of",
    "log_mixture",
    "log_total",
    "look_up",
    "mark",
    "mixture_shares",
    "optimizer_tensors",
    "other_encoding",
    "plain",
    "plugins",
    "project_simplex",
    "random_folds",
    "read_json",
    "read_sealed",
    "renamed_argument",
    "safe_log",
    "seeded_torch",
    "short_of_one",
    "simplex_threshold",
    "spherical_threshold",
    "standardised",
    "sweep",
    "tell",
    "thin",
    "tracing",
    "units",
    "warn",
    "write_file",
    "write_sealed",
]
