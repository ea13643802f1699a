"""What all losses share: labels in, a pointwise loss, weights and a reduction out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from .._core import FloatArray, Labels, checks, tracing
from ..transitions import Reconstruction, Tables, Transition

Reduction = Literal["none", "mean", "sum"]


def reduce(losses: Tensor, reduction: Reduction, weights: Tensor | None = None) -> Tensor:
    """Weights, then none, mean or sum. The mean of weighted losses is divided by the sum of the weights."""
    if weights is not None:  # weight zero leaves an example out, even one whose loss is infinite
        losses = losses.masked_fill(weights == 0, 0.0) * weights
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if weights is None else losses.sum() / weights.sum()


def hush(losses: Tensor, reconstruction: Reconstruction, labels: Tensor) -> Tensor:
    """Losses (...) or (..., K), with 0 for labels that say nothing (a row in which no annotator answered)."""
    silent = reconstruction.silent(labels)
    if silent is None:
        return losses
    return losses.masked_fill(silent if losses.ndim == silent.ndim else silent[..., None], 0.0)


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
        scores = checks.scores(scores, self.transition.num_classes)
        fast = type(self)._fast_path(self, scores, labels, weights) if transitions is None else None
        if fast is not None:
            return fast
        dtype = scores.dtype
        if dtype in (torch.float16, torch.bfloat16):  # sums over classes need float32
            scores = scores.float()
        if transitions is None:
            encoded = self.transition.encode(labels, scores.device, self.validate)
            checks.same_leading_shape(scores, encoded, self.transition.label_shape)
            losses = self.pointwise(scores, encoded)
        else:
            transitions, encoded = _per_example(transitions, labels, scores, self.validate)
            losses = self.pointwise_with(transitions, scores, encoded)
        if weights is not None:
            weights = checks.example_weights(weights, scores[..., 0], self.validate)
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
            f"transitions: expected an array (n, weak labels, K), got {checks.short(transitions)}"
        ) from None
    if not T.is_floating_point() or T.dtype in (torch.float16, torch.bfloat16):
        T = T.float()  # a float64 T is kept as it is: targets need its digits
    if T.ndim != 3 or T.shape[0] != n or T.shape[2] != K:
        raise ValueError(
            f"transitions: expected shape (n, weak labels, K) for scores {tuple(scores.shape)}, got {tuple(T.shape)}"
        )
    # float32 column sums are one to about 1e-6 each; 1e-4 leaves room for many weak labels
    if validate and tracing.readable(T) and not bool(((T >= 0).all()) & ((T.sum(1) - 1).abs() <= 1e-4).all()):
        raise ValueError("transitions: expected every T[i] to have columns of probabilities that sum to 1")
    encoded = checks.index_labels(labels, T.shape[1], device=scores.device, validate=validate)
    checks.same_leading_shape(scores, encoded)
    return T, encoded
