"""Figures that nobody meant to change: what every public function computes from small fixed data.

    python -m tests.figures.test_figures cases more     # keeps these anew, or all: look at the difference
    python -m tests.figures.test_figures --processors   # leaves out what other processors change by rounding

Laws say what must hold; this says that nothing moved. A figure may change, but not unnoticed. A file of cases has its
figures beside it, ``cases.py`` in ``cases.json``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.figures.calls import calls
from tests.figures.cases import cases
from tests.figures.estimates import estimates
from tests.figures.keeping import Kept, main
from tests.figures.kinds import kinds
from tests.figures.more import more
from tests.figures.proven import proven
from tests.figures.scores import scores
from tests.figures.streamed import streamed
from tests.figures.tabled import tabled

pytestmark = pytest.mark.kept
KEPT = {make.__name__: Kept(Path(__file__).parent / f"{make.__name__}.json", make()) for make in (
    calls, cases, estimates, kinds, more, proven, scores, streamed, tabled,
)}  # fmt: skip
CASES = {name: file for file, kept in KEPT.items() for name in kept.cases}


@pytest.mark.parametrize("file", KEPT)
def test_every_case_is_kept(file):
    KEPT[file].check_names()


@pytest.mark.parametrize("name", CASES)
def test_figure(name):
    KEPT[CASES[name]].check(name, rewrite=f"python -m tests.figures.test_figures {CASES[name]}")


if __name__ == "__main__":
    main(KEPT, [sys.executable, "-m", "tests.figures.test_figures"], sys.argv[1:])
