"""How far long work has come: told to a callable, or logged with an estimate of the time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .logs import tell

EVERY = 5.0  # seconds between two lines


def lines_of(verbose: Any) -> int:
    """How much to log: a callable is told of progress, and logs what it likes itself."""
    return 0 if callable(verbose) else int(verbose)


class Progress:
    """The share of some work that is done, from 0 to 1; it never falls.

    `report` is a callable of that share, or a number: from 1 on a line every five seconds says how much is done, and
    how long the rest takes if it goes on like this.
    """

    def __init__(self, report: Any, name: str, what: str = "fit") -> None:
        self._report, self._name, self._what = report, name, what
        self._done = 0.0
        self._began = self._told = time.monotonic()

    def __call__(self, share: float) -> None:
        """So much of it is done."""
        if not share > self._done:
            return
        self._done = min(share, 1.0)
        if callable(self._report):
            self._report(self._done)
            return
        now = time.monotonic()
        if self._report and now - self._told >= EVERY and self._done < 1.0:
            self._told = now
            left = (now - self._began) * (1 / self._done - 1)
            tell(self._name, f"{self._what}: {self._done:.0%} done, about {left:.0f} s left", int(self._report))

    def part(self, low: float, high: float) -> Callable[[float], None]:
        """What tells of a part of the work, which goes from 0 to 1 itself."""
        return lambda share: self(low + min(max(share, 0.0), 1.0) * (high - low))
