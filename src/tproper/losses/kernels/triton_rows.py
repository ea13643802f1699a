"""One Triton kernel for the structured losses: scores read once, losses and gradient written once.

A program owns a few rows. It walks over a row's classes in blocks (online softmax), knows the row's loss at the end,
and walks back over the same classes, last block first, while they are still in the cache, to write the gradient.
What device memory sees is one read of the scores and one write of the gradient; no row statistics, no targets and
no second softmax are kept in between. All arithmetic is float32, whatever the scores' dtype.

Backward, with a row's target ``r = b 1 + c ind`` (ind: the label's class, or its candidate set), the squeezing
exponent alpha and u = v - mean(v)::

    loss = logsumexp(v) - <r, v> + k/2 sum |u|^alpha
    gradient = softmax(v) - r + k alpha/2 (|u|^(alpha-1) sgn u - its mean)

Forward, with u the log-odds of ind, ``u = logsumexp_in(v) - logsumexp_out(v)``::

    index labels     loss = log(1 + e^u) - log(d e^u + o)      masks   loss = log(1 + e^-u) - log g(|S|)
    gradient = loss'(u) * (softmax over ind, minus softmax over the others)

which keeps every difference of probabilities in a product, so nothing cancels when p_y tends to 0 or 1.

This module needs Triton; `dispatch` imports it only when a loss is about to run there.
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .registry import Plan

#: Classes handled at a time.
WIDEST_BLOCK = 4096


@triton.jit
def _log1p(t):
    """log(1 + t), to rounding also where 1 + t rounds to 1."""
    w = 1.0 + t
    return tl.where(w == 1.0, t, tl.log(w) * (t / tl.where(w == 1.0, 1.0, w - 1.0)))


@triton.jit
def _finite(m):
    """A maximum over nothing, -inf, as 0: subtracting it must not make NaN."""
    return tl.where(m == float("-inf"), 0.0, m)


@triton.jit
def _signed_power(u, exponent):
    """|u| ** exponent times the sign of u, 0 at u = 0."""
    size = tl.abs(u)
    power = tl.exp2(exponent * tl.log2(tl.where(size == 0.0, 1.0, size)))
    return tl.where(size == 0.0, 0.0, tl.where(u < 0.0, -power, power))


@triton.jit
def _inside(labels, y, base, col, ok, MASKED: tl.constexpr):
    """Whether a class is the label, or in the label's candidate set."""
    if MASKED:
        ind = tl.load(labels + base[:, None] + col[None, :], mask=ok, other=0) != 0
    else:
        ind = col[None, :] == y[:, None]
    return ind


@triton.jit
def _uniform_forward(u, d, o):
    """``log(1 + e^u) - log(d e^u + o)`` and its slope ``(o - d) e^u / ((1 + e^u)(d e^u + o))``."""
    t = tl.exp(-tl.abs(u))
    up = u >= 0.0
    major = tl.where(up, d, o)  # the term that survives as |u| grows, unless it is zero
    minor = tl.where(up, o, d)
    gone = major == 0.0
    mix = tl.where(gone, minor, major + minor * t)
    loss = _log1p(t) - tl.log(mix) + tl.where(gone, tl.abs(u), 0.0)
    slope = (o - d) * tl.where(gone, 1.0, t) / ((1.0 + t) * mix)
    return loss, slope


@triton.jit
def _set_forward(u):
    """``log(1 + e^-u)`` and its slope."""
    t = tl.exp(-tl.abs(u))
    loss = _log1p(t) + tl.where(u < 0.0, -u, 0.0)
    return loss, -tl.where(u >= 0.0, t, 1.0) / (1.0 + t)


