"""The one error that says: what was given cannot be used."""

from __future__ import annotations

import re

_FORM = re.compile(
    r"^(?P<argument>[^:\n]{1,80}): expected (?P<expected>.*?), got (?P<got>.*?)(?:; (?P<advice>.*))?$", re.S
)


class InputError(ValueError):
    """What was given breaks a rule: ``"<argument>: expected <rule>, got <value>; <advice>"``.

    It is raised where input is judged, and it is the only error of ours that a command turns into one sentence. A
    ``ValueError`` of another kind, from NumPy or scikit-learn, is a fault of this package and keeps its traceback.

    `argument`, `expected`, `got` and `advice` are the parts of the sentence where it has that form (None where it has
    not); `row` and `column` say where in a table the value stands, if it stands in one.
    """

    def __init__(self, sentence: str, *, row: int | None = None, column: str | None = None) -> None:
        super().__init__(sentence)
        parts = _FORM.match(sentence)
        self.argument: str | None = parts["argument"] if parts else None
        self.expected: str | None = parts["expected"] if parts else None
        self.got: str | None = parts["got"] if parts else None
        self.advice: str | None = parts["advice"] if parts else None
        self.row: int | None = row
        self.column: str | None = column


def printable(text: str, kept: str = "\n\t") -> str:
    """Control characters as their escapes, and bytes that were no text: a name must not move the cursor, recolour the
    terminal, begin a line or keep a file from being written.
    """
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)
