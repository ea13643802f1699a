"""Reliability curves: does 80% confidence mean right 8 times of 10?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._core import FloatArray
from .style import COLOURS


@dataclass(frozen=True)
class Reliability:
    """Top-label confidence against accuracy, in bins of equal width."""

    confidence: FloatArray  # mean confidence of each bin that has examples
    accuracy: FloatArray
    count: FloatArray
    error: float  # expected calibration error


def compute_reliability(probabilities: ArrayLike, classes: ArrayLike, bins: int = 15) -> Reliability:
    """Reliability of probabilities (n, K) against true classes (n,), and ``ECE = sum_b n_b/n |conf_b - acc_b|``."""
    p, z = np.asarray(probabilities, dtype=np.float64), np.asarray(classes)
    confidence, hit = p.max(axis=1), p.argmax(axis=1) == z
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    count = np.bincount(bin_of, minlength=bins).astype(float)
    used = count > 0
    conf = np.bincount(bin_of, confidence, bins)[used] / count[used]
    acc = np.bincount(bin_of, hit, bins)[used] / count[used]
    return Reliability(conf, acc, count[used], float((count[used] * np.abs(conf - acc)).sum() / len(z)))


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
