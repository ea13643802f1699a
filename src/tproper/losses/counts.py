"""Bags of which the number of each class is known, or that some member is positive: their exact likelihood.

The members of a bag are independent given their features, with class probabilities p_i. The number of members of class
z is a sum of independent Bernoulli variables; its distribution is the convolution of theirs, made member by member,

    f_j[k] = (1 - p_jz) f_(j-1)[k] + p_jz f_(j-1)[k-1],

where only k up to the known count c matter (or, where c is more than half, the members of other classes are counted).
What underflows on the way is below the smallest float, so the result is exact where it is not small itself. Where it
is, the members are tilted first: with ``p_i(t) = p_i e^t / (q_i + p_i e^t)`` and t such that c is the mean number,

    P(c) = P_t(c) e^(-t c) prod_i (q_i + p_i e^t),

and P_t(c) is about ``1 / sqrt(m)`` however unlikely c is. The gradient comes from the same recursion run backwards: no
distribution is ever divided by a member's.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.autograd.function import once_differentiable

from .._core import checks, log_total
from ..errors import InputError
from .base import JointLoss, Reduction, reduce

MOST_STATES = 1 << 12  # of the counts of all classes together
SMALL = 1e-200  # probabilities below which members are tilted
ENTRIES = 1 << 22  # of the recursion at a time
STATES = 1 << 24  # of that of all classes together
EDGES = (3, 6, 9, 13, 20, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # counts up to which are treated together
Likelihood = Literal["auto", "joint", "marginal"]


class BagCountLoss(JointLoss):
    """Bags of which it is known how many members each class has: ``-log P(number of members of each class)``.

    Called as ``loss(scores, bags, counts)``: scores (n, K) of all members, the bag (n,) of each (0 .. B-1), and the
    counts (B, K), which sum to the bags' sizes. It is the log score of the counts given the features, so its mean is
    least at the members' class probabilities. Bounded from below by 0. A mean over bags is divided by their members.

    Parameters
    ----------
    num_classes : int
        K.
    likelihood : "auto", "joint" or "marginal"
        "joint": the probability of all counts together, by a recursion over the ``prod (c_z + 1)`` states below them,
        which is exact and grows quickly with the bag (at most 4,096 states). "marginal": the sum over the classes of
        ``-log P(count of class z)``, each exact at any size: a composite likelihood, proper as a sum of log scores,
        which leaves out what one class's count says of the others. "auto": joint for the bags that allow it, marginal
        for the rest. For two classes one count is all, and all three are its exact likelihood.
    reduction : "mean", "sum" or "none"
        How the losses of the bags become one number; "none": one loss for each bag.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> loss = tp.BagCountLoss(2, reduction="none")
    >>> loss(torch.zeros(3, 2), [0, 0, 0], [[1, 2]]).exp().round(decimals=4)  # 1 / (3/8)
    tensor([2.6667])
    """

    def __init__(self, num_classes: int, likelihood: Likelihood = "auto", reduction: Reduction = "mean") -> None:
        super().__init__(checks.integer(num_classes, "num_classes", 2), reduction)
        checks.choice(likelihood, "likelihood", ("auto", "joint", "marginal"))
        self.likelihood = likelihood

    def forward(self, scores: Tensor, bags: ArrayLike | Tensor, counts: ArrayLike | Tensor) -> Tensor:
        """The reduced loss; the mean is per member."""
        v = checks.scores(scores, self.num_classes)
        index = checks.index_labels(bags, len(v), "bags", v.device)
        c = _counts(counts, self.num_classes, v.device)
        sizes = torch.bincount(index, minlength=len(c))
        if len(index) != len(v) or len(sizes) != len(c) or not torch.equal(sizes, c.sum(-1)):
            raise InputError(
                "counts: expected one row for each bag, which sums to its number of members, got others: "
                f"{len(c)} rows, {int(c.sum())} counted, {len(v)} members"
            )
        losses = self._losses(v, index, c, sizes).to(v.dtype)
        if self.reduction == "mean":
            return losses.sum() / len(v)
        return reduce(losses, self.reduction)

    def _losses(self, v: Tensor, index: Tensor, c: Tensor, sizes: Tensor) -> Tensor:
        """One loss for each bag, in float64."""
        joint = self._joint(c)
        out = torch.zeros(len(c), dtype=torch.float64, device=v.device)
        for group, fast in ((~joint, _Marginals.apply), (joint, self._together)):
            if not bool(group.any()):
                continue
            every = bool(group.all())
            bags = slice(None) if every else group.nonzero()[:, 0]
            rows, number = (v, index) if every else _of_bags(v, index, group)
            out = out.index_put(
                (torch.arange(len(c), device=v.device)[bags],), fast(rows, number, c[bags], sizes[bags])
            )
        small = ~(out.detach() <= -math.log(SMALL))  # probabilities that a float hardly holds
        if bool(small.any()):
            rows, number = _of_bags(v, index, small)
            again = self._careful(rows, number, c[small], sizes[small], joint[small])
            out = out.index_put((small.nonzero()[:, 0],), again)
        return out

    def _together(self, v: Tensor, index: Tensor, c: Tensor, sizes: Tensor) -> Tensor:
        place, filled = _places(index, sizes)
        p = torch.softmax(v.double(), -1)
        inside = p.new_zeros(*filled.shape, self.num_classes).index_put((place, index), p)
        return -log_joint(inside, filled, c)

    def _careful(self, v: Tensor, index: Tensor, c: Tensor, sizes: Tensor, joint: Tensor) -> Tensor:
        """From logarithms, and tilted."""
        log_p = torch.log_softmax(v.double(), -1)
        K = self.num_classes
        log_q = torch.stack([_without(log_p, z).logsumexp(-1) for z in range(K)], -1)
        place, filled = _places(index, sizes)
        shape = (*filled.shape, K)
        own = log_p.new_full(shape, -torch.inf).index_put((place, index), log_p)
        other = log_p.new_zeros(shape).index_put((place, index), log_q)
        if K == 2:
            own, other, c = own[..., :1], other[..., :1], c[:, :1]
        many, count = _fewer(c, sizes)
        swap = many & filled[..., None]
        own, other = torch.where(swap, other, own), torch.where(swap, own, other)
        out = -_tilted(own.flatten(1), other.flatten(1), count.flatten()).reshape(len(c), -1).sum(-1)
        for b in joint.nonzero()[:, 0].tolist():
            out = out.index_put((torch.tensor([b], device=v.device),), -_joint_in_logarithms(log_p[index == b], c[b]))
        return out

    def _joint(self, c: Tensor) -> Tensor:
        """Which bags' counts are taken together."""
        none = torch.zeros(len(c), dtype=torch.bool, device=c.device)
        if self.num_classes == 2 or self.likelihood == "marginal":
            return none
        allowed = (c + 1).double().prod(-1) <= MOST_STATES
        if self.likelihood == "joint" and not bool(allowed.all()):
            b = int((~allowed).nonzero()[0])
            raise InputError(
                f"likelihood: expected 'marginal' or 'auto' for counts with more than {MOST_STATES:,} states below "
                f"them, got 'joint' for {c[b].tolist()} in bag {b}"
            )
        return allowed


