"""Reliability curves: does 80% confidence mean right 8 times of 10?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from ..metrics import Reliability, reliability
from .style import COLOURS, NAMES


def compute_reliability(probabilities: ArrayLike, classes: ArrayLike, bins: int = 15) -> Reliability:
    """Reliability of probabilities (n, K) against true classes (n,); see `tproper.metrics.reliability`."""
    return reliability(classes, probabilities, bins)


def draw_reliability(ax: Any, curves: Mapping[str, Reliability], least: int = 10) -> None:
    """Reliability curves beside the diagonal of perfect calibration.

    A point's area is the share of rows in its bin. A bin of fewer than `least` rows is noise to the eye and is not
    drawn; the calibration error (ECE) in the legend counts all of them.
    """
    ax.plot([0, 1], [0, 1], color="0.6", lw=1, ls=":")
    for name, curve in curves.items():
        many = curve.count >= least
        x, y, share = curve.confidence[many], curve.accuracy[many], curve.count[many] / curve.count.sum()
        label = f"{NAMES.get(name, name)}, ECE {curve.error:.3f}"
        (line,) = ax.plot(x, y, lw=1.2, color=COLOURS.get(name), label=label)
        ax.scatter(x, y, s=8 + 160 * share, color=line.get_color(), clip_on=False, zorder=3)
    ax.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")
    ax.set_xlabel(f"confidence\n(area: share of rows; bins of fewer than {least} rows not drawn)", fontsize=8)
    ax.legend(frameon=False, fontsize=8)
