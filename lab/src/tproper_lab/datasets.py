"""MNIST and CIFAR-10 from their original files, and scikit-learn's digits.

Files are read as the bytes they are (IDX, CIFAR-10's binary version); nothing is ever unpickled. The
content of every file is held against its SHA-256 before use: a truncated or altered one is named and
refused. ``load(name, directory)`` reads a directory the user names; without one, the files come from
the user's cache, downloaded there first if need be (``tproper_lab.download``).
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path
from typing import IO

import numpy as np

from . import outside
from .download import CIFAR_ARCHIVE, DataError, fetch

LARGEST = 1 << 28  # bytes of a file's content; the largest of them has 47 million
NAMES = ("mnist", "cifar10", "digits")

#: SHA-256 of the uncompressed content of every file.
MNIST_DIGESTS = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
CIFAR_DIGESTS = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
CIFAR_FOLDER = "cifar-10-batches-bin"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images as uint8 (n, H, W, C), labels as int64; ``white`` is the largest pixel value."""

    name: str
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    white: float = 255.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    augment: bool = False
    num_classes: int = 10

    @property
    def shape(self) -> tuple[int, ...]:
        """(H, W, C) of an image."""
        return tuple(self.train_images.shape[1:])


def check_digest(name: str, content: bytes, expected: str | None, where: Path) -> bytes:
    """The content, if its SHA-256 is the expected one (None: not checked)."""
    digest = hashlib.sha256(content).hexdigest()
    if expected is not None and digest != expected:
        raise DataError(
            f"{where} is truncated or altered: the content of {name} has SHA-256 {digest}, "
            f"expected {expected}; remove the file and fetch it again"
        )
    return content


def _find(directory: Path, names: tuple[str, ...], folders: tuple[str, ...]) -> Path | None:
    for folder in (".", *folders):
        for name in names:
            path = directory / folder / name
            if path.is_file():
                return path
    return None


