"""Files and folders that are complete or absent, and that never overwrite another's work.

A result is drafted beside its place under a name of its own, synced to disk, and then given its name in one step. What
came to that place while the result was made is left alone: the result stays beside it, and `TakenError` says where.

A draft carries a lock for as long as its process lives. A draft without one was left by a process that was killed, and
`sweep` removes it; an older folder that had been moved aside for it goes back to its place first.

Linux and macOS exchange two names in one step, so that an older folder is there until the newer one is. Elsewhere, and
on file systems that cannot, there is a moment without either. Windows is supported without locks: drafts of killed
processes stay there, and two processes must not write to one place at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import itertools
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: nothing tells a live draft from a dead one, so none is swept
    fcntl = None  # type: ignore[assignment]

#: Device, inode, size and time of change of what stands at a path; None where there is nothing.
Mark = tuple[int, int, int, int] | None

WRITE_TO_SYNC = os.name == "nt"  # Windows flushes only what is open for writing

_DRAFT = re.compile(r"\.(?P<name>.+)\.tproper-[0-9a-f]{12}\.part", re.DOTALL)
_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EACCES, errno.EPERM, errno.EISDIR)


class TakenError(FileExistsError):
    """Another's file or folder came to the place of a result; the result is kept beside it, at `kept`."""

    def __init__(self, path: Path, kept: Path, reason: str = "which came while this ran") -> None:
        kind = "a folder" if path.is_dir() else "a file"
        super().__init__(
            f"{path}: expected the place of the result to stay as it was, got {kind} there, {reason}; "
            f"it is left alone, and the result is kept in {kept}"
        )
        self.path, self.kept = path, kept


def mark(path: str | Path) -> Mark:
    """What stands at a path now, to be compared when the result is ready (``atomic_file(..., since=mark)``)."""
    try:
        now = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


@contextlib.contextmanager
def atomic_file(path: str | Path, *, since: Mark | str = "now", overwrite: bool = False) -> Iterator[Path]:
    """A draft to write to, which takes the name `path` when the block ends well, and vanishes otherwise.

    A file that was at `path` all along is replaced: since the block began, or since the mark that was taken when the
    command did. One that came or changed in the meantime is not (`TakenError`). ``overwrite=True`` replaces whatever is
    there: for files that belong to the run, such as checkpoints. A device or a pipe is written to as it is.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path}: expected a file name to write to, got a directory")
    if path.exists() and not path.is_file():
        with _named(path):
            yield path
        return
    path = _real(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = mark(path) if isinstance(since, str) else since
    with _named(path), _draft(path, folder=False) as draft:
        yield draft
        _sync(draft)
        with _turn(path.parent):
            _place_file(draft, path, before, overwrite)
        _sync_folder(path.parent)


def write_file(path: str | Path, content: bytes, *, since: Mark | str = "now", overwrite: bool = False) -> None:
    """A whole file at once, by `atomic_file`."""
    with atomic_file(path, since=since, overwrite=overwrite) as draft:
        draft.write_bytes(content)


@contextlib.contextmanager
def atomic_folder(path: str | Path, *, replaceable: Callable[[Path], str | None] | None = None) -> Iterator[Path]:
    """An empty folder to fill, which becomes `path` when the block ends well, and vanishes otherwise.

    Nothing but an empty folder is ever replaced, unless `replaceable`, asked at the last moment, gives None for it
    instead of the reason why not. The older folder is removed once the new one stands in its place.
    """
    path = _real(Path(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    with _named(path), _draft(path, folder=True) as draft:
        new = draft / "new"
        new.mkdir()
        yield new
        for folder, _, names in os.walk(new):
            for name in names:
                _sync(Path(folder) / name)
            _sync_folder(Path(folder))
        with _turn(path.parent):
            _place_folder(new, path, replaceable)
        _sync_folder(path.parent)


def sweep(folder: str | Path, name: str | None = None) -> None:
    """Remove the drafts that killed processes left in a folder: those of `name`, or all of them."""
    try:
        entries = [(entry, _DRAFT.fullmatch(entry)) for entry in os.listdir(folder)]
    except OSError:
        return
    for entry, draft in entries:
        if draft is not None and name in (None, draft["name"]):
            _sweep(Path(folder) / entry, Path(folder) / draft["name"])


def _sweep(draft: Path, path: Path) -> None:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    with contextlib.suppress(OSError):  # another's, or gone already
        handle = os.open(draft, flags)
        try:
            if _lock(handle, wait=False) and _is_at(handle, draft):
                _clear(draft, path)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors that name no file (a full disk), or a draft, name the result, or the file of a folder's that it was."""
    try:
        yield
    except OSError as error:
        parts = () if error.filename is None else Path(error.filename).parts
        draft = next((i for i, part in enumerate(parts) if _DRAFT.fullmatch(part)), None)
        if error.errno is None or (parts and draft is None):
            raise
        inside = () if draft is None else parts[draft + 2 :]  # beyond the draft and its "new"
        raise OSError(error.errno, os.strerror(error.errno), str(path.joinpath(*inside))) from None


# Drafts.


@contextlib.contextmanager
def _draft(path: Path, folder: bool) -> Iterator[Path]:
    sweep(path.parent, path.name)
    draft, handle = _make(path, folder)
    try:
        yield draft
    finally:
        _clear(draft, path)
        if handle is not None:
            os.close(handle)


