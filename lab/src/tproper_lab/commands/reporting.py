"""`tproper report`: tables, figures and one page from the records of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tproper.errors import InputError


def report(
    run: Annotated[Path, typer.Argument(help="folder of a run, or a file or folder of records")],
    out: Annotated[Path | None, typer.Option(help="where to write; default: RUN/report")] = None,
    select: Annotated[str, typer.Option(help="leaderboard: how epochs are chosen: clean, weak")] = "clean,weak",
    certify: Annotated[
        bool, typer.Option(help="leaderboard: certify every method's loss, which takes minutes")
    ] = False,
    leaderboard: Annotated[Path | None, typer.Option(help="write the leaderboard alone, as this Markdown file")] = None,
) -> None:
    """Tables beside the paper's, a benchmark's leaderboard, and figures, from the records of a run."""
    from . import experiments as work

    if leaderboard is not None and out is not None:
        raise InputError("--leaderboard: expected it or --out, got both")
    work.report(run, out, work.rules_among(select), certify, leaderboard)
