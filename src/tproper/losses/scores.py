"""Proper scores of the weak labels' distribution ``q = T p``, for forward correction.

A proper score is the Bregman divergence of its negative Bayes risk S from the label's vertex,
``l(q, y) = D_S(e_y, q)``, so it is at least 0, and its mean under q is smallest at q. The score of T p is therefore
T-proper for every T.

=============  ====================================================================  ====================
name           l(q, y)                                                               what it needs of q
=============  ====================================================================  ====================
log            ``-log q_y``                                                          q_y
brier          ``||q - e_y||^2 = 1 - 2 q_y + ||q||^2``                               q_y, ||q||^2
spherical      ``1 - q_y / ||q||``                                                   q_y, ||q||^2
tsallis:a      ``-q_y^(a-1)/(a-1) + sum q^a / a + 1/(a (a-1))``                      all of q
a potential F  ``F(v) - v_y`` at ``v = inverse_link(q)``                             all of q, positive
=============  ====================================================================  ====================

``||T p||^2 = p^T (T^T T) p`` needs the K x K Gram matrix alone, however many weak labels there are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._core import FloatArray, checks, safe_log
from ..errors import InputError
from ..potentials import Brier, LogSumExp, Potential, Sparsemax, Spherical, Tsallis

Needs = Literal["label", "norm", "all"]


@dataclass(frozen=True)
class Weak:
    """What a score is told of q = T p: entries at the labels, the squared norm, and all of q where it is needed."""

    at_label: Tensor  # (...)
    square: Tensor | None = None  # (...)
    all: Tensor | None = None  # (..., M)
    index: Tensor | None = None  # (...) row of the label in `all`


class Score(ABC):
    """A proper score on distributions of weak labels."""

    name: str
    needs: Needs
    strictly_proper: bool = True
    symmetric: bool = True  # all weak labels are alike to it
    evidence: Literal["exact", "numerical"] = "exact"  # of the bounds

    @abstractmethod
    def loss(self, q: Weak) -> Tensor:
        """l(q, y) (...)."""

    @abstractmethod
    def bound(self, T: FloatArray, y: int) -> float:
        """The smallest l(T p, y) over all p."""

    def uniform_bound(self, d: float, o: float, K: int) -> float:
        """The same for T with d on the diagonal and o off it.

        Where the score is convex in q, the best q has the larger of them at the label, and the rest evenly elsewhere.
        """
        top = max(d, o)
        q = torch.full((K,), (1 - top) / (K - 1), dtype=torch.float64)
        q[0] = top
        return float(self.loss(Weak(q[0], q.square().sum(), q)))

    def set_bounds(self, g: FloatArray, size: NDArray[np.int64], K: int, a: float, b: float) -> FloatArray:
        """The same for candidate sets of each size j, of probability g, where ``T^T T = a I + b 1 1^T``.

        With the mass s inside of the set, ``q_S = g s`` and ``||q||^2 = a (s^2/j + (1-s)^2/(K-j)) + b``.
        """
        rest = np.where(size < K, 1 / np.maximum(K - size, 1), 0.0)
        s = self._best_mass(g, size, K, a, rest)
        square = torch.as_tensor(a * (s**2 / size + (1 - s) ** 2 * rest) + b)
        return np.asarray(self.loss(Weak(torch.as_tensor(g * s), square)).numpy(), dtype=np.float64)

    def _best_mass(self, g: FloatArray, size: NDArray[np.int64], K: int, a: float, rest: FloatArray) -> FloatArray:
        """All of it: the largest cosine."""
        return np.ones(len(size))


class LogScore(Score):
    """``-log q_y``."""

    name, needs = "log", "label"

    def loss(self, q: Weak) -> Tensor:
        """``-log q_y``."""
        return -safe_log(q.at_label)

    def bound(self, T: FloatArray, y: int) -> float:
        """All p on the class that makes y likeliest."""
        with np.errstate(divide="ignore"):
            return float(0.0 - np.log(T[y].max()))


class BrierScore(Score):
    """``||q - e_y||^2``; bounded by 2, with a bounded gradient: for a T that may be wrong, and for outliers."""

    name, needs = "brier", "norm"

    def loss(self, q: Weak) -> Tensor:
        """``1 - 2 q_y + ||q||^2``."""
        assert q.square is not None
        return 1 - 2 * q.at_label + q.square

    def bound(self, T: FloatArray, y: int) -> float:
        """The squared distance from e_y to the hull of T's columns, by Lawson and Hanson's least-distance problem."""
        away = T - np.eye(len(T))[:, [y]]
        target = np.zeros(len(T) + 1)
        target[-1] = 1.0
        u = _nnls(np.vstack([away, np.ones(T.shape[1])]), target)
        return float(np.square(away @ (u / u.sum())).sum())

    def _best_mass(self, g: FloatArray, size: NDArray[np.int64], K: int, a: float, rest: FloatArray) -> FloatArray:
        """The least distance, where it is not at the end."""
        if a <= 0:
            return np.ones(len(size))
        return np.where(size < K, np.minimum(1.0, (g / a + rest) / (1 / size + rest)), 1.0)


class SphericalScore(Score):
    """``1 - q_y / ||q||``."""

    name, needs = "spherical", "norm"

    def loss(self, q: Weak) -> Tensor:
        """``1 - q_y / ||q||``."""
        assert q.square is not None
        return 1 - q.at_label / q.square.sqrt()

    def bound(self, T: FloatArray, y: int) -> float:
        """1 minus the cosine of the angle between e_y and the cone of T's columns: non-negative least squares."""
        u = _nnls(T, np.eye(len(T))[y])
        return float(1 - np.linalg.norm(T @ u))


