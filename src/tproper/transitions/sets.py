"""Candidate sets: a label is a boolean mask over the classes. T and R in O(K), without enumerating the 2^K sets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._core import FloatArray, Labels, checks, look_up, tracing
from ..errors import InputError
from .base import Rate, Transition, probes
from .dense import ENUMERATION_LIMIT, dense_guard
from .diagnosis import Diagnosis
from .evidence import MOST_KINDS, Kinds, Needs, Pattern, Rows, SetRows, Step, Tables, Targets
from .reconstruction import Reconstruction
from .set_mass import mask_sizes
from .soft import SoftLabels, is_soft
from .uniform import even_kernel


class SetTransition(Transition):
    """Labels are sets of classes, as boolean masks (K,). They are listed one by one up to 12 classes.

    What holds of all of them; `CandidateSetTransition` and `NoisySetTransition` say how sets come about.
    """

    per_class_labels: ClassVar[bool] = True
    _label_kind = "masks"

    def set_sizes(self) -> list[int]:
        """The sizes that candidate sets can have."""
        return list(range(1, self.num_classes + 1))

    def candidate_sets(self) -> list[frozenset[int]]:
        """The possible sets in the paper's order: by size, then lexicographic. Up to 12 classes."""
        K = self.num_classes
        if K > ENUMERATION_LIMIT:
            raise InputError(
                f"{self.name}: candidate sets are enumerated for at most {ENUMERATION_LIMIT} classes, got {K}; "
                "targets, samples, losses and certificates need no enumeration"
            )
        sizes = self.set_sizes()
        return [frozenset(s) for j in sizes for s in combinations(range(K), j)]

    @property
    def weak_labels(self) -> list[Any]:
        """The candidate sets, in the order of the rows of `matrix()`."""
        return self.candidate_sets()

    def row_index(self, labels: Tensor) -> Tensor:
        """The row of `matrix()` that belongs to each mask (at most 12 classes)."""
        bits = 2 ** torch.arange(self.num_classes, device=labels.device)
        return torch.as_tensor(self._row_of_bits, device=labels.device)[(labels * bits).sum(-1)]

    @cached_property
    def _row_of_bits(self) -> NDArray[np.int64]:
        masks = checks.masks_of_sets(self.candidate_sets(), self.num_classes)
        rows = np.full(2**self.num_classes, -1)
        rows[masks @ 2 ** np.arange(self.num_classes)] = np.arange(len(masks))
        return rows

    def encode(self, labels: Labels, device: torch.device | None = None, validate: bool = True) -> Tensor:
        """Candidate masks (..., K), checked to be non-empty."""
        if isinstance(labels, SoftLabels):
            return labels.of(self, device)
        return checks.mask_labels(labels, self.num_classes, device=device, validate=validate)

    def place(self, labels: Tensor) -> Tensor:
        """The row, or beyond 12 classes the size of the set among those that are possible."""
        if self.num_classes <= ENUMERATION_LIMIT:
            return self.row_index(labels)
        sizes = torch.as_tensor(self.set_sizes(), device=labels.device)
        return torch.searchsorted(sizes, labels.sum(-1))

    @property
    def listed(self) -> bool:
        """Up to 12 classes."""
        return self.num_classes <= ENUMERATION_LIMIT

    def wrong_label(self, label: int) -> str:
        """Of a mask by its size."""
        if label == 0:
            return "non-empty candidate sets, got an empty one"
        return f"candidate sets of {_only(self.set_sizes())} classes, got one of {label}"

    def _with_whole(self, tables: dict[str, FloatArray], needs: Needs) -> dict[str, FloatArray]:
        """Where rows are to be found, their numbers are made now, not while a call is traced."""
        if needs == "all":
            _ = self._row_of_bits
        return super()._with_whole(tables, needs)

    def per_label(self, per_size: FloatArray) -> FloatArray:
        """One value per set size, spread over the labels; as it is beyond 12 classes, where labels cannot be listed."""
        if self.num_classes > ENUMERATION_LIMIT:
            return per_size
        by_size = dict(zip(self.set_sizes(), per_size, strict=True))
        return np.array([by_size[len(s)] for s in self.candidate_sets()])


