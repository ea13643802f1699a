"""Transitions that come with a call: one T for all examples, or one for each; fixed or learned."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core import Labels, checks, tracing
from ..transitions import per_example_targets


def given_transitions(transitions: Tensor, labels: Labels, scores: Tensor, validate: bool) -> tuple[Tensor, Tensor]:
    """T as (1, M, K) or (n, M, K), and labels: indices (n,), or masks (n, M) of the weak labels it may be.

    T for each example may be large, and is read as little as the loss reads it: of (n, M, K) the first T is checked to
    have columns that sum to one, and of the others the rows of the labels to be probabilities.
    """
    n, K = scores.shape if scores.ndim == 2 else (-1, -1)
    try:
        T = torch.as_tensor(transitions, device=scores.device)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"transitions: expected an array (n, weak labels, K), got {checks.short(transitions)}"
        ) from None
    if not T.is_floating_point() or T.dtype in (torch.float16, torch.bfloat16):
        T = T.float()  # a float64 T is kept as it is: targets need its digits
    if T.ndim == 2:
        T = T[None]
    if T.ndim != 3 or T.shape[0] not in (1, n) or T.shape[2] != K:
        raise ValueError(
            f"transitions: expected shape (n, weak labels, K), (1, weak labels, K) or (weak labels, K) for scores "
            f"{tuple(scores.shape)}, got {tuple(transitions.shape if isinstance(transitions, Tensor) else T.shape)}"
        )
    M = T.shape[1]
    if isinstance(labels, Tensor) and labels.dtype == torch.bool:
        encoded = checks.mask_labels(labels, M, device=scores.device, validate=validate)
        checks.same_leading_shape(scores, encoded, (M,))
    else:
        encoded = checks.index_labels(labels, M, device=scores.device, validate=validate)
        checks.same_leading_shape(scores, encoded)
    if validate and tracing.readable(T):
        good = _stochastic(T[:1])
        if len(T) > 1 and encoded.dtype != torch.bool:
            own = T.detach()[torch.arange(n, device=T.device), encoded]
            good &= ((own >= 0) & (own <= 1 + 1e-4)).all()
        _require(good)
    return T, encoded


def _stochastic(T: Tensor) -> Tensor:
    """float32 column sums are one to about 1e-6 each; 1e-4 leaves room for many weak labels."""
    return (T.detach() >= 0).all() & ((T.detach().sum(1) - 1).abs() <= 1e-4).all()


def _require(good: Tensor) -> None:
    if not bool(good):
        raise ValueError("transitions: expected every T[i] to have columns of probabilities that sum to 1")


def targets_of(transitions: Tensor, labels: Tensor, validate: bool) -> Tensor:
    """Targets (n, K) of the labels, by the R of each T; all of every T is read, and so checked."""
    if labels.dtype == torch.bool:
        raise ValueError("labels: expected indices of weak labels for backward correction, got masks; use ForwardLoss")
    if validate and tracing.readable(transitions):
        _require(_stochastic(transitions))
    return per_example_targets(transitions.expand(len(labels), -1, -1), labels, validate)
