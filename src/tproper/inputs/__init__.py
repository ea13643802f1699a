"""Columns of a table to the numbers that a model is trained on, by encoders whose state is plain data.

Imports from `data` and the rooms above it.
"""

from .frames import as_arrow, column_names, take_columns
from .inputs import CellError, Inputs

__all__ = ["CellError", "Inputs", "as_arrow", "column_names", "take_columns"]
