"""`tproper train --stream`: Parquet in constant memory, resumed where it was stopped."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import tproper as tp
from tproper.cli.main import app
from tproper.tables import streamed_training as _streamed_training

run = CliRunner()


@pytest.fixture(scope="module")
def weak(tmp_path_factory):
    """Digits with complementary labels, in a folder of two Parquet files."""
    folder = tmp_path_factory.mktemp("data") / "weak"
    folder.mkdir()
    digits = load_digits(as_frame=True).frame.rename(columns={"target": "weak"})
    digits["weak"] = tp.complementary(10).sample(digits["weak"].to_numpy(), seed=0)
    digits[:700].to_parquet(folder / "a.parquet", row_group_size=200)
    digits[700:1300].to_parquet(folder / "b.parquet", row_group_size=200)
    return folder


def command(weak, out, *more):
    fixed = ["--label", "weak", "--transition", "complementary", "--stream", "--epochs", "3", "--out", str(out)]
    return ["train", str(weak), *fixed, *more]


def test_a_folder_of_parquet_becomes_a_model(weak, tmp_path):
    result = run.invoke(app, command(weak, tmp_path / "model", "--epochs", "40"))
    assert result.exit_code == 0, result.output
    assert "trained on 1,300 rows" in result.stdout
    few = "warning: 40 passes over 1,300 rows are 80 steps of training, too few for probabilities to be near their best"
    assert few in result.stderr
    assert "give --epochs 500" in result.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model"]
    model = tp.load(tmp_path / "model")
    table = model.extra_["table"]
    X, z = load_digits(return_X_y=True)
    p = model.predict_proba((X[1300:] - table["centre"]) / table["scale"])
    assert np.mean(p.argmax(axis=1) == z[1300:]) > 0.7


def test_interrupted_it_goes_on_as_if_it_had_never_stopped(weak, tmp_path, monkeypatch):
    assert run.invoke(app, command(weak, tmp_path / "whole")).exit_code == 0

    class Interrupted(_streamed_training.Bar):
        def at(self, done, what):
            if what == "epoch 2":
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_streamed_training, "Bar", Interrupted)
        result = run.invoke(app, command(weak, tmp_path / "broken"))
    assert result.exit_code == 130
    assert not (tmp_path / "broken").exists()
    assert (tmp_path / ".broken.stream.safetensors").exists()
    assert run.invoke(app, command(weak, tmp_path / "broken")).exit_code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken", "whole"]
    X = load_digits().data[:50]
    whole, broken = (tp.load(tmp_path / name).predict_proba(X) for name in ("whole", "broken"))
    assert np.array_equal(whole, broken)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--tune"], "without --tune"),
        (["--missing", "uninformative"], "without --missing uninformative"),
    ],
)
def test_what_needs_the_whole_table_is_refused(weak, tmp_path, more, says):
    result = run.invoke(app, command(weak, tmp_path / "model", *more))
    assert result.exit_code == 2
    assert says in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_csv_and_missing_labels_are_refused(weak, tmp_path):
    import pandas as pd

    frame = pd.read_parquet(weak / "a.parquet").astype({"weak": "object"})
    frame.to_csv(tmp_path / "weak.csv", index=False)
    result = run.invoke(app, command(tmp_path / "weak.csv", tmp_path / "model"))
    assert (result.exit_code, "expected a Parquet file" in result.stderr) == (2, True)
    frame["weak"] = frame["weak"].astype(str)
    frame.loc[3, "weak"] = None
    frame.to_parquet(tmp_path / "weak.parquet")
    result = run.invoke(app, command(tmp_path / "weak.parquet", tmp_path / "model"))
    assert (result.exit_code, "got 1 rows without; leave them out of the table" in result.stderr) == (2, True)
    assert not (tmp_path / "model").exists()
