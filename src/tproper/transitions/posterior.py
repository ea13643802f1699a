"""What is not known of T: a distribution of it, that a transition carries as a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .._core import FloatArray, checks
from ..errors import InputError
from .shrinkage import column_intervals, opened

if TYPE_CHECKING:
    from .base import Transition
    from .reconstruction import Reconstruction

MOST_DRAWS, FEWEST_DRAWS, ENTRIES = 8192, 512, 1 << 22


class Posterior:
    """A distribution of T (M, K): of each column a Dirichlet distribution or an even mixture of some, or draws of T.

    `mean` is the estimate; `concentration` (M, K) or (C, M, K), or `draws` (S, M, K); `counts` what was counted, where
    no form of T was asked for: then intervals are opened to 0 where nothing was.
    """

    def __init__(
        self,
        mean: FloatArray,
        draws: ArrayLike | None = None,
        concentration: ArrayLike | None = None,
        counts: ArrayLike | None = None,
    ) -> None:
        self.mean = mean
        self.counts = None if counts is None else checks.matrix(counts, "counts")
        if (draws is None) == (concentration is None):
            raise InputError("draws: expected either draws or concentration, got both or neither")
        name = "draws" if concentration is None else "concentration"
        array = np.array(checks.array(draws if concentration is None else concentration, name), dtype=np.float64)
        fewest = 3 if name == "draws" else 2
        if array.shape[-2:] != mean.shape or not fewest <= array.ndim <= 3 or not array.size:
            raise InputError(f"{name}: expected the shape {mean.shape} of T, got {array.shape}")
        if not (np.isfinite(array).all() and (array >= 0).all()):
            raise InputError(f"{name}: expected finite numbers >= 0, got others")
        array.setflags(write=False)  # scores keep what they drew from it
        self.concentration = array if name == "concentration" else None
        self.draws = array if name == "draws" else None

    @property
    def stderr(self) -> FloatArray:
        """Standard deviation of each entry (M, K)."""
        if self.concentration is None:
            return self.many().std(axis=0)
        a = self.concentration.reshape(-1, *self.mean.shape)
        total = a.sum(axis=1, keepdims=True)
        mean = a / total
        out: FloatArray = np.sqrt((mean * (1 - mean) / (total + 1)).mean(axis=0) + mean.var(axis=0))
        return out

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """(low, high), each (M, K): the central interval of each entry; from 0 where it was never counted."""
        tail = (1 - checks.real(level, "level", 0, 1)) / 2
        if self.concentration is not None and self.concentration.ndim == 2:
            low, high = column_intervals(self.concentration, self.mean, tail)
        else:
            low, high = np.quantile(self.many(), [tail, 1 - tail], axis=0)
        return (low, high) if self.counts is None else opened(low, high, self.counts, tail)

    def size_draws(self, count: int) -> FloatArray | None:
        """Draws (count, K + 1) of the probabilities of sizes, where labels are candidate sets of which only the size
        matters; else None.
        """
        return None

    def confusions(self, R: Reconstruction, count: int) -> FloatArray | None:
        """``R T_s`` (count, K, K) of draws of T in closed form, where T is too large to be drawn; else None."""
        return None

    def many(self) -> FloatArray:
        """The draws that are kept, or enough new ones."""
        if self.draws is not None:
            return self.draws
        return self.samples(min(MOST_DRAWS, max(FEWEST_DRAWS, ENTRIES // self.mean.size)))

    def samples(self, n: int, seed: int | np.random.Generator = 0) -> FloatArray:
        """n draws of T (n, M, K); the same seed gives the same draws."""
        n, rng = checks.integer(n, "n", 1), np.random.default_rng(seed)
        if self.draws is not None:
            size = len(self.draws)
            return self.draws[rng.permutation(size)[:n] if n <= size else rng.integers(0, size, n)]
        assert self.concentration is not None
        a = self.concentration.reshape(-1, *self.mean.shape)
        component = (np.arange(n) + rng.integers(len(a))) % len(a)  # each as often as the others, up to one
        gammas = rng.standard_gamma(a[rng.permutation(component)])
        total = gammas.sum(axis=1, keepdims=True)
        return np.divide(gammas, total, out=np.tile(self.mean, (n, 1, 1)), where=total > 0)


def drawn_parts(parts: Sequence[Transition], count: int, seed: int | np.random.SeedSequence) -> list[FloatArray] | None:
    """Draws (S, M_a, K) of each of several T, those that are known as often as they stand; None where all are."""
    if not any(t.estimated for t in parts):
        return None
    own = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    drawn = [t.draws_of_posterior(count, stream) for t, stream in zip(parts, own.spawn(len(parts)), strict=True)]
    return [
        np.broadcast_to(t.matrix(), (count, *t.matrix().shape)) if T is None else T
        for t, T in zip(parts, drawn, strict=True)
    ]
