"""Fetching MNIST and CIFAR-10 into the user's cache, with checksums.

The files have their official names and digests. A mirror is any address under which those names can
be found: argument ``mirror`` or the environment variable ``TPROPER_MIRROR``. A file is fetched into a
draft, checked, and only then given its name, so an interrupted or altered download leaves nothing
behind; the draft of a process that was killed is removed by the next one.

The transfer runs in a thread, so that a signal, the time limit or `stop` ends it at once, even while a server is
silent.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tproper.data import Bar
from tproper.errors import InputError
from tproper.extension import atomic_file

CIFAR_ARCHIVE = "cifar-10-binary.tar.gz"
MIRROR_VARIABLE = "TPROPER_MIRROR"
CACHE_VARIABLE = "TPROPER_CACHE"
LONGEST = 3600.0  # seconds for all files of a data set
LARGEST = 1 << 30  # bytes of a file; the largest of them has 163 MiB
SILENCE = 30.0  # seconds without a byte after which a connection counts as lost
ATTEMPTS = 3
PAUSE = 1.0  # seconds before the second attempt, and twice that before the third

#: name -> (address, {file: digest}); the digests are those their publishers and torchvision give.
SOURCES: dict[str, tuple[str, dict[str, str]]] = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
    "cifar10": (
        "https://www.cs.toronto.edu/~kriz/",
        {CIFAR_ARCHIVE: "md5:c32a1d4ab5d03f1284b67883e8d87530"},
    ),
}


def cache_directory() -> Path:
    """Where downloads are kept: ``TPROPER_CACHE``, or the operating system's cache folder."""
    import pooch

    return Path(os.environ.get(CACHE_VARIABLE) or pooch.os_cache("tproper"))


class DataError(InputError):
    """A data file is missing, truncated, altered or not of its format."""


class DownloadError(OSError):
    """A file that could not be fetched: the network's or the disk's fault, not the user's."""


class StoppedError(Exception):
    """The download was stopped on request."""


def check_mirror(mirror: str, where: str) -> str:
    """The address, if it is one; an error says where it was given."""
    try:
        parts = urlsplit(mirror)
    except ValueError:  # brackets that do not close
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise DataError(f"{where}: expected an address such as https://host/folder, got {mirror!r}")
    return mirror.rstrip("/") + "/"


def fetch(
    name: str,
    mirror: str | None = None,
    cache: Path | None = None,
    digests: Mapping[str, str] | None = None,
    stop: Callable[[], bool] = lambda: False,
    seconds: float = LONGEST,
    largest: int = LARGEST,
) -> Path:
    """The directory that holds the files of a data set, after downloading what is missing.

    ``digests`` (file -> digest as pooch writes it) replaces the official ones, for other files of
    the same formats. ``stop`` is asked ten times a second, and ends the download where it is true
    (`StoppedError`). ``seconds`` is the time for all files together, ``largest`` the size of one in bytes.
    """
    try:
        import pooch
    except ImportError as error:
        raise DataError(
            f"downloading {name} needs pooch (pip install pooch); or name a directory that has it"
        ) from error

    address, official = SOURCES[name]
    if mirror:
        address = check_mirror(mirror, "mirror")
    elif os.environ.get(MIRROR_VARIABLE):
        address = check_mirror(os.environ[MIRROR_VARIABLE], MIRROR_VARIABLE)
    directory = (cache or cache_directory()) / name
    end = time.monotonic() + seconds
    for file, digest in dict(digests if digests is not None else official).items():
        path, url = directory / file, address + file
        if path.is_file() and pooch.hashes.hash_matches(str(path), digest):
            continue
        with atomic_file(path, overwrite=True) as draft, Bar(file, 0, "MB") as bar:
            transfer = _Transfer(url, largest, bar)
            transfer.run(draft, stop, end, seconds)
            if not pooch.hashes.hash_matches(str(draft), digest):
                raise DataError(
                    f"the download of {url} was altered: expected the digest {digest}, got another; "
                    "try again, or another mirror"
                )
    return directory


class _Transfer:
    """One file on its way, fetched by pooch, of which it is the progress bar."""

    def __init__(self, url: str, largest: int, bar: Bar) -> None:
        self.url, self.largest, self.bar = url, largest, bar
        self.over = threading.Event()  # nobody waits for it any more
        self.error: BaseException | None = None
        self.done = self._total = 0

    def run(self, draft: Path, stop: Callable[[], bool], end: float, seconds: float) -> None:
        """Fetch it into a file, which must be there; ends early when told to, or when its time is over."""
        thread = threading.Thread(target=self._fetch, args=(draft,), daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                if stop():
                    raise StoppedError(f"the download of {self.url} was stopped")
                if time.monotonic() > end:
                    raise DownloadError(
                        f"could not download {self.url}: expected it within {seconds:g} seconds, got less than all of "
                        "it; try another mirror, or fetch the file by other means"
                    )
                thread.join(0.1)
        finally:
            self.over.set()
        if self.error is not None:
            reason = " ".join(str(self.error).split())
            raise DownloadError(f"could not download {self.url}: {reason}") from self.error

    def _fetch(self, draft: Path) -> None:
        """In a thread of its own; errors are for the one that waits."""
        import pooch
        import requests

        once = pooch.HTTPDownloader(progressbar=self, chunk_size=1 << 16, timeout=SILENCE)
        try:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    with draft.open("r+b") as file:  # a draft that was given up in the meantime is not made again
                        file.truncate()
                        self.done = 0
                        once(self.url, file, None)
                    break
                except requests.exceptions.RequestException as error:
                    answer = error.response
                    final = answer is not None and 400 <= answer.status_code < 500
                    if final or attempt == ATTEMPTS or self.over.wait(PAUSE * attempt):
                        raise
        except Exception as error:
            self.error = error

    # What pooch asks of a progress bar: it is told of every chunk, and may end the transfer.

    @property
    def total(self) -> int:
        """Bytes that the server promises; 0 where it does not say."""
        return self._total

    @total.setter
    def total(self, size: int) -> None:
        self._check_size(size)
        self._total = size

    def update(self, size: int) -> None:
        """So many bytes more."""
        if self.over.is_set():
            raise StoppedError(f"the download of {self.url} was stopped")
        self.done += size
        self._check_size(self.done)
        self.bar.at(self.done / 1e6, total=max(self.done, self.total) / 1e6)

    def reset(self) -> None:
        """Before the last update, which is of the whole file: chunks are counted as full ones."""
        self.done = 0

    def close(self) -> None:
        """Nothing: the bar is closed where it was opened."""

    def _check_size(self, size: int) -> None:
        if size > self.largest:
            raise DownloadError(f"expected at most {self.largest:,} bytes, got {size:,} or more")
