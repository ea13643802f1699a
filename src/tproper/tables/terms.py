"""What is told in terms of the command's options, told in terms of Python's keywords."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from ..errors import InputError

P = ParamSpec("P")
T = TypeVar("T")

_OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)\b")
_OTHER_NAMES = {"out": "path", "force": "replace=True"}  # options whose keyword has another name
_IN_COMMAND: ContextVar[bool] = ContextVar("in_command", default=False)


@contextmanager
def command_terms() -> Iterator[None]:
    """Inside, sentences name the options of the command: it calls the same functions as Python does."""
    token = _IN_COMMAND.set(True)
    try:
        yield
    finally:
        _IN_COMMAND.reset(token)


def in_terms(sentence: str) -> str:
    """``--true-label`` is `true_label` for a caller in Python."""
    if _IN_COMMAND.get():
        return sentence
    return _OPTION.sub(lambda found: _OTHER_NAMES.get(found[1], found[1].replace("-", "_")), sentence)


def told(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose refusals are told in the caller's terms."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except InputError as error:
            InputError.__init__(error, in_terms(str(error)), row=error.row, column=error.column)
            raise

    return wrapped
