"""Forward correction: a proper score of ``T p`` at the weak label."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import FloatArray, Work, as_tensors, checks, inner, log_mixture, log_total, safe_log
from ..errors import InputError
from ..potentials import LogSumExp, Potential
from ..transitions import (
    AnnotatorTransition,
    CandidateSetTransition,
    Transition,
    UniformTransition,
)
from .base import Reduction, WeakLabelLoss, in_kernel
from .bounds import Bounds, stated
from .kernels import cpu
from .kernels.registry import plan
from .scores import BrierScore, LogScore, Score, Weak, make_score


class ForwardLoss(WeakLabelLoss):
    """The score of ``q = T p`` at the weak label: ``-log (T p)_y`` by default, exactly in log space.

    T-proper for every T and every proper score, and bounded from below; strictly proper iff T is reconstructible (and
    the score strictly proper). The log score is bounded by ``-log max_z T_yz``.

    Parameters
    ----------
    transition : Transition
    reduction : "mean", "sum" or "none"
    score : str or Potential
        "log", "brier" (bounded, with a bounded gradient), "spherical", "tsallis:a", or a potential on weak labels.
    link : Potential, optional
        p is this potential's `probabilities` of the scores; softmax by default. A sparse link (`Sparsemax`, `Tsallis`
        above 1) can give a label the probability 0: its log loss is infinite then, without a gradient to leave by.
        "brier" and "spherical" stay finite.
    validate, ignore_index
        As for `BackwardLoss`.
    """

    def __init__(
        self,
        transition: Transition,
        reduction: Reduction = "mean",
        validate: bool = True,
        *,
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
        if isinstance(transition, AnnotatorTransition) and not isinstance(self.score, LogScore):
            raise InputError(
                f"score: expected 'log' for {transition.name}, whose rows of answers may be incomplete, "
                f"got {self.score.name!r}"
            )
        self._register(self._made_tables())

    def _made_tables(self) -> dict[str, FloatArray]:
        T, tables = self.transition, self.transition.tables()
        if self.score.needs == "norm" and not isinstance(T, UniformTransition):
            return {**tables, "gram": T.gram()}
        if self.score.needs == "all" and not isinstance(T, UniformTransition):
            return {**tables, "T": _listed(T, self.score)}
        return tables

    @property
    def plain(self) -> bool:
        """Whether this is forward-corrected cross entropy with softmax."""
        return isinstance(self.score, LogScore) and self.link is None

    def pointwise(self, scores: Tensor, labels: Tensor) -> Tensor:
        """``l(T p, y)``; for the log score ``inf`` for a label that cannot occur."""
        if self.plain:
            return -self.transition.log_probability(scores, labels, self.tables)
        p = self.probabilities(scores)
        rows = self.transition.log_rows(labels, self.tables, scores.dtype)
        if isinstance(self.score, LogScore):  # products of many answers' probabilities underflow
            return -log_total(safe_log(p) + rows)
        rows = rows.exp()
        return self.score.loss(self._weak(p, inner(rows, p), labels))

    def pointwise_soft(self, scores: Tensor, shares: Tensor) -> Tensor:
        """``-sum_y s_y log (T p)_y`` from one product with T, where no ``(T p)_y`` comes near underflow."""
        T = self.transition
        if self.plain and T.answer_sizes is None and type(self) is ForwardLoss:
            q = torch.softmax(scores, -1) @ torch.as_tensor(T.matrix(), dtype=scores.dtype, device=scores.device).T
            used = shares > 0
            if bool((q > torch.finfo(q.dtype).tiny ** 0.5).logical_or(~used).all()):
                return -(shares * torch.where(used, q, 1.0).log()).sum(-1)
        return super().pointwise_soft(scores, shares)

    def _weak(self, p: Tensor, at_label: Tensor, labels: Tensor) -> Weak:
        T, needs = self.transition, self.score.needs
        if needs == "label":
            return Weak(at_label)
        if isinstance(T, UniformTransition):
            q = T.diagonal * p + T.off_diagonal * _others(p)
            return Weak(at_label, q.square().sum(-1), q, labels)
        if needs == "norm":
            return Weak(at_label, ((p @ self.tables["gram"].to(p.dtype)) * p).sum(-1))
        return Weak(at_label, all=p @ self.tables["T"].to(p.dtype).T, index=T.row_index(labels))

    def pointwise_with(self, transitions: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        """The same with each example's own T (n, M, K), or one for all (1, M, K).

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
            work = cpu.mixture(log_rows) if cpu.possible(scores) else None
            return in_kernel(scores, work, lambda v: -log_mixture(v, log_rows))
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
        scores = checks.classes_last(scores, self.transition.num_classes)
        return torch.softmax(scores, -1) if self.link is None else self.link.probabilities(scores)

    def _kernel(self, labels: Tensor, dtype: torch.dtype, class_major: bool = False) -> Work | None:
        planned = plan(self)
        if isinstance(planned, str):
            return None
        return cpu.forward_cross_entropy(planned, self.transition, labels, self.tables, dtype, class_major)

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
        if "answers" not in self.transition.label_form:
            return out

        def of(labels: Tensor) -> Tensor:
            return 0.0 - self.transition.log_rows(labels, as_tensors(self.transition.tables())).amax(-1)

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
        if isinstance(T, UniformTransition) and score.symmetric:
            bound = score.uniform_bound(T.diagonal, T.off_diagonal, T.num_classes)
            return np.full(T.num_weak_labels, bound)
        if isinstance(T, CandidateSetTransition) and score.symmetric:
            return _set_bounds(T, score)
        matrix = T.matrix()
        return np.array([score.bound(matrix, y) for y in range(len(matrix))])

    def extra_repr(self) -> str:
        """For printing the module."""
        return self.transition.name if self.plain else f"{self.transition.name}, score: {self.score.name}"


