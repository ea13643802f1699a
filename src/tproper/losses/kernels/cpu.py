"""CPU kernels: cross entropy, backward-corrected (squeezed or not) and forward-corrected, made with its gradient.

Autograd would write one (n, K) gradient for every term of a loss and add them up. A kernel knows the gradient in
closed form and writes one, a block of rows at a time. Where it cannot answer it returns NaN, and the line runs
instead, as it does where derivatives of the gradient are wanted, and under torch.compile and torch.func.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..._core import Work, finds_top, look_up, softmax_into, tracing
from ...transitions import Reconstruction, Tables, Transition, indicator, mask_sizes
from .registry import Plan, plan


def possible(scores: Tensor) -> bool:
    """Whether scores are where kernels can look at them, and nothing is being traced."""
    return not scores.is_cuda and not tracing.transformed()


def runs(loss: Any, scores: Tensor) -> bool:
    """Whether a kernel here serves a call."""
    return loss.backend != "torch" and possible(scores) and not isinstance(plan(loss), str)


def cross_entropy(
    plan: Plan, R: Reconstruction, labels: Tensor, tables: Tables, dtype: torch.dtype, class_major: bool = False
) -> Work:
    """``logsumexp v - <r, v> + k/2 sum |u|^alpha``, u = v - mean v, for targets ``r = R e_y``: work on blocks of rows.

    Gradient: ``softmax v - r + k alpha/2 (|u|^(alpha-1) sgn u - its mean)``.
    """
    k, alpha = plan.squeeze or (0.0, 2.0)
    # Where targets have large entries of both signs, <r, x> keeps its digits if x is centred first.
    centred = k != 0 or plan.by_size is not None
    if plan.dense:
        targets = _dense(laid_out(R._targets(labels, tables, dtype), class_major))
    elif plan.by_size is None:
        targets = _index(*plan.numbers, labels, centred)
    else:
        targets = _sets(laid_out(labels, class_major), tables[plan.by_size], dtype)

    def work(v: Tensor, rows: slice, slope: Tensor, share: float) -> Tensor:
        inner, subtract, at = targets(rows)
        if not finds_top(slope):
            at = None  # the largest score must be sought anyway, and stands in for the label's
        # Scores are compared with one of the row before they are summed: a common shift must not eat their digits.
        near = _picked(v, at)
        if centred:
            x = v - near
            softmax_into(slope, x, shifted=at is None)
            mean = x.mean(-1, keepdim=True)
            loss = -inner(x.sub_(mean)).add_(mean)  # targets sum to one
        elif at is not None and plan.numbers[0] == 1.0:  # <e_y, v - v_y> = 0
            loss = torch.zeros_like(near)
            softmax_into(slope, v)
        else:  # x is needed no longer than slope is free
            x = torch.sub(v, near, out=slope)
            loss = -inner(x)
            softmax_into(slope, x, shifted=at is None)
        own = _picked(slope, at)
        if at is not None and bool((own < _smallest(v.dtype)).any()):
            own = _picked(slope)  # the largest p is at least 1/K: its logarithm is exact however far apart scores are
            loss.add_(_picked(v).sub_(near))
        loss.sub_(own.log_())
        subtract(slope, share)
        if k and alpha == 2:
            loss.add_(_square_sum(x), alpha=k / 2)
            slope.add_(x, alpha=share * k)
        elif k:
            bent = x.abs().pow_(alpha - 1).mul_(x.sign())
            slope.add_(bent - bent.mean(-1, keepdim=True), alpha=share * k * alpha / 2)
            loss.add_(bent.mul_(x).sum(-1, keepdim=True), alpha=k / 2)
        return loss[:, 0]

    return Work(work, centred or plan.dense)


def forward_cross_entropy(
    plan: Plan, T: Transition, labels: Tensor, tables: Tables, dtype: torch.dtype, class_major: bool = False
) -> Work:
    """``-log (T p)_y``, p = softmax v: work on blocks of rows."""
    if plan.dense:
        return mixture(T.log_rows(labels, tables, dtype), class_major)
    if plan.by_size is None:
        return _two_valued(*plan.numbers, labels)
    masks = laid_out(labels.reshape(-1, T.num_classes), class_major)
    top = look_up(tables[plan.by_size].to(dtype), mask_sizes(masks))[:, None]
    return _mixture(lambda rows: indicator(masks[rows], dtype), top)


def mixture(log_rows: Tensor, class_major: bool = False) -> Work:
    """``-log sum_z t_z p_z``, p = softmax v, t the label's row of T."""
    K = log_rows.shape[-1]
    top = log_rows.amax(-1, keepdim=True)  # products of many answers' probabilities underflow
    top = torch.where(torch.isneginf(top), 0.0, top)
    t = laid_out((log_rows - top).exp_().reshape(-1, K), class_major)
    return _mixture(lambda rows: t[rows], top.reshape(-1, 1))


def _mixture(t: Callable[[slice], Tensor], top: Tensor) -> Work:
    """``-top - log <t, p>``; gradient ``p - q``, ``q_z = t_z p_z / <t, p>``: from prior to posterior.

    NaN where the sum comes near underflow.
    """

    def work(v: Tensor, rows: slice, slope: Tensor, share: float) -> Tensor:
        softmax_into(slope, v)
        q = t(rows) * slope
        mass = q.sum(-1, keepdim=True).div_(slope.sum(-1, keepdim=True))  # exactly 1 where t is
        slope.sub_(q.div_(mass))
        if share != 1.0:
            slope.mul_(share)
        return torch.where(mass > _smallest(v.dtype), -top[rows] - mass.log(), math.nan)[:, 0]

    return Work(work)


