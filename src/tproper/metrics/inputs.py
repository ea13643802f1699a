"""What the public functions of `metrics` accept: labels, predictions, probabilities and weights, checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import FloatArray, Labels, checks, compact, group_codes
from ..errors import InputError
from ..transitions import Reconstruction, SoftLabels, Transition, is_soft, soft_silent
from .statistics import Estimate, Reweigher, Values, estimate


def predictions_of(value: Any, K: int, n: int, name: str = "predictions") -> Tensor:
    """Predicted classes (n,), checked."""
    array = checks.array(value, name)
    if array.ndim != 1:
        hint = "; pass probabilities.argmax(axis=1)" if array.ndim == 2 else ""
        raise InputError(f"{name}: expected predicted classes of shape ({n},), got shape {array.shape}{hint}")
    if array.dtype.kind == "f" and np.array_equal(array, np.floor(array)):  # NaN is not equal to itself
        array = array.astype(np.int64)
    out = checks.index_labels(array, K, name)
    if len(out) != n:
        raise InputError(f"{name}: expected one predicted class for each of the {n} labels, got {len(out)}")
    return out


def probabilities_of(value: Any, K: int, n: int, name: str = "probabilities") -> Tensor:
    """Class probabilities (n, K), checked to sum to one."""
    array = checks.array(value, name)
    if array.ndim != 2 or array.shape != (n, K):
        raise InputError(f"{name}: expected shape ({n}, {K}), labels x classes, got {array.shape}")
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name}: expected numbers, got dtype {array.dtype}")
    # rounding of a softmax in the caller's precision: 1e-6 in float64, 3e-4 in float32, .09 in bfloat16
    half = isinstance(value, Tensor) and value.dtype == torch.bfloat16
    eps = torch.finfo(torch.bfloat16).eps if half else np.finfo(array.dtype).eps if array.dtype.kind == "f" else 0.0
    tol = max(1e-6, math.sqrt(eps))
    q = array.astype(np.float64)
    checks.entries(q, np.isfinite(q), name, "finite numbers")
    checks.entries(q, q >= 0, name, "numbers >= 0")
    sums = q.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > tol:
        raise InputError(
            f"{name}: expected rows that sum to 1, got {sums[worst]:.9g} in row {worst}; "
            "pass class probabilities, such as loss.probabilities(scores), not scores"
        )
    return torch.as_tensor(q)


def weights_of(value: Any, n: int) -> FloatArray | None:
    """Example weights (n,), checked, or None."""
    if value is None:
        return None
    given = checks.array(value, "sample_weight")
    try:
        w = given.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"sample_weight: expected {n} numbers, got {checks.short(value)}") from None
    good = np.isfinite(w) & (w >= 0)
    if w.shape != (n,):
        got = f"shape {w.shape}"
    elif not good.all():
        got = f"{w[~good][0]:g} at row {good.argmin()}"
    elif not w.any():
        got = "zeros only"
    else:
        return w
    raise InputError(f"sample_weight: expected {n} finite numbers >= 0, some of them positive, got {got}")


def encoded(transition: Transition, labels: Labels) -> Tensor:
    """Checked weak labels of n examples on the CPU: (n,) indices, (n, K) masks, or shares (n, M) of soft labels."""
    if isinstance(labels, SoftLabels):
        soft = transition.encode(labels).cpu().double()
        if soft.ndim != (2 if transition.answer_sizes is None else 3):
            raise InputError(f"labels: expected shares of one label a row, got shape {labels.shape}")
        return soft
    if not isinstance(labels, Tensor) and hasattr(labels, "to_numpy"):  # a pandas or polars column
        labels = labels.to_numpy()
    out = transition.encode(labels).cpu()
    if out.ndim != 1 + len(transition.label_shape):
        raise InputError(f"labels: expected {transition.shape_in_words}, got shape {tuple(out.shape)}")
    return out


class Sample:
    """The examples that count: labels, weights and what was predicted, without the rows of weight 0.

    One rule for all scores and tests: a row of weight 0 is checked like any other and then left out, as if it had not
    been passed; so is a label that says nothing (a row in which no annotator answered). Weights are scaled by the
    largest, since only their ratios matter and sums of 1e300 overflow.
    """

    def __init__(
        self,
        labels: Labels,
        transition: Transition,
        reconstruction: str | Reconstruction,
        prior: ArrayLike | None,
        sample_weight: ArrayLike | None,
        groups: Any = None,
    ) -> None:
        if not isinstance(transition, Transition):
            raise InputError(f"transition: expected a tproper.Transition, got {type(transition).__name__}")
        R, y = transition.reconstruction(reconstruction, prior), encoded(transition, labels)
        self.rows = len(y)
        w, silent = weights_of(sample_weight, self.rows), soft_silent(R, y) if is_soft(y) else R.silent(y)
        kept = torch.ones(self.rows, dtype=torch.bool) if w is None else torch.as_tensor(w > 0)
        if silent is not None:
            kept &= ~silent
        if not bool(kept.any()):
            raise InputError(
                f"labels: expected at least one row with an answer that says something, got none of {self.rows}"
            )
        self.kept = None if bool(kept.all()) else kept
        self.labels = self._keep(y)
        self.weights = None if w is None else w[kept.numpy()] / w[kept.numpy()].max()
        codes = group_codes(groups, self.rows)
        self.groups = None if codes is None else compact(codes if self.kept is None else codes[kept.numpy()])
        self.K, self.n = transition.num_classes, len(self.labels)
        self.weigher = Reweigher(transition, R, self.labels, self.weights)

    @property
    def shares(self) -> FloatArray:
        """The examples' weights (n,), which sum to one."""
        return np.full(self.n, 1.0 / self.n) if self.weights is None else self.weights / self.weights.sum()

    def estimate(self, values: Values, posterior: Values, student: bool = True, few_decide: bool = False) -> Estimate:
        """The mean of ``<r_i, s_i>`` over these examples, with what intervals and tests need of it."""
        return estimate(
            self.weigher, values, posterior, self.labels, self.weights,
            student=student, few_decide=few_decide, groups=self.groups,
        )  # fmt: skip

    def _keep(self, rows: Tensor) -> Tensor:
        return rows if self.kept is None else rows[self.kept]

    def predictions(self, value: Any, name: str = "predictions") -> Tensor:
        """Predicted classes of the examples that count."""
        return self._keep(predictions_of(value, self.K, self.rows, name))

    def probabilities(self, value: Any, name: str = "probabilities") -> Tensor:
        """Class probabilities of the examples that count."""
        return self._keep(probabilities_of(value, self.K, self.rows, name))
