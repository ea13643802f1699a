"""T and R as matrices: any T, one that was counted or estimated, and any left inverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import FloatArray, checks, look_up, short_of_one
from ..errors import InputError
from .base import Transition, read_transition
from .diagnosis import table_with_errors
from .evidence import Dense, Tables, Targets
from .labels import are_numbers, distinct_names, label_text
from .posterior import Posterior
from .reconstruction import Reconstruction
from .shrinkage import shrink

LEARNED = "to learn T give it to the loss's call, loss(scores, labels, transitions=T)"
ENUMERATION_LIMIT = 12  # candidate sets are listed one by one up to this many classes
DENSE_LIMIT = 1 << 28  # entries of a dense table (2 GiB); beyond it a family must be structured
ROUNDING = 1e-10  # entries of R below this share of their column's largest are zero


def dense_guard(rows: int, columns: int, name: str) -> None:
    """Refuse a table that would not fit into memory."""
    if rows * columns > DENSE_LIMIT:
        raise InputError(f"{name}: a dense {rows} x {columns} table would not fit; use targets and losses instead")


class DenseTransition(Transition, made_of="matrix"):
    """Any T, given as a matrix."""

    def __init__(self, matrix: ArrayLike | Tensor, weak_labels: Sequence[Any] | None = None) -> None:
        checks.no_gradient(matrix, "matrix", LEARNED)
        self._T = checks.column_stochastic(matrix)
        self._T.setflags(write=False)
        self.num_weak_labels, self.num_classes = self._T.shape
        if self.num_classes < 2:
            raise InputError(f"matrix: expected a column for each of two or more classes, got shape {self._T.shape}")
        self._classes = _column_names(matrix)
        weak_labels = _row_names(matrix) if weak_labels is None else weak_labels
        if weak_labels is not None and (
            not hasattr(weak_labels, "__len__") or isinstance(weak_labels, (str, Set, Mapping))
        ):
            raise InputError(f"weak_labels: expected a list of {self.num_weak_labels} names, got {weak_labels!r}")
        if weak_labels is not None and len(weak_labels) != self.num_weak_labels:
            raise InputError(
                f"weak_labels: expected {self.num_weak_labels} names, one per row of the matrix, got {len(weak_labels)}"
            )
        self._weak_labels = None if weak_labels is None else list(weak_labels)
        checks.different(self._weak_labels or [], "weak_labels")
        if self._labels_are_sets():
            checks.masks_of_sets(self._weak_labels or [], self.num_classes)

    def matrix(self) -> FloatArray:
        """T as a float64 array (M, K)."""
        return self._T.copy()

    def draw(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        """By the inverse of the distribution function of every column."""
        # Inverse CDF of every column at once: column z's cumulative sums live in (z, z + 1].
        cdf = self._T.cumsum(axis=0)
        cdf /= cdf[-1]
        flat = (cdf + np.arange(self.num_classes)).T.ravel()
        position = np.searchsorted(flat, classes + rng.random(classes.shape), side="right")
        last = self.num_weak_labels - 1 - (self._T[::-1] > 0).argmax(axis=0)  # rounding must not pass the support
        return np.minimum(position - classes * self.num_weak_labels, last[classes])


class _HasPosterior(type):
    """`EstimatedTransition` is the name of every T that carries a posterior, whatever its structure."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is EstimatedTransition and getattr(instance, "posterior", None) is not None:
            return isinstance(instance, Transition)
        return super().__instancecheck__(instance)


