"""`train` and `evaluate` say so where labels contradict the transition, and are silent where they do not."""

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from typer.testing import CliRunner

import tproper as tp
from tproper.cli.main import app


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("doubts")
    z = rng.integers(0, 3, 4000)
    X = rng.standard_normal((4000, 4)) + 4 * np.eye(3, 4)[z]
    weak = tp.Transition([[0.6, 0.0, 0.0], [0.4, 1.0, 0.4], [0.0, 0.0, 0.6]]).sample(z, 1)
    rows = [",".join([*(f"{x:.5f}" for x in row), "xyz"[y]]) for row, y in zip(X, weak, strict=True)]
    (folder / "t.csv").write_text("\n".join(["a,b,c,d,label", *rows]) + "\n")
    (folder / "T.csv").write_text("0.6,0,0\n0.4,1,0.4\n0,0,0.6\n")
    return folder


@pytest.mark.parametrize(("transition", "doubtful"), [("symmetric:0.2667", True), ("T.csv", False)])
def test_labels_that_contradict_t_are_said(tables, tmp_path, transition, doubtful):
    spec = str(tables / transition) if transition.endswith(".csv") else transition
    arguments = ["train", str(tables / "t.csv"), "--label", "label", "--transition", spec, "--classes", "x,y,z"]
    trained = CliRunner().invoke(app, [*arguments, "--holdout", "0.5", "--out", str(tmp_path / "m")])
    assert trained.exit_code == 0, trained.output
    assert ("T IS DOUBTFUL" in " ".join(trained.output.split())) == doubtful
    assert ("T IS DOUBTFUL" in (tmp_path / "m" / "model_card.md").read_text()) == doubtful
    scored = CliRunner().invoke(app, ["evaluate", str(tmp_path / "m"), str(tables / "t.csv"), "--label", "label"])
    assert scored.exit_code == 0, scored.output
    assert ("T IS DOUBTFUL" in scored.stderr) == doubtful
