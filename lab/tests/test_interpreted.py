"""The trials' kernels on the CPU, by Triton's interpreter."""

from pathlib import Path

import pytest
import torch
from interpreted import passes_interpreted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="the files run on the GPU themselves"),
]


@pytest.mark.parametrize(("name", "skipped"), [("test_lab_kernels", 4), ("test_step_kernels", 0)])
def test_the_kernels_in_tritons_interpreter(name, skipped):
    passes_interpreted(Path(__file__).parent / f"{name}.py", skipped=skipped)
