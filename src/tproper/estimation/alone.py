"""Small work in one thread: on a busy machine more threads only wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits

#: Multiplications of one product that a processor does in about a tenth of a millisecond: threads gain nothing there.
SMALL = 2_000_000


@contextmanager
def one_thread(multiplications: int = 0) -> Iterator[None]:
    """PyTorch and BLAS in one thread, where the largest product is small.

    Both end a product in a barrier of their threads, which waits for its slice of time where another program keeps a
    core busy. A fit is a thousand small products, and waits at each.
    """
    if multiplications > SMALL:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
