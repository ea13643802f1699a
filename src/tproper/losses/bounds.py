"""The greatest lower bounds of a loss: everything that is known of them, asked for in one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._core import FloatArray, critical_k_of, in_simplex
from ..potentials import NotComputedError, Potential
from ..transitions import Kinds, Reconstruction, Transition, listed

BLOCK = 1 << 22  # entries of targets held at a time
MOST_UNLIKE = 1 << 26  # entries of targets whose conjugates are computed one by one
LEAST = -float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Lower bounds of a loss over all scores, each the greatest one; ``-inf`` where there is none.

    NaN where a bound exists that was not computed. The least float stands for bounds below it.
    """

    names: Sequence[str]  # of the kinds of weak labels
    values: FloatArray  # one for each kind
    rows: FloatArray  # by row of T; by size of the set, or by single answer, where rows are too many to list
    least: float  # over everything that may be passed as a label, rows of answers with gaps included
    floor: float  # the least value of the supervised loss that the loss equals in expectation
    of: Callable[[Tensor], Tensor]  # the bounds (n,) of encoded labels
    incomplete: float | None = None  # the least over rows of answers with gaps, where they may be passed
    notes: tuple[str, ...] = ()
    failure: NotComputedError | None = None  # why some values are NaN

    @property
    def bounded(self) -> bool:
        """Whether the loss is bounded from below, whatever label is passed."""
        return self.least > -math.inf or (math.isnan(self.least) and not np.isneginf(self.values).any())


def stated(rows: FloatArray, transition: Transition, name: str = "") -> Bounds:
    """Bounds by row of T, as a loss states them; with a `name`, as those of one kind."""
    rows = np.asarray(rows, dtype=np.float64)
    least = least_of(rows)
    values = np.array([least]) if name else rows
    names = [name] if name else [f"label {y}" for y in range(len(rows))]

    def of(labels: Tensor) -> Tensor:
        place = transition.place(labels)
        shape = labels.shape[: labels.ndim - len(transition.label_shape)]
        if place is None or len(rows) <= 1:
            return torch.full(shape, least, dtype=torch.float64, device=labels.device)
        return torch.as_tensor(rows, device=labels.device)[place]

    return Bounds(names, values, rows, least, least, of)


def unknown(kinds: Kinds) -> Bounds:
    """Of these labels nothing is known."""
    nan = np.full(len(kinds), math.nan)
    rows = kinds.spread(nan)

    def of(labels: Tensor) -> Tensor:
        return torch.full((len(labels),), math.nan, dtype=torch.float64, device=labels.device)

    return Bounds(kinds.names, nan, rows, math.nan, math.nan, of, None if kinds.gaps is None else math.nan)


def kinds_of(F: Potential, R: Reconstruction, weights: FloatArray | None) -> Kinds:
    """The kinds of R's targets that F and class weights tell apart."""
    return R.kinds(weights if F.symmetric else np.arange(float(R.transition.num_classes)))


def least_of(values: FloatArray) -> float:
    """The smallest; NaN where it may be one that was not computed."""
    return -math.inf if np.isneginf(values).any() else float(np.min(values))


def bounds_of_targets(F: Potential, R: Reconstruction, weights: FloatArray | None) -> Bounds:
    """Bounds of ``F(v) - <r, v>``, where r is R's target of a label, or w r under class weights w."""
    K, kinds = R.transition.num_classes, kinds_of(F, R, weights)
    values, notes, failure = infima(F, kinds, weights)
    least = least_of(values)
    incomplete = None
    if kinds.gaps is not None:  # a label that says nothing has the loss 0
        incomplete = least_of(np.append(values[kinds.gaps], 0.0))
        least = least_of(np.append(values, 0.0))

    def of(labels: Tensor) -> Tensor:
        if kinds.index is not None:
            return torch.as_tensor(values, device=labels.device)[kinds.index(labels)]
        targets = R.targets(labels).numpy(force=True)
        own = infima(F, listed(targets, [""] * len(targets), lambda y: y), weights)[0]
        silent = R.silent(labels)
        out = torch.as_tensor(own, device=labels.device)
        return out if silent is None else out.masked_fill(silent, 0.0)

    rows, floor = kinds.spread(values), _floor(F, K, weights)
    return Bounds(kinds.names, values, rows, least, floor, of, incomplete, notes, failure)


