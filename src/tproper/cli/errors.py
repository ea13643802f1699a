"""How commands fail: one sentence on stderr and a meaningful exit code.

Exit codes: 0 done, 1 something broke, 2 a mistake in what was asked, 130 interrupted, 143 ended by SIGTERM.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn, ParamSpec, TypeVar

import typer

from ..errors import InputError

P = ParamSpec("P")
T = TypeVar("T")

# How torch says that memory is full: it has no error of its own for that.
_ASKED = re.compile(r"tried to allocate (\d+) bytes")
# TypeError and KeyError are ours to fix, so they keep their traceback.
_MISTAKES = (InputError, FileNotFoundError, IsADirectoryError, NotADirectoryError, FileExistsError, ModuleNotFoundError)


def user_errors(command: Callable[P, T]) -> Callable[P, T]:
    """Turn a user's mistake into ``error: <sentence>`` and exit code 2, a failing disk into exit code 1."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except _MISTAKES as error:
            say(f"error: {_sentence(error)}", err=True)
            raise typer.Exit(2) from None
        except BrokenPipeError:  # the reader of the output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as error:
            say(f"error: {_sentence(error)}", err=True)
            raise typer.Exit(1) from None
        except MemoryError as error:  # NumPy says how much was asked for
            _no_memory(_sentence(error) or "the size is unknown")
        except RuntimeError as error:
            asked = _ASKED.search(str(error))
            if asked is None:
                raise
            _no_memory(f"{int(asked[1]) / 2**30:.1f} GiB were asked for in one piece")
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(130) from None

    return wrapped


def _no_memory(what: str) -> NoReturn:
    say(f"error: not enough memory: {what}{'' if '; use' in what else '; use fewer rows or classes'}", err=True)
    raise typer.Exit(1) from None


def printable(text: str) -> str:
    """Control characters as their escapes: a name in a file must not move the cursor or recolour the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def say(text: object, err: bool = False) -> None:
    """A line for people."""
    typer.echo(printable(str(text)), err=err)


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


@contextmanager
def spoken() -> Iterator[None]:
    """Warnings as lines on stderr at the moment they come: work may go on for hours."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *rest: say(f"warning: {message}", err=True)
        yield


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())


def check_picture(path: Path) -> None:
    """Fail before the work where a picture could not be drawn or written."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"--plot: expected a name that ends in .png, .svg or .pdf, got {str(path)!r}")
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError("--plot needs matplotlib: pip install 'tproper[plots]'")
    check_writable(path)


def check_writable(path: Path) -> None:
    """Fail before the work where its result could not be written: by a trial in the nearest folder that exists."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # a device or a pipe needs no folder
        return
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from None
