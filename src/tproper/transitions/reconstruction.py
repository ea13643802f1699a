"""R leads from a weak label back to a target: a left inverse of T, ``R T = I``, classes x weak labels.

Its columns are normalised to sum to one, which any left inverse of T (Assumption (b), Appendix F) allows:
``R + (1/K) 1 (1 - R^T 1)^T`` is again a left inverse, because ``1^T T = 1^T``. The column ``r = R e_y`` is the *target*
of label y: its mean given class z is the one-hot vector of z, and it may have negative entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import ConditioningWarning, FloatArray, Labels, NotReconstructibleError, as_tensors, checks, warn
from ..errors import InputError
from .evidence import Dense, Kinds, Pattern, Silenced, Tables, Targets, listed
from .labels import label_text
from .soft import hard_labels, soft_silent, soft_targets

if TYPE_CHECKING:
    from .base import Transition

METHODS = ("auto", "inverse", "pinv", "min_variance", "tightest")
CONDITION_LIMIT = 1e7  # beyond it a target is rounding noise in float32


def reconstruct(transition: Transition, method: str | Reconstruction, prior: ArrayLike | None) -> Reconstruction:
    """What ``transition.reconstruction(method, prior)`` answers."""
    if isinstance(method, Reconstruction):
        if method.transition is not transition and not method.transition.same_as(transition):
            raise InputError("reconstruction: expected one made for this transition, got one of another transition")
        if prior is not None:
            raise InputError("prior: expected None with a given reconstruction, which a prior cannot change")
        return method
    if not isinstance(method, str) or method not in METHODS:
        known = ", ".join(METHODS)
        raise InputError(f"method: expected one of {known} or a Reconstruction, got {checks.short(method)}")
    K, M = transition.num_classes, transition.num_weak_labels
    weights = None if prior is None else checks.probability_vector(prior, "prior", K)
    square = M == K
    if weights is not None and not square and method not in ("auto", "min_variance"):
        raise InputError(f"prior: expected None with method {method!r}; only 'min_variance' depends on a prior")
    if method == "inverse" and not square:
        raise InputError(
            f"method: expected as many weak labels as classes for 'inverse', got {M} and {K}; use 'min_variance'"
        )
    diagnosis = transition.diagnose()
    if not diagnosis.reconstructible:
        raise NotReconstructibleError(
            f"transition: expected rank {K} for {K} classes, got {diagnosis.rank}, so no R has R T = I: "
            f"{diagnosis.confusion()} cannot be told apart from these weak labels; merge them, add a source that "
            "separates them, or use ForwardLoss (proper, though not strictly)"
        )
    if diagnosis.condition_number > CONDITION_LIMIT:
        warn(
            f"{transition.name}: T is close to singular (condition number {diagnosis.condition_number:.2g}); "
            "targets are huge and learning needs correspondingly more data",
            ConditioningWarning,
        )
    if method == "auto":
        method = "inverse" if square else "min_variance"
    return transition.left_inverse(method, weights)


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

    _made_of: ClassVar[dict[str, Any]] = {}  # what is made of a "matrix"

    def __init_subclass__(cls, made_of: str = "", **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if made_of:
            Reconstruction._made_of[made_of] = cls

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """``Reconstruction(matrix, transition)`` makes a `DenseReconstruction`."""
        return super().__new__(Reconstruction._made_of["matrix"] if cls is Reconstruction else cls)

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
        if not labels.is_floating_point():
            return self.columns(labels, dtype, tables)
        targets, silent = Dense(soft_targets(self, labels, dtype)), soft_silent(self, labels)
        return targets if silent is None else Silenced(targets, silent)

    def columns(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Targets:
        """What `evidence` answers of hard labels, by structure; those of `silent` labels are `Silenced`."""
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
        return transition._given_inverse(np.asarray(stored, dtype=np.float64))

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
