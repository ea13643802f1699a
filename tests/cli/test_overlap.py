"""`evaluate` says when a table holds rows that the model was trained on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import blobs

pytest.importorskip("pyarrow")

from tproper.tables.overlap import Overlap, kept_marks, row_marks

WARNING = "this table holds rows that the model was trained on"


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_training_rows_are_told_of(workshop: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    header, *rows = lines(workshop / "weak.csv")
    label = header.split(",")[-1]
    blobs(tmp_path / "other.csv", rows=100, seed=9)  # clean labels are read as weak ones; nobody looks at the scores
    half = [*rows[::-2], *lines(tmp_path / "other.csv")[1:]]
    (tmp_path / "half.csv").write_text("\n".join([header, *half]) + "\n")
    (tmp_path / "other.csv").write_text("\n".join([header, *lines(tmp_path / "other.csv")[1:]]) + "\n")
    told = []
    for table in (workshop / "weak.csv", tmp_path / "half.csv", tmp_path / "other.csv"):
        result = run("evaluate", workshop / "model", table, "--label", label, "--json")
        assert result.exit_code == 0, result.output
        told.append(json.loads(result.stdout)["overlap"])
        assert (WARNING in result.stderr) == (told[-1] is not None)
    assert told[0].startswith(f"{WARNING} (240 of 240 that were looked for)")
    assert told[1].startswith(WARNING)
    assert told[2] is None


def test_a_small_part_of_the_training_rows_is_told_of_and_a_few_of_them_among_many_are_not() -> None:
    X = np.random.default_rng(0).standard_normal((6000, 3))
    overlap = Overlap(kept_marks(X[:4000]))
    overlap.add(X[100:300])
    assert overlap.warning() is not None  # a twentieth of what was trained on, but all of this table
    overlap = Overlap(kept_marks(X[:4000]))
    overlap.add(X[3900:])
    assert overlap.warning() is None  # a twentieth of this table


def test_marks_are_those_of_the_numbers() -> None:
    X = np.random.default_rng(0).standard_normal((500, 3))
    marks = row_marks(X)
    assert len(np.unique(marks)) == 500
    assert np.array_equal(row_marks(np.asfortranarray(X)[::-1])[::-1], marks)
    assert not np.isin(row_marks(X[:, ::-1]), marks).any()  # the order of columns counts
    assert not np.isin(row_marks(np.nextafter(X, 9)), marks).any()
    assert np.array_equal(row_marks(np.array([[0.0]])), row_marks(np.array([[-0.0]])))


def test_rows_that_are_alike_by_chance_are_not_counted() -> None:
    assert kept_marks(np.random.default_rng(0).integers(3, size=(500, 2)).astype(float)) == []
    assert kept_marks(np.ones((5, 2))) == []
    overlap = Overlap(kept_marks(np.arange(100.0)[:, None]))
    overlap.add(np.arange(95.0, 200.0)[:, None])
    assert overlap.warning() is None  # a twentieth
    overlap.add(np.arange(60.0)[:, None])
    assert overlap.warning() is not None
