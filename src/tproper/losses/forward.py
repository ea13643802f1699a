"""Forward correction: a proper score of ``T p`` at the weak label."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import FloatArray, checks, inner, log_mixture, log_total, safe_log, tracing
from ..errors import InputError
from ..potentials import LogSumExp, Potential
from ..transitions import DenseRows, Rows, Transition
from .base import Reduction, WeakLabelLoss
from .bounds import Bounds, stated
from .kernels import cpu
from .scores import LogScore, Score, Weak, make_score


class ForwardLoss(WeakLabelLoss):
    """The forward loss: a proper score of ``q = T p`` at the weak label, ``-log (T p)_y`` by default, in log space.

    T-proper for every T and every proper score, and bounded from below; strictly proper iff T is reconstructible (and
    the score strictly proper). The log score is bounded by ``-log max_z T_yz``. The loss to begin with.

    Parameters
    ----------
    transition : Transition or text
        T.
    reduction : "mean", "sum" or "none"
        How the losses of a batch become one number.
    score : str or Potential
        "log", "brier" (bounded, with a bounded gradient), "spherical", "tsallis:a", or a potential on weak labels.
    link : Potential, optional
        p is this potential's `probabilities` of the scores; softmax by default. A sparse link (`Sparsemax`, `Tsallis`
        above 1) can give a label the probability 0: its log loss is infinite then, without a gradient to leave by.
        "brier" and "spherical" stay finite.
    validate : bool
        Check labels and weights on every call.
    ignore_index : int, optional
        Examples with this label are left out.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> loss = tp.ForwardLoss(tp.symmetric_noise(2, 0.25))
    >>> sure_of_0 = torch.tensor([[20.0, -20.0]])
    >>> round(loss(sure_of_0, [1]).exp().item(), 3)  # 1 / T[1, 0]
    4.0
    """

    def __init__(
        self,
        transition: Transition | str,
        reduction: Reduction = "mean",
        *,
        validate: bool = True,
        score: str | Potential | Score = "log",
        link: Potential | None = None,
        ignore_index: int | None = None,
    ) -> None:
        super().__init__(transition, reduction, validate, ignore_index)
        self.score = make_score(score)
        if link is not None and not isinstance(link, Potential):
            raise InputError(f"link: expected a tproper potential such as Sparsemax(), got {link!r}")
        if link is not None and not (link.strictly_proper and link.differentiable):
            raise InputError(f"link: expected a potential whose link reaches every p, got {link.name}")
        self.link = None if type(link) is LogSumExp else link
        if self.transition.separate and not isinstance(self.score, LogScore):
            raise InputError(
                f"score: expected 'log' for {self.transition.name}, whose rows of answers may be incomplete, "
                f"got {self.score.name!r}"
            )
        self._register(self._made_tables())

    def _made_tables(self) -> dict[str, FloatArray]:
        try:
            return self.transition.tables(self.score.needs)
        except ValueError:
            if self.score.needs != "all":
                raise
            raise InputError(
                f"score: expected log, brier or spherical for {self.transition.name}, whose weak labels are too many "
                f"to list, got {self.score.name!r}"
            ) from None

    @property
    def plain(self) -> bool:
        """Whether this is forward-corrected cross entropy with softmax."""
        return isinstance(self.score, LogScore) and self.link is None

    def evidence(self, labels: Tensor, dtype: torch.dtype = torch.float64) -> Rows:
        """The rows of T of encoded labels."""
        return self.transition.evidence(labels, dtype, self._buffers)  # type: ignore[arg-type]

    def pointwise(self, scores: Tensor, labels: Tensor) -> Tensor:
        """``l(T p, y)``; for the log score ``inf`` for a label that cannot occur."""
        t = self.evidence(labels, scores.dtype)
        if self.plain:
            return -t.log_mass(scores)
        p = self.probabilities(scores)
        if isinstance(self.score, LogScore):  # products of many answers' probabilities underflow
            return -log_total(safe_log(p) + t.logs(p.dtype))
        needs = self.score.needs
        square = t.square(p) if needs == "norm" else None
        whole = t.all(p) if needs == "all" else None
        return self.score.loss(Weak(t.mass(p), square, whole, t.index))

    def pointwise_soft(self, scores: Tensor, shares: Tensor) -> Tensor:
        """``-sum_y s_y log (T p)_y`` from one product with T, where no ``(T p)_y`` comes near underflow."""
        T = self.transition
        if self.plain and shares.ndim == 2 and type(self) is ForwardLoss:
            q = torch.softmax(scores, -1) @ torch.as_tensor(T.matrix(), dtype=scores.dtype, device=scores.device).T
            used = shares > 0
            if bool((q > torch.finfo(q.dtype).tiny ** 0.5).logical_or(~used).all()):
                return -(shares * torch.where(used, q, 1.0).log()).sum(-1)
        return super().pointwise_soft(scores, shares)

    def pointwise_with(self, transitions: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        """``-log (T p)_y``, or another score, with each example's own T (n, M, K), or one for all (1, M, K).

        Where labels are masks (n, M), the weak label is one of several: its row of T is the sum of theirs.
        """
        rows = _rows(transitions, labels)
        if not self.plain:
            if labels.dtype == torch.bool:
                raise InputError(f"labels: expected indices with the score {self.score.name!r}, got masks")
            p = self.probabilities(scores)
            q = (transitions.to(p.dtype) @ p[..., None])[..., 0]  # (n, M)
            return self.score.loss(Weak(inner(rows.to(p.dtype), p), q.square().sum(-1), q, labels))
        if not rows.requires_grad:
            # a T of fewer digits than the scores is taken for exact
            log_rows = rows.to(torch.promote_types(rows.dtype, scores.dtype)).log().to(scores.dtype)
            if scores.is_cuda or tracing.transformation():
                return -log_mixture(scores, log_rows)
            work = cpu.forward_cross_entropy(DenseRows(log_rows).prepared(scores.dtype))
            return cpu.run(scores, work, lambda v: -log_mixture(v, log_rows))
        # T is learned: log T has no gradient where T is zero, but the loss has one, -p_z / (T p)_y
        rows, log_p = rows.to(scores.dtype), torch.log_softmax(scores, -1)
        gone = rows == 0
        top = log_p.masked_fill(gone, -torch.inf).amax(-1, keepdim=True).detach()
        impossible = torch.isneginf(top)  # an infinite loss, without a gradient to spread NaN by
        room = math.log(torch.finfo(scores.dtype).max) / 2  # times zero it shall be zero
        away = log_p - torch.where(impossible, 0.0, top)
        mass = (rows * torch.where(gone, away.clamp_max(room), away).exp()).sum(-1)
        return -(torch.where(impossible[:, 0], 1.0, mass).log() + top[:, 0])

    def probabilities(self, scores: Tensor) -> Tensor:
        """Softmax, or the probabilities of the potential that was given as a link."""
        scores = checks.scores(scores, self.transition.num_classes, some=False)
        return torch.softmax(scores, -1) if self.link is None else self.link.probabilities(scores)

    def pair(self) -> tuple[Any, Any] | str:
        """(score, T)."""
        if self.link is not None:
            return f"the link is that of {self.link.name}, not softmax"
        return (self.score, self.transition) if type(self) is ForwardLoss else super().pair()

    def scores_of(self, p: Tensor) -> Tensor:
        """The logarithm, or the inverse of the link that was given."""
        return p.log() if self.link is None else self.link.inverse_link(p)

    def bounds(self) -> Bounds:
        """Those of the score; a row in which answers are missing has a loss >= 0, and 0 where all are."""
        if not self.bounds_are_of(ForwardLoss) or not self.is_as_written(ForwardLoss):
            return super().bounds()
        out = stated(self.lower_bounds(), self.transition, "all labels")
        if not self.transition.separate:
            return out

        def of(labels: Tensor) -> Tensor:
            return 0.0 - self.transition.evidence(labels).logs(torch.float64).amax(-1)

        return replace(out, least=0.0, floor=0.0, values=np.zeros(1), incomplete=0.0, of=of)

    def lower_bounds(self) -> FloatArray:
        """The smallest ``l(T p, y)`` over all p: ``-log max_z T_yz`` for the log score."""
        rows = self._bounds()
        rewritten = self.bounds_are_of(ForwardLoss) and not self.is_as_written(ForwardLoss)
        return np.full_like(rows, np.nan) if rewritten else rows

    def _bounds(self) -> FloatArray:
        T, score = self.transition, self.score
        if isinstance(score, LogScore):
            return 0.0 - T.log_row_maxima()
        return T.score_bounds(score)

    def extra_repr(self) -> str:
        """For printing the module."""
        return self.transition.name if self.plain else f"{self.transition.name}, score: {self.score.name}"


def _rows(transitions: Tensor, labels: Tensor) -> Tensor:
    """Each example's own row of T (n, K); of masks, the sum of their rows."""
    if labels.dtype == torch.bool:
        masks = labels.to(transitions.dtype)
        return masks @ transitions[0] if len(transitions) == 1 else (masks[:, None] @ transitions)[:, 0]
    if len(transitions) == 1:
        return transitions[0].index_select(0, labels)
    return transitions.gather(1, labels[:, None, None].expand(-1, 1, transitions.shape[-1]))[:, 0]
