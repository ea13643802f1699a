"""Candidate sets as masks: their sizes, and their probability under softmax scores."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._core import tracing


def _bytes(masks: Tensor) -> Tensor:
    """Booleans as 0 and 1, without a copy where nothing is being traced (Inductor has no such view on a GPU)."""
    return masks.to(torch.uint8) if tracing.transformation() else masks.view(torch.uint8)


def indicator(masks: Tensor, dtype: torch.dtype) -> Tensor:
    """1_S as a new tensor of numbers. A boolean is a byte 0 or 1, and bytes are converted eight times as fast."""
    return _bytes(masks).to(dtype)


def mask_sizes(masks: Tensor) -> Tensor:
    """|S| of boolean masks (..., K): a sum of bytes, in half the time of a sum of booleans."""
    return _bytes(masks).sum(-1, dtype=torch.int32)


def log_set_mass(scores: Tensor, masks: Tensor) -> Tensor:
    """``log P``, P = sum over S of softmax(scores), for boolean masks (..., K); -inf, zero gradient, where P is 0."""
    # log-sum-exp of nothing but -inf has a NaN gradient: an empty set, or one of masked classes alone, is taken for a
    # full one, then made -inf
    empty = ~(masks & ~scores.isneginf()).any(-1, keepdim=True)
    x = scores - scores.amax(-1, keepdim=True).detach()  # a common shift must not eat the digits
    inside = torch.logsumexp(x.masked_fill(~(masks | empty), -math.inf), -1)
    return (inside - torch.logsumexp(x, -1)).masked_fill(empty[..., 0], -math.inf)