def _make(path: Path, folder: bool) -> tuple[Path, int | None]:
    """A draft and the handle that holds its lock. If it is swept before it is locked, another is made."""
    while True:
        draft = path.with_name(f".{path.name}.tproper-{secrets.token_hex(6)}.part")
        if folder:
            draft.mkdir()
        else:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        if fcntl is None:  # a handle would hold nothing, and an open file cannot be renamed on Windows
            return draft, None
        try:
            handle = os.open(draft, os.O_RDONLY)
        except FileNotFoundError:
            continue
        _lock(handle, wait=True)
        if _is_at(handle, draft):
            return draft, handle
        os.close(handle)


def _clear(draft: Path, path: Path) -> None:
    """Remove a draft. An older folder, moved aside for a result that never came, goes back to its place first."""
    if not draft.is_dir():
        draft.unlink(missing_ok=True)
        return
    if (draft / "new").exists():
        for old in sorted(draft.glob("old-*"), reverse=True):
            if not _moved(old, path):
                _keep(old, path)
    shutil.rmtree(draft, ignore_errors=True)


def _lock(handle: int, wait: bool) -> bool:
    """Whether the lock is ours; it lasts until the handle is closed, or the process ends in whatever way."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # held by another, or a file system without locks
        return False
    return True


@contextlib.contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """One process at a time puts its result into a folder: between looking at the place and taking it."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle, wait=True)
        yield
    finally:
        os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


# Taking the place.


def _place_file(draft: Path, path: Path, before: Mark, overwrite: bool) -> None:
    now = mark(path)
    if not overwrite and now != before:
        raise TakenError(path, _keep(draft, path))
    if overwrite or now is not None:
        os.replace(draft, path)
    elif not _linked(draft, path):
        raise TakenError(path, _keep(draft, path))


def _place_folder(new: Path, path: Path, replaceable: Callable[[Path], str | None] | None) -> None:
    for attempt in itertools.count():
        if _moved(new, path):
            return
        if replaceable is None:
            raise TakenError(path, _keep(new, path))
        reason, old = replaceable(path), new.with_name(f"old-{attempt}")
        if reason is None:
            try:
                if path.is_dir() and not path.is_symlink() and _exchanged(new, path):
                    reason = replaceable(new)  # the older one, again, now that nobody else can reach it
                    if reason is None or not _exchanged(new, path):
                        return
                else:
                    os.rename(path, old)
                    reason = replaceable(old)
                    if reason is not None and not _moved(old, path):
                        _keep(old, path)
            except FileNotFoundError:
                continue
        if reason is not None:
            raise TakenError(path, _keep(new, path), reason)


def _keep(result: Path, path: Path) -> Path:
    """Give a result a free name beside its place."""
    for n in itertools.count(1):
        name = f"{path.name}.kept-{n}" if result.is_dir() else f"{path.stem}.kept-{n}{path.suffix}"
        beside = path.with_name(name)
        if not os.path.lexists(beside) and (_moved if result.is_dir() else _linked)(result, beside):
            return beside
    raise AssertionError  # the loop has no other end


def _moved(folder: Path, path: Path) -> bool:
    """Rename a folder to a place where there is nothing, or an empty folder; the system itself refuses the rest."""
    try:
        os.rename(folder, path)
    except OSError as error:
        if error.errno not in _OCCUPIED:
            raise
        return False
    return True


def _exchanged(one: Path, other: Path) -> bool:
    """Whether two folders took each other's names, in one step; False where the system or the disk cannot."""
    function, flag = _exchange()
    if function is None:
        return False
    if sys.platform == "darwin":
        failed = function(os.fsencode(one), os.fsencode(other), flag)
    else:
        here = -100  # AT_FDCWD
        failed = function(here, os.fsencode(one), here, os.fsencode(other), flag)
    number = ctypes.get_errno() if failed else 0
    if number == errno.ENOENT:
        raise FileNotFoundError(number, os.strerror(number), str(other))
    if number and number not in (*_NO_LINKS, errno.EINVAL):
        raise OSError(number, os.strerror(number), str(other))
    return not failed


@functools.cache
def _exchange() -> tuple[Any, int]:
    """The system's own function that exchanges two names, and the flag that asks it to."""
    name, flag = {"linux": ("renameat2", 2), "darwin": ("renamex_np", 2)}.get(sys.platform, ("", 0))
    try:
        return getattr(ctypes.CDLL(None, use_errno=True), name) if name else None, flag
    except (OSError, AttributeError):  # an older C library
        return None, flag


def _linked(file: Path, path: Path) -> bool:
    """Give a file a name that is free."""
    try:
        try:
            os.link(file, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # holds the place
            os.replace(file, path)
    except FileExistsError:
        return False
    return True


def _real(path: Path) -> Path:
    """Where a link leads: the link itself stays."""
    return path.resolve() if path.is_symlink() else path


# To the disk.


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDWR if WRITE_TO_SYNC and not path.is_dir() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(path: Path) -> None:
    """So that a name survives a power cut as well, where the file system allows it; Windows opens no folders."""
    try:
        _sync(path)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
