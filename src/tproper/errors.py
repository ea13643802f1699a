"""The one error that says: what was given cannot be used."""

from __future__ import annotations

import re

_FORM = re.compile(
    r"^(?P<argument>[^:\n]{1,80}): expected (?P<expected>.*?)(?:, got (?P<got>.*?))?(?:; (?P<advice>.*))?$", re.S
)


class InputError(ValueError):
    """What was given breaks a rule: ``"<argument>: expected <rule>, got <value>; <advice>"``.

    It is raised where input is checked, and it is a ``ValueError``; the command prints it as one sentence. A
    ``ValueError`` of another kind, from NumPy or scikit-learn, is a fault of this package and keeps its traceback.

    Attributes
    ----------
    argument, expected, got, advice : str or None
        The parts of the sentence.
    row, column
        Where in a table the value stands, if it stands in one.

    Examples
    --------
    >>> import tproper as tp
    >>> try:
    ...     tp.symmetric_noise(3, 1.2)
    ... except tp.InputError as error:
    ...     print(error.argument, "|", error.expected, "|", error.got)
    p | a finite number in [0, 1] | 1.2
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
