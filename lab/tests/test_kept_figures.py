"""Figures of the lab that nobody meant to change, kept as those of the library are (tests/figures).

PYTHONPATH=.:tests:lab/tests python lab/tests/test_kept_figures.py reports     # keeps these anew, or all
"""

import sys
from pathlib import Path

import pytest
from kept_reports import cases as reports
from kept_training import cases as training
from tests.figures.keeping import Kept, main

CASES = {"training": training(), "reports": reports()}
KEPT = {file: Kept(Path(__file__).parent / f"kept_{file}.json", cases) for file, cases in CASES.items()}

pytestmark = pytest.mark.kept


@pytest.mark.parametrize("file", KEPT)
def test_every_case_is_kept(file):
    KEPT[file].check_names()


@pytest.mark.parametrize(("file", "name"), [(file, name) for file, cases in CASES.items() for name in cases])
def test_figure(file, name):
    KEPT[file].check(name, rewrite=f"PYTHONPATH=.:tests:lab/tests python lab/tests/test_kept_figures.py {file}")


if __name__ == "__main__":
    main(KEPT, [sys.executable, __file__], sys.argv[1:])
