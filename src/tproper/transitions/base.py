"""T: how a true class becomes a weak label.

``T[y, z] = P(weak label y | class z)``: weak labels x classes, columns sum to one (Section 2.2 of the paper).
A `Transition` knows its matrix, can sample from it, says what it lets a learner recover (`diagnose`), and
gives ``log (T p)_y`` for forward correction. Families with structure do all of this in O(K), without the matrix.

R leads from a weak label back to a target: classes x weak labels, ``R T = I`` (Assumption (b), Appendix F). Its
columns are normalised to sum to one, which any left inverse allows: ``R + (1/K) 1 (1 - R^T 1)^T`` is again a left
inverse, because ``1^T T = 1^T``. The column ``r = R e_y`` is the *target* of label y: its mean given class z is the
one-hot vector of z, and it may have negative entries.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import singledispatch
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import (
    ConditioningWarning,
    FloatArray,
    Labels,
    NotReconstructibleError,
    as_tensors,
    checks,
    count_text,
    draw,
    label_stream,
    look_up,
    short_of_one,
    warn,
)
from ..errors import InputError
from .dense import left_inverse
from .diagnosis import Diagnosis, diagnose_matrix, table_with_errors
from .evidence import Dense, DenseRows, Kinds, Needs, Pattern, Rows, Silenced, Targets, listed
from .labels import KINDS, POSITIVE_UNLABELED, LabelSpace, are_numbers, distinct_names, shown, space_of
from .posterior import Posterior
from .shrinkage import shrink
from .soft import SoftLabels, hard_labels, is_soft, soft_silent, soft_targets

LEARNED = "to learn T give it to the loss's call, loss(scores, labels, transitions=T)"
ENUMERATION_LIMIT = 12  # candidate sets are listed one by one up to this many classes

Tables = Mapping[str, Tensor]


class Rate(NamedTuple):
    """A probability that T is made of, and T for another value of it."""

    name: str
    value: float
    other: Callable[[float], Transition]
    fixed: bool = False  # whether another value would be another kind of label


class Transition:
    """How a true class becomes a weak label: ``T[y, z] = P(weak label y | class z)``. Made of a matrix, or a structure.

    Parameters
    ----------
    matrix : (M, K) array
        Every column sums to one within 1e-6. A pandas table names the classes by its columns, the labels by its index.
    weak_labels : sequence, optional
        Names of the M weak labels. Sets of class indices say that labels are candidate sets (then the
        ambiguity degree is known); tuples are (source, label) pairs. Default: 0 .. M-1, or the index of a pandas table.

    Attributes
    ----------
    num_classes, num_weak_labels : int
        K and M.
    weak_labels : list
        The names of the weak labels, in the order of T's rows.

    Notes
    -----
    A structure is a subclass that sets `num_classes` and `num_weak_labels` and gives `matrix` and `draw`; everything
    else follows from the matrix, and may be given a closed form: `rows` and `tables` (what losses work with),
    `left_inverse` (its R), `encode`, `diagnose`, `signature`, `gram`, `log_row_maxima`.

    Examples
    --------
    >>> import tproper as tp
    >>> T = tp.Transition([[0.9, 0.3], [0.1, 0.7]]).named(["spam", "ham"])
    >>> T.labels.encode(["ham", "spam"]).tolist()
    [1, 0]
    """

    num_classes: int
    num_weak_labels: int
    name: str = "transition"
    caution: str = ""  # what scores by such labels leave out, which all of them note
    sources: Sequence[Transition] = ()  # T of each of several sources, of which every label comes from one
    rho: float = 0.0  # how much answers depend on each other given the class, where labels are rows of answers
    of_features: bool = False  # whether labels are made from the features themselves, as those of rules are
    unidentified: str = ""  # why an estimate of T does not tell the classes apart: then scores say nothing
    posterior: Posterior | None = None  # what is not known of T; None where it is known
    prior: FloatArray | None = None  # class shares of the population that probabilities are wanted for
    per_class_labels: ClassVar[bool] = False  # True where a label is a mask over the classes
    _weak_labels: list[Any] | None = None
    _classes: list[Any] | None = None  # names of the classes, in the order of T's columns
    _label_kind: str | None = None  # set where structure and names leave it open

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """``Transition(matrix)`` makes a `DenseTransition`; structures are made by their own classes."""
        return super().__new__(DenseTransition if cls is Transition else cls)  # type: ignore[return-value]

    def __init__(self, *args: Any, **settings: Any) -> None:
        raise TypeError(f"{type(self).__name__}: expected an __init__ of its own; of a matrix make a DenseTransition")

    @staticmethod
    def from_counts(
        counts: ArrayLike, weak_labels: Sequence[Any] | None = None, structure: str = "auto"
    ) -> EstimatedTransition:
        """T from counts ``counts[y, z]``: how often label y was given to an example of class z.

        Columns are Dirichlet-multinomial. Where counts are few they are shrunk towards a form that the counts choose by
        their evidence (symmetric, complementary, the same in all classes, ...; see `tproper.transitions.shrinkage`);
        with many they are the plain frequencies. Counts need not be whole numbers. `structure`: "auto", or the form to
        shrink towards: "free" (every label equally likely), "pooled", "symmetric", "complementary",
        "ordinal" (classes in an order: errors among near ones).

        A pandas table gives labels and classes their names. Its axes may have names too, as those of ``pd.crosstab``
        do: one of "true", "class", "clean", ... beside one of "weak", "label", "noisy", ... says which axis holds the
        classes. An array has no names: of scikit-learn's ``confusion_matrix(true, weak)`` pass the transpose.
        """
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
        out = EstimatedTransition.from_dirichlet(posterior.concentration, names, posterior.notes)
        out.posterior.counts = table if structure == "auto" else None  # a form that was asked for is known
        out._classes = _column_names(counts)
        return out

    def named(self, names: Sequence[Any] | None) -> Self:
        """This T with these names of classes for its columns, in this order; None takes them away.

        Labels that go by the names of classes are then read by name (`Transition.labels`), estimators sort T by them,
        and integers that are no names are refused there: losses alone take rows of T.
        """
        if names is None and self._classes is None:
            return self
        out = copy.copy(self)
        out._classes = None if names is None else distinct_names(names, "names", self.num_classes)
        return out

    @property
    def classes(self) -> list[Any] | None:
        """The names of the classes in the order of T's columns; None where it has none (`named`)."""
        return None if self._classes is None else list(self._classes)

    @property
    def label_kind(self) -> str:
        """What a weak label is: a key of `labels.KINDS`. It follows from the structure of T and the names of its rows,
        unless it is set; never from T's own name, which is for people.
        """
        if self._label_kind is not None:
            return self._label_kind
        if self._weak_labels is not None:
            return "sets" if self._labels_are_sets() else "names"
        return "classes" if self.num_weak_labels == self.num_classes else "names"

    @label_kind.setter
    def label_kind(self, kind: str) -> None:
        checks.choice(kind, "label_kind", KINDS)
        self._label_kind = kind

    def _labels_are_sets(self) -> bool:
        return bool(self._weak_labels) and all(isinstance(s, (set, frozenset)) for s in self._weak_labels or [])

    @property
    def labels(self) -> LabelSpace:
        """What a label of this T is: how people write it, what it is called, and how losses take it."""
        return space_of(self, self._classes)

    @property
    def weak_labels(self) -> list[Any]:
        """The weak labels' names, in the order of the rows of `matrix()`."""
        return list(range(self.num_weak_labels)) if self._weak_labels is None else list(self._weak_labels)

    @property
    def label_shape(self) -> tuple[int, ...]:
        """The shape of one encoded label: () for an index, (K,) for a mask, (m,) for the answers of m annotators."""
        return (self.num_classes,) if self.per_class_labels else ()

    @property
    def label_dtype(self) -> torch.dtype:
        """The type of encoded labels: whole numbers, or booleans where they are masks."""
        return torch.bool if self.per_class_labels else torch.int64

    @property
    def share_shape(self) -> tuple[int, ...]:
        """The shape of one soft label: shares of M labels, or of those of each annotator."""
        return (self.num_weak_labels,)

    @property
    def table_rows(self) -> int:
        """How many rows the tables have that T is made of: those of all annotators together, else M."""
        return self.num_weak_labels

    @property
    def vacuous(self) -> Tensor | None:
        """The encoded label that rules no class out, the set of all classes, where labels are sets; else None."""
        return torch.ones(self.num_classes, dtype=torch.bool) if self.per_class_labels else None

    def matrix(self) -> FloatArray:
        """T as a float64 array (M, K)."""
        raise NotImplementedError(f"{type(self).__name__}: a structure of T has a matrix, or says that it is too large")

    def __repr__(self) -> str:
        named = "" if self._classes is None else f" ({shown(self._classes)})"
        return f"<{self.name}: {count_text(self.num_weak_labels)} weak labels, {self.num_classes} classes{named}>"

    def encode(self, labels: Labels, device: torch.device | None = None, validate: bool = True) -> Tensor:
        """Weak labels in their canonical tensor form, checked."""
        if isinstance(labels, SoftLabels):
            return labels.of(self, device)
        if self._label_kind == POSITIVE_UNLABELED:
            labels = checks.positive_unlabeled_labels(labels)
        elif isinstance(labels, Sequence) and len(labels) and isinstance(labels[0], Set) and self._labels_are_sets():
            labels = self.named(None).labels.encode(labels, "labels")
        return checks.index_labels(labels, self.num_weak_labels, device=device, validate=validate)

    def sample(self, y: Labels, seed: int | np.random.Generator) -> NDArray[Any]:
        """Draw one weak label for each class in `y`; the same seed gives the same labels, not `default_rng(seed)`'s."""
        classes = checks.index_labels(y, self.num_classes, name="y").cpu().numpy()
        return self.draw(classes, label_stream(seed))

    def draw(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        """One weak label for each class, as `encode` takes them."""
        raise NotImplementedError(f"{type(self).__name__}: a structure of T draws labels")

    def plot(self, ax: Any = None, classes: Sequence[Any] | None = None) -> Any:
        """T as a heat map, with 95% intervals where it is estimated, on matplotlib's axes, which are returned.

        `ax`: axes of yours, or none for new ones. `classes`: names of the classes, in the order of T's columns.
        """
        return draw("transition", self, ax, classes=classes)

    def diagnose(self) -> Diagnosis:
        """Rank, conditioning, kernel, ambiguity and supports of T."""
        return diagnose_matrix(self.matrix(), self.name, self._weak_labels if self._labels_are_sets() else None)

    def reconstruction(self, method: str | Reconstruction = "auto", prior: ArrayLike | None = None) -> Reconstruction:
        """A reconstruction R of this T (R T = I).

        ``"inverse"`` (square T), ``"pinv"``, ``"min_variance"`` (smallest variance of the targets for a class `prior`,
        uniform by default: ``(T^T D^-1 T)^-1 T^T D^-1`` with D = diag(T prior)), ``"tightest"`` (smallest largest
        critical k), or ``"auto"``: the inverse where T is square, else minimum variance.

        Raises
        ------
        NotReconstructibleError
            Some classes cannot be told apart from weak labels: T has no left inverse.
        """
        if isinstance(method, Reconstruction):
            if method.transition is not self and not method.transition.same_as(self):
                raise InputError("reconstruction: expected one made for this transition, got one of another transition")
            if prior is not None:
                raise InputError("prior: expected None with a given reconstruction, which a prior cannot change")
            return method
        if not isinstance(method, str) or method not in METHODS:
            known = ", ".join(METHODS)
            raise InputError(f"method: expected one of {known} or a Reconstruction, got {checks.short(method)}")
        K, M = self.num_classes, self.num_weak_labels
        weights = None if prior is None else checks.probability_vector(prior, "prior", K)
        square = M == K
        if weights is not None and not square and method not in ("auto", "min_variance"):
            raise InputError(f"prior: expected None with method {method!r}; only 'min_variance' depends on a prior")
        if method == "inverse" and not square:
            raise InputError(
                f"method: expected as many weak labels as classes for 'inverse', got {M} and {K}; use 'min_variance'"
            )
        diagnosis = self.diagnose()
        if not diagnosis.reconstructible:
            raise NotReconstructibleError(
                f"transition: expected rank {K} for {K} classes, got {diagnosis.rank}, so no R has R T = I: "
                f"{diagnosis.confusion()} cannot be told apart from these weak labels; merge them, add a source that "
                "separates them, or use ForwardLoss (proper, though not strictly)"
            )
        if diagnosis.condition_number > CONDITION_LIMIT:
            warn(
                f"{self.name}: T is close to singular (condition number {diagnosis.condition_number:.2g}); "
                "targets are huge and learning needs correspondingly more data",
                ConditioningWarning,
            )
        if method == "auto":
            method = "inverse" if square else "min_variance"
        return self.left_inverse(method, weights)

    def left_inverse(self, method: str, prior: FloatArray | None) -> Reconstruction:
        """The R that `reconstruct` has decided on; a structure overrides this with its closed form."""
        return DenseReconstruction(left_inverse(self.matrix(), method, prior), self, method=method)

    def with_prior(self, prior: ArrayLike | None) -> Self:
        """This T for a population with these class shares (K,): a classifier's probabilities are then that one's.

        T says how a class becomes a label, and does not change where the shares of the classes do (label shift:
        ``P(x | class)`` stays). By Bayes' rule ``P'(z | x)`` is then proportional to ``P(z | x) prior_z / pi_z``,
        with pi the shares among the rows that the model was trained on. None: those themselves.
        """
        out = copy.copy(self)
        out.prior = None if prior is None else checks.probability_vector(prior, "prior", self.num_classes)
        return out

    def same_as(self, other: Transition) -> bool:
        """Whether two objects describe the same T of the same labels, whatever their names and classes of Python.

        Labels are the same if they are passed in the same form: indices, masks, answers, or positive and unlabeled.
        """
        if not isinstance(other, Transition):
            return False
        a, b = self.fingerprint(), other.fingerprint()
        return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-12, atol=0))

    def names_for(self, classes: list[Any]) -> list[Any] | None:
        """The names of the weak labels where classes have these names; None where that follows from `weak_labels`."""
        return None

    @property
    def trained_shares(self) -> FloatArray | None:
        """The class shares of the training rows (K,), where T says them: of bags of unlabeled data."""
        return None

    @property
    def log_shift(self) -> FloatArray:
        """What leads from log-probabilities among the training rows to the population's (K,), where T says it: or 0."""
        return np.zeros(self.num_classes)

    def ignored(self, labels: Labels, index: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
        """Labels with 0 in place of `index`, and which examples (...) these are."""
        return checks.ignored(labels, index, device)

    def wrong_label(self, label: int) -> str:
        """What was expected instead of an encoded label that is none; of a mask `label` is its size."""
        return f"integers in [0, {self.num_classes}), got {label}"

    def draws_of_posterior(self, count: int, seed: int | np.random.SeedSequence = 0) -> FloatArray | None:
        """Draws (S, M, K) of an estimated T; of one of several parts, where that of some was estimated; else None.

        Parts draw from streams that are spawned, not counted: sums of seeds would meet again among sources of sources.
        """
        return None if self.posterior is None else self.posterior.samples(count, np.random.default_rng(seed))

    @property
    def estimated(self) -> bool:
        """Whether T, or that of a source or an annotator, was estimated."""
        return self.posterior is not None or any(t.estimated for t in (*self.sources, *self.separate))

    def drawn_confusions(self, reconstruction: Reconstruction, count: Callable[[int], int]) -> FloatArray:
        """``R T_s`` (S, K, K) of draws of an estimated T: ``count(size)`` of them where each takes `size` numbers."""
        T = self.draws_of_posterior(count(self.table_rows * self.num_classes))
        assert T is not None
        return np.asarray(reconstruction.matrix() @ T)

    def with_gaps_of(self, labels: Tensor, others: Tensor) -> Tensor:
        """Encoded labels, with gaps where other labels of the same rows have some."""
        return labels

    def score_bounds(self, score: Any) -> FloatArray:
        """The smallest ``l(T p, y)`` over all p of a proper score, by label: in the order of `log_row_maxima`.

        `score` has ``bound(T, y)``, and closed forms for structures that treat classes alike, where it does so with
        labels (``symmetric``).
        """
        T = self.matrix()
        return np.array([score.bound(T, y) for y in range(len(T))])

    def given_inverse(self, matrix: ArrayLike) -> Reconstruction:
        """A reconstruction by its matrix (K, M), checked."""
        return DenseReconstruction(matrix, self)

    @property
    def separate(self) -> Sequence[Transition]:
        """T of each of several annotators, where a label is a row of their answers; else none."""
        return ()

    @property
    def source_rows(self) -> tuple[NDArray[np.int64], FloatArray]:
        """Where the rows of each of several sources begin and end (D + 1,), and the sources' shares (D,)."""
        return np.array([0, self.num_weak_labels]), np.ones(1)

    @property
    def size_probability(self) -> FloatArray | None:
        """``P(|S| = j)``, j = 0 .. K, where labels are candidate sets of which only the size matters; else None."""
        return None

    def size_draws(self, count: int) -> FloatArray | None:
        """`size_probability` (count, K + 1) of draws of T, where it was estimated."""
        return None

    @property
    def rate(self) -> Rate | None:
        """The one probability that T is made of, or that is least known; None where it is not made of such."""
        return None

    @property
    def listed(self) -> bool:
        """Whether weak labels are few enough for `matrix`, and each has a row."""
        return True

    @property
    def clean(self) -> bool:
        """Whether weak labels are the classes themselves."""
        return False

    def of_known_classes(self, labels: Tensor, known: Tensor, classes: Tensor) -> Tensor | None:
        """Labels with those of rows whose class is `known` replaced by labels that can only come from it.

        Only where these have the same probability for every class, so that -log p_z is their loss up to a constant.
        """
        return None

    @property
    def answer_sizes(self) -> list[int] | None:
        """How many labels each of several annotators has, where a label is a row of their answers; else None."""
        return None

    def spoken(self, shares: Tensor) -> Tensor:
        """Shares of answers as they stand: only annotators have silence to fill in."""
        return shares

    @property
    def label_form(self) -> str:
        """What is passed as a label: "index", "mask", "answers", or "positive/unlabeled"."""
        if self._label_kind == POSITIVE_UNLABELED:
            return POSITIVE_UNLABELED
        return "mask" if self.per_class_labels else "answers" if self.label_shape else "index"

    def signature(self) -> FloatArray:
        """Some numbers that tell T from every other T of the same size and form of labels, but for rounding.

        They are linear functions ``<a, T b>`` of T with fixed vectors a and b: the same for the same T, however it is
        represented, and close for a T that is close.
        """
        a, b = probes(self.num_weak_labels), probes(self.num_classes)
        return np.asarray(((self.matrix().T @ a) * b).sum(axis=0), dtype=np.float64)

    def fingerprint(self) -> FloatArray:
        """The form of the labels, the sizes, and `signature`: what tells T, and how its labels are passed."""
        sizes = [len(self.label_form) + 1, self.num_classes, math.log1p(self.num_weak_labels)]
        return np.array([*sizes, *self.signature()], dtype=np.float64)

    def tables(self, needs: Needs = "label") -> dict[str, FloatArray]:
        """The arrays that `evidence` is made from; a loss keeps them as buffers. `needs`: what a score needs of T p."""
        with np.errstate(divide="ignore"):
            out = {"log_T": np.log(self.matrix())}
        return self.with_whole(out, needs)

    def with_whole(self, tables: dict[str, FloatArray], needs: Needs) -> dict[str, FloatArray]:
        """Tables, and the Gram matrix, or T itself where its rows can be listed."""
        if needs == "norm":
            return {**tables, "gram": self.gram()}
        return {**tables, "T": self.matrix()} if needs == "all" else tables

    def evidence(self, labels: Tensor, dtype: torch.dtype = torch.float64, tables: Tables | None = None) -> Rows:
        """The rows of T of encoded labels; `tables` are those of `tables()` as tensors, made anew by default."""
        tables = as_tensors(self.tables(), device=labels.device) if tables is None else tables
        rows = self.rows(labels, dtype, tables)
        rows.gram, rows.table = tables.get("gram"), tables.get("T")
        if rows.table is not None:
            rows.index = self.row_index(labels)
        return rows

    def rows(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Rows:
        """What `evidence` answers, by structure."""
        return DenseRows(look_up(tables["log_T"].to(dtype), self.row_index(labels)))

    def row_index(self, labels: Tensor) -> Tensor:
        """The row of `matrix()` that belongs to each encoded label."""
        return labels

    def place(self, labels: Tensor) -> Tensor | None:
        """Where the value of each encoded label stands among those of `log_row_maxima`; None where it may not stand."""
        return self.row_index(labels)

    def speaks(self, labels: Tensor) -> Tensor:
        """Whether each encoded label is more than silence (n,)."""
        return torch.ones(labels.shape[: labels.ndim - len(self.label_shape)], dtype=torch.bool, device=labels.device)

    def log_row_maxima(self) -> FloatArray:
        """``log max_z T_yz`` for each weak label (for each set size, beyond 12 classes of candidate sets)."""
        with np.errstate(divide="ignore"):
            return np.log(self.matrix().max(axis=1))

    def gram(self) -> FloatArray:
        """``T^T T`` (K, K): ``||T p||^2 = p^T (T^T T) p``."""
        T = self.matrix()
        return T.T @ T

    @property
    def pattern(self) -> Pattern | None:
        """The two numbers that rows of T consist of, where they do."""
        return None


class DenseTransition(Transition):
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


class EstimatedTransition(DenseTransition, metaclass=_HasPosterior):
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


def probes(n: int) -> FloatArray:
    """Fixed vectors (n, 8) of entries between 1 and 2, in no linear relation to each other."""
    steps = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0])
    return np.asarray(1 + np.arange(1, n + 1)[:, None] * steps % 1, dtype=np.float64)