class EstimatedTransition(DenseTransition, metaclass=_HasPosterior, made_of="counts"):
    """A T that was estimated: a `Transition`, usable everywhere, that knows how uncertain it is.

    Its uncertainty is a distribution of T: for each column a Dirichlet distribution or an even mixture of several
    (`concentration`), or a set of posterior draws (`draws`). Scores and tests widen their intervals by it.

    Parameters
    ----------
    matrix : (M, K) array
        The estimate.
    draws : (S, M, K) array, optional
        Posterior draws of T.
    concentration : (M, K) or (C, M, K) array, optional
        Parameters of the columns' Dirichlet distributions, or of C equally probable sets of them; instead of `draws`.
    weak_labels, notes
        Names of the weak labels; what a reader should know of the estimate.
    counts : (M, K) array, optional
        What was counted, where no form of T was asked for: see `shrinkage.opened`.

    Attributes
    ----------
    stderr : (M, K) array
        The standard error of each entry; ``interval(level)`` gives limits, ``samples(n, seed)`` draws.
    notes : list of str
        What a reader should know about the estimate.

    Examples
    --------
    >>> import tproper as tp
    >>> T = tp.Transition.from_counts([[90, 20], [10, 80]])
    >>> isinstance(T, tp.EstimatedTransition), T.matrix().round(1).tolist()
    (True, [[0.9, 0.2], [0.1, 0.8]])
    >>> low, high = T.interval(0.95)
    >>> bool((low < T.matrix()).all() and (T.matrix() < high).all())
    True
    """

    name = "estimated transition"
    posterior: Posterior

    def __init__(
        self,
        matrix: ArrayLike | Tensor,
        *,
        draws: ArrayLike | None = None,
        concentration: ArrayLike | None = None,
        weak_labels: Sequence[Any] | None = None,
        notes: Sequence[str] = (),
        counts: ArrayLike | None = None,
    ) -> None:
        super().__init__(matrix, weak_labels)
        self.posterior = Posterior(self._T, draws, concentration, counts)
        self.notes = list(notes)
        self.classifier: Any = None  # the model that T was estimated with, where there is one

    @classmethod
    def from_dirichlet(
        cls, concentration: ArrayLike, weak_labels: Sequence[Any] | None = None, notes: Sequence[str] = ()
    ) -> EstimatedTransition:
        """The mean of Dirichlet distributions of the columns, (M, K) or a mixture (C, M, K); zeros stay zero."""
        a = np.array(checks.array(concentration, "concentration"), dtype=np.float64)
        if a.ndim not in (2, 3) or not np.isfinite(a).all() or not (a.sum(axis=-2) > 0).all():
            raise InputError("concentration: expected finite numbers, columns with a positive sum, got others")
        mean = (a / a.sum(axis=-2, keepdims=True)).reshape(-1, *a.shape[-2:]).mean(axis=0)
        return cls(mean, concentration=a, weak_labels=weak_labels, notes=notes)

    @classmethod
    def _of_counts(cls, counts: ArrayLike, weak_labels: Sequence[Any] | None, structure: str) -> EstimatedTransition:
        """What ``Transition.from_counts`` answers."""
        checks.no_gradient(counts, "counts", LEARNED)
        counts = _classes_in_columns(counts)
        table = checks.matrix(counts, "counts")
        checks.entries(table, (table >= 0) & (table <= 2**53), "counts", "numbers from 0 to 2^53")
        if not table.any():
            raise InputError("counts: expected some counts > 0, got zeros only")
        if (table % 1).any() and np.abs(table.sum(axis=0) - 1).max() <= checks.COLUMN_SUM_TOL:
            raise InputError("counts: expected how often each label was given, got probabilities; use tp.Transition(T)")
        posterior = shrink(table, structure)
        names = _row_names(counts) if weak_labels is None else weak_labels
        out = cls.from_dirichlet(posterior.concentration, names, posterior.notes)
        out.posterior.counts = table if structure == "auto" else None  # a form that was asked for is known
        out._classes = _column_names(counts)
        return out

    @property
    def stderr(self) -> FloatArray:
        """Posterior standard deviation of each entry (M, K)."""
        return self.posterior.stderr

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """(low, high), each (M, K): the central posterior interval of each entry; from 0 where it was never counted."""
        return self.posterior.interval(level)

    def samples(self, n: int, seed: int | np.random.Generator = 0) -> FloatArray:
        """n posterior draws of T (n, M, K); the same seed gives the same draws."""
        return self.posterior.samples(n, seed)

    @property
    def concentration(self) -> FloatArray | None:
        """The parameters of the columns' Dirichlet distributions, where the posterior is made of such."""
        return self.posterior.concentration

    @property
    def draws(self) -> FloatArray | None:
        """The posterior draws of T that are kept, where there are some."""
        return self.posterior.draws

    @property
    def counts(self) -> FloatArray | None:
        """What was counted, where no form of T was asked for."""
        return self.posterior.counts

    @counts.setter
    def counts(self, table: FloatArray | None) -> None:
        self.posterior.counts = table

    def __str__(self) -> str:
        return self.describe(self.labels.class_names)

    def describe(self, classes: Sequence[Any]) -> str:
        """T as a table under the names of its classes, each entry with its standard error, and the notes."""
        head = f"{self.name}: P(label | class), {self._T.shape[0]} labels x {len(classes)} classes (+- 1 stderr)"
        labels = map(str, classes) if self.label_kind == "classes" else map(label_text, self.weak_labels)
        return "\n".join([head, *table_with_errors(self._T, self.stderr, list(labels), classes), *self.notes])


