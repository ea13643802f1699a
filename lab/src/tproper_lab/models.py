"""The paper's four models, and how a stack of trials computes their scores.

The modules are plain PyTorch. ``stacking.stacked`` wraps one of them so that the weights of S trials
carry a leading axis: linear and MLP become batched matrix products, the residual nets either run one
after another or, on a GPU with Triton, through the fused kernels of ``tproper_lab.fused``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import nn
from torch.nn import functional

from tproper.extension import seeded_torch

from . import outside

Tensors = dict[str, torch.Tensor]


class Block(nn.Module):
    """Pre-activation residual block: ``x + conv(relu(bn(conv(relu(bn(x))))))``.

    The shortcut is a 1x1 convolution and a batch norm where the shape changes, else the identity.
    """

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, padding=1, bias=False)
        self.shortcut: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output.  # (n, C, H, W) -> (n, C', H', W')"""
        carried = x if self.shortcut is None else self.shortcut(x)
        x = self.conv1(functional.relu(self.bn1(x)))
        return carried + self.conv2(functional.relu(self.bn2(x)))


class ResidualNet(nn.Module):
    """Stem of 16 channels, three stages of 16w, 32w, 64w channels, BN-ReLU-mean-linear."""

    def __init__(self, num_classes: int, blocks: int, width: int, in_channels: int = 3):
        super().__init__()
        self.stem = nn.Conv2d(in_channels, 16, 3, padding=1, bias=False)
        stages: list[nn.Module] = []
        channels = 16
        for stage, outputs in enumerate((16 * width, 32 * width, 64 * width)):
            for block in range(blocks):
                stages.append(Block(channels, outputs, 2 if stage and block == 0 else 1))
                channels = outputs
        self.blocks = nn.ModuleList(stages)
        self.bn = nn.BatchNorm2d(channels)
        self.head = nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores.  # (n, C, H, W) -> (n, K)"""
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(functional.relu(self.bn(x)).mean(dim=(2, 3)))


def linear(inputs: int, num_classes: int) -> nn.Module:
    """One affine map."""
    return nn.Sequential(nn.Linear(inputs, num_classes))


def mlp(inputs: int, num_classes: int) -> nn.Module:
    """One hidden layer of 500 with ReLU."""
    return nn.Sequential(nn.Linear(inputs, 500), nn.ReLU(), nn.Linear(500, num_classes))


def _flat(make: Callable[[int, int], nn.Module]) -> Callable[[tuple[int, ...], int], nn.Module]:
    return lambda shape, classes: make(shape[0] * shape[1] * shape[2], classes)


#: name -> (image shape (H, W, C), classes) -> module
BUILDERS: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {
    "linear": _flat(linear),
    "mlp": _flat(mlp),
    "resnet20": lambda shape, classes: ResidualNet(classes, 3, 1, shape[2]),
    "wrn28_2": lambda shape, classes: ResidualNet(classes, 4, 2, shape[2]),
}


def model_names() -> tuple[str, ...]:
    """The names of all models, those of other packages (entry points ``tproper.models``) included."""
    return outside.names("models", tuple(BUILDERS))


def builder_of(name: str) -> Callable[[tuple[int, ...], int], nn.Module]:
    """The function ``((H, W, C), classes) -> module`` of a model; the module takes images (n, C, H, W)."""
    return BUILDERS[name] if name in BUILDERS else outside.loaded("models", name)


FLAT_MODELS = ("linear", "mlp")
KERNELS = ("auto", "triton", "compile", "plain", "float32")


class StackedModel(Protocol):
    """S copies of one model, computed together."""

    #: How many images one evaluation pass may hold, over all trials.
    eval_images: int
    #: Channels and dtype inputs are brought to, if they do not come so; None: taken as they are.
    inputs: tuple[int, torch.dtype] | None
    #: Whether everything is computed in float32.
    exact: bool

    def initial(self, seed: int) -> tuple[Tensors, Tensors]:
        """Fresh parameters and buffers of one trial, on the CPU."""
        ...

    def scores(self, weights: Tensors, buffers: Tensors, x: torch.Tensor, train: bool) -> torch.Tensor:
        """Scores of every trial; x is (S, n, H, W, C), the result (S, n, K)."""
        ...


def fresh(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A module with the initial weights of a seed; the caller's generator stays untouched."""
    with seeded_torch(seed):
        return build()


def split_state(module: nn.Module) -> tuple[Tensors, Tensors]:
    """A module's parameters and its floating-point buffers, copied."""
    weights = {name: p.detach().clone() for name, p in module.named_parameters()}
    buffers = {n: b.detach().clone() for n, b in module.named_buffers() if b.is_floating_point()}
    return weights, buffers


class _FromModule:
    """A stack whose state is that of the module as PyTorch lays it out."""

    inputs: tuple[int, torch.dtype] | None = None

    def __init__(self, build: Callable[[], nn.Module], exact: bool):
        self.build, self.exact = build, exact

    def initial(self, seed: int) -> tuple[Tensors, Tensors]:
        """Fresh parameters and buffers of one trial."""
        return split_state(fresh(self.build, seed))


class StackedDense(_FromModule):
    """Linear and MLP stacks: one ``baddbmm`` per layer over the trial axis."""

    eval_images = 1 << 17

    def __init__(self, build: Callable[[], nn.Module], exact: bool = False):
        super().__init__(build, exact)
        names = [name for name, _ in build().named_parameters()]
        self.layers = [name.removesuffix(".weight") for name in names if name.endswith(".weight")]

    def scores(self, weights: Tensors, buffers: Tensors, x: torch.Tensor, train: bool) -> torch.Tensor:
        """Scores of every trial; x is (S, n, H, W, C)."""
        x = x.flatten(2)  # (S, n, D)
        for i, layer in enumerate(self.layers):
            x = functional.relu(x) if i else x
            weight, bias = weights[f"{layer}.weight"], weights[f"{layer}.bias"]
            x = torch.baddbmm(bias[:, None, :], x, weight.transpose(1, 2))
        return x


class StackedNetwork(_FromModule):
    """Any module, its trials one after another; channels-last, and on a GPU in bf16 unless ``exact``.

    Buffers (batch-norm statistics) are updated in place, slice by slice. ``compiled`` compiles the
    module once; all trials share the compiled code.
    """

    eval_images = 1 << 13

    def __init__(self, build: Callable[[], nn.Module], compiled: bool = False, exact: bool = False):
        super().__init__(build, exact)
        self.module = build()
        self.forward = torch.compile(self._forward) if compiled else self._forward

    def _forward(self, state: Tensors, x: torch.Tensor) -> torch.Tensor:
        half = torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda and not self.exact)
        with half, torch.backends.cudnn.flags(enabled=True, allow_tf32=not self.exact):
            return torch.func.functional_call(self.module, state, (x,))

    def scores(self, weights: Tensors, buffers: Tensors, x: torch.Tensor, train: bool) -> torch.Tensor:
        """Scores of every trial; x is (S, n, H, W, C)."""
        self.module.train(train)
        out = []
        for s in range(x.shape[0]):
            state = {n: t[s] for n, t in weights.items()} | {n: t[s] for n, t in buffers.items()}
            out.append(self.forward(state, x[s].permute(0, 3, 1, 2)).float())
        return torch.stack(out)
