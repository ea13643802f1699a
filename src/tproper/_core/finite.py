"""Values that are not finite are refused where they arise: scores, probabilities, and weights after a step."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import InputError


class NonFiniteError(InputError):
    """Scores or probabilities that are not finite: the first such row, from 0, its value, and why it came about."""

    def __init__(self, row: int, value: float, cause: str) -> None:
        super().__init__(f"X: expected rows with finite scores, got {value} at row {row}: {cause}", row=row)
        self.row: int = row
        self.fact = f"{value}: {cause}"


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether every entry is finite, with one look at the device."""
    numbers = [t.detach() for t in tensors if t.is_floating_point() and t.numel()]
    return not numbers or bool(torch.isfinite(torch.nn.utils.get_total_norm(numbers, math.inf)))


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """What an optimizer keeps: an infinite moment of Adam's would end all learning in silence."""
    return [t for entries in optimizer.state.values() for t in entries.values() if isinstance(t, Tensor)]


def finite_rows(values: NDArray[Any], module: nn.Module, masks: bool = False) -> NDArray[Any]:
    """The same values (n, ...), one row per example; the first row that is not finite is refused, with the cause.

    With `masks` a score of minus infinity excludes a class, as long as the row has another one.
    """
    good = np.isfinite(values)
    if masks and not good.all():
        good = (good | np.isneginf(values)) & good.any(axis=-1, keepdims=True)
    if good.all():
        return values
    row = int((~good.reshape(len(values), -1).all(axis=1)).argmax())
    worst = values[row][~good[row]].flat[0] if values.ndim > 1 else values[row]
    if all_finite(module.state_dict().values()):
        raise NonFiniteError(row, worst, "its numbers are too large for the model")
    raise NonFiniteError(row, worst, "the model's weights are not finite; train it again")


class DivergedError(InputError):
    """Training diverged in a call of ``partial_fit``, which was undone."""

    def __init__(self, loss: float) -> None:
        super().__init__(
            f"loss: expected finite values and weights, got a step that diverged (loss {loss}); the model is as it was "
            "before this call; lower learning_rate, or rescale the features"
        )


class Before:
    """A learner as it was before a call that may diverge: its attributes, and the content of what is added to them."""

    def __init__(self, learner: Any) -> None:
        self.learner, self.attributes = learner, dict(vars(learner))
        self.contents: list[tuple[Any, Any]] = []

    def add(self, *parts: Any) -> None:
        """Modules, optimizers and random number generators, before they change."""
        for part in parts:
            if isinstance(part, nn.Module):
                self.contents += [(t, t.detach().clone()) for t in part.state_dict().values()]
            elif isinstance(part, torch.optim.Optimizer):
                self.contents.append((part, copy.deepcopy(part.state_dict())))
            else:
                self.contents.append((part, part.get_state()))

    def check(self, loss: float) -> None:
        """Go back, and say so, unless the loss, the weights and what the optimizer keeps are finite now."""
        tensors: list[Tensor] = []
        for part, _ in self.contents:
            if isinstance(part, Tensor):
                tensors.append(part)
            elif isinstance(part, torch.optim.Optimizer):
                tensors += optimizer_tensors(part)
        if not math.isfinite(loss) or not all_finite(tensors):
            self.restore()
            raise DivergedError(loss)

    def restore(self) -> None:
        """Go back."""
        for part, content in self.contents:
            if isinstance(part, Tensor):
                part.detach().copy_(content)
            elif isinstance(part, torch.optim.Optimizer):
                part.load_state_dict(content)
            else:
                part.set_state(content)
        vars(self.learner).clear()
        vars(self.learner).update(self.attributes)
