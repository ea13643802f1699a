"""What a score is once it is estimated: a value, its uncertainty, and whether it says anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol, Self, SupportsFloat, TypeVar

from .._core import draw, plain
from .uncertainty import TransitionDraws

UNINFORMATIVE = "not informative: "  # how every note of a score that says nothing begins


@dataclass(frozen=True)
class Score:
    """An estimate with its uncertainty. ``float(score)`` is its value; it prints as one line.

    Two numbers, because no one number serves both purposes. `value` is the unbiased estimate, which chance can carry
    past what is possible (an accuracy of 1.02): averages over folds, seeds and blocks need it as it is, since cutting
    it off would make every average too small. `shown` is the nearest possible value, which is what a reader wants:
    it is what prints and what `to_dict` calls "value" (the other is "unbiased" there).

    Attributes
    ----------
    value, stderr : float
        The estimate and its standard error.
    interval : (float, float)
        The 95% interval, in the possible range; it holds `shown`. Of a score that is not informative it is the whole
        range, and promises nothing.
    n : int
        How many examples it comes from.
    informative : bool
        Whether it says anything; the `note` says why not.
    stderr_transition, from_transition : float
        With an estimated T: its part of the standard error, and by what share the interval would be narrower if T were
        known.

    Examples
    --------
    >>> import tproper as tp
    >>> score = tp.weak_accuracy([0, 0, 0, 1] * 25, [0] * 100, tp.identity(2))
    >>> print(score)
    accuracy 0.75 (95% interval 0.657 to 0.8245, n = 100)
    """

    name: str
    value: float
    stderr: float
    interval: tuple[float, float]  # 95%
    n: int  # examples, without those of weight 0
    informative: bool = True
    note: str = ""  # begins with "not informative: " where the score is not
    limits: tuple[float, float] = (-math.inf, math.inf)  # possible values
    stderr_transition: float = 0.0
    from_transition: float = 0.0

    @property
    def shown(self) -> float:
        """The value, or the nearest one that is possible."""
        return restrict(self.value, self.limits)

    @property
    def at_end(self) -> bool:
        """Whether the estimate lies past an end of what is possible: the score cannot be told apart from that end,
        which is not to say that it is there."""
        return self.informative and (self.value < self.limits[0] or self.value > self.limits[1])

    @property
    def share_text(self) -> str:
        """How much of the width comes from T, for print; empty where T is known, or the width says nothing."""
        shown = self.informative and self.stderr_transition > 0
        return f"; {self.from_transition:.0%} of the width comes from T" if shown else ""

    def noted(self, note: str) -> Self:
        """The score with one more note; itself where there is nothing to say.

        A note that begins with "not informative: " (T does not tell the classes apart) leaves the score saying nothing.
        """
        if note.startswith(UNINFORMATIVE):
            return says_nothing(self, note.removeprefix(UNINFORMATIVE))
        return replace(self, note="; ".join(filter(None, (self.note, note)))) if note else self

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        told = "cannot be told apart from " if self.at_end else ""
        facts = f"95% interval {low:.4g} to {high:.4g}, n = {self.n}{self.share_text}"
        line = f"{self.name} {told}{self.shown:.4g} ({facts})"
        return line + (f"; {self.note}" if self.note else "")

    def plot(self, ax: Any = None) -> Any:
        """The value with its interval, on matplotlib's axes (new ones by default), which are returned."""
        return draw("score", self, ax)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: infinities are the texts "inf" and "-inf", NaN is None."""
        return dict(plain(asdict(self) | {"value": self.shown, "unbiased": self.value}))

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Score:
        """The score that `to_dict` described."""
        known = {f.name for f in fields(Score)}
        given = {k: v for k, v in data.items() if k in known} | {"value": data.get("unbiased", data["value"])}
        for name in ("value", "stderr", "stderr_transition", "from_transition"):
            if name in given:
                given[name] = _number(given[name])
        for name in ("interval", "limits"):
            if name in given:
                given[name] = tuple(_number(x) for x in given[name])
        return Score(**given)


AnyScore = TypeVar("AnyScore", bound=Score)


def says_nothing(score: AnyScore, why: str) -> AnyScore:
    """The score as one that is not informative: everything possible is in its interval, and the note says why."""
    return replace(score, informative=False, interval=score.limits, note=UNINFORMATIVE + why)


def _number(x: Any) -> float:
    return math.nan if x is None else float(x)


def restrict(value: float, limits: tuple[float, float]) -> float:
    """The nearest of the possible values; NaN stays NaN."""
    return value if math.isnan(value) else min(max(value, limits[0]), limits[1])


class Mean(Protocol):
    """What a score is made of: an `Estimate`, or what else has these."""

    @property
    def mean(self) -> SupportsFloat:
        """The estimate."""

    @property
    def stderr(self) -> SupportsFloat:
        """Of the sample."""

    @property
    def stderr_transition(self) -> SupportsFloat:
        """Of an estimated T."""

    @property
    def draws(self) -> TransitionDraws | None:
        """Of an estimated T."""

    def interval(self, known: bool = False) -> tuple[SupportsFloat, SupportsFloat]:
        """95%; `known`: as if T were known."""


def within(result: Mean, limits: tuple[float, float]) -> tuple[float, tuple[float, float], float, float, str]:
    """An estimate read within the possible values: standard error, interval, T's share of both, and why it says nothing
    (empty where it says something).
    """
    sampling, from_T = float(result.stderr), float(result.stderr_transition)
    if not math.isfinite(sampling):
        return math.nan, limits, 0.0, 0.0, "one example has no standard error"
    stderr = math.hypot(sampling, from_T)
    if result.draws is not None and result.draws.singular:  # T's own error reaches matrices without an inverse
        return stderr, limits, from_T, 1.0, result.draws.note
    low, high = (float(x) for x in result.interval())
    if high < limits[0] or low > limits[1]:
        why = (
            f"the estimate {float(result.mean):.4g} and its whole interval lie outside the possible values "
            f"{limits[0]:g} to {limits[1]:g}: these labels did not come from this transition"
        )
        return stderr, limits, from_T, 0.0, why
    low, high = restrict(low, limits), restrict(high, limits)
    share = 0.0
    if from_T > 0 and high > low:
        known_low, known_high = (restrict(float(x), limits) for x in result.interval(known=True))
        share = max(1 - (known_high - known_low) / (high - low), 0.0)
    return stderr, (low, high), from_T, share, ""


def score_of(
    name: str,
    result: Mean,
    n: int,
    worst: float,
    best: float,
    guess: float,
    note: str = "",
    open_end: bool = False,
    expected: float | None = None,
) -> Score:
    """Wrap an estimate; `worst` and `best` bound the score, `guess` is what knowing nothing would give.

    `open_end`: nothing bounds the score from the side of `worst`, for the reason in `note`. `expected` is the width of
    the interval that was to be expected before the labels were seen, where that is known: it then decides whether the
    score says anything. Were it for the interval that came out, chance would choose among samples those that look sure.
    """
    limits = least, most = min(worst, best), max(worst, best)
    stderr, (low, high), from_T, share, why = within(result, limits)
    if not why:
        if open_end:
            low, high = (low, worst) if worst > best else (worst, high)
        width = high - low if expected is None else expected
        wide = math.isfinite(least) and math.isfinite(most) and width > (most - least) / 2
        guessing = expected is None and low <= min(guess, best) and high >= max(guess, best)
        if wide or guessing:
            few = "T is known too poorly" if share > 0.5 else "too few weak labels"
            reach = "is wider than half of what is possible"
            if not wide:
                reach = "reaches from a perfect model to one that guesses"
            why = note if open_end else f"{few} to say anything: the interval {reach}"
    score = Score(name, float(result.mean), stderr, (low, high), n, True, note, limits, from_T, share)
    return says_nothing(score, why) if why else score