class CandidateSetTransition(SetTransition):
    """Labels are candidate sets S that contain the true class; P(S | z) = g(|S|) for z in S.

    Partial labels and multiple complementary labels are of this kind. A label is a boolean mask (K,),
    True = still possible. By symmetry only the size of S matters, so nothing enumerates the 2^K sets.

    `log_weight[j]` is log g(j), j = 0 .. K, with sum_j C(K-1, j-1) g(j) = 1.
    """

    def __init__(self, log_weight: FloatArray, name: str, num_weak_labels: int) -> None:
        self.num_classes = len(log_weight) - 1
        self.log_weight = log_weight
        self.name = name
        self.num_weak_labels = num_weak_labels

    @cached_property
    def size_probability(self) -> FloatArray:
        """P(|S| = j), j = 0 .. K: the same for every class."""
        out = np.exp(self.log_weight + log_binomial(self.num_classes - 1, np.arange(-1, self.num_classes)))
        return out / out.sum()

    def matrix(self) -> FloatArray:
        """T by enumeration of the candidate sets (at most 12 classes)."""
        masks = checks.masks_of_sets(self.candidate_sets(), self.num_classes)
        return masks * np.exp(self.log_weight[masks.sum(axis=1)])[:, None]

    def draw(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        """A label for each class."""
        K, flat = self.num_classes, classes.reshape(-1)
        block = max(1, (1 << 22) // K)  # rows at a time: the random keys stay below 32 MiB
        parts = [self._sample_block(flat[i : i + block], rng) for i in range(0, flat.size, block)]
        return np.concatenate(parts).reshape(*classes.shape, K)

    def _sample_block(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
        # S is its true class and |S| - 1 others, uniformly: those with the smallest of K random keys.
        sizes = rng.choice(self.num_classes + 1, size=classes.size, p=self.size_probability)
        keys = rng.random((classes.size, self.num_classes))
        keys[np.arange(classes.size), classes] = -1.0
        threshold = np.take_along_axis(np.sort(keys, axis=1), sizes[:, None] - 1, axis=1)
        return keys <= threshold

    def diagnose(self) -> Diagnosis:
        """Closed form: T^T T = a I + b 1 1^T by symmetry."""
        K = self.num_classes
        # in logarithms: with 2^K labels the eigenvalues underflow long before their ratio does
        log_a = self.log_centred_gram()
        ratio = math.exp(log_a - self._log_moment(K - 1))
        largest = 1 + (K - 1) * (1 - ratio)  # relative to (T^T T)_zz
        rank = K if math.sqrt(ratio) > checks.RANK_TOL * math.sqrt(largest) else 1
        together = float((self.size_probability * np.arange(-1, K)).sum() / (K - 1))  # P(z' in S | z)
        return Diagnosis(
            name=self.name,
            num_classes=K,
            num_weak_labels=self.num_weak_labels,
            rank=rank,
            smallest_singular_value=math.exp(log_a / 2),
            condition_number=math.sqrt(largest / ratio) if rank == K else math.inf,
            disjoint_supports=bool((self.size_probability[2:] == 0).all()),
            ambiguity_degree=together,
            _kernel=lambda: even_kernel(K, rank),
            log_smallest_singular_value=log_a / 2,
        )

    def log_centred_gram(self) -> float:
        """log of the eigenvalue of T^T T on centred vectors: sum_j g(j)^2 C(K-2, j-1)."""
        return self._log_moment(self.num_classes - 2)

    def _log_moment(self, n: int) -> float:
        """log of sum_j g(j)^2 C(n, j-1); with n = K - 1 that is (T^T T)_zz."""
        return float(np.logaddexp.reduce(2 * self.log_weight + log_binomial(n, np.arange(-1, self.num_classes))))

    def gram(self) -> FloatArray:
        """``T^T T = a I + b 1 1^T``, by symmetry."""
        K = self.num_classes
        dense_guard(K, K, self.name)
        a = math.exp(self.log_centred_gram())
        return a * np.eye(K) + (math.exp(self._log_moment(K - 1)) - a)

    def signature(self) -> FloatArray:
        """Of ``P(|S| = j)``, which determines T."""
        return self.size_probability @ probes(self.num_classes + 1)

    def left_inverse(self, method: str, prior: FloatArray | None) -> Reconstruction:
        """In closed form for a uniform prior; for any other, by enumeration."""
        if prior is None or np.ptp(prior) == 0:
            return SetReconstruction(self, method if method != "inverse" else "min_variance")
        return super().left_inverse(method, prior)

    def tables(self, needs: Needs = "label") -> dict[str, FloatArray]:
        """log g by set size."""
        return self._with_whole({"log_weight": self.log_weight}, needs)

    def rows(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Rows:
        """g inside of the set."""
        return SetRows(labels, look_up(tables["log_weight"].to(dtype), mask_sizes(labels)))

    @property
    def pattern(self) -> Pattern:
        """By set size."""
        return Pattern(by_size="log_weight", set_size=_only(self.set_sizes()))

    def log_row_maxima(self) -> FloatArray:
        """log g(|S|), by label up to 12 classes, by set size beyond."""
        return self.per_label(self.log_weight[self.set_sizes()])

    def score_bounds(self, score: Any) -> FloatArray:
        """Bounds depend on the set's size alone, if the score treats labels alike.

        By symmetry the best p is even inside of S and outside, with mass s inside: ``q_S = g s`` and ``||q||^2 =
        a (s^2/j + (1-s)^2/(K-j)) + b``, T^T T = a I + b 1 1^T. Where q itself is needed, one set of each size stands
        for all of them.
        """
        if not score.symmetric:
            return super().score_bounds(score)
        j = np.array(self.set_sizes())
        if score.needs == "all":
            matrix, sizes = self.matrix(), [len(s) for s in self.candidate_sets()]
            return self.per_label(np.array([score.bound(matrix, sizes.index(size)) for size in j]))
        gram = self.gram()
        a, b = gram[0, 0] - gram[0, 1], gram[0, 1]
        return self.per_label(score.set_bounds(np.exp(self.log_weight[j]), j, self.num_classes, a, b))


def _only(sizes: list[int]) -> int:
    """The only size there is; 0 where there are several."""
    return sizes[0] if len(sizes) == 1 else 0


def log_binomial(n: int, k: NDArray[np.int64]) -> FloatArray:
    """log of the binomial coefficient, -inf outside of 0 <= k <= n."""
    valid = (k >= 0) & (k <= n)
    chosen = torch.as_tensor(np.where(valid, k, 0), dtype=torch.float64)
    out = torch.lgamma(torch.tensor(n + 1.0, dtype=torch.float64)) - torch.lgamma(chosen + 1)
    return np.where(valid, (out - torch.lgamma(n - chosen + 1)).numpy(), -np.inf)


class IndependentSets(CandidateSetTransition):
    """Every wrong class is a candidate with probability p, independently."""

    def __init__(self, log_weight: FloatArray, name: str, num_weak_labels: int, p: float) -> None:
        super().__init__(log_weight, name, num_weak_labels)
        self.p = p

    @property
    def rate(self) -> Rate:
        """p."""
        name, K = "p, the probability of a wrong candidate,", self.num_classes
        return Rate(name, self.p, lambda p: independent_sets(K, p))

    def of_known_classes(self, labels: Tensor, known: Tensor, classes: Tensor) -> Tensor | None:
        """The set of the class alone."""
        out = labels.clone()
        out[known] = torch.nn.functional.one_hot(classes[known], self.num_classes).bool()
        return out

    def _sample_block(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
        masks = rng.random((classes.size, self.num_classes)) < self.p
        masks[np.arange(classes.size), classes] = True
        return masks


def independent_sets(K: int, p: float) -> IndependentSets:
    """``P(S | z) = p^(|S|-1) (1-p)^(K-|S|)`` for z in S."""
    j = np.arange(K + 1)
    log_p = math.log(p) if p > 0 else -np.inf
    log_q = math.log1p(-p) if p < 1 else -np.inf
    with np.errstate(invalid="ignore"):
        log_weight = np.where(j == 1, 0.0, (j - 1) * log_p) + np.where(j == K, 0.0, (K - j) * log_q)
    log_weight[0] = -np.inf
    return IndependentSets(log_weight, f"partial_labels({K}, {p:g})", 2**K - 1, p)


class FixedSizeSets(CandidateSetTransition):
    """Candidate sets of one size only."""

    def encode(self, labels: Labels, device: torch.device | None = None, validate: bool = True) -> Tensor:
        """Candidate masks (..., K), checked to have the one size that can occur."""
        masks = super().encode(labels, device, validate)
        if not is_soft(masks) and validate and tracing.readable(masks):
            size = self.set_sizes()[0]
            sizes = masks.sum(-1).reshape(-1)
            wrong = (sizes != size).nonzero()
            if len(wrong):
                row = int(wrong[0])
                raise InputError(
                    f"labels: expected candidate sets of {size} classes ({self.num_classes - size} excluded), "
                    f"got one of {int(sizes[row])} at row {row}"
                )
        return masks

    def set_sizes(self) -> list[int]:
        """One size."""
        return np.flatnonzero(np.isfinite(self.log_weight)).tolist()

    def _sample_block(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
        excluded = self.num_classes - self.set_sizes()[0]
        keys = rng.random((classes.size, self.num_classes))
        keys[np.arange(classes.size), classes] = 2.0
        return keys > np.partition(keys, excluded - 1, axis=1)[:, excluded - 1 : excluded]


class SetReconstruction(Reconstruction):
    """R of candidate sets: ``r_S = 1/K + c(|S|) (1_S - |S|/K)``, one coefficient per set size.

    R T = I holds iff ``sum_j P(|S| = j) c(j) (K - j)/(K - 1) = 1``. By symmetry and convexity the best R of each
    criterion is of this form (average an optimal one over all renamings of the classes), which gives

    * minimum variance, uniform prior:  ``c(j) = c / j``;
    * Moore-Penrose:                    ``c(j) = g(j) / sum_i g(i)^2 C(K-2, i-1)``;
    * tightest, critical k being ``max(0, c(j) - 1/j)``:  ``c(j) = t + 1/j``.
    """

    def __init__(self, transition: CandidateSetTransition, method: str) -> None:
        K = transition.num_classes
        self.transition: CandidateSetTransition = transition
        self.method = method
        sizes = np.maximum(np.arange(K + 1), 1)
        share = transition.size_probability * (K - np.arange(K + 1)) / (K - 1)  # weights of R T = I
        if method == "pinv":
            self.coefficient = np.exp(transition.log_weight - transition.log_centred_gram())
        elif method == "min_variance":
            self.coefficient = 1.0 / sizes / (share / sizes).sum()
        else:
            self.coefficient = max(0.0, (1 - (share / sizes).sum()) / share.sum()) + 1.0 / sizes
        # the target of a label that never occurs is 1/K; one too unlikely for a double still has its own
        self.coefficient[np.isneginf(transition.log_weight)] = 0.0
        self.residual = abs(float((share * self.coefficient).sum()) - 1.0)

    def to_plain(self) -> Any:
        """The method: R has a closed form."""
        return self.method

    def tables(self) -> dict[str, FloatArray]:
        """The coefficient by set size."""
        return {"coefficient": self.coefficient}

    def columns(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Targets:
        """A step at the set's border."""
        return Step(labels, look_up(tables["coefficient"].double(), mask_sizes(labels)))

    @property
    def pattern(self) -> Pattern:
        """By set size."""
        return Pattern(by_size="coefficient", set_size=_only(self.transition.set_sizes()))

    def kinds(self, alike: FloatArray | None = None) -> Kinds:
        """Sets of one size are alike where all classes are.

        Else all sets are told apart, or, of more than `MOST_KINDS`, the one of each size whose classes have the least
        weight: of ``w r``, it has the smallest sum.
        """
        T = self.transition
        if alike is not None and np.ptp(alike) > 0:
            return self._unlike(alike)
        K, sizes = T.num_classes, np.array(T.set_sizes())
        names = [f"candidate sets of size {j}" for j in sizes]

        def index(labels: Tensor) -> Tensor:
            return torch.searchsorted(torch.as_tensor(sizes, device=labels.device), labels.sum(-1))

        return Kinds(names, self._first_classes(np.arange(K)), T.per_label, index)

    def _first_classes(self, order: NDArray[np.intp]) -> Callable[[slice], FloatArray]:
        """Targets of sets of all sizes, made of the first classes of an order."""
        K, sizes = self.transition.num_classes, np.array(self.transition.set_sizes())
        place = np.argsort(order)

        def targets(rows: slice) -> FloatArray:
            some = sizes[rows, None]
            dense_guard(len(some), K, "targets of all set sizes")
            c = self.coefficient[some]
            return c * (place < some) + (1 - c * some) / K

        return targets

    def _unlike(self, alike: FloatArray) -> Kinds:
        T, K = self.transition, self.transition.num_classes
        sizes = np.array(T.set_sizes())
        if sum(math.comb(K, int(j)) for j in sizes) > MOST_KINDS:
            names = [f"candidate sets of size {j}, of the classes of least weight" for j in sizes]
            every = self.kinds()
            return replace(every, names=names, targets=self._first_classes(np.argsort(alike)), example=True)
        sets = [s for j in sizes for s in combinations(range(K), int(j))]
        masks = checks.masks_of_sets(sets, K)
        c, size = self.coefficient[masks.sum(axis=1)], masks.sum(axis=1)
        columns = c[:, None] * masks + ((1 - c * size) / K)[:, None]
        bits, place = masks @ 2 ** np.arange(K), np.zeros(2**K, dtype=np.int64)
        place[bits] = np.arange(len(masks))
        ends = np.flatnonzero(np.diff(size, prepend=0))

        def spread(values: FloatArray) -> FloatArray:
            return values if K <= ENUMERATION_LIMIT else np.minimum.reduceat(values, ends)

        def index(labels: Tensor) -> Tensor:
            powers = 2 ** torch.arange(K, device=labels.device)
            return torch.as_tensor(place, device=labels.device)[(labels * powers).sum(-1)]

        names = [f"label {{{', '.join(map(str, s))}}}" for s in sets]
        return Kinds(names, lambda rows: columns[rows], spread, index)
