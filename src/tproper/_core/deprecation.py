"""Names and arguments on their way out: they work for two more minor versions, and say what to write instead."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def _gone(version: str) -> str:
    """The version in which what was deprecated in `version` is taken out: two minor versions later."""
    major, minor = map(int, version.split(".")[:2])
    return f"{major}.{minor + 2}"


def deprecated(since: str, use: str) -> Callable[[F], F]:
    """Mark a function, method or class: it works, and each call warns with what to write instead.

    Parameters
    ----------
    since : the version that deprecates it, such as "0.2"; it is taken out two minor versions later.
    use : what to write instead, as a line of code, such as "tp.weak_log_loss(...)".

    Examples
    --------
    >>> @deprecated("0.2", "new()")
    ... def old():
    ...     return 1
    """

    def mark(thing: F) -> F:
        name = thing.__qualname__
        note = f"{name} is deprecated since tproper {since} and goes in {_gone(since)}; write {use}"
        if isinstance(thing, type):
            start = thing.__dict__["__init__"]

            @functools.wraps(start)
            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
                warnings.warn(note, FutureWarning, stacklevel=2)
                start(self, *args, **kwargs)

            setattr(thing, "__init__", __init__)  # noqa: B010
            return thing

        @functools.wraps(thing)
        def call(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(note, FutureWarning, stacklevel=2)
            return thing(*args, **kwargs)

        return call  # type: ignore[return-value]

    return mark


def renamed_argument(since: str, old: str, new: str) -> Callable[[F], F]:
    """Mark a function whose keyword `old` is now `new`: the old one works, and warns; both at once are refused.

    Examples
    --------
    >>> @renamed_argument("0.2", "seed", "random_state")
    ... def draw(*, random_state=None):
    ...     return random_state
    """

    def mark(function: F) -> F:
        name = f"{old}= of {function.__qualname__}"
        note = f"{name} is deprecated since tproper {since} and goes in {_gone(since)}; write {new}="

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(f"{function.__qualname__}: expected {new}= alone, got {old}= too, its former name")
                warnings.warn(note, FutureWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return mark
