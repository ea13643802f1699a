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
    top, confidence = p.argmax(axis=1), p.max(axis=1)
    least = max(50, 5 * min(features, 20))
    most = max(2, 20 // K) if K <= 20 else 1
    groups, rest = [], []
    for z in range(K):
        rows = np.flatnonzero(top == z)
        if len(rows) < least:
            rest.append(rows)
            continue
        rows = rows[np.argsort(confidence[rows], kind="stable")]
        parts = np.array_split(rows, min(most, len(rows) // least))
        groups += [Group(part, z, confidence[part[0]], confidence[part[-1]], p[part].mean(axis=0)) for part in parts]
    left = np.concatenate(rest) if rest else np.zeros(0, dtype=np.int64)
    if len(left) >= 20:
        groups.append(Group(left, -1, confidence[left].min(), confidence[left].max(), p[left].mean(axis=0)))
    return groups


def surest(p: FloatArray) -> list[Group]:
    """Of each class that is predicted often enough, the quarter with the highest confidence."""
    top, confidence = p.argmax(axis=1), p.max(axis=1)
    out = []
    for z in range(p.shape[1]):
        rows = np.flatnonzero(top == z)
        if len(rows) >= 50:
            rows = rows[np.argsort(confidence[rows], kind="stable")][-max(50, len(rows) // 4) :]
            out.append(Group(rows, z, confidence[rows[0]], confidence[rows[-1]], p[rows].mean(axis=0)))
    return out