@triton.jit
def _rows(
    scores, labels, by_size, upstream, weights, losses, gradient, fault, set_size,
    n, scale, c, b, k, alpha,
    K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    FORWARD: tl.constexpr, MASKED: tl.constexpr, SQUEEZE: tl.constexpr, MEAN: tl.constexpr,
    LOSS: tl.constexpr, GRADIENT: tl.constexpr, WEIGHTED: tl.constexpr, UPSTREAM: tl.constexpr,
    UNLESS_ONE: tl.constexpr, CHECK: tl.constexpr,
):  # fmt: skip
    """Losses and gradient of ROWS rows.

    FORWARD: (c, b) are (d, o) of T = o + (d - o) I; else the target's two numbers. MASKED: labels are masks, and
    `by_size` holds what depends on the set's size: c, or log g. SQUEEZE: 0 none, 1 alpha = 2, 2 any alpha. MEAN: the
    target has a constant part, b != 0. UPSTREAM: 0 none, 1 one number, 2 one per row. UNLESS_ONE: the gradient in
    memory was made for an upstream of one; do nothing if that is what arrived. CHECK: a row whose label is invalid gets
    a loss of NaN and no gradient, and is written to `fault`: one more than its number, then its label or the size
    of its set, which is `set_size` if that is not 0.
    """
    if UNLESS_ONE and tl.load(upstream) == 1.0:
        return
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = row < n
    row = tl.minimum(row, n - 1)  # rows past the end repeat the last one and are not stored
    base = row * K
    blocks: tl.constexpr = (K + BLOCK - 1) // BLOCK
    offset = tl.arange(0, BLOCK)

    y = row
    valid = live
    if not MASKED:
        y = tl.load(labels + row)
        if CHECK:
            valid = (y >= 0) & (y < K)
            y = tl.where(valid, y, 0)
    # every sum is taken relative to an anchor, so that scores of 1e4 keep their small differences
    if FORWARD or (MASKED and SQUEEZE == 0):
        anchor = tl.load(scores + base).to(tl.float32)
    elif SQUEEZE == 0:
        anchor = tl.load(scores + base + y).to(tl.float32)
    else:
        x = tl.load(scores + base[:, None] + offset[None, :], mask=(offset < K)[None, :], other=0.0).to(tl.float32)
        anchor = tl.sum(x, 1) / (K if blocks == 1 else BLOCK)

    zero = tl.zeros((ROWS,), tl.float32)
    m_in = zero - float("inf")
    m_out = zero - float("inf")
    s_in = zero
    s_out = zero
    total = zero
    square = zero
    chosen = zero
    size = zero
    for i in range(blocks):
        col = i * BLOCK + offset
        ok = (col < K)[None, :]
        x = tl.load(
            scores + base[:, None] + col[None, :], mask=ok, other=float("-inf"), eviction_policy="evict_last"
        ).to(tl.float32)
        if FORWARD:
            ind = _inside(labels, y, base, col, ok, MASKED)
            new_out = tl.maximum(m_out, tl.max(tl.where(ind, float("-inf"), x), 1))
            if MASKED:
                new_in = tl.maximum(m_in, tl.max(tl.where(ind, x, float("-inf")), 1))
                e = tl.exp(x - tl.where(ind, _finite(new_in)[:, None], _finite(new_out)[:, None]))
                s_in = s_in * tl.exp(m_in - _finite(new_in)) + tl.sum(tl.where(ind, e, 0.0), 1)
                m_in = new_in
                size += tl.sum(tl.where(ind, 1.0, 0.0), 1)
            else:
                e = tl.exp(x - _finite(new_out)[:, None])
            s_out = s_out * tl.exp(m_out - _finite(new_out)) + tl.sum(tl.where(ind, 0.0, e), 1)
            m_out = new_out
        else:
            new_out = tl.maximum(m_out, tl.max(x, 1))
            s_out = s_out * tl.exp(m_out - _finite(new_out)) + tl.sum(tl.exp(x - _finite(new_out)[:, None]), 1)
            m_out = new_out
            if MEAN or MASKED or SQUEEZE > 0:
                away = tl.where(ok, x - anchor[:, None], 0.0)
                total += tl.sum(away, 1)
                if SQUEEZE == 1:
                    square += tl.sum(away * away, 1)
                if MASKED:
                    ind = _inside(labels, y, base, col, ok, MASKED)
                    chosen += tl.sum(tl.where(ind, away, 0.0), 1)
                    size += tl.sum(tl.where(ind, 1.0, 0.0), 1)

    log_in = zero
    log_out = tl.log(s_out)
    m_out = _finite(m_out)
    slope = zero
    mean = zero
    tilt = zero
    c_row = zero + c
    b_row = zero + b
    if FORWARD:
        if MASKED:
            log_in = tl.log(s_in)
            m_in = _finite(m_in)
            loss, slope = _set_forward((m_in - m_out) + (log_in - log_out))
            loss -= tl.load(by_size + size.to(tl.int32)).to(tl.float32)
        else:
            m_in = tl.load(scores + base + y).to(tl.float32)
            loss, slope = _uniform_forward((m_in - m_out) - log_out, c, b)
    else:
        loss = (m_out - anchor) + log_out
        if MASKED:
            exact = tl.load(by_size + size.to(tl.int32))
            c_row = exact.to(tl.float32)
            b_row = ((1.0 - exact * size) / K).to(tl.float32)
            loss -= c_row * chosen + b_row * total
        elif SQUEEZE > 0:
            loss -= c * (tl.load(scores + base + y).to(tl.float32) - anchor) + b * total
        elif MEAN:
            loss -= b * total  # the anchor is the label's own score
        if SQUEEZE > 0:
            mean = total / K  # relative to the anchor, too
        if SQUEEZE == 1:
            loss += 0.5 * k * (square - total * total / K)
        if SQUEEZE == 2:
            power = zero
            for i in range(blocks):
                col = i * BLOCK + offset
                ok = (col < K)[None, :]
                x = tl.load(scores + base[:, None] + col[None, :], mask=ok, other=0.0).to(tl.float32)
                u = tl.where(ok, (x - anchor[:, None]) - mean[:, None], 0.0)
                bent = _signed_power(u, alpha - 1.0)
                power += tl.sum(bent * u, 1)
                tilt += tl.sum(bent, 1)
            tilt = tilt / K
            loss += 0.5 * k * power
    if CHECK:
        if MASKED:
            wanted = zero + set_size
            valid = (size > 0) & ((size == wanted) | (wanted == 0))
        loss = tl.where(valid, loss, float("nan"))
        bad = live & ~valid
        if MASKED:
            tl.store(fault + 1 + tl.zeros_like(row), size.to(tl.int64), mask=bad)
        else:
            tl.store(fault + 1 + tl.zeros_like(row), tl.load(labels + row, mask=bad, other=0), mask=bad)
        tl.store(fault + tl.zeros_like(row), row + 1, mask=bad)
    if LOSS:
        tl.store(losses + row, loss, mask=live)

    if GRADIENT:
        factor = zero + scale
        if WEIGHTED:
            factor *= tl.load(weights + row).to(tl.float32)
        if UPSTREAM == 1:
            factor *= tl.load(upstream).to(tl.float32)
        if UPSTREAM == 2:
            factor *= tl.load(upstream + row).to(tl.float32)
        for i in range(blocks):
            col = (blocks - 1 - i) * BLOCK + offset  # last block first: it is the likeliest to be cached
            ok = (col < K)[None, :]
            x = tl.load(scores + base[:, None] + col[None, :], mask=ok, other=0.0, eviction_policy="evict_first").to(
                tl.float32
            )
            ind = _inside(labels, y, base, col, ok, MASKED)
            if FORWARD:
                shift = tl.where(ind, m_in[:, None], m_out[:, None])
                q = tl.exp((x - shift) - tl.where(ind, log_in[:, None], log_out[:, None]))
                g = slope[:, None] * tl.where(ind, q, -q)
            else:
                g = tl.exp((x - m_out[:, None]) - log_out[:, None]) - b_row[:, None]
                g -= tl.where(ind, c_row[:, None], 0.0)
                if SQUEEZE == 1:
                    g += k * ((x - anchor[:, None]) - mean[:, None])
                if SQUEEZE == 2:
                    u = (x - anchor[:, None]) - mean[:, None]
                    g += 0.5 * k * alpha * (_signed_power(u, alpha - 1.0) - tilt[:, None])
            g = tl.where(factor[:, None] == 0.0, 0.0, factor[:, None] * g)  # weight 0 leaves out an infinite row too
            if CHECK:
                g = tl.where(valid[:, None], g, 0.0)
            g = g.to(gradient.dtype.element_ty)
            tl.store(gradient + base[:, None] + col[None, :], g, mask=ok & live[:, None], eviction_policy="evict_first")


