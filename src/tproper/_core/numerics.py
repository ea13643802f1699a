"""Small numerical tools that the mathematics leans on: the simplex, and roots of monotone functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from .checks import SIMPLEX_TOL, FloatArray
from .tracing import at_hand

LARGEST_UNIT = 5.0  # of a feature, in the middle one's
CONSTANT = 1e-12  # a deviation below this share of the mean is rounding error
ROUNDING = 1e-7  # of a column's mean: what is left where squares are subtracted


def centre(v: Tensor) -> Tensor:
    """v - mean(v): the point of 1^perp that v stands for.

    The largest entry is subtracted first: differences of close numbers are exact, the mean of many scores near 1e5 is
    not. A class whose score is -inf (a mask) is out: the mean is that of the others.
    """
    v = v - v.amax(-1, keepdim=True).detach()
    mean = v.mean(-1, keepdim=True)
    finite = mean.isfinite()
    if at_hand(finite) and bool(finite.all()):
        return v - mean
    here = v > -math.inf
    return v - torch.where(here, v, 0.0).sum(-1, keepdim=True) / here.sum(-1, keepdim=True)


def inner(r: Tensor, x: Tensor) -> Tensor:
    """``<r, x>`` over the last axis, in which an infinite score counts for nothing where r is 0."""
    out = (r * x).sum(-1)
    if is_finite(out):
        return out
    return (r * x.masked_fill((r == 0) & x.isinf(), 0.0)).sum(-1)


def is_finite(values: Tensor) -> bool:
    """Whether all are known to be finite, by their sum: one pass. Overflow, or values out of sight, say no."""
    return at_hand(values) and math.isfinite(float(values.detach().sum()))


def as_tensors(
    tables: Mapping[str, FloatArray], dtype: torch.dtype = torch.float64, device: torch.device | None = None
) -> dict[str, Tensor]:
    """Tables as tensors: copies, since they may be read-only views, which torch cannot share."""
    return {name: torch.tensor(array, dtype=dtype, device=device) for name, array in tables.items()}


def look_up(table: Tensor, index: Tensor) -> Tensor:
    """Rows (or entries) of a table by an index of any shape; unlike ``table[index]``, also under vmap."""
    if table.ndim == 1:
        return torch.nn.functional.embedding(index, table[:, None])[..., 0]
    return torch.nn.functional.embedding(index, table)


def log_mixture(scores: Tensor, log_weights: Tensor) -> Tensor:
    """``log sum_z w_z p_z`` for p = softmax(scores), with an exact -inf and zero gradient where all terms are 0."""
    return log_total(torch.log_softmax(scores, -1) + log_weights)


def log_total(terms: Tensor) -> Tensor:
    """logsumexp over the last axis, with an exact -inf and zero gradient where all terms are -inf."""
    impossible = torch.isneginf(terms).all(-1, keepdim=True)
    # logsumexp of nothing but -inf has a NaN gradient: replace the terms by zeros, then put -inf back.
    terms = terms.masked_fill(impossible, 0.0)
    top = terms.amax(-1, keepdim=True).detach()  # taken out first: the gradient of logsumexp rounds at scores of 1e6
    out = torch.logsumexp(terms - top, -1) + top[..., 0]
    return out.masked_fill(impossible[..., 0], -math.inf)


def safe_log(p: Tensor) -> Tensor:
    """``log p``, -inf with a zero gradient at 0."""
    zero = p <= 0
    return p.masked_fill(zero, 1.0).log().masked_fill(zero, -math.inf)


def project_simplex(q: Tensor) -> Tensor:
    """The nearest point of the probability simplex, ``max(q - tau, 0)`` with tau such that it sums to one.

    Its Jacobian is ``diag(s) - s s^T / sum s`` with s the indicator of the support: the support is decided once, so
    that an entry exactly at the threshold is either in both tau and the result, or in neither. Without a support, where
    q is not finite, p is NaN.
    """
    # Neither p nor its gradient sees a shift of q: without one, q - tau has no digits left at scores of 1e21.
    x = q.float() if q.dtype in (torch.float16, torch.bfloat16) else q  # sums of many entries need the digits
    x = x - x.amax(-1, keepdim=True).detach()
    support = x.detach() > simplex_threshold(x.detach())
    inside = torch.where(support, x, 0.0)
    tau = (inside.sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
    p = torch.where(support, x - tau, 0 * tau.detach())
    return (p - p.detach().clamp_max(0)).to(q.dtype)  # rounding may leave an entry just below zero


def simplex_threshold(q: Tensor, count: Tensor | None = None) -> Tensor:
    """tau (..., 1) with ``sum max(q - tau, 0) = 1``: by sorting, exact. An entry may stand for `count` equal ones."""
    # The largest entry is taken out first, so that scores of 1e6 keep their small differences.
    top = q.amax(-1, keepdim=True).detach()
    ordered, order = torch.sort(q - top, dim=-1, descending=True)
    if count is None:
        total, n = ordered.cumsum(-1), torch.arange(1, q.shape[-1] + 1, dtype=q.dtype, device=q.device)
    else:
        each = count.gather(-1, order)
        total, n = (each * ordered).cumsum(-1), each.cumsum(-1).clamp_min(1)
    candidates = (total - 1) / n
    # tau >= top - 1: entries further down are out, whatever the rounding of their long cumulative sums says
    support = ((ordered > candidates) & (ordered > -1)).sum(-1, keepdim=True).clamp_min(1)
    return candidates.gather(-1, support - 1) + top


def spherical_threshold(v: Tensor) -> Tensor:
    """tau (..., 1) with ``sum max(v - tau, 0)^2 = 1``: a quadratic for each support size, by sorting."""
    top = v.amax(-1, keepdim=True)
    # entries below top - 1 are out, and some are -inf
    ordered = torch.sort((v - top).clamp_min(-2.0), dim=-1, descending=True).values
    n = torch.arange(1, v.shape[-1] + 1, dtype=v.dtype, device=v.device)
    mean = ordered.cumsum(-1) / n
    # sum of squares about the running mean, so that far-away entries do not cancel
    spread = (ordered.square().cumsum(-1) / n - mean.square()).clamp_min(0)
    room = (1 / n - spread).clamp_min(0)
    # the gradient of sqrt at 0 is infinite, but such a support is never the one that is picked
    tau = mean - torch.where(room > 0, room, 1.0).sqrt() * (room > 0)
    support = ((ordered > tau) & (room > 0) & (ordered > -1)).sum(-1, keepdim=True).clamp_min(1)
    return tau.gather(-1, support - 1) + top


def units(mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """What standardised features are divided by: their deviations, and 1 where these are the rounding of a constant."""
    return np.where(deviation <= CONSTANT * np.abs(mean), 1.0, deviation)


def standardised(X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Features (n, d) less their mean, in units of their deviation; the means and the units, for other rows."""
    mean = X.mean(axis=0)
    scale = units(mean, X.std(axis=0))
    return (X - mean) / scale, mean, scale


