"""Scores of a table that is read once, block by block.

Up to two blocks of rows the scores are those of `tproper.metrics` on all rows together. Longer tables are
scored in blocks, whose means and spreads are put together: the value and the standard error are then the
same as on all rows, and the interval is the normal one, which so many rows allow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from .._core import FloatArray
from ..metrics import (
    Z95,
    BinnedErrors,
    Calibration,
    Score,
    TopLabel,
    TransitionDraws,
    bin_edges,
    bin_sums,
    draws_of,
    make_curve,
    read_sample,
    score_of,
    transition_covariance,
    weak_accuracy,
    weak_balanced_accuracy,
    weak_brier,
    weak_calibration,
    weak_log_loss,
)
from ..transitions import Encoded, Reconstruction, Transition

BLOCK_CELLS = 1 << 20  # probabilities in a block ...
BLOCK_ROWS = 50_000  # ... of at least this many rows, so that the means of heavy-tailed scores count as normal
Scores: TypeAlias = dict[str, Score | Calibration]
Coded: TypeAlias = NDArray[Any]  # labels as the transition encodes them
UNSCORABLE = "this transition makes some classes look alike, so weak labels alone cannot score a model"
_MEANS = {"accuracy": weak_accuracy, "log_loss": weak_log_loss, "brier": weak_brier}
NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "log_loss": "log loss",
    "brier": "Brier score",
    "calibration": "calibration error",
}


@dataclass
class _Pooled:
    """A mean from the means of blocks, with the part of `Estimate` that `score_of` needs."""

    mean: float
    stderr: float  # of the sample
    stderr_transition: float  # of T, which is the same T in all blocks: its error does not average out
    draws: TransitionDraws | None

    @classmethod
    def of(cls, parts: Sequence[Score], draws: TransitionDraws | None) -> _Pooled:
        """Exactly the mean and the standard error of all rows, from those of the blocks."""
        n = np.array([p.n for p in parts], dtype=np.float64)
        means = np.array([p.value for p in parts])
        from_T = np.array([p.stderr_transition for p in parts])
        sampling = np.array([p.stderr for p in parts]) ** 2 - from_T**2
        variances = sampling * n  # within each block, n - 1 in the denominator
        total = n.sum()
        mean = float((n * means).sum() / total)
        squares = ((n - 1) * variances).sum() + (n * (means - mean) ** 2).sum()
        return cls(mean, float(math.sqrt(squares / (total - 1) / total)), float((n * from_T).sum() / total), draws)

    def interval(self, known: bool = False) -> tuple[float, float]:
        half = Z95 * (self.stderr if known else math.hypot(self.stderr, self.stderr_transition))
        return self.mean - half, self.mean + half


def why_no_scores(transition: Transition) -> str:
    """Why weak labels of this T cannot score a model, or nothing."""
    return "" if transition.diagnose().reconstructible else UNSCORABLE


class StreamedScores:
    """Add blocks of encoded labels and probabilities; ask for the scores at the end."""

    def __init__(self, transition: Transition, reconstruction: str | Reconstruction = "auto") -> None:
        self.transition = transition
        # one R for all: scores that share it share the draws of an estimated T
        self.reconstruction = transition.reconstruction(reconstruction)
        self.rows = 0
        self._limit = max(BLOCK_ROWS, BLOCK_CELLS // transition.num_classes)
        self._waiting: list[tuple[Coded, FloatArray]] = []
        self._count = 0
        self._parts: dict[str, list[Score]] = {name: [] for name in (*_MEANS, "overconfidence")}
        self._bins: _Bins | None = None

    def add(self, labels: Coded, probabilities: FloatArray) -> None:
        """Some rows."""
        if len(labels) == 0:
            return
        self.rows += len(labels)
        self._waiting.append((labels, probabilities))
        self._count += len(labels)
        while self._count >= 2 * self._limit:  # so that the last block is never a small one
            labels, probabilities = self._take()
            self._score(labels[: self._limit], probabilities[: self._limit])
            self._waiting = [(labels[self._limit :], probabilities[self._limit :])]
            self._count -= self._limit

    def _take(self) -> tuple[Coded, FloatArray]:
        labels = np.concatenate([y for y, _ in self._waiting])
        return labels, np.concatenate([p for _, p in self._waiting])

    def _score(self, labels: Coded, q: FloatArray) -> None:
        for name, score in _MEANS.items():
            value = q.argmax(axis=1) if name == "accuracy" else q
            self._parts[name].append(
                score(Encoded(torch.as_tensor(labels)), value, self.transition, reconstruction=self.reconstruction)
            )
        if self._bins is None:
            self._bins = _Bins()
        self._parts["overconfidence"].append(self._bins.add(labels, q, self.transition, self.reconstruction))

    def scores(self) -> Scores:
        """The scores of all rows added."""
        labels, q = self._take()
        T, R, parts = self.transition, self.reconstruction, self._parts
        if self._bins is None:
            return scores_of(T, labels, q, R)
        self._score(labels, q)
        K, draws = T.num_classes, draws_of(T, R)
        limits = {"accuracy": (0.0, 1.0, 1 / K), "log_loss": (math.inf, 0.0, math.log(K)), "brier": (2, 0, 1 - 1 / K)}
        out: Scores = {}
        for name, (worst, best, guess) in limits.items():
            infinite = [p for p in parts[name] if not math.isfinite(p.value)]
            if infinite:
                out[name] = infinite[0]
                continue
            pooled = _Pooled.of(parts[name], draws)
            out[name] = score_of(NAMES[name], pooled, self.rows, worst, best, guess).noted(T.caution)
        over = _Pooled.of(parts["overconfidence"], draws)
        curve = self._bins.calibration(score_of("overconfidence", over, self.rows, -1.0, 1.0, 1.0), draws)
        return out | {"calibration": curve.noted(T.caution)}


def scores_of(
    transition: Transition,
    labels: Coded,
    probabilities: FloatArray,
    reconstruction: str | Reconstruction = "auto",
    groups: ArrayLike | None = None,
) -> Scores:
    """The scores of rows in memory, by one R, so that they share the draws of an estimated T."""
    predicted, read = probabilities.argmax(axis=1), Encoded(torch.as_tensor(labels))
    given: Any = {"reconstruction": transition.reconstruction(reconstruction), "groups": groups}
    return {
        "accuracy": weak_accuracy(read, predicted, transition, **given),
        "balanced_accuracy": weak_balanced_accuracy(read, predicted, transition, **given),
        "log_loss": weak_log_loss(read, probabilities, transition, **given),
        "brier": weak_brier(read, probabilities, transition, **given),
        "calibration": weak_calibration(read, probabilities, transition, **given),
    }


class _Bins:
    """The sums behind a calibration curve; the edges are the quantiles of the first block."""

    def __init__(self) -> None:
        self.edges: FloatArray | None = None
        self.sums: list[FloatArray] = []
        self.confidence: FloatArray = np.zeros(())
        self.table: FloatArray = np.zeros(())  # sums of targets by bin and predicted class, where T is estimated

    def add(self, labels: Coded, q: FloatArray, transition: Transition, reconstruction: Reconstruction) -> Score:
        """A block; gives its overconfidence."""
        sample = read_sample(Encoded(torch.as_tensor(labels)), transition, reconstruction=reconstruction)
        top = TopLabel(sample.weigher, sample.probabilities(q), sample.labels, None)
        if self.edges is None:
            self.edges = bin_edges(top.confidence, top.worthwhile_bins(), "quantile")
        cell = np.searchsorted(self.edges[1:-1], top.confidence, side="left")
        size = len(self.edges) - 1
        parts = bin_sums(cell, size, top.weights, top.g - top.confidence)
        self.sums = [total + part for total, part in zip(self.sums, parts, strict=True)] if self.sums else parts
        self.confidence = self.confidence + np.bincount(cell, weights=top.confidence, minlength=size)
        if top.draws is not None:
            self.table = self.table + top.transition_table(self.edges)
        return score_of("overconfidence", top.overconfidence, sample.n, -1.0, 1.0, 1.0)

    def calibration(self, overconfidence: Score, draws: TransitionDraws | None) -> Calibration:
        """The curve of all blocks."""
        assert self.edges is not None
        errors = BinnedErrors(*self.sums)
        confidence = self.confidence / np.where(errors.counts > 0, errors.counts, np.nan)
        rows = float(errors.counts.sum())
        covariance = None if draws is None else transition_covariance(draws, self.table, errors, rows)
        added = 0.0 if covariance is None else np.diag(covariance)
        variance = errors.variance + added / np.where(errors.shares > 0, errors.shares, np.nan)
        forms = errors.form(covariance=covariance), errors.form()
        return make_curve("top label", errors, forms, confidence, self.edges, variance, overconfidence, draws)
