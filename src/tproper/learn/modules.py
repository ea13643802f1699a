"""The modules behind the estimator's model names, and the random numbers they are trained with."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from .._core import FloatArray, checks, seeded_torch


def linear_module(coef: FloatArray, intercept: FloatArray) -> nn.Linear:
    """An ``nn.Linear`` in float64 with the given weights (K, d) and intercepts (K,)."""
    module = empty_linear(coef.shape[1], coef.shape[0], torch.float64)
    with torch.no_grad():
        module.weight.copy_(torch.as_tensor(coef))
        module.bias.copy_(torch.as_tensor(intercept))
    return module


def empty_linear(inputs: int, outputs: int, dtype: torch.dtype) -> nn.Linear:
    """An ``nn.Linear`` that draws no random numbers: its constructor would take them from the caller's."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs, dtype=dtype, device=torch.get_default_device())
    return layer


def mlp_module(
    n_features: int, n_classes: int, hidden: int | Sequence[int], generator: torch.Generator | None = None
) -> nn.Sequential:
    """Linear layers with ReLU between them, with torch's usual initial weights; without a generator zeros."""
    widths = list(hidden) if isinstance(hidden, Iterable) else [hidden]
    sizes = [n_features, *(checks.integer(h, "hidden", 1) for h in widths), n_classes]
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layer = empty_linear(a, b, torch.float32)
        with torch.no_grad():
            for values in (layer.weight, layer.bias):
                values.zero_() if generator is None else values.uniform_(-(a**-0.5), a**-0.5, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def same_form(a: nn.Module, b: nn.Module) -> bool:
    """Whether one module's weights could be the other's: same names, shapes and types."""

    def form(module: nn.Module) -> dict[str, Any]:
        return {name: (tuple(t.shape), t.dtype) for name, t in module.state_dict().items()}

    return form(a) == form(b)


_TORCH_RANDOM = threading.Lock()  # all threads share torch's own random numbers


@contextmanager
def seeded(rng: Any, device: torch.device, shared: bool) -> Iterator[torch.Generator]:
    """A generator of one's own; with `shared`, torch's random numbers are seeded meanwhile too, and then put back.

    The user's modules draw their initial weights and dropout masks from torch's own generator, which all threads share:
    fits that need it take turns. "linear" and "mlp" do not.
    """
    seed = int(rng.randint(np.iinfo(np.int32).max))
    with ExitStack() as stack:
        if shared:
            stack.enter_context(_TORCH_RANDOM)
            stack.enter_context(seeded_torch(seed, device))
        yield torch.Generator().manual_seed(seed)
