"""A reliability diagram of scores from weak and from clean labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import plots
from .._core import Mark
from ..metrics import Calibration
from .streamed import Scores


def draw(
    weak: Scores | None,
    clean: Scores | None,
    path: Path,
    since: Mark | str = "now",
    before: Mapping[str, Any] | None = None,
) -> None:
    """A reliability diagram: accuracy against confidence in bins, with 95% bars, from weak and from clean labels.

    `before` is the curve before calibration, as `Calibration.to_dict` gives it.
    """
    figure = plots.figure(figsize=(4.4, 4.2), layout="constrained")
    ax = figure.add_subplot()
    ax.plot([0, 1], [0, 1], color="0.6", lw=1, ls=":", label="perfectly calibrated")
    if before is not None:
        plots.draw_calibration(ax, before, "0.55", "before calibration")
    blue, orange = plots.COLOURS["forward"], plots.COLOURS["bc"]
    for name, scores, colour in (("weak labels", weak, blue), ("clean labels", clean, orange)):
        curve = None if scores is None else scores.get("calibration")
        if isinstance(curve, Calibration):
            plots.draw_calibration(ax, curve.to_dict(), colour, name)
    ax.set(xlim=(0, 1), ylim=(-0.05, 1.05), xlabel="confidence", ylabel="accuracy")
    ax.legend(frameon=False, fontsize=8)
    plots.save_picture(figure, path, since)
