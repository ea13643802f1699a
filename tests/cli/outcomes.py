"""How a command must end, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def good(run: Callable[..., Any], *arguments: object) -> Any:
    """The result of a command that must succeed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(run: Callable[..., Any], *arguments: object) -> str:
    """What a command says that must refuse its use: one sentence, no traceback."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())
