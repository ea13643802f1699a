"""Losses of a whole batch's risk: gradient ascent (GA) and the non-negative variant. Bounded, not proper."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from torch import Tensor

from .._core import FloatArray
from ..potentials import LogSumExp
from ..transitions import Reconstruction, Transition
from .base import Reduction, WeakLabelLoss, weighted
from .bounds import Bounds, stated
from .given import targets_of


class BatchRiskLoss(WeakLabelLoss):
    """Losses of a whole batch built from the class risks ``mean_i R[z, y_i] l(v_i, z)``, l = cross entropy.

    There is no pointwise loss, so there is no reduction either: calling gives one number.
    """

    def __init__(
        self,
        transition: Transition | str,
        *,
        reconstruction: str | Reconstruction = "auto",
        validate: bool = True,
        ignore_index: int | None = None,
    ) -> None:
        super().__init__(transition, "mean", validate, ignore_index)
        self.potential = LogSumExp()
        self.reconstruction = self.transition.reconstruction(reconstruction)
        self._register(self._made_tables())

    def _made_tables(self) -> dict[str, FloatArray]:
        return self.reconstruction.tables()

    def pointwise(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Each example's share of the class risks: ``R[z, y] l(v, z)`` (..., K)."""
        r = self.reconstruction.evidence(labels, scores.dtype, self.tables)
        return r.hush(self.shares(r.dense(scores.dtype), scores))

    def pointwise_with(self, transitions: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        """The risk of a batch whose examples each have a T of their own: the targets are ``R_i e_{y_i}``."""
        targets = targets_of(transitions, labels, self.validate).to(scores.dtype)
        return self.shares(targets, scores)

    def shares(self, targets: Tensor, scores: Tensor) -> Tensor:
        """``r_z l(v, z)`` (..., K), in which the infinite loss of a masked class counts for nothing where r_z is 0."""
        losses = self.potential.class_losses(scores)
        return targets * losses.masked_fill((targets == 0) & losses.isinf(), 0.0)

    def class_risks(self, shares: Tensor, weights: Tensor | None) -> Tensor:
        """Mean over the batch (weighted), one number per class."""
        shares = shares.reshape(-1, shares.shape[-1])
        if weights is None:
            return shares.mean(0)
        return weighted(shares, weights.reshape(-1)).sum(0) / weights.sum()

    @abstractmethod
    def risk(self, class_risks: Tensor) -> Tensor:
        """The loss of a batch with these class risks (K,)."""

    def _reduce(self, losses: Tensor, weights: Tensor | None, reduction: Reduction = "mean") -> Tensor:
        return weighted(losses, weights) if reduction == "none" else self.risk(self.class_risks(losses, weights))

    def lower_bounds(self) -> FloatArray:
        """0 for every label: a batch's loss cannot be negative, and tends to 0 on some path."""
        kinds = self.reconstruction.kinds()
        known = any(map(self.is_as_written, (GradientAscentLoss, NonNegativeLoss)))
        return kinds.spread(np.full(len(kinds), 0.0 if known else np.nan))

    def bounds(self) -> Bounds:
        """Those of a whole batch."""
        return stated(self.lower_bounds(), self.transition, "any batch")

    def extra_repr(self) -> str:
        """For printing the module."""
        return f"{self.transition.name}, R: {self.reconstruction.method}"


class GradientAscentLoss(BatchRiskLoss):
    """The paper's BC + GA: ``sum_z | class risk of z |`` over a batch. Bounded by 0; improper for finite batches.

    The class risk of z is the batch mean of ``R[z, y_i] (-log p_i[z])``, which is positive in expectation. Where it is
    negative its gradient is turned around. With infinite batches the loss equals backward-corrected cross entropy.

    Parameters
    ----------
    transition : Transition or text
        T.
    reconstruction : str or Reconstruction
        R, or how to choose it.
    validate : bool
        Check labels and weights on every call.
    ignore_index : int, optional
        Examples with this label are left out.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> loss = tp.GradientAscentLoss(tp.complementary(3))
    >>> bool(loss(torch.zeros(4, 3), [0, 1, 2, 0]) >= 0)
    True
    >>> loss.certify().proper
    False
    """

    def risk(self, class_risks: Tensor) -> Tensor:
        """``sum_z | class risk of z |``."""
        return class_risks.abs().sum()


class NonNegativeLoss(BatchRiskLoss):
    """The ReLU variant of `GradientAscentLoss`: ``sum_z max(class risk of z, 0)``. Bounded by 0; improper for finite
    batches.

    Parameters
    ----------
    transition : Transition or text
        T.
    reconstruction : str or Reconstruction
        R, or how to choose it.
    validate : bool
        Check labels and weights on every call.
    ignore_index : int, optional
        Examples with this label are left out.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> loss = tp.NonNegativeLoss(tp.complementary(3))
    >>> bool(loss(torch.zeros(4, 3), [0, 1, 2, 0]) >= 0)
    True
    """

    def risk(self, class_risks: Tensor) -> Tensor:
        """``sum_z max(class risk of z, 0)``."""
        return class_risks.clamp_min(0).sum()
