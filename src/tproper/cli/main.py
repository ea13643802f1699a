"""The command `tproper`: one file per command, loaded when it is called."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import FrameType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from .. import __version__
from .errors import TRACEBACK, broken, say, user_errors
from .options import LIST, flat
from .streams import forget_output, whole_output

AGAIN = 0.05  # seconds until a signal comes again that could not be heard

# The file of each command, and what `tproper --help` says of it (the first line of its own help).
COMMANDS = {
    "inspect": ("inspect", "Diagnose a label transition and certify BC, BC+gLS, BC+GA and forward correction for it."),
    "demo": ("demo", "Learn digits from labels that only say what a digit is *not*; see which losses survive."),
    "estimate": (
        "estimate",
        "Estimate how labels were weakened, with intervals; `train --transition` takes the file.",
    ),
    "train": ("train", "Train a classifier on weak labels, and say how good it is without a clean one."),
    "predict": ("predict", "Class probabilities and the likeliest class for every row, in order."),
    "evaluate": (
        "evaluate",
        "Unbiased scores from weak labels, with their intervals; clean ones beside them where a true column is given.",
    ),
    "prevalence": ("prevalence", "Shares of the classes from weak labels and rows of known class, with intervals."),
    "export": (
        "export",
        "Write a model as ONNX, for programs without Python: the same columns in, the same probabilities out.",
    ),
    "simulate": ("simulate", "Weaken a clean data set: a weak label for every row in place of its true class."),
    "doctor": (
        "doctor",
        "Versions, extras, GPU and a self-test of two seconds; exit code 1 if something installed does not work.",
    ),
}

# Those of tproper-lab, which may be installed or not: it names their functions as entry points.
INSTALL_LAB = "pip install tproper-lab"
LAB = {
    "reproduce": "Reproduce a table or figure of the paper; run it again to go on where it stopped.",
    "bench": "Compare methods on one weak-label problem; run it again to go on where it stopped.",
    "report": "Tables beside the paper's, a benchmark's leaderboard, and figures, from the records of a run.",
}


class _Command(TyperCommand):
    """A command that is known by its name and its help; its file is imported when it is called."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return load_command(str(self.name)).make_context(info_name, args, parent=parent, **extra)


class _Absent(TyperCommand):
    """A command of tproper-lab where that is not installed: whatever it is given, it says what to install."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        say(f"error: {self.name} is a command of tproper-lab, which is not installed: {INSTALL_LAB}", err=True)
        raise typer.Exit(2)


class _Once(TyperCommand):
    """A command that refuses a list given twice: of `--ignore a --ignore b` only b would be ignored, in silence.

    Of a single value the last one counts, as everywhere.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        order: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]
        for option in order:
            if option.metavar == LIST and order.count(option) > 1:
                why = f"given {order.count(option)} times; give it once, with all its values: {LIST}"
                raise typer.BadParameter(why, ctx=ctx, param=option)
        return super().parse_args(ctx, args)


class _Commands(TyperGroup):
    """All commands, none of them imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*COMMANDS, *LAB, *_others()]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS:
            return _Command(cmd_name, help=COMMANDS[cmd_name][1])
        other = _others().get(cmd_name)
        if cmd_name in LAB:
            kind, note = (_Command, "") if other else (_Absent, f" ({INSTALL_LAB})")
            return kind(cmd_name, help=LAB[cmd_name] + note)
        return other and _Command(cmd_name, help=f"A command of {other.dist.name if other.dist else other.value}.")


@cache
def _others() -> dict[str, EntryPoint]:
    """Commands of other packages, by the entry points that name their functions: every package is read for them."""
    return {point.name: point for point in entry_points(group="tproper.commands")}


def load_command(name: str) -> Any:
    """The command itself: the function of that name in its file, or the one that another package names."""
    if name in COMMANDS:
        function = getattr(importlib.import_module(f".{COMMANDS[name][0]}", __package__), name)
    else:
        try:
            function = _others()[name].load()
        except ImportError as error:  # of another version than this package, or of a package that is not installed
            say(f"error: {name}: {error}", err=True)
            raise typer.Exit(2) from error
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name, cls=_Once)(user_errors(flat(function)))
    return typer.main.get_command(single)


app = typer.Typer(
    name="tproper",
    cls=_Commands,
    help="Classifiers with trustworthy class probabilities from weak labels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(show: bool) -> None:
    if show:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="print the version"),
    traceback: bool = typer.Option(
        False, "--traceback", envvar=TRACEBACK, help="show where in the code an error came up, whosever it is"
    ),
) -> None:
    """Classifiers with trustworthy class probabilities from weak labels."""
    if traceback:
        os.environ[TRACEBACK] = "1"


def main() -> None:
    """Entry point: what was not written is an error, and what is not the user's mistake keeps its traceback.

    SIGTERM and SIGHUP end the command as an exception would, so that nothing half-written stays.
    """
    whole_output()
    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP, and nohup ignores it
        if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)
    sys.unraisablehook = _unraised
    sys.exit(_ended())


def _ended() -> Any:
    """Run the command; its exit code, once its output has been written."""
    code: Any = 0
    try:
        try:
            app()
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has seen enough
        forget_output()
    except OSError as error:  # the help or the last lines: a command's own are met in `user_errors`
        code = code or 1
        broken(error)
        forget_output()
    except Exception as error:
        code = 1
        broken(error)
    return code


def _stop(number: int, frame: FrameType | None) -> None:
    """Raise what ends the command, but not while a module is loaded: extension modules that start meet it as an
    exception of their own, as a failed import or not at all, and C++ aborts the process. The signal comes again then.
    """
    above = frame
    while above is not None:
        if above.f_globals.get("__name__") == "importlib._bootstrap":
            return _again(number)
        above = above.f_back
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise _Stopped(number)


class _Stopped(SystemExit):
    """The end of a command that was sent a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def _again(number: int) -> None:
    again = threading.Timer(AGAIN, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


def _unraised(met: sys.UnraisableHookArgs) -> None:
    """An end that C code called back into Python could not pass on, and dropped, comes again."""
    if isinstance(met.exc_value, _Stopped | KeyboardInterrupt):
        _again(getattr(met.exc_value, "number", signal.SIGINT))
    else:
        sys.__unraisablehook__(met)
