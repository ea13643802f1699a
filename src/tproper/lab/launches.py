"""Launches of the residual nets' kernels: shapes, strides, tiles.

Activations are (S, n, H, W, C): S trials side by side. ``tproper.lab.kernels`` has the kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from tproper.lab import kernels


class ConvShape(NamedTuple):
    """How a convolution is cut into tiles; see ``_conv``."""

    depth: int  # BK
    pixels: int  # BM
    warps: int = 4
    stages: int = 3
    bulk: bool = False  # copy boxes of pixels; only where ``boxed``


class WeightShape(NamedTuple):
    """How a weight gradient is cut into tiles; ``programs`` is how many to aim at in all."""

    rows: bool
    depth: int  # BK
    width: int  # BN
    pixels: int  # BP
    warps: int
    stages: int
    programs: int


def conv_shape(k: int, n: int, transposed: bool, boxed: bool) -> ConvShape:
    """The tiles measured best on an H200 for k input and n output channels (``benchmarks/lab_kernels.py``)."""
    depth = min(k, 64)
    if n <= 16:
        return ConvShape(depth, 256)
    if transposed:
        if n > 64:
            return ConvShape(depth, 64, stages=4, bulk=boxed)
        return ConvShape(depth, 128, bulk=boxed and n == 64)
    return ConvShape(depth, 256 if boxed and n <= 64 else 128, bulk=boxed)


def weight_shape(k: int, n: int, side: int, stride: int) -> WeightShape:
    """The tiles measured best on an H200 for k input and n output channels."""
    if side == 3 and stride == 1 and k <= 32 and n <= 32:
        return WeightShape(True, k, n, 128 if n == 16 else 32, 4, 3, 132 * 4)
    return WeightShape(False, min(k, 64), min(n, 64), 32, 4, 3, 132 * 4)


def boxed(t: torch.Tensor, side: int, stride: int) -> bool:
    """Whether tiles of 64 pixels or more are boxes of t (S, n, H, W, C), which a GPU since Hopper copies in bulk."""
    h, w = t.shape[2:4]
    able = not t.is_cuda or torch.cuda.get_device_capability(t.device)[0] >= 9
    whole = h & (h - 1) == 0 and w & (w - 1) == 0 and w <= 64
    return able and whole and side == 3 and stride == 1


def boxes(t: torch.Tensor, pixels: int, channels: int) -> TensorDescriptor:
    """t (S, n, H, W, C) in boxes of so many pixels and channels."""
    images = t.flatten(0, 1)
    _, h, w, _ = images.shape
    box = [max(1, pixels // (h * w)), min(h, pixels // w), w, channels]
    return TensorDescriptor(images, list(images.shape), list(images.stride()), box)


def rows(t: torch.Tensor, high: int, wide: int) -> TensorDescriptor:
    """t as a matrix of its last dimension's rows, in tiles of high x wide."""
    matrix = t.reshape(-1, t.shape[-1])
    return TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), [high, wide])


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
    cut = shape or conv_shape(k, out, False, boxed(x, side, stride))
    grid = (triton.cdiv(pixels, cut.pixels), trials)
    s0, s1 = (sums.stride(0), sums.stride(1)) if sums is not None else (0, 0)
    read = (boxes(x, cut.pixels, cut.depth), rows(w, cut.depth, out)) if cut.bulk else (x, w)
    kernels._conv[grid](
        *read, y, add if add is not None else y, sums if sums is not None else y, y, y, y, y, pixels,
        1.0, s0, s1, 0, 0, 0, 0, h, width, hx, wx, k, out, side, stride,
        False, add is not None, sums is not None, False,
        cut.depth, cut.pixels, cut.bulk, num_warps=cut.warps, num_stages=cut.stages,
    )  # fmt: skip
    return y


