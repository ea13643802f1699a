"""`tproper train`, `predict`, `evaluate`, `simulate`: from a table to calibrated probabilities, and back."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the commands."""
