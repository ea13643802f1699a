"""What T lets a learner recover: rank, conditioning, confused classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .._core import FloatArray, checks, count_text, plain


@dataclass(frozen=True)
class Diagnosis:
    """What T lets a learner recover. Prints as a table; `Transition.diagnose` makes it.

    Attributes
    ----------
    rank : int
        The rank of T.
    reconstructible : bool
        Whether the rank is K, so that some R has R T = I (Assumption (b) of the paper).
    smallest_singular_value, condition_number : float
        How well T can be inverted. The first is 0 where it is below the least float although the rank is full
        (thousands of classes with candidate sets): `log_smallest_singular_value` has it there, and tables and JSON say
        "about 10^-862".
    kernel_basis : (K, K - rank) array
        The differences between class distributions that T cannot see.
    ambiguity_degree : float or None
        Where labels are sets of classes: the largest probability that a wrong class is in the set with the true one.
    disjoint_supports : bool
        Whether no weak label can come from two classes.

    Examples
    --------
    >>> import tproper as tp
    >>> found = tp.coarse_labels([[0, 1], [2]]).diagnose()
    >>> found.rank, found.reconstructible, found.confused_classes()
    (2, False, [[0, 1]])
    """

    name: str
    num_classes: int
    num_weak_labels: int
    rank: int
    smallest_singular_value: float
    condition_number: float
    disjoint_supports: bool
    ambiguity_degree: float | None
    _kernel: Callable[[], FloatArray] = field(repr=False, compare=False)
    log_smallest_singular_value: float | None = None  # where it is computed: no float is as small as 10^-862

    @property
    def reconstructible(self) -> bool:
        """Whether some R has R T = I (Assumption (b)): rank T = K. Appendix A relates it to other assumptions."""
        return self.rank == self.num_classes

    @cached_property
    def kernel_basis(self) -> FloatArray:
        """Orthonormal basis (K, K - rank) of the differences between class distributions that T cannot see."""
        return self._kernel()

    @property
    def _too_small(self) -> str | None:
        """The smallest singular value in words, where it is not 0 but no float holds it."""
        log = self.log_smallest_singular_value
        if log is None or self.smallest_singular_value > 0 or not math.isfinite(log):
            return None
        return f"about 10^{log / math.log(10):.0f}"

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
        """Plain values, for JSON: an infinite condition number is the text "inf"."""
        out = {
            "transition": self.name,
            "num_classes": self.num_classes,
            "num_weak_labels": M if (M := self.num_weak_labels) < 2**53 else count_text(M),
            "rank": self.rank,
            "reconstructible": self.reconstructible,
            "smallest_singular_value": self._too_small or self.smallest_singular_value,
            "condition_number": self.condition_number,
            "ambiguity_degree": self.ambiguity_degree,
            "disjoint_supports": self.disjoint_supports,
            "confused_classes": self.confused_classes(),
        }
        return dict(plain(out))

    def __str__(self) -> str:
        cond = self.condition_number
        near = "  (near singular: targets are huge)" if 1e6 < cond < np.inf else ""
        rows = [
            ("weak labels x classes", f"{count_text(self.num_weak_labels)} x {self.num_classes}"),
            ("rank", f"{self.rank} of {self.num_classes}"),
            ("reconstructible", "yes" if self.reconstructible else f"no: {self.confusion()} cannot be told apart"),
            ("smallest singular value", self._too_small or f"{self.smallest_singular_value:.4g}"),
            ("condition number", f"{cond:.4g}{near}"),
            ("ambiguity degree", "-" if self.ambiguity_degree is None else f"{self.ambiguity_degree:.4g}"),
            ("disjoint supports", "yes: backward cross entropy is bounded" if self.disjoint_supports else "no"),
        ]
        width = max(len(k) for k, _ in rows)
        return "\n".join([self.name, "-" * len(self.name), *(f"{k:<{width}}  {v}" for k, v in rows)])

    def confusion(self) -> str:
        """The groups of `confused_classes` in words."""
        groups = [", ".join(map(str, g[:12])) + (", ..." if len(g) > 12 else "") for g in self.confused_classes()]
        return "classes " + " and ".join(f"{{{g}}}" for g in groups[:4]) + (" and more" if len(groups) > 4 else "")


def diagnose_matrix(T: FloatArray, name: str, sets: Sequence[Any] | None) -> Diagnosis:
    """The diagnosis of a matrix T (M, K) by its singular values; `sets` are the weak labels where they are sets."""
    M, K = T.shape
    _, s, vt = np.linalg.svd(T, full_matrices=M < K)
    rank = int((s > checks.RANK_TOL * s[0]).sum())
    return Diagnosis(
        name=name,
        num_classes=K,
        num_weak_labels=M,
        rank=rank,
        smallest_singular_value=float(s[-1]) if len(s) == K else 0.0,
        condition_number=math.inf if rank < K else float(s[0] / s[-1]),
        disjoint_supports=bool(((T > 0).sum(axis=1) <= 1).all()),
        ambiguity_degree=None if sets is None else _ambiguity_degree(T, sets),
        _kernel=lambda: vt[rank:].T.copy(),
    )


def _ambiguity_degree(T: FloatArray, sets: Sequence[Any]) -> float:
    """max over z' != z of P(z' in Y | z): Cour et al.'s degree of candidate sets."""
    K = T.shape[1]
    together = checks.masks_of_sets(sets, K).T.astype(float) @ T  # (z', z): P(z' in Y | z)
    np.fill_diagonal(together, 0.0)
    return float(together.max()) if K > 1 else 0.0


def table_with_errors(
    T: FloatArray, stderr: FloatArray, labels: Sequence[str], classes: Sequence[Any], most: int = 20
) -> list[str]:
    """The entries of T with their errors, at most `most` rows and columns of them."""
    M, K = (min(size, most) for size in T.shape)
    width = max(5, *(len(label) for label in labels[:M]))
    lines = [" " * width + "".join(f"{str(name)[:12]:>13}" for name in classes[:K])]
    for y in range(M):
        lines.append(f"{labels[y]:>{width}}" + "".join(f"  {T[y, z]:.3f}+-{stderr[y, z]:.3f}" for z in range(K)))
    return lines if T.shape == (M, K) else [*lines, f"({M} of {T.shape[0]} labels, {K} of {T.shape[1]} classes shown)"]
