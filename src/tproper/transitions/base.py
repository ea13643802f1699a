"""T: how a true class becomes a weak label.

``T[y, z] = P(weak label y | class z)``: weak labels x classes, columns sum to one (Section 2.2 of the paper).
A `Transition` knows its matrix, can sample from it, says what it lets a learner recover (`diagnose`), and
gives ``log (T p)_y`` for forward correction. Families with structure (uniform noise, candidate sets) do all
of this in O(K) for an example, without the matrix.

R leads from a weak label back to a target: classes x weak labels with ``R T = I`` (Assumption (b)). Its
columns are normalised to sum to one, which any left inverse allows: ``R + (1/K) 1 (1 - R^T 1)^T`` is again a left
inverse, because ``1^T T = 1^T``. The column ``r = R e_y`` is the *target* of label y: its mean given class z is the
one-hot vector of z, and it may have negative entries.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import ConditioningWarning, FloatArray, Labels, NotReconstructibleError, checks, look_up, tracing
from .dense import left_inverse
from .diagnosis import Diagnosis

ENUMERATION_LIMIT = 12  # candidate sets are listed one by one up to this many classes
DENSE_LIMIT = 1 << 28  # entries of a dense table (2 GiB); beyond it a family must be structured

Tables = Mapping[str, Tensor]


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

    num_classes: int
    num_weak_labels: int
    name: str = "transition"
    per_class_labels: ClassVar[bool] = False  # True where a label is a mask over the classes

    def __init__(self, matrix: ArrayLike | Tensor, weak_labels: Sequence[Any] | None = None) -> None:
        self._T = checks.column_stochastic(matrix)
        self._T.setflags(write=False)
        self.num_weak_labels, self.num_classes = self._T.shape
        if weak_labels is not None and not hasattr(weak_labels, "__len__"):
            raise ValueError(f"weak_labels: expected a list of {self.num_weak_labels} names, got {weak_labels!r}")
        if weak_labels is not None and len(weak_labels) != self.num_weak_labels:
            raise ValueError(
                f"weak_labels: expected {self.num_weak_labels} names, one per row of the matrix, got {len(weak_labels)}"
            )
        self._weak_labels = None if weak_labels is None else list(weak_labels)
        checks.different(self._weak_labels or [], "weak_labels")
        if self._labels_are_sets():
            checks.masks_of_sets(self._weak_labels or [], self.num_classes)

    @staticmethod
    def from_counts(counts: ArrayLike, weak_labels: Sequence[Any] | None = None) -> EstimatedTransition:
        """T from counts ``counts[y, z]``: how often label y was given to an example of class z.

        Column z of T is the mean of its Dirichlet posterior, ``(counts + 1/M) / (n_z + 1)``.
        """
        table = checks.matrix(counts, "counts")
        if (table < 0).any():
            y, z = np.argwhere(table < 0)[0]
            raise ValueError(f"counts: expected numbers >= 0, got {table[y, z]:g} at row {y}, column {z}")
        return EstimatedTransition.from_dirichlet(table + 1.0 / len(table), weak_labels)

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
        return checks.index_labels(labels, self.num_weak_labels, device=device, validate=validate, coding=self.name)

    def sample(self, y: Labels, seed: int | np.random.Generator) -> NDArray[Any]:
        """Draw one weak label for each true class in `y`; the same seed gives the same labels."""
        classes = checks.index_labels(y, self.num_classes, name="y").cpu().numpy()
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
        rank = int((s > checks.RANK_TOL * s[0]).sum())
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
        masks = checks.masks_of_sets(self._weak_labels or [], self.num_classes)
        together = masks.T.astype(float) @ self._T  # (z', z): P(z' in Y | z)
        np.fill_diagonal(together, 0.0)
        return float(together.max()) if self.num_classes > 1 else 0.0

    def reconstruction(self, method: str | Reconstruction = "auto", prior: ArrayLike | None = None) -> Reconstruction:
        """A reconstruction R of this T (R T = I); see `reconstruct` for the methods."""
        return reconstruct(self, method, prior)

    def left_inverse(self, method: str, prior: FloatArray | None) -> Reconstruction:
        """The R that `reconstruct` has decided on; a structure overrides this with its closed form."""
        return Reconstruction(left_inverse(self._T, method, prior), self, method=method)

    def same_as(self, other: Transition) -> bool:
        """Whether two objects describe the same T, whatever their names."""
        if (type(self), self.num_classes, self.num_weak_labels) != (
            type(other),
            other.num_classes,
            other.num_weak_labels,
        ):
            return False
        ours, theirs = self.tables(), other.tables()
        return all(np.array_equal(ours[k], theirs[k]) for k in ours)

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


class EstimatedTransition(Transition):
    """A T that was estimated: a `Transition`, usable everywhere, that knows its own uncertainty.

    The uncertainty is a set of posterior draws of T, from a Dirichlet distribution of each column (`concentration`) or
    given (`draws`). Scores and tests that are handed one widen their intervals by it.

    Parameters
    ----------
    matrix : (M, K) array
        The estimate.
    draws : (S, M, K) array, optional
        Posterior draws of T.
    concentration : (M, K) array, optional
        Parameters of the columns' Dirichlet distributions; instead of `draws`.
    weak_labels, notes
        Names of the weak labels; what a reader should know of the estimate.
    """

    name = "estimated transition"

    def __init__(
        self,
        matrix: ArrayLike | Tensor,
        *,
        draws: ArrayLike | None = None,
        concentration: ArrayLike | None = None,
        weak_labels: Sequence[Any] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(matrix, weak_labels)
        if (draws is None) == (concentration is None):
            raise ValueError("draws: expected either draws or concentration, got both or neither")
        self.notes = list(notes)
        self.classifier: Any = None  # the model that T was estimated with, where there is one
        self.concentration = None if concentration is None else checks.matrix(concentration, "concentration")
        self.draws = None if draws is None else np.array(draws, dtype=np.float64)
        given = self.concentration if self.draws is None else self.draws
        assert given is not None
        if given.shape[-2:] != self._T.shape or given.ndim != (2 if self.draws is None else 3) or not given.size:
            raise ValueError(f"draws: expected the shape {self._T.shape} of T, got {given.shape}")
        if not (np.isfinite(given).all() and (given >= 0).all()):
            raise ValueError("draws: expected finite numbers >= 0, got others")

    @classmethod
    def from_dirichlet(
        cls, concentration: ArrayLike, weak_labels: Sequence[Any] | None = None, notes: Sequence[str] = ()
    ) -> EstimatedTransition:
        """The mean of independent Dirichlet distributions of the columns; zeros stay zero."""
        a = checks.matrix(concentration, "concentration")
        return cls(a / a.sum(axis=0), concentration=a, weak_labels=weak_labels, notes=notes)

    @property
    def stderr(self) -> FloatArray:
        """Posterior standard deviation of each entry (M, K)."""
        if self.concentration is not None:
            total = self.concentration.sum(axis=0)
            mean = self.concentration / total
            return np.sqrt(mean * (1 - mean) / (total + 1))
        assert self.draws is not None
        return self.draws.std(axis=0)

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """(low, high), each (M, K): the central posterior interval of each entry."""
        tail = (1 - checks.real(level, "level", 0, 1)) / 2
        if self.concentration is not None:
            from scipy.special import betaincinv

            a = self.concentration
            rest = a.sum(axis=0) - a
            inside = (a > 0) & (rest > 0)  # an entry known to be 0 or 1 has no width
            ends = [
                np.where(inside, betaincinv(np.where(inside, a, 1), np.where(inside, rest, 1), q), self._T)
                for q in (tail, 1 - tail)
            ]
            return ends[0], ends[1]
        assert self.draws is not None
        low, high = np.quantile(self.draws, [tail, 1 - tail], axis=0)
        return low, high

    def samples(self, n: int, seed: int | np.random.Generator = 0) -> FloatArray:
        """n posterior draws of T (n, M, K); the same seed gives the same draws."""
        n, rng = checks.integer(n, "n", 1), np.random.default_rng(seed)
        if self.concentration is not None:
            gammas = rng.standard_gamma(self.concentration, size=(n, *self._T.shape))
            total = gammas.sum(axis=1, keepdims=True)
            return np.where(total > 0, gammas / np.where(total > 0, total, 1.0), self._T)
        assert self.draws is not None
        stored = len(self.draws)
        return self.draws[rng.permutation(stored)[:n] if n <= stored else rng.integers(0, stored, n)]


METHODS = ("auto", "inverse", "pinv", "min_variance", "tightest")
CONDITION_LIMIT = 1e7  # beyond it a target is rounding noise in float32


class Reconstruction:
    """A left inverse R of T, given as a matrix and checked.

    Parameters
    ----------
    matrix : (K, M) array
        Any left inverse: ``R T = I`` is checked to 1e-6. Its columns are then shifted to sum to one.
    transition : Transition
        The T it belongs to.
    """

    def __init__(self, matrix: ArrayLike | Tensor, transition: Transition, method: str = "given") -> None:
        R = checks.matrix(matrix, "matrix")
        if not isinstance(transition, Transition):
            raise ValueError(f"transition: expected a Transition, got {type(transition).__name__}")
        T = transition.matrix()
        if R.shape != T.shape[::-1]:
            hint = "; pass the transpose" if R.shape == T.shape else ""
            raise ValueError(
                f"matrix: expected R of shape {T.shape[::-1]} (classes x weak labels), got {R.shape}{hint}"
            )
        self.transition = transition
        self.method = method
        self._R = R + (1 - R.sum(axis=0)) / len(R)
        self._R.setflags(write=False)
        self.residual = float(np.abs(self._R @ T - np.eye(len(R))).max())
        if self.residual > checks.COLUMN_SUM_TOL:
            raise ValueError(
                f"matrix: expected a left inverse of T (R T = I within 1e-6), got an error of {self.residual:.3g}"
            )

    def __repr__(self) -> str:
        return f"<reconstruction ({self.method}) of {self.transition.name}, max |R T - I| = {self.residual:.2g}>"

    def matrix(self) -> FloatArray:
        """R as a float64 array (K, M), columns in the order of the transition's rows."""
        return self._R.copy()

    def targets(self, labels: Labels, dtype: torch.dtype = torch.float64) -> Tensor:
        """The targets ``R e_y`` (..., K) of weak labels."""
        encoded = self.transition.encode(labels)
        tables = {k: torch.tensor(a, device=encoded.device, dtype=dtype) for k, a in self.tables().items()}
        return self._targets(encoded, tables, dtype)

    def tables(self) -> dict[str, FloatArray]:
        """The arrays that targets are made from; a loss keeps them as buffers."""
        return {"R_T": self._R.T}

    def _targets(self, labels: Tensor, tables: Tables, dtype: torch.dtype) -> Tensor:
        return look_up(tables["R_T"].to(dtype), self.transition.row_index(labels))

    def weigh(self, values: Tensor, labels: Tensor, tables: Tables) -> Tensor:
        """``<R e_y, values>`` over the last axis, for encoded labels."""
        return (self._targets(labels, tables, values.dtype) * values).sum(-1)

    def orbit_columns(self) -> tuple[FloatArray, list[str]]:
        """One target for every kind of weak label that differs from the others by more than a renaming of classes.

        Returns targets (L, K) and a name for each. For a dense R these are simply all its columns.
        """
        return self._R.T.copy(), [f"label {_label_text(name)}" for name in self.transition.weak_labels]

    def per_label(self, per_orbit: FloatArray) -> FloatArray:
        """Spread one value per orbit over the weak labels, in the order of the transition's rows."""
        return per_orbit


