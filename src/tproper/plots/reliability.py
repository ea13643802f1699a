"""Reliability curves: does 80% confidence mean right 8 times of 10?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..metrics import Z95, Calibration, Reliability, Score, reliability
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


def draw_curve(ax: Any, curve: Calibration, name: str = "weak labels") -> None:
    """A curve of `weak_calibration` beside the diagonal of perfect calibration."""
    ax.plot([0, 1], [0, 1], color="0.6", lw=1, ls=":", label="perfectly calibrated")
    draw_calibration(ax, curve.to_dict(), COLOURS["forward"], name)
    ax.set(xlim=(0, 1), ylim=(-0.05, 1.05), xlabel="confidence", ylabel="accuracy")
    ax.legend(frameon=False, fontsize=8)


def draw_score(ax: Any, score: Score) -> None:
    """A score as a point with its 95% interval, within what is possible; hollow where it says nothing."""
    low, high = score.interval
    ends = [x for x in (low, high, score.shown, *score.limits) if np.isfinite(x)]
    if np.isfinite([low, high]).all():
        ax.plot([low, high], [0, 0], color=COLOURS["forward"], lw=2, solid_capstyle="butt")
    fill = COLOURS["forward"] if score.informative else "white"
    ax.plot([score.shown], [0], "o", color=COLOURS["forward"], mfc=fill, ms=8)
    room = 0.05 * (max(ends) - min(ends) or 1.0)
    ax.set(xlim=(min(ends) - room, max(ends) + room), yticks=[], xlabel=score.name)
    ax.set_title(str(score).split(";")[0], fontsize=9)


def draw_calibration(ax: Any, curve: Mapping[str, Any], colour: str, name: str) -> None:
    """A curve of `weak_calibration`, as its `to_dict` gives it: accuracy against confidence in bins, with 95% bars."""
    columns = ("confidence", "accuracy", "accuracy_stderr", "count")
    confidence, accuracy, stderr, count = (
        np.array([np.nan if x is None else x for x in curve["curve"][k]], dtype=np.float64) for k in columns
    )
    used = count > 0
    ax.errorbar(
        confidence[used], accuracy[used], Z95 * np.nan_to_num(stderr[used]), color=colour, marker="o", ms=4, lw=1.2,
        capsize=2, label=f"{name}, error {curve['value']:.3f}",
    )  # fmt: skip
