"""What every score reads: labels under T, the rows that count, and how a mean of them becomes a score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import FloatArray, Labels, compact, group_codes
from ..errors import InputError
from ..transitions import LabelSpace, Reconstruction, Transition, is_soft, read_transition, soft_silent
from .inputs import ReadLabels, predictions_of, probabilities_of, read_labels, weights_of
from .own_answers import doubted
from .score import Score, score_of
from .statistics import Beside, Estimate, Reweigher, Values, estimate


@dataclass(frozen=True)
class Sample:
    """The examples that count: labels, weights and what was predicted, without the rows of weight 0; `read_sample`
    makes it.

    One rule for all scores and tests: a row of weight 0 is checked like any other and then left out, as if it had not
    been passed; so is a row without a label, or with one that says nothing (no annotator answered). Weights are scaled
    by the largest, since only their ratios matter and sums of 1e300 overflow.
    """

    space: LabelSpace
    transition: Transition
    weigher: Reweigher
    labels: Tensor
    weights: FloatArray | None
    groups: NDArray[np.int64] | None
    kept: Tensor | None  # which rows count; None where all do
    rows: int  # that were passed
    n: int  # that count
    K: int  # classes
    caution: str  # what labels of this T leave out, which every score says

    @property
    def shares(self) -> FloatArray:
        """The examples' weights (n,), which sum to one."""
        return np.full(self.n, 1.0 / self.n) if self.weights is None else self.weights / self.weights.sum()

    def predictions(self, value: Any, name: str = "predictions") -> Tensor:
        """Predicted classes of the examples that count."""
        out = predictions_of(value, self.K, self.rows, name, self.space)
        return out if self.kept is None else out[self.kept]

    def probabilities(self, value: Any, name: str = "probabilities") -> Tensor:
        """Class probabilities of the examples that count."""
        out = probabilities_of(value, self.K, self.rows, name, self.space)
        return out if self.kept is None else out[self.kept]

    def estimate(
        self,
        values: Values,
        posterior: Values,
        student: bool = True,
        few_decide: bool = False,
        beside: Beside | None = None,
    ) -> Estimate:
        """The mean of ``<r_i, s_i>`` over these examples, with what intervals and tests need of it."""
        return estimate(
            self.weigher, values, posterior, self.labels, self.weights,
            student=student, few_decide=few_decide, groups=self.groups, beside=beside,
        )  # fmt: skip

    def score(
        self,
        name: str,
        result: Estimate,
        ends: tuple[float, float],
        guess: float,
        predicted: Tensor | None = None,
        **more: Any,
    ) -> Score:
        """The score that an estimate is, with what is to be said of T, and of predictions (n,) where there are some.

        `ends` are the worst and the best value, `more` is what else `score_of` takes.
        """
        score = score_of(name, result, self.n, *ends, guess, **more)
        if predicted is not None:
            score = doubted(score, self.transition, self.labels, predicted)
        return score.noted(self.caution)


def read_sample(
    labels: Labels | ReadLabels,
    transition: Transition | str | None,
    num_classes: int | None = None,
    *,
    reconstruction: str | Reconstruction = "auto",
    prior: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
) -> Sample:
    """The examples that count: the one place in which what a score is given is read and checked."""
    T = read_transition(transition, num_classes)
    read = labels if isinstance(labels, ReadLabels) else read_labels(T, labels)
    y, rows = read.labels, len(read.labels)
    w, codes = weights_of(sample_weight, rows), group_codes(groups, rows)
    R = T.reconstruction(reconstruction, prior)
    silent = soft_silent(R, y) if is_soft(y) else R.silent(y)
    counts = ~read.missing if w is None else ~read.missing & (w > 0)
    if silent is not None:
        counts &= ~silent.numpy()
    if not counts.any():
        raise InputError(f"labels: expected at least one row with an answer that says something, got none of {rows}")
    kept = None
    if not counts.all():
        kept = torch.as_tensor(counts)
        y, codes = y[kept], None if codes is None else codes[counts]
    w = None if w is None else w[counts] / w[counts].max()
    groups = None if codes is None else compact(codes)
    return Sample(read.space, T, Reweigher(T, R, y, w), y, w, groups, kept, rows, len(y), T.num_classes, T.caution)