def _read_gz(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return _at_most(file, path)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is truncated or not a gzip file ({error})") from error


def _at_most(file: BufferedIOBase | IO[bytes], where: Path) -> bytes:
    """All of a file, unless there is far more of it than any of these data sets has: a few bytes may unpack to that."""
    content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise DataError(f"{where}: expected at most {LARGEST:,} bytes of content, got more")
    return content


def parse_idx(content: bytes, where: Path, dimensions: int) -> np.ndarray:
    """An IDX file of unsigned bytes: 0, 0, 8, number of dimensions, sizes (big-endian), data."""
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes([0, 0, 8, dimensions]):
        raise DataError(f"{where} is not an IDX file of unsigned bytes in {dimensions} dimensions")
    sizes = np.frombuffer(content, ">i4", dimensions, offset=4)
    if len(content) != header + int(np.prod(sizes)):
        raise DataError(
            f"{where} is truncated: expected {header + int(np.prod(sizes))} bytes for shape "
            f"{tuple(int(s) for s in sizes)}, got {len(content)}"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(sizes)


def read_mnist(directory: Path, digests: Mapping[str, str] = MNIST_DIGESTS) -> Dataset:
    """MNIST's four IDX files, raw or gzipped, in ``directory`` or its folder ``mnist``."""
    arrays = []
    for name, digest in digests.items():
        path = _find(directory, (f"{name}.gz", name), ("mnist", "MNIST/raw"))
        if path is None:
            raise DataError(f"expected MNIST's file {name}(.gz) in {directory}, got none")
        content = check_digest(name, _read_gz(path), digest, path)
        arrays.append(parse_idx(content, path, 3 if "images" in name else 1))
    train_x, train_y, test_x, test_y = arrays
    if len(train_x) != len(train_y) or len(test_x) != len(test_y):
        raise DataError(f"MNIST in {directory} has unequal numbers of images and labels")
    return Dataset(
        "mnist", train_x[..., None], train_y.astype(np.int64), test_x[..., None],
        test_y.astype(np.int64),
    )  # fmt: skip


def parse_cifar(content: bytes, where: Path) -> tuple[np.ndarray, np.ndarray]:
    """CIFAR-10 binary records, a label byte and 3 x 32 x 32 planar bytes -> NHWC images, labels."""
    if not content or len(content) % 3073:
        raise DataError(f"{where} is truncated: {len(content)} bytes are not a multiple of 3073")
    records = np.frombuffer(content, np.uint8).reshape(-1, 3073)
    if records[:, 0].max() > 9:
        raise DataError(f"{where} has a label {records[:, 0].max()}, expected 0 to 9")
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, 0].astype(np.int64)


def _cifar_contents(directory: Path, names: list[str]) -> dict[str, tuple[Path, bytes]]:
    paths = {name: _find(directory, (name,), (CIFAR_FOLDER, "cifar10")) for name in names}
    if all(path is not None for path in paths.values()):
        return {n: (path, path.read_bytes()) for n, path in paths.items() if path is not None}
    archive = _find(directory, (CIFAR_ARCHIVE,), ("cifar10",))
    if archive is None:
        missing = ", ".join(name for name, path in paths.items() if path is None)
        raise DataError(f"expected {CIFAR_ARCHIVE} or {missing} in {directory}, got neither")
    contents = {}
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for name in names:
                member = tar.extractfile(f"{CIFAR_FOLDER}/{name}")
                if member is None:
                    raise DataError(f"{archive}: {name} is not a file")
                contents[name] = (archive, _at_most(member, archive))
    except KeyError as error:
        raise DataError(f"{archive} lacks {error.args[0]}") from error
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DataError(f"{archive} is truncated or not a gzipped tar file ({error})") from error
    return contents


def read_cifar10(directory: Path, digests: Mapping[str, str] = CIFAR_DIGESTS) -> Dataset:
    """CIFAR-10's binary version, unpacked or as ``cifar-10-binary.tar.gz``, in ``directory``."""
    parts = {}
    for name, (where, content) in _cifar_contents(directory, list(digests)).items():
        parts[name] = parse_cifar(check_digest(name, content, digests[name], where), where)
    train = [part for name, part in parts.items() if name.startswith("data_batch")]
    images, labels = parts["test_batch.bin"]
    return Dataset(
        "cifar10",
        np.concatenate([p[0] for p in train]), np.concatenate([p[1] for p in train]),
        images, labels,
        mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), augment=True,
    )  # fmt: skip


def read_digits() -> Dataset:
    """scikit-learn's 1797 digits of 8x8 pixels (values 0 to 16); the last fifth is the test set."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8, 1).astype(np.uint8)
    labels = labels.astype(np.int64)
    return Dataset("digits", images[:1437], labels[:1437], images[1437:], labels[1437:], white=16.0)


def dataset_names() -> tuple[str, ...]:
    """The names of all data sets, those of other packages (entry points ``tproper.datasets``) included."""
    return outside.names("datasets", NAMES)


def folder_of_data(directory: str | Path) -> Path:
    """The directory, if there is one of that name."""
    path = Path(directory)
    if not path.is_dir():
        raise DataError(f"expected a directory with the data, got {path}, which does not exist")
    return path


def load(
    name: str,
    directory: str | Path | None = None,
    mirror: str | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Dataset:
    """A data set by name: from ``directory`` if given, else from the cache, downloaded if need be.

    A download ends early where `stop` is true (`tproper_lab.download.StoppedError`).
    """
    if name not in dataset_names():
        raise DataError(f"expected a data set among {', '.join(dataset_names())}, got {name!r}")
    if name == "digits":
        return read_digits()
    if name not in NAMES:
        data = outside.loaded("datasets", name)(None if directory is None else folder_of_data(directory))
        if not isinstance(data, Dataset):
            raise DataError(f"dataset {name}: expected a tproper_lab.Dataset, got {type(data).__name__}")
        return replace(data, name=name)
    if directory is None:
        directory = fetch(name, mirror, stop=stop)
    directory = folder_of_data(directory)
    readers: dict[str, Callable[[Path], Dataset]] = {"mnist": read_mnist, "cifar10": read_cifar10}
    return readers[name](directory)
