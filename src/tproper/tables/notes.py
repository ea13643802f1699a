"""Warnings as sentences: what a card tells, or a command prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from .. import _core
from .terms import in_terms


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """The warnings for users, as sentences, each once; filled when the block ends."""
    sentences: list[str] = []
    with _core.gathered_warnings(UserWarning) as gathered:
        yield sentences
    sentences += dict.fromkeys(" ".join(str(w).split()) for w in gathered)  # each once


def warn(sentences: Iterable[str]) -> None:
    """Tell the caller of the library, or of the command, what looks odd."""
    for sentence in sentences:
        _core.warn(in_terms(sentence))
