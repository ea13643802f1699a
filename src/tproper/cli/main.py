"""The command `tproper`."""

from __future__ import annotations

import importlib
import signal
import sys

import typer

app = typer.Typer(
    name="tproper",
    help="Classifiers with trustworthy class probabilities from weak labels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Each module adds its commands through `register(app)`.
COMMANDS = ("inspect", "demo", "data", "reproduce")


def _version(show: bool) -> None:
    if show:
        from .. import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="print the version"),
) -> None:
    """Classifiers with trustworthy class probabilities from weak labels."""


for _module in COMMANDS:
    importlib.import_module(f".{_module}", __package__).register(app)


def main() -> None:
    """Entry point; SIGTERM and SIGHUP end the command as an exception would, so that nothing half-written stays."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP, and nohup ignores it
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
    sys.exit(app())