def _two_valued(d: float, o: float, labels: Tensor) -> Work:
    """``-log (d p_y + o (1 - p_y))``: uniform noise, complementary labels.

    With q = d p_y + o (1 - p_y) the gradient is ``(d - o) p_y / q`` times p, but for ``-(1 - p_y)`` at the label: no
    difference of nearly equal numbers, since 1 - p_y is the sum of the others. NaN where q comes near underflow.
    """
    index = labels.reshape(-1, 1)

    def work(v: Tensor, rows: slice, slope: Tensor, share: float) -> Tensor:
        at = index[rows]
        softmax_into(slope, v)
        own = slope.gather(-1, at)
        slope.scatter_(-1, at, 0.0)
        others = slope.sum(-1, keepdim=True)
        slope.scatter_(-1, at, -others)
        mass = (d * own).add_(others, alpha=o).div_(own + others)
        slope.mul_(own.div_(mass).mul_(share * (d - o)))
        return torch.where(mass > _smallest(v.dtype), -mass.log(), math.nan)[:, 0]

    return Work(work, temporaries=False)


def _smallest(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).tiny / torch.finfo(dtype).eps


def hushed(work: Work, silent: Tensor | None) -> Work:
    """The same work, with loss and gradient 0 for labels that say nothing."""
    if silent is None:
        return work
    quiet = silent.reshape(-1)

    def both(v: Tensor, rows: slice, slope: Tensor, share: float) -> Tensor:
        loss = work.run(v, rows, slope, share).masked_fill(quiet[rows], 0.0)
        slope.masked_fill_(quiet[rows, None], 0.0)
        return loss

    return Work(both, work.temporaries)


def laid_out(rows: Tensor, class_major: bool) -> Tensor:
    """Rows (n, K), for class-major work with each class's column contiguous."""
    return rows.T.contiguous().T if class_major else rows


def _picked(x: Tensor, at: Tensor | None = None) -> Tensor:
    """The entry `at` (n, 1) of every row, by default the largest."""
    return x.amax(-1, keepdim=True) if at is None else x.gather(-1, at)


def _square_sum(x: Tensor) -> Tensor:
    if x.stride(-1) == 1:  # needs no temporary, but is slow along columns
        return torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
    return x.square().sum(-1, keepdim=True)


Block = tuple[Callable[[Tensor], Tensor], Callable[[Tensor, float], None], Tensor | None]
# Targets r of a block of rows: ``<r, x>`` (n, 1), ``slope = share (slope - r)`` in place, y (n, 1) if r is c e_y + b.
Targets = Callable[[slice], Block]


def _dense(rows_of_r: Tensor) -> Targets:
    """Targets as they are."""
    rows_of_r = rows_of_r.reshape(-1, rows_of_r.shape[-1])

    def targets(rows: slice) -> Block:
        r = rows_of_r[rows]

        def subtract(slope: Tensor, share: float) -> None:
            slope.sub_(r)
            if share != 1.0:
                slope.mul_(share)

        return lambda x: (r * x).sum(-1, keepdim=True), subtract, None

    return targets


def _index(c: float, b: float, labels: Tensor, centred: bool) -> Targets:
    """Targets ``c e_y + b``, ``<r, x> = c x_y + (1 - c) mean x``: uniform noise, complementary labels."""
    index = labels.reshape(-1, 1)

    def targets(rows: slice) -> Block:
        at = index[rows]

        def inner(x: Tensor) -> Tensor:
            own = x.gather(-1, at).mul_(c)
            return own if centred or c == 1.0 else own.add_(x.mean(-1, keepdim=True), alpha=1 - c)

        def subtract(slope: Tensor, share: float) -> None:
            if share != 1.0:  # both in one pass
                torch.add(slope.new_tensor(-share * b), slope, alpha=share, out=slope)
            elif b:
                slope.sub_(b)
            slope.scatter_add_(-1, at, slope.new_full(at.shape, -share * c))

        return inner, subtract, at

    return targets


def _sets(masks: Tensor, coefficient: Tensor, dtype: torch.dtype) -> Targets:
    """Targets ``c(|S|) 1_S + b``: candidate sets."""
    K = masks.shape[-1]
    size = mask_sizes(masks).reshape(-1, 1)
    # in float64: with many classes one value is the small difference of c and the other, both large
    c = look_up(coefficient.double(), size[:, 0])[:, None]
    outside = (1 - c * size) / K
    # r is `most` everywhere but for a step on the smaller side of the set: a sum over few entries keeps its digits
    crowded = 2 * size > K
    most = torch.where(crowded, c + outside, outside).to(dtype)
    steps = torch.where(crowded, -c, c).to(dtype)
    smaller = masks.reshape(-1, K)
    if bool(crowded.any()):
        smaller = smaller ^ crowded

    def targets(rows: slice) -> Block:
        few, step = indicator(smaller[rows], dtype), steps[rows]

        def subtract(slope: Tensor, share: float) -> None:
            slope.addcmul_(few, -step).sub_(most[rows])
            if share != 1.0:
                slope.mul_(share)

        return lambda x: (few * x).sum(-1, keepdim=True).mul_(step), subtract, None

    return targets
