"""The losses as plain functions of scores and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .._core import Labels
from ..transitions import Transition
from .backward import BackwardLoss
from .base import WeakLabelLoss
from .batch import GradientAscentLoss, NonNegativeLoss
from .forward import ForwardLoss


def _function(loss: Callable[..., WeakLabelLoss]) -> Callable[..., Tensor]:
    """A loss class as a plain function of (scores, labels, transition), with the class's options as keywords."""

    def call(
        scores: Tensor, labels: Labels, transition: Transition, *, weights: Tensor | None = None, **options: Any
    ) -> Tensor:
        own = loss(transition, **options)
        out: Tensor = (own.to(scores.device) if isinstance(scores, Tensor) else own)(scores, labels, weights)
        return out

    name = getattr(loss, "__name__", "loss")
    call.__doc__ = f"`{name}` as a plain function; pass a ready `reconstruction` in a loop, since nothing is kept."
    return call


backward_loss = _function(BackwardLoss)
forward_loss = _function(ForwardLoss)
gradient_ascent_loss = _function(GradientAscentLoss)
non_negative_loss = _function(NonNegativeLoss)
