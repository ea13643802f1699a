"""T: how a true class becomes a weak label.

``T[y, z] = P(weak label y | class z)``: weak labels x classes, columns sum to one (Section 2.2 of the paper).
A `Transition` knows its matrix, can sample from it, says what it lets a learner recover (`diagnose`), and
gives ``log (T p)_y`` for forward correction. Families with structure (uniform noise, candidate sets) do all
of this in O(K) for an example, without the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from . import _checks
from ._checks import FloatArray, Labels
from ._numerics import look_up

ENUMERATION_LIMIT = 12  # candidate sets are listed one by one up to this many classes
DENSE_LIMIT = 1 << 28  # entries of a dense table (2 GiB); beyond it a family must be structured

Tables = Mapping[str, Tensor]


@dataclass(frozen=True)
class Diagnosis:
    """What T lets a learner recover. Prints as a table."""

    name: str
    num_classes: int
    num_weak_labels: int
    rank: int
    smallest_singular_value: float
    condition_number: float
    disjoint_supports: bool
    ambiguity_degree: float | None
    _kernel: Callable[[], FloatArray] = field(repr=False, compare=False)

    @property
    def reconstructible(self) -> bool:
        """Whether some R has R T = I (Assumption (b)): rank T = K."""
        return self.rank == self.num_classes

    @cached_property
    def kernel_basis(self) -> FloatArray:
        """Orthonormal basis (K, K - rank) of the class distributions' differences that T cannot see."""
        return self._kernel()

    def confused_classes(self) -> list[list[int]]:
        """Groups of classes between which probability can move without any weak label noticing."""
        if self.reconstructible:
            return []
        if self.rank == 1:  # all columns of T are equal
            return [list(range(self.num_classes))]
        from scipy.sparse import csr_array  # scipy is imported where it is used: it would double the import time
        from scipy.sparse.csgraph import connected_components

        linked = np.abs(self.kernel_basis @ self.kernel_basis.T) > 1e-8
        count, group = connected_components(csr_array(linked), directed=False)
        groups = [np.flatnonzero(group == g).tolist() for g in range(count)]
        return [g for g in groups if len(g) > 1]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {
            "transition": self.name,
            "num_classes": self.num_classes,
            "num_weak_labels": self.num_weak_labels,
            "rank": self.rank,
            "reconstructible": self.reconstructible,
            "smallest_singular_value": self.smallest_singular_value,
            "condition_number": self.condition_number,
            "ambiguity_degree": self.ambiguity_degree,
            "disjoint_supports": self.disjoint_supports,
            "confused_classes": self.confused_classes(),
        }

    def __str__(self) -> str:
        M = self.num_weak_labels
        cond = self.condition_number
        rows = [
            (
                "weak labels x classes",
                f"{M if M < 10**9 else f'about 10^{math.log10(M):.0f}'} x {self.num_classes}",
            ),
            ("rank", f"{self.rank} of {self.num_classes}"),
            (
                "reconstructible",
                "yes" if self.reconstructible else f"no: {self.confusion()} cannot be told apart",
            ),
            ("smallest singular value", f"{self.smallest_singular_value:.4g}"),
            (
                "condition number",
                f"{cond:.4g}" + ("  (near singular: targets are huge)" if 1e6 < cond < np.inf else ""),
            ),
            ("ambiguity degree", "-" if self.ambiguity_degree is None else f"{self.ambiguity_degree:.4g}"),
            (
                "disjoint supports",
                "yes: backward cross entropy is bounded" if self.disjoint_supports else "no",
            ),
        ]
        width = max(len(k) for k, _ in rows)
        return "\n".join([self.name, "-" * len(self.name), *(f"{k:<{width}}  {v}" for k, v in rows)])

    def confusion(self) -> str:
        """The groups of `confused_classes` in words."""
        groups = [", ".join(map(str, g[:12])) + (", ..." if len(g) > 12 else "") for g in self.confused_classes()]
        return "classes " + " and ".join(f"{{{g}}}" for g in groups[:4]) + (" and more" if len(groups) > 4 else "")


