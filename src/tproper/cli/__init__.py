"""The command `tproper`: one file per command; `main` puts them together.

Imports from every room above it; no other room imports from here. Commands read options, call a room, and print.
"""

from .main import main

__all__ = ["main"]
