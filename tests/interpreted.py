"""Tests of Triton kernels where there is no GPU: in a process of their own, since Triton asks for its mode on import.

The extra `triton` brings it on Linux. Every test must run: a kernel whose tests were skipped is not tested.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def passes_interpreted(*tests: Path, skipped: int = 0) -> None:
    """Run the tests of these files; `skipped` of them are known to need a GPU's own units."""
    if sys.platform != "linux":
        pytest.skip("Triton is made for Linux")
    pytest.importorskip("triton", reason="kernels need Triton: pip install 'tproper[triton]'")
    here = {"TRITON_INTERPRET": "1", "MUTATE_TEST": os.environ.get("PYTEST_CURRENT_TEST", "")}  # see tools/mutate.py
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:cacheprovider", *tests],
        cwd=ROOT, env={**os.environ, **here}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    lost = re.search(r"(\d+) skipped", done.stdout.splitlines()[-1])
    assert int(lost[1] if lost else 0) == skipped, done.stdout
