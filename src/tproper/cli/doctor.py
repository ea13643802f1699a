"""`tproper doctor`: is everything that is installed in order?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from .errors import say
from .later import Later
from .options import Json, echo_json

if TYPE_CHECKING:
    from . import checkup as work
else:
    work = Later("cli.checkup")


def doctor(as_json: Json = False) -> None:
    """Versions, extras, GPU and a self-test of two seconds; exit code 1 if something installed does not work."""
    report = work.examine()
    if as_json:
        echo_json(report.to_dict())
    else:
        say(report.text)
    if not report.healthy:
        raise typer.Exit(1)
