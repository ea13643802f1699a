"""Launches of the residual nets' kernels: shapes, strides, tiles.

Activations are (S, n, H, W, C): S trials side by side. ``tproper_lab.kernels`` has the kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from . import kernels
from .compiling import launch


class ConvShape(NamedTuple):
    """How a convolution is cut into tiles; see ``_conv``."""

    depth: int  # BK
    pixels: int  # BM
    warps: int = 4
    stages: int = 3
    bulk: bool = False  # copy boxes of pixels; only where ``boxed``


class WalkShape(NamedTuple):
    """How a convolution that walks down the rows is cut; see ``_walk``."""

    images: int  # IMAGES
    rows: int  # ROWS
    warps: int
    stages: int
    bulk: bool


class WeightShape(NamedTuple):
    """How a weight gradient is cut into tiles; ``programs`` is how many to aim at in all."""

    rows: bool
    depth: int  # BK
    width: int  # BN
    pixels: int  # BP
    warps: int
    stages: int
    programs: int


def conv_shape(k: int, n: int, transposed: bool, boxed: bool, wide: bool = False) -> ConvShape:
    """The tiles measured best on an H200 for k input and n output channels (``benchmarks/lab_kernels.py``).

    ``wide``: numbers of four bytes, which fill the shared memory twice as fast and whose products take three passes.
    """
    depth = min(k, 64)
    if wide:
        cut = (min(k, 32), 128) if n <= 64 else (depth, 64) if transposed else (16, 32)
        return ConvShape(*cut, stages=2, bulk=boxed)
    if n <= 16:
        return ConvShape(depth, 256)
    if transposed and n > 64:
        return ConvShape(depth, 64, stages=4, bulk=boxed)
    return ConvShape(depth, 128, bulk=boxed)


def walk_shape(x: torch.Tensor, n: int, transposed: bool) -> WalkShape | None:
    """The same for ``_walk`` with the input x (S, n, H, W, K); None where ``_conv`` is faster, or it does not fit."""
    trials, images, high, wide, k = x.shape
    if x.element_size() > 2:
        return None  # in float32 its nine matrices do not fit the registers
    cuts = {16: (128, 4, 3), 32: (64, 4, 3), 64: (64, 4, 2) if transposed else (128, 8, 3)}
    if max(k, n) not in cuts or min(k, n) not in cuts:
        return None
    pixels, warps, stages = cuts[max(k, n)]
    together = max(1, pixels // wide)
    rows = high
    while rows > 8 and triton.cdiv(images, together) * (high // rows) * trials < 256:
        rows //= 2  # two rows more to read in each part, but no part of the chip without work
    return WalkShape(together, rows, warps, stages, bulk=k > 16)


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


def lines(t: torch.Tensor, count: int) -> TensorDescriptor:
    """t (S, n, H, W, C) in lines of pixels, those of ``count`` images together."""
    images = t.flatten(0, 1)
    return TensorDescriptor(images, list(images.shape), list(images.stride()), [count, 1, *images.shape[2:]])


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
    shape: ConvShape | WalkShape | None = None,
) -> torch.Tensor:
    """Convolution with zero padding side // 2, plus ``add``; collects the sums of what it writes."""
    trials, n, hx, wx, _ = x.shape
    y = x.new_empty(trials, n, hx // stride, wx // stride, w.shape[-1])
    _launch(x, w, y, stride, False, add, sums, None, None, shape)
    return y


def conv_input(
    dy: torch.Tensor,
    w: torch.Tensor,
    stride: int,
    pre: torch.Tensor,
    norm: Norm | None,
    add: torch.Tensor | None = None,
    shape: ConvShape | WalkShape | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient of a convolution's input, which was relu(bn(pre)): dz (before bn) and its sums.

    Without ``norm`` the input was ``pre`` itself, and its gradient, plus ``add``, is returned.
    """
    dz = torch.empty_like(pre)
    sums = torch.zeros(pre.shape[0], 2, pre.shape[-1], device=dy.device)
    _launch(dy, w, dz, stride, True, add, sums if norm else None, pre, norm, shape)
    return dz, sums


def _launch(
    x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, stride: int, transposed: bool, add: torch.Tensor | None,
    sums: torch.Tensor | None, pre: torch.Tensor | None, norm: Norm | None, shape: ConvShape | WalkShape | None,
) -> None:  # fmt: skip
    """``_conv`` or ``_walk``; a tensor that is not there is replaced by one that is, and never read."""
    (trials, n, hx, wx, k), (_, _, h, width, out), side = x.shape, y.shape, w.shape[1]
    able = boxed(x, side, stride)
    cut = (
        shape
        or (walk_shape(x, out, transposed) if able else None)
        or conv_shape(k, out, transposed, able, wide=x.element_size() > 2)
    )
    pixels = n * h * width
    stats, gamma, beta = (norm.stats, norm.gamma, norm.beta) if norm else (y, y, y)
    tensors = [y if t is None else t for t in (add, sums, pre)]
    numbers = (
        pixels, norm.count if norm else 1.0, *((sums.stride(0), sums.stride(1)) if sums is not None else (0, 0)),
        *(norm.strides if norm else (0, 0)), gamma.stride(0), beta.stride(0),
    )  # fmt: skip
    flags = (transposed, add is not None, sums is not None, norm is not None)
    options = {"num_warps": cut.warps, "num_stages": cut.stages}
    if isinstance(cut, WalkShape):
        grid = (triton.cdiv(n, cut.images) * (h // cut.rows), trials)
        read = (lines(x, cut.images), w) if cut.bulk else (x, w)
        launch(
            kernels._walk, grid, *read, y, *tensors, stats, gamma, beta, *numbers, h, width, k, out, *flags,
            cut.images, cut.rows, cut.bulk, **options,
        )  # fmt: skip
        return
    grid = (triton.cdiv(pixels, cut.pixels), trials)
    tile = (out, cut.depth) if transposed else (cut.depth, out)
    read = (boxes(x, cut.pixels, cut.depth), rows(w, *tile)) if cut.bulk else (x, w)
    launch(
        kernels._conv, grid, *read, y, *tensors, stats, gamma, beta, *numbers, h, width, hx, wx, k, out, side, stride,
        *flags, cut.depth, cut.pixels, cut.bulk, **options,
    )  # fmt: skip


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
    options = {"num_warps": cut.warps, "num_stages": cut.stages}
    if cut.rows:
        grid = (splits, trials)
        launch(kernels._weight_rows, grid, x, dy, dw, pixels, per_split, h, width, k, out, cut.pixels, **options)
    else:
        launch(
            kernels._weight, (splits, groups, trials), x, dy, dw, pixels, per_split, h, width, hx, wx, k, out, side,
            stride, cut.depth, cut.width, cut.pixels, **options,
        )  # fmt: skip
    return dw


def _tiles(x: torch.Tensor) -> tuple[int, int, int, int]:
    """Trials, channels and pixels of activations (S, n, H, W, C), and the pixels of a tile."""
    trials, channels = x.shape[0], x.shape[-1]
    return trials, channels, x[0].numel() // channels, max(16, 4096 // channels)


def bn(x: torch.Tensor, norm: Norm, relu: bool) -> torch.Tensor:
    """Batch norm with given statistics, through a ReLU if asked."""
    trials, channels, pixels, tile = _tiles(x)
    y = torch.empty_like(x)
    launch(
        kernels._bn, (triton.cdiv(pixels, tile), trials),
        x, y, norm.stats, norm.gamma, norm.beta, pixels, norm.count, *norm.strides,
        norm.gamma.stride(0), norm.beta.stride(0), channels, tile, relu,
    )  # fmt: skip
    return y


def bn_sums(dy: torch.Tensor, x: torch.Tensor, norm: Norm, relu: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient before the ReLU, and the two sums its batch norm needs."""
    trials, channels, pixels, tile = _tiles(x)
    dz = torch.empty_like(x) if relu else dy
    sums = torch.zeros(trials, 2, channels, device=x.device)
    tiles = 8
    launch(
        kernels._bn_sums, (triton.cdiv(pixels, tile * tiles), trials),
        dy, x, dz, sums, norm.stats, norm.gamma, norm.beta, pixels, norm.count, *norm.strides,
        norm.gamma.stride(0), norm.beta.stride(0), channels, tile, relu, tiles,
    )  # fmt: skip
    return dz, sums


def bn_input(
    dz: torch.Tensor, x: torch.Tensor, sums: torch.Tensor, norm: Norm, add: torch.Tensor | None
) -> torch.Tensor:
    """Gradient of a batch norm's input, plus ``add``."""
    trials, channels, pixels, tile = _tiles(x)
    dx = torch.empty_like(x)
    launch(
        kernels._bn_input, (triton.cdiv(pixels, tile), trials),
        dz, x, dx, add if add is not None else dz, sums, norm.stats, norm.gamma, pixels,
        norm.count, *norm.strides, norm.gamma.stride(0), channels, tile, add is not None,
    )  # fmt: skip
    return dx
