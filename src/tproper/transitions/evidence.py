"""What weak labels say, as objects: the targets of a batch of labels, their rows of T, and the kinds of targets.

A loss asks a target for ``<r, x>``, and a row of T for ``log (T p)_y``: each structure has its formula here, once. The
definitions of losses, their kernels on the CPU, solvers and scores all work with these objects.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from .._core import FloatArray, inner, is_finite, log_mixture
from .set_mass import indicator, log_set_mass, mask_sizes

FEW = 1 << 13  # entries of targets up to which a table of them costs less than what would do without
MOST_KINDS = 1 << 14  # labels that are told apart one by one where classes differ
Tables = Mapping[str, Tensor]
Needs = Literal["label", "norm", "all"]  # what a score needs of q = T p: q_y, ||q||^2 too, or all of q


class Targets(ABC):
    """Targets ``r = R e_y`` (..., K) of a batch of weak labels, on the labels' device.

    A new structure gives `product`, `subtract_`, `dense` and `__getitem__`; `Dense` does with a table.
    """

    total: Tensor | float = 1.0  # what each sums to
    at: Tensor | None = None  # (..., 1): a class of each row that scores may be compared with, if one stands out
    single: bool = False  # whether all of a target is at that class
    wide: bool = False  # whether entries may be large and of both signs, so that <r, x> needs x centred
    temporaries: bool = True  # whether `product` and `subtract_` need memory of the size of x
    silent: Tensor | None = None  # which labels (...) say nothing: their loss is 0

    def inner(self, x: Tensor) -> Tensor:
        """``<r, x>`` (...) for x (..., K); an infinite x counts for nothing where r is 0."""
        out = self.product(x)
        return out if is_finite(out) else inner(self.dense(x.dtype), x)

    @abstractmethod
    def product(self, x: Tensor, centred: bool = False) -> Tensor:
        """The same for finite x; `centred`: they sum to zero."""

    @abstractmethod
    def subtract_(self, g: Tensor, share: float = 1.0) -> None:
        """``g <- share (g - r)`` in place: from the gradient of F to that of the loss."""

    @abstractmethod
    def dense(self, dtype: torch.dtype) -> Tensor:
        """r itself (..., K)."""

    @abstractmethod
    def __getitem__(self, rows: slice) -> Targets:
        """Those of some rows of a flat batch."""

    def flat(self, dtype: torch.dtype, class_major: bool = False) -> Targets:
        """The same as rows (n, K), for work with scores of a dtype; `class_major`: laid out for work on columns."""
        return self

    def hush(self, losses: Tensor) -> Tensor:
        """Losses (...), or shares (..., K), with 0 for labels that say nothing."""
        silent = self.silent
        if silent is None:
            return losses
        return losses.masked_fill(silent if losses.ndim == silent.ndim else silent[..., None], 0.0)


def laid_out(rows: Tensor, class_major: bool) -> Tensor:
    """Rows (n, K), for class-major work with each class's column contiguous."""
    rows = rows if rows.ndim == 2 else rows.reshape(-1, rows.shape[-1])
    return rows.T.contiguous().T if class_major else rows


class Dense(Targets):
    """Targets as they are (..., K)."""

    def __init__(self, r: Tensor) -> None:
        self.r = r

    def product(self, x: Tensor, centred: bool = False) -> Tensor:
        """The sum of products."""
        return (self.r * x).sum(-1)

    def subtract_(self, g: Tensor, share: float = 1.0) -> None:
        """As it stands."""
        g.sub_(self.r)
        if share != 1.0:
            g.mul_(share)

    def dense(self, dtype: torch.dtype) -> Tensor:
        """The table."""
        return self.r.to(dtype)

    def __getitem__(self, rows: slice) -> Dense:
        return Dense(self.r[rows])

    def flat(self, dtype: torch.dtype, class_major: bool = False) -> Dense:
        """As rows."""
        return Dense(laid_out(self.r, class_major))


