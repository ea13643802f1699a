"""Boosted trees by the command: trained, scored, saved, asked, exported."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest

import tproper as tp

Run = Callable[..., Any]
OPTIONS = ["--transition", "symmetric:0.2", "--label", "weak", "--model", "boosting", "--folds", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """A table with gaps and a category, and the model of it."""
    folder = tmp_path_factory.mktemp("boosted")
    rng = np.random.default_rng(0)
    x, colour = rng.normal(size=(400, 2)), rng.choice(["red", "green"], 400)
    z = ((x[:, 0] > 0) == (colour == "red")).astype(int)  # no linear model knows it
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "colour": colour, "true": np.array(["no", "yes"])[z]})
    frame.loc[::9, "b"] = np.nan
    frame["weak"] = frame["true"].where(rng.random(400) > 0.2, np.where(z == 1, "no", "yes"))
    frame.to_csv(folder / "table.csv", index=False)
    result = run("train", folder / "table.csv", *OPTIONS, "--true-label", "true", "--out", folder / "m", "--json")
    assert result.exit_code == 0, result.output
    (folder / "facts.json").write_text(result.stdout)
    return folder


def test_a_table_is_learned_and_kept(folder: Path, run: Run) -> None:
    facts = json.loads((folder / "facts.json").read_text())
    assert facts["model"] == "boosting"
    assert facts["clean_scores"]["accuracy"]["value"] > 0.9
    frame = pd.read_csv(folder / "table.csv")
    result = run("predict", folder / "m", folder / "table.csv", "--out", folder / "p.csv")
    assert result.exit_code == 0, result.output
    told = pd.read_csv(folder / "p.csv")
    p = tp.load(folder / "m").predict_proba(frame[["colour", "weak", "b", "a"]])  # by name, in any order
    np.testing.assert_allclose(told.filter(regex="yes").to_numpy()[:, 0], p[:, 1], atol=1e-6)
    assert "boosting" in (folder / "m" / "model_card.md").read_text()


def test_trees_are_exported_as_text(folder: Path, run: Run) -> None:
    result = run("export", folder / "m", "--out", folder / "trees.txt")
    assert result.exit_code == 0, result.output
    model = tp.load(folder / "m")
    X = model.inputs_.encode(pd.read_csv(folder / "table.csv"), np.float64)
    raw = lightgbm.Booster(model_file=folder / "trees.txt").predict(X, raw_score=True)
    np.testing.assert_array_equal(raw, model.module_.scores(X) @ [-1, 1])
    with pytest.raises(tp.InputError, match="trees are exported in LightGBM's own format"):
        tp.export_onnx(model, folder / "m.onnx")


def test_mistakes(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.read_csv(folder / "table.csv")[["a", "true"]]
    frame.to_parquet(folder / "t.parquet")
    options = ["--transition", "identity", "--label", "true", "--model", "boosting", "--out", folder / "n"]
    result = run("train", folder / "t.parquet", *options, "--stream")
    assert result.exit_code == 2
    assert "expected it without --model boosting" in " ".join(result.stderr.split())
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    result = run("train", folder / "t.parquet", *options)
    assert result.exit_code == 2
    assert "pip install 'tproper[boosting]'" in " ".join(result.stderr.split())
    assert not (folder / "n").exists()