def drawn_parts(parts: Sequence[Transition], count: int, seed: int | np.random.SeedSequence) -> list[FloatArray] | None:
    """Draws (S, M_a, K) of each of several T, those that are known as often as they stand; None where all are."""
    if not any(t.estimated for t in parts):
        return None
    own = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    drawn = [t.draws_of_posterior(count, stream) for t, stream in zip(parts, own.spawn(len(parts)), strict=True)]
    return [
        np.broadcast_to(t.matrix(), (count, *t.matrix().shape)) if T is None else T
        for t, T in zip(parts, drawn, strict=True)
    ]


METHODS = ("auto", "inverse", "pinv", "min_variance", "tightest")
ROUNDING = 1e-10  # entries of R below this share of their column's largest are zero
CONDITION_LIMIT = 1e7  # beyond it a target is rounding noise in float32


class Reconstruction:
    """A left inverse R of T, ``R T = I``: it turns a weak label into a target whose mean, given the class, is one-hot.

    Parameters
    ----------
    matrix : (K, M) array
        Any left inverse: ``R T = I`` is checked to 1e-6. Its columns are then shifted to sum to one, and entries below
        1e-10 of their column's largest count as zero: whether a target lies in the simplex must not hang on rounding.
    transition : Transition
        The T it belongs to.

    Notes
    -----
    A structure is a subclass that sets `transition`, `method` and `residual` and gives `columns`, the targets of
    labels; `kinds` is for labels that are too many to list.

    Examples
    --------
    >>> import tproper as tp
    >>> T = tp.symmetric_noise(2, 0.25)
    >>> T.reconstruction().matrix()
    array([[ 1.5, -0.5],
           [-0.5,  1.5]])
    >>> R = tp.Reconstruction([[1.5, -0.5], [-0.5, 1.5]], T)
    >>> R.targets([0, 1]).tolist()
    [[1.5, -0.5], [-0.5, 1.5]]
    """

    transition: Transition
    method: str
    residual: float  # max |R T - I|

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """``Reconstruction(matrix, transition)`` makes a `DenseReconstruction`."""
        return super().__new__(DenseReconstruction if cls is Reconstruction else cls)  # type: ignore[return-value]

    def __init__(self, *args: Any, **settings: Any) -> None:
        raise TypeError(
            f"{type(self).__name__}: expected an __init__ of its own; of a matrix make a DenseReconstruction"
        )

    def __repr__(self) -> str:
        return f"<reconstruction ({self.method}) of {self.transition.name}, max |R T - I| = {self.residual:.2g}>"

    def matrix(self) -> FloatArray:
        """R as a float64 array (K, M), columns in the order of the transition's rows."""
        return self.evidence(hard_labels(self.transition)).dense(torch.float64).numpy().T.copy()

    def targets(self, labels: Labels, dtype: torch.dtype = torch.float64) -> Tensor:
        """The targets ``R e_y`` (..., K) of weak labels."""
        return self.evidence(self.transition.encode(labels), dtype).dense(dtype)

    def tables(self) -> dict[str, FloatArray]:
        """The arrays that targets are made from; a loss keeps them as buffers."""
        return {}

    def evidence(self, labels: Tensor, dtype: torch.dtype = torch.float64, tables: Tables | None = None) -> Targets:
        """The targets of encoded labels, soft ones too; `tables` are those of `tables()`, made anew by default."""
        tables = as_tensors(self.tables(), device=labels.device) if tables is None else tables
        if is_soft(labels):
            targets: Targets = Dense(soft_targets(self, labels, dtype))
            silent = soft_silent(self, labels)
        else:
            silent, targets = self.silent(labels), self.columns(labels, dtype, tables)
        return targets if silent is None else Silenced(targets, silent)

    def columns(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Targets:
        """What `evidence` answers of hard labels that say something, by structure."""
        raise NotImplementedError(f"{type(self).__name__}: a structure of R gives the targets of labels")

    @property
    def pattern(self) -> Pattern | None:
        """The two numbers that targets consist of, where they do."""
        return None

    def to_plain(self) -> Any:
        """What `from_plain` makes R of again: the name of its method where it has a closed form, else its matrix."""
        return [[float(x) for x in row] for row in self.matrix()]

    @staticmethod
    def from_plain(stored: Any, transition: Transition) -> str | Reconstruction:
        """The inverse of `to_plain`."""
        if isinstance(stored, str):
            return stored
        if isinstance(stored, Mapping):
            return transition.reconstruction(stored["method"], stored["prior"])
        return transition.given_inverse(np.asarray(stored, dtype=np.float64))

    def shares(self, labels: Tensor | None) -> FloatArray | None:
        """How much each annotator counts in the targets of these rows, where targets are mixtures of theirs."""
        return None

    def own(self, annotator: int) -> FloatArray:
        """R_a (K, M_a) of one annotator, where targets are mixtures of theirs."""
        raise NotImplementedError(f"{self.transition.name} has no annotators")

    def least_scatter(self) -> FloatArray | None:
        """``min_z Var(r_y[c] | z)`` (K,): by how much labels scatter "is it c?", whatever the classes; of a table."""
        return None

    def silent(self, labels: Tensor) -> Tensor | None:
        """Which labels carry no information: their loss is 0, and scores skip them. None where all carry some."""
        return None

    def kinds(self, alike: FloatArray | None = None) -> Kinds:
        """One target for every kind of weak label that differs from the others by more than a renaming of classes.

        Classes with equal entries in `alike` (K,) may be renamed; all classes by default. For a dense R every label is
        a kind of its own.
        """
        names = [f"label {label_text(name)}" for name in self.transition.weak_labels]
        return listed(self.matrix().T, names, self.transition.row_index)


class DenseReconstruction(Reconstruction):
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


def label_text(name: object) -> str:
    """A label's name as text; sets in braces."""
    return "{" + ", ".join(map(str, sorted(name))) + "}" if isinstance(name, (set, frozenset)) else str(name)


@singledispatch
def read_transition(value: Any, num_classes: int | None = None) -> Transition:
    """The T that an argument gives: an object as it is, or what `make_transition` makes of a text or a dict.

    Matrices are refused: T and its transpose look alike, and ``tp.Transition(matrix)`` says which of them it is.
    """
    raise InputError(
        f"transition: expected a tproper.Transition, got {type(value).__name__}; "
        "a text such as 'complementary:10' will do, and tp.Transition(matrix) for a matrix"
    )


@read_transition.register
def _(value: Transition, num_classes: int | None = None) -> Transition:
    return value


def read_transitions(values: Any) -> list[Any]:
    """Those of a list, texts made: one may leave the number of classes to another. Empty where there is no list."""
    given = [] if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable) else list(values)
    K = next((t.num_classes for t in given if isinstance(t, Transition)), None)
    return [read_transition(t, K) if isinstance(t, (str, Mapping)) else t for t in given]
