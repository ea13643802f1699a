"""The losses: one line for all of backward correction, one for forward correction, and two bounded heuristics.

    weak label y  ->  target r = R e_y  ->  loss = F(v) - <r, v>  ->  probabilities = gradient of F at v

The line is `BackwardLoss.pointwise`. Losses are pointwise; `reduce` puts weights and reductions on top.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from . import _checks
from ._checks import FloatArray, Labels
from ._numerics import centre
from ._passes import squared_deviation, uniform_cross_entropy
from ._sets import set_cross_entropy
from .potentials import LogSumExp, Potential, Squeezed
from .reconstructions import (
    Reconstruction,
    SetReconstruction,
    UniformReconstruction,
    per_example_targets,
    reconstruct,
)
from .transitions import Tables, Transition, log_mixture

Reduction = Literal["none", "mean", "sum"]
ROUNDING = 1e-13  # a sum below this share of its terms is zero


def reduce(losses: Tensor, reduction: Reduction, weights: Tensor | None = None) -> Tensor:
    """Weights, then none, mean or sum. The mean of weighted losses is divided by the sum of the weights."""
    if weights is not None:  # weight zero leaves an example out, even one whose loss is infinite
        losses = losses.masked_fill(weights == 0, 0.0) * weights
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if weights is None else losses.sum() / weights.sum()


class WeakLabelLoss(nn.Module, ABC):
    """What all losses share: labels in, a pointwise loss, weights and a reduction out.

    Called as ``loss(scores, labels, weights=None, transitions=None)``:

    * scores (..., K): the model's raw outputs;
    * labels: weak labels as the transition takes them ((...) indices, (..., K) candidate masks, ...);
    * weights (...): optional example weights;
    * transitions (n, M, K): optional, one T per example (instance-dependent noise); replaces `transition`.

    Tables follow ``.to(device)`` and are part of ``state_dict()``. Labels are checked on every call; pass
    ``validate=False`` to skip that (in plain PyTorch on a GPU it costs a synchronisation).

    On CUDA, structured losses run in one Triton kernel (`tproper.fused`); ``backend_for(scores)`` says what runs,
    and ``loss.backend = "torch"`` asks for plain PyTorch. The kernel checks labels as it goes: after a loss's first
    call, which looks beforehand, a bad label makes the loss NaN and one of the next calls raises the error.
    """

    backend: Literal["auto", "torch"] = "auto"
    # Filled in by fused.py, which stands below this file: imports point one way only.
    _fast_path: ClassVar[Callable[..., Tensor | None]] = staticmethod(lambda *call: None)
    _obstacle: ClassVar[Callable[..., str | None]] = staticmethod(lambda *call: "tproper.fused is not loaded")

    def backend_for(self, scores: Tensor, weights: Any = None) -> str:
        """``"triton"``, or ``"torch: ..."`` with the reason, for a call with these scores."""
        found = "asked for" if self.backend == "torch" else type(self)._obstacle(self, scores, weights)
        return "triton" if found is None else f"torch: {found}"

    def __init__(self, transition: Transition, reduction: Reduction, validate: bool) -> None:
        super().__init__()
        if not isinstance(transition, Transition):
            raise ValueError(f"transition: expected a tproper.Transition, got {type(transition).__name__}")
        if reduction not in ("none", "mean", "sum"):
            raise ValueError(f"reduction: expected 'none', 'mean' or 'sum', got {reduction!r}")
        self.transition = transition
        self.reduction: Reduction = reduction
        self.validate = validate

    def _register(self, tables: dict[str, FloatArray]) -> None:
        self._table_names = tuple(tables)
        for name, array in tables.items():
            self.register_buffer(name, torch.as_tensor(np.array(array)))

    @property
    def tables(self) -> Tables:
        """The buffers, by name."""
        return {name: getattr(self, name) for name in self._table_names}

    def forward(
        self, scores: Tensor, labels: Labels, weights: Tensor | None = None, transitions: Tensor | None = None
    ) -> Tensor:
        """The reduced loss of a batch."""
        scores = _checks.scores(scores, self.transition.num_classes)
        fast = type(self)._fast_path(self, scores, labels, weights) if transitions is None else None
        if fast is not None:
            return fast
        dtype = scores.dtype
        if dtype in (torch.float16, torch.bfloat16):  # sums over classes need float32
            scores = scores.float()
        if transitions is None:
            encoded = self.transition.encode(labels, scores.device, self.validate)
            _checks.same_leading_shape(scores, encoded, self.transition.per_class_labels)
            losses = self.pointwise(scores, encoded)
        else:
            transitions, encoded = _per_example(transitions, labels, scores, self.validate)
            losses = self.pointwise_with(transitions, scores, encoded)
        if weights is not None:
            weights = _checks.example_weights(weights, scores[..., 0], self.validate)
        return self._reduce(losses, weights).to(dtype)

    def _reduce(self, losses: Tensor, weights: Tensor | None) -> Tensor:
        return reduce(losses, self.reduction, weights)

    @abstractmethod
    def pointwise(self, scores: Tensor, labels: Tensor) -> Tensor:
        """One loss per example, for encoded labels."""

    @abstractmethod
    def pointwise_with(self, transitions: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        """The same with one T per example."""

    def probabilities(self, scores: Tensor) -> Tensor:
        """Class probabilities by this loss's own link."""
        return torch.softmax(scores, -1)

    @abstractmethod
    def lower_bounds(self) -> FloatArray:
        """The greatest lower bound of the loss for each weak label, ``-inf`` where there is none.

        In the order of the transition's rows; one per set size for candidate sets of more than 12 classes.
        """

    # Filled in by certificates.py, which stands below this file: imports point one way only.
    _certify: ClassVar[Callable[..., Any]]

    def certify(self) -> Any:
        """Properness and boundedness of this loss, with evidence: `tproper.certify(self)`."""
        return type(self)._certify(self)


