"""The losses of all weak labels over the simplex of three classes, in one picture."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from .._core import Mark
from ..errors import InputError
from ..losses import BackwardLoss
from ..transitions import Transition
from .style import figure, save_picture
from .surfaces import compute_simplex_loss, draw_simplex_loss


def check_drawable(transition: Transition) -> None:
    """Refuse, before the work, what could not be drawn after it."""
    if transition.num_classes != 3:
        raise InputError(f"--plot: expected three classes for a picture of the simplex, got {transition.num_classes}")
    if not all(map(find_spec, ("matplotlib", "mpltern"))):
        raise ModuleNotFoundError("--plot needs mpltern: pip install 'tproper[plots]'")


def draw_transition_losses(transition: Transition, reconstruction: str, path: Path, since: Mark) -> None:
    """One panel per weak label: the loss of BC over the simplex, as in Figure 1 of the paper."""
    import mpltern  # noqa: F401 - registers the ternary projection

    loss = BackwardLoss(transition, reconstruction=transition.reconstruction(reconstruction))
    labels = transition.weak_labels if transition.label_shape else list(range(transition.num_weak_labels))
    columns = min(4, len(labels))
    rows = -(-len(labels) // columns)
    canvas = figure(figsize=(3.6 * columns, 3.3 * rows))
    # by hand: to lay out ternary axes takes matplotlib longer than all the rest
    top = 1 - 0.9 / (3.3 * rows)
    canvas.subplots_adjust(left=0.05, right=0.93, top=top, bottom=0.35 / (3.3 * rows), wspace=0.45, hspace=0.45)
    for i, label in enumerate(labels):
        ax = canvas.add_subplot(rows, columns, i + 1, projection="ternary")
        draw_simplex_loss(ax, compute_simplex_loss(loss, label))
        shown = "{" + ", ".join(map(str, sorted(label))) + "}" if isinstance(label, frozenset) else label
        ax.set_title(f"weak label {shown}", fontsize=9)
    canvas.suptitle(f"backward-corrected cross entropy, {transition.name}")
    save_picture(canvas, path, since)
