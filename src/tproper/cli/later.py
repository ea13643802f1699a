"""Modules that are imported when they are first used, so that `--help` and a mistyped option are answered at once.

A command's file holds its options and imports nothing heavy; the work stands in another file, which it names here.
"""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """A module of this package by its path below `tproper`, such as ``cli.training``."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(f"tproper.{self._path}"), name)
