"""How commands fail: one sentence on stderr and a meaningful exit code.

Exit codes: 0 done, 1 something broke, 2 a mistake in what was asked, 130 interrupted, 143 ended by SIGTERM.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn, ParamSpec, TypeVar, get_args, get_type_hints

import typer

from ..errors import InputError, printable
from ..tables import command_terms
from .streams import OUTPUT, forget_output

P = ParamSpec("P")
T = TypeVar("T")

TRACEBACK = "TPROPER_TRACEBACK"  # set, it shows the traceback of a mistake, too; `tproper --traceback` sets it
REPORT = (
    "This is a fault of tproper, not of what you gave it. Please report it with the lines above, the command, and what "
    "`tproper doctor` prints."
)
# How torch says that memory is full: it has no error of its own for that.
_ASKED = re.compile(r"tried to allocate (\d+) bytes")
# TypeError and KeyError are ours to fix, so they keep their traceback.
_MISTAKES = (FileNotFoundError, IsADirectoryError, NotADirectoryError, FileExistsError, ModuleNotFoundError)


#: What an argument of the library is called where a command has it under another name: the first that the command has.
OPTIONS = {
    "X": ("data",),
    "a": ("difference",),
    "answers": ("label",),
    "b": ("difference",),
    "estimator": ("model",),
    "groups": ("group",),
    "labeled": ("label",),
    "labels": ("label",),
    "max_iter": ("epochs",),
    "method": ("reconstruction",),
    "num_classes": ("classes",),
    "path": ("model", "data", "out"),
    "random_state": ("seed",),
    "transition": ("spec",),
    "true": ("true_label",),
    "weak": ("label",),
    "y": ("label",),
}


def user_errors(command: Callable[P, T]) -> Callable[P, T]:
    """Turn a user's mistake into ``error: <sentence>`` and exit code 2, a failing disk into exit code 1."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with command_terms():
                return command(*args, **kwargs)
        except InputError as error:
            _refuse(_as_option(error, command), 2)
        except _MISTAKES as error:
            _refuse(_sentence(error), 2)
        except BrokenPipeError:  # the reader of the output has seen enough
            forget_output()
            raise typer.Exit(0) from None
        except OSError as error:
            if error.filename == OUTPUT:
                forget_output()
            _refuse(_sentence(error), 1)
        except MemoryError as error:  # NumPy says how much was asked for
            _no_memory(_sentence(error) or "the size is unknown")
        except RuntimeError as error:
            asked = _ASKED.search(str(error))
            if asked is None:
                raise
            _no_memory(f"{int(asked[1]) / 2**30:.1f} GiB were asked for in one piece")
        except KeyboardInterrupt:
            say("interrupted", err=True)
            raise typer.Exit(130) from None

    return wrapped


def broken(error: Exception) -> None:
    """The last words of a process: a failing disk in a sentence, a fault of ours with its traceback."""
    if isinstance(error, OSError) and not os.environ.get(TRACEBACK):
        say(f"error: {_sentence(error)}", err=True)
        return
    with contextlib.suppress(OSError, AttributeError):
        traceback.print_exception(error)
    say(f"error: {_sentence(error)}" if isinstance(error, OSError) else REPORT, err=True)


def _refuse(sentence: str, code: int) -> NoReturn:
    if os.environ.get(TRACEBACK):
        with contextlib.suppress(OSError, AttributeError):
            traceback.print_exc()
    say(f"error: {sentence}", err=True)
    raise typer.Exit(code) from None


def _no_memory(what: str) -> NoReturn:
    _refuse(f"not enough memory: {what}{'' if '; use' in what else '; use fewer rows or classes'}", 1)


def say(text: object, err: bool = False) -> None:
    """A line for people. Where there is no stderr to say it on, the work goes on without."""
    with contextlib.suppress(*([OSError] if err else [])):
        typer.echo(printable(str(text)), err=err)


@contextmanager
def spoken() -> Iterator[None]:
    """Warnings as lines on stderr at the moment they come: work may go on for hours."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *rest: say(_spoken(str(message)), err=True)
        yield


def _spoken(message: str) -> str:
    return message if message.startswith("note: ") else f"warning: {message}"


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())


def _as_option(error: InputError, command: Callable[..., object]) -> str:
    """The sentence, with the option of this command in place of the library's argument."""
    sentence, argument = _sentence(error), error.argument or ""
    option = option_of(argument, command)
    return sentence if option is None else option + sentence.removeprefix(argument)


def option_of(argument: str, command: Callable[..., object]) -> str | None:
    """The option (or positional argument) of a command that stands for an argument of the library; None without one."""
    hints = get_type_hints(command, include_extras=True)
    for name in (argument, *OPTIONS.get(argument, ())):
        infos = [info for info in get_args(hints.get(name)) if isinstance(info, typer.models.ParameterInfo)]
        if infos and isinstance(infos[0], typer.models.ArgumentInfo):
            return infos[0].metavar or name.upper()
        if infos:
            names = (infos[0].default, *(infos[0].param_decls or ()))  # Typer takes the first name for a default
            named = [n for n in names if isinstance(n, str) and n.startswith("--")]
            return (named or [f"--{name.replace('_', '-')}"])[0]
    return None


def check_new(path: Path, option: str, force: bool) -> None:
    """Fail before the work where its result could not be written, or would replace a file without ``--force``.

    A device or a pipe is written to as it is; so is a link to one.
    """
    if path.is_file() and not force:
        raise InputError(f"{option}: expected a new file, got {path}, which exists; --force replaces it")
    check_writable(path)


def check_picture(path: Path, force: bool) -> None:
    """Fail before the work where a picture could not be drawn or written."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"--plot: expected a name that ends in .png, .svg or .pdf, got {str(path)!r}")
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError("--plot needs matplotlib: pip install 'tproper[plots]'")
    check_new(path, "--plot", force)


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
