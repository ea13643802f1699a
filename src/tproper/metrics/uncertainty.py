"""T's own error: what a score would be under other transitions that the same evidence allows.

A weak label's target ``r = R e_y`` has the mean ``R T e_z = e_z`` given class z. If T is T_s instead, that mean is
``C_s e_z`` with ``C_s = R T_s`` (K, K), and the corrected targets ``C_s^{-1} r`` are unbiased again: ``C_s^{-1} R`` is
a left inverse of T_s whatever R is (``T_s^{-1}`` where T is square), and its columns sum to one like those of R. So a
score, which depends on the examples through ``G[c, z] = mean of r_i[c] s_i(z)`` alone, is ``tr(C_s^{-1} G)`` under a
posterior draw T_s of an estimated T (`EstimatedTransition.samples`): a K x K inverse per draw. With several annotators,
whose targets are mixed with average shares w_a, ``C_s = sum_a w_a R_a T_{a,s}`` (several answers per row: `classes`).

Read as quantiles, these values are Fieller's interval for a ratio (Fieller, 1954): where T is a single number t and the
score is A / t, they are A divided by the ends of t's interval. As in Fieller's there may be no such interval: where
draws of T are singular the score can be anything.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary, ref

import numpy as np
from torch import Tensor

from .._core import FloatArray
from ..transitions import Reconstruction, Transition
from .classes import A_CROWD, Classes, class_means

MOST_DRAWS, FEWEST_DRAWS, ENTRIES = 1000, 200, 1 << 23  # as many draws as fit into this many entries
CLASS_DRAWS = 400  # of the classes of all examples, too
LARGEST = 50.0  # C_s is the identity at the estimate: a draw whose inverse is this many times larger is useless
LOST = 0.025  # with this share of draws beyond singular there is no interval at the 95% level


@dataclass(frozen=True)
class TransitionDraws:
    """Posterior draws of T as the matrices ``C_s^{-1}`` (S, K, K), and how many had none."""

    inverses: FloatArray
    lost: float  # share of the draws that are singular, nearly so, or on the other side of singular
    classes: Classes | None = None  # of the examples, where several answers tell them

    @property
    def singular(self) -> bool:
        """Whether T's error reaches singular matrices at the 95% level."""
        return self.lost > LOST

    @property
    def note(self) -> str:
        """What to report where draws were lost."""
        return (
            f"T is not known well enough: {self.lost:.0%} of its posterior draws cannot be inverted; more clean rows "
            "are needed"
        )

    def means(self, table: FloatArray) -> FloatArray:
        """``tr(C_s^{-1} G)`` (S, ...) for sums ``G[c, ..., z]`` (K, ..., K) of targets times class-wise values."""
        return np.asarray(np.einsum("szc,c...z->s...", self.inverses, table))

    def targets(self, table: FloatArray) -> FloatArray:
        """``C_s^{-1} G`` (S, K, ...) for sums G (K, ...) of targets."""
        flat = self.inverses @ table.reshape(len(table), -1)
        return flat.reshape(len(flat), *table.shape)


@dataclass(frozen=True)
class _Last:
    """The draws that were made last for an R, and what they depend on."""

    transition: ref[Transition]
    given: bytes
    draws: TransitionDraws


# Thousands of inverses are worth more than one score. They live as long as their R does: what shares R shares them.
_LAST: WeakKeyDictionary[Reconstruction, _Last] = WeakKeyDictionary()


def draws_of(
    transition: Transition,
    reconstruction: Reconstruction,
    labels: Tensor | None = None,
    weights: FloatArray | None = None,
) -> TransitionDraws | None:
    """Draws of an estimated T, from a fixed seed; None where T is known.

    `labels` say who answered, where there are annotators; without them all are taken to have. Scores of the same labels
    by one and the same `reconstruction` get the same draws, which are made once.
    """
    if not transition.estimated:
        return None
    mixture = shares = None
    if transition.separate and labels is not None and bool(((labels >= 0).sum(1) > 1).any()):
        mixture = _together(transition)
    if mixture is None:
        shares = reconstruction.shares(labels)
    given = _digest(shares) if mixture is None or labels is None else _digest(labels.numpy(), weights)
    last = _LAST.get(reconstruction)
    if last is not None and last.transition() is transition and last.given == given:
        return last.draws
    if mixture is not None and labels is not None:
        draws = _from_classes(transition, reconstruction, labels, weights, mixture)
    elif shares is not None:
        draws = _inverted(_mixed_confusion(transition, reconstruction, shares))
    else:
        draws = _inverted(_confusions(transition, reconstruction))
    _LAST[reconstruction] = _Last(ref(transition), given, draws)
    return draws


