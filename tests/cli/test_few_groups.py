"""Options that the table is too small for are refused by their own names, before anything is trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def table(path: Path, rows: int = 60, groups: int = 2) -> Path:
    lines = [f"{i % 7},{i % groups},{i % 2 + 1}.0,{'ab'[i % 2]}" for i in range(rows)]
    path.write_text("\n".join(["x,site,who,y", *lines, ""]))
    return path


@pytest.mark.parametrize("options", [(), ("--calibrate", "none"), ("--holdout", 0.3), ("--folds", 2), ("--tune",)])
@pytest.mark.parametrize("groups", [1, 2])
def test_groups_that_cannot_be_held_out(tmp_path: Path, run: Run, options: tuple[Any, ...], groups: int) -> None:
    """Two groups were said to be one: the models that score one of them have but the other."""
    data = table(tmp_path / "t.csv", groups=groups)
    given = ["--label", "y", "--transition", "symmetric:0.1", "--ignore", "who", "--group", "site"]
    result = run("train", data, *given, *options, "--out", tmp_path / "m")
    assert result.exit_code == 2
    told = "--group: expected at least two groups beside those that are scored, got 2 in all; give --holdout 0"
    assert (told if groups == 2 else "--group: expected at least two groups, got one") in result.stderr
    assert not (tmp_path / "m").exists()


def test_two_groups_train_without_scores_and_three_with(tmp_path: Path, run: Run) -> None:
    given = ["--label", "y", "--transition", "symmetric:0.1", "--ignore", "who", "--group", "site", "--out"]
    assert run("train", table(tmp_path / "t.csv"), *given, tmp_path / "m", "--holdout", 0).exit_code == 0
    assert run("train", table(tmp_path / "t.csv", groups=3), *given, tmp_path / "n").exit_code == 0


def test_too_few_rows_to_tune(tmp_path: Path, run: Run) -> None:
    given = ["--label", "y", "--transition", "symmetric:0.1", "--ignore", "who,site", "--tune", "--out"]
    result = run("train", table(tmp_path / "t.csv", rows=9), *given, tmp_path / "m")
    assert "--tune: expected at least 10 rows with a label, got 9" in result.stderr
    assert run("train", table(tmp_path / "t.csv", rows=10), *given, tmp_path / "m").exit_code == 0


def test_sources_that_the_table_writes_otherwise(tmp_path: Path, run: Run) -> None:
    given = ["--label", "y", "--source-column", "who", "--ignore", "site", "--out", tmp_path / "m"]
    sources = ["--transition", "1=symmetric:0.1", "--transition", "2=symmetric:0.2"]
    result = run("train", table(tmp_path / "t.csv"), *given, *sources)
    assert "got none of '1'; '1.0' is the same number: pandas reads whole numbers" in result.stderr
    sources = ["--transition", "1.0=symmetric:0.1", "--transition", "2.0=symmetric:0.2"]
    assert run("train", table(tmp_path / "t.csv"), *given, *sources).exit_code == 0
