"""The family between forward and backward correction (Bacaicoa-Barber and Cid-Sueiro, Machine Learning 2025)."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import FloatArray, checks
from ..errors import InputError
from ..transitions import Reconstruction, Transition, read_transition
from .base import Reduction, WeakLabelLoss
from .given import targets_of

MOST_SUBSETS = 12  # classes: their 2^K subsets decide whether the loss is bounded
HALF = 0.5


class ForwardBackwardLoss(WeakLabelLoss):
    """Between backward and forward correction: ``l(v, y) = -sum_j B_jy log (F p)_j`` with ``B T = F``.

    F (d x K) has columns that sum to one, like a transition, and ``B = F R``. Given p the mean of column B e_y over the
    weak labels is ``B T p = F p``, and the loss is the log score of ``F p``: hence T-proper for every F, strictly so
    iff F has rank K. ``F = T`` (square) is `ForwardLoss`, ``F = I`` backward-corrected cross entropy. The authors of
    the family found that forward correction does best within it, as do we.

    Parameters
    ----------
    transition : Transition or text
        T.
    middle : float, Transition or (d, K) array
        F. A number s from 0 to 1 goes from backward to forward: ``F = s T + (1 - s) I`` where T is square, and
        elsewhere T and the identity one below the other, ``F = [s T; (1 - s) I]``.
    reconstruction : str or Reconstruction
        R, or how to choose it.
    reduction : "mean", "sum" or "none"
        How the losses of a batch become one number.
    validate : bool
        Check labels and weights on every call.
    ignore_index : int, optional
        Examples with this label are left out.

    Notes
    -----
    B may have negative entries. The loss of y is bounded from below iff for every set A of classes, not all of them,

        sum of B_jy over the rows j of F whose classes all lie in A  >=  0.

    (With ``p_z = e^(-t a_z)`` the loss is ``t sum_j B_jy min_{z in row j} a_z`` up to a constant; this is additive
    over the nested sets in which a is sorted, so the indicators of sets A decide.) An F without zeros is therefore
    bounded for every T: there is no such row.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> T = tp.symmetric_noise(3, 0.3)
    >>> v = torch.tensor([[1.0, 0.0, -1.0]])
    >>> forward, middle = tp.ForwardLoss(T), tp.ForwardBackwardLoss(T, middle=1.0)
    >>> bool(torch.allclose(middle(v, [1]), forward(v, [1])))
    True
    >>> tp.ForwardBackwardLoss(T, middle=0.5).certify().lower_bounded
    True
    """

    def __init__(
        self,
        transition: Transition | str,
        middle: float | Transition | str | ArrayLike = HALF,
        *,
        reconstruction: str | Reconstruction = "auto",
        reduction: Reduction = "mean",
        validate: bool = True,
        ignore_index: int | None = None,
    ) -> None:
        super().__init__(transition, reduction, validate, ignore_index)
        self.reconstruction = self.transition.reconstruction(reconstruction)
        self.middle = _middle(middle, self.transition)  # (d, K)
        self.share = float(middle) if isinstance(middle, (int, float)) else None
        self._register(self._made_tables())

    def _made_tables(self) -> dict[str, FloatArray]:
        with np.errstate(divide="ignore"):
            return {"F": self.middle, "log_F": np.log(self.middle)} | self.reconstruction.tables()

    def pointwise(self, scores: Tensor, labels: Tensor) -> Tensor:
        """``-<B e_y, log F p>``."""
        return self._of(scores, self.reconstruction.evidence(labels, scores.dtype, self.tables).dense(scores.dtype))

    def pointwise_with(self, transitions: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        """``-sum_j B_jy log (F p)_j`` with each example's own T, and so its own ``B = F R``, and one F for all."""
        return self._of(scores, targets_of(transitions, labels, self.validate).to(scores.dtype))

    def pointwise_soft(self, scores: Tensor, shares: Tensor) -> Tensor:
        """Linear in the shares."""
        return self._of(scores, self.reconstruction.evidence(shares, scores.dtype).dense(scores.dtype))

    def _of(self, scores: Tensor, targets: Tensor) -> Tensor:
        F = self.tables["F"].to(scores.dtype)
        weight = targets @ F.T  # (n, d): B e_y
        log_p = torch.log_softmax(scores, -1)
        log_q = torch.logsumexp(self.tables["log_F"].to(scores.dtype) + log_p[..., None, :], -1)
        # a masked class may make (F p)_j zero: where its weight is rounding, that term has left
        gone = (weight.abs() <= 1e2 * torch.finfo(weight.dtype).eps * (1 + targets.abs().amax(-1, keepdim=True))) & (
            log_q.isneginf()
        )
        return -(weight * log_q.masked_fill(gone, 0.0)).sum(-1)

    def weights(self) -> FloatArray:
        """B (d, M), by weak label."""
        out: FloatArray = self.middle @ self.reconstruction.matrix()
        return np.where(np.abs(out) < 1e-12, 0.0, out)

    def is_bounded(self) -> np.ndarray:
        """Which labels' losses are bounded from below (M,), by the condition on sets of classes."""
        B, support = self.weights(), self.middle > 0
        K = support.shape[1]
        out = np.ones(B.shape[1], dtype=bool)
        some = support[~support.all(axis=1)]
        if not len(some) or (B >= 0).all():
            return out
        if K > MOST_SUBSETS:
            raise InputError(
                f"middle: expected entries > 0, or at most {MOST_SUBSETS} classes, for a verdict on bounds, got zeros "
                f"and {K} classes"
            )
        for size in range(1, K):
            for A in combinations(range(K), size):
                outside = np.ones(K, dtype=bool)
                outside[list(A)] = False
                inside = ~support[:, outside].any(axis=1)
                out &= B[inside].sum(axis=0) >= -1e-9
        return out

    def lower_bounds(self) -> FloatArray:
        """``inf_p -sum_j B_jy log (F p)_j`` by search over p; ``-inf`` where the condition fails."""
        B, F, bounded = self.weights(), self.middle, self.is_bounded()
        return np.array([_search(B[:, y], F) if ok else -math.inf for y, ok in enumerate(bounded)])

    def extra_repr(self) -> str:
        """For printing the module."""
        return f"{self.transition.name}, F: {len(self.middle)} x {self.middle.shape[1]}"