class TsallisScore(Score):
    """``-q_y^(a-1)/(a-1) + sum q^a / a + 1/(a (a-1))``; a -> 1 is the log score, a = 2 half the Brier score."""

    needs = "all"

    def __init__(self, a: float) -> None:
        self.a = Tsallis(a).a
        self.name = f"tsallis:{repr(self.a).removesuffix('.0')}"  # all its digits: a saved model is read by it
        self.evidence = "exact" if 1 < self.a <= 2 else "numerical"  # convex in q there alone

    def loss(self, q: Weak) -> Tensor:
        """The score; infinite at q_y = 0 for a < 1."""
        assert q.all is not None
        a = self.a
        safe = q.all.clamp_min(torch.finfo(q.all.dtype).tiny)  # a slope of 0^(a-1) at q = 0 is not finite
        total = torch.where(q.all > 0, safe.pow(a), 0.0).sum(-1)
        if a >= 2:
            own = q.at_label.pow(a - 1)
        else:
            own = q.at_label.clamp_min(torch.finfo(q.at_label.dtype).tiny).pow(a - 1)
            own = own.masked_fill(q.at_label <= 0, math.inf if a < 1 else 0.0)
        return total / a + 1 / (a * (a - 1)) - own / (a - 1)

    def bound(self, T: FloatArray, y: int) -> float:
        """By projected descent over p from every class and the middle; for 1 < a <= 2 the score is convex in q."""
        return _searched(lambda q: self.loss(Weak(q[..., y], all=q)), T)

    def uniform_bound(self, d: float, o: float, K: int) -> float:
        """For a given q_y an even q makes ``sum q^a`` smallest where a > 1, and largest where a < 1.

        For a < 1 the best p therefore sits on the label's class and one other.
        """
        if self.a > 1:
            return super().uniform_bound(d, o, K)
        T = np.full((K, 2), o)
        T[0, 0] = T[1, 1] = d
        return self.bound(T, 0)


