"""What all pictures share: colours and names of losses, the figure, the file; and the curves of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .._core import Mark, atomic_file

#: One colour per loss, in every picture; told apart without red and green, on white and on dark ground.
COLOURS = {"bc": "#c65102", "ga": "#d99a00", "gls": "#00795a", "forward": "#0072b2", "brier": "#7a3e9d"}

#: What a loss is called, in every table and legend.
NAMES = {"bc": "BC", "ga": "BC+GA", "gls": "BC+gLS", "forward": "forward", "brier": "BC with Brier"}

#: The colours of pages (site, reports, model cards), by day and by night; the Explorer has the same.
PAGE_COLOURS = {
    "light": {
        "ground": "#ffffff", "panel": "#f8f9fb", "ink": "#1a1d21", "muted": "#57606a", "line": "#dfe3e8",
        "accent": "#0a5c94", "code": "#f3f5f7",
    },
    "dark": {
        "ground": "#131416", "panel": "#17191c", "ink": "#e4e7eb", "muted": "#9aa4af", "line": "#30353c",
        "accent": "#6cb8f0", "code": "#22262b",
    },
}  # fmt: skip


def can_draw() -> bool:
    """Whether matplotlib is installed; tables and pages do without."""
    return find_spec("matplotlib") is not None


def figure(*args: Any, **kwargs: Any) -> Any:
    """A matplotlib figure on the file-only backend; says what to install where matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("plots need matplotlib: pip install 'tproper[plots]'") from error
    drawing = Figure(*args, **kwargs)
    FigureCanvasAgg(drawing)  # no global state, no display
    return drawing


def new_axes() -> Any:
    """Axes of pyplot, which a notebook shows; says what to install where matplotlib is missing."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("plots need matplotlib: pip install 'tproper[plots]'") from error
    return pyplot.subplots(layout="constrained")[1]


def save_picture(drawing: Any, path: Path, since: Mark | str = "now") -> None:
    """Write a figure in the format that the name ends in (PNG without one), whole or not at all."""
    with atomic_file(path, since=since) as temporary:
        drawing.savefig(temporary, format=path.suffix.lstrip(".").lower() or "png", dpi=150)


def draw_training(ax: Any, risks: Mapping[str, Sequence[float]], bounds: Mapping[str, float]) -> None:
    """Training risk over epochs, with each loss's certified lower bound as a dashed line in its colour.

    The axis is linear between -1 and 1 and logarithmic beyond.
    """
    for name, risk in risks.items():
        (line,) = ax.plot(np.arange(1, len(risk) + 1), risk, color=COLOURS.get(name), label=NAMES.get(name, name))
        if np.isfinite(bounds.get(name, -np.inf)):
            ax.axhline(bounds[name], color=line.get_color(), lw=0.8, ls="--")
    ax.axhline(0, color="0.6", lw=0.8)
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set(xlabel="epoch", ylabel="training risk (dashed: certified bound)")
    ax.legend(frameon=False, fontsize=8)