class Spike(Targets):
    """Targets ``c e_z + (1 - c)/K``, c one number or one for each row: a label that speaks of one class z.

    Uniform noise, complementary labels, yes/no questions. No table is built.
    """

    temporaries = False

    def __init__(self, classes: Tensor, c: float | Tensor, num_classes: int) -> None:
        self.classes, self.c, self.K = classes, c, num_classes
        self.single = isinstance(c, float) and c == 1.0

    @property
    def at(self) -> Tensor:  # type: ignore[override]
        """The class."""
        return self.classes[..., None]

    def _c(self, dtype: torch.dtype) -> float | Tensor:
        return self.c.to(dtype) if isinstance(self.c, Tensor) else self.c

    def product(self, x: Tensor, centred: bool = False) -> Tensor:
        """``c x_z + (1 - c) mean(x)``."""
        own, c = x.gather(-1, self.classes[..., None]).squeeze(-1), self._c(x.dtype)
        if isinstance(c, float) and c == 1.0:
            return own
        return own * c if centred else own * c + x.mean(-1) * (1 - c)

    def subtract_(self, g: Tensor, share: float = 1.0) -> None:
        """The constant everywhere, and c at the class."""
        c = self._c(g.dtype)
        if isinstance(c, Tensor):
            torch.add((-share / self.K * (1 - c))[..., None], g, alpha=share, out=g)
            g.scatter_add_(-1, self.at, -share * c[..., None])
            return
        b = (1 - c) / self.K if c != 1.0 else 0.0
        if share != 1.0:  # both in one pass
            torch.add(g.new_tensor(-share * b), g, alpha=share, out=g)
        elif b:
            g.sub_(b)
        at = self.at
        g.scatter_add_(-1, at, g.new_full(at.shape, -share * c))

    def dense(self, dtype: torch.dtype) -> Tensor:
        """The constant, and c more at the class."""
        c = torch.as_tensor(self.c, dtype=torch.float64, device=self.classes.device).expand(self.classes.shape)[
            ..., None
        ]
        b = (1 - c) / self.K
        out = b.to(dtype).expand(*self.classes.shape, self.K)
        return out.scatter(-1, self.classes[..., None], (b + c).to(dtype))

    def __getitem__(self, rows: slice) -> Spike:
        return Spike(self.classes[rows], self.c[rows] if isinstance(self.c, Tensor) else self.c, self.K)

    def flat(self, dtype: torch.dtype, class_major: bool = False) -> Targets:
        """As rows; of small batches a table, because calls cost more than memory there."""
        if isinstance(self.c, float) and self.classes.numel() * self.K <= FEW:
            b, z = (1 - self.c) / self.K, self.classes.reshape(-1, 1)
            r = torch.full((z.shape[0], self.K), b, dtype=dtype, device=z.device).scatter_(-1, z, b + self.c)
            return Dense(laid_out(r, True) if class_major else r)
        if self.classes.ndim == 1:
            return self
        return Spike(self.classes.reshape(-1), self.c.reshape(-1) if isinstance(self.c, Tensor) else self.c, self.K)


class Step(Targets):
    """Targets ``c 1_S + (1 - c |S|)/K``: candidate sets S, as masks (..., K), with c (...) by their size."""

    wide = True

    def __init__(self, masks: Tensor, c: Tensor) -> None:
        self.masks, self.c = masks, c.double()  # one value is the small difference of c and the other, both large

    def inner(self, x: Tensor) -> Tensor:
        """``mean(x) + <r, x - mean(x)>``: r may be large and of both signs; what all x share is taken out first."""
        finite = x.masked_fill(x.isinf(), 0.0)  # masked classes
        mean = finite.mean(-1, keepdim=True)
        return mean[..., 0] + inner(self.dense(x.dtype), x - mean)

    def product(self, x: Tensor, centred: bool = False) -> Tensor:
        """The sum of products."""
        return (self.dense(x.dtype) * x).sum(-1)

    def subtract_(self, g: Tensor, share: float = 1.0) -> None:
        """By way of the smaller side of the set."""
        self.flat(g.dtype).subtract_(g, share)

    def dense(self, dtype: torch.dtype) -> Tensor:
        """One value inside of S, another outside, computed in float64."""
        outside = (1 - self.c * mask_sizes(self.masks)) / self.masks.shape[-1]
        return torch.where(self.masks, (self.c + outside).to(dtype)[..., None], outside.to(dtype)[..., None])

    def __getitem__(self, rows: slice) -> Step:
        return Step(self.masks[rows], self.c[rows])

    def flat(self, dtype: torch.dtype, class_major: bool = False) -> Targets:
        """As rows, in the form that keeps digits where x is centred."""
        return _SmallerSide.of(laid_out(self.masks, class_major), self.c.reshape(-1, 1))


