"""T's own error: what a score would be under other transitions that the same evidence allows.

A mean score depends on the examples through the table ``A[y, z] = mean of 1[y_i = y] s_i(z)`` alone: its value is
``sum_{z, y} R[z, y] A[y, z]``. A posterior draw T_s of an estimated T (`EstimatedTransition.samples`) has the left
inverse ``R_s = (R T_s)^{-1} R`` whatever R is (``T_s^{-1}`` where T is square), and its columns sum to one like those
of R. So a draw costs one K x K inverse, and the score under it is ``tr((R T_s)^{-1} R A)``.

Read as quantiles, these values are Fieller's interval for a ratio (Fieller, 1954): where T is a single number t and the
score is A / t, they are A divided by the ends of t's interval. As in Fieller's there may be no such interval: where
draws of T are singular the score can be anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core import FloatArray
from ..transitions import Reconstruction, Transition

MOST_DRAWS, FEWEST_DRAWS, ENTRIES = 1000, 200, 1 << 23  # as many draws as fit into so many entries
LARGEST = 50.0  # R T_s is the identity at the estimate: a draw whose inverse is so many times larger has no use
LOST = 0.025  # so many draws beyond singular leave no interval at the 95% level


@dataclass(frozen=True)
class TransitionDraws:
    """Posterior draws of T as the matrices ``(R T_s)^{-1}`` (S, K, K), and how many had none."""

    R: FloatArray  # (K, M)
    inverses: FloatArray
    lost: float  # share of the draws that are singular, nearly so, or on the other side of singular

    @property
    def singular(self) -> bool:
        """Whether T's error reaches singular matrices at the 95% level."""
        return self.lost > LOST

    @property
    def note(self) -> str:
        """Said where draws were lost."""
        return (
            f"T is not known well enough: {self.lost:.0%} of its posterior draws cannot be inverted; more clean rows "
            "are needed"
        )

    def means(self, table: FloatArray) -> FloatArray:
        """``sum R_s[z, y] A[y, z]`` (S,) for a table A (M, K)."""
        return np.asarray(np.einsum("scz,zc->s", self.inverses, self.R @ table))

    def targets(self, table: FloatArray) -> FloatArray:
        """``R_s A`` (S, K, ...) for sums A (M, ...) over the examples of each weak label."""
        flat = self.R @ table.reshape(len(table), -1)
        return (self.inverses @ flat).reshape(len(self.inverses), -1, *table.shape[1:])


def draws_of(transition: Transition, reconstruction: Reconstruction, seed: int = 0) -> TransitionDraws | None:
    """Draws of an estimated T, from a fixed seed; None where T is known."""
    samples = getattr(transition, "samples", None)
    if samples is None:
        return None
    size = transition.num_weak_labels * transition.num_classes
    R = reconstruction.matrix()
    T = samples(int(np.clip(ENTRIES // size, FEWEST_DRAWS, MOST_DRAWS)), seed)  # (S, M, K)
    products = R @ T
    same_side = np.linalg.slogdet(products)[0] > 0
    inverses = np.linalg.inv(np.where(same_side[:, None, None], products, np.eye(len(R))))
    fine = same_side & (np.linalg.norm(inverses, axis=(1, 2)) < LARGEST * np.sqrt(len(R)))
    if not fine.any():
        return TransitionDraws(R, np.eye(len(R))[None], 1.0)
    return TransitionDraws(R, inverses[fine], 1 - float(fine.mean()))
