"""The shares of a mixture's parts, by EM: those of classes, given how likely each class makes what was seen."""

from __future__ import annotations

import numpy as np

from .checks import FloatArray


def mixture_shares(
    likelihood: FloatArray,
    counts: FloatArray,
    pseudo: float = 0.0,
    rounds: int = 500,
    tolerance: float = 1e-7,
    start: FloatArray | None = None,
) -> FloatArray:
    """The likeliest shares (B, K) for likelihoods (B or 1, U, K) of what was seen `counts` (B or 1, U) times.

    ``pi_z <- pi_z sum_u c_u l_uz / <l_u, pi>``, with `pseudo` more of each class, and divided by its sum: each of B
    problems until a share moves by no more than the tolerance. A factor of a row of likelihoods changes nothing.
    """
    size, K = max(len(likelihood), len(counts)), likelihood.shape[-1]
    pi = np.full((size, K), 1.0 / K) if start is None else start.copy()
    todo = np.ones(size, dtype=bool)
    for _ in range(rounds):
        at = np.flatnonzero(todo)
        if not len(at):
            break
        own = likelihood[at] if len(likelihood) > 1 else likelihood
        seen = counts[at] if len(counts) > 1 else counts
        mixed = (own @ pi[at][:, :, None])[:, :, 0]
        ratio = np.where(seen > 0, seen / np.maximum(mixed, 1e-300), 0.0)
        new = pi[at] * (ratio[:, None, :] @ own)[:, 0] + pseudo
        new /= new.sum(axis=1, keepdims=True)
        todo[at] = np.abs(new - pi[at]).max(axis=1) > tolerance
        pi[at] = new
    return pi
