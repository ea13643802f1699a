"""Label files as they are published: plain arrays, held against their digests; nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .datasets import DataError

IntArray = NDArray[np.int64]
MISSING = -1  # no answer
MOST_BYTES = 1 << 30  # of the arrays in a file

HUMAN = "CIFAR-10_human.pt"  # as CIFAR-N's authors publish it
CIFAR10N = "cifar10n.npz"  # the same columns as plain arrays
LLAVA = "cifar10_llava_complementary.npz"
CIFAR10H = ("cifar10h-counts.npy", "cifar10h.npz")  # the first as its authors publish it

#: SHA-256 of labels and counts as unsigned bytes, whatever file holds them; the worst column has none here.
DIGESTS = {
    "random_label1": "8d01b5a5af048e84bf6e964c86e1133e95d5b22c07763e23705b714ad0f32d8b",
    "random_label2": "7ea04c887750912f49669282a75e78df380077766b361fb6cb5200999ad6dcda",
    "random_label3": "cdbfad7e15bfc8fc83bc7c6e30b692e2aa1186660d82738b7543a6012d6ca46f",
    "aggre_label": "2bd5e02e39c9c79772cf4c794f7b74630ac1aaeeac4b807a63c11e9a375f8404",
    LLAVA: "e43b27bc2cd3d0d62222ae64fcdc3ec5f3251fca4438d971adbd62a5ab85de9a",
    "cifar10h": "6291dd382f84434ac7233c1d3c1bba7010b614ca8391b848fff4b036b9794f8a",
}
TRUTHS = ("clean_label", "ord_labels", "true_labels")  # names under which files keep the true classes


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz, .npy (then named `labels`) or .pt file by name; no other object is ever built."""
    if not path.is_file():
        raise DataError(f"expected the file {path.name} in {path.parent}, got none")
    if path.suffix in (".pkl", ".pickle"):
        raise DataError(
            f"{path} is a pickle, which can run code as it is read, and was not read; where you trust it, convert it "
            "once with pickle.load and numpy.savez('labels.npz', labels=..., true_labels=...)"
        )
    if path.suffix == ".pt":
        return _torch_arrays(path)
    try:
        size = announced_bytes(path)
        if size > MOST_BYTES:
            raise ValueError(f"expected arrays of at most {MOST_BYTES >> 20:,} MiB, got {size >> 20:,} MiB")
        content = np.load(path, allow_pickle=False)
        return {"labels": content} if isinstance(content, np.ndarray) else {n: content[n] for n in content.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path} is truncated, altered, or not a file of plain arrays ({reason})") from None


def announced_bytes(path: Path) -> int:
    """How large the arrays are by their headers alone: zeros of gigabytes are packed into kilobytes."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            size = 0
            for member in packed.infolist():
                with packed.open(member) as file:
                    size += max(member.file_size, _bytes_of(file))
            return size
    with path.open("rb") as file:
        return _bytes_of(file)


def _bytes_of(file: Any) -> int:
    """The size of the array that the header of an .npy file announces."""
    major, _ = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return math.prod(shape) * dtype.itemsize


def _torch_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """A dictionary saved by torch, of tensors and NumPy arrays of integers and nothing else."""
    rebuild = np.zeros(0).__reduce__()[0]  # its module has moved between versions of NumPy
    kinds = [np.dtypes.Int64DType, np.dtypes.Int32DType, np.dtypes.UInt8DType]
    safe: list[Any] = [np.ndarray, np.dtype, *kinds]
    safe += [(rebuild, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    try:
        with torch.serialization.safe_globals(safe):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch's own, pickle's, zip's: whatever it is, the file is not what it should be
        name = type(error).__name__  # torch's text advises to unpickle the file after all
        raise DataError(f"{path} is damaged or holds more than arrays of integers, and was not read ({name})") from None
    if not isinstance(content, Mapping):
        raise DataError(f"{path}: expected a dictionary of arrays, got a {type(content).__name__}")
    return {str(name): np.asarray(array) for name, array in content.items()}


def integers(array: NDArray[Any], where: str, digest: str | None) -> IntArray:
    """Labels, answers or counts as int64, if they are whole numbers and have the digest (None: any)."""
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2) or not array.size:
        raise DataError(f"{where}: expected integers (n,) or (n, m), got {array.dtype} of shape {array.shape}")
    out = array.astype(np.int64)
    if digest is not None:
        content = hashlib.sha256(np.ascontiguousarray(array, dtype=np.uint8).tobytes()).hexdigest()
        if content != digest or out.min() < 0 or out.max() > 255:
            raise DataError(f"{where} is altered or another version: its SHA-256 is {content}, expected {digest}")
    return out


def truth_in(arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
    """The true classes that a file keeps beside its labels."""
    return next((arrays[name] for name in TRUTHS if name in arrays), None)


def find(directory: Path, names: tuple[str, ...]) -> Path:
    """The first of these files that is there."""
    if not directory.is_dir():
        raise DataError(f"expected a directory with the label files, got {directory}, which does not exist")
    for name in names:
        if (directory / name).is_file():
            return directory / name
    raise DataError(f"expected {' or '.join(names)} in {directory}, got none")


def cifar10h_counts(directory: str | Path, digests: Mapping[str, str] = DIGESTS) -> IntArray:
    """CIFAR-10H: how many of some 50 people chose each class for each test image (10000, 10) (Peterson et al. 2019)."""
    path = find(Path(directory), CIFAR10H)
    arrays = read_arrays(path)
    counts = arrays.get("counts", arrays.get("labels"))
    if counts is None or counts.ndim != 2:
        raise DataError(f"{path}: expected counts (n, K), got {', '.join(sorted(arrays))}")
    if counts.dtype.kind == "f" and (counts == counts.round()).all():
        counts = counts.astype(np.int64)  # as published
    out = integers(counts, str(path), digests.get("cifar10h"))
    if (out < 0).any() or (out.sum(axis=1) == 0).any():
        raise DataError(f"{path}: expected counts >= 0 and some in every row, got others")
    return out
