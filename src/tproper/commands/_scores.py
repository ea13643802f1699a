"""Scores of a table that is read once, block by block."""

from __future__ import annotations

from typing import Any

Scores = dict[str, Any]


class StreamedScores:
    """To be written."""
