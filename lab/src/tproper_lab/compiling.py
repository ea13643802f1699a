"""Compiling a step's Triton kernels side by side, before the first of them runs.

A kernel is compiled when it is first launched, one after another: half a minute for a residual net on a machine that
has never seen them. So a stack rehearses a step first: `launch` then only asks for the kernel, all of them are compiled
by a pool of threads, and results on disk serve the next process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
import triton

_rehearsing = False


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **options: Any) -> None:
    """Run a kernel; in a `rehearsal`, compile it."""
    if _rehearsing:
        kernel.warmup(*args, grid=grid, **options)
    else:
        kernel[grid](*args, **options)


@contextmanager
def rehearsal() -> Iterator[None]:
    """Launches in this block compile their kernels, and at its end all of them are compiled. Tensors hold anything.

    Backward passes stay in this thread, where the pool is known. Triton before 3.5 has no pool: one after another.
    """
    global _rehearsing
    _rehearsing = True
    try:
        with torch.autograd.set_multithreading_enabled(False):
            if not hasattr(triton, "AsyncCompileMode"):
                yield
                return
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool, triton.AsyncCompileMode(pool):
                yield
    finally:
        _rehearsing = False