class DenseReconstruction(Reconstruction, made_of="matrix"):
    """R, given as a matrix."""

    def __init__(self, matrix: ArrayLike | Tensor, transition: Transition | str, method: str = "given") -> None:
        checks.no_gradient(matrix, "matrix", LEARNED)
        R = checks.matrix(matrix, "matrix")
        transition = read_transition(transition, len(R))
        T = transition.matrix()
        if R.shape != T.shape[::-1]:
            hint = "; pass the transpose" if R.shape == T.shape else ""
            raise InputError(
                f"matrix: expected R of shape {T.shape[::-1]} (classes x weak labels), got {R.shape}{hint}"
            )
        self.transition, self.method = transition, method
        self._R = _without_rounding(R + short_of_one(R) / len(R))
        self._R.setflags(write=False)
        self.residual = float(np.abs(self._R @ T - np.eye(len(R))).max())
        if self.residual > checks.COLUMN_SUM_TOL:
            raise InputError(
                f"matrix: expected a left inverse of T (R T = I within 1e-6), got an error of {self.residual:.3g}"
            )

    def matrix(self) -> FloatArray:
        """R as a float64 array (K, M), columns in the order of the transition's rows."""
        return self._R.copy()

    def tables(self) -> dict[str, FloatArray]:
        """The columns."""
        return {"R_T": self._R.T}

    def columns(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Targets:
        """Looked up."""
        return Dense(look_up(tables["R_T"].to(dtype), self.transition.row_index(labels)))

    def least_scatter(self) -> FloatArray | None:
        """From the table."""
        T, targets = self.transition.matrix(), self._R
        scatter: FloatArray = (targets**2 @ T - (targets @ T) ** 2).min(axis=1)
        return np.maximum(scatter, 0.0)


def _without_rounding(R: FloatArray) -> FloatArray:
    """Entries that are zero but for rounding become zero; the largest entry of the column takes what they leave."""
    size = np.abs(R)
    out = np.where(size < ROUNDING * size.max(axis=0), 0.0, R)
    out[size.argmax(axis=0), np.arange(R.shape[1])] += short_of_one(out)
    return out


def _row_names(table: Any) -> list[Any] | None:
    """The names in a pandas table's index; None where they are 0 .. M-1, or the names of the classes in their order."""
    rows = table.index.tolist() if hasattr(table, "iloc") else []
    return None if not rows or are_numbers(rows) or rows == table.columns.tolist() else rows


def _column_names(table: Any) -> list[Any] | None:
    """The names in a pandas table's columns; None where they are 0 .. K-1."""
    columns = table.columns.tolist() if hasattr(table, "iloc") else []
    return None if not columns or are_numbers(columns) else distinct_names(columns, "matrix")


#: What the axes of a table of counts are called, by what they hold.
OF_CLASSES = {"true", "truth", "class", "classes", "gold", "clean", "actual", "z", "y_true", "true_class", "true_label"}
OF_LABELS = {
    "weak",
    "label",
    "labels",
    "noisy",
    "observed",
    "given",
    "answer",
    "annotation",
    "y",
    "weak_label",
    "y_weak",
}


def _classes_in_columns(counts: Any) -> Any:
    """A table of counts whose columns are classes; transposed where its axes' names say that its rows are."""
    if not hasattr(counts, "iloc"):
        return counts
    rows, columns = (str(axis.name).strip().lower().replace(" ", "_") for axis in (counts.index, counts.columns))
    by_name = (rows in OF_CLASSES) - (rows in OF_LABELS) + (columns in OF_LABELS) - (columns in OF_CLASSES)
    return counts.T if by_name > 0 else counts
