"""Fetching MNIST and CIFAR-10 into the user's cache, with checksums, through pooch.

The files have their official names and digests. A mirror is any address under which those names can
be found: argument ``mirror`` or the environment variable ``TPROPER_MIRROR``. pooch downloads into a
temporary file, checks it, and only then moves it to its name, so an interrupted or altered download
leaves nothing behind.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tproper.lab.datasets import CIFAR_ARCHIVE, DataError

MIRROR_VARIABLE = "TPROPER_MIRROR"
CACHE_VARIABLE = "TPROPER_CACHE"

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


class _Bar:
    """What pooch asks of a progress bar, drawn by rich (pooch's own would need tqdm)."""

    def __init__(self, label: str) -> None:
        from rich import progress

        columns = (*progress.Progress.get_default_columns(), progress.DownloadColumn())
        self.display = progress.Progress(*columns)
        self.task = self.display.add_task(label, total=None)
        self.total = 0

    def update(self, done: int) -> None:
        self.display.start()
        self.display.update(self.task, advance=done, total=self.total or None)

    def reset(self) -> None:
        self.display.reset(self.task)

    def close(self) -> None:
        self.display.stop()


class DownloadError(OSError):
    """A file that could not be fetched: the network's or the disk's fault, not the user's."""


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
    progress: bool = True,
    cache: Path | None = None,
    digests: Mapping[str, str] | None = None,
) -> Path:
    """The directory that holds the files of a data set, after downloading what is missing.

    ``digests`` (file -> digest as pooch writes it) replaces the official ones, for other files of
    the same formats.
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
    store = pooch.create(
        path=directory,
        base_url=address,
        registry=dict(digests if digests is not None else official),
        retry_if_failed=2,
    )
    for file in store.registry:
        try:
            bar = _Bar(file) if progress else False
            store.fetch(file, downloader=pooch.HTTPDownloader(progressbar=bar))
        except OSError as error:  # requests' errors are OSErrors, as is a full disk
            raise DownloadError(f"could not download {store.get_url(file)}: {error}") from error
        except ValueError as error:  # pooch: the digest of the download is not the known one
            raise DataError(f"the download of {store.get_url(file)} was altered: {error}") from error
    return directory