class _SmallerSide(Targets):
    """`Step` as ``most`` everywhere but for a step on the smaller side of the set: sums over few keep their digits."""

    wide = True

    def __init__(self, few: Tensor, most: Tensor, step: Tensor) -> None:
        self.few, self.most, self.step = few, most, step

    @classmethod
    def of(cls, masks: Tensor, c: Tensor) -> _SmallerSide:
        """Of masks (n, K) and c (n, 1)."""
        K, size = masks.shape[-1], mask_sizes(masks)[:, None]
        outside = (1 - c * size) / K
        crowded = 2 * size > K
        few = masks ^ crowded if bool(crowded.any()) else masks
        return cls(few, torch.where(crowded, c + outside, outside), torch.where(crowded, -c, c))

    def product(self, x: Tensor, centred: bool = False) -> Tensor:
        """The step times the sum over the smaller side, and what the mean adds."""
        out = (indicator(self.few, x.dtype) * x).sum(-1).mul_(self.step.to(x.dtype)[:, 0])
        return out if centred else out + (self.most.to(x.dtype) * x).sum(-1)

    def subtract_(self, g: Tensor, share: float = 1.0) -> None:
        """Both parts in one pass each."""
        g.addcmul_(indicator(self.few, g.dtype), -self.step.to(g.dtype)).sub_(self.most.to(g.dtype))
        if share != 1.0:
            g.mul_(share)

    def dense(self, dtype: torch.dtype) -> Tensor:
        """Two values a row."""
        return torch.where(self.few, self.most + self.step, self.most).to(dtype)

    def __getitem__(self, rows: slice) -> _SmallerSide:
        return _SmallerSide(self.few[rows], self.most[rows], self.step[rows])


class Weighted(Targets):
    """Targets ``w r`` under costs w (K,) of the true classes; they sum to ``<r, w>``."""

    def __init__(self, targets: Targets, weights: Tensor) -> None:
        self.targets, self.weights, self.silent = targets, weights, targets.silent
        mean = weights.mean()  # taken out first: entries of r may be large and of both signs
        self.total = mean + (targets.dense(weights.dtype) * (weights - mean)).sum(-1)

    def inner(self, x: Tensor) -> Tensor:
        """``<r, w x>``."""
        return self.targets.inner(self.weights * x)

    def product(self, x: Tensor, centred: bool = False) -> Tensor:
        """``<r, w x>``."""
        return self.targets.product(self.weights * x)

    def subtract_(self, g: Tensor, share: float = 1.0) -> None:
        """As it stands."""
        g.sub_(self.dense(g.dtype)).mul_(share)

    def dense(self, dtype: torch.dtype) -> Tensor:
        """The products."""
        return self.weights.to(dtype) * self.targets.dense(dtype)

    def __getitem__(self, rows: slice) -> Weighted:
        return Weighted(self.targets[rows], self.weights)

    def flat(self, dtype: torch.dtype, class_major: bool = False) -> Weighted:
        """As rows."""
        return Weighted(self.targets.flat(dtype, class_major), self.weights)


