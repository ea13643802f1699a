"""`tproper demo`: four losses on scikit-learn's bundled digits, learned from complementary labels alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .later import Later

if TYPE_CHECKING:
    from . import digits as work
else:
    work = Later("cli.digits")


def demo(
    out: Annotated[Path, typer.Option(help="folder for the picture and the numbers")] = Path("out/demo"),
    epochs: Annotated[int, typer.Option(min=1, help="epochs for each run")] = 150,
    seed: Annotated[int, typer.Option(help="split, labels, initialisation and batches")] = 0,
) -> None:
    """Learn digits from labels that only say what a digit is *not*; see which losses survive."""
    work.show_digits(out, epochs, seed)
