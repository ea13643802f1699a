"""No command replaces a file without ``--force``: each option that names one, and the picture beside a T."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

Lines = dict[str, tuple[list[object], str]]


@pytest.fixture
def lines(workshop: Path, tmp_path: Path) -> Lines:
    """A command for each option, and the file that it would write."""
    answers = np.random.default_rng(0).integers(2, size=(60, 3))
    (tmp_path / "a.csv").write_text("\n".join(["ann,ben,cy", *(",".join(map(str, row)) for row in answers)]) + "\n")
    asked = ["estimate", "annotators", tmp_path / "a.csv", "--label", "ann,ben,cy", "--out", tmp_path / "T.json"]
    model, weak, clean = workshop / "model", workshop / "weak.csv", workshop / "clean.csv"
    simulated = ["simulate", clean, "--label", "kind", "--transition", "complementary"]
    return {
        "predict --out": (["predict", model, weak, "--out", tmp_path / "p.csv"], "p.csv"),
        "simulate --out": ([*simulated, "--out", tmp_path / "w.csv"], "w.csv"),
        "estimate --out": (asked, "T.json"),
        "estimate, the picture beside it": (asked, "T.png"),
        "estimate --plot": ([*asked, "--plot", tmp_path / "q.svg"], "q.svg"),
        "estimate --labels-out": ([*asked, "--labels-out", tmp_path / "l.csv"], "l.csv"),
        "evaluate --plot": (
            ["evaluate", model, weak, "--label", "weak_label", "--plot", tmp_path / "r.png"],
            "r.png",
        ),
        "inspect --plot": (["inspect", "complementary:3", "--plot", tmp_path / "s.png"], "s.png"),
    }  # fmt: skip


OPTIONS = [
    "predict --out", "simulate --out", "estimate --out", "estimate, the picture beside it", "estimate --plot",
    "estimate --labels-out", "evaluate --plot", "inspect --plot",
]  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
def test_a_file_that_is_there_stays_without_force(
    option: str, lines: Lines, tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    if option == "inspect --plot":
        pytest.importorskip("mpltern")
        monkeypatch.setattr("tproper.plots.panels.draw_simplex_loss", lambda *given: None)  # takes seconds
    line, name = lines[option]
    (tmp_path / name).write_text("a thesis")
    before = sorted(p.name for p in tmp_path.iterdir())
    refused = run(*line)
    assert refused.exit_code == 2, refused.output
    assert f"{tmp_path / name}, which exists; --force replaces it" in refused.stderr
    assert "--" in refused.stderr.partition(":")[2][:4]
    assert sorted(p.name for p in tmp_path.iterdir()) == before  # nothing else was written either
    assert (tmp_path / name).read_text() == "a thesis"
    done = run(*line, "--force")
    assert done.exit_code == 0, done.output
    assert (tmp_path / name).read_bytes() != b"a thesis"


def test_a_device_needs_no_force(workshop: Path, run: Callable[..., Any]) -> None:
    assert run("predict", workshop / "model", workshop / "weak.csv", "--out", "/dev/null").exit_code == 0
