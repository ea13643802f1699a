"""The trials' kernels on the CPU, by Triton's interpreter."""

from pathlib import Path

import pytest
import torch
from interpreted import passes_interpreted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="the files run on the GPU themselves"),
]


def test_the_kernels_in_tritons_interpreter():
    here = Path(__file__).parent
    passes_interpreted(here / "test_lab_kernels.py", here / "test_step_kernels.py", skipped=4)