def _middle(given: Any, transition: Transition) -> FloatArray:
    if isinstance(given, (str, Transition)):
        try:
            given = read_transition(given, transition.num_classes).matrix()
        except InputError as error:
            raise InputError(
                f"middle: expected a number from 0 to 1, a matrix or a transition, got {checks.short(given)}; {error}"
            ) from None
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        s, K = checks.real(given, "middle", 0, 1), transition.num_classes
        T, one = s * transition.matrix(), (1 - s) * np.eye(K)
        both = T + one if transition.num_weak_labels == K else np.concatenate([T, one])
        return both[both.any(axis=1)]
    F = checks.column_stochastic(given, "middle")
    if F.shape[1] != transition.num_classes:
        raise InputError(f"middle: expected {transition.num_classes} columns, one for each class, got shape {F.shape}")
    return F


def _search(b: FloatArray, F: FloatArray) -> float:
    """The smallest ``-sum_j b_j log (F p)_j`` that descent from several starts finds."""
    from scipy.optimize import minimize

    K = F.shape[1]
    used = b != 0

    def value(v: FloatArray) -> tuple[float, FloatArray]:
        p = np.exp(v - v.max())
        p /= p.sum()
        q = np.maximum(F[used] @ p, 1e-300)
        slope = -(b[used] / q) @ F[used]
        return float(-(b[used] * np.log(q)).sum()), p * (slope - slope @ p)

    starts = [np.zeros(K), *(4.0 * np.eye(K)), *(-4.0 * np.eye(K))]
    exact = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-10}
    box = [(-60.0, 60.0)] * K
    ends = [minimize(value, s, jac=True, method="L-BFGS-B", bounds=box, options=exact) for s in starts]
    # a minimum at a class, or on the edge of some, is reached only in the limit
    edges = [np.where(end.x >= end.x.max() - 10.0, end.x, -1e4) for end in ends]
    corners = [np.where(np.arange(K) == z, 0.0, -1e4) for z in range(K)]
    return float(min([*(end.fun for end in ends), *(value(v)[0] for v in (*edges, *corners))]))