def _digest(*arrays: np.ndarray | None) -> bytes:
    """What tells arrays from all others without keeping them."""
    out = hashlib.blake2b(digest_size=32)
    for x in arrays:
        out.update(b"none" if x is None else f"{x.dtype}{x.shape}".encode())
        if x is not None:
            out.update(np.ascontiguousarray(x).data)
    return out.digest()


def _rows(transition: Transition) -> int:
    """How many rows the tables have that T is made of: those of all annotators together, else M."""
    return sum(t.num_weak_labels for t in transition.separate) or transition.num_weak_labels


def _confusions(transition: Transition, reconstruction: Reconstruction) -> FloatArray:
    """``R T_s`` (S, K, K) of draws of an estimated T, as many as there is room for."""
    K, own = transition.num_classes, transition.posterior
    if own is not None and (known := own.confusions(reconstruction, _count(K**2))) is not None:
        return known
    T = transition.draws_of_posterior(_count(_rows(transition) * K))
    assert T is not None
    return np.asarray(reconstruction.matrix() @ T)


def _inverted(confusion: FloatArray) -> TransitionDraws:
    K = confusion.shape[-1]
    same_side = np.linalg.slogdet(confusion)[0] > 0
    if not same_side.all():
        confusion = np.where(same_side[:, None, None], confusion, np.eye(K))
    inverses = np.asarray(np.linalg.inv(confusion), dtype=np.float64)
    fine = same_side & (np.linalg.norm(inverses, axis=(1, 2)) < LARGEST * math.sqrt(K))
    if not fine.any():
        return TransitionDraws(np.eye(K)[None], 1.0)
    return TransitionDraws(inverses if fine.all() else inverses[fine], 1 - float(fine.mean()))


def _from_classes(
    transition: Transition,
    reconstruction: Reconstruction,
    labels: Tensor,
    weights: FloatArray | None,
    mixture: FloatArray,
) -> TransitionDraws:
    """Draws of T and of the classes, as they scatter about the ``C^{-1}`` that corrects the targets."""
    targets = reconstruction.targets(labels).numpy()
    count = min(_count(max(_rows(transition), len(labels)) * transition.num_classes), CLASS_DRAWS)
    means, mean, posteriors = class_means(transition, labels, targets, weights, mixture, count)
    draws, own = _inverted(means), _inverted(mean[None])
    lost = max(draws.lost, own.lost)
    return TransitionDraws(draws.inverses @ np.linalg.inv(own.inverses[0]), lost, Classes(posteriors, own.inverses[0]))


def _together(transition: Transition) -> FloatArray | None:
    """The distributions that all T together are a mixture of (C, rows, K): those of a crowd err together; None if none.

    A T alone says nothing of what it shares with others, and the answers of a handful, or such as depend on each other,
    tell classes worse than it looks: `estimate_annotators` gives none of these a mixture. T that were counted, each for
    itself, are mixtures of another kind.
    """
    own = [t.posterior for t in transition.separate if t.posterior is not None and t.posterior.counts is None]
    mixed = [q.concentration for q in own if q.concentration is not None and q.concentration.ndim == 3]
    if len(mixed) < max(len(transition.separate), A_CROWD) or len({len(c) for c in mixed}) > 1:
        return None
    return np.concatenate(mixed, axis=1)


def _annotator_draws(transition: Transition, count: int) -> Iterator[FloatArray]:
    """Of each annotator's T (S, M_a, K), one after the other; as often as it stands where it is known."""
    mixture = _together(transition)
    if mixture is not None:
        draws = np.random.default_rng(0).standard_gamma(mixture[np.arange(count) % len(mixture)])
        ends = np.cumsum([t.num_weak_labels for t in transition.separate])[:-1]
        yield from (d / d.sum(axis=1, keepdims=True) for d in np.split(draws, ends, axis=1))
        return
    for a, t in enumerate(transition.separate):
        T = t.draws_of_posterior(count, a)
        yield np.broadcast_to(t.matrix(), (count, *t.matrix().shape)) if T is None else T


def _mixed_confusion(transition: Transition, R: Reconstruction, shares: FloatArray) -> FloatArray:
    """``sum_a w_a R_a T_{a,s}`` for annotators who count by their `shares` w_a. One at a time: all are large."""
    K = transition.num_classes
    count = _count(_rows(transition) * K)
    total = np.zeros((count, K, K))
    for a, (share, T) in enumerate(zip(shares, _annotator_draws(transition, count), strict=True)):
        total += share * (R.own(a) @ T)
    return total


def _count(size: int) -> int:
    return int(np.clip(ENTRIES // size, FEWEST_DRAWS, MOST_DRAWS))
