"""Transitions that come with a call: one T for all examples, or one for each; fixed or learned."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core import Labels, checks, tracing
from ..errors import InputError
from ..transitions import per_example_targets

HALVES = (torch.float16, torch.bfloat16)
SLACK = 1e-4  # float32 column sums are one to about 1e-6 each; this leaves room for many weak labels


def given_transitions(transitions: Tensor, labels: Labels, scores: Tensor, validate: bool) -> tuple[Tensor, Tensor]:
    """T as (1, M, K) or (n, M, K), and labels: indices (n,), or masks (n, M) of the weak labels it may be.

    Scores (..., K) are n rows. T for each of them may be large, and is read as little as the loss reads it: of
    (n, M, K) the first T is checked to have columns that sum to one, and of the others the rows of the labels to be
    probabilities.
    """
    lead, n, K = scores.shape[:-1], scores.shape[:-1].numel(), scores.shape[-1]
    try:
        T = torch.as_tensor(transitions, device=scores.device)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"transitions: expected an array (n, weak labels, K), got {checks.short(transitions)}"
        ) from None
    if T.is_complex():
        raise InputError("transitions: expected real numbers, got complex ones")
    given = T.dtype
    if not T.is_floating_point() or given in HALVES:
        T = T.float()  # a float64 T is kept as it is: targets need its digits
    if T.ndim == 2:
        T = T[None]
    shared = T.ndim == 3 and len(T) == 1
    if T.ndim < 3 or T.shape[-1] != K or not (shared or T.shape[:-2] == lead):
        each = f"({', '.join(map(str, lead))}, weak labels, {K})" if lead else f"(1, weak labels, {K})"
        raise InputError(
            f"transitions: expected shape {each} or (weak labels, {K}) for scores {tuple(scores.shape)}, got "
            f"{tuple(transitions.shape if isinstance(transitions, Tensor) else T.shape)}"
        )
    T = T if shared else T.reshape(n, *T.shape[-2:])
    if given in HALVES:
        T = _unrounded(T, given, validate)
    M = T.shape[1]
    encoded = checks.label_tensor(labels, scores.device)
    if encoded.dtype == torch.bool:
        encoded = checks.mask_labels(encoded, M, validate=validate)
        checks.same_leading_shape(scores, encoded, (M,))
        encoded = encoded.reshape(n, M)
    else:
        encoded = checks.index_labels(encoded, M, validate=validate)
        checks.same_leading_shape(scores, encoded)
        encoded = encoded.reshape(n)
    if validate and tracing.readable(T):
        good = _stochastic(T[:1], SLACK)
        if len(T) > 1 and encoded.dtype != torch.bool:
            own = T.detach()[torch.arange(n, device=T.device), encoded]
            good &= ((own >= 0) & (own <= 1 + SLACK)).all()
        _require(good, T, SLACK)
    return T, encoded


def _unrounded(T: Tensor, given: torch.dtype, validate: bool) -> Tensor:
    """Columns of half precision, made to sum to one again.

    Each entry was rounded by at most half an eps of itself, so a column sums to one within half an eps.
    """
    slack = SLACK + torch.finfo(given).eps
    if validate and tracing.readable(T):
        _require(_stochastic(T, slack), T, slack)
    return T / T.sum(1, keepdim=True)


def _stochastic(T: Tensor, slack: float) -> Tensor:
    return (T.detach() >= 0).all() & ((T.detach().sum(1) - 1).abs() <= slack).all()


def _require(good: Tensor, T: Tensor, slack: float) -> None:
    """Where one T is not good: say which, and what it holds."""
    if bool(good):
        return
    held = T.detach()
    bad = ~((held >= 0) & (held <= 1 + slack))
    rule = "transitions: expected every T[i] to have columns of probabilities that sum to 1"
    if bool(bad.any()):
        i, y, z = bad.nonzero()[0].tolist()
        raise InputError(f"{rule}, got {float(held[i, y, z]):g} at row {y}, column {z} of T[{i}]")
    sums = held.sum(1)
    i, z = divmod(int((sums - 1).abs().argmax()), T.shape[2])
    rows = bool(((held[i].sum(1) - 1).abs() <= slack).all())
    hint = "; its rows sum to one: pass the transpose, T[y, z] = P(weak label y | class z)" if rows else ""
    raise InputError(f"{rule}, got the sum {float(sums[i, z]):g} in column {z} of T[{i}]{hint}")


def targets_of(transitions: Tensor, labels: Tensor, validate: bool) -> Tensor:
    """Targets (n, K) of the labels, by the R of each T; all of every T is read, and so checked."""
    if labels.dtype == torch.bool:
        raise InputError("labels: expected indices of weak labels for backward correction, got masks; use ForwardLoss")
    if validate and tracing.readable(transitions):
        _require(_stochastic(transitions, SLACK), transitions, SLACK)
    return per_example_targets(transitions, labels, validate)
