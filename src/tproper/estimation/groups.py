"""Groups of examples that a model predicts alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core import FloatArray
from .views import Index


@dataclass(frozen=True)
class Group:
    """Examples that a model predicts alike."""

    rows: Index
    predicted: int  # -1: those of classes that are predicted too rarely
    low: float
    high: float
    mean: FloatArray  # (K,) of the predicted probabilities

    def __str__(self) -> str:
        who = f"predicted class {self.predicted}" if self.predicted >= 0 else "predicted as rare classes"
        return f"the {len(self.rows)} examples {who} with confidence {self.low:.2f} to {self.high:.2f}"


def make_groups(p: FloatArray, features: int) -> list[Group]:
    """Examples by predicted class, and within it by confidence; labels have no part in it."""
    K = p.shape[1]
    least = max(50, 5 * min(features, 20))
    most = max(2, 20 // K) if K <= 20 else 1
    groups, rest = [], []
    for z, rows in enumerate(_by_confidence(p)):
        if len(rows) < least:
            rest.append(rows)
        else:
            groups += [_group(part, z, p) for part in np.array_split(rows, min(most, len(rows) // least))]
    left = np.concatenate([*rest, np.zeros(0, dtype=np.int64)])
    return [*groups, _group(left, -1, p)] if len(left) >= 20 else groups


def surest(p: FloatArray) -> list[Group]:
    """Of each class that is predicted often enough, the quarter with the highest confidence."""
    return [_group(r[-max(50, len(r) // 4) :], z, p) for z, r in enumerate(_by_confidence(p)) if len(r) >= 50]


def _by_confidence(p: FloatArray) -> list[Index]:
    """The rows predicted as each class, the least sure first."""
    order = np.argsort(p.max(axis=1), kind="stable")
    top = p.argmax(axis=1)[order]
    return [order[top == z] for z in range(p.shape[1])]


def _group(rows: Index, predicted: int, p: FloatArray) -> Group:
    confidence = p[rows].max(axis=1)
    return Group(rows, predicted, confidence.min(), confidence.max(), p[rows].mean(axis=0))
