"""Which losses have kernels: one table, by the pair (type of F, type of R), for the CPU and for Triton alike.

A kernel works row by row, and all it needs to know of a loss is a `Plan`. `register` says how a pair becomes one:

    @register(LogSumExp, UniformReconstruction)
    def _(F, R): return Plan(...)

What no entry takes runs as the line, ``F(v) - <r, v>``. The first type must match exactly, because a subclass of a
potential is another function; the second may be a subclass, which shares its structure's formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ...potentials import LogSumExp, Potential, Squeezed
from ...transitions import (
    CandidateSetTransition,
    Reconstruction,
    SetReconstruction,
    Transition,
    UniformReconstruction,
    UniformTransition,
)
from ..scores import LogScore


@dataclass(frozen=True)
class Plan:
    """A loss as the kernels see it: a handful of numbers, and the name of the table that depends on the set's size.

    Backward: `numbers` are (c, b) of the target ``b 1 + c ind``. Forward: (d, o) of ``T = o 1 1^T + (d - o) I``. With
    `by_size`, labels are candidate sets: c is that table's entry for the set's size, and b is ``(1 - c |S|)/K``.
    """

    forward: bool
    numbers: tuple[float, float] = (0.0, 0.0)
    by_size: str | None = None
    squeeze: tuple[float, float] | None = None  # k, alpha
    set_size: int = 0  # the only size that candidate sets have; 0: any
    dense: bool = False  # targets, or rows of T, come from a table: on the CPU alone


Planner: TypeAlias = Callable[[Any, Any], Plan]
_PLANNERS: dict[tuple[type, type], Planner] = {}


def register(first: type, second: type) -> Callable[[Planner], Planner]:
    """Decorates the function ``(F, R) -> Plan`` of a pair of types; for forward losses, ``(score, T) -> Plan``."""

    def add(planner: Planner) -> Planner:
        _PLANNERS[first, second] = planner
        return planner

    return add


def registered() -> list[tuple[type, type]]:
    """The pairs that have kernels."""
    return list(_PLANNERS)


def plan_of(F: Any, R: Any) -> Plan | str:
    """How the pair runs in a kernel, or, as a string, why it cannot. Squeezing is a part of every backward kernel."""
    squeeze = None
    if isinstance(F, Squeezed):
        if F.alpha < 1:
            return f"squeezing with alpha = {F.alpha:g} < 1 has no finite gradient"
        if F.k > 0:
            squeeze = (F.k, F.alpha)
        F = F.base
    for kind in type(R).__mro__:
        planner = _PLANNERS.get((type(F), kind))
        if planner is not None:
            return replace(planner(F, R), squeeze=squeeze)
    what = "potential" if isinstance(F, Potential) else "score"
    return f"the {what} is {F.name}, not {'log-sum-exp' if what == 'potential' else 'log'}"


def plan(loss: Any) -> Plan | str:
    """The plan of a loss by its `pair`; remembered until one of its parts is replaced."""
    pair = loss.pair()
    if isinstance(pair, str):
        return pair
    F, R = pair
    squeeze = (F.k, F.alpha) if isinstance(F, Squeezed) else None  # k is often annealed in place
    known: tuple[Any, ...] = loss.__dict__.get("_plan", (None,) * 4)
    if not (known[0] is F and known[1] is R and known[2] == squeeze):
        known = loss.__dict__["_plan"] = (F, R, squeeze, plan_of(F, R))
    out: Plan | str = known[3]
    return out


@register(LogSumExp, UniformReconstruction)
def _uniform(F: LogSumExp, R: UniformReconstruction) -> Plan:
    c = R.coefficient
    return Plan(False, (c, 0.0 if c == 1.0 else (1 - c) / R.transition.num_classes))


def _only_size(T: CandidateSetTransition) -> int:
    sizes = T.set_sizes()
    return sizes[0] if len(sizes) == 1 else 0


@register(LogSumExp, SetReconstruction)
def _sets(F: LogSumExp, R: SetReconstruction) -> Plan:
    return Plan(False, by_size="coefficient", set_size=_only_size(R.transition))


@register(LogSumExp, Reconstruction)
def _dense(F: LogSumExp, R: Reconstruction) -> Plan:
    return Plan(False, dense=True)


@register(LogScore, UniformTransition)
def _uniform_forward(score: LogScore, T: UniformTransition) -> Plan:
    return Plan(True, (T.diagonal, T.off_diagonal))


@register(LogScore, CandidateSetTransition)
def _sets_forward(score: LogScore, T: CandidateSetTransition) -> Plan:
    return Plan(True, by_size="log_weight", set_size=_only_size(T))


@register(LogScore, Transition)
def _dense_forward(score: LogScore, T: Transition) -> Plan:
    return Plan(True, dense=True)
