"""The residual nets on a GPU: S trials in one pass, convolutions and batch norms fused (Triton).

``FusedResidualNet`` computes what ``tproper_lab.models.ResidualNet`` computes, in bfloat16 with float32
weights, statistics and sums, or in float32 throughout. Each autograd function below is a piece of the
network with its backward pass written out; the batch norm's statistics come from
the epilogue of the convolution before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tproper.errors import InputError

from . import launches
from .launches import Norm
from .models import Block, ResidualNet, Tensors, fresh

CHANNELS = 16  # the image's channels are padded to this, with zeros


class _Stem(torch.autograd.Function):
    """y = conv(x)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, sums: torch.Tensor | None) -> Any:
        ctx.save_for_backward(x)
        return launches.conv(x, w.to(x.dtype).contiguous(), sums=sums)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return None, launches.conv_weight(x, dy.contiguous(), 3, 1), None


class _Block(torch.autograd.Function):
    """y = carried + conv(relu(bn(conv(relu(bn(x)))))); carried is x where it is None."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, carried: torch.Tensor | None, stride: int,
        before: tuple[torch.Tensor, float], middle: tuple[torch.Tensor, float, bool],
        after: torch.Tensor | None, gamma1: torch.Tensor, beta1: torch.Tensor, w1: torch.Tensor,
        gamma2: torch.Tensor, beta2: torch.Tensor, w2: torch.Tensor,
    ) -> Any:  # fmt: skip
        w1, w2 = w1.to(x.dtype).contiguous(), w2.to(x.dtype).contiguous()
        norm1 = Norm(*before, gamma1, beta1)
        a1 = launches.bn(x, norm1, relu=True)
        h = launches.conv(a1, w1, stride, sums=middle[0] if middle[2] else None)
        norm2 = Norm(middle[0], middle[1], gamma2, beta2)
        a2 = launches.bn(h, norm2, relu=True)
        y = launches.conv(a2, w2, add=x if carried is None else carried, sums=after)
        ctx.save_for_backward(x, a1, h, a2, w1, w2)
        ctx.norms, ctx.stride, ctx.identity = (norm1, norm2), stride, carried is None
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:
        x, a1, h, a2, w1, w2 = ctx.saved_tensors
        norm1, norm2 = ctx.norms
        dy = dy.contiguous()
        dw2 = launches.conv_weight(a2, dy, 3, 1)
        dz2, sums2 = launches.conv_input(dy, w2, 1, h, norm2)
        dh = launches.bn_input(dz2, h, sums2, norm2, None)
        dw1 = launches.conv_weight(a1, dh, 3, ctx.stride)
        dz1, sums1 = launches.conv_input(dh, w1, ctx.stride, x, norm1)
        dx = launches.bn_input(dz1, x, sums1, norm1, dy if ctx.identity else None)
        carried = None if ctx.identity else dy
        return (
            dx, carried, None, None, None, None,
            sums1[:, 1], sums1[:, 0], dw1, sums2[:, 1], sums2[:, 0], dw2,
        )  # fmt: skip


class _Shortcut(torch.autograd.Function):
    """y = bn(conv1x1(x)), and x itself: the block's gradient comes back through here, to be added on the way."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, stride: int, middle: tuple[torch.Tensor, float, bool],
        w: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor,
    ) -> Any:  # fmt: skip
        w = w.to(x.dtype).contiguous()
        h = launches.conv(x, w, stride, sums=middle[0] if middle[2] else None)
        norm = Norm(middle[0], middle[1], gamma, beta)
        ctx.save_for_backward(x, h, w)
        ctx.norm, ctx.stride = norm, stride
        return launches.bn(h, norm, relu=False), x.view_as(x)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor, through: torch.Tensor) -> Any:
        x, h, w = ctx.saved_tensors
        dy = dy.contiguous()
        dz, sums = launches.bn_sums(dy, h, ctx.norm, relu=False)
        dh = launches.bn_input(dz, h, sums, ctx.norm, None)
        dw = launches.conv_weight(x, dh, 1, ctx.stride)
        dx, _ = launches.conv_input(dh, w, ctx.stride, x, None, add=through.contiguous())
        return dx, None, None, dw, sums[:, 1], sums[:, 0]


