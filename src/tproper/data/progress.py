"""Progress: one bar on stderr where that is a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class Bar:
    """``with Bar("reading", total, "rows") as bar: bar.step(n)``; without a total it shows only that work goes on."""

    def __init__(self, what: str, total: float | None = None, unit: str = "") -> None:
        self.what, self.total, self.unit = what, total, unit
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        if sys.stderr is None or not sys.stderr.isatty():
            return self
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        what = TextColumn("{task.description}")
        columns: tuple[Any, ...] = (SpinnerColumn(), what, TimeElapsedColumn())
        if self.total is not None:
            columns = (
                what,
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[unit]}"),
                TimeRemainingColumn(),
            )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress.start()
        self._task = self._progress.add_task(self.what, total=self.total, unit=self.unit)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    @property
    def shown(self) -> bool:
        """Whether anyone sees it."""
        return self._progress is not None

    def step(self, n: float = 1) -> None:
        """`n` more are done."""
        if self._progress is not None:
            self._progress.advance(self._task, n)

    def at(self, done: float | None = None, what: str | None = None, **more: Any) -> None:
        """Show that `done` are done, beside the text `what`; `total` and `unit` may change too."""
        if self._progress is not None:
            self._progress.update(self._task, completed=done, description=what, **more)


def watched(batches: Iterator[T], what: str, total: int | None, rows: Callable[[T], int]) -> Iterator[T]:
    """The same batches, with a bar that counts their rows."""
    with Bar(what, total, "rows") as bar:
        for batch in batches:
            yield batch
            bar.step(rows(batch))
