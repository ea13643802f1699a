"""Columns of a table to the numbers that a model is trained on, by encoders whose state is plain data.

Imports from `data` and the rooms above it.
"""

from .frames import column_names
from .inputs import CellError, Inputs

__all__ = ["CellError", "Inputs", "column_names"]
