"""One place that runs the command in this process, as a user would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

CLASSES = ("ant", "bee", "cat")


def command() -> typer.Typer:
    from tproper.cli.main import app

    return app


@pytest.fixture(scope="session")
def run() -> Callable[..., Any]:
    """``run("train", path, ...)`` gives exit_code, stdout, stderr and exception."""

    def call(*arguments: object) -> Any:
        return CliRunner().invoke(command(), [str(a) for a in arguments])

    return call


def blobs(path: Path, rows: int = 240, seed: int = 0) -> None:
    """Three classes around three points, with their true class in `kind`."""
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=rows)
    X = rng.normal(size=(rows, 2)) * 0.8 + np.array([[0, 2.0], [2, 0], [-2, -1]])[z]
    lines = [f"{a:.4f},{b:.4f},{CLASSES[k]}" for (a, b), k in zip(X, z, strict=True)]
    path.write_text("\n".join(["x,y,kind", *lines]) + "\n")


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory, run: Callable[..., Any]) -> Path:
    """A folder with clean.csv, weak.csv (complementary), sets.csv (partial) and a trained `model`; to be copied."""
    folder = tmp_path_factory.mktemp("workshop")
    blobs(folder / "clean.csv")
    calls = [
        [
            "simulate",
            folder / "clean.csv",
            "--label",
            "kind",
            "--transition",
            "complementary",
            "--out",
            folder / "weak.csv",
        ],
        [
            "simulate",
            folder / "clean.csv",
            "--label",
            "kind",
            "--transition",
            "partial:0.3",
            "--out",
            folder / "sets.csv",
        ],
        [
            "train",
            folder / "weak.csv",
            "--label",
            "weak_label",
            "--transition",
            "complementary",
            "--out",
            folder / "model",
        ],
    ]
    for arguments in calls:
        result = run(*arguments)
        assert result.exit_code == 0, result.output
    return folder
