"""Tensors with a header of text in one file, under a checksum of every byte: a flipped bit is noticed and reported.

The file is in the safetensors format. Its metadata hold the header and, as "sha256", the SHA-256 of the whole file with
zeros in place of that value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from ..errors import InputError
from .files import write_file

_KEY = "sha256"
_ZEROS = "0" * 64


class DamagedError(InputError):
    """A file whose content is not what was written to it, or not of this kind at all; the message says which."""


def write_sealed(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write a file that belongs to this run: it replaces whatever has its name."""
    from safetensors.torch import save

    # copies, since tied weights share memory, which the format does not hold
    copies = {k: v.detach().cpu().clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}
    content = save(copies, metadata={**header, _KEY: _ZEROS})
    value = hashlib.sha256(content).hexdigest()
    write_file(path, _with_seal(content, _ZEROS, value), overwrite=True)


def read_sealed(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The header and the tensors, once the checksum is right."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = path.read_bytes()
    header = read_header(content)
    value = header.pop(_KEY, None)
    if value is None:
        raise DamagedError("it has no checksum")
    if hashlib.sha256(_with_seal(content, value, _ZEROS)).hexdigest() != value:
        raise DamagedError("it was damaged or edited: its checksum does not match")
    try:
        return header, load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise DamagedError(str(error)) from None


def read_header(content: bytes) -> dict[str, str]:
    """The text in a safetensors file's metadata, unchecked."""
    size = int.from_bytes(content[:8], "little")
    try:
        if len(content) < 8 + size:
            raise InputError("it is too short")
        header = json.loads(content[8 : 8 + size]).get("__metadata__", {})
        if not all(isinstance(value, str) for value in header.values()):
            raise InputError("its metadata is not text")
    except (ValueError, AttributeError, RecursionError) as error:  # a JSONDecodeError is a ValueError
        raise DamagedError(f"its header cannot be read: {error}") from None
    return dict(header)


def _with_seal(content: bytes, before: str, after: str) -> bytes:
    """The same bytes with another value of the checksum; it stands in the header, which comes first."""
    return content.replace(f'"{_KEY}":"{before}"'.encode(), f'"{_KEY}":"{after}"'.encode(), 1)