class Silenced(Targets):
    """Targets of which some belong to labels that say nothing (a row without any answer): their loss is 0."""

    silent: Tensor

    def __init__(self, targets: Targets, silent: Tensor) -> None:
        self.targets, self.silent = targets, silent
        self.wide, self.temporaries = targets.wide, targets.temporaries

    @property
    def at(self) -> Tensor | None:  # type: ignore[override]
        """That of the targets."""
        return self.targets.at

    def inner(self, x: Tensor) -> Tensor:
        """That of the targets: `hush` has the last word."""
        return self.targets.inner(x)

    def product(self, x: Tensor, centred: bool = False) -> Tensor:
        """That of the targets."""
        return self.targets.product(x, centred)

    def subtract_(self, g: Tensor, share: float = 1.0) -> None:
        """And no gradient where a label is silent."""
        self.targets.subtract_(g, share)
        g.masked_fill_(self.silent[..., None], 0.0)

    def dense(self, dtype: torch.dtype) -> Tensor:
        """That of the targets."""
        return self.targets.dense(dtype)

    def __getitem__(self, rows: slice) -> Silenced:
        return Silenced(self.targets[rows], self.silent[rows])

    def flat(self, dtype: torch.dtype, class_major: bool = False) -> Silenced:
        """As rows."""
        return Silenced(self.targets.flat(dtype, class_major), self.silent.reshape(-1))


class Rows(ABC):
    """Rows ``t = T[y, :]`` (..., K) of a batch of weak labels, on the labels' device.

    A new structure gives `logs`, and whatever else it has a closed form for. Where a score needs more of ``q = T p``
    than its entry at the label, T gives its Gram matrix, or the whole table with the labels' places in it.
    """

    gram: Tensor | None = None  # (K, K), T^T T
    table: Tensor | None = None  # (M, K)
    index: Tensor | None = None  # (...)
    temporaries: bool = True  # whether `posterior_` needs memory of the size of p

    @abstractmethod
    def logs(self, dtype: torch.dtype) -> Tensor:
        """``log t`` (..., K)."""

    def __getitem__(self, rows: slice) -> Rows:
        """Those of some rows of a flat batch, `prepared` for work on them."""
        raise NotImplementedError

    def prepared(self, dtype: torch.dtype, class_major: bool = False) -> Rows:
        """The same as rows (n, K), ready for `posterior_`; `class_major`: laid out for work on columns."""
        logs = self.logs(dtype)
        return ScaledRows.of(logs.reshape(-1, logs.shape[-1]), class_major)

    def posterior_(self, p: Tensor, share: float) -> Tensor:
        """``-log <t, p>`` (n,), NaN where the sum comes near underflow; p becomes ``share (p - q)``, the gradient.

        q is the posterior, ``q_z = t_z p_z / <t, p>``. For rows that are `prepared`.
        """
        raise NotImplementedError

    def log_mass(self, scores: Tensor) -> Tensor:
        """``log <t, p>`` (...) for p = softmax(scores): log-sum-exp over ``log t + log p``, never a log of a sum."""
        return log_mixture(scores, self.logs(scores.dtype))

    def mass(self, p: Tensor) -> Tensor:
        """``<t, p>`` (...), the entry of q = T p at the label."""
        return inner(self.logs(p.dtype).exp(), p)

    def square(self, p: Tensor) -> Tensor:
        """``||T p||^2`` (...)."""
        if self.gram is None:
            return self.all(p).square().sum(-1)
        return ((p @ self.gram.to(p.dtype)) * p).sum(-1)

    def all(self, p: Tensor) -> Tensor:
        """``T p`` (..., M), in which the labels' entries stand at `index`."""
        assert self.table is not None
        return p @ self.table.to(p.dtype).T


@cache
def smallest(dtype: torch.dtype) -> float:
    """Below it a sum of products has lost digits to underflow."""
    return torch.finfo(dtype).tiny / torch.finfo(dtype).eps


class DenseRows(Rows):
    """Rows by their logarithms (..., K)."""

    def __init__(self, logs: Tensor) -> None:
        self._logs = logs

    def logs(self, dtype: torch.dtype) -> Tensor:
        """As they are."""
        return self._logs.to(dtype)


