"""Several sources side by side (Appendix B): T = (w_1 T_1; w_2 T_2; ...)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import FloatArray, Labels, checks, tracing
from ..errors import InputError
from .annotators import common_names
from .base import Transition
from .dense import DenseTransition
from .posterior import drawn_parts
from .soft import SoftLabels


class StackedTransition(DenseTransition):
    """Several sources side by side (Appendix B): T = (w_1 T_1; w_2 T_2; ...).

    Labels are (source, label) pairs (n, 2), or indices of the stacked rows.
    """

    _label_kind = "pairs"

    def __init__(self, sources: Sequence[Transition], weights: FloatArray) -> None:
        self.sources: list[Transition] = list(sources)
        self.weights = weights
        blocks = [w * t.matrix() for w, t in zip(weights, sources, strict=True)]
        self.offsets = np.cumsum([0] + [len(b) for b in blocks])
        names = [(d, label) for d, t in enumerate(sources) for label in t.weak_labels]
        super().__init__(np.concatenate(blocks), weak_labels=names)
        self.name = f"multi_source of {len(blocks)}"
        self._classes = common_names(self.sources, "transitions")

    def encode(self, labels: Labels, device: torch.device | None = None, validate: bool = True) -> Tensor:
        """Stacked row indices; (source, label) pairs are turned into them."""
        if isinstance(labels, SoftLabels):
            return labels.of(self, device)
        pairs = labels if isinstance(labels, Tensor) else checks.array(labels, "labels")
        if pairs.ndim == 0 or pairs.shape[-1] != 2 or pairs.ndim < 2:
            return super().encode(labels, device, validate)
        source = checks.index_labels(pairs[..., 0], len(self.sources), "source", device, validate)
        label = checks.index_labels(pairs[..., 1], int(np.diff(self.offsets).max()), "label", device, validate)
        offsets = torch.as_tensor(self.offsets, device=source.device)
        if validate and tracing.readable(label):
            sizes = torch.diff(offsets)[source].reshape(-1)
            if bool((label.reshape(-1) >= sizes).any()):
                row = int((label.reshape(-1) >= sizes).nonzero()[0])
                d, y = int(source.reshape(-1)[row]), int(label.reshape(-1)[row])
                raise InputError(
                    f"labels: expected labels in [0, {int(sizes[row])}) from source {d}, got {y} at row {row}"
                )
        return offsets[source] + label

    @property
    def source_rows(self) -> tuple[NDArray[np.int64], FloatArray]:
        """One source below the other."""
        return self.offsets, self.weights

    def pairs(self, indices: ArrayLike) -> NDArray[np.int64]:
        """(source, label) pairs (n, 2) of stacked row indices."""
        rows = np.asarray(indices)
        source = np.searchsorted(self.offsets, rows, side="right") - 1
        return np.stack([source, rows - self.offsets[source]], axis=-1)

    def draws_of_posterior(self, count: int, seed: int | np.random.SeedSequence = 0) -> FloatArray | None:
        """Draws of the sources, one below the other."""
        parts = drawn_parts(self.sources, count, seed)
        if parts is None:
            return None
        return np.concatenate([w * T for w, T in zip(self.weights, parts, strict=True)], axis=1)
