"""Yes/no questions: for each row one class is asked for, "is it a cat?". T and R in O(1) a row, without a table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._core import FloatArray, Labels, checks, look_up
from .base import Rate, Transition, probes
from .dense import dense_guard
from .diagnosis import Diagnosis
from .evidence import DenseRows, Kinds, Needs, Rows, Spike, Tables, Targets, like_classes
from .reconstruction import Reconstruction
from .soft import SoftLabels
from .uniform import even_kernel

NOT = "not "


class QuestionTransition(Transition):
    """A class c is asked for, each as often as the others whatever the class is, and the answer is yes or no.

    ``P(yes | class c) = 1 - miss``, ``P(yes | another class) = false``. Label c is "yes, it is c", label K + c is
    "no, it is not c". (Were some classes asked for more often, the rows of T would be weighted by it: that changes no
    loss of `ForwardLoss` but for a constant.)
    """

    _label_kind = "questions"

    def __init__(self, K: int, miss: float, false: float) -> None:
        self.num_classes, self.num_weak_labels = K, 2 * K
        self.miss, self.false = miss, false
        self.hit = 1.0 - miss
        self.name = f"yes_no({K}{f', miss={miss:g}' if miss else ''}{f', false={false:g}' if false else ''})"
        self.parameters = {"K": K, "miss": miss, "false": false}
        self._weak_labels = None

    @property
    def weak_labels(self) -> list[Any]:
        """0 .. K-1, then "not 0" .. "not K-1"."""
        return [*range(self.num_classes), *(f"{NOT}{z}" for z in range(self.num_classes))]

    def _names_for(self, classes: list[Any]) -> list[Any]:
        """ "cat" for yes, "not cat" for no."""
        return [*classes, *(f"{NOT}{name}" for name in classes)]

    def encode(self, labels: Labels, device: torch.device | None = None, validate: bool = True) -> Tensor:
        """Rows of T (n,); or pairs (n, 2) of the class asked for and the answer, 1 or True for yes."""
        if isinstance(labels, SoftLabels):
            return labels.of(self, device)
        pairs = labels if isinstance(labels, Tensor) else checks.array(labels, "labels")
        if pairs.ndim < 2 or pairs.shape[-1] != 2:
            return checks.index_labels(labels, self.num_weak_labels, device=device, validate=validate)
        asked = checks.index_labels(pairs[..., 0], self.num_classes, "question", device, validate)
        yes = checks.index_labels(pairs[..., 1], 2, "answer", device, validate)
        return asked + self.num_classes * (1 - yes)

    def _yes(self, asked: NDArray[np.int64], classes: NDArray[np.int64]) -> FloatArray:
        return np.where(asked == classes, self.hit, self.false)

    def matrix(self) -> FloatArray:
        """T as a float64 array (2K, K); structured code never calls this."""
        K = self.num_classes
        dense_guard(2 * K, K, self.name)
        yes = np.where(np.eye(K) > 0, self.hit, self.false)
        return np.concatenate([yes, 1 - yes]) / K

    def draw(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        """A label for each class."""
        asked = rng.integers(0, self.num_classes, classes.shape)
        yes = rng.random(classes.shape) < self._yes(asked, classes)
        return np.where(yes, asked, asked + self.num_classes)

    @property
    def gap(self) -> float:
        """P(yes | it is) - P(yes | it is not)."""
        return self.hit - self.false

    def _gram(self) -> tuple[float, float]:
        """``T^T T = a I + b 1 1^T``."""
        K, d, f = self.num_classes, self.gap, self.false
        return 2 * d * d / K**2, (K * f * f + 2 * f * d + K * (1 - f) ** 2 - 2 * (1 - f) * d) / K**2

    def gram(self) -> FloatArray:
        """``T^T T``."""
        a, b = self._gram()
        dense_guard(self.num_classes, self.num_classes, self.name)
        return a * np.eye(self.num_classes) + b

    def diagnose(self) -> Diagnosis:
        """Closed form: T^T T = a I + b 1 1^T."""
        K = self.num_classes
        a, b = self._gram()
        small, large = math.sqrt(a), math.sqrt(a + K * b)
        rank = K if small > checks.RANK_TOL * large else 1
        least, most = min(small, large), max(small, large)
        sure = {self.hit, self.false} == {0.0, 1.0}
        return Diagnosis(
            name=self.name,
            num_classes=K,
            num_weak_labels=2 * K,
            rank=rank,
            smallest_singular_value=least if rank == K else small,
            condition_number=most / least if rank == K else math.inf,
            disjoint_supports=K == 2 and sure,
            ambiguity_degree=None,
            _kernel=lambda: even_kernel(K, rank),
        )

    def signature(self) -> FloatArray:
        """``<a, T b>`` by its structure."""
        K = self.num_classes
        b = probes(K)
        of_rows = probes(2 * K)
        yes, no = of_rows[:K], of_rows[K:]
        total = b.sum(axis=0)
        out = self.false * yes.sum(0) * total + self.gap * (yes * b).sum(0)
        out = out + (1 - self.false) * no.sum(0) * total - self.gap * (no * b).sum(0)
        return np.asarray(out / K)

    @property
    def rate(self) -> Rate:
        """The probability of a wrong no."""
        K, false = self.num_classes, self.false
        return Rate("P(no | it is that class)", self.miss, lambda miss: yes_no(K, miss, false))

    def tables(self, needs: Needs = "label") -> dict[str, FloatArray]:
        """None: two numbers determine T, unless a score needs more than the label's own."""
        return self._with_whole({}, needs)

    def log_row_maxima(self) -> FloatArray:
        """For yes, then for no."""
        with np.errstate(divide="ignore"):
            yes, no = (np.log(x / self.num_classes) for x in (max(self.hit, self.false), 1 - min(self.hit, self.false)))
        return np.repeat([yes, no], self.num_classes)

    def rows(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Rows:
        """One value for the class asked for, another for the rest."""
        K = self.num_classes
        no = labels >= K
        own = _log_of(no, 1 - self.hit, self.hit, K, dtype)
        rest = _log_of(no, 1 - self.false, self.false, K, dtype)
        out = rest[..., None].expand(*labels.shape, K)
        return DenseRows(out.scatter(-1, (labels % K)[..., None], own[..., None]))

    def left_inverse(self, method: str, prior: FloatArray | None) -> Reconstruction:
        """In closed form for a uniform prior; for any other, and "tightest", from the matrix."""
        if method != "tightest" and (prior is None or np.ptp(prior) == 0):
            return QuestionReconstruction(self, method if method != "inverse" else "min_variance")
        return super().left_inverse(method, prior)


def _log_of(no: Tensor, of_no: float, of_yes: float, K: int, dtype: torch.dtype) -> Tensor:
    logs = [math.log(x / K) if x > 0 else -math.inf for x in (of_yes, of_no)]
    return look_up(torch.tensor(logs, dtype=dtype, device=no.device)[:, None], no.long())[..., 0]


class QuestionReconstruction(Reconstruction):
    """``r = 1/K + c (e_c - 1/K)``, c = a for yes and b for no, ``a - b = K / (P(yes | it is) - P(yes | it is not))``.

    Minimum variance, uniform prior, with P = P(yes): ``a = (1 - P)(a - b)``. Moore-Penrose: ``a = -b``.
    """

    transition: QuestionTransition

    def __init__(self, transition: QuestionTransition, method: str) -> None:
        self.transition, self.method = transition, method
        K = transition.num_classes
        span = K / transition.gap
        yes = (transition.hit + (K - 1) * transition.false) / K
        kept = 1 - yes if method == "min_variance" else 0.5
        self.coefficients = np.array([kept * span, (kept - 1) * span])
        self.residual = abs(float(transition.gap / K * (self.coefficients[0] - self.coefficients[1])) - 1.0)

    def to_plain(self) -> Any:
        """The method: R has a closed form."""
        return self.method

    def matrix(self) -> FloatArray:
        """R as a float64 array (K, 2K); structured code never calls this."""
        K = self.transition.num_classes
        dense_guard(2 * K, K, self.transition.name)
        centred = np.eye(K) - 1.0 / K
        return 1.0 / K + np.concatenate([c * centred for c in self.coefficients], axis=1)

    def tables(self) -> dict[str, FloatArray]:
        """None: two numbers determine R."""
        return {}

    def columns(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Targets:
        """A spike at the class asked for."""
        K = self.transition.num_classes
        both = torch.tensor(self.coefficients, device=labels.device)
        return Spike(labels % K, look_up(both[:, None], (labels >= K).long())[..., 0], K)

    def kinds(self, alike: FloatArray | None = None) -> Kinds:
        """Yes and no; of each class that differs from the others."""
        K = self.transition.num_classes
        first, kind = like_classes(np.zeros(K) if alike is None else alike)
        many = len(first) > 1
        names = [f"{answer} to class {z}" if many else f'"{answer}"' for answer in ("yes", "no") for z in first]

        def targets(rows: slice) -> FloatArray:
            at = np.tile(first, 2)[rows]
            c = np.repeat(self.coefficients, len(first))[rows]
            dense_guard(len(at), K, self.transition.name)
            out = np.repeat(((1 - c) / K)[:, None], K, axis=1)
            out[np.arange(len(at)), at] += c
            return out

        where = torch.as_tensor(np.concatenate([kind, kind + len(first)]))
        return Kinds(names, targets, lambda v: v[where.numpy()], lambda y: where.to(y.device)[y])


def yes_no(K: int, miss: float = 0.0, false: float = 0.0) -> QuestionTransition:
    """Yes/no questions, one class asked about in each row: "is it a cat?".

    Which class is asked about must not depend on the row's class. Labels are 0 .. K-1 (yes, it is that class) and K ..
    2K-1 (no), or pairs (class asked about, answer).

    Parameters
    ----------
    K : int
        The number of classes.
    miss : float
        The probability of "no" where it is that class.
    false : float
        The probability of "yes" where it is not.

    Returns
    -------
    QuestionTransition
        2K weak labels, K classes.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.yes_no(3).reconstruction().targets([[0, True], [0, False]]).numpy().round(2)
    array([[ 1.67, -0.33, -0.33],
           [-0.33,  0.67,  0.67]])
    """
    K = checks.integer(K, "K", 2)
    return QuestionTransition(K, checks.real(miss, "miss", 0, 1), checks.real(false, "false", 0, 1))