def _floor(F: Potential, K: int, weights: FloatArray | None) -> float:
    """The least ``w_z (F(v) - v_z) = -w_z F*(e_z)``."""
    vertices = torch.eye(1 if F.symmetric else K, K, dtype=torch.float64)
    try:
        floors = -F.conjugate(vertices).numpy()
    except NotComputedError:
        return math.nan
    return float(np.min(floors if weights is None else floors * weights)) + 0.0  # not -0


def infima(
    F: Potential, kinds: Kinds, weights: FloatArray | None = None
) -> tuple[FloatArray, tuple[str, ...], NotComputedError | None]:
    """``inf_v s F(v) - <r, v> = -s F*(r / s)`` for the target r of each kind, s its sum (Proposition 14).

    With class weights the target is w r. For s < 0 the loss is concave, for s = 0 linear: without a bound, unless all
    of w r is 0. Whether a bound exists is known even where its value is not computed.
    """
    K = kinds.targets(slice(0, 1)).shape[1]
    values, failure = np.full(len(kinds), math.nan), None
    room = room_of(F, K)
    step = max(1, BLOCK // K)
    many = weights is not None and room > 0 and len(kinds) * K > MOST_UNLIKE
    for start in range(0, len(kinds), step):
        rows = slice(start, min(start + step, len(kinds)))
        r, s = weighted(kinds.targets(rows), weights)
        found = np.where((r == 0).all(axis=1), 0.0, -math.inf)
        asked = np.flatnonzero(s > 0)
        unit = r[asked] if weights is None else r[asked] / s[asked, None]
        if not np.isinf(room):
            inside = in_simplex(unit) if room == 0 else critical_k_of(unit) <= room + 1e-12
            asked, unit = asked[inside], unit[inside]
        found[asked] = math.nan
        if not many and len(asked):
            try:
                conjugate = F.conjugate(torch.tensor(unit)).numpy()
                found[asked] = np.where(np.isposinf(conjugate) & np.isinf(room), LEAST, -s[asked] * conjugate)
            except NotComputedError as error:
                failure = error
        values[rows] = np.where(found == -math.inf, found, np.maximum(found, LEAST))
    notes: tuple[str, ...] = () if failure is None else (str(failure),)
    if many and np.isnan(values).any():
        notes += (f"bounds of {len(kinds):,} kinds of labels of {K:,} classes: not computed, only whether they exist",)
    if kinds.example and np.isfinite(values).any():
        values = np.where(np.isneginf(values), values, math.nan)
        notes += ("sets of one size differ by their class weights, and are too many for their bounds to be computed",)
    if (values == LEAST).any():
        notes += (f"some bounds are below {LEAST:.4g}, the least number that a float holds",)
    return values + 0.0, notes, failure  # no -0


def room_of(F: Potential, K: int) -> float:
    """How far targets may leave the simplex, as `critical_k` measures it, with ``F(v) - <r, v>`` still bounded."""
    ray = torch.zeros(K, dtype=torch.float64)
    ray[0], ray[-1] = 1.0, -1.0
    return float(F.recession(ray)) - 1.0


def weighted(targets: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """w r (L, K) and its sum (L,), which is 1 without weights, and 0 where it is but rounding."""
    if weights is None:
        return targets, np.ones(len(targets))
    r = weights * targets
    s = r.sum(axis=1)
    return r, np.where(np.abs(s) > 1e-13 * np.abs(r).sum(axis=1), s, 0.0)
