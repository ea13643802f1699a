"""Forward correction: the score of ``T p`` at the weak label."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._core import FloatArray, Work, log_mixture
from ..transitions import Transition
from .base import Reduction, WeakLabelLoss
from .kernels import cpu
from .kernels.registry import LogScore

SCORE = LogScore()


class ForwardLoss(WeakLabelLoss):
    """Forward-corrected cross entropy, ``-log (T p)_y`` with p = softmax(scores), exactly in log space.

    T-proper for every T and bounded from below by ``-log max_z T_yz``; strictly proper iff T is reconstructible.
    """

    def __init__(self, transition: Transition, reduction: Reduction = "mean", validate: bool = True) -> None:
        super().__init__(transition, reduction, validate)
        self._register(transition.tables())

    def pointwise(self, scores: Tensor, labels: Tensor) -> Tensor:
        """``-log (T p)_y``; ``inf`` for a label that cannot occur."""
        return -self.transition.log_probability(scores, labels, self.tables)

    def pointwise_with(self, transitions: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        """The same with each example's own row of T."""
        rows = transitions.gather(1, labels[:, None, None].expand(-1, 1, scores.shape[-1]))[:, 0]
        if not rows.requires_grad:
            return -log_mixture(scores, rows.log().to(scores.dtype))
        # T is learned: log T has no gradient where T is zero, but the loss has one, -p_z / (T p)_y
        log_p = torch.log_softmax(scores, -1)
        top = log_p.masked_fill(rows == 0, -torch.inf).amax(-1, keepdim=True).detach()
        top = torch.where(torch.isfinite(top), top, 0.0)
        return -((rows.to(scores.dtype) * (log_p - top).exp()).sum(-1).log() + top[:, 0])

    def _kernel(self, labels: Tensor, dtype: torch.dtype, class_major: bool = False) -> Work | None:
        return cpu.mixture(self.transition.log_rows(labels, self.tables, dtype), class_major)

    _closed_form = _kernel

    def pair(self) -> tuple[Any, Any] | str:
        """(score, T)."""
        return (SCORE, self.transition) if type(self) is ForwardLoss else super().pair()

    def lower_bounds(self) -> FloatArray:
        """``-log max_z T_yz``: reached when all probability sits on the class that makes y likeliest."""
        return 0.0 - self.transition.log_row_maxima()

    def extra_repr(self) -> str:
        """For printing the module."""
        return self.transition.name
