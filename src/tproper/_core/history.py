"""What a run of any length remembers of itself, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def thin(entries: list[T], step: Callable[[T], int], most: int) -> None:
    """Leave at most `most` entries of a history that grows by one per step; does nothing before there are more.

    Of older steps every second stays, then every fourth, and so on (those whose number a power of two divides), and
    always the last. About half of `most` is left, so a step costs constant time on average.
    """
    if len(entries) <= most:
        return
    older, last, stride = entries[:-1], entries[-1], 1
    while len(older) > most // 2:
        stride *= 2
        older = [entry for entry in older if step(entry) % stride == 0]
    entries[:] = [*older, last]