def conv_input(
    dy: torch.Tensor,
    w: torch.Tensor,
    stride: int,
    pre: torch.Tensor,
    norm: Norm | None,
    add: torch.Tensor | None = None,
    shape: ConvShape | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient of a convolution's input, which was relu(bn(pre)): dz (before bn) and its sums.

    Without ``norm`` the input was ``pre`` itself, and its gradient, plus ``add``, is returned.
    """
    trials, n, h, width, k = pre.shape
    _, _, hx, wx, channels = dy.shape
    side = w.shape[1]
    dz = torch.empty_like(pre)
    sums = torch.zeros(trials, 2, k, device=dy.device)
    pixels = n * h * width
    cut = shape or conv_shape(channels, k, True, boxed(dy, side, stride))
    grid = (triton.cdiv(pixels, cut.pixels), trials)
    masked = norm is not None
    stats, gamma, beta = (norm.stats, norm.gamma, norm.beta) if norm else (sums, sums, sums)
    read = (boxes(dy, cut.pixels, cut.depth), rows(w, k, cut.depth)) if cut.bulk else (dy, w)
    kernels._conv[grid](
        *read, dz, dz if add is None else add, sums, pre, stats, gamma, beta,
        pixels, norm.count if norm else 1.0, sums.stride(0), sums.stride(1),
        *(norm.strides if norm else (0, 0)), gamma.stride(0), beta.stride(0),
        h, width, hx, wx, channels, k, side, stride, True, add is not None, masked, masked,
        cut.depth, cut.pixels, cut.bulk, num_warps=cut.warps, num_stages=cut.stages,
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
        kernels._weight_rows[grid](x, dy, dw, pixels, per_split, h, width, k, out, cut.pixels, **launch)
    else:
        kernels._weight[(splits, groups, trials)](
            x, dy, dw, pixels, per_split, h, width, hx, wx, k, out, side, stride,
            cut.depth, cut.width, cut.pixels, **launch,
        )  # fmt: skip
    return dw


def bn(x: torch.Tensor, norm: Norm, relu: bool) -> torch.Tensor:
    """Batch norm with given statistics, through a ReLU if asked."""
    trials, channels = x.shape[0], x.shape[-1]
    pixels = x[0].numel() // channels
    y = torch.empty_like(x)
    tile = max(16, 4096 // channels)
    kernels._bn[(triton.cdiv(pixels, tile), trials)](
        x, y, norm.stats, norm.gamma, norm.beta, pixels, norm.count, *norm.strides,
        norm.gamma.stride(0), norm.beta.stride(0), channels, tile, relu,
    )  # fmt: skip
    return y


def bn_sums(dy: torch.Tensor, x: torch.Tensor, norm: Norm, relu: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient before the ReLU, and the two sums its batch norm needs."""
    trials, channels = x.shape[0], x.shape[-1]
    pixels = x[0].numel() // channels
    dz = torch.empty_like(x) if relu else dy
    sums = torch.zeros(trials, 2, channels, device=x.device)
    tile = max(16, 4096 // channels)
    tiles = 8
    kernels._bn_sums[(triton.cdiv(pixels, tile * tiles), trials)](
        dy, x, dz, sums, norm.stats, norm.gamma, norm.beta, pixels, norm.count, *norm.strides,
        norm.gamma.stride(0), norm.beta.stride(0), channels, tile, relu, tiles,
    )  # fmt: skip
    return dz, sums


def bn_input(
    dz: torch.Tensor, x: torch.Tensor, sums: torch.Tensor, norm: Norm, add: torch.Tensor | None
) -> torch.Tensor:
    """Gradient of a batch norm's input, plus ``add``."""
    trials, channels = x.shape[0], x.shape[-1]
    pixels = x[0].numel() // channels
    dx = torch.empty_like(x)
    tile = max(16, 4096 // channels)
    kernels._bn_input[(triton.cdiv(pixels, tile), trials)](
        dz, x, dx, add if add is not None else dz, sums, norm.stats, norm.gamma, pixels,
        norm.count, *norm.strides, norm.gamma.stride(0), channels, tile, add is not None,
    )  # fmt: skip
    return dx
