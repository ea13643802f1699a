"""Warnings as sentences: what a card tells, or a command prints."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from .terms import in_terms


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """The warnings for users, as sentences, each once; filled when the block ends."""
    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield sentences
    for w in caught:  # ConvergenceWarning, ConditioningWarning, ... but not what developers are told
        sentence = " ".join(str(w.message).split())
        if issubclass(w.category, UserWarning) and sentence not in sentences:
            sentences.append(sentence)


def warn(sentences: Iterable[str]) -> None:
    """Tell the caller of the library, or of the command, what looks odd."""
    for sentence in sentences:
        warnings.warn(in_terms(sentence), UserWarning, stacklevel=4)
