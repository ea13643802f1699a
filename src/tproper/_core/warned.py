"""Warnings that point at the line of whoever called the library, and that can be gathered in one thread alone.

``warnings.catch_warnings`` changes what the whole process does with warnings: where two threads fit at once, one puts
back what the other had changed, and warnings stay muted for good.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_OURS = (__name__.partition(".")[0], "contextlib")
_GATHERED: ContextVar[tuple[type[Warning], list[Warning]] | None] = ContextVar("gathered", default=None)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """``warnings.warn`` at the line outside of this package that led here; or a line more in what is gathered."""
    gathered = _GATHERED.get()
    if gathered is not None and issubclass(category, gathered[0]):
        gathered[1].append(category(message))
        return
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)


@contextmanager
def gathered_warnings(kind: type[Warning] = Warning) -> Iterator[list[Warning]]:
    """What the package warns of inside, in this thread, of this kind, is not shown but gathered."""
    found: list[Warning] = []
    token = _GATHERED.set((kind, found))
    try:
        yield found
    finally:
        _GATHERED.reset(token)