def _per_example(transitions: Tensor, labels: Labels, scores: Tensor, validate: bool) -> tuple[Tensor, Tensor]:
    n, K = scores.shape if scores.ndim == 2 else (-1, -1)
    try:
        T = torch.as_tensor(transitions, device=scores.device)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"transitions: expected an array (n, weak labels, K), got {_checks.short(transitions)}"
        ) from None
    if not T.is_floating_point() or T.dtype in (torch.float16, torch.bfloat16):
        T = T.float()  # a float64 T is kept as it is: targets need its digits
    if T.ndim != 3 or T.shape[0] != n or T.shape[2] != K:
        raise ValueError(
            f"transitions: expected shape (n, weak labels, K) for scores {tuple(scores.shape)}, got {tuple(T.shape)}"
        )
    # float32 column sums are one to about 1e-6 each; 1e-4 leaves room for many weak labels
    if validate and _checks.readable(T) and not bool(((T >= 0).all()) & ((T.sum(1) - 1).abs() <= 1e-4).all()):
        raise ValueError("transitions: expected every T[i] to have columns of probabilities that sum to 1")
    encoded = _checks.index_labels(labels, T.shape[1], device=scores.device, validate=validate)
    _checks.same_leading_shape(scores, encoded, per_class=False)
    return T, encoded


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
    ) -> None:
        super().__init__(transition, reduction, validate)
        potential = LogSumExp() if potential is None else potential
        if not isinstance(potential, Potential):
            raise ValueError(f"potential: expected a tproper potential such as LogSumExp(), got {potential!r}")
        if squeeze is not None:
            if not isinstance(squeeze, (tuple, list)) or len(squeeze) != 2:
                raise ValueError(f"squeeze: expected a pair (k, alpha), got {squeeze!r}")
            potential = potential.squeezed(*squeeze)
        self.potential = potential
        self.reconstruction = reconstruct(transition, reconstruction)
        self._register(self.reconstruction.tables())
        weights = None if class_weights is None else _class_weights(class_weights, transition.num_classes)
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", weights)

    def pointwise(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The line: ``F(v) - <r, v>``."""
        F, R = self.potential, self.reconstruction
        base, k, alpha = (F.base, F.k, F.alpha) if isinstance(F, Squeezed) else (F, 0.0, 2.0)
        if self.class_weights is None and isinstance(base, LogSumExp) and alpha == 2:  # in fewer passes
            if isinstance(R, UniformReconstruction):
                return uniform_cross_entropy(scores, labels, R.coefficient, k)
            if isinstance(R, SetReconstruction):
                return set_cross_entropy(scores, labels, *R._two_values(labels, self.tables, scores.dtype), k)
        F, penalty = _split(self.potential, scores)
        if self.class_weights is not None:
            weights = self.class_weights.to(scores.dtype)
            own = R.weigh(weights.expand_as(scores), labels, self.tables)  # mean weight of y
            return F.weak_loss(scores, lambda x: R.weigh(x * weights, labels, self.tables), own) + own * penalty
        if isinstance(F, LogSumExp) and isinstance(R, UniformReconstruction):
            return uniform_cross_entropy(scores, labels, R.coefficient) + penalty
        return F.weak_loss(scores, lambda x: R.weigh(x, labels, self.tables)) + penalty

    def pointwise_with(self, transitions: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        """The line with each example's own target."""
        F, penalty = _split(self.potential, scores)
        targets = per_example_targets(transitions, labels, self.validate).to(scores.dtype)
        total: Tensor | float = 1.0
        if self.class_weights is not None:
            targets = targets * self.class_weights.to(targets)
            total = targets.sum(-1)
        return F.weak_loss(scores, lambda x: (targets * x).sum(-1), total) + total * penalty

    def probabilities(self, scores: Tensor) -> Tensor:
        """The potential's link, projected onto the simplex."""
        return self.potential.probabilities(scores)

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
    try:
        out = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        out = np.empty(0)
    if out.shape != (num_classes,) or not np.isfinite(out).all() or (out <= 0).any():
        raise ValueError(f"class_weights: expected {num_classes} positive numbers, got {weights!r}")
    return torch.as_tensor(out)


def _split(potential: Potential, scores: Tensor) -> tuple[Potential, Tensor | float]:
    """Take squeezing apart, so that its one number per example is not spread over the classes."""
    if isinstance(potential, Squeezed):
        if potential.alpha == 2:
            return potential.base, potential.k / 2 * squared_deviation(scores)
        return potential.base, potential.penalty(centre(scores))
    return potential, 0.0


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

    def lower_bounds(self) -> FloatArray:
        """``-log max_z T_yz``: reached when all probability sits on the class that makes y likeliest."""
        return 0.0 - self.transition.log_row_maxima()

    def extra_repr(self) -> str:
        """For printing the module."""
        return self.transition.name


class _BatchRiskLoss(WeakLabelLoss):
    """Losses of a whole batch built from the class risks ``mean_i R[z, y_i] l(v_i, z)``, l = cross entropy.

    There is no pointwise loss, so there is no reduction either: calling gives one number.
    """

    def __init__(
        self, transition: Transition, reconstruction: str | Reconstruction = "auto", validate: bool = True
    ) -> None:
        super().__init__(transition, "mean", validate)
        self.potential = LogSumExp()
        self.reconstruction = reconstruct(transition, reconstruction)
        self._register(self.reconstruction.tables())

    def pointwise(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Each example's share of the class risks: ``R[z, y] l(v, z)`` (..., K)."""
        targets = self.reconstruction._targets(labels, self.tables, scores.dtype)
        return targets * self.potential.class_losses(scores)

    def pointwise_with(self, transitions: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        """The same with each example's own target."""
        targets = per_example_targets(transitions, labels, self.validate).to(scores.dtype)
        return targets * self.potential.class_losses(scores)

    def class_risks(self, shares: Tensor, weights: Tensor | None) -> Tensor:
        """Mean over the batch (weighted), one number per class."""
        shares = shares.reshape(-1, shares.shape[-1])
        if weights is None:
            return shares.mean(0)
        weights = weights.reshape(-1, 1)
        return (shares * weights).sum(0) / weights.sum()

    def lower_bounds(self) -> FloatArray:
        """0 for every label: a batch's loss cannot be negative, and tends to 0 on some path."""
        columns, _ = self.reconstruction.orbit_columns()
        return self.reconstruction.per_label(np.zeros(len(columns)))

    def extra_repr(self) -> str:
        """For printing the module."""
        return f"{self.transition.name}, R: {self.reconstruction.method}"


class GradientAscentLoss(_BatchRiskLoss):
    """The paper's BC + GA: ``sum_z | class risk of z |`` over a batch. Bounded by 0; improper for finite batches.

    Where a class risk is negative its gradient is turned around. With infinite batches it equals BC.
    """

    def _reduce(self, losses: Tensor, weights: Tensor | None) -> Tensor:
        return self.class_risks(losses, weights).abs().sum()


class NonNegativeLoss(_BatchRiskLoss):
    """The ReLU variant: ``sum_z max(class risk of z, 0)``. Bounded by 0; improper for finite batches."""

    def _reduce(self, losses: Tensor, weights: Tensor | None) -> Tensor:
        return self.class_risks(losses, weights).clamp_min(0).sum()


def _function(loss: Callable[..., WeakLabelLoss]) -> Callable[..., Tensor]:
    """A loss class as a plain function of (scores, labels, transition), with the class's options as keywords."""

    def call(
        scores: Tensor, labels: Labels, transition: Transition, *, weights: Tensor | None = None, **options: Any
    ) -> Tensor:
        out: Tensor = loss(transition, **options).to(scores.device)(scores, labels, weights)
        return out

    name = getattr(loss, "__name__", "loss")
    call.__doc__ = f"`{name}` as a plain function; pass a ready `reconstruction` in a loop, since nothing is kept."
    return call


backward_loss = _function(BackwardLoss)
forward_loss = _function(ForwardLoss)
gradient_ascent_loss = _function(GradientAscentLoss)
non_negative_loss = _function(NonNegativeLoss)
