"""Candidate sets that may leave the true class out. T and R in O(K), without enumerating the 2^K sets."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._core import FloatArray, checks, look_up
from ..errors import InputError
from .base import Rate, probes
from .dense import dense_guard
from .diagnosis import Diagnosis
from .evidence import DenseRows, Needs, Rows, Tables
from .families import set_size
from .reconstruction import Reconstruction
from .set_mass import mask_sizes
from .sets import SetReconstruction, SetTransition, log_binomial
from .uniform import even_kernel


class NoisySetTransition(SetTransition):
    """Candidate sets that hold the true class with probability 1 - e, and every other class with probability p.

    All of these are independent, and empty sets are drawn again: with N the probability of no empty set,

        P(S | z) = (1 - e) p^(|S|-1) (1-p)^(K-|S|) / N    where z is in S,
                 = e p^|S| (1-p)^(K-1-|S|) / N            where it is not.

    e = 0 is `partial_labels`. By symmetry only the size of S, and whether it holds the class, matter.
    """

    def __init__(self, K: int, p: float, e: float) -> None:
        self.num_classes, self.num_weak_labels = K, 2**K - 1
        self.p, self.e = p, e
        self.name = f"noisy_partial_labels({K}, {p:g}, {e:g})"
        self.parameters = {"K": K, "p": p, "e": e}
        j, log = np.arange(K + 1), lambda x: math.log(x) if x > 0 else -math.inf
        with np.errstate(invalid="ignore"):
            power = lambda n, x: np.where(n == 0, 0.0, n * log(x))  # noqa: E731
            shared = math.log1p(-e * (1 - p) ** (K - 1)) if e * (1 - p) ** (K - 1) < 1 else -math.inf
            self.log_inside = log(1 - e) + power(j - 1, p) + power(K - j, 1 - p) - shared
            self.log_outside = log(e) + power(j, p) + power(K - 1 - j, 1 - p) - shared
        self.log_inside[0] = self.log_outside[0] = self.log_outside[K] = -math.inf

    @cached_property
    def weights(self) -> tuple[FloatArray, FloatArray]:
        """``C(K-2, j-1)``, the sets of size j that tell two classes apart, times each of the two probabilities."""
        count = log_binomial(self.num_classes - 2, np.arange(-1, self.num_classes))
        return np.exp(count + self.log_inside), np.exp(count + self.log_outside)

    def matrix(self) -> FloatArray:
        """T by enumeration of the candidate sets (at most 12 classes)."""
        masks = checks.masks_of_sets(self.candidate_sets(), self.num_classes)
        size = masks.sum(axis=1)
        return np.where(masks, np.exp(self.log_inside)[size, None], np.exp(self.log_outside)[size, None])

    def draw(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        """A label for each class."""
        flat = classes.reshape(-1)
        out = np.zeros((flat.size, self.num_classes), dtype=bool)
        todo = np.arange(flat.size)
        while len(todo):
            drawn = rng.random((len(todo), self.num_classes)) < self.p
            drawn[np.arange(len(todo)), flat[todo]] = rng.random(len(todo)) >= self.e
            out[todo] = drawn
            todo = todo[~drawn.any(axis=1)]
        return out.reshape(*classes.shape, self.num_classes)

    def gram(self) -> FloatArray:
        """``T^T T = a I + b 1 1^T``, by symmetry."""
        dense_guard(self.num_classes, self.num_classes, self.name)
        a, together = self._gram()
        return a * np.eye(self.num_classes) + together

    def _gram(self) -> tuple[float, float]:
        """a = sum over sets that tell two classes apart of (inside - outside)^2; and the off-diagonal entry b."""
        K, j = self.num_classes, np.arange(self.num_classes + 1)
        inside, outside = np.exp(self.log_inside), np.exp(self.log_outside)
        apart = np.exp(log_binomial(K - 2, j - 1))
        both, neither = np.exp(log_binomial(K - 2, j - 2)), np.exp(log_binomial(K - 2, j))
        a = float((apart * (inside - outside) ** 2).sum())
        return a, float((both * inside**2 + neither * outside**2 + 2 * apart * inside * outside).sum())

    def diagnose(self) -> Diagnosis:
        """Closed form: T^T T = a I + b 1 1^T by symmetry."""
        K = self.num_classes
        a, b = self._gram()
        smallest, largest = math.sqrt(a), math.sqrt(a + K * b)
        rank = K if smallest > checks.RANK_TOL * largest else 1
        return Diagnosis(
            name=self.name,
            num_classes=K,
            num_weak_labels=self.num_weak_labels,
            rank=rank,
            smallest_singular_value=smallest,
            condition_number=max(largest, smallest) / smallest if rank == K else math.inf,
            # a set is the class alone; or all others, as the only other one of two is
            disjoint_supports=self.p == 0 or (self.e == 1 and (K == 2 or self.p == 1)),
            ambiguity_degree=self.p if self.e == 0 else None,
            _kernel=lambda: even_kernel(K, rank),
        )

    def signature(self) -> FloatArray:
        """Of p and e, which determine T."""
        return np.array([1 + self.p, 1 + self.e]) @ probes(2)

    def tables(self, needs: Needs = "label") -> dict[str, FloatArray]:
        """Both logarithms by set size."""
        return self._with_whole({"log_inside": self.log_inside, "log_outside": self.log_outside}, needs)

    def rows(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Rows:
        """One of the two probabilities inside of S, the other outside."""
        size = mask_sizes(labels)
        inside, outside = (look_up(tables[name].to(dtype), size)[..., None] for name in ("log_inside", "log_outside"))
        return DenseRows(torch.where(labels, inside, outside))

    def log_row_maxima(self) -> FloatArray:
        """The larger of both, by label; by size beyond 12 classes."""
        return self.per_label(np.maximum(self.log_inside, self.log_outside)[1:])

    @property
    def rate(self) -> Rate:
        """e."""
        name, K, p = "e, the probability that a set leaves the class out,", self.num_classes, self.p
        return Rate(name, self.e, lambda e: noisy_partial_labels(K, p, e))

    def left_inverse(self, method: str, prior: FloatArray | None) -> Reconstruction:
        """In closed form for a uniform prior; for any other, and "tightest", by enumeration."""
        if method != "tightest" and (prior is None or np.ptp(prior) == 0):
            return NoisySetReconstruction(self, method if method != "inverse" else "min_variance")
        return super().left_inverse(method, prior)


class NoisySetReconstruction(SetReconstruction):
    """``r_S = 1/K + c(|S|) (1_S - |S|/K)``, with g and h the probabilities of S inside and outside of it.

    R T = I holds iff ``sum_j C(K-2, j-1) c(j) (g(j) - h(j)) = 1``. Minimum variance, uniform prior: c(j) in
    proportion to
    ``(g - h) / (j g + (K-j) h)``; Moore-Penrose: to ``g - h``.
    """

    def __init__(self, transition: NoisySetTransition, method: str) -> None:
        self.transition = transition  # type: ignore[assignment]
        self.method = method
        K = transition.num_classes
        j = np.arange(K + 1)
        top = np.maximum(transition.log_inside, transition.log_outside)
        top = np.where(np.isneginf(top), 0.0, top)
        g, h = np.exp(transition.log_inside - top), np.exp(transition.log_outside - top)
        if method == "min_variance":
            share = j * g + (K - j) * h
            c = np.divide(g - h, share, out=np.zeros(K + 1), where=share > 0)
        else:
            c = np.exp(transition.log_inside) - np.exp(transition.log_outside)
        inside, outside = transition.weights
        self.coefficient = c / ((inside - outside) * c).sum()
        self.residual = abs(float(((inside - outside) * self.coefficient).sum()) - 1.0)


def noisy_partial_labels(K: int, p: float, e: float = 0.0) -> NoisySetTransition:
    """Candidate sets that leave the true class out with probability e, and hold every other class with probability p.

    Labels are boolean masks (n, K), True = possible; a set is never empty. e = 0 is `partial_labels`.

    Parameters
    ----------
    K : int
        The number of classes.
    p : float
        The probability that a wrong class is in the set.
    e : float
        The probability that the true class is not.

    Returns
    -------
    NoisySetTransition
        Its losses, targets and samples never list the 2^K - 1 sets.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.noisy_partial_labels(3, 0.2, 0.1).matrix().sum(axis=0).round(9)
    array([1., 1., 1.])
    """
    K, p, e = set_size(K), checks.real(p, "p", 0, 1), checks.real(e, "e", 0, 1)
    if p == 0 and e == 1:
        raise InputError("e: expected less than 1 where p = 0, for every set would be empty, got 1")
    return NoisySetTransition(K, p, e)
