"""How a stack of trials computes a model's scores: the form that suits the device."""

from __future__ import annotations

import torch
from torch import nn

from tproper.errors import InputError

from .models import (
    BUILDERS,
    FLAT_MODELS,
    KERNELS,
    StackedDense,
    StackedModel,
    StackedNetwork,
    builder_of,
    model_names,
)

try:  # the residual nets fused; exist where Triton does
    from .fused import FusedResidualNet
except ImportError:
    FusedResidualNet = None  # type: ignore[assignment, misc]


def stacked(
    name: str, shape: tuple[int, ...], num_classes: int, device: torch.device, kernels: str = "auto"
) -> StackedModel:
    """The stacked form of a model that suits the device.

    ``kernels`` chooses how the residual nets run on a GPU: ``"triton"`` (fused kernels, trials
    stacked), ``"compile"`` (torch.compile, trials one after another), ``"plain"``, ``"float32"`` (nothing in fewer
    bits, to check the others by: the fused kernels where Triton is, else plain), or ``"auto"``.
    """
    if name not in model_names():
        raise InputError(f"expected a model among {', '.join(model_names())}, got {name!r}")
    if kernels not in KERNELS:
        raise InputError(f"expected kernels to be one of {', '.join(KERNELS)}, got {kernels!r}")

    def build() -> nn.Module:
        return builder_of(name)(shape, num_classes)

    if name in FLAT_MODELS:
        return StackedDense(build, exact=kernels == "float32")
    fused = device.type == "cuda" and FusedResidualNet is not None and name in BUILDERS
    if kernels == "auto":
        kernels = "triton" if fused else "plain"
    if (kernels == "triton" and name in BUILDERS) or (kernels == "float32" and fused):
        return FusedResidualNet(build, torch.float32 if kernels == "float32" else torch.bfloat16)
    return StackedNetwork(build, compiled=kernels == "compile", exact=kernels == "float32")
