"""T with structure: uniform noise, candidate sets, stacked sources.

What the matrix would say is said by a few numbers: nothing here builds a K x K or 2^K table unless asked for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional

from . import _checks
from ._checks import FloatArray, Labels
from ._numerics import look_up
from ._passes import add_at, with_slope
from ._sets import log_set_mass, mask_sizes
from .transitions import ENUMERATION_LIMIT, Diagnosis, Tables, Transition, dense_guard


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

    def _sample(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        keep = rng.random(classes.shape) < self.diagonal
        other = (classes + rng.integers(1, self.num_classes, classes.shape)) % self.num_classes
        return np.where(keep, classes, other)

    def diagnose(self) -> Diagnosis:
        """Closed form: T is symmetric with eigenvalues 1 (once) and d - o (K - 1 times)."""
        K, s = self.num_classes, abs(self.gap)
        full = s > _checks.RANK_TOL

        def kernel() -> FloatArray:
            return np.zeros((K, 0)) if full else _centred_basis(K)

        complementary = self.diagonal == 0.0  # label y is then the candidate set "all but y"
        return Diagnosis(
            name=self.name,
            num_classes=K,
            num_weak_labels=K,
            rank=K if full else 1,
            smallest_singular_value=s,
            condition_number=1.0 / s if full else math.inf,
            disjoint_supports=self.off_diagonal == 0.0 or (K == 2 and complementary),
            ambiguity_degree=(K - 2) / (K - 1) if complementary else None,
            _kernel=kernel,
        )

    def tables(self) -> dict[str, FloatArray]:
        """Nothing: two numbers say it all."""
        return {}

    def log_row_maxima(self) -> FloatArray:
        """The same for every label."""
        return np.full(self.num_classes, math.log(max(self.diagonal, self.off_diagonal)))

    def log_probability(self, scores: Tensor, labels: Tensor, tables: Tables) -> Tensor:
        """With u = log-odds of class y: ``log (d sigma(u) + o sigma(-u))``, no term of which grows with u."""
        u = log_odds(scores, labels)
        # a term of probability zero is left out: logaddexp of -inf has no second derivative
        if self.diagonal == 0:
            return math.log(self.off_diagonal) + functional.logsigmoid(-u)
        if self.off_diagonal == 0:
            return functional.logsigmoid(u)
        own, others = functional.logsigmoid(u), functional.logsigmoid(-u)
        return torch.logaddexp(own + math.log(self.diagonal), others + math.log(self.off_diagonal))


class _LogOdds(torch.autograd.Function):
    """(v_y - logsumexp_{z != y} v_z, softmax of v without y); the second is returned so that it can be reused.

    One masked softmax serves value and gradient: d u = e_y - q. This is what makes forward correction cost
    about one cross entropy.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        others = scores.scatter(-1, index, -math.inf)
        top = others.amax(-1, keepdim=True)
        alone = torch.isneginf(top)  # no other class is possible: u is inf, and there is no q
        q = torch.softmax(others, -1).masked_fill(alone, 0.0)
        # the largest q is at least 1/(K-1), so this log-sum-exp is exact however far apart the scores are
        ahead = scores.gather(-1, index) - top  # first, before a common shift eats digits
        return (ahead + q.amax(-1, keepdim=True).masked_fill(alone, 1.0).log())[..., 0], q

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(inputs[1], output[1])
        ctx.save_for_forward(inputs[1], output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def jvp(ctx: Any, move: Tensor, _: None) -> tuple[Tensor, Tensor]:
        index, q = ctx.saved_tensors
        mean = (q * move).sum(-1, keepdim=True)
        return (move.gather(-1, index) - mean)[..., 0], q * (move - mean)

    @staticmethod
    def backward(ctx: Any, grad_u: Tensor | None, grad_q: Tensor | None) -> tuple[Tensor | None, None]:
        index, q = ctx.saved_tensors
        grad = None
        if grad_u is not None:
            grad = add_at(q * -grad_u[..., None], index, grad_u[..., None])  # q_y = 0
        if grad_q is not None:
            through = q * (grad_q - (q * grad_q).sum(-1, keepdim=True))
            grad = through if grad is None else grad + through
        return grad, None


def log_odds(scores: Tensor, labels: Tensor) -> Tensor:
    """``log p_y / (1 - p_y)`` for p = softmax(scores), exact when p_y is 0 or 1 to rounding."""
    if _checks.transformed() or scores.is_cuda:
        return _plain_log_odds(scores, labels)
    index = labels.reshape(-1, 1)

    def work(v: Tensor, rows: slice, slope: Tensor) -> Tensor:  # as _LogOdds, with the gradient e_y - q made at once
        at = index[rows]
        others = v.scatter(-1, at, -math.inf)
        torch.softmax(others, -1, out=slope)
        top = others.amax(-1, keepdim=True)
        peak, alone = slope.amax(-1, keepdim=True), torch.isneginf(top)
        if bool(alone.any()):
            slope.masked_fill_(alone, 0.0)
            peak.masked_fill_(alone, 1.0)
        u = (v.gather(-1, at) - top + peak.log_())[:, 0]
        slope.neg_().scatter_(-1, at, 1.0)
        return u

    return with_slope(scores, work, lambda v: _plain_log_odds(v, labels))


def _plain_log_odds(scores: Tensor, labels: Tensor) -> Tensor:
    index = labels[..., None]
    if torch.compiler.is_compiling():  # the compiler fuses the plain formula by itself
        others = torch.logsumexp(scores.scatter(-1, index, -math.inf), -1)
        return scores.gather(-1, index)[..., 0] - others
    out: Tensor = _LogOdds.apply(scores, index)[0]
    return out


def _centred_basis(K: int) -> FloatArray:
    dense_guard(K, K, "kernel basis")
    return np.linalg.svd(np.eye(K) - 1.0 / K)[0][:, : K - 1]


class CandidateSetTransition(Transition):
    """Labels are candidate sets S that contain the true class; P(S | z) = g(|S|) for z in S.

    Partial labels and multiple complementary labels are of this kind. A label is a boolean mask (K,),
    True = still possible. By symmetry all that matters of S is its size, so nothing enumerates the 2^K sets.

    `log_weight[j]` is log g(j), j = 0 .. K, with sum_j C(K-1, j-1) g(j) = 1.
    """

    per_class_labels: ClassVar[bool] = True

    def __init__(self, log_weight: FloatArray, name: str, num_weak_labels: int) -> None:
        self.num_classes = len(log_weight) - 1
        self.log_weight = log_weight
        self.name = name
        self.num_weak_labels = num_weak_labels

    @cached_property
    def size_probability(self) -> FloatArray:
        """P(|S| = j), j = 0 .. K: the same for every class."""
        out = np.exp(self.log_weight + _log_binomial(self.num_classes - 1, np.arange(-1, self.num_classes)))
        return out / out.sum()

    def candidate_sets(self) -> list[frozenset[int]]:
        """The possible sets in the paper's order: by size, then lexicographic. Up to 12 classes."""
        K = self.num_classes
        if K > ENUMERATION_LIMIT:
            raise ValueError(
                f"{self.name}: candidate sets are enumerated for at most {ENUMERATION_LIMIT} classes, got {K}; "
                "targets, samples, losses and certificates need no enumeration"
            )
        sizes = self.set_sizes()
        return [frozenset(s) for j in sizes for s in combinations(range(K), j)]

    def set_sizes(self) -> list[int]:
        """The sizes that candidate sets can have."""
        return list(range(1, self.num_classes + 1))

    @property
    def weak_labels(self) -> list[Any]:
        """The candidate sets, in the order of the rows of `matrix()`."""
        return self.candidate_sets()

    def matrix(self) -> FloatArray:
        """T by enumeration of the candidate sets (at most 12 classes)."""
        masks = _checks.masks_of_sets(self.candidate_sets(), self.num_classes)
        return masks * np.exp(self.log_weight[masks.sum(axis=1)])[:, None]

    def row_index(self, labels: Tensor) -> Tensor:
        """The row of `matrix()` that belongs to each mask (at most 12 classes)."""
        bits = 2 ** torch.arange(self.num_classes, device=labels.device)
        return torch.as_tensor(self._row_of_bits, device=labels.device)[(labels * bits).sum(-1)]

    @cached_property
    def _row_of_bits(self) -> NDArray[np.int64]:
        masks = _checks.masks_of_sets(self.candidate_sets(), self.num_classes)
        rows = np.full(2**self.num_classes, -1)
        rows[masks @ 2 ** np.arange(self.num_classes)] = np.arange(len(masks))
        return rows

    def encode(self, labels: Labels, device: torch.device | None = None, validate: bool = True) -> Tensor:
        """Candidate masks (..., K), checked to be non-empty."""
        return _checks.mask_labels(labels, self.num_classes, device=device, validate=validate)

    def _sample(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
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
        j = np.arange(K + 1)
        # in logarithms: with 2^K labels the eigenvalues underflow long before their ratio does
        log_one = float(np.logaddexp.reduce(2 * self.log_weight + _log_binomial(K - 1, j - 1)))  # (T^T T)_zz
        log_a = self.log_centred_gram()
        ratio = math.exp(log_a - log_one)
        largest = 1 + (K - 1) * (1 - ratio)  # relative to (T^T T)_zz
        full = math.sqrt(ratio) > _checks.RANK_TOL * math.sqrt(largest)

        def kernel() -> FloatArray:
            return np.zeros((K, 0)) if full else _centred_basis(K)

        together = float((self.size_probability * (j - 1)).sum() / (K - 1))  # P(z' in S | z)
        return Diagnosis(
            name=self.name,
            num_classes=K,
            num_weak_labels=self.num_weak_labels,
            rank=K if full else 1,
            smallest_singular_value=math.exp(log_a / 2),
            condition_number=math.sqrt(largest / ratio) if full else math.inf,
            disjoint_supports=bool((self.size_probability[2:] == 0).all()),
            ambiguity_degree=together,
            _kernel=kernel,
        )

    def log_centred_gram(self) -> float:
        """log of the eigenvalue of T^T T on centred vectors: sum_j g(j)^2 C(K-2, j-1)."""
        K = self.num_classes
        return float(np.logaddexp.reduce(2 * self.log_weight + _log_binomial(K - 2, np.arange(-1, K))))

    def tables(self) -> dict[str, FloatArray]:
        """log g by set size."""
        return {"log_weight": self.log_weight}

    def log_row_maxima(self) -> FloatArray:
        """log g(|S|), by label up to 12 classes, by set size beyond."""
        if self.num_classes > ENUMERATION_LIMIT:
            return self.log_weight[self.set_sizes()]
        return self.log_weight[[len(s) for s in self.candidate_sets()]]

    def log_probability(self, scores: Tensor, labels: Tensor, tables: Tables) -> Tensor:
        """``log g(|S|) + log sum_{z in S} p_z``."""
        return log_set_mass(scores, labels) + look_up(tables["log_weight"].to(scores.dtype), mask_sizes(labels))


def _log_binomial(n: int, k: NDArray[np.int64]) -> FloatArray:
    valid = (k >= 0) & (k <= n)
    chosen = torch.as_tensor(np.where(valid, k, 0), dtype=torch.float64)
    out = torch.lgamma(torch.tensor(n + 1.0, dtype=torch.float64)) - torch.lgamma(chosen + 1)
    return np.where(valid, (out - torch.lgamma(n - chosen + 1)).numpy(), -np.inf)


class StackedTransition(Transition):
    """Several sources side by side (Appendix B): T = (w_1 T_1; w_2 T_2; ...).

    Labels are (source, label) pairs (n, 2), or indices of the stacked rows.
    """

    def __init__(self, sources: Sequence[Transition], weights: FloatArray) -> None:
        self.sources = list(sources)
        self.weights = weights
        blocks = [w * t.matrix() for w, t in zip(weights, sources, strict=True)]
        self.offsets = np.cumsum([0] + [len(b) for b in blocks])
        names = [(d, label) for d, t in enumerate(sources) for label in t.weak_labels]
        super().__init__(np.concatenate(blocks), weak_labels=names)
        self.name = f"multi_source of {len(blocks)}"

    def encode(self, labels: Labels, device: torch.device | None = None, validate: bool = True) -> Tensor:
        """Stacked row indices; (source, label) pairs are turned into them."""
        pairs = labels if isinstance(labels, Tensor) else np.asarray(labels)
        if pairs.ndim == 0 or pairs.shape[-1] != 2 or pairs.ndim < 2:
            return super().encode(labels, device, validate)
        source = _checks.index_labels(pairs[..., 0], len(self.sources), "source", device, validate)
        label = _checks.index_labels(pairs[..., 1], int(np.diff(self.offsets).max()), "label", device, validate)
        offsets = torch.as_tensor(self.offsets, device=source.device)
        if validate and _checks.readable(label):
            sizes = torch.diff(offsets)[source].reshape(-1)
            if bool((label.reshape(-1) >= sizes).any()):
                row = int((label.reshape(-1) >= sizes).nonzero()[0])
                d, y = int(source.reshape(-1)[row]), int(label.reshape(-1)[row])
                raise ValueError(
                    f"labels: expected labels in [0, {int(sizes[row])}) from source {d}, got {y} at row {row}"
                )
        return offsets[source] + label

    def pairs(self, indices: ArrayLike) -> NDArray[np.int64]:
        """(source, label) pairs (n, 2) of stacked row indices."""
        rows = np.asarray(indices)
        source = np.searchsorted(self.offsets, rows, side="right") - 1
        return np.stack([source, rows - self.offsets[source]], axis=-1)