def limited_deviations(variance: FloatArray, mean: FloatArray) -> FloatArray:
    """Standard deviations of features, none above five times the middle one of those that vary.

    A penalty on raw coefficients depends on units: one column in dollars beside rates would have the others penalised
    away. So a column counts for no more than this. What rounding leaves of a constant column is no unit.
    """
    deviation: FloatArray = np.sqrt(variance)
    varies = deviation[deviation > ROUNDING * np.abs(mean)]
    return np.minimum(deviation, LARGEST_UNIT * np.median(varies)) if len(varies) else deviation


def short_of_one(columns: FloatArray) -> FloatArray:
    """What columns (K, M) lack of the sum 1; nothing where that is rounding: what was made to sum to one stays."""
    off = 1 - columns.sum(axis=0)
    return np.where(np.abs(off) <= 4 * np.finfo(float).eps * np.abs(columns).sum(axis=0), 0.0, off)


def in_simplex(columns: FloatArray) -> np.ndarray:
    """Which vectors (..., K), known to sum to one, have no entry below -1e-12."""
    return columns.min(axis=-1) >= -SIMPLEX_TOL


def centred_solve(H: Tensor, y: Tensor) -> Tensor:
    """The d (..., K) with sum zero and ``H d = y`` up to a constant: Newton's step among vectors of one sum."""
    along, flat = torch.linalg.solve(H, torch.stack([y, torch.ones_like(y)], -1)).unbind(-1)
    return along - flat * (along.sum(-1, keepdim=True) / flat.sum(-1, keepdim=True))


