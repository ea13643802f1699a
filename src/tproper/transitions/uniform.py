"""Uniform noise: T has one value on the diagonal and one off it. T and R in O(K) for an example, without a table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._core import FloatArray, centred_basis, checks
from .base import Rate, Transition, probes
from .dense import dense_guard
from .diagnosis import Diagnosis
from .evidence import Kinds, Needs, Pattern, Rows, Spike, Tables, Targets, TwoValued, like_classes
from .reconstruction import Reconstruction


class UniformTransition(Transition):
    """T = o 1 1^T + (d - o) I: probability d to keep the class as the label, every other label equally likely.

    Symmetric noise, complementary labels ("not this class") with or without noise, and the identity.
    T is symmetric with eigenvalues 1 and d - o, so everything has a closed form.
    """

    def __init__(self, num_classes: int, diagonal: float, name: str) -> None:
        self.num_classes = self.num_weak_labels = num_classes
        self.diagonal = diagonal
        self.off_diagonal = (1.0 - diagonal) / (num_classes - 1)
        self.name = name
        self._weak_labels = None

    @property
    def gap(self) -> float:
        """d - o, the eigenvalue of T on centred vectors; its sign says whether a label speaks for its class."""
        return self.diagonal - self.off_diagonal

    def matrix(self) -> FloatArray:
        """T as a float64 array (K, K); structured code never calls this."""
        dense_guard(self.num_classes, self.num_classes, self.name)
        T = np.full((self.num_classes, self.num_classes), self.off_diagonal)
        np.fill_diagonal(T, self.diagonal)
        return T

    def draw(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        """A label for each class."""
        keep = rng.random(classes.shape) < self.diagonal
        other = (classes + rng.integers(1, self.num_classes, classes.shape)) % self.num_classes
        return np.where(keep, classes, other)

    def diagnose(self) -> Diagnosis:
        """Closed form: T is symmetric with eigenvalues 1 (once) and d - o (K - 1 times)."""
        K, s = self.num_classes, abs(self.gap)
        rank = K if s > checks.RANK_TOL else 1
        complementary = self.diagonal == 0.0  # label y is then the candidate set "all but y"
        return Diagnosis(
            name=self.name,
            num_classes=K,
            num_weak_labels=K,
            rank=rank,
            smallest_singular_value=s,
            condition_number=1.0 / s if rank == K else math.inf,
            disjoint_supports=self.off_diagonal == 0.0 or (K == 2 and complementary),
            ambiguity_degree=(K - 2) / (K - 1) if complementary else None,
            _kernel=lambda: even_kernel(K, rank),
        )

    def left_inverse(self, method: str, prior: FloatArray | None) -> Reconstruction:
        """T is square, so R is unique."""
        return UniformReconstruction(self)

    def signature(self) -> FloatArray:
        """``o sum(a) sum(b) + (d - o) <a, b>``."""
        a = probes(self.num_classes)
        return self.off_diagonal * a.sum(axis=0) ** 2 + self.gap * (a * a).sum(axis=0)

    def tables(self, needs: Needs = "label") -> dict[str, FloatArray]:
        """None: two numbers determine T."""
        return {}

    def rows(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Rows:
        """Two numbers."""
        return TwoValued(labels, self.diagonal, self.off_diagonal, self.num_classes)

    @property
    def rate(self) -> Rate:
        """d; of clean and of complementary labels it is what they are."""
        name, K, d = self.name, self.num_classes, self.diagonal
        return Rate("P(label = class)", d, lambda d: UniformTransition(K, d, name), not 0 < d < 1)

    @property
    def clean(self) -> bool:
        """Whether no other label has a chance."""
        return self.off_diagonal == 0.0

    def score_bounds(self, score: Any) -> FloatArray:
        """One bound for all labels, if the score treats them alike."""
        if not score.symmetric:
            return super().score_bounds(score)
        bound = score.uniform_bound(self.diagonal, self.off_diagonal, self.num_classes)
        return np.full(self.num_weak_labels, bound)

    @property
    def pattern(self) -> Pattern:
        """d and o."""
        return Pattern(self.diagonal, self.off_diagonal)

    def log_row_maxima(self) -> FloatArray:
        """The same for every label."""
        return np.full(self.num_classes, math.log(max(self.diagonal, self.off_diagonal)))


def even_kernel(K: int, rank: int) -> FloatArray:
    """A basis of the kernel of a T that treats all classes alike: nothing, or all that sums to zero."""
    if rank == K:
        return np.zeros((K, 0))
    dense_guard(K, K, "kernel basis")
    return centred_basis(K)


class UniformReconstruction(Reconstruction):
    """R of uniform noise: ``r_y = 1/K + c (e_y - 1/K)`` with c = 1 / (d - o)."""

    def __init__(self, transition: UniformTransition) -> None:
        self.transition = transition
        self.method = "inverse"
        self.coefficient = 1.0 / transition.gap
        self.residual = abs(self.coefficient * transition.gap - 1.0)

    def to_plain(self) -> Any:
        """There is but one."""
        return self.method

    def matrix(self) -> FloatArray:
        """R as a float64 array (K, K); structured code never calls this."""
        K, c = self.transition.num_classes, self.coefficient
        return c * np.eye(K) + (1 - c) / K * np.ones_like(self.transition.matrix())

    def tables(self) -> dict[str, FloatArray]:
        """None: one number determines R."""
        return {}

    def columns(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Targets:
        """A spike at the label."""
        return Spike(labels, self.coefficient, self.transition.num_classes)

    @property
    def pattern(self) -> Pattern:
        """The spike's height, and what is elsewhere."""
        c = self.coefficient
        return Pattern(c, 0.0 if c == 1.0 else (1 - c) / self.transition.num_classes)

    def kinds(self, alike: FloatArray | None = None) -> Kinds:
        """The labels of like classes are alike."""
        K, c = self.transition.num_classes, self.coefficient
        first, kind = like_classes(np.zeros(K) if alike is None else alike)
        names = ["every label"] if len(first) == 1 else [f"label {y}" for y in first]

        def targets(rows: slice) -> FloatArray:
            some = first[rows]
            dense_guard(len(some), K, self.transition.name)
            out = np.full((len(some), K), (1 - c) / K)
            out[np.arange(len(some)), some] += c
            return out

        where = torch.as_tensor(kind)
        return Kinds(names, targets, lambda values: values[kind], lambda labels: where.to(labels.device)[labels])
