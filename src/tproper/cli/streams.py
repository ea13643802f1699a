"""Standard output that takes everything it is given, or says that it did not."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from typing import Any

OUTPUT = "standard output"


class _Whole(io.RawIOBase):
    """A file descriptor that is written to until it has taken everything; without one, every write is an error.

    ``write(2)`` may take less than it is given: near a limit of size, on a disk that fills up, or where a pipe does not
    block. Python's own unbuffered streams (``PYTHONUNBUFFERED=1``) drop the rest and say nothing.
    """

    def __init__(self, handle: int | None) -> None:
        self._handle = handle
        self.forgotten = False  # what comes is taken, and goes nowhere

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._handle is not None and os.isatty(self._handle)

    def fileno(self) -> int:
        if self._handle is None:
            raise io.UnsupportedOperation("no file descriptor")
        return self._handle

    def write(self, content: Any) -> int:
        rest = memoryview(content).cast("B")
        size = len(rest)
        while rest and not self.forgotten:
            if self._handle is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF), OUTPUT)
            try:
                rest = rest[os.write(self._handle, rest) :]
            except BlockingIOError:  # a pipe that does not block, and is full: wait for its reader
                select.select([], [self._handle], [])
            except OSError as error:
                raise OSError(error.errno, os.strerror(error.errno or 0), OUTPUT) from None
        return size


def whole_output() -> None:
    """Make ``sys.stdout`` one that never drops what it is given; a letter that it lacks is shown by its code."""
    for handle in (0, 1, 2):  # a file that we open must not become what libraries take for a terminal
        try:
            os.fstat(handle)
        except OSError:
            with contextlib.suppress(OSError):
                os.open(os.devnull, os.O_RDWR)
    old = sys.stdout
    if old is not None:
        try:
            number = old.fileno()
        except (OSError, AttributeError):  # a test's, or a notebook's
            return
        if os.name != "posix" and old.isatty():  # a console of Windows takes letters, not bytes
            return
        old.flush()
    raw = _Whole(None if old is None else number)
    encoding = getattr(old, "encoding", None) or "utf-8"
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=raw.isatty()
    )


def forget_output() -> None:
    """What is still to be written goes nowhere: its reader is gone, or the error has been told."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Whole):
        raw.forgotten = True
    else:  # Python's own, where `main` did not run
        with contextlib.suppress(OSError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
