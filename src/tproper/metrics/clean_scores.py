"""Scores against true classes: accuracy, log loss, Brier score and calibration error, computed in one place.

Arguments come as ``(labels, probabilities)`` like those of the weak scores; numpy, torch or lists. These are plain
numbers for tables and records; ``weak_*(labels, ..., tp.identity(K))`` gives the same ones with intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import FloatArray, checks
from ..errors import InputError

BINS = 15


@dataclass(frozen=True)
class Reliability:
    """Top-label confidence against accuracy, in bins of equal width that have examples."""

    confidence: FloatArray  # mean confidence of each bin
    accuracy: FloatArray
    count: FloatArray
    error: float  # expected calibration error


def _arrays(labels: Any, probabilities: Any) -> tuple[np.ndarray, FloatArray]:
    p = checks.array(probabilities, "probabilities").astype(np.float64)
    z = checks.array(labels, "labels")
    if p.ndim != 2 or z.shape != p.shape[:1] or not len(z):
        raise InputError(
            f"probabilities: expected shape (n, K) with one row for each of the labels, got {p.shape} and {z.shape}"
        )
    return checks.index_labels(z, p.shape[1]).numpy(), p


def reliability(labels: ArrayLike | Tensor, probabilities: ArrayLike | Tensor, bins: int = BINS) -> Reliability:
    """Reliability of probabilities (n, K) against true classes (n,), and ``ECE = sum_b n_b/n |conf_b - acc_b|``.

    Bins are left-open, ``(b/B, (b+1)/B]``, as in `weak_calibration`: a certain prediction is in the last one.
    """
    z, p = _arrays(labels, probabilities)
    bins = checks.integer(bins, "bins", 1)
    confidence, hit = p.max(axis=1), p.argmax(axis=1) == z
    if not np.isfinite(confidence).all():  # a model that diverged: its error is not a number, and no bin holds it
        nothing = np.empty(0)
        return Reliability(nothing, nothing, nothing, math.nan)
    place = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins).astype(np.float64)
    gap = np.bincount(place, hit - confidence, bins)
    used = count > 0
    conf = np.bincount(place, confidence, bins)[used] / count[used]
    acc = np.bincount(place, hit, bins)[used] / count[used]
    return Reliability(conf, acc, count[used], float(np.abs(gap).sum() / len(z)))


def clean_scores(
    labels: ArrayLike | Tensor, probabilities: ArrayLike | Tensor, *, floor: float = 0.0, bins: int = BINS
) -> dict[str, float]:
    """``accuracy``, ``log_loss``, ``brier`` and ``ece`` of probabilities (n, K), and how many true classes had less
    than `floor`: ``zeros``.

    In the log loss a probability below `floor` counts as `floor`; without one, a true class of probability 0
    makes it infinite.
    """
    z, p = _arrays(labels, probabilities)
    true = p[np.arange(len(z)), z]
    square = (p**2).sum(axis=1) - 2 * true + 1
    with np.errstate(divide="ignore"):
        log_loss = float(-np.log(np.maximum(true, floor)).mean())
    return {
        "accuracy": float((p.argmax(axis=1) == z).mean()),
        "log_loss": log_loss,
        "brier": float(square.mean()),
        "ece": reliability(z, p, bins).error,
        "zeros": int((true < floor).sum() if floor > 0 else (true == 0).sum()),
    }
