"""What a call says, as numbers and words: results with their types, refusals and warnings."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.figures.keeping import NUMBER, Word

SETS = re.compile(r"\{([^{}]*)\}")  # of names, whose order is another in every run
LONG = 60  # letters up to which a text is kept as it is
MANY = 12  # numbers of an array up to which all are kept


def thinned(array: np.ndarray) -> list[Any]:
    """The numbers of an array; of more than `MANY` some, and two sums of all."""
    flat = array.ravel()
    if len(flat) <= MANY:
        return flat.tolist()
    ends = np.linspace(0, len(flat) - 1, MANY).astype(int)
    with np.errstate(invalid="ignore"):
        return [*flat[ends].tolist(), float(np.abs(flat).sum()), float(flat @ np.cos(np.arange(len(flat))))]


def plain(found: Any) -> Any:
    """Results as numbers and words: the type and shape of an array, the keys of a dict, the letters of a long text."""
    if isinstance(found, str):
        found = SETS.sub(lambda match: "{" + ", ".join(sorted(match[1].split(", "))) + "}", found)
        return Word(found) if len(found) <= LONG and not NUMBER.search(found) else found
    if isinstance(found, torch.Tensor):
        kind = f"{str(found.dtype).removeprefix('torch.')} {tuple(found.shape)}"
        return [Word(kind), thinned(found.detach().double().numpy())]
    if isinstance(found, np.ndarray):
        held = [plain(x) for x in found.ravel().tolist()] if found.dtype.kind in "OUSb" else thinned(found)
        return [Word(f"{found.dtype.kind} {found.shape}"), held]
    if isinstance(found, Mapping):
        return [[plain(key), plain(value)] for key, value in found.items()]
    if isinstance(found, Set):
        return [Word("set"), *map(plain, sorted(found, key=str))]
    if isinstance(found, (list, tuple)):
        return [plain(x) for x in found]
    if isinstance(found, Path):
        return plain(found.name)
    if callable(found) and not isinstance(found, torch.nn.Module):
        return Word("a function")
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        return [[Word(f.name), plain(getattr(found, f.name))] for f in dataclasses.fields(found) if f.name[0] != "_"]
    return found


def said(call: Callable[..., Any], *args: Any, **settings: Any) -> list[Any]:
    """What a call gives, or why it refuses, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = plain(call(*args, **settings))
        except (ValueError, RuntimeError, NotImplementedError) as error:
            found = [Word(type(error).__name__), Word(str(getattr(error, "argument", None))), plain(str(error))]
    return [found, [[Word(w.category.__name__), plain(str(w.message))] for w in caught]]


def each(calls: Mapping[str, Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    """Calls by name, each as what it says."""
    return {name: lambda call=call: said(call) for name, call in calls.items()}
