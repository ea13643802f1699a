"""The work of `tproper inspect`: what a transition allows, and which losses are proper and bounded for it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .. import plots
from .._core import FloatArray, Mark, mark, plain
from ..certificates import Certificate, certify, comparison, critical_k
from ..errors import InputError
from ..losses import BackwardLoss, ForwardLoss, GradientAscentLoss
from ..transitions import Diagnosis, Transition, parse_transition

MOST_LISTED = 10_000  # numbers of a kind, one for each weak label, that JSON lists


@dataclass(frozen=True)
class Inspection:
    """A transition, diagnosed and certified."""

    diagnosis: Diagnosis
    certified: dict[str, Certificate]
    critical_k: FloatArray | None  # one for each weak label, where T has a reconstruction

    def plain(self) -> dict[str, Any]:
        """For JSON; of more than 10,000 labels the count, the least and the greatest number stand for all."""
        out: dict[str, Any] = {"diagnosis": self.diagnosis.to_dict()}
        out["losses"] = {name: c.to_dict(MOST_LISTED) for name, c in self.certified.items()}
        return out | ({} if self.critical_k is None else {"critical_k": plain(self.critical_k, MOST_LISTED)})

    def text(self, full: bool) -> str:
        """For people; `full` adds every certificate."""
        lines = [f"{self.diagnosis}\n", comparison(self.certified)]
        bc = self.certified.get("BC")
        if bc is not None and bc.witness is not None and self.critical_k is not None:
            worst = float(self.critical_k.max())
            lines.append(f"\nBC has no lower bound. {bc.witness}.")
            lines.append(
                f"Squeezing with alpha = 1 would bound it from k = {worst:.6g} on; alpha > 1 does so at any k > 0."
            )
        return "\n".join([*lines, *(f"\n{c}" for c in self.certified.values() if full)])


def inspect_transition(spec: str, k: float, alpha: float, reconstruction: str, plot: Path | None) -> Inspection:
    """Diagnose T, certify the paper's losses and forward correction (alone where T has no R); draw where asked."""
    before = None if plot is None else mark(plot)
    transition = parse_transition(spec)
    if plot is not None:
        check_drawable(transition)
    diagnosis = transition.diagnose()
    certified: dict[str, Certificate] = {}
    critical = None
    if diagnosis.reconstructible:
        R = transition.reconstruction(reconstruction)
        certified["BC"] = certify(BackwardLoss(transition, reconstruction=R))
        squeezed = BackwardLoss(transition, squeeze=(k, alpha), reconstruction=R)
        certified[f"BC+gLS ({k:g}, {alpha:g})"] = certify(squeezed)
        certified["BC+GA"] = certify(GradientAscentLoss(transition, reconstruction=R))
        critical = critical_k(transition, R)
    certified["forward"] = certify(ForwardLoss(transition))
    if plot is not None:
        draw(transition, reconstruction, plot, before)
    return Inspection(diagnosis, certified, critical)


def check_drawable(transition: Transition) -> None:
    """Refuse, before the work, what could not be drawn after it."""
    if transition.num_classes != 3:
        raise InputError(f"--plot: expected three classes for a picture of the simplex, got {transition.num_classes}")
    if not all(map(find_spec, ("matplotlib", "mpltern"))):
        raise ModuleNotFoundError("--plot needs mpltern: pip install 'tproper[plots]'")


def draw(transition: Transition, reconstruction: str, path: Path, since: Mark) -> None:
    """One panel per weak label: the loss of BC over the simplex, as in Figure 1 of the paper."""
    import mpltern  # noqa: F401 - registers the ternary projection

    loss = BackwardLoss(transition, reconstruction=transition.reconstruction(reconstruction))
    labels = transition.weak_labels if transition.label_shape else list(range(transition.num_weak_labels))
    columns = min(4, len(labels))
    rows = -(-len(labels) // columns)
    figure = plots.figure(figsize=(3.6 * columns, 3.3 * rows))
    # by hand: to lay out ternary axes takes matplotlib longer than all the rest
    top = 1 - 0.9 / (3.3 * rows)
    figure.subplots_adjust(left=0.05, right=0.93, top=top, bottom=0.35 / (3.3 * rows), wspace=0.45, hspace=0.45)
    for i, label in enumerate(labels):
        ax = figure.add_subplot(rows, columns, i + 1, projection="ternary")
        plots.draw_simplex_loss(ax, plots.compute_simplex_loss(loss, label))
        shown = "{" + ", ".join(map(str, sorted(label))) + "}" if isinstance(label, frozenset) else label
        ax.set_title(f"weak label {shown}", fontsize=9)
    figure.suptitle(f"backward-corrected cross entropy, {transition.name}")
    plots.save_picture(figure, path, since)
