"""No command removes what it did not make, and none writes numbers that are none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tproper as tp
from tproper import plots
from tproper.certificates import inspection
from tproper.cli import digits
from tproper.learn.classifier import WeakLabelClassifier
from tproper.tables import evaluating as _evaluating
from tproper.tables import streaming as _streaming

Run = Callable[..., Any]


def training(folder: Path, *more: object) -> list[object]:
    options = ["--label", "weak_label", "--transition", "complementary", "--out", folder / "m"]
    return ["train", folder / "weak.csv", *options, "--holdout", "0", "--calibrate", "none", *more]


@pytest.fixture
def here(workshop: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    shutil.copytree(workshop, folder)
    return folder


def during(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, act: Callable[[], object]) -> None:
    """Something happens once, in the middle of the work."""
    real = getattr(owner, name)

    def wrapped(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, name, real)
        act()
        return real(*given, **named)

    monkeypatch.setattr(owner, name, wrapped)


def listing(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("more", [[], ["--force"]])
def test_a_folder_that_appears_while_train_runs_stays(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    def appear() -> None:
        (here / "m").mkdir()
        (here / "m" / "thesis.txt").write_text("mine")

    during(monkeypatch, WeakLabelClassifier, "fit", appear)
    result = run(*training(here, *more))
    assert result.exit_code == 2
    assert (here / "m" / "thesis.txt").read_text() == "mine"
    assert listing(here / "m") == ["thesis.txt"]
    kept = here / "m.kept-1"
    assert result.stderr.startswith(f"error: {here / 'm'}: expected ")
    assert f"the result is kept in {kept}\n" in result.stderr
    assert tp.load(kept).predict_proba(np.zeros((1, 2))).shape == (1, 3)
    assert result.stderr.count("\n") == 1
    assert listing(here) == ["clean.csv", "m", "m.kept-1", "model", "sets.csv", "weak.csv"]


def test_of_two_trainings_with_one_out_both_models_are_there(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    other: list[Any] = []
    during(monkeypatch, WeakLabelClassifier, "fit", lambda: other.append(run(*training(here, "--seed", "1"))))
    mine = run(*training(here, "--seed", "2"))
    assert (other[0].exit_code, mine.exit_code) == (0, 2)
    seeds = {tp.load(here / name).random_state for name in ("m", "m.kept-1")}
    assert seeds == {1, 2}


def test_force_replaces_a_model_but_not_what_was_put_into_it_meanwhile(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*training(here)).exit_code == 0
    during(monkeypatch, WeakLabelClassifier, "fit", (here / "m" / "notes.txt").touch)
    result = run(*training(here, "--force"))
    assert result.exit_code == 2
    assert "which also holds 'notes.txt'" in result.stderr
    assert "notes.txt" in listing(here / "m")
    assert "model.json" in listing(here / "m.kept-1")


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("what", ["predict", "simulate", "evaluate", "inspect", "demo"])
def test_a_file_that_appears_or_changes_while_a_command_runs_stays(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch, what: str, there: bool
) -> None:
    if what == "inspect":
        pytest.importorskip("mpltern")
        monkeypatch.setattr(plots, "draw_simplex_loss", lambda *given: None)  # takes seconds
    out = here / {"predict": "o.csv", "simulate": "o.csv", "demo": "demo.png"}.get(what, "o.png")
    if there:
        out.write_text("before")
    simulating = ["simulate", here / "clean.csv", "--label", "kind", "--transition", "complementary", "--out", out]
    owner, name, arguments = {
        "predict": (_streaming, "predict", ["predict", here / "model", here / "weak.csv", "--out", out]),
        "simulate": (_streaming, "weaken", simulating),
        "evaluate": (
            _evaluating,
            "evaluate",
            ["evaluate", here / "model", here / "weak.csv", "--label", "weak_label", "--plot", out],
        ),
        "inspect": (inspection, "critical_k", ["inspect", "complementary:3", "--plot", out]),
        "demo": (digits, "clean_scores", ["demo", "--out", here, "--epochs", "1"]),
    }[what]
    during(monkeypatch, owner, name, lambda: out.write_text("my other work"))
    result = run(*arguments, *([] if what == "demo" else ["--force"]))
    assert result.exit_code == 2, result.output
    assert out.read_text() == "my other work"
    kept = out.with_name(f"{out.stem}.kept-1{out.suffix}")
    assert kept.stat().st_size > 100
    assert str(kept) in result.stderr.replace("\n", "")


# --- numbers that are none --------------------------------------------------------------------------


def with_cell(folder: Path, cell: str, row: int = 7) -> Path:
    lines = (folder / "weak.csv").read_text().splitlines()
    lines[row] = ",".join([cell, *lines[row].split(",")[1:]])
    (folder / "huge.csv").write_text("\n".join(lines) + "\n")
    return folder / "huge.csv"


@pytest.fixture(scope="module", params=["linear", "mlp"])
def narrow(request: Any, workshop: Path, tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """A model `m` of features so small that 1e308 is too large for it, and the table it was trained on."""
    folder = tmp_path_factory.mktemp("narrow")
    lines = [line.split(",") for line in (workshop / "weak.csv").read_text().splitlines()]
    small = [lines[0], *([f"{float(x) / 100:g}", *rest] for x, *rest in lines[1:])]
    (folder / "weak.csv").write_text("\n".join(map(",".join, small)) + "\n")
    assert run(*training(folder, "--model", request.param, "--epochs", "2")).exit_code == 0
    return folder


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("cell", ["1e308", "-1e308"])
def test_a_cell_too_large_for_the_model_is_refused_with_its_row(
    narrow: Path, tmp_path: Path, run: Run, command: str, cell: str
) -> None:
    data, out = with_cell(narrow, cell), tmp_path / "p.csv"
    more = ["--out", out] if command == "predict" else ["--label", "weak_label"]
    result = run(command, narrow / "m", data, *more)
    assert result.exit_code == 2, result.output
    assert "row 7" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not out.exists()
    assert "nan" not in result.stdout


def test_scores_that_overflow_are_refused_with_their_row(here: Path, run: Run) -> None:
    """The cell is within the numbers, also at the model's scale; its product with the weights is not."""
    model = tp.load(here / "model")
    with torch.no_grad():
        model.module_.weight.mul_(1000)
    tp.save(model, here / "steep", extra=model.extra_)
    result = run("predict", here / "steep", with_cell(here, "1e308"))
    assert result.exit_code == 2
    assert "row 7: expected finite class probabilities, got " in result.stderr
    assert "too large for the model" in result.stderr


def test_a_model_whose_weights_are_none_predicts_nothing(here: Path, run: Run) -> None:
    model = tp.load(here / "model")
    with torch.no_grad():
        model.module_.weight.fill_(float("nan"))
    tp.save(model, here / "spoiled", extra=model.extra_)
    result = run("predict", here / "spoiled", here / "weak.csv")
    assert result.exit_code == 2
    assert "row 1: expected finite class probabilities, got nan: the model's weights are not finite" in result.stderr
    assert "nan" not in result.stdout
