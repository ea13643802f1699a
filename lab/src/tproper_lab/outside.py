"""What other packages add to the lab: methods, data sets and models, by the entry points that name them.

The groups are ``tproper.methods``, ``tproper.datasets`` and ``tproper.models``. Nothing of theirs is imported before a
name comes up that the lab does not know itself, or before everything is asked for (``--methods all``).
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tproper.errors import InputError


@cache
def points(kind: str) -> dict[str, EntryPoint]:
    """The entry points of ``tproper.<kind>`` by their names."""
    return {point.name: point for point in entry_points(group=f"tproper.{kind}")}


def names(kind: str, own: tuple[str, ...]) -> tuple[str, ...]:
    """The lab's own names, and those of other packages."""
    return (*own, *(name for name in points(kind) if name not in own))


@cache
def loaded(kind: str, name: str) -> Any:
    """What an entry point names."""
    point = points(kind)[name]
    try:
        return point.load()
    except Exception as error:  # whatever another package's import raises
        raise InputError(
            f"tproper.{kind}: expected {point.value} to be importable, got {type(error).__name__}: {error}; "
            f"fix or uninstall {'it' if point.dist is None else point.dist.name}"
        ) from error