class ScaledRows(Rows):
    """Rows (n, K) as numbers t of which the largest is 1, and the logarithm of what they are to be multiplied by."""

    def __init__(self, t: Tensor, top: Tensor) -> None:
        self.t, self.top = t, top

    @classmethod
    def of(cls, logs: Tensor, class_major: bool) -> ScaledRows:
        """Of logarithms: products of many answers' probabilities underflow."""
        top = logs.amax(-1, keepdim=True)
        top = torch.where(torch.isneginf(top), 0.0, top)
        return cls(laid_out((logs - top).exp_(), class_major), top)

    def logs(self, dtype: torch.dtype) -> Tensor:
        """The logarithms that they were made of."""
        return (self._numbers().log() + self.top).to(dtype)

    def __getitem__(self, rows: slice) -> ScaledRows:
        return type(self)(self.t[rows], self.top[rows])

    def _numbers(self) -> Tensor:
        return self.t

    def posterior_(self, p: Tensor, share: float) -> Tensor:
        """Two passes."""
        q = self._numbers() * p
        mass = q.sum(-1, keepdim=True).div_(p.sum(-1, keepdim=True))  # exactly 1 where t is
        p.sub_(q.div_(mass))
        if share != 1.0:
            p.mul_(share)
        return torch.where(mass > smallest(p.dtype), -self.top - mass.log(), math.nan)[:, 0]


class MaskRows(ScaledRows):
    """Rows that are g on a set of classes and 0 outside: masks (n, K), and log g."""

    def _numbers(self) -> Tensor:
        return indicator(self.t, self.top.dtype)


class SetRows(Rows):
    """Rows of candidate sets: g of their size inside, 0 outside; masks (..., K) and log g (...)."""

    def __init__(self, masks: Tensor, log_weight: Tensor) -> None:
        self.masks, self.log_weight = masks, log_weight

    def logs(self, dtype: torch.dtype) -> Tensor:
        """log g inside of S, -inf outside."""
        return torch.where(self.masks, self.log_weight.to(dtype)[..., None], -math.inf)

    def log_mass(self, scores: Tensor) -> Tensor:
        """``log g(|S|) + log sum_{z in S} p_z``."""
        return log_set_mass(scores, self.masks) + self.log_weight.to(scores.dtype)

    def prepared(self, dtype: torch.dtype, class_major: bool = False) -> MaskRows:
        """Masks take the room of bytes."""
        return MaskRows(laid_out(self.masks, class_major), self.log_weight.to(dtype).reshape(-1, 1))


