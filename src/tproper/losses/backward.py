"""Backward correction: one line.

    weak label y  ->  target r = R e_y  ->  loss = F(v) - <r, v>  ->  probabilities = gradient of F at v

The line is `BackwardLoss.line`. Kernels that the registry has for a pair (F, R) compute the same in fewer passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import FloatArray, Work, checks, inner
from ..errors import InputError
from ..potentials import LogSumExp, Potential
from ..transitions import Reconstruction, Transition, reconstruct
from .base import Reduction, WeakLabelLoss, hush
from .given import targets_of
from .kernels import cpu
from .kernels.registry import plan

ROUNDING = 1e-13  # a sum below this share of its terms is zero


class BackwardLoss(WeakLabelLoss):
    """``lambda_{F,R}(v, y) = F(v) - (R^T v)_y``: T-proper for every convex potential F (Theorem 7).

    With log-sum-exp this is backward-corrected cross entropy (BC), in general unbounded from below; with
    ``squeeze=(k, alpha)``, alpha > 1, it is BC + gLS, bounded and still proper (Corollary 15); with ``Brier()`` it is
    bounded for every R with nothing to tune.

    Parameters
    ----------
    transition : Transition
    potential : Potential
        F; cross entropy by default.
    squeeze : (k, alpha), optional
        Shorthand for ``potential.squeezed(k, alpha)``.
    reconstruction : str or Reconstruction
        R, or how to choose it.
    reduction : "mean", "sum" or "none"
    class_weights : (K,) array, optional
        Costs w_z > 0 of the true classes: the loss becomes ``sum_z w_z R_zy lambda_F(v, z)``, whose mean given class z
        is ``w_z lambda_F(v, z)``. Its minimiser is the posterior under the class prior re-weighted by w. The mean
        over a batch divides by the number of examples.
    validate : bool
        Check labels and weights on every call.
    ignore_index : int, optional
        Examples with this label are left out.

    Raises
    ------
    NotReconstructibleError
        T has no left inverse; `ForwardLoss` needs none.
    """

    def __init__(
        self,
        transition: Transition,
        potential: Potential | None = None,
        squeeze: tuple[float, float] | None = None,
        reconstruction: str | Reconstruction = "auto",
        reduction: Reduction = "mean",
        validate: bool = True,
        class_weights: ArrayLike | None = None,
        ignore_index: int | None = None,
    ) -> None:
        super().__init__(transition, reduction, validate, ignore_index)
        potential = LogSumExp() if potential is None else potential
        if not isinstance(potential, Potential):
            raise InputError(f"potential: expected a tproper potential such as LogSumExp(), got {potential!r}")
        if squeeze is not None:
            if not isinstance(squeeze, (tuple, list)) or len(squeeze) != 2:
                raise InputError(f"squeeze: expected a pair (k, alpha), got {squeeze!r}")
            potential = potential.squeezed(*squeeze)
        self.potential = potential
        self.reconstruction = reconstruct(transition, reconstruction)
        self._register(self._made_tables())
        weights = None if class_weights is None else _class_weights(class_weights, transition.num_classes)
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", weights)

    def _made_tables(self) -> dict[str, FloatArray]:
        return self.reconstruction.tables()

    def pointwise(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The line, with the target ``r = R e_y`` of each label."""
        R = self.reconstruction
        return hush(self.line(scores, lambda x: R.weigh(x, labels, self.tables)), R, labels)

    def pointwise_with(self, transitions: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        """The line, with the target of each example's own T."""
        r = targets_of(transitions, labels, self.validate).to(scores.dtype)
        return self.line(scores, lambda x: inner(r, x))

    def line(self, v: Tensor, target: Callable[[Tensor], Tensor]) -> Tensor:
        """``F(v) - <r, v>``, where ``target(x)`` is <r, x>.

        With class weights w the target is w r, of sum s, and the loss ``s F(v) - <w r, v>``.
        """
        F, w = self.potential, self.class_weights
        if w is None:
            out = F.weak_loss(v, target)
            if not F.outgrows_scores:
                return out
            # masked classes, v_z = -inf: the limit is inf whatever the signs of r_z, where F outgrows every <r, v>
            lost = out.isneginf() | (out.isnan() & v.amax(-1).isfinite())
            return out.masked_fill(lost, torch.inf)
        w = w.to(v.dtype)
        return F.weak_loss(v, lambda x: target(w * x), total=target(w.expand_as(v)))

    def _kernel(self, labels: Tensor, dtype: torch.dtype, class_major: bool = False) -> Work | None:
        planned = plan(self)
        if isinstance(planned, str):
            return None
        R = self.reconstruction
        return cpu.hushed(cpu.cross_entropy(planned, R, labels, self.tables, dtype, class_major), R.silent(labels))

    def _closed_form(self, labels: Tensor, dtype: torch.dtype, class_major: bool) -> Work | None:
        """The kernel, or the line with its gradient ``link(v) - r``."""
        work = self._kernel(labels, dtype, class_major)
        if work is not None:
            return work
        R = self.reconstruction
        targets = cpu.laid_out(R._targets(labels, self.tables, dtype), class_major)

        def fenchel_young(v: Tensor, rows: slice, slope: Tensor, share: float) -> Tensor:
            r = targets[rows]
            torch.sub(self.potential.link(v), r, out=slope).mul_(share)
            return self.line(v, lambda x: inner(r, x))

        return cpu.hushed(Work(fenchel_young), R.silent(labels))

    def pair(self) -> tuple[Any, Any] | str:
        """(F, R)."""
        if self.class_weights is not None:
            return "class_weights are given"
        return (self.potential, self.reconstruction) if type(self) is BackwardLoss else super().pair()

    def probabilities(self, scores: Tensor) -> Tensor:
        """The potential's link, projected onto the simplex."""
        return self.potential.probabilities(checks.classes_last(scores, self.transition.num_classes))

    def lower_bounds(self) -> FloatArray:
        """``inf_v lambda_{F,R}(v, y) = -F*(R e_y)`` (Proposition 14)."""
        if self.class_weights is not None:
            return self._weighted_bounds()
        columns, _ = self.reconstruction.orbit_columns()
        return self.reconstruction.per_label(-self.potential.conjugate(torch.as_tensor(columns)).numpy())

    def _weighted_bounds(self) -> FloatArray:
        """r becomes w r, of sum s: ``-s F*(w r / s)`` for s > 0; for s < 0 the loss is concave and has no bound."""
        weighted, s = self.weighted_targets()
        bounds = -s[:, 0] * self.potential.conjugate(weighted / torch.where(s > 0, s, 1.0))
        flat = (s[:, 0] == 0) & (weighted == 0).all(-1)
        return torch.where(s[:, 0] > 0, bounds, torch.where(flat, 0.0, -torch.inf)).numpy()

    def weighted_targets(self) -> tuple[Tensor, Tensor]:
        """w r of every label, and its sum, zero where it is zero but for rounding.  # (M, K), (M, 1)"""
        assert self.class_weights is not None
        weighted = torch.as_tensor(self.reconstruction.matrix().T) * self.class_weights.cpu()
        s = weighted.sum(-1, keepdim=True)
        return weighted, torch.where(s.abs() > ROUNDING * weighted.abs().sum(-1, keepdim=True), s, 0.0)

    def extra_repr(self) -> str:
        """For printing the module."""
        return f"{self.transition.name}, {self.potential.name}, R: {self.reconstruction.method}"


def _class_weights(weights: ArrayLike, num_classes: int) -> Tensor:
    given = checks.array(weights, "class_weights")
    try:
        out = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        out = np.empty(0)
    if out.shape != (num_classes,) or not np.isfinite(out).all() or (out <= 0).any():
        raise InputError(f"class_weights: expected {num_classes} positive numbers, got {weights!r}")
    return torch.as_tensor(out)
