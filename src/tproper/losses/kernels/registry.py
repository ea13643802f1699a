"""Which losses run in the fused kernels: potential or score, and the pattern of their targets or rows of T.

The kernels on the CPU ask `Targets` and `Rows`, and run for every T; the Triton kernel needs the two numbers of a
`Pattern`. What neither takes runs as it is defined, ``F(v) - <r, v>``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...potentials import LogSumExp, Potential, Squeezed
from ...transitions import Pattern
from ..scores import LogScore


@dataclass(frozen=True)
class Plan:
    """A loss as the kernels see it: its squeezing, and two numbers where its targets or rows of T consist of them."""

    forward: bool
    squeeze: tuple[float, float] | None = None  # k, alpha
    pattern: Pattern | None = None  # None: on the CPU alone

    @property
    def numbers(self) -> tuple[float, float]:
        """The target is ``b 1 + c ind`` with (c, b); T is ``o 1 1^T + (d - o) I`` with (d, o)."""
        return (0.0, 0.0) if self.pattern is None else (self.pattern.own, self.pattern.other)

    @property
    def by_size(self) -> str | None:
        """The table of c, or of log g, by the size of candidate sets; then b is ``(1 - c |S|)/K``."""
        return None if self.pattern is None else self.pattern.by_size

    @property
    def set_size(self) -> int:
        """The only size that candidate sets have; 0: any."""
        return 0 if self.pattern is None else self.pattern.set_size


def plan_of(F: Any, R: Any) -> Plan | str:
    """How (F, R), or (score, T), run in a kernel, or, as a string, why they cannot."""
    squeeze = None
    if isinstance(F, Squeezed):
        if F.alpha < 1:
            return f"squeezing with alpha = {F.alpha:g} < 1 has no finite gradient"
        if F.k > 0:
            squeeze = (F.k, F.alpha)
        F = F.base
    if type(F) in (LogSumExp, LogScore):  # a subclass is another function
        return Plan(type(F) is LogScore, squeeze, R.pattern)
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
