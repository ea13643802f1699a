"""Data-parallel training whose losses see the global batch, with torch's own DistributedDataParallel.

DDP averages the gradients of its processes. That is the gradient of the global batch's loss only if every process has
as many examples, and never for losses that are not means over examples: the gradient-ascent and non-negative losses
take absolute values and positive parts of *class risks*, which must be those of the whole batch. `global_batch` turns
any loss into one of the global batch, exactly::

    loss = global_batch(tp.GradientAscentLoss(T))       # the same number on every process
    loss(ddp_model(x), labels).backward()               # after DDP's average: the gradient of that number

Start the script with ``torchrun --nproc-per-node=4 script.py`` (or inside Ray Train's workers, which set up the same
process group). Without a process group everything here is the plain loss in one process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .._core import FloatArray, Labels, checks, tracing
from ..errors import InputError
from ..losses import BatchRiskLoss, WeakLabelLoss

Group = Any  # torch.distributed.ProcessGroup, which builds of torch without it lack


def world_size(group: Group = None) -> int:
    """How many processes train together; 1 without a process group."""
    return dist.get_world_size(group) if dist.is_available() and dist.is_initialized() else 1


def rank(group: Group = None) -> int:
    """Which of them this is."""
    return dist.get_rank(group) if world_size(group) > 1 else 0


@contextmanager
def process_group(backend: str | None = None) -> Iterator[torch.device]:
    """Join the process group that torchrun announces, and leave it at the end; yields this process's device.

    `backend` is NCCL where there is a GPU for every process of the machine, gloo elsewhere. Outside torchrun nothing is
    joined.
    """
    local = int(os.environ.get("LOCAL_RANK", 0))
    cuda = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", local + 1))
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if "WORLD_SIZE" not in os.environ or dist.is_initialized():
        yield device
        return
    dist.init_process_group(backend or ("nccl" if cuda else "gloo"))
    try:
        yield device
    finally:
        dist.destroy_process_group()


class _SumOverProcesses(torch.autograd.Function):
    """Sum over the processes; backwards, the gradient times `factor`.

    What follows the sum is computed alike on every process, so the derivative with respect to this process's term is
    the incoming gradient as it is. DDP will divide the parameters' gradients by the number of processes: `factor`
    is that number, and undoes it.
    """

    @staticmethod
    def forward(ctx: Any, local: Tensor, factor: float, group: Group) -> Tensor:
        ctx.factor = factor
        out = local.clone()
        dist.all_reduce(out, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad * ctx.factor, None, None


class GlobalBatchLoss(nn.Module):
    """The loss of the batch that all processes hold together. See `global_batch`."""

    def __init__(self, loss: WeakLabelLoss, group: Group = None, averaged: bool = True) -> None:
        super().__init__()
        if not isinstance(loss, WeakLabelLoss):
            raise InputError(f"loss: expected a tproper loss, got {type(loss).__name__}")
        if loss.reduction == "none":
            raise InputError("loss: expected the reduction 'mean' or 'sum' for a global batch, got 'none'")
        self.loss = loss
        self.group = group
        self.averaged = averaged

    def forward(self, scores: Tensor, labels: Labels, weights: Tensor | None = None) -> Tensor:
        """The reduced loss of the global batch; a process may have any number of examples, none included."""
        world = world_size(self.group)
        if world == 1:
            out: Tensor = self.loss(scores, labels, weights)
            return out
        total, count = self._local(scores, labels, weights)
        packed = torch.cat([total.reshape(-1), count.reshape(1).to(total)])
        summed = _SumOverProcesses.apply(packed, float(world) if self.averaged else 1.0, self.group)
        total, count = summed[:-1], summed[-1].detach()
        # only a process without weight of its own can be in doubt, and all of them are where the sum is zero
        doubtful = weights is not None or scores.numel() == 0
        if doubtful and self.loss.validate and tracing.readable(count) and not bool(count > 0):
            raise InputError("weights: expected at least one example of weight > 0 in the global batch, got none")
        if isinstance(self.loss, BatchRiskLoss):
            reduced = self.loss._reduce((total / count)[None], None)  # one row: the class risks of the global batch
        else:
            reduced = total[0] / count if self.loss.reduction == "mean" else total[0]
        return reduced.to(scores.dtype)

    def _local(self, scores: Tensor, labels: Labels, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """This process's weighted sum of losses (1,), or of class-risk shares (K,), and its sum of weights."""
        loss, dtype = self.loss, torch.promote_types(scores.dtype, torch.float32)
        K = loss.transition.num_classes
        if scores.numel() == 0 and scores.shape[-1] == K:
            return self._nothing(scores, dtype)
        scores = checks.scores(scores, K).to(dtype)  # losses are summed over all processes: half precision would show
        rows = scores.shape[:-1].numel()
        if weights is None:
            losses = loss.evaluate(scores, labels)
            return losses.reshape(rows, -1).sum(0), losses.new_tensor(float(rows))
        if not bool(torch.as_tensor(weights).any()):
            # this process's weights may all be zero; those of all processes together may not
            return self._nothing(scores, dtype)
        losses = loss.evaluate(scores, labels, weights)
        return losses.reshape(rows, -1).sum(0), torch.as_tensor(weights).to(losses).sum().detach()

    def _nothing(self, scores: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """A sum of zero that keeps this process's parameters in the graph, which DDP waits for."""
        zero = torch.where(torch.ones_like(scores, dtype=torch.bool), 0.0, scores).sum().to(dtype)
        width = self.loss.transition.num_classes if isinstance(self.loss, BatchRiskLoss) else 1
        return zero.expand(width), zero.detach()

    def probabilities(self, scores: Tensor) -> Tensor:
        """Class probabilities by the loss's own link."""
        return self.loss.probabilities(scores)

    def lower_bounds(self) -> FloatArray:
        """The greatest lower bound for each weak label."""
        return self.loss.lower_bounds()

    def certify(self) -> Any:
        """Properness and boundedness, with evidence."""
        return self.loss.certify()

    def extra_repr(self) -> str:
        """For printing the module."""
        return f"processes={world_size(self.group)}"


def global_batch(loss: WeakLabelLoss, group: Group = None, averaged: bool = True) -> GlobalBatchLoss:
    """A loss of the global batch: the same value on every process, and after DDP's average its exact gradient.

    Parameters
    ----------
    loss : any tproper loss with the reduction "mean" or "sum"
        Means, and class risks, are over all examples of all processes, even if these have different numbers of them.
    group : process group, optional
        The processes that share a batch; all by default.
    averaged : bool
        Whether gradients will be averaged over the processes afterwards, as DDP and FSDP do; False if summed.
    """
    return GlobalBatchLoss(loss, group, averaged)


class GlobalBatches:
    """One epoch's batches of indices, shuffled alike on every process, each process getting its part of every batch.

    No example is repeated or left out to make parts equal (as samplers that pad do); parts differ by at most one.
    Iterating gives (index array of this process, size of the global batch).
    """

    def __init__(self, n: int, batch_size: int, seed: int, group: Group = None, drop_last: bool = False) -> None:
        self.n = checks.integer(n, "n", 1)
        self.batch_size = checks.integer(batch_size, "batch_size", 1)
        self.seed, self.group, self.drop_last = seed, group, drop_last
        self.epoch = 0

    def __len__(self) -> int:
        full, rest = divmod(self.n, self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[tuple[NDArray[np.int64], int]]:
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.n)
        self.epoch += 1
        parts, own = world_size(self.group), rank(self.group)
        for i in range(len(self)):
            batch = order[i * self.batch_size : (i + 1) * self.batch_size]
            yield np.array_split(batch, parts)[own], len(batch)


def fit(
    model: nn.Module,
    loss: WeakLabelLoss,
    X: Tensor,  # (n, ...), the whole training set or a view of it, alike on every process
    labels: Any,  # (n,) or (n, K), as the loss's transition takes them
    *,
    epochs: int,
    batch_size: int,
    optimizer: Callable[[Any], torch.optim.Optimizer],
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Callable[[int, float], None] = lambda epoch, value: None,
) -> nn.Module:
    """Train `model` in place on every process of the group (one, without torchrun); `batch_size` is the global one.

    Batches, their order and the losses are those of a single process with the same seed, so the weights agree up to
    rounding however many processes share the work.
    """
    device = torch.device(device)
    model.to(device).train()
    objective = global_batch(loss).to(device)
    encoded = loss.transition.encode(labels, validate=loss.validate)
    if len(encoded) != len(X):
        raise InputError(f"labels: expected one for each of the {len(X)} examples, got {len(encoded)}")
    wrapped: nn.Module = model
    if world_size() > 1:
        wrapped = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    steps = optimizer(model.parameters())
    batches = GlobalBatches(len(X), batch_size, seed)
    for epoch in range(epochs):
        value = torch.zeros((), device=device)
        for own, size in batches:
            rows = torch.as_tensor(own)
            steps.zero_grad(set_to_none=True)
            out = objective(wrapped(X[rows].to(device)), encoded[rows].to(device))
            out.backward()
            steps.step()
            value += out.detach() * size / len(X)
        progress(epoch, float(value))
    return model