def _others(p: Tensor) -> Tensor:
    """``1 - p_z``, for the likeliest class as the sum of the others: of 1 - p few digits are left beside p = 1."""
    most = p.argmax(-1, keepdim=True)
    return (1 - p).scatter(-1, most, p.scatter(-1, most, 0.0).sum(-1, keepdim=True))


def _rows(transitions: Tensor, labels: Tensor) -> Tensor:
    """Each example's own row of T (n, K); of masks, the sum of their rows."""
    if labels.dtype == torch.bool:
        masks = labels.to(transitions.dtype)
        return masks @ transitions[0] if len(transitions) == 1 else (masks[:, None] @ transitions)[:, 0]
    if len(transitions) == 1:
        return transitions[0].index_select(0, labels)
    return transitions.gather(1, labels[:, None, None].expand(-1, 1, transitions.shape[-1]))[:, 0]


def _listed(transition: Transition, score: Score) -> FloatArray:
    try:
        if isinstance(transition, CandidateSetTransition):  # its list of rows is made now, not while a call is traced
            transition.row_index(torch.ones(1, transition.num_classes, dtype=torch.bool))
        return transition.matrix()
    except ValueError:
        raise InputError(
            f"score: expected log, brier or spherical for {transition.name}, whose weak labels are too many to list, "
            f"got {score.name!r}"
        ) from None


def _set_bounds(T: CandidateSetTransition, score: Score) -> FloatArray:
    """Bounds of candidate sets, which depend on the set's size alone: by label, beyond 12 classes by size.

    By symmetry the best p is even inside of S and outside, with mass s inside: ``q_S = g s`` and ``||q||^2 =
    a (s^2/j + (1-s)^2/(K-j)) + b``, T^T T = a I + b 1 1^T. Where q itself is needed, one set of each size stands for
    all of them.
    """
    K, j = T.num_classes, np.array(T.set_sizes())
    if score.needs == "all":
        matrix, sizes = T.matrix(), [len(s) for s in T.candidate_sets()]
        return T.per_label(np.array([score.bound(matrix, sizes.index(size)) for size in j]))
    gram, g = T.gram(), np.exp(T.log_weight[j])
    b = gram[0, 1]
    a = gram[0, 0] - b
    rest = np.where(j < K, 1 / np.maximum(K - j, 1), 0.0)
    s = np.ones(len(j))  # the largest cosine, and the least distance where that is not inside
    if isinstance(score, BrierScore) and a > 0:
        s = np.where(j < K, np.minimum(1.0, (g / a + rest) / (1 / j + rest)), 1.0)
    square = torch.as_tensor(a * (s**2 / j + (1 - s) ** 2 * rest) + b)
    return T.per_label(score.loss(Weak(torch.as_tensor(g * s), square)).numpy())
