"""T: how a true class becomes a weak label.

``T[y, z] = P(weak label y | class z)``: weak labels x classes, columns sum to one (Section 2.2 of the paper).
A `Transition` knows its matrix, can sample from it, says what it lets a learner recover (`diagnose`), and
gives ``log (T p)_y`` for forward correction. Families with structure do all of this in O(K), without the matrix.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import singledispatch
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import FloatArray, Labels, as_tensors, checks, count_text, draw, label_stream, look_up
from ..errors import InputError
from .diagnosis import Diagnosis, diagnose_matrix
from .evidence import DenseRows, Needs, Pattern, Rows, Tables
from .inverses import left_inverse
from .labels import KINDS, POSITIVE_UNLABELED, LabelSpace, distinct_names, shown, space_of
from .posterior import Posterior
from .reconstruction import Reconstruction, reconstruct
from .soft import SoftLabels

if TYPE_CHECKING:
    from .dense import EstimatedTransition


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

    _made_of: ClassVar[dict[str, Any]] = {}  # what is made of a "matrix", and of "counts"

    def __init_subclass__(cls, made_of: str = "", **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if made_of:
            Transition._made_of[made_of] = cls

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """``Transition(matrix)`` makes a `DenseTransition`; structures are made by their own classes."""
        return super().__new__(Transition._made_of["matrix"] if cls is Transition else cls)

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
        out: EstimatedTransition = Transition._made_of["counts"]._of_counts(counts, weak_labels, structure)
        return out

    def __repr__(self) -> str:
        named = "" if self._classes is None else f" ({shown(self._classes)})"
        return f"<{self.name}: {count_text(self.num_weak_labels)} weak labels, {self.num_classes} classes{named}>"

    def plot(self, ax: Any = None, classes: Sequence[Any] | None = None) -> Any:
        """T as a heat map, with 95% intervals where it is estimated, on matplotlib's axes, which are returned.

        `ax`: axes of yours, or none for new ones. `classes`: names of the classes, in the order of T's columns.
        """
        return draw("transition", self, ax, classes=classes)

    # What a structure gives, and what follows from it.

    def matrix(self) -> FloatArray:
        """T as a float64 array (M, K)."""
        raise NotImplementedError(f"{type(self).__name__}: a structure of T has a matrix, or says that it is too large")

    def draw(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        """One weak label for each class, as `encode` takes them."""
        raise NotImplementedError(f"{type(self).__name__}: a structure of T draws labels")

    def sample(self, y: Labels, seed: int | np.random.Generator) -> NDArray[Any]:
        """Draw one weak label for each class in `y`; the same seed gives the same labels, not `default_rng(seed)`'s."""
        classes = checks.index_labels(y, self.num_classes, name="y").cpu().numpy()
        return self.draw(classes, label_stream(seed))

    def diagnose(self) -> Diagnosis:
        """Rank, conditioning, kernel, ambiguity and supports of T."""
        return diagnose_matrix(self.matrix(), self.name, self._weak_labels if self._labels_are_sets() else None)

    def left_inverse(self, method: str, prior: FloatArray | None) -> Reconstruction:
        """The R that `reconstruct` has decided on; a structure overrides this with its closed form."""
        return Reconstruction(left_inverse(self.matrix(), method, prior), self, method=method)

    def _given_inverse(self, matrix: ArrayLike) -> Reconstruction:
        """A reconstruction by its matrix (K, M), checked."""
        return Reconstruction(matrix, self)

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
        return reconstruct(self, method, prior)

    # Names of classes and of labels.

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
    def weak_labels(self) -> list[Any]:
        """The weak labels' names, in the order of the rows of `matrix()`."""
        return list(range(self.num_weak_labels)) if self._weak_labels is None else list(self._weak_labels)

    def _names_for(self, classes: list[Any]) -> list[Any] | None:
        """The names of the weak labels where classes have these names; None where that follows from `weak_labels`."""
        return None

    @property
    def labels(self) -> LabelSpace:
        """What a label of this T is: how people write it, what it is called, and how losses take it."""
        return space_of(self, self._classes)

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

    @property
    def _label_form(self) -> str:
        """What is passed as a label: "index", "mask", "answers", or "positive/unlabeled"."""
        if self._label_kind == POSITIVE_UNLABELED:
            return POSITIVE_UNLABELED
        return "mask" if self.per_class_labels else "answers" if self.label_shape else "index"

    def _labels_are_sets(self) -> bool:
        return bool(self._weak_labels) and all(isinstance(s, (set, frozenset)) for s in self._weak_labels or [])

    # What labels look like to a loss.

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
    def vacuous(self) -> Tensor | None:
        """The encoded label that rules no class out, the set of all classes, where labels are sets; else None."""
        return torch.ones(self.num_classes, dtype=torch.bool) if self.per_class_labels else None

    def encode(self, labels: Labels, device: torch.device | None = None, validate: bool = True) -> Tensor:
        """Weak labels in their canonical tensor form, checked."""
        if isinstance(labels, SoftLabels):
            return labels.of(self, device)
        if self._label_kind == POSITIVE_UNLABELED:
            labels = checks.positive_unlabeled_labels(labels)
        elif isinstance(labels, Sequence) and len(labels) and isinstance(labels[0], Set) and self._labels_are_sets():
            labels = self.named(None).labels.encode(labels, "labels")
        return checks.index_labels(labels, self.num_weak_labels, device=device, validate=validate)

    def speaks(self, labels: Tensor) -> Tensor:
        """Whether each encoded label is more than silence (n,)."""
        return torch.ones(labels.shape[: labels.ndim - len(self.label_shape)], dtype=torch.bool, device=labels.device)

    def wrong_label(self, label: int) -> str:
        """What was expected instead of an encoded label that is none; of a mask `label` is its size."""
        return f"integers in [0, {self.num_classes}), got {label}"

    def of_known_classes(self, labels: Tensor, known: Tensor, classes: Tensor) -> Tensor | None:
        """Labels with those of rows whose class is `known` replaced by labels that can only come from it.

        Only where these have the same probability for every class, so that -log p_z is their loss up to a constant.
        """
        return None

    # What T is made of.

    @property
    def separate(self) -> Sequence[Transition]:
        """T of each of several annotators, where a label is a row of their answers; else none."""
        return ()

    @property
    def source_rows(self) -> tuple[NDArray[np.int64], FloatArray]:
        """Where the rows of each of several sources begin and end (D + 1,), and the sources' shares (D,)."""
        return np.array([0, self.num_weak_labels]), np.ones(1)

    @property
    def rate(self) -> Rate | None:
        """The one probability that T is made of, or that is least known; None where it is not made of such."""
        return None

    @property
    def size_probability(self) -> FloatArray | None:
        """``P(|S| = j)``, j = 0 .. K, where labels are candidate sets of which only the size matters; else None."""
        return None

    @property
    def listed(self) -> bool:
        """Whether weak labels are few enough for `matrix`, and each has a row."""
        return True

    @property
    def clean(self) -> bool:
        """Whether weak labels are the classes themselves."""
        return False

    # Where it is not known, and of which population.

    @property
    def estimated(self) -> bool:
        """Whether T, or that of a source or an annotator, was estimated."""
        return self.posterior is not None or any(t.estimated for t in (*self.sources, *self.separate))

    def draws_of_posterior(self, count: int, seed: int | np.random.SeedSequence = 0) -> FloatArray | None:
        """Draws (S, M, K) of an estimated T; of one of several parts, where that of some was estimated; else None.

        Parts draw from streams that are spawned, not counted: sums of seeds would meet again among sources of sources.
        """
        return None if self.posterior is None else self.posterior.samples(count, np.random.default_rng(seed))

    def with_prior(self, prior: ArrayLike | None) -> Self:
        """This T for a population with these class shares (K,): a classifier's probabilities are then that one's.

        T says how a class becomes a label, and does not change where the shares of the classes do (label shift:
        ``P(x | class)`` stays). By Bayes' rule ``P'(z | x)`` is then proportional to ``P(z | x) prior_z / pi_z``,
        with pi the shares among the rows that the model was trained on. None: those themselves.
        """
        out = copy.copy(self)
        out.prior = None if prior is None else checks.probability_vector(prior, "prior", self.num_classes)
        return out

    @property
    def trained_shares(self) -> FloatArray | None:
        """The class shares of the training rows (K,), where T says them: of bags of unlabeled data."""
        return None

    @property
    def log_shift(self) -> FloatArray:
        """What leads from log-probabilities among the training rows to the population's (K,), where T says it: or 0."""
        if self.prior is None or self.trained_shares is None:
            return np.zeros(self.num_classes)
        return np.log(self.prior / self.trained_shares)

    # Which T it is.

    def same_as(self, other: Transition) -> bool:
        """Whether two objects describe the same T of the same labels, whatever their names and classes of Python.

        Labels are the same if they are passed in the same form: indices, masks, answers, or positive and unlabeled.
        """
        if not isinstance(other, Transition):
            return False
        a, b = self.fingerprint(), other.fingerprint()
        return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-12, atol=0))

    def signature(self) -> FloatArray:
        """Some numbers that tell T from every other T of the same size and form of labels, but for rounding.

        They are linear functions ``<a, T b>`` of T with fixed vectors a and b: the same for the same T, however it is
        represented, and close for a T that is close.
        """
        a, b = probes(self.num_weak_labels), probes(self.num_classes)
        return np.asarray(((self.matrix().T @ a) * b).sum(axis=0), dtype=np.float64)

    def fingerprint(self) -> FloatArray:
        """The form of the labels, the sizes, and `signature`: what tells T, and how its labels are passed."""
        sizes = [len(self._label_form) + 1, self.num_classes, math.log1p(self.num_weak_labels)]
        return np.array([*sizes, *self.signature()], dtype=np.float64)

    # What losses, scores and bounds work with.

    def tables(self, needs: Needs = "label") -> dict[str, FloatArray]:
        """The arrays that `evidence` is made from; a loss keeps them as buffers. `needs`: what a score needs of T p."""
        with np.errstate(divide="ignore"):
            out = {"log_T": np.log(self.matrix())}
        return self._with_whole(out, needs)

    def _with_whole(self, tables: dict[str, FloatArray], needs: Needs) -> dict[str, FloatArray]:
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

    def gram(self) -> FloatArray:
        """``T^T T`` (K, K): ``||T p||^2 = p^T (T^T T) p``."""
        T = self.matrix()
        return T.T @ T

    @property
    def pattern(self) -> Pattern | None:
        """The two numbers that rows of T consist of, where they do."""
        return None

    def log_row_maxima(self) -> FloatArray:
        """``log max_z T_yz`` for each weak label (for each set size, beyond 12 classes of candidate sets)."""
        with np.errstate(divide="ignore"):
            return np.log(self.matrix().max(axis=1))

    def score_bounds(self, score: Any) -> FloatArray:
        """The smallest ``l(T p, y)`` over all p of a proper score, by label: in the order of `log_row_maxima`.

        `score` has ``bound(T, y)``, and closed forms for structures that treat classes alike, where it does so with
        labels (``symmetric``).
        """
        T = self.matrix()
        return np.array([score.bound(T, y) for y in range(len(T))])


def probes(n: int) -> FloatArray:
    """Fixed vectors (n, 8) of entries between 1 and 2, in no linear relation to each other."""
    steps = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0])
    return np.asarray(1 + np.arange(1, n + 1)[:, None] * steps % 1, dtype=np.float64)


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
