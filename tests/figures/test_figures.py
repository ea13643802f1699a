"""Figures that nobody meant to change: what every public function computes from small fixed data.

    python -m tests.figures.test_figures        # writes figures.json anew: look at the difference before you keep it

Laws say what must hold; this says that nothing moved. A figure may change, but not unnoticed.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from tests.figures.cases import cases, computed

FILE = Path(__file__).parent / "figures.json"
KEPT: dict[str, list[float | str]] = json.loads(FILE.read_text()) if FILE.exists() else {}
CASES = cases()
DIGITS, NEAR, ZERO = 9, 2e-3, 1e-6  # kept; relative, since other versions of BLAS end searches elsewhere; absolute


def rounded(values: list[float | str]) -> list[float | str]:
    """As they are kept: nine digits, and no infinity, which JSON lacks."""
    return [v if isinstance(v, str) else float(f"{v:.{DIGITS}g}") if math.isfinite(v) else str(v) for v in values]


def test_every_case_is_kept():
    assert sorted(KEPT) == sorted(CASES)
    assert all(KEPT.values())  # a case without numbers holds nothing


@pytest.mark.parametrize("name", CASES)
def test_figure(name):
    found, kept = rounded(computed(CASES[name])), KEPT[name]
    assert len(found) == len(kept)
    apart = [
        (i, a, b)
        for i, (a, b) in enumerate(zip(found, kept, strict=True))
        if a != (b if isinstance(a, str) or isinstance(b, str) else pytest.approx(b, rel=NEAR, abs=ZERO))
    ]
    assert apart == [], "number, found, kept: meant? then python -m tests.figures.test_figures"


if __name__ == "__main__":
    lines = [f"{json.dumps(n)}: {json.dumps(rounded(computed(call)))}" for n, call in sorted(CASES.items())]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")  # one line a case, so that a difference can be read
