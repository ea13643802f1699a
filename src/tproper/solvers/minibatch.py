"""Minibatch steps for networks, with early stopping by the weak risk."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor, nn

from .._core import all_finite, tell
from ..errors import InputError
from ..losses import WeakLabelLoss
from ..transitions import Transition, as_given
from .linear import has_pointwise
from .temperature import calibrated_risks, not_clearly_worse


@dataclass
class Steps:
    """Settings of minibatch training, its optimizer, and a record of every epoch."""

    learning_rate: float
    l2: float
    batch_size: int
    generator: torch.Generator
    optimizer: torch.optim.Optimizer | None = None
    history: list[dict[str, float]] = field(default_factory=list)


def make_optimizer(module: nn.Module, learning_rate: float, l2: float) -> torch.optim.Optimizer:
    """Adam; its `weight_decay` adds ``l2 W`` to the gradient, that of the penalty. Biases and norms are left alone."""
    weights = [p for p in module.parameters() if p.requires_grad and p.ndim > 1]
    others = [p for p in module.parameters() if p.requires_grad and p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": l2}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.Adam([g for g in groups if g["params"]], lr=learning_rate)


class Rows:
    """Rows of X as tensors: a dense array goes to the device once, sparse rows are made dense batch by batch."""

    def __init__(self, X: Any, dtype: torch.dtype, device: torch.device) -> None:
        self.device, self.dtype = device, dtype
        self.sparse = X.tocsr() if issparse(X) else None
        self.dense: Any = None
        if not issparse(X):  # pandas lends read-only arrays, which torch cannot share
            self.dense = torch.as_tensor(X if X.flags.writeable else X.copy(), dtype=dtype).to(device)

    def __len__(self) -> int:
        return (self.dense if self.sparse is None else self.sparse).shape[0]

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        if self.sparse is None:
            out: Tensor = self.dense[rows]
            return out
        index = rows if isinstance(rows, slice) else rows.cpu().numpy()
        return torch.as_tensor(self.sparse[index].toarray(), dtype=self.dtype).to(self.device)


def train_epoch(
    module: nn.Module, loss: nn.Module, X: Rows, labels: Tensor, weights: Tensor | None, steps: Steps
) -> float:
    """One pass over the data in random order. Returns the mean loss. Batches differ in size by at most one row."""
    assert steps.optimizer is not None
    module.train()
    n = len(X)
    order = torch.randperm(n, generator=steps.generator).to(X.device)
    batches = torch.tensor_split(order, max(1, math.ceil(n / steps.batch_size)))
    total = torch.zeros((), dtype=torch.float64, device=X.device)
    for rows in batches:
        steps.optimizer.zero_grad(set_to_none=True)
        value = batch_loss(loss, module(X[rows]), labels[rows], None if weights is None else weights[rows])
        value.backward()
        steps.optimizer.step()
        total += value.detach().double() * len(rows)
    return float(total) / n


def batch_loss(loss: nn.Module, scores: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    """The loss of a batch. Weights have mean one over the whole data, so a batch's weights need not."""
    if has_pointwise(loss):
        losses: Tensor = loss.per_example(scores, labels, weights)  # type: ignore[operator]
        return losses.mean()
    if isinstance(loss, WeakLabelLoss):
        total: Tensor = loss(scores, as_given(labels), weights)
        return total
    if weights is not None:
        raise InputError(
            f"sample_weight: expected None with a loss of type {type(loss).__name__}, which takes no weights"
        )
    value = loss(scores, labels)
    return value if value.ndim == 0 else value.mean()


def weak_risks(transition: Transition, scores: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[Tensor, float]:
    """What early stopping watches: ``-log (T p)_y`` of each held-out row at the best temperature; and that temperature.

    Networks become overconfident long before they rank the classes any worse, and the raw risk would stop them then.
    """
    w = None if weights is None else weights.double().cpu().numpy()
    risks, scale = calibrated_risks(scores.double().cpu().numpy(), labels.cpu(), transition, w)
    return torch.as_tensor(risks), 1.0 / scale


@dataclass
class Keeper:
    """The weights of the last epoch whose held-out weak risk is not clearly above the least (`not_clearly_worse`)."""

    weights: Tensor | None  # of the held-out rows
    least: float = math.inf
    rows: Tensor | None = None  # risks of the held-out rows where their mean was least
    state: dict[str, Tensor] | None = None

    def take(self, module: nn.Module, rows: Tensor) -> float:
        """Take an epoch into account; returns its mean risk."""
        w = None if self.weights is None else self.weights.double().cpu()
        risk = float(np.average(rows.numpy(), weights=None if w is None else w.numpy()))
        falls = risk < self.least
        if falls or (self.rows is not None and bool(not_clearly_worse(rows, self.rows, w))):
            self.state = copy.deepcopy(module.state_dict())
        if falls:
            self.least, self.rows = risk, rows
        return risk


def scores_of(module: nn.Module, X: Rows, block: int = 4096) -> Tensor:
    """Scores in evaluation mode, block by block."""
    module.eval()
    with torch.no_grad():
        return torch.cat([module(X[i : i + block]) for i in map(int, range(0, len(X), block))])


def fit_minibatch(
    module: nn.Module,
    loss: nn.Module,
    X: Rows,
    labels: Tensor,
    weights: Tensor | None,
    steps: Steps,
    epochs: int,
    held_out: tuple[Rows, Tensor, Tensor | None] | None,
    patience: int,
    tol: float,
    transition: Transition,
    verbose: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> int:
    """Adam with a cosine schedule for at most `epochs` passes; returns how many there were.

    With `held_out` data the module ends with the weights of the last epoch whose weak risk there is within one standard
    error of the least (`Keeper`). After `patience` epochs without an improvement by `tol`, the rest of the schedule is
    run in as many epochs, starting from the weights kept so far: those after full steps jump about the minimum.
    """
    steps.optimizer = make_optimizer(module, steps.learning_rate, steps.l2)
    keeper, waited = Keeper(None if held_out is None else held_out[2]), 0
    end, pace, done, cooling = epochs, 1.0, 0.0, False  # `done`: how far the schedule of `epochs` has come
    for epoch in range(epochs):
        for group in steps.optimizer.param_groups:
            group["lr"] = steps.learning_rate * 0.5 * (1 + math.cos(math.pi * done / epochs))
        done += pace
        record = {"loss": train_epoch(module, loss, X, labels, weights, steps)}
        if not math.isfinite(value := record["loss"]) or not all_finite(module.parameters()):
            raise InputError(f"loss: expected finite values, got {value} in epoch {epoch}; lower learning_rate")
        if held_out is not None:
            Xv, yv, wv = held_out
            rows, record["temperature"] = weak_risks(transition, scores_of(module, Xv), yv, wv)
            least = keeper.least
            record["weak_risk"] = keeper.take(module, rows)
        steps.history.append(record)
        progress((epoch + 1) / end)
        tell(__name__, f"epoch {epoch + 1:4d}  " + "  ".join(f"{k} {v:.6g}" for k, v in record.items()), verbose)
        if held_out is None:
            continue
        waited = 0 if record["weak_risk"] < least - tol else waited + 1
        if waited >= patience and not cooling:
            cooling, end = True, min(epochs, epoch + 1 + patience)
            pace = (epochs - done) / max(end - epoch - 1, 1)
            if keeper.state is not None:
                module.load_state_dict(keeper.state)
        if epoch + 1 >= end:
            break
    if keeper.state is not None:
        module.load_state_dict(keeper.state)
    return len(steps.history)
