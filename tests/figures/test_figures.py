"""Figures that nobody meant to change: what every public function computes from small fixed data.

    python -m tests.figures.test_figures        # writes figures.json anew: look at the difference before you keep it

Laws say what must hold; this says that nothing moved. A figure may change, but not unnoticed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.figures.cases import cases
from tests.figures.keeping import Kept

CASES = cases()
KEPT = Kept(Path(__file__).parent / "figures.json", CASES)


def test_every_case_is_kept():
    KEPT.check_names()


@pytest.mark.parametrize("name", CASES)
def test_figure(name):
    KEPT.check(name, rewrite="python -m tests.figures.test_figures")


if __name__ == "__main__":
    KEPT.write()
