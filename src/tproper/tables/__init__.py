"""Tables in, models out: what the command works with, for Python as well. Names are imported when first asked for.

Imports from `evaluation` and the rooms above it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .frames import read_table
    from .from_data import NO_PICTURE, Estimate, estimate_table
    from .model import TableModel, model_folder
    from .options import EstimateOptions, LabelOptions, Settings, TableOptions, Weakening, at_least, one_of
    from .prevalence import PrevalenceOptions, pair, prevalence_table
    from .streaming import Simulated, simulate
    from .terms import command_terms

__all__ = [
    "NO_PICTURE",
    "Estimate",
    "EstimateOptions",
    "LabelOptions",
    "PrevalenceOptions",
    "Settings",
    "Simulated",
    "TableModel",
    "TableOptions",
    "Weakening",
    "at_least",
    "command_terms",
    "estimate_table",
    "model_folder",
    "one_of",
    "pair",
    "prevalence_table",
    "read_table",
    "simulate",
]

_FILES = {
    "frames": ("read_table",),
    "from_data": ("NO_PICTURE", "Estimate", "estimate_table"),
    "model": ("TableModel", "model_folder"),
    "options": ("EstimateOptions", "LabelOptions", "Settings", "TableOptions", "Weakening", "at_least", "one_of"),
    "prevalence": ("PrevalenceOptions", "pair", "prevalence_table"),
    "streaming": ("Simulated", "simulate"),
    "terms": ("command_terms",),
}
_FILE_OF = {name: file for file, names in _FILES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_FILE_OF[name]}", __name__), name)
    globals()[name] = value
    return value