class AtLeastOneLoss(JointLoss):
    """Multiple instances: a bag is positive if some member is, with probability ``1 - prod_i (1 - p_i)``.

    Called as ``loss(scores, bags, positive)``: scores (n, 2), class 1 the positive one, the bag (n,) of each member,
    and which bags (B,) are positive. It is the log score of the bag's label, hence proper, and bounded by 0.

    Parameters
    ----------
    reduction : "mean", "sum" or "none"
        How the losses of the bags become one number.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> loss = tp.AtLeastOneLoss(reduction="none")
    >>> loss(torch.zeros(3, 2), [0, 0, 1], [True, False]).round(decimals=4)  # -log 3/4, -log 1/2
    tensor([0.2877, 0.6931])
    """

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__(2, reduction)

    def forward(self, scores: Tensor, bags: ArrayLike | Tensor, positive: ArrayLike | Tensor) -> Tensor:
        """The reduced loss, a mean over bags."""
        v = checks.scores(scores, 2)
        index = checks.index_labels(bags, len(v), "bags", v.device)
        held = checks.array(positive, "positive")
        if held.ndim != 1 or held.dtype.kind not in "biuf" or not np.isin(held, (0, 1)).all():
            raise InputError(f"positive: expected a boolean for each bag, got {checks.short(positive)}")
        given = torch.as_tensor(held, device=v.device)
        sizes = torch.bincount(index, minlength=len(given))
        if len(index) != len(v) or len(sizes) != len(given) or bool((sizes == 0).any()):
            raise InputError(f"positive: expected one for each of {len(sizes)} bags with members, got {len(given)}")
        gap = v[:, 1] - v[:, 0]
        none = torch.zeros(len(given), dtype=v.dtype, device=v.device).index_add(
            0, index, torch.nn.functional.logsigmoid(-gap)
        )
        # log(1 - e^none): by whichever of expm1 and log1p keeps its digits
        near = none > -math.log(2)
        some = torch.where(
            near,
            (-torch.expm1(torch.where(near, none, -1.0))).clamp_min(torch.finfo(v.dtype).tiny).log(),
            torch.log1p(-torch.where(near, -1.0, none).exp()),
        )
        return reduce(-torch.where(given.bool(), some, none), self.reduction)


