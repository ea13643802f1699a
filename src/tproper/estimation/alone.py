"""Small work in one thread: on a busy machine more threads only wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits

#: Multiplications of one product that a core does in a few hundredths of a second. Below, threads gain less than they
#: lose where another program keeps a core busy: 20,000 rows x 50 features x 5 classes took 6 seconds of one core in
#: one thread, and 90 in two.
SMALL = 50_000_000


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
