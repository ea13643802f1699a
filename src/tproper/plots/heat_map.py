"""T as a heat map: a row for each weak label, a column for each class, with 95% intervals where T is estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core import FloatArray
from ..errors import InputError
from ..transitions import SET_SEPARATOR, Transition, space_of

WRITTEN = 12  # classes up to which the numbers stand in the cells
DARK = 0.55  # probability from which they are white


@dataclass(frozen=True)
class TransitionMap:
    """What is drawn."""

    matrix: FloatArray  # (M, K)
    low: FloatArray | None  # ends of 95% intervals; None where T is known
    high: FloatArray | None
    labels: list[str]
    classes: list[str]
    title: str


def compute_transition_map(transition: Transition, classes: Sequence[Any], title: str = "") -> TransitionMap:
    """T with its names, and the intervals of an estimated one."""
    if len(classes) != transition.num_classes:
        raise InputError(f"classes: expected the names of {transition.num_classes} classes, got {len(classes)}")
    low = high = None
    if transition.posterior is not None:
        low, high = transition.posterior.interval(0.95)
    names = [
        SET_SEPARATOR.join(sorted(map(str, n))) if isinstance(n, frozenset) else str(n)
        for n in space_of(transition, classes).names
    ]
    return TransitionMap(transition.matrix(), low, high, names, [str(c) for c in classes], title or transition.name)


def draw_transition(ax: Any, transition: Transition, classes: Sequence[Any] | None = None, title: str = "") -> Any:
    """T as `draw_transition_map` draws it; classes are numbered where nobody names them."""
    names = range(transition.num_classes) if classes is None else classes
    return draw_transition_map(ax, compute_transition_map(transition, list(names), title))


def draw_transition_map(ax: Any, data: TransitionMap) -> Any:
    """Cells from white (0) to dark (1), with their values up to 12 classes; returns the image, for a colour bar."""
    M, K = data.matrix.shape
    image = ax.imshow(data.matrix, vmin=0.0, vmax=1.0, cmap="Blues", aspect="auto")
    if K <= WRITTEN and M <= 3 * WRITTEN:
        for y in range(M):
            for z in range(K):
                text = f"{data.matrix[y, z]:.2f}"
                if data.low is not None and data.high is not None:
                    text += f"\n{data.low[y, z]:.2f}-{data.high[y, z]:.2f}"
                colour = "white" if data.matrix[y, z] > DARK else "black"
                ax.text(z, y, text, ha="center", va="center", fontsize=7, color=colour)
        ax.set_xticks(np.arange(K), data.classes, rotation=45 if max(map(len, data.classes)) > 4 else 0)
        ax.set_yticks(np.arange(M), data.labels)
    ax.set(xlabel="class", ylabel="weak label")
    ax.set_title(data.title, fontsize=9)
    return image
