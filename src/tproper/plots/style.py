"""Pictures: ``compute_*`` returns data, ``draw_*(ax, data)`` draws them. Needs the extra ``tproper[plots]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

COLOURS = {"bc": "#d1495b", "ga": "#edae49", "gls": "#00798c", "forward": "#30638e", "brier": "#6a4c93"}


def figure(*args: Any, **kwargs: Any) -> Any:
    """A matplotlib figure on the file-only backend; says what to install where matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("plots need matplotlib: pip install 'tproper[plots]'") from error
    made = Figure(*args, **kwargs)
    FigureCanvasAgg(made)  # no global state, no display
    return made


def draw_training(ax: Any, risks: Mapping[str, Sequence[float]], bounds: Mapping[str, float]) -> None:
    """Training risk over epochs, with each loss's certified lower bound as a dashed line in its colour."""
    for name, risk in risks.items():
        ax.plot(np.arange(1, len(risk) + 1), risk, color=COLOURS.get(name), label=name)
        if np.isfinite(bounds.get(name, -np.inf)):
            ax.axhline(bounds[name], color=COLOURS.get(name), lw=0.8, ls="--")
    ax.axhline(0, color="0.6", lw=0.8)
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set(xlabel="epoch", ylabel="training risk (dashed: certified bound)")
    ax.legend(frameon=False, fontsize=8)
