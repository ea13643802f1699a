# mypy: allow-untyped-defs
# (a Triton kernel's parameters are pointers and device values, for which there are no Python types)
"""Triton kernels for the fused residual nets. Activations are (S, n, H, W, C).

Every kernel has a trial axis: trial s has its own weights, batch-norm parameters and statistics. A
convolution is an implicit matrix product over (tap, channel), its epilogue adds the residual and sums
the batch-norm statistics of what it writes, so that no separate pass reads the activations again.

Batch-norm statistics travel as ``stats`` (S, 2, C): the sum and the sum of squares over ``count``
values; a kernel that needs mean and standard deviation derives them from those.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

EPSILON = tl.constexpr(1e-5)


@triton.jit
def _normaliser(stats, stride_s, stride_r, s, c, count):
    """Mean and reciprocal standard deviation of channels c."""
    mean = tl.load(stats + s * stride_s + c) / count
    square = tl.load(stats + s * stride_s + stride_r + c) / count
    return mean, tl.rsqrt(tl.maximum(square - mean * mean, 0.0) + EPSILON)


@triton.jit
def _conv(
    x, w, y, add, sums, pre, stats, gamma, beta,
    pixels, count, sums_s, sums_r, stats_s, stats_r, gamma_s, beta_s,
    H: tl.constexpr, W: tl.constexpr, HX: tl.constexpr, WX: tl.constexpr,
    K: tl.constexpr, N: tl.constexpr, SIDE: tl.constexpr, STRIDE: tl.constexpr,
    TRANSPOSED: tl.constexpr, ADD: tl.constexpr, SUMS: tl.constexpr, MASK: tl.constexpr,
    BK: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """y[p, :N] = sum over taps of x[shifted p, :K] w[tap], for a block of BM output pixels.

    TRANSPOSED is the gradient with respect to the input: x is the output's gradient, and w is read
    transposed. MASK multiplies by the derivative of relu(bn(pre)); SUMS then collects (sum dz,
    sum dz xhat), and (sum y, sum y^2) otherwise. ADD adds a residual of y's shape.
    """
    s = tl.program_id(1)
    n = tl.arange(0, N)
    pad: tl.constexpr = SIDE // 2
    chunks: tl.constexpr = K // BK
    x += s * (pixels // (H * W)) * (HX * WX * K)
    w += s * SIDE * SIDE * K * N
    p = tl.program_id(0) * BM + tl.arange(0, BM)
    image = p // (H * W)
    row = (p // W) % H
    col = p % W
    inside = p < pixels
    if MASK:  # loaded before the loop, which hides the wait for them
        mean, rstd = _normaliser(stats, stats_s, stats_r, s, n, count)
        g = tl.load(gamma + s * gamma_s + n)
        b = tl.load(beta + s * beta_s + n)
    acc = tl.zeros((BM, N), tl.float32)
    for i in range(SIDE * SIDE * chunks):
        tap = i // chunks
        k = (i % chunks) * BK + tl.arange(0, BK)
        dr = tap // SIDE - pad
        dc = tap % SIDE - pad
        if TRANSPOSED:
            r = row - dr
            c = col - dc
            ok = inside & (r >= 0) & (c >= 0)
            if STRIDE > 1:
                ok = ok & (r % STRIDE == 0) & (c % STRIDE == 0)
                r = r // STRIDE
                c = c // STRIDE
            ok = ok & (r < HX) & (c < WX)
            from_w = (tap * N + n[None, :]) * K + k[:, None]
        else:
            r = row * STRIDE + dr
            c = col * STRIDE + dc
            ok = inside & (r >= 0) & (r < HX) & (c >= 0) & (c < WX)
            from_w = (tap * K + k[:, None]) * N + n[None, :]
        at = ((image * HX + r) * WX + c) * K
        wt = tl.load(w + from_w)
        xt = tl.load(x + at[:, None] + k[None, :], mask=ok[:, None], other=0.0)
        acc = tl.dot(xt, wt, acc, input_precision="ieee")
    out = (s * pixels + p)[:, None] * N + n[None, :]
    if ADD:
        acc += tl.load(add + out, mask=inside[:, None], other=0.0).to(tl.float32)
    if MASK:
        xhat = tl.load(pre + out, mask=inside[:, None], other=0.0).to(tl.float32)
        xhat = (xhat - mean[None, :]) * rstd[None, :]
        acc = tl.where(xhat * g[None, :] + b[None, :] > 0, acc, 0.0)
    value = acc.to(y.dtype.element_ty)
    tl.store(y + out, value, mask=inside[:, None])
    if SUMS:
        seen = tl.where(inside[:, None], value.to(tl.float32), 0.0)
        other = seen
        if MASK:
            other = xhat
        tl.atomic_add(sums + s * sums_s + n, tl.sum(seen, 0))
        tl.atomic_add(sums + s * sums_s + sums_r + n, tl.sum(seen * other, 0))


@triton.jit
def _weight_rows(
    x, dy, dw, pixels, per_split,
    H: tl.constexpr, W: tl.constexpr, K: tl.constexpr, N: tl.constexpr,
    BP: tl.constexpr,
):  # fmt: skip
    """Weight gradient of a 3x3 convolution with stride 1 and few channels.

    dw[row, col, k, n] = sum over q of x[q moved by the tap's row, k] dy[q moved back by its column,
    n]: the three columns of dy are neighbours in memory and are read once, as one tile of 4 N rows
    (the fourth column is masked), for products with x at three rows.
    """
    s = tl.program_id(1)
    m = tl.arange(0, 4 * N)
    tap = m // N
    k = tl.arange(0, K)
    x += s * pixels * K
    dy += s * pixels * N
    acc0 = tl.zeros((4 * N, K), tl.float32)
    acc1 = tl.zeros((4 * N, K), tl.float32)
    acc2 = tl.zeros((4 * N, K), tl.float32)
    start = tl.program_id(0) * per_split
    for p0 in range(start, start + per_split, BP):
        p = p0 + tl.arange(0, BP)
        row = (p // W) % H
        inside = p < pixels
        c = (p % W)[None, :] + 1 - tap[:, None]
        ok = inside[None, :] & (c >= 0) & (c < W) & (tap < 3)[:, None]
        at = ((p // W) * W)[None, :] + c
        dyt = tl.load(dy + at * N + (m % N)[:, None], mask=ok, other=0.0)
        here = x + p[:, None] * K + k[None, :]
        up = tl.load(here - W * K, mask=(inside & (row > 0))[:, None], other=0.0)
        acc0 = tl.dot(dyt, up, acc0, input_precision="ieee")
        acc1 = tl.dot(dyt, tl.load(here, mask=inside[:, None], other=0.0), acc1, input_precision="ieee")
        down = tl.load(here + W * K, mask=(inside & (row < H - 1))[:, None], other=0.0)
        acc2 = tl.dot(dyt, down, acc2, input_precision="ieee")
    at = dw + s * 9 * K * N + (tap * K * N + m % N)[:, None] + k[None, :] * N
    real = (tap < 3)[:, None]
    tl.atomic_add(at, acc0, mask=real)
    tl.atomic_add(at + 3 * K * N, acc1, mask=real)
    tl.atomic_add(at + 6 * K * N, acc2, mask=real)


@triton.jit
def _shifted(
    x, image, row, col, inside, tap_row, tap_col: tl.constexpr, k,
    HX: tl.constexpr, WX: tl.constexpr, K: tl.constexpr, SIDE: tl.constexpr, STRIDE: tl.constexpr,
):  # fmt: skip
    """The transposed tile x[pixels moved by a tap, k]  # (channels, pixels)"""
    r = row * STRIDE + tap_row - SIDE // 2
    c = col * STRIDE + tap_col - SIDE // 2
    ok = inside & (r >= 0) & (r < HX) & (c >= 0) & (c < WX)
    at = ((image * HX + r) * WX + c) * K
    return tl.load(x + at[None, :] + k[:, None], mask=ok[None, :], other=0.0)