def _label_text(name: object) -> str:
    return "{" + ", ".join(map(str, sorted(name))) + "}" if isinstance(name, (set, frozenset)) else str(name)


def reconstruct(
    transition: Transition, method: str | Reconstruction = "auto", prior: ArrayLike | None = None
) -> Reconstruction:
    """The reconstruction of T by `method`; ``Transition.reconstruction`` calls this.

    ``"inverse"`` (square T), ``"pinv"``, ``"min_variance"`` (smallest variance of the targets for a class
    `prior`, uniform by default: ``(T^T D^-1 T)^-1 T^T D^-1`` with D = diag(T prior)), ``"tightest"`` (smallest
    largest critical k), or ``"auto"``: the inverse where T is square, else minimum variance.
    """
    if isinstance(method, Reconstruction):
        if method.transition is not transition and not method.transition.same_as(transition):
            raise ValueError("reconstruction: expected one made for this transition, got one of another transition")
        if prior is not None:
            raise ValueError("prior: expected None with a given reconstruction, which a prior cannot change")
        return method
    if not isinstance(method, str) or method not in METHODS:
        got = checks.short(method)
        raise ValueError(f"method: expected one of {', '.join(METHODS)} or a Reconstruction, got {got}")
    K, M = transition.num_classes, transition.num_weak_labels
    weights = None if prior is None else checks.probability_vector(prior, "prior", K)
    square = M == K
    if weights is not None and not square and method not in ("auto", "min_variance"):
        raise ValueError(f"prior: expected None with method {method!r}; only 'min_variance' depends on a prior")
    if method == "inverse" and not square:
        raise ValueError(
            f"method: 'inverse' expects as many weak labels as classes, got {M} and {K}; use 'min_variance'"
        )

    diagnosis = transition.diagnose()
    if not diagnosis.reconstructible:
        raise NotReconstructibleError(
            f"transition: expected rank {K} for {K} classes, got {diagnosis.rank}, so no R has R T = I: "
            f"{diagnosis.confusion()} cannot be told apart from these weak labels; merge them, add a source that "
            "separates them, or use ForwardLoss (proper, though not strictly)"
        )
    if diagnosis.condition_number > CONDITION_LIMIT:
        warnings.warn(
            f"{transition.name}: T is close to singular (condition number {diagnosis.condition_number:.2g}); "
            "targets are huge and learning needs correspondingly more data",
            ConditioningWarning,
            stacklevel=3,
        )

    if method == "auto":
        method = "inverse" if square else "min_variance"
    return transition.left_inverse(method, weights)