class Transition:
    """Any T, given as a matrix.

    Parameters
    ----------
    matrix : (M, K) array
        ``T[y, z] = P(weak label y | class z)``; every column sums to one within 1e-6.
    weak_labels : sequence, optional
        Names of the M weak labels. Sets of class indices say that labels are candidate sets (then the
        ambiguity degree is known); tuples are (source, label) pairs. Default: 0 .. M-1.
    """

    # Filled in by reconstructions.py, which stands below this file: imports point one way only.
    _reconstruct: ClassVar[Callable[..., Any]]

    num_classes: int
    num_weak_labels: int
    name: str = "transition"
    per_class_labels: ClassVar[bool] = False  # True where a label is a mask over the classes

    def __init__(self, matrix: ArrayLike | Tensor, weak_labels: Sequence[Any] | None = None) -> None:
        self._T = _checks.column_stochastic(matrix)
        self._T.setflags(write=False)
        self.num_weak_labels, self.num_classes = self._T.shape
        if weak_labels is not None and not hasattr(weak_labels, "__len__"):
            raise ValueError(f"weak_labels: expected a list of {self.num_weak_labels} names, got {weak_labels!r}")
        if weak_labels is not None and len(weak_labels) != self.num_weak_labels:
            raise ValueError(
                f"weak_labels: expected {self.num_weak_labels} names, one per row of the matrix, got {len(weak_labels)}"
            )
        self._weak_labels = None if weak_labels is None else list(weak_labels)
        _checks.different(self._weak_labels or [], "weak_labels")
        if self._labels_are_sets():
            _checks.masks_of_sets(self._weak_labels or [], self.num_classes)

    def _labels_are_sets(self) -> bool:
        return bool(self._weak_labels) and all(isinstance(s, (set, frozenset)) for s in self._weak_labels or [])

    @property
    def weak_labels(self) -> list[Any]:
        """The weak labels' names, in the order of the rows of `matrix()`."""
        return list(range(self.num_weak_labels)) if self._weak_labels is None else list(self._weak_labels)

    def matrix(self) -> FloatArray:
        """T as a float64 array (M, K)."""
        return self._T.copy()

    def __repr__(self) -> str:
        return f"<{self.name}: {self.num_weak_labels} weak labels, {self.num_classes} classes>"

    def encode(self, labels: Labels, device: torch.device | None = None, validate: bool = True) -> Tensor:
        """Weak labels in their canonical tensor form, checked."""
        return _checks.index_labels(labels, self.num_weak_labels, device=device, validate=validate)

    def sample(self, y: Labels, seed: int | np.random.Generator) -> NDArray[Any]:
        """Draw one weak label for each true class in `y`; the same seed gives the same labels."""
        classes = _checks.index_labels(y, self.num_classes, name="y").cpu().numpy()
        return self._sample(classes, np.random.default_rng(seed))

    def _sample(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        # Inverse CDF of every column at once: column z's cumulative sums live in (z, z + 1].
        cdf = self._T.cumsum(axis=0)
        cdf /= cdf[-1]
        flat = (cdf + np.arange(self.num_classes)).T.ravel()
        found = np.searchsorted(flat, classes + rng.random(classes.shape), side="right")
        last = self.num_weak_labels - 1 - (self._T[::-1] > 0).argmax(axis=0)  # rounding must not pass the support
        return np.minimum(found - classes * self.num_weak_labels, last[classes])

    def diagnose(self) -> Diagnosis:
        """Rank, conditioning, kernel, ambiguity and supports of T."""
        _, s, vt = np.linalg.svd(self._T, full_matrices=self.num_weak_labels < self.num_classes)
        rank = int((s > _checks.RANK_TOL * s[0]).sum())
        smallest = float(s[-1]) if len(s) == self.num_classes else 0.0
        deficient = rank < self.num_classes
        return Diagnosis(
            name=self.name,
            num_classes=self.num_classes,
            num_weak_labels=self.num_weak_labels,
            rank=rank,
            smallest_singular_value=smallest,
            condition_number=math.inf if deficient else float(s[0] / s[-1]),
            disjoint_supports=bool(((self._T > 0).sum(axis=1) <= 1).all()),
            ambiguity_degree=self._ambiguity_degree(),
            _kernel=lambda: vt[rank:].T.copy(),
        )

    def _ambiguity_degree(self) -> float | None:
        """max over z' != z of P(z' in Y | z): Cour et al.'s degree, where weak labels are candidate sets."""
        if not self._labels_are_sets():
            return None
        masks = _checks.masks_of_sets(self._weak_labels or [], self.num_classes)
        together = masks.T.astype(float) @ self._T  # (z', z): P(z' in Y | z)
        np.fill_diagonal(together, 0.0)
        return float(together.max()) if self.num_classes > 1 else 0.0

    def reconstruction(self, method: str | Any = "auto", prior: ArrayLike | None = None) -> Any:
        """A reconstruction R of this T (R T = I); see `tproper.Reconstruction` for the methods."""
        return type(self)._reconstruct(self, method, prior)

    def tables(self) -> dict[str, FloatArray]:
        """The arrays `log_probability` needs; a loss keeps them as buffers."""
        with np.errstate(divide="ignore"):
            return {"log_T": np.log(self._T)}

    def row_index(self, labels: Tensor) -> Tensor:
        """The row of `matrix()` that belongs to each encoded label."""
        return labels

    def log_row_maxima(self) -> FloatArray:
        """``log max_z T_yz`` for each weak label (for each set size, beyond 12 classes of candidate sets)."""
        with np.errstate(divide="ignore"):
            return np.log(self._T.max(axis=1))

    def log_probability(self, scores: Tensor, labels: Tensor, tables: Tables) -> Tensor:
        """``log (T p)_y`` for p = softmax(scores): log-sum-exp over ``log T + log p``, never a log of a sum."""
        rows = look_up(tables["log_T"].to(scores.dtype), labels)  # (..., K)
        return log_mixture(scores, rows)


def dense_guard(rows: int, columns: int, name: str) -> None:
    """Refuse a table that would not fit into memory."""
    if rows * columns > DENSE_LIMIT:
        raise ValueError(f"{name}: a dense {rows} x {columns} table would not fit; use targets and losses instead")


def log_mixture(scores: Tensor, log_weights: Tensor) -> Tensor:
    """``log sum_z w_z p_z`` for p = softmax(scores), with an exact -inf and zero gradient where all terms are 0."""
    terms = torch.log_softmax(scores, -1) + log_weights
    impossible = torch.isneginf(terms).all(-1, keepdim=True)
    # logsumexp of nothing but -inf has a NaN gradient: give it zeros to chew on, then put -inf back.
    terms = terms.masked_fill(impossible, 0.0)
    top = terms.amax(-1, keepdim=True).detach()  # taken out first: the gradient of logsumexp rounds at scores of 1e6
    out = torch.logsumexp(terms - top, -1) + top[..., 0]
    return out.masked_fill(impossible[..., 0], -math.inf)