def centred_basis(K: int) -> FloatArray:
    """An orthonormal basis (K, K - 1) of the vectors that sum to zero."""
    return np.linalg.qr(np.eye(K)[:, 1:] - 1 / K)[0]


def critical_k_of(columns: FloatArray) -> FloatArray:
    """Smallest k at which ``log-sum-exp + k/2 ||v||_1 - <r, v>`` is bounded, for targets r (..., K) summing to one.

    Bounded iff some p in the simplex has ``max(r - p) - min(r - p) <= k`` (r lies in the simplex widened by
    the box [-k/2, k/2]^K, modulo constants). The best p cuts r off at tau from above, where
    ``sum max(r - tau, 0) = 1``, so ``k* = tau - min(min r, 0)``: no linear program is needed.
    """
    r = torch.as_tensor(columns, dtype=torch.float64)
    k = simplex_threshold(r)[..., 0] - r.amin(-1).clamp_max(0.0)
    return np.where(in_simplex(columns), 0.0, k.clamp_min(0.0).numpy())


def _middle(low: Tensor, high: Tensor) -> Tensor:
    """The middle of a bracket on the asinh scale, strictly inside it where there is room."""
    mid = torch.sinh(torch.asinh(low) / 2 + torch.asinh(high) / 2)
    return torch.where((mid > low) & (mid < high), mid, low + (high - low) / 2)


def increasing_root(
    f: Callable[[Tensor], tuple[Tensor, Tensor]],
    low: Tensor,
    high: Tensor,
    start: Tensor | None = None,
    tol: float = 2e-15,
) -> Tensor:
    """Roots of elementwise increasing functions with f(low) <= 0 <= f(high), to rounding; `start` is a guess.

    `f` returns value and slope. Newton's steps as long as each is at most half the last and stays inside the bracket,
    else bisection, so that convergence is certain whatever the slope says (kinks and jumps included). Bisection halves
    the bracket on the asinh scale: brackets reach 1e60 (squeezing with alpha near 1), and their orders of magnitude
    are what has to be searched. A small step proves nothing where the slope is infinite: it is made a little too long,
    and the root counts as found when that has changed the sign of f. All elements move together. When nested, each
    level needs a looser `tol` than the one inside, whose rounding it sees.
    """
    x = _middle(low, high) if start is None else torch.minimum(torch.maximum(start, low), high)
    last = high - low
    for _ in range(400):
        value, slope = f(x)
        low, high = torch.where(value <= 0, x, low), torch.where(value >= 0, x, high)
        step, width = value / slope, high - low
        newton = x - step
        close = tol * torch.maximum(high, -low)  # of their absolute values: low <= high
        done = (width <= 4 * close) | value.isnan()
        if bool(done.all()):
            break
        size = step.abs()
        small = size <= close
        moved = torch.where(small, newton - 2 * torch.copysign(close, value), newton)
        usable = (moved > low) & (moved < high) & (size <= last / 2)
        last = torch.where(usable, torch.where(small, 0.0, size), width)
        if not bool((usable | done).all()):
            moved = torch.where(usable, moved, _middle(low, high))
        x = torch.where(done, x, moved)
    answer = torch.where(newton.isfinite(), newton, x)
    return torch.minimum(torch.maximum(answer, low), high)


