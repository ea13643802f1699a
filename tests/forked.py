"""The command in a process of its own that imports nothing: a fork of this one.

``python -m tproper`` spends seconds on torch and scikit-learn before it does what a test is about. A forked process is
as real: its signals, pipes, limits, exit codes and deaths are its own, and a kill meets work instead of imports. That
the command starts from nothing is tested in commands/test_start.py and cli/test_tour.py.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tproper.cli import main


def start(*arguments: object, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
    """``tproper *arguments``, as `subprocess.Popen` starts a program; `env` is added to the environment."""
    return start_function(main, *arguments, env=env, **options)


def start_function(
    function: Callable[[], object], *arguments: object, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """A process that calls a function and ends as an interpreter would; `arguments` are its ``sys.argv[1:]``."""
    argv = ["tproper", *map(str, arguments)]

    def instead_of_a_program() -> None:
        os.closerange(3, 1 << 20)  # also the pipe by which Popen waits for the program to begin
        os._exit(_ended(function, argv, env or {}))

    return subprocess.Popen(argv, text=True, preexec_fn=instead_of_a_program, restore_signals=False, **options)


def _ended(function: Callable[[], object], argv: list[str], env: Mapping[str, str]) -> int:
    """The exit code, with the streams, signals, warnings and errors that a new interpreter has."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray leaves a handler of its own
    torch.set_num_threads(1)  # the threads of a pool do not come along
    sys.argv = argv
    os.environ.update(env)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if os.environ.get("PYTHONUNBUFFERED"):  # as Python does it: nothing between the text and the descriptor
        sys.stdout = io.TextIOWrapper(open(1, "wb", buffering=0, closefd=False), write_through=True)  # noqa: SIM115
    else:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    importlib.reload(warnings)  # pytest records them
    warnings.resetwarnings()
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)
    try:
        function()
        code: object = 0
    except SystemExit as end:
        code = 0 if end.code is None else end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    try:
        sys.stdout.flush()
    except OSError:
        traceback.print_exc()
        code = 120
    return code