class PotentialScore(Score):
    """The score of any potential F on the weak labels, ``F(v) - v_y`` at ``v = inverse_link(q)``."""

    needs = "all"
    evidence = "numerical"

    def __init__(self, potential: Potential) -> None:
        if not potential.proper:
            raise InputError(f"score: expected a proper potential, got {potential.name}")
        self.potential = potential
        self.name = potential.name
        self.strictly_proper = potential.strictly_proper
        self.symmetric = potential.symmetric

    def loss(self, q: Weak) -> Tensor:
        """``F(v) - v_y``."""
        assert q.all is not None
        assert q.index is not None
        losses = self.potential.class_losses(self.potential.inverse_link(q.all))
        return losses.gather(-1, q.index[..., None])[..., 0]

    def bound(self, T: FloatArray, y: int) -> float:
        """By descent over p from every class and the middle."""
        return _searched(lambda q: self.loss(Weak(q[..., y], all=q, index=torch.full(q.shape[:-1], y))), T)

    def uniform_bound(self, d: float, o: float, K: int) -> float:
        """By search, as for any T."""
        return self.bound(np.full((K, K), o) + (d - o) * np.eye(K), 0)


def make_score(score: str | Potential | Score) -> Score:
    """A score by name (log, brier, spherical, ``tsallis:1.5``), or that of a potential."""
    if isinstance(score, Score):
        return score
    if isinstance(score, Potential):
        return _score_of(score)
    known: dict[str, Callable[[], Score]] = {"log": LogScore, "brier": BrierScore, "spherical": SphericalScore}
    if isinstance(score, str) and score in known:
        return known[score]()
    if isinstance(score, str) and score.startswith("tsallis:"):
        try:
            a = float(score.removeprefix("tsallis:"))
        except ValueError:
            raise InputError(f"score: expected a number as in 'tsallis:1.5', got {score!r}") from None
        return TsallisScore(a)
    raise InputError(
        f"score: expected one of log, brier, spherical, tsallis:1.5, or a potential, got {checks.short(score)}"
    )


def _score_of(F: Potential) -> Score:
    """The score of a potential on weak labels; by its formula where there is one."""
    if isinstance(F, Tsallis):
        return TsallisScore(F.a)
    known: dict[type[Potential], Callable[[], Score]] = {
        LogSumExp: LogScore, Brier: BrierScore, Spherical: SphericalScore, Sparsemax: lambda: TsallisScore(2.0),
    }  # fmt: skip
    return known[type(F)]() if type(F) in known else PotentialScore(F)


def _nnls(A: FloatArray, b: FloatArray) -> FloatArray:
    from scipy.optimize import nnls

    return np.asarray(nnls(A, b, maxiter=50 * A.shape[1])[0])


def _searched(loss: Callable[[Tensor], Tensor], T: FloatArray) -> float:
    """The smallest loss(T p) that sequential quadratic programming over p finds from the most promising starts.

    These are the classes, the middle, and points between; where the loss is convex in q, any start would do.
    """
    from scipy.optimize import minimize

    K = T.shape[1]
    columns = torch.as_tensor(np.ascontiguousarray(T.T))

    def value(p: FloatArray) -> tuple[float, FloatArray]:
        with torch.enable_grad():
            x = torch.tensor(p, requires_grad=True)
            out = loss((x @ columns)[None])[0]
            (slope,) = torch.autograd.grad(out, x)
        return float(out.detach()), slope.nan_to_num(0.0, 1e12, -1e12).numpy()

    even = np.full((1, K), 1 / K)
    starts = np.concatenate([np.eye(K), even, 0.9 * np.eye(K) + 0.1 / K])
    with torch.no_grad():
        values = loss(torch.as_tensor(starts) @ columns).numpy()
    best = float(np.min(values[np.isfinite(values)], initial=math.inf))
    for i in np.argsort(np.where(np.isfinite(values), values, math.inf), kind="stable")[:4]:
        solution = minimize(
            value,
            0.999 * starts[i] + 0.001 / K,
            jac=True,
            method="SLSQP",
            bounds=[(0.0, 1.0)] * K,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
            options={"ftol": 1e-15, "maxiter": 500},
        )
        p = np.clip(solution.x, 0.0, None)
        reached = value(p / p.sum())[0]
        best = min(best, reached) if math.isfinite(reached) else best
    return best
