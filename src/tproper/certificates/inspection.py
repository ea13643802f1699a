"""What a transition allows, and which losses are proper and bounded for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._core import FloatArray, plain
from ..losses import BackwardLoss, ForwardLoss, GradientAscentLoss
from ..transitions import Diagnosis, TransitionLike, make_transition
from .certificate import Certificate, certify, comparison, critical_k

MOST_LISTED = 10_000  # numbers of a kind, one for each weak label, that JSON lists


@dataclass(frozen=True)
class Inspection:
    """What a transition allows: its diagnosis, and the certificates of losses. `inspect` makes it; it prints as tables.

    Attributes
    ----------
    diagnosis : Diagnosis
        Rank, condition, classes that look alike.
    certified : dict
        A `Certificate` by the name of the loss.
    critical_k : (M,) array or None
        See `critical_k`; None where T has no R.

    Examples
    --------
    >>> import tproper as tp
    >>> found = tp.inspect(tp.coarse_labels([[0, 1], [2]]))
    >>> list(found.certified), found.critical_k
    (['forward'], None)
    """

    diagnosis: Diagnosis
    certified: dict[str, Certificate]
    critical_k: FloatArray | None  # one for each weak label, where T has a reconstruction

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """For JSON; of more than 10,000 labels the count, the least and the greatest number stand for all."""
        out: dict[str, Any] = {"diagnosis": self.diagnosis.to_dict()}
        out["losses"] = {name: c.to_dict(MOST_LISTED) for name, c in self.certified.items()}
        return out | ({} if self.critical_k is None else {"critical_k": plain(self.critical_k, MOST_LISTED)})

    def text(self, full: bool = False) -> str:
        """For people; `full` adds every certificate."""
        lines = [f"{self.diagnosis}\n", comparison(self.certified)]
        bc = self.certified.get("BC")
        if bc is not None and bc.witness is not None and self.critical_k is not None:
            worst = float(self.critical_k.max())
            lines.append(f"\nBC has no lower bound: {bc.witness}.")
            lines.append(
                f"Squeezing with alpha = 1 would bound it from k = {worst:.6g} on; alpha > 1 does so at any k > 0."
            )
        return "\n".join([*lines, *(f"\n{c}" for c in self.certified.values() if full)])


def inspect(transition: TransitionLike, k: float = 1.0, alpha: float = 2.0, reconstruction: str = "auto") -> Inspection:
    """Diagnose T, and certify the paper's losses and the forward loss for it (the last alone where T has no R).

    Parameters
    ----------
    transition : Transition, text or matrix
    k, alpha : float
        The squeezing of BC+gLS.
    reconstruction : str
        The R of the backward losses.

    Returns
    -------
    Inspection
        ``.diagnosis``, ``.certified`` (a `Certificate` by the name of the loss), ``.critical_k``; prints as the command
        ``tproper inspect`` does.

    Examples
    --------
    >>> import tproper as tp
    >>> found = tp.inspect("complementary:4")
    >>> found.diagnosis.rank, found.certified["forward"].lower_bounded
    (4, True)
    """
    transition = make_transition(transition)
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
    return Inspection(diagnosis, certified, critical)
