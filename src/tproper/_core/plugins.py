"""Names from outside: an installed package adds potentials, kinds of weak label, losses and commands.

It names a module in the entry-point group ``tproper.plugins``, which registers what it brings when it is imported, and
commands in the group ``tproper.commands``. Neither is looked at before a name comes up that tproper does not know.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import cache
from importlib import metadata
from typing import Any, TypeVar

from ..errors import InputError

PLUGINS = "tproper.plugins"
Entry = TypeVar("Entry")


@cache
def load_plugins() -> None:
    """Import every installed plugin, once."""
    for point in metadata.entry_points(group=PLUGINS):
        try:
            point.load()
        except Exception as error:
            raise InputError(
                f"{PLUGINS}: expected {point.value} to be importable, got {type(error).__name__}: {error}; "
                f"fix or uninstall {'it' if point.dist is None else point.dist.name}"
            ) from error


def find(table: MutableMapping[str, Entry], name: Any) -> Entry | None:
    """The entry of a table of names; plugins are imported before a name counts as unknown."""
    if isinstance(name, str) and name not in table:
        load_plugins()
    return table.get(name) if isinstance(name, str) else None


def add(table: MutableMapping[str, Entry], name: str, entry: Entry) -> None:
    """A new name in a table; one that is taken, or that a text with parameters could not hold, is refused."""
    if not isinstance(name, str) or not name.isidentifier() or name != name.lower():
        raise InputError(f"name: expected a lower-case identifier such as 'my_noise', got {name!r}")
    if name in table and table[name] != entry:
        raise InputError(f"name: expected one that is not taken, got {name!r}")
    table[name] = entry