def per_example_targets(transitions: Tensor, labels: Tensor, validate: bool = True) -> Tensor:
    """Targets (n, K) for one T per example (n, M, K): the minimum-variance R (the inverse where T is square).

    ``r = (T^T D^-1 T)^-1 T^T D^-1 e_y``, D = diag(T 1/K), through the QR decomposition of ``D^-1/2 T``: one per
    example, in float64, because forming ``T^T D^-1 T`` would square the condition number.
    """
    n, M, K = transitions.shape
    if M < K:
        raise NotReconstructibleError(
            f"transitions: expected at least as many weak labels as the {K} classes, got {M}; use ForwardLoss"
        )
    T = transitions.double()
    root = T.mean(-1, keepdim=True).sqrt()  # (n, M, 1); zero for labels that never occur
    scaled = torch.where(root > 0, T / torch.where(root > 0, root, 1.0), 0.0)
    Q, U = torch.linalg.qr(scaled)
    if validate and tracing.readable(U):
        pivots = U.detach().diagonal(dim1=-2, dim2=-1).abs()
        rounding = 4 * torch.finfo(transitions.dtype).eps  # T in float32 cannot be closer to singular than this
        deficient = pivots.amin(-1) <= max(checks.RANK_TOL, rounding) * pivots.amax(-1)
        if bool(deficient.any()):
            raise NotReconstructibleError(
                f"transitions: expected rank {K} for every example, got less at row {int(deficient.nonzero()[0])}; "
                "use ForwardLoss (proper, though not strictly)"
            )
    index = labels[:, None, None]
    own = Q.gather(1, index.expand(n, 1, K)).transpose(-1, -2)  # (n, K, 1): Q^T e_y
    mass = root.gather(1, index)[:, 0]  # (n, 1)
    target = torch.linalg.solve_triangular(U, own, upper=True)[..., 0] / torch.where(mass > 0, mass, 1.0)
    return torch.where(mass > 0, target, 1.0 / K)