@triton.jit
def _total(losses, out, n, scale, BLOCK: tl.constexpr):
    """`scale` times the sum of n losses, by one program and so always in the same order."""
    offset = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(losses + start + offset, mask=start + offset < n, other=0.0)
    tl.store(out, (tl.sum(total, 0) * scale).to(out.dtype.element_ty))


def shape_of_launch(K: int, element_size: int) -> tuple[int, int, int]:
    """Rows per program, classes per block, warps.

    4 scores per thread where rows are short: latency, not bandwidth, is the limit there. Otherwise 16 scores per
    thread, as timed by `scale_losses_gpu.py --tune`.
    """
    block = min(triton.next_power_of_2(K), WIDEST_BLOCK)
    if block < 512:
        return max(1, 512 // block), block, 4
    rows = max(1, 512 * element_size // block)
    return rows, block, max(1, rows * block // 512)


def total(losses: Tensor, out: Tensor, scale: float) -> None:
    """Write `scale` times the sum of `losses` (n,), float32 and n >= 1, to `out` (), in the dtype of `out`."""
    n = len(losses)
    block = min(8192, triton.next_power_of_2(n))
    with _on_device_of(losses):
        _total[(1,)](losses, out, n, scale, BLOCK=block, num_warps=8 if block >= 2048 else 4)


def _on_device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """Kernels start on the current device: switch to the tensor's device if it is another."""
    elsewhere = tensor.is_cuda and tensor.get_device() != torch.cuda.current_device()
    return torch.cuda.device_of(tensor) if elsewhere else nullcontext()


def launch(
    plan: Plan,
    scores: Tensor,  # (n, K), contiguous
    labels: Tensor,  # (n,) integers or (n, K) booleans, contiguous
    by_size: Tensor | None,
    losses: Tensor | None,
    gradient: Tensor | None,
    scale: float,
    weights: Tensor | None = None,
    upstream: Tensor | None = None,
    unless_one: bool = False,
    fault: Tensor | None = None,
    config: tuple[int, int, int] | None = None,
) -> None:
    """Fill `losses` (n,) and/or `gradient` (n, K), the latter times scale, weights (n,) and upstream (one, or n).

    With `fault` (2,), in memory that the device and the host both see, labels are checked on the way.
    """
    n, K = scores.shape
    rows, block, warps = config or shape_of_launch(K, scores.element_size())
    masked = by_size is not None
    k, alpha = plan.squeeze or (0.0, 2.0)
    nothing = scores  # a pointer for arguments that the compiled variant never reads
    with _on_device_of(scores):
        _rows[(triton.cdiv(n, rows),)](
            scores,
            labels.view(torch.uint8) if masked else labels,
            by_size if masked else nothing,
            nothing if upstream is None else upstream,
            nothing if weights is None else weights,
            nothing if losses is None else losses,
            nothing if gradient is None else gradient,
            nothing if fault is None else fault, plan.set_size,
            n, scale, *plan.numbers, k, alpha,
            K=K, ROWS=rows, BLOCK=block,
            FORWARD=plan.forward, MASKED=masked, SQUEEZE=0 if k == 0 else 1 if alpha == 2 else 2,
            MEAN=plan.numbers[1] != 0.0,
            LOSS=losses is not None, GRADIENT=gradient is not None, WEIGHTED=weights is not None,
            UPSTREAM=0 if upstream is None else 1 if upstream.numel() == 1 and upstream.ndim == 0 else 2,
            UNLESS_ONE=unless_one, CHECK=fault is not None,
            num_warps=warps,
        )  # fmt: skip
