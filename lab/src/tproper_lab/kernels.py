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

import triton
import triton.language as tl

EPSILON = tl.constexpr(1e-5)
#: A float32 product as three of TF32: float32's digits at the speed of tensor cores. bfloat16 ignores it.
PRODUCTS = tl.constexpr("tf32x3")


@triton.jit
def _normaliser(stats, stride_s, stride_r, s, c, count):
    """Mean and reciprocal standard deviation of channels c."""
    mean = tl.load(stats + s * stride_s + c) / count
    square = tl.load(stats + s * stride_s + stride_r + c) / count
    return mean, tl.rsqrt(tl.maximum(square - mean * mean, 0.0) + EPSILON)


@triton.jit
def _folded(stats, stride_s, stride_r, s, c, count, gamma, gamma_s, beta, beta_s):
    """Batch norm of channels c as one product and one sum: x scale + shift; and the normaliser."""
    mean, rstd = _normaliser(stats, stride_s, stride_r, s, c, count)
    scale = tl.load(gamma + s * gamma_s + c) * rstd
    shift = tl.load(beta + s * beta_s + c) - mean * scale
    return scale, shift, mean, rstd


@triton.jit
def _conv(
    x, w, y, add, sums, pre, stats, gamma, beta,
    pixels, count, sums_s, sums_r, stats_s, stats_r, gamma_s, beta_s,
    H: tl.constexpr, W: tl.constexpr, HX: tl.constexpr, WX: tl.constexpr,
    K: tl.constexpr, N: tl.constexpr, SIDE: tl.constexpr, STRIDE: tl.constexpr,
    TRANSPOSED: tl.constexpr, ADD: tl.constexpr, SUMS: tl.constexpr, MASK: tl.constexpr,
    BK: tl.constexpr, BM: tl.constexpr, BULK: tl.constexpr,
):  # fmt: skip
    """y[p, :N] = sum over taps of x[shifted p, :K] w[tap], for a block of BM output pixels.

    TRANSPOSED is the gradient with respect to the input: x is the output's gradient, and w is read
    transposed. MASK multiplies by the derivative of relu(bn(pre)); SUMS then collects (sum dz,
    sum dz xhat), and (sum y, sum y^2) otherwise. ADD adds a residual of y's shape. BULK: x and w are
    tensor descriptors, and a tile of pixels is a box of rows, moved by the tap: the copy engine makes
    the addresses and the zeros around the image.
    """
    s = tl.program_id(1)
    n = tl.arange(0, N)
    pad: tl.constexpr = SIDE // 2
    chunks: tl.constexpr = K // BK
    p = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = p < pixels
    if MASK:  # loaded before the loop, which hides the wait for them
        scale, shift, mean, rstd = _folded(stats, stats_s, stats_r, s, n, count, gamma, gamma_s, beta, beta_s)
    acc = tl.zeros((BM, N), tl.float32)
    if BULK:
        first = s * (pixels // (H * W)) + tl.program_id(0) * BM // (H * W)
        top = (tl.program_id(0) * BM // W) % H
        for i in range(SIDE * SIDE * chunks):
            tap = i // chunks
            k0 = (i % chunks) * BK
            dr = tap // SIDE - pad
            dc = tap % SIDE - pad
            from_w = s * SIDE * SIDE + tap
            if TRANSPOSED:
                xt = x.load([first, top - dr, -dc, k0]).reshape(BM, BK)
                wt = w.load([from_w * N, k0]).T
            else:
                xt = x.load([first, top + dr, dc, k0]).reshape(BM, BK)
                wt = w.load([from_w * K + k0, 0])
            acc = tl.dot(xt, wt, acc, input_precision=PRODUCTS)
    else:
        x += s * (pixels // (H * W)) * (HX * WX * K)
        w += s * SIDE * SIDE * K * N
        image = p // (H * W)
        row = (p // W) % H
        col = p % W
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
                at_w = (tap * N + n[None, :]) * K + k[:, None]
            else:
                r = row * STRIDE + dr
                c = col * STRIDE + dc
                ok = inside & (r >= 0) & (r < HX) & (c >= 0) & (c < WX)
                at_w = (tap * K + k[:, None]) * N + n[None, :]
            at = ((image * HX + r) * WX + c) * K
            wt = tl.load(w + at_w)
            xt = tl.load(x + at[:, None] + k[None, :], mask=ok[:, None], other=0.0)
            acc = tl.dot(xt, wt, acc, input_precision=PRODUCTS)
    out = (s * pixels + p)[:, None] * N + n[None, :]
    if ADD:
        acc += tl.load(add + out, mask=inside[:, None], other=0.0).to(tl.float32)
    if MASK:
        before = tl.load(pre + out, mask=inside[:, None], other=0.0).to(tl.float32)
        acc = tl.where(before * scale[None, :] + shift[None, :] > 0, acc, 0.0)
    value = acc.to(y.dtype.element_ty)
    tl.store(y + out, value, mask=inside[:, None])
    if SUMS:
        seen = tl.where(inside[:, None], value.to(tl.float32), 0.0)
        other = seen
        if MASK:
            other = before
        total = tl.sum(seen, 0)
        second = tl.sum(seen * other, 0)
        if MASK:  # sum dz xhat, from sum dz pre: the normaliser is the same for all pixels
            second = (second - mean * total) * rstd
        tl.atomic_add(sums + s * sums_s + n, total)
        tl.atomic_add(sums + s * sums_s + sums_r + n, second)


@triton.jit
def _row(
    x, first, place, inside, r, shift: tl.constexpr,
    H: tl.constexpr, W: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BULK: tl.constexpr,
):  # fmt: skip
    """Row r of a program's images, moved by some columns, with zeros around the image.  # (BM, K)"""
    if BULK:
        tile = x.load([first, r, shift, 0]).reshape(BM, K)
    else:
        c = tl.arange(0, BM) % W + shift
        row = tl.zeros_like(c) + r
        ok = inside & (row >= 0) & (row < H) & (c >= 0) & (c < W)
        at = (place + r * W + shift)[:, None] * K + tl.arange(0, K)[None, :]
        tile = tl.load(x + at, mask=ok[:, None], other=0.0)
    return tile


@triton.jit
def _tap(w, tap: tl.constexpr, k, n, K: tl.constexpr, N: tl.constexpr, TRANSPOSED: tl.constexpr):
    """A tap's matrix; TRANSPOSED turns the taps by 180 degrees and the matrices over.  # (K, N)"""
    at = (tap * K + k[:, None]) * N + n[None, :]
    if TRANSPOSED:
        at = ((8 - tap) * N + n[None, :]) * K + k[:, None]
    return tl.load(w + at)


@triton.jit
def _walk(
    x, w, y, add, sums, pre, stats, gamma, beta,
    pixels, count, sums_s, sums_r, stats_s, stats_r, gamma_s, beta_s,
    H: tl.constexpr, W: tl.constexpr, K: tl.constexpr, N: tl.constexpr,
    TRANSPOSED: tl.constexpr, ADD: tl.constexpr, SUMS: tl.constexpr, MASK: tl.constexpr,
    IMAGES: tl.constexpr, ROWS: tl.constexpr, BULK: tl.constexpr,
):  # fmt: skip
    """What ``_conv`` computes, for 3x3 kernels with stride 1 and few channels.

    A program walks down ROWS rows of some IMAGES and keeps all nine matrices: an input row serves the
    output rows above, here and below, whose sums travel with it. So an input is read three times,
    once for each column of taps, instead of nine times.
    """
    s = tl.program_id(1)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    BM: tl.constexpr = IMAGES * W
    parts: tl.constexpr = H // ROWS
    m = tl.arange(0, BM)
    images = pixels // (H * W)
    image = tl.program_id(0) // parts * IMAGES
    top = tl.program_id(0) % parts * ROWS
    first = s * images + image
    inside = image + m // W < images
    place = (first + m // W) * (H * W) + m % W
    w += s * 9 * K * N
    w0 = _tap(w, 0, k, n, K, N, TRANSPOSED)
    w1 = _tap(w, 1, k, n, K, N, TRANSPOSED)
    w2 = _tap(w, 2, k, n, K, N, TRANSPOSED)
    w3 = _tap(w, 3, k, n, K, N, TRANSPOSED)
    w4 = _tap(w, 4, k, n, K, N, TRANSPOSED)
    w5 = _tap(w, 5, k, n, K, N, TRANSPOSED)
    w6 = _tap(w, 6, k, n, K, N, TRANSPOSED)
    w7 = _tap(w, 7, k, n, K, N, TRANSPOSED)
    w8 = _tap(w, 8, k, n, K, N, TRANSPOSED)
    if MASK:
        scale, shift, _, _ = _folded(stats, stats_s, stats_r, s, n, count, gamma, gamma_s, beta, beta_s)
    above = tl.zeros((BM, N), tl.float32)
    here = tl.zeros((BM, N), tl.float32)
    # sums over rows alone; over pixels once, at the end: a sum over a tile takes as long as its products
    sum0 = tl.zeros((BM, N), tl.float32)
    sum1 = tl.zeros((BM, N), tl.float32)
    for i in range(ROWS + 2):
        r = top + i - 1
        ready = (inside & (i >= 2))[:, None]
        out = (place + (r - 1) * W)[:, None] * N + n[None, :]
        if ADD:  # loaded before the products, which hide the wait for them
            residual = tl.load(add + out, mask=ready, other=0.0)
        if MASK:
            before = tl.load(pre + out, mask=ready, other=0.0)
        left = _row(x, first, place, inside, r, -1, H, W, K, BM, BULK)
        middle = _row(x, first, place, inside, r, 0, H, W, K, BM, BULK)
        right = _row(x, first, place, inside, r, 1, H, W, K, BM, BULK)
        above = tl.dot(left, w6, above, input_precision=PRODUCTS)
        above = tl.dot(middle, w7, above, input_precision=PRODUCTS)
        above = tl.dot(right, w8, above, input_precision=PRODUCTS)
        here = tl.dot(left, w3, here, input_precision=PRODUCTS)
        here = tl.dot(middle, w4, here, input_precision=PRODUCTS)
        here = tl.dot(right, w5, here, input_precision=PRODUCTS)
        below = tl.dot(left, w0, input_precision=PRODUCTS)
        below = tl.dot(middle, w1, below, input_precision=PRODUCTS)
        below = tl.dot(right, w2, below, input_precision=PRODUCTS)
        acc = above
        if ADD:
            acc += residual.to(tl.float32)
        if MASK:
            acc = tl.where(before.to(tl.float32) * scale[None, :] + shift[None, :] > 0, acc, 0.0)
        value = acc.to(y.dtype.element_ty)
        tl.store(y + out, value, mask=ready)
        if SUMS:
            seen = tl.where(ready, value.to(tl.float32), 0.0)
            other = seen
            if MASK:
                other = before.to(tl.float32)
            sum0 += seen
            sum1 += seen * other
        above = here
        here = below
    if SUMS:
        total = tl.sum(sum0, 0)
        second = tl.sum(sum1, 0)
        if MASK:  # loaded again: through the loop they would take registers
            mean, rstd = _normaliser(stats, stats_s, stats_r, s, n, count)
            second = (second - mean * total) * rstd
        tl.atomic_add(sums + s * sums_s + n, total)
        tl.atomic_add(sums + s * sums_s + sums_r + n, second)


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
        acc0 = tl.dot(dyt, up, acc0, input_precision=PRODUCTS)
        acc1 = tl.dot(dyt, tl.load(here, mask=inside[:, None], other=0.0), acc1, input_precision=PRODUCTS)
        down = tl.load(here + W * K, mask=(inside & (row < H - 1))[:, None], other=0.0)
        acc2 = tl.dot(dyt, down, acc2, input_precision=PRODUCTS)
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
    acc0 = tl.zeros((BK, BN), tl.float32)
    acc1 = tl.zeros((BK, BN), tl.float32)
    acc2 = tl.zeros((BK, BN), tl.float32)
    start = tl.program_id(0) * per_split
    x += s * (pixels // (H * W)) * (HX * WX * K)
    dy += s * pixels * N
    for p0 in range(start, start + per_split, BP):
        p = p0 + tl.arange(0, BP)
        image = p // (H * W)
        row = (p // W) % H
        col = p % W
        inside = p < pixels
        dyt = tl.load(dy + p[:, None] * N + n[None, :], mask=inside[:, None], other=0.0)
        xt = _shifted(x, image, row, col, inside, tap_row, 0, k, HX, WX, K, SIDE, STRIDE)
        acc0 = tl.dot(xt, dyt, acc0, input_precision=PRODUCTS)
        if SIDE == 3:
            xt = _shifted(x, image, row, col, inside, tap_row, 1, k, HX, WX, K, SIDE, STRIDE)
            acc1 = tl.dot(xt, dyt, acc1, input_precision=PRODUCTS)
            xt = _shifted(x, image, row, col, inside, tap_row, 2, k, HX, WX, K, SIDE, STRIDE)
            acc2 = tl.dot(xt, dyt, acc2, input_precision=PRODUCTS)
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
    scale, shift, _, _ = _folded(stats, stats_s, stats_r, s, c, count, gamma, gamma_s, beta, beta_s)
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
