"""Pictures of results: drawn by the room of plots, which stands above all that can be drawn."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def draw(what: str, shown: Any, ax: Any, **settings: Any) -> Any:
    """Call ``draw_<what>`` of `tproper.plots` on the axes, or on new ones of pyplot; returns the axes."""
    plots = import_module("tproper.plots")
    place = plots.new_axes() if ax is None else ax
    getattr(plots, f"draw_{what}")(place, shown, **settings)
    return place
