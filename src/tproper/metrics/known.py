"""Labels beside true classes of some rows, as callers give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._core import Labels, checks
from ..errors import InputError
from ..transitions import Encoded, LabelSpace, Transition, form_of, settle, stand_in

MISSING = -1  # a label or a class that is not known


@dataclass
class Known:
    """What is known of rows: labels as columns of codes (-1: none), their class (-1: unknown), how both are read."""

    columns: NDArray[np.int64]  # (n, m)
    true: NDArray[np.int64]  # (n,)
    space: LabelSpace
    labels: Tensor  # encoded; where a row has no label they mean nothing

    @property
    def encoded(self) -> Encoded:
        """The labels, and which rows have none."""
        gaps = self.columns[:, 0] < 0
        return Encoded(self.labels, None if self.labels.ndim > 1 and self.labels.dtype != torch.bool else gaps)

    @property
    def classes(self) -> list[Any]:
        """The classes, by name or number."""
        return self.space.class_names

    @property
    def names(self) -> list[Any]:
        """Of the classes, for print."""
        return self.classes


def known_classes(labels: Labels, true: Any, transition: Transition | None) -> Known:
    """Labels and true classes, read by T, or, without one, by the names that both have in common."""
    if transition is None:
        table = checks.array(labels, "labels")
        if table.ndim not in (1, 2) or not table.size:
            raise InputError(f"labels: expected (n,) labels or (n, m) answers, got shape {table.shape}")
        form = form_of(labels, "labels")
        if form == "sets":
            raise InputError("labels: expected labels or answers without a transition, got candidate sets; give T")
        space = stand_in(labels, form, None, true, "labels")
    else:
        space = settle(labels, transition, true=true, argument="labels")
    encoded, missing = space.read(labels, "labels")
    columns = encoded.reshape(len(encoded), -1).cpu().numpy().astype(np.int64)
    columns[missing] = MISSING
    return Known(columns, space.known_classes(true, len(columns)), space, encoded.cpu())
