"""`tproper prevalence`: shares of classes from a table, the same as Python's; systems compared by judges."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tproper as tp
from tproper.cli.main import app


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    z = rng.choice(3, 1500, p=[0.5, 0.3, 0.2])
    names = np.array(["A", "B", "tie"])
    frame = pd.DataFrame({"x": rng.normal(size=1500) + z, "y": rng.normal(size=1500)})
    for a, right in enumerate((0.8, 0.7)):
        frame[f"judge{a}"] = names[np.where(rng.random(1500) < right, z, rng.integers(0, 3, 1500))]
    frame.loc[rng.random(1500) < 0.05, "judge0"] = "unsure"
    frame["people"] = pd.Series(names[z]).where(rng.random(1500) < 0.15)
    path = tmp_path_factory.mktemp("prevalence") / "duels.csv"
    frame.to_csv(path, index=False)
    return path


def test_the_command_prints_what_python_finds(table):
    asked = ["--label", "judge0", "--true-label", "people", "--classes", "A,B,tie"]
    result = run("prevalence", table, *asked, "--difference", "A,B", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    frame = pd.read_csv(table)
    codes = {"A": 0, "B": 1, "tie": 2, "unsure": 3}
    true = frame["people"].map(codes).fillna(-1).astype(int).to_numpy()
    own = tp.weak_prevalence(frame["judge0"].map(codes).to_numpy(), true=true, num_classes=3)
    np.testing.assert_allclose([s["value"] for s in said["shares"]], own.value)
    assert [s["class"] for s in said["shares"]] == ["A", "B", "tie"]
    assert said["difference"]["value"] == pytest.approx(own.difference(0, 1).shown)
    text = run("prevalence", table, *asked, "--difference", "A,B").stdout
    assert "a is A, b is B" in text
    assert "random sample" in text


def test_several_judges_features_and_T(table):
    both = ["--label", "judge0,judge1", "--true-label", "people", "--classes", "A,B,tie"]
    assert "unsure" not in run("prevalence", table, *both).stdout
    found = tp.prevalence_table(table, label="judge0,judge1", true_label="people", classes="A,B,tie", features="x,y")
    assert any("features" in note for note in found.notes)
    assert ((found.interval[:, 0] <= [0.5, 0.3, 0.2]) & (found.interval[:, 1] >= [0.5, 0.3, 0.2])).sum() >= 2
    alone = tp.prevalence_table(table, label="judge1", transition="symmetric:0.2", classes="A,B,tie")
    assert alone.classes == ["A", "B", "tie"]
    assert alone.difference("A", "B").better == "a"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "--true-label"),
        (["--true-label", "people", "--difference", "A"], "--difference"),
        (["--true-label", "people", "--difference", "A,C"], "'C'"),
        (["--transition", "estimate"], "--transition"),
        (["--transition", "symmetric:0.2", "--features", "x"], "--features"),
    ],
)
def test_what_cannot_be_is_refused(table, more, words):
    result = run("prevalence", table, "--label", "judge1", *more)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