@triton.jit
def _weight(
    x, dy, dw, pixels, per_split,
    H: tl.constexpr, W: tl.constexpr, HX: tl.constexpr, WX: tl.constexpr,
    K: tl.constexpr, N: tl.constexpr, SIDE: tl.constexpr, STRIDE: tl.constexpr,
    BK: tl.constexpr, BN: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """dw[tap, k, n] += sum over a share of the pixels of x[shifted p, k] dy[p, n].

    A program has one row of taps and a BK x BN tile of channels; it keeps a sum per column of taps,
    so that a tile of dy is read once for three products. A 1x1 kernel has one product.
    """
    s = tl.program_id(2)
    group = tl.program_id(1)
    k_tiles: tl.constexpr = K // BK
    n_tiles: tl.constexpr = N // BN
    n = (group % n_tiles) * BN + tl.arange(0, BN)
    k = ((group // n_tiles) % k_tiles) * BK + tl.arange(0, BK)
    tap_row = group // (n_tiles * k_tiles)
    x += s * (pixels // (H * W)) * (HX * WX * K)
    dy += s * pixels * N
    acc0 = tl.zeros((BK, BN), tl.float32)
    acc1 = tl.zeros((BK, BN), tl.float32)
    acc2 = tl.zeros((BK, BN), tl.float32)
    start = tl.program_id(0) * per_split
    for p0 in range(start, start + per_split, BP):
        p = p0 + tl.arange(0, BP)
        image = p // (H * W)
        row = (p // W) % H
        col = p % W
        inside = p < pixels
        dyt = tl.load(dy + p[:, None] * N + n[None, :], mask=inside[:, None], other=0.0)
        xt = _shifted(x, image, row, col, inside, tap_row, 0, k, HX, WX, K, SIDE, STRIDE)
        acc0 = tl.dot(xt, dyt, acc0, input_precision="ieee")
        if SIDE == 3:
            xt = _shifted(x, image, row, col, inside, tap_row, 1, k, HX, WX, K, SIDE, STRIDE)
            acc1 = tl.dot(xt, dyt, acc1, input_precision="ieee")
            xt = _shifted(x, image, row, col, inside, tap_row, 2, k, HX, WX, K, SIDE, STRIDE)
            acc2 = tl.dot(xt, dyt, acc2, input_precision="ieee")
    at = dw + s * (SIDE * SIDE * K * N) + ((tap_row * SIDE * K + k) * N)[:, None] + n[None, :]
    tl.atomic_add(at, acc0)
    if SIDE == 3:
        tl.atomic_add(at + K * N, acc1)
        tl.atomic_add(at + 2 * K * N, acc2)


@triton.jit
def _bn(
    x, y, stats, gamma, beta, pixels, count, stats_s, stats_r, gamma_s, beta_s,
    C: tl.constexpr, BM: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """y = bn(x), through a ReLU if RELU."""
    s = tl.program_id(1)
    c = tl.arange(0, C)
    p = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = (p < pixels)[:, None]
    mean, rstd = _normaliser(stats, stats_s, stats_r, s, c, count)
    scale = tl.load(gamma + s * gamma_s + c) * rstd
    shift = tl.load(beta + s * beta_s + c) - mean * scale
    at = (s * pixels + p)[:, None] * C + c[None, :]
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) * scale[None, :] + shift[None, :]
    if RELU:
        value = tl.maximum(value, 0.0)
    tl.store(y + at, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _bn_sums(
    dy, x, dz, sums, stats, gamma, beta, pixels, count, stats_s, stats_r, gamma_s, beta_s,
    C: tl.constexpr, BM: tl.constexpr, RELU: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """dz = dy times the ReLU's derivative (dy itself without RELU), and sum dz, sum dz xhat."""
    s = tl.program_id(1)
    c = tl.arange(0, C)
    mean, rstd = _normaliser(stats, stats_s, stats_r, s, c, count)
    g = tl.load(gamma + s * gamma_s + c)
    b = tl.load(beta + s * beta_s + c)
    first = tl.zeros((C,), tl.float32)
    second = tl.zeros((C,), tl.float32)
    for tile in range(TILES):
        p = (tl.program_id(0) * TILES + tile) * BM + tl.arange(0, BM)
        inside = (p < pixels)[:, None]
        at = (s * pixels + p)[:, None] * C + c[None, :]
        xhat = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        xhat = (xhat - mean[None, :]) * rstd[None, :]
        value = tl.load(dy + at, mask=inside, other=0.0).to(tl.float32)
        if RELU:
            value = tl.where(xhat * g[None, :] + b[None, :] > 0, value, 0.0)
            tl.store(dz + at, value.to(dz.dtype.element_ty), mask=inside)
        first += tl.sum(value, 0)
        second += tl.sum(value * xhat, 0)
    tl.atomic_add(sums + s * (2 * C) + c, first)
    tl.atomic_add(sums + s * (2 * C) + C + c, second)


@triton.jit
def _bn_input(
    dz, x, dx, add, sums, stats, gamma, pixels, count, stats_s, stats_r, gamma_s,
    C: tl.constexpr, BM: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """dx = gamma rstd (dz - mean dz - xhat mean(dz xhat)), plus another gradient if ADD."""
    s = tl.program_id(1)
    c = tl.arange(0, C)
    p = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = (p < pixels)[:, None]
    mean, rstd = _normaliser(stats, stats_s, stats_r, s, c, count)
    g = tl.load(gamma + s * gamma_s + c) * rstd
    first = tl.load(sums + s * (2 * C) + c) / count
    second = tl.load(sums + s * (2 * C) + C + c) / count
    at = (s * pixels + p)[:, None] * C + c[None, :]
    xhat = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    xhat = (xhat - mean[None, :]) * rstd[None, :]
    value = tl.load(dz + at, mask=inside, other=0.0).to(tl.float32)
    value = g[None, :] * (value - first[None, :] - xhat * second[None, :])
    if ADD:
        value += tl.load(add + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(dx + at, value.to(dx.dtype.element_ty), mask=inside)


# --- launches -----------------------------------------------------------------------------------


class ConvShape(NamedTuple):
    """How a convolution is cut into tiles; see ``_conv``."""

    depth: int  # BK
    pixels: int  # BM
    warps: int = 4
    stages: int = 3


class WeightShape(NamedTuple):
    """How a weight gradient is cut into tiles; ``programs`` is how many to aim at in all."""

    rows: bool
    depth: int  # BK
    width: int  # BN
    pixels: int  # BP
    warps: int
    stages: int
    programs: int


def conv_shape(k: int, n: int, transposed: bool) -> ConvShape:
    """The tiles measured best on an H200 for k input and n output channels."""
    pixels = 256 if n <= 16 else 64 if transposed and n > 64 else 128
    return ConvShape(min(k, 64), pixels)


def weight_shape(k: int, n: int, side: int, stride: int) -> WeightShape:
    """The tiles measured best on an H200 for k input and n output channels."""
    if side == 3 and stride == 1 and k <= 32 and n <= 32:
        return WeightShape(True, k, n, 128 if n == 16 else 32, 4, 3, 132 * 4)
    return WeightShape(False, min(k, 64), min(n, 64), 32, 4, 3, 132 * 4)


class Norm:
    """One batch norm's inputs: statistics (S, 2, C) over count values, gamma and beta (S, C)."""

    def __init__(self, stats: torch.Tensor, count: float, gamma: torch.Tensor, beta: torch.Tensor):
        self.stats, self.count, self.gamma, self.beta = stats, count, gamma, beta

    @property
    def strides(self) -> tuple[int, int]:
        """Strides of the statistics over trials and over their two rows."""
        return self.stats.stride(0), self.stats.stride(1)


def conv(
    x: torch.Tensor,  # (S, n, H, W, K)
    w: torch.Tensor,  # (S, side, side, K, N)
    stride: int = 1,
    add: torch.Tensor | None = None,
    sums: torch.Tensor | None = None,  # (S, 2, N), added to
    shape: ConvShape | None = None,
) -> torch.Tensor:
    """Convolution with zero padding side // 2, plus ``add``; collects the sums of what it writes."""
    trials, n, hx, wx, k = x.shape
    side, out = w.shape[1], w.shape[-1]
    h, width = hx // stride, wx // stride
    y = x.new_empty(trials, n, h, width, out)
    pixels = n * h * width
    cut = shape or conv_shape(k, out, False)
    grid = (triton.cdiv(pixels, cut.pixels), trials)
    s0, s1 = (sums.stride(0), sums.stride(1)) if sums is not None else (0, 0)
    _conv[grid](
        x, w, y, add if add is not None else y, sums if sums is not None else y, y, y, y, y,
        pixels, 1.0, s0, s1, 0, 0, 0, 0, h, width, hx, wx, k, out, side, stride,
        False, add is not None, sums is not None, False,
        cut.depth, cut.pixels, num_warps=cut.warps, num_stages=cut.stages,
    )  # fmt: skip
    return y


def conv_input(
    dy: torch.Tensor,
    w: torch.Tensor,
    stride: int,
    pre: torch.Tensor,
    norm: Norm | None,
    shape: ConvShape | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient of a convolution's input, which was relu(bn(pre)): dz (before bn) and its sums.

    Without ``norm`` the input was ``pre`` itself, and the gradient is returned as it is.
    """
    trials, n, h, width, k = pre.shape
    _, _, hx, wx, channels = dy.shape
    side = w.shape[1]
    dz = torch.empty_like(pre)
    sums = torch.zeros(trials, 2, k, device=dy.device)
    pixels = n * h * width
    cut = shape or conv_shape(channels, k, True)
    grid = (triton.cdiv(pixels, cut.pixels), trials)
    masked = norm is not None
    stats, gamma, beta = (norm.stats, norm.gamma, norm.beta) if norm else (sums, sums, sums)
    _conv[grid](
        dy, w, dz, dz, sums, pre, stats, gamma, beta,
        pixels, norm.count if norm else 1.0, sums.stride(0), sums.stride(1),
        *(norm.strides if norm else (0, 0)), gamma.stride(0), beta.stride(0),
        h, width, hx, wx, channels, k, side, stride, True, False, masked, masked,
        cut.depth, cut.pixels, num_warps=cut.warps, num_stages=cut.stages,
    )  # fmt: skip
    return dz, sums


def conv_weight(
    x: torch.Tensor, dy: torch.Tensor, side: int, stride: int, shape: WeightShape | None = None
) -> torch.Tensor:
    """Gradient of a convolution's weights.  # (S, side, side, K, N) float32"""
    trials, n, hx, wx, k = x.shape
    _, _, h, width, out = dy.shape
    dw = torch.zeros(trials, side, side, k, out, device=x.device)
    cut = shape or weight_shape(k, out, side, stride)
    groups = 1 if cut.rows else side * (k // cut.depth) * (out // cut.width)
    pixels = n * h * width
    splits = max(1, min(cut.programs // (groups * trials), pixels // (4 * cut.pixels)))
    per_split = triton.cdiv(triton.cdiv(pixels, splits), cut.pixels) * cut.pixels
    launch = {"num_warps": cut.warps, "num_stages": cut.stages}
    if cut.rows:
        grid = (splits, trials)
        _weight_rows[grid](x, dy, dw, pixels, per_split, h, width, k, out, cut.pixels, **launch)
    else:
        _weight[(splits, groups, trials)](
            x, dy, dw, pixels, per_split, h, width, hx, wx, k, out, side, stride,
            cut.depth, cut.width, cut.pixels, **launch,
        )  # fmt: skip
    return dw


def bn(x: torch.Tensor, norm: Norm, relu: bool) -> torch.Tensor:
    """Batch norm with given statistics, through a ReLU if asked."""
    trials, channels = x.shape[0], x.shape[-1]
    pixels = x[0].numel() // channels
    y = torch.empty_like(x)
    rows = max(16, 4096 // channels)
    _bn[(triton.cdiv(pixels, rows), trials)](
        x, y, norm.stats, norm.gamma, norm.beta, pixels, norm.count, *norm.strides,
        norm.gamma.stride(0), norm.beta.stride(0), channels, rows, relu,
    )  # fmt: skip
    return y


def bn_sums(dy: torch.Tensor, x: torch.Tensor, norm: Norm, relu: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient before the ReLU, and the two sums its batch norm needs."""
    trials, channels = x.shape[0], x.shape[-1]
    pixels = x[0].numel() // channels
    dz = torch.empty_like(x) if relu else dy
    sums = torch.zeros(trials, 2, channels, device=x.device)
    rows = max(16, 4096 // channels)
    tiles = 8
    _bn_sums[(triton.cdiv(pixels, rows * tiles), trials)](
        dy, x, dz, sums, norm.stats, norm.gamma, norm.beta, pixels, norm.count, *norm.strides,
        norm.gamma.stride(0), norm.beta.stride(0), channels, rows, relu, tiles,
    )  # fmt: skip
    return dz, sums


def bn_input(
    dz: torch.Tensor, x: torch.Tensor, sums: torch.Tensor, norm: Norm, add: torch.Tensor | None
) -> torch.Tensor:
    """Gradient of a batch norm's input, plus ``add``."""
    trials, channels = x.shape[0], x.shape[-1]
    pixels = x[0].numel() // channels
    dx = torch.empty_like(x)
    rows = max(16, 4096 // channels)
    _bn_input[(triton.cdiv(pixels, rows), trials)](
        dz, x, dx, add if add is not None else dz, sums, norm.stats, norm.gamma, pixels,
        norm.count, *norm.strides, norm.gamma.stride(0), channels, rows, add is not None,
    )  # fmt: skip
    return dx
