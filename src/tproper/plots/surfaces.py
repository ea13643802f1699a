"""A loss over the 3-class simplex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .._core import FloatArray, checks
from ..errors import InputError
from ..losses import BackwardLoss, WeakLabelLoss


@dataclass(frozen=True)
class SimplexLoss:
    """A weak label's loss over the 3-simplex (Figure 1 of the paper)."""

    points: FloatArray  # (n, 3) probabilities
    values: FloatArray  # (n,) loss
    label: str


def compute_simplex_loss(loss: WeakLabelLoss, label: Any, resolution: int = 90, margin: float = 1e-3) -> SimplexLoss:
    """The loss of one weak label at probabilities p on a triangular grid, through the loss's own link (K = 3)."""
    if loss.transition.num_classes != 3:
        raise InputError(
            f"loss: expected three classes for a picture of the simplex, got {loss.transition.num_classes}"
        )
    checks.integer(resolution, "resolution", 2)
    i, j = np.meshgrid(np.arange(resolution + 1), np.arange(resolution + 1), indexing="ij")
    keep = i + j <= resolution
    grid = np.stack([i[keep], j[keep], resolution - i[keep] - j[keep]], axis=1) / resolution
    points = (1 - 3 * margin) * grid + margin  # the loss may be infinite on the boundary itself
    return SimplexLoss(points, loss_at(loss, label, points), str(label))


def loss_at(loss: WeakLabelLoss, label: Any, points: FloatArray) -> FloatArray:
    """The loss of one weak label at probabilities (n, K), through the loss's own link."""
    p = torch.as_tensor(points)
    scores = loss.potential.inverse_link(p) if isinstance(loss, BackwardLoss) else p.log()
    labels = loss.transition.encode([label])
    with torch.no_grad():
        return loss.pointwise(scores, labels.expand(len(p), *labels.shape[1:])).numpy()


def draw_simplex_loss(ax: Any, data: SimplexLoss, levels: int | FloatArray = 24) -> None:
    """Filled contours on a ternary axis (``fig.add_subplot(projection="ternary")`` with mpltern imported)."""
    t, left, r = data.points.T
    filled = ax.tricontourf(t, left, r, data.values, levels=levels, cmap="viridis", extend="both")
    ax.tricontour(t, left, r, data.values, levels=[0.0], colors="white", linewidths=1.2)
    ax.set_tlabel("$p_1$")
    ax.set_llabel("$p_2$")
    ax.set_rlabel("$p_3$")
    ax.figure.colorbar(filled, ax=ax, fraction=0.04, pad=0.2)
