"""Figures of the lab that nobody meant to change, kept as those of the library are (tests/figures).

PYTHONPATH=.:tests:lab/tests python lab/tests/test_kept_figures.py      # writes kept_figures.json anew
"""

from pathlib import Path

import pytest
from kept_reports import cases as reports
from kept_training import cases as training
from tests.figures.keeping import Kept

CASES = training() | reports()
KEPT = Kept(Path(__file__).parent / "kept_figures.json", CASES)


def test_every_case_is_kept():
    KEPT.check_names()


@pytest.mark.parametrize("name", CASES)
def test_figure(name):
    KEPT.check(name, rewrite="PYTHONPATH=.:tests:lab/tests python lab/tests/test_kept_figures.py")


if __name__ == "__main__":
    KEPT.write()