def _counts(counts: ArrayLike | Tensor, K: int, device: torch.device) -> Tensor:
    c = checks.array(counts, "counts")
    if c.ndim != 2 or c.shape[1] != K or c.dtype.kind not in "iu" or (c < 0).any():
        raise InputError(f"counts: expected whole numbers >= 0 of shape (bags, {K}), got {checks.short(counts)}")
    return torch.as_tensor(c, device=device).long()


def _of_bags(v: Tensor, index: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """The members of some bags, and the number of each one's bag among these."""
    number = torch.cumsum(group.long(), 0) - 1
    rows = group[index]
    return v[rows], number[index[rows]]


def _places(index: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each member in its bag (n,), and which places are filled (m, B)."""
    filled = torch.arange(int(sizes.max()), device=index.device)[:, None] < sizes
    first = sizes.cumsum(0) - sizes
    if bool((index[1:] >= index[:-1]).all()):
        return torch.arange(len(index), device=index.device) - first[index], filled
    order = torch.argsort(index, stable=True)
    place = torch.empty_like(index)
    place[order] = torch.arange(len(index), device=index.device) - first[index[order]]
    return place, filled


def _fewer(c: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Where a class has more than half of a bag, and the number of those who are (or are not) of it, at most half."""
    many = 2 * c > sizes[:, None]
    return many, torch.where(many, sizes[:, None] - c, c)


def _others(p: Tensor) -> Tensor:
    """``1 - p_z``; of a class that is nearly certain the sum of the others, which keeps its digits."""
    if float(p.amax()) < 1 - 1e-3:
        return 1 - p
    most = p.argmax(-1, keepdim=True)
    return (1 - p).scatter(-1, most, p.scatter(-1, most, 0.0).sum(-1, keepdim=True))


def _without(x: Tensor, z: int) -> Tensor:
    """All columns but one."""
    return torch.cat([x[:, :z], x[:, z + 1 :]], -1)


# Counts of one class.


class _Marginals(torch.autograd.Function):
    """``-sum_z log P(count of class z)`` of bags (B,), made with its gradient by the scores."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, index: Tensor, c: Tensor, sizes: Tensor) -> Tensor:
        p = torch.softmax(v.detach().double(), -1)
        q = _others(p)
        K, B = p.shape[1], len(c)
        place, filled = _places(index, sizes)
        used = 1 if K == 2 else K
        many, count = _fewer(c[:, :used], sizes)
        own, other = p[:, :used], q[:, :used]
        if bool(many.any()):
            swap = many[index]
            own, other = torch.where(swap, other, own), torch.where(swap, own, other)
        shape = (len(filled), B, used)
        a = p.new_zeros(shape).index_put_((place, index), own).flatten(1)
        b = p.new_ones(shape).index_put_((place, index), other).flatten(1)
        log_p, slope = _log_counts(a, b, count.flatten(), v.requires_grad)
        if slope is not None:
            by_p = slope.reshape(shape)[place, index] * torch.where(many, 1.0, -1.0)[index]  # of the loss, q = 1 - p
            if K == 2:
                by_v = by_p * p[:, :1] * q[:, :1]
                gradient = torch.cat([by_v, -by_v], 1)
            else:
                gradient = by_p.mul_(p)
                gradient = torch.addcmul(gradient, p, gradient.sum(-1, keepdim=True), value=-1.0)
            ctx.save_for_backward(gradient.to(v.dtype), index)
        return -log_p.reshape(B, used).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Any:
        gradient, index = ctx.saved_tensors
        return gradient * upstream.to(gradient.dtype)[index, None], None, None, None


class _Count(torch.autograd.Function):
    """``log P(sum of Bernoulli(p_i) = c)`` (N,) for p, q = 1 - p (m, N), made with its gradient by p."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor, counts: Tensor) -> Tensor:
        out, slope = _log_counts(p.detach(), q.detach(), counts, p.requires_grad)
        if slope is not None:
            ctx.save_for_backward(slope)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Any:
        return ctx.saved_tensors[0] * upstream, None, None


def _tilted(log_p: Tensor, log_q: Tensor, counts: Tensor) -> Tensor:
    """The same from log p and log q, however small P is."""
    odds = log_p - log_q
    with torch.no_grad():
        finite = odds.isfinite()
        room = 50.0 + math.log(len(odds) + 1)
        low = -torch.where(finite, odds, -1e9).amax(0) - room
        high = -torch.where(finite, odds, 1e9).amin(0) + room
        for _ in range(200):
            t = (low + high) / 2
            above = torch.sigmoid(odds + t).sum(0) > counts
            low, high = torch.where(above, low, t), torch.where(above, t, high)
            if float((high - low).amax()) < 1e-3:
                break
        t = torch.where(finite.any(0), (low + high) / 2, 0.0)
    tilted = odds + t
    total = torch.logaddexp(log_q, log_p + t).sum(0)
    none = counts == 0
    p, q = torch.sigmoid(tilted), torch.sigmoid(-tilted)
    log_c = _Count.apply(p, q, counts) + total - t * counts
    return torch.where(none, torch.where(none, log_q, 0.0).sum(0), log_c)


def _log_counts(p: Tensor, q: Tensor, counts: Tensor, sloped: bool) -> tuple[Tensor, Tensor | None]:
    """log P (N,), -inf where P is below `SMALL`, and its gradient by p (m, N), q being 1 - p; padding has p = 0."""
    m, N = p.shape
    order = torch.argsort(counts)
    p, q, counts = p.index_select(1, order), q.index_select(1, order), counts[order]
    # rows with like counts together, so that none is padded by much; some at a time
    edges = torch.searchsorted(counts, torch.tensor(EDGES, device=p.device), right=True).unique().tolist()
    pieces = []
    for first, last in pairwise(sorted({0, *edges, N})):
        width = int(counts[last - 1]) + 2
        step = max(1, ENTRIES // ((m + 1) * width))
        pieces += [(i, min(i + step, last), width) for i in range(first, last, step)]
    room = p.new_empty(max((m + 1) * w * (j - i) for i, j, w in pieces))
    value, slope = p.new_empty(N), p.new_zeros(m, N) if sloped else None
    for i, j, width in pieces:
        part = slice(i, j)
        f = room[: (m + 1) * width * (j - i)].view(m + 1, width, j - i)
        a, b, c = p[:, part], q[:, part], counts[part]
        _convolve(f, a, b)
        value[part] = f[m, 1:].gather(0, c[None])[0]
        if slope is not None:
            _slopes(f, a, b, c, slope[:, part])
    out = torch.empty_like(value).index_copy_(0, order, torch.where(value > SMALL, value, 0.0).log())
    return out, None if slope is None else torch.empty_like(slope).index_copy_(1, order, slope)


def _convolve(f: Tensor, p: Tensor, q: Tensor) -> None:
    """Fills f (m + 1, 1 + width, n) with the recursion, after a row of zeros."""
    f[:, 0].zero_()  # f_j[-1]
    f[0].zero_()
    f[0, 1] = 1.0
    for now, nxt, a, b in zip(f[:-1].unbind(), f[1:].unbind(), p.unbind(), q.unbind(), strict=True):
        torch.mul(now[1:], b, out=nxt[1:])
        nxt[1:].addcmul_(now[:-1], a)


def _slopes(f: Tensor, p: Tensor, q: Tensor, counts: Tensor, out: Tensor) -> None:
    """The gradient of log P by p into out (m, n), q being 1 - p: the recursion backwards."""
    m = len(p)
    value = f[m, 1:].gather(0, counts[None])
    b = torch.zeros_like(f[m, 1:]).scatter_(0, counts[None], torch.where(value > SMALL, 1.0 / value, 0.0))
    nxt, change = torch.empty_like(b), torch.empty_like(b)
    for j in range(m - 1, -1, -1):
        torch.sub(f[j, :-1], f[j, 1:], out=change)
        out[j] = change.mul_(b).sum(0)
        if j:
            torch.mul(b, q[j], out=nxt)
            nxt[:-1].addcmul_(b[1:], p[j])
            b, nxt = nxt, b


def _joint_in_logarithms(log_p: Tensor, counts: Tensor) -> Tensor:
    """``log P(counts)`` of one bag from log p (m, K), where it is too small for a float."""
    before, ok = _moves(counts[None], int((counts + 1).prod()))
    f = log_p.new_full((before.shape[-1],), -torch.inf)
    f = torch.where(torch.arange(len(f), device=f.device) == 0, 0.0, f)
    for own in log_p:
        f = log_total(torch.where(ok[0], f[before[0]] + own[:, None], -torch.inf).T)
    return f[-1]


# Counts of all classes together.


def log_joint(p: Tensor, members: Tensor, counts: Tensor) -> Tensor:
    """``log P(counts)`` (B,) of bags with p (m, B, K), which slots `members` (m, B) are filled, and counts (B, K)."""
    out = p.new_zeros(len(counts))
    states = (counts + 1).prod(-1)
    bucket = torch.ceil(torch.log2(states.double())).long()
    for b in torch.unique(bucket).tolist():
        rows = (bucket == b).nonzero()[:, 0]
        S = int(states[rows].max())
        step = max(1, STATES // ((len(p) + 1) * S))
        for part in rows.split(step):
            out = out.index_put((part,), _Joint.apply(p[:, part], members[:, part], counts[part], S))
    return out


def _moves(counts: Tensor, S: int) -> tuple[Tensor, Tensor]:
    """For every state (a number in mixed radix, one digit for each class) the state with one member of class z less.

    Returns its number (B, K, S), and whether there is one.
    """
    strides = torch.cat([torch.ones_like(counts[:, :1]), (counts + 1)[:, :-1].cumprod(-1)], -1)  # (B, K)
    s = torch.arange(S, device=counts.device)
    digit = (s // strides[..., None]) % (counts + 1)[..., None]
    inside = s < (counts + 1).prod(-1)[:, None, None]
    ok = (digit > 0) & inside
    return torch.where(ok, s - strides[..., None], 0), ok


class _Joint(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, members: Tensor, counts: Tensor, S: int) -> Tensor:
        m, B, K = p.shape
        before, ok = _moves(counts, S)
        f = p.new_zeros(m + 1, B, S)
        f[0, :, 0] = 1.0
        tops = p.new_ones(m, B)
        scale = p.new_zeros(B)
        for j in range(m):
            total = p.new_zeros(B, S)
            for z in range(K):
                total += p[j, :, z, None] * torch.where(ok[:, z], f[j].gather(1, before[:, z]), 0.0)
            total = torch.where(members[j, :, None], total, f[j])
            top = total.amax(1)
            top = torch.where(top > 0, top, 1.0)
            f[j + 1] = total / top[:, None]
            tops[j] = top
            scale += top.log()
        last = ((counts + 1).prod(-1) - 1)[:, None]
        ctx.save_for_backward(p, members, f, tops, before, ok, last)
        return f[m].gather(1, last)[:, 0].log() + scale

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        p, members, f, tops, before, ok, last = ctx.saved_tensors
        m, _, K = p.shape
        dp = torch.zeros_like(p)
        value = f[m].gather(1, last)
        b = torch.zeros_like(f[m]).scatter_(1, last, torch.where(value > 0, upstream[:, None] / value, 0.0))
        for j in range(m - 1, -1, -1):
            b = b / tops[j][:, None]
            nxt = torch.zeros_like(b)
            for z in range(K):
                given = torch.where(ok[:, z], b, 0.0)
                dp[j, :, z] = (given * f[j].gather(1, before[:, z])).sum(1)
                nxt.scatter_add_(1, before[:, z], given * p[j, :, z, None])
            filled = members[j]
            dp[j] = torch.where(filled[:, None], dp[j], 0.0)
            b = torch.where(filled[:, None], nxt, b)
        return dp, None, None, None
