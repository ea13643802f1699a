"""Reliability curves: does 80% confidence mean right 8 times of 10?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from ..metrics import Reliability, reliability
from .style import COLOURS


def compute_reliability(probabilities: ArrayLike, classes: ArrayLike, bins: int = 15) -> Reliability:
    """Reliability of probabilities (n, K) against true classes (n,); see `tproper.metrics.reliability`."""
    return reliability(classes, probabilities, bins)


def draw_reliability(ax: Any, curves: Mapping[str, Reliability]) -> None:
    """Reliability curves beside the diagonal of perfect calibration."""
    ax.plot([0, 1], [0, 1], color="0.6", lw=1, ls=":")
    for name, curve in curves.items():
        size = 12 + 120 * curve.count / curve.count.sum()
        ax.plot(
            curve.confidence, curve.accuracy, lw=1.2, color=COLOURS.get(name), label=f"{name}, ECE {curve.error:.3f}"
        )
        ax.scatter(curve.confidence, curve.accuracy, s=size, color=COLOURS.get(name))
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
    ax.legend(frameon=False, fontsize=8)
