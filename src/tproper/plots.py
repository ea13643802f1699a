"""Pictures: ``compute_*`` returns data, ``draw_*(ax, data)`` draws them. Needs the extra ``tproper[plots]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from . import _checks
from ._checks import FloatArray
from .losses import BackwardLoss, WeakLabelLoss

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


@dataclass(frozen=True)
class SimplexLoss:
    """A weak label's loss over the 3-simplex (Figure 1 of the paper)."""

    points: FloatArray  # (n, 3) probabilities
    values: FloatArray  # (n,) loss
    label: str


def compute_simplex_loss(loss: WeakLabelLoss, label: Any, resolution: int = 90, margin: float = 1e-3) -> SimplexLoss:
    """The loss of one weak label at probabilities p on a triangular grid, through the loss's own link (K = 3)."""
    if loss.transition.num_classes != 3:
        raise ValueError(
            f"loss: expected three classes for a picture of the simplex, got {loss.transition.num_classes}"
        )
    _checks.integer(resolution, "resolution", 2)
    i, j = np.meshgrid(np.arange(resolution + 1), np.arange(resolution + 1), indexing="ij")
    keep = i + j <= resolution
    grid = np.stack([i[keep], j[keep], resolution - i[keep] - j[keep]], axis=1) / resolution
    points = (1 - 3 * margin) * grid + margin  # the loss may be infinite on the boundary itself
    p = torch.as_tensor(points)
    scores = loss.potential.inverse_link(p) if isinstance(loss, BackwardLoss) else p.log()
    labels = loss.transition.encode([label])
    with torch.no_grad():
        values = loss.pointwise(scores, labels.expand(len(p), *labels.shape[1:]))
    return SimplexLoss(points, values.numpy(), str(label))


def draw_simplex_loss(ax: Any, data: SimplexLoss, levels: int = 24) -> None:
    """Filled contours on a ternary axis (``fig.add_subplot(projection="ternary")`` with mpltern imported)."""
    t, left, r = data.points.T
    filled = ax.tricontourf(t, left, r, data.values, levels=levels, cmap="viridis")
    ax.tricontour(t, left, r, data.values, levels=[0.0], colors="white", linewidths=1.2)
    ax.set_tlabel("$p_1$")
    ax.set_llabel("$p_2$")
    ax.set_rlabel("$p_3$")
    ax.figure.colorbar(filled, ax=ax, fraction=0.04, pad=0.12)


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
