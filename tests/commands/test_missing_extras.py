"""What is not installed is named before the work; what does not need it works without."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tproper.certificates import inspection
from tproper.cli import digits
from tproper.cli.main import app
from tproper.plots import panels
from tproper.tables import model

run = CliRunner()


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def find_spec(name: str, *rest: object) -> object:
        return None if name in ("matplotlib", "mpltern") else real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    for module in (digits, panels):
        monkeypatch.setattr(module, "find_spec", find_spec)
    monkeypatch.setattr("tproper.cli.errors.find_spec", find_spec)


@pytest.mark.usefixtures("without")
@pytest.mark.parametrize(
    ("arguments", "owner", "work"),
    [
        (["demo", "--out", "demo"], digits, "contest"),
        (["inspect", "complementary:3", "--plot", "x.png"], inspection, "certify"),
        (["evaluate", "model", "data.csv", "--label", "y", "--plot", "x.png"], model, "evaluate_file"),
    ],
)
def test_pictures_name_the_extra_before_the_work(
    arguments: list[str], owner: object, work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(owner, work, lambda *rest: pytest.fail("worked"))
    result = run.invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert "pip install 'tproper[plots]'" in " ".join(result.stderr.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spec", ["complementary:10000000000", "partial:10000000000,0.1", "symmetric:10000000000,0.1"])
def test_more_classes_than_memory_holds_are_one_sentence(spec: str) -> None:
    result = run.invoke(app, ["inspect", spec])
    assert result.exit_code == 2
    assert "expected at most 10,000,000 classes, got 10,000,000,000" in " ".join(result.stderr.split())
    assert "takes 74.5 GiB" in " ".join(result.stderr.split())


def test_memory_that_runs_out_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*rest: object) -> None:
        raise MemoryError("Unable to allocate 74.5 GiB for an array")

    monkeypatch.setattr(inspection, "certify", full)
    result = run.invoke(app, ["inspect", "complementary:3"])
    assert result.exit_code == 1
    assert (
        result.stderr
        == "error: not enough memory: Unable to allocate 74.5 GiB for an array; use fewer rows or classes\n"
    )