class TwoValued(Rows):
    """Rows with d at the label and o elsewhere: uniform noise, complementary labels. No table is built."""

    temporaries = False

    def __init__(self, labels: Tensor, d: float, o: float, num_classes: int) -> None:
        self.labels, self.d, self.o, self.K = labels, d, o, num_classes
        self.index = labels

    def logs(self, dtype: torch.dtype) -> Tensor:
        """log o, and log d at the label."""
        log_d, log_o = (math.log(x) if x > 0 else -math.inf for x in (self.d, self.o))
        out = torch.full((*self.labels.shape, self.K), log_o, dtype=dtype, device=self.labels.device)
        return out.scatter(-1, self.labels[..., None], log_d)

    def log_mass(self, scores: Tensor) -> Tensor:
        """With u = log-odds of class y: ``log (d sigma(u) + o sigma(-u))``, no term of which grows with u."""
        u = log_odds(scores, self.labels)
        # a term of probability zero is left out: logaddexp of -inf has no second derivative
        if self.d == 0:
            return math.log(self.o) + functional.logsigmoid(-u)
        if self.o == 0:
            return functional.logsigmoid(u)
        own, others = functional.logsigmoid(u), functional.logsigmoid(-u)
        return torch.logaddexp(own + math.log(self.d), others + math.log(self.o))

    def all(self, p: Tensor) -> Tensor:
        """``d p + o (1 - p)``; for the likeliest class 1 - p is the sum of the others: it has more digits."""
        most = p.argmax(-1, keepdim=True)
        others = (1 - p).scatter(-1, most, p.scatter(-1, most, 0.0).sum(-1, keepdim=True))
        return self.d * p + self.o * others

    def __getitem__(self, rows: slice) -> TwoValued:
        return TwoValued(self.labels[rows], self.d, self.o, self.K)

    def prepared(self, dtype: torch.dtype, class_major: bool = False) -> TwoValued:
        """As rows."""
        return TwoValued(self.labels.reshape(-1), self.d, self.o, self.K)

    def posterior_(self, p: Tensor, share: float) -> Tensor:
        """``(d - o) p_y / q`` times p, but for ``-(1 - p_y)`` at the label, where ``q = d p_y + o (1 - p_y)``.

        No difference of nearly equal numbers, since 1 - p_y is the sum of the others.
        """
        at = self.labels[:, None]
        own = p.gather(-1, at)
        p.scatter_(-1, at, 0.0)
        others = p.sum(-1, keepdim=True)
        p.scatter_(-1, at, -others)
        mass = (self.d * own).add_(others, alpha=self.o).div_(own + others)
        p.mul_(own.div_(mass).mul_(share * (self.d - self.o)))
        return torch.where(mass > smallest(p.dtype), -mass.log(), math.nan)[:, 0]


def log_odds(scores: Tensor, labels: Tensor) -> Tensor:
    """``log p_y / (1 - p_y)`` for p = softmax(scores), exact when p_y is 0 or 1 to rounding."""
    index = labels[..., None]
    others = scores.scatter(-1, index, -math.inf)
    top = others.amax(-1, keepdim=True).detach()  # taken out first: a common shift must not eat digits
    alone = torch.isneginf(top)  # no other class is possible: u is inf
    behind = (others - top).masked_fill(alone, 0.0)
    return (scores.gather(-1, index) - top)[..., 0] - torch.logsumexp(behind, -1)


@dataclass(frozen=True)
class Pattern:
    """Targets, or rows of T, that are one number at the label and one elsewhere: what a fused kernel has to know.

    Targets are ``other + own`` at the label and `other` elsewhere; rows of T are `own` there and `other` elsewhere.
    With `by_size` labels are candidate sets, and that table has `own` by the set's size (log g for rows of T).
    """

    own: float = 0.0
    other: float = 0.0
    by_size: str | None = None
    set_size: int = 0  # the only size that candidate sets have; 0: any


@dataclass(frozen=True, eq=False)
class Kinds:
    """The weak labels of a reconstruction, sorted into kinds of one target each, up to a renaming of like classes.

    What depends on a target alone, and treats like classes alike, is worked out once for each kind.
    """

    names: Sequence[str]
    targets: Callable[[slice], FloatArray]  # of some kinds (L, K)
    spread: Callable[[FloatArray], FloatArray]  # one value for each kind -> by row of T, or by kind where rows are many
    index: Callable[[Tensor], Tensor] | None  # the kind of each encoded label; None where labels mix targets of kinds
    gaps: slice | None = None  # the kinds that labels with gaps mix, down to an empty one, where these may be passed
    example: bool = False  # each kind has labels of other targets too, and only the likeliest to be unbounded is here

    def __len__(self) -> int:
        return len(self.names)

    def all(self) -> FloatArray:
        """The targets of all kinds (L, K)."""
        return self.targets(slice(0, len(self)))


def listed(columns: FloatArray, names: Sequence[str], index: Callable[[Tensor], Tensor]) -> Kinds:
    """Every label a kind of its own, by its target (M, K)."""
    columns = np.array(columns)  # torch takes no array that may not be written
    return Kinds(names, lambda rows: columns[rows], lambda values: values, index)


def like_classes(alike: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """A class of each value, and which value each class has."""
    _, first, inverse = np.unique(alike, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)