class _Pool(torch.autograd.Function):
    """y = mean over pixels of relu(bn(x)), in float32."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, before: tuple[torch.Tensor, float], gamma: torch.Tensor,
        beta: torch.Tensor,
    ) -> Any:  # fmt: skip
        ctx.norm = Norm(*before, gamma, beta)
        ctx.save_for_backward(x)
        return launches.bn(x, ctx.norm, relu=True).mean(dim=(2, 3), dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        share = dy / (x.shape[2] * x.shape[3])
        spread = share[:, :, None, None, :].to(x.dtype).expand(x.shape).contiguous()
        dz, sums = launches.bn_sums(spread, x, ctx.norm, relu=True)
        return launches.bn_input(dz, x, sums, ctx.norm, None), None, sums[:, 1], sums[:, 0]


class FusedResidualNet:
    """A stack of residual nets; see ``tproper_lab.models.StackedModel``.

    Its state is the module's, in the kernels' layout: convolution weights are (side, side, in, out),
    and all running statistics are two vectors, ``running_mean`` and ``running_var``.
    """

    eval_images = 1 << 13
    momentum = 0.1

    def __init__(self, build: Callable[[], nn.Module], dtype: torch.dtype = torch.bfloat16):
        self.build, self.dtype = build, dtype
        self.inputs: tuple[int, torch.dtype] | None = (CHANNELS, dtype)
        self.exact = dtype == torch.float32
        module = build()
        if not isinstance(module, ResidualNet):
            raise InputError(f"expected a ResidualNet, got {type(module).__name__}")
        self.module = module
        self.places: dict[str, slice] = {}
        start = 0
        for name, part in module.named_modules():
            if isinstance(part, nn.BatchNorm2d):
                self.places[name] = slice(start, start + part.num_features)
                start += part.num_features
        self.total = start
        self.counts: dict[tuple[Any, ...], torch.Tensor] = {}

    def initial(self, seed: int) -> tuple[Tensors, Tensors]:
        """The module's fresh state, in the kernels' layout."""
        module = fresh(self.build, seed)
        weights = {}
        for name, p in module.named_parameters():
            t = p.detach().permute(2, 3, 1, 0) if p.dim() == 4 else p.detach()
            if name == "stem.weight":  # (3, 3, 3, 16) -> (3, 3, 16, 16); the images are padded alike
                t = nn.functional.pad(t, (0, 0, 0, CHANNELS - t.shape[2]))
            weights[name] = t.clone()
        mean, var = torch.zeros(self.total), torch.ones(self.total)
        return weights, {"running_mean": mean, "running_var": var}

    def scores(self, weights: Tensors, buffers: Tensors, x: torch.Tensor, train: bool) -> torch.Tensor:
        """Scores of every trial; x is (S, n, H, W, C)."""
        trials = x.shape[0]
        images = x
        if (x.shape[-1], x.dtype) != self.inputs:
            images = x.new_zeros((*x.shape[:-1], CHANNELS), dtype=self.dtype)
            images[..., : x.shape[-1]] = x
        counts: dict[str, float] = {}
        mean, var = buffers["running_mean"], buffers["running_var"]
        if train:
            stats = torch.zeros(trials, 2, self.total, device=x.device)
        else:  # as if summed over one value: the mean, and the mean square
            stats = torch.stack([mean, var + mean * mean], dim=1)

        def sums(name: str) -> torch.Tensor | None:
            return stats[:, :, self.places[name]] if train else None

        def known(name: str, pixels: int) -> tuple[torch.Tensor, float]:
            counts[name] = float(pixels) if train else 1.0
            return stats[:, :, self.places[name]], counts[name]

        def norm(name: str) -> tuple[torch.Tensor, torch.Tensor]:
            return weights[f"{name}.weight"], weights[f"{name}.bias"]

        names = [f"blocks.{i}" for i in range(len(self.module.blocks))]
        following = [f"{name}.bn1" for name in names[1:]] + ["bn"]
        y = _Stem.apply(images, weights["stem.weight"], sums("blocks.0.bn1"))
        for name, block, after in zip(names, self.module.blocks, following, strict=True):
            assert isinstance(block, Block)
            stride = block.conv1.stride[0]
            before = y.shape[1] * y.shape[2] * y.shape[3]
            inner = before // (stride * stride)
            carried = None
            if block.shortcut is not None:
                carried, y = _Shortcut.apply(
                    y, stride, (*known(f"{name}.shortcut.1", inner), train),
                    weights[f"{name}.shortcut.0.weight"], *norm(f"{name}.shortcut.1"),
                )  # fmt: skip
            y = _Block.apply(
                y, carried, stride, known(f"{name}.bn1", before),
                (*known(f"{name}.bn2", inner), train), sums(after),
                *norm(f"{name}.bn1"), weights[f"{name}.conv1.weight"],
                *norm(f"{name}.bn2"), weights[f"{name}.conv2.weight"],
            )  # fmt: skip
        pixels = y.shape[1] * y.shape[2] * y.shape[3]
        pooled = _Pool.apply(y, known("bn", pixels), *norm("bn"))
        if train:
            self._track(stats, counts, mean, var)
        weight, bias = weights["head.weight"], weights["head.bias"]
        return torch.baddbmm(bias[:, None, :], pooled, weight.transpose(1, 2))

    def _track(self, stats: torch.Tensor, counts: dict[str, float], mean: torch.Tensor, var: torch.Tensor) -> None:
        """Running statistics as torch.nn.BatchNorm2d keeps them (variance unbiased)."""
        key = (stats.device, *counts.values())
        if key not in self.counts:  # made before a graph is captured: it copies from the host
            per_channel = torch.empty(self.total)
            for name, place in self.places.items():
                per_channel[place] = counts[name]
            self.counts[key] = per_channel.to(stats.device)
        count = self.counts[key]
        batch_mean = stats[:, 0] / count
        batch_var = (stats[:, 1] / count - batch_mean**2).clamp_min(0) * (count / (count - 1))
        mean.lerp_(batch_mean, self.momentum)
        var.lerp_(batch_var, self.momentum)
