"""Columns of a table to the numbers that a model is trained on, by encoders whose state is plain data.

Imports from `data` and the packages above it.
"""

from .columns import Columns
from .drift import Drift
from .frames import as_arrow, column_names, take_columns
from .inputs import CellError, Inputs, UnseenWarning
from .kinds import KINDS, LEFT_OUT, inferred, slips

__all__ = [
    "KINDS",
    "LEFT_OUT",
    "CellError",
    "Columns",
    "Drift",
    "Inputs",
    "UnseenWarning",
    "as_arrow",
    "column_names",
    "inferred",
    "slips",
    "take_columns",
]
