"""Posteriors tempered until they are calibrated on the items of known class, each predicted without its own class.

    P'  =  (1 - e) softmax(t log P + k log V)  +  e shares

V being the smoothed votes of the item: t below 1 for evidence that was counted more than once, e for items on which the
sources fail together (hard ones), which no evidence makes sure. t, k and e are the likeliest on the known items, drawn
to 1, 0 and 0 by as much as a few of them say; where they gain less than chance would, nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray
from .dawid_skene import Crowd, Fit, normalised
from .rules import Rules

FEWEST = 20  # items of known class
GAIN = 3.0  # of log likelihood: one for each number that is fitted
LEAST = 1e-12


@dataclass(frozen=True)
class Tempering:
    """How posteriors were changed."""

    temper: float  # t
    votes: float  # k
    lapse: float  # e
    items: int  # of known class
    gain: float  # of their log likelihood

    def __str__(self) -> str:
        return (
            f"posteriors were tempered by {self.items} items of known class, each predicted without it: log odds times "
            f"{self.temper:.2f}{f', votes times {self.votes:.2f} added' if abs(self.votes) > 0.01 else ''}, and "
            f"{self.lapse:.0%} of the items taken to be out of the sources' reach (log likelihood +{self.gain:.0f})"
        )

    def of(self, P: FloatArray, votes: FloatArray, shares: FloatArray) -> FloatArray:
        """Posteriors (n, K) of items with smoothed votes (n, K)."""
        return _changed(np.array([self.temper, self.votes, self.lapse]), P, votes, shares)


def _changed(x: FloatArray, P: FloatArray, votes: FloatArray, shares: FloatArray) -> FloatArray:
    scores = x[0] * np.log(np.maximum(P, LEAST)) + x[1] * np.log(votes)
    return (1 - x[2]) * normalised(scores)[1] + x[2] * shares


def smoothed_votes(crowd: Crowd) -> FloatArray:
    """Shares (n, K) of the votes, one added to each class."""
    V = crowd.given()[:, : crowd.num_classes].astype(np.float64) + 1.0
    return V / V.sum(axis=1, keepdims=True)


def without_own(fit: Fit, items: NDArray[np.int64]) -> FloatArray:
    """The evidence of items (n, K) by T without the item's own share in it."""
    crowd = fit.crowd
    if isinstance(fit, Rules):  # one item hardly moves the form that all rules share
        return fit.evidence[items].astype(np.float64)
    place, column = crowd.of(items)
    who, answer = np.divmod(column, crowd.num_answers)
    own, before = fit.P[items][place].astype(np.float64), fit.before
    total = (fit.counts.sum(axis=1) + before.sum(axis=1))[who]  # (N, K)
    logs = np.log(np.maximum(fit.counts[who, answer] + before[who, answer] - own, LEAST))
    logs -= np.log(np.maximum(total - own, LEAST))
    out = np.zeros((len(items), crowd.num_classes))
    np.add.at(out, place, logs)
    return out


def tempering(P: FloatArray, votes: FloatArray, known: NDArray[np.int64], shares: FloatArray) -> Tempering | None:
    """From posteriors (g, K) of the items of known class, made without it; None where nothing is gained."""
    from scipy.optimize import minimize

    g = len(known)
    if g < FEWEST:
        return None
    rows = np.arange(g)

    def value(u: FloatArray) -> float:
        x = np.array([np.exp(u[0]), u[1], 0.5 / (1 + np.exp(-u[2]))])
        own = _changed(x, P, votes, shares)[rows, known]
        prior = 0.5 * u[0] ** 2 + 0.5 * (u[1] / 0.5) ** 2 + 0.05 * (u[2] + 4.0) ** 2
        return -float(np.log(np.maximum(own, LEAST)).sum()) + prior

    before = -float(np.log(np.maximum(P[rows, known], LEAST)).sum())
    ends = [
        minimize(value, np.array(start), method="Nelder-Mead", options={"maxiter": 600, "xatol": 1e-3, "fatol": 1e-3})
        for start in ((0.0, 0.0, -4.0), (-1.0, 0.3, -1.0))
    ]
    u = min(ends, key=lambda end: float(end.fun)).x
    x = np.array([np.exp(u[0]), u[1], 0.5 / (1 + np.exp(-u[2]))])
    gain = before + float(np.log(np.maximum(_changed(x, P, votes, shares)[rows, known], LEAST)).sum())
    return Tempering(float(x[0]), float(x[1]), float(x[2]), g, gain) if gain > GAIN else None
