"""Random streams that do not share their numbers with the caller's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from . import checks

WEAK_LABELS = 0x7461_6773  # arbitrary, and beyond what a counter reaches


def label_stream(seed: Any) -> np.random.Generator:
    """The generator that weak labels are drawn with.

    A generator is used as it is. A seed gives the stream ``SeedSequence(seed, spawn_key=(WEAK_LABELS,))``, independent
    of ``default_rng(seed)``: who draws classes with that and then labels with the same seed would otherwise draw both
    from the same numbers, and the noise would depend on the class.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, (np.random.BitGenerator, np.random.SeedSequence)):
        return np.random.default_rng(seed)
    try:
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(WEAK_LABELS,)))
    except (TypeError, ValueError):
        raise InputError(f"seed: expected a whole number >= 0 or a numpy Generator, got {checks.short(seed)}") from None


def drawn_classes(P: NDArray[np.floating[Any]], rng: np.random.Generator, axis: int = -1) -> NDArray[np.int64]:
    """A class for each example from its probabilities, which lie along `axis` of P (n, K): one random number for each.

    The first class whose cumulative probability reaches it; the last where rounding leaves their sum below it.
    """
    u = np.expand_dims(rng.random(P.size // P.shape[axis]), axis)
    out: NDArray[np.int64] = (P.cumsum(axis=axis) < u).sum(axis=axis).clip(max=P.shape[axis] - 1)
    return out


@contextmanager
def seeded_torch(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed torch's own random numbers, of the CPU and of `device`, for a block; afterwards they are as before.

    ``torch.manual_seed`` would seed all other devices too, and leave them so.
    """
    cuda = torch.device(device).type == "cuda"
    with torch.random.fork_rng(devices=[device] if cuda else []):
        torch.default_generator.manual_seed(seed)
        if cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
