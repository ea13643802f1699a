"""Figures that nobody meant to change: what every public function computes from small fixed data.

    python -m tests.figures.test_figures cases more     # keeps these anew, or all: look at the difference
    python -m tests.figures.test_figures --processors   # leaves out what other processors change by rounding

Laws say what must hold; this says that nothing moved. A figure may change, but not unnoticed. A file of cases has its
figures beside it, ``cases.py`` in ``cases.json``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.figures.calls import calls
from tests.figures.cases import cases
from tests.figures.estimates import estimates
from tests.figures.keeping import Kept
from tests.figures.kinds import kinds
from tests.figures.more import more
from tests.figures.proven import proven
from tests.figures.scores import scores
from tests.figures.streamed import streamed
from tests.figures.tabled import tabled

KEPT = {make.__name__: Kept(Path(__file__).parent / f"{make.__name__}.json", make()) for make in (
    calls, cases, estimates, kinds, more, proven, scores, streamed, tabled,
)}  # fmt: skip
CASES = {name: file for file, kept in KEPT.items() for name in kept.cases}
# Other processors add in another order. These settings make this one add as they do.
PROCESSORS = (
    {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F"},
    {"ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Haswell", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Sandybridge", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
)


@pytest.mark.parametrize("file", KEPT)
def test_every_case_is_kept(file):
    KEPT[file].check_names()


@pytest.mark.parametrize("name", CASES)
def test_figure(name):
    KEPT[CASES[name]].check(name, rewrite=f"python -m tests.figures.test_figures {CASES[name]}")


def main(arguments: list[str]) -> None:
    """Keep what is computed now, or leave out what other processors compute otherwise."""
    chosen = [kept for file, kept in KEPT.items() if file in arguments or not set(arguments) & set(KEPT)]
    if "--print" in arguments:
        print(json.dumps([kept.computed() for kept in chosen]))
    elif "--processors" in arguments:
        again = [sys.executable, "-m", "tests.figures.test_figures", "--print", *arguments]
        for settings in PROCESSORS:
            done = subprocess.run(again, env=os.environ | settings, check=True, stdout=subprocess.PIPE, text=True)
            for kept, found in zip(chosen, json.loads(done.stdout.splitlines()[-1]), strict=True):
                kept.settle(found)
    else:
        for kept in chosen:
            kept.write()


if __name__ == "__main__":
    main(sys.argv[1:])
