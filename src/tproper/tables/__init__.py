"""Tables in, models out: what the command works with, for Python as well.

Imports from `evaluation` and the packages above it.
"""

from typing import TYPE_CHECKING

from .._later import names_of

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

__getattr__ = names_of(
    __name__,
    {
        "NO_PICTURE": "from_data",
        "Estimate": "from_data",
        "EstimateOptions": "options",
        "LabelOptions": "options",
        "PrevalenceOptions": "prevalence",
        "Settings": "options",
        "Simulated": "streaming",
        "TableModel": "model",
        "TableOptions": "options",
        "Weakening": "options",
        "at_least": "options",
        "command_terms": "terms",
        "estimate_table": "from_data",
        "model_folder": "model",
        "one_of": "options",
        "pair": "prevalence",
        "prevalence_table": "prevalence",
        "read_table": "frames",
        "simulate": "streaming",
    },
)
