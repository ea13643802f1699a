"""Backward correction: one line.

    weak label y  ->  target r = R e_y  ->  loss = F(v) - <r, v>  ->  probabilities = gradient of F at v

The line is `BackwardLoss.line`. Kernels compute the same in fewer passes where F is log-sum-exp.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import FloatArray, checks, is_finite, tracing, warn
from ..errors import InputError
from ..potentials import LogSumExp, Potential
from ..transitions import Dense, Reconstruction, Targets, Transition, Weighted
from .base import Reduction, WeakLabelLoss
from .bounds import Bounds, bounds_of_targets, kinds_of, unknown
from .given import targets_of
from .kernels import cpu


class BackwardLoss(WeakLabelLoss):
    """The backward loss ``lambda_{F,R}(v, y) = F(v) - (R^T v)_y``: T-proper for every convex potential F (Theorem 7).

    With log-sum-exp this is backward-corrected cross entropy (BC), in general unbounded from below; with
    ``squeeze=(k, alpha)``, alpha > 1, it is BC + gLS, bounded and still proper (Corollary 15); with ``Brier()`` it is
    bounded for every R, with nothing to tune.

    Parameters
    ----------
    transition : Transition or text
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

    Examples
    --------
    >>> import torch, tproper as tp
    >>> loss = tp.BackwardLoss(tp.complementary(3), tp.Brier())
    >>> round(loss(torch.zeros(2, 3), [0, 2]).item(), 4)
    0.6667
    >>> loss.certify().proper
    True
    """

    def __init__(
        self,
        transition: Transition | str,
        potential: Potential | None = None,
        squeeze: tuple[float, float] | None = None,
        reconstruction: str | Reconstruction = "auto",
        reduction: Reduction = "mean",
        *,
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
        self.reconstruction = self.transition.reconstruction(reconstruction)
        self._register(self._made_tables())
        weights = None if class_weights is None else _class_weights(class_weights, self.transition.num_classes)
        self._outside = False  # whether scores outside of F's domain were spoken of
        self._weighted = weights is not None  # quicker to ask than a buffer, at each call
        self.class_weights: Any
        self.register_buffer("class_weights", weights)

    def _made_tables(self) -> dict[str, FloatArray]:
        return self.reconstruction.tables()

    def evidence(self, labels: Tensor, dtype: torch.dtype = torch.float64) -> Targets:
        """The targets ``r = R e_y`` of encoded labels, or ``R s`` of soft ones; with class weights w, ``w r``."""
        r = self.reconstruction.evidence(labels, dtype, self._buffers)  # type: ignore[arg-type]
        return Weighted(r, self.class_weights.to(dtype)) if self._weighted else r

    def pointwise(self, scores: Tensor, labels: Tensor) -> Tensor:
        """``F(v) - <r, v>`` with the target r of each label."""
        return self.line(scores, self.evidence(labels, scores.dtype))

    def pointwise_soft(self, scores: Tensor, shares: Tensor) -> Tensor:
        """``F(v) - <r, v>`` with the target ``r = R s``, which is linear in the shares."""
        return self.line(scores, self.evidence(shares, scores.dtype))

    def pointwise_with(self, transitions: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        """``F(v) - <r, v>`` with the target r of each example's own T."""
        r: Targets = Dense(targets_of(transitions, labels, self.validate).to(scores.dtype))
        if self.class_weights is not None:
            r = Weighted(r, self.class_weights.to(scores.dtype))
        return self.line(scores, r)

    def line(self, v: Tensor, r: Targets) -> Tensor:
        """``s F(v) - <r, v>`` for a target r of sum s, which is 1 without class weights."""
        losses = self.potential.weak_loss(v, r.inner, r.total)
        if not is_finite(losses):
            if self.potential.radius < math.inf:
                self._say_outside(losses)
            losses = self._masked(v, r)  # scores may be infinite
        return r.hush(losses)

    def _say_outside(self, losses: Tensor) -> None:
        """Warn, once, of scores where F is infinite: the loss has no gradient there that would lead back."""
        if self._outside or not tracing.readable(losses) or not bool(losses.isposinf().any()):
            return
        self._outside = True
        F = self.potential
        warn(
            f"scores: {F.name} is infinite where centred scores have a norm above {F.radius:g}, and so is the loss at "
            f"{int(losses.isposinf().sum())} of {losses.numel()} rows; keep scores inside, or use "
            "Spherical(domain='simplex'), which is finite everywhere",
            UserWarning,
        )

    def _masked(self, v: Tensor, r: Targets) -> Tensor:
        """The line where classes Z may be masked, ``v_z = -inf``: its limit as their common score falls.

        Far out the loss rises by ``s F_oo(d) - <r, d>`` for each unit that they fall, d = -1_Z centred and F_oo the
        recession function of F, so that it becomes inf or -inf. What is left at 0 is the loss of the other
        classes, and so it is where all r_z of Z are 0: the masked classes have left.
        """
        F, total = self.potential, r.total
        gone = v.isneginf() & v.amax(-1, keepdim=True).isfinite()
        each = r.dense(v.dtype)
        rest, lost = each.masked_fill(gone, 0.0), torch.where(gone, each, 0.0)
        out = F.weak_loss(v, lambda x: (rest * x.masked_fill(gone, 0.0)).sum(-1), total)
        down = gone.to(v.dtype)
        rises = lost.sum(-1) + total * (F.recession(-down) - down.mean(-1))
        rounding = 1e2 * torch.finfo(v.dtype).eps * (1 + each.abs().amax(-1))
        rises = torch.where((lost != 0).any(-1) & (rises.abs() > rounding), rises, 0.0)
        return out + torch.where(rises > 0, torch.inf, torch.where(rises < 0, -torch.inf, 0.0))

    def _closed_form(self, labels: Tensor, dtype: torch.dtype, class_major: bool) -> cpu.Work | None:
        """The kernel, or the line with its gradient ``link(v) - r``."""
        work = self._kernel(labels, dtype, class_major)
        return work or cpu.line(self.potential, self.line, self.evidence(labels, dtype).flat(dtype, class_major))

    def pair(self) -> tuple[Any, Any] | str:
        """(F, R)."""
        if self._weighted:
            return "class_weights are given"
        return (self.potential, self.reconstruction) if type(self) is BackwardLoss else super().pair()

    def probabilities(self, scores: Tensor) -> Tensor:
        """The potential's link, projected onto the simplex."""
        return self.potential.probabilities(checks.scores(scores, self.transition.num_classes, some=False))

    def lower_bounds(self) -> FloatArray:
        """``inf_v lambda_{F,R}(v, y) = -F*(R e_y)`` (Proposition 14).

        Under class weights w the target is w r, of sum s: ``-s F*(w r / s)`` for s > 0. For s < 0 the loss is concave
        and has no bound.
        """
        if self.bounds_are_of(BackwardLoss):
            known = BackwardLoss.bounds(self)
        else:  # part of what a subclass states
            known = bounds_of_targets(self.potential, self.reconstruction, self.weights_of_classes())
        if known.failure is not None:
            raise known.failure
        return known.rows

    def bounds(self) -> Bounds:
        """The greatest lower bounds ``-F*(r)``, one for each kind of label."""
        if not self.bounds_are_of(BackwardLoss):
            return super().bounds()
        F, R, w = self.potential, self.reconstruction, self.weights_of_classes()
        return bounds_of_targets(F, R, w) if self.is_as_written(BackwardLoss) else unknown(kinds_of(F, R, w))

    def weights_of_classes(self) -> FloatArray | None:
        """The class weights (K,), if there are any."""
        w = self.class_weights
        return None if w is None else w.double().numpy(force=True)

    def scores_of(self, p: Tensor) -> Tensor:
        """The potential's inverse link."""
        return self.potential.inverse_link(p)

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