def entmax(v: Tensor, a: float) -> Tensor:
    """``p = ((a-1)(v - lambda))_+^(1/(a-1))`` with lambda such that p sums to one.

    For a = 2 and a = 3/2 lambda solves a linear or a quadratic equation for each size of the support, and is found by
    sorting (sparsemax, Martins and Astudillo 2016; Peters, Niculae and Martins 2019); else it is a root.
    """
    if a == 2:
        return project_simplex(v.detach())
    if a != 1.5:
        return entmax_by_root(v, a)
    x = v.detach().double()
    x = (x - x.amax(-1, keepdim=True)) / 2
    p = torch.relu(x - spherical_threshold(x)).square()
    return (p / p.sum(-1, keepdim=True)).to(v.dtype)


def entmax_by_root(v: Tensor, a: float) -> Tensor:
    """`entmax` for any a: a bracketed root in lambda, then renormalised.

    For a > 2 the root is sought in the smallest positive p instead, see `_sparse_entmax`.
    """
    x = v.detach().double()
    top = x.amax(-1, keepdim=True)
    x = x - top
    K = x.shape[-1]
    if a > 2:
        return _sparse_entmax(x, a).to(v.dtype)

    def shares(lam: Tensor) -> Tensor:
        return ((a - 1) * (x - lam)).clamp_min(0).pow(1 / (a - 1))

    def missing(lam: Tensor) -> tuple[Tensor, Tensor]:
        p = shares(lam)
        slope = torch.where(p > 0, p.pow(2 - a), torch.zeros_like(p))
        return 1 - p.sum(-1, keepdim=True), slope.sum(-1, keepdim=True)

    ends = sorted((-1 / (a - 1), -(K ** (1 - a)) / (a - 1)))
    zero = torch.zeros_like(top)
    p = shares(increasing_root(missing, zero + ends[0], zero + ends[1]))
    return (p / p.sum(-1, keepdim=True)).to(v.dtype)


def _sparse_entmax(x: Tensor, a: float) -> Tensor:
    """The same for a > 2, where p near zero would need more digits of lambda than there are.

    With s the p of the last class in the support, at score x_s, ``p_z = (s^(a-1) + (a-1)(x_z - x_s))_+^(1/(a-1))``:
    sums of positive terms, which keep their digits. The support is the longest for which s = 0 leaves room, since
    the sum of p grows with every class that is taken in.
    """
    ordered = torch.sort(x, dim=-1, descending=True).values

    def shares(s: Tensor, reference: Tensor) -> Tensor:
        return (s.pow(a - 1) + (a - 1) * (x - reference)).clamp_min(0).pow(1 / (a - 1))

    # binary search for the last place of the ordered scores that leaves room; the first always does
    zero = torch.zeros_like(x[..., :1])
    low = torch.zeros_like(zero, dtype=torch.long)
    high = torch.full_like(low, x.shape[-1])
    for _ in range(x.shape[-1].bit_length()):
        middle = (low + high) // 2
        at = ordered.gather(-1, middle.clamp_max(x.shape[-1] - 1))
        room = (shares(zero, at).sum(-1, keepdim=True) < 1) & (middle < x.shape[-1])
        low, high = torch.where(room, middle, low), torch.where(room, high, middle)
    reference = ordered.gather(-1, low)

    def excess(s: Tensor) -> tuple[Tensor, Tensor]:
        p = shares(s, reference)
        slope = torch.where(p > 0, (s / torch.where(p > 0, p, 1.0)).pow(a - 2), torch.zeros_like(p))
        return p.sum(-1, keepdim=True) - 1, slope.sum(-1, keepdim=True)

    p = shares(increasing_root(excess, zero, zero + 1), reference)
    return p / p.sum(-1, keepdim=True)
