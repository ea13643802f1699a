"""`tproper train --stream` goes on with its own work alone, and says in one sentence what it cannot use."""

import datetime as dt
import os
import signal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import tproper as tp
from tproper.cli.main import app
from tproper.solvers import minibatch
from tproper.tables import streamed_training as _streamed_training

run = CliRunner()
ROWS = 3000


def write(path, more=None, rows=ROWS):
    rng = np.random.default_rng(0)
    columns = {name: rng.standard_normal(rows) for name in "abc"}
    labels = {"weak": rng.choice(["x", "y", "z"], rows), "other": rng.choice(["x", "y", "z"], rows)}
    parquet.write_table(pa.table({**columns, **labels, **(more or {})}), path, row_group_size=500)
    return path


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "t.parquet")


def train(table, out, *more, label="weak", epochs=2, ignore=("weak", "other"), stream=True):
    kept = ["--ignore", ",".join(c for c in ignore if c != label)] if "--features" not in more else []
    fixed = ["--transition", "complementary", *(["--stream"] if stream else []), "--epochs", str(epochs)]
    return run.invoke(app, ["train", str(table), "--label", label, "--out", str(out), *fixed, *kept, *more])


@pytest.fixture
def interrupted(table, tmp_path, monkeypatch):
    """What Ctrl-C leaves behind, which comes in the middle of a batch."""
    real, calls = minibatch.train_epoch, 0

    def once(*args):
        nonlocal calls
        calls += 1
        out = real(*args)
        if calls == 2:
            signal.raise_signal(signal.SIGINT)
        return out

    with monkeypatch.context() as patch:
        patch.setattr(minibatch, "train_epoch", once)
        assert train(table, tmp_path / "m").exit_code == 130
    assert (tmp_path / ".m.stream.safetensors").exists()
    return tmp_path / "m"


@pytest.mark.parametrize("epochs", [2, 4])
def test_control_c_in_a_batch_and_on_to_the_same_model(table, tmp_path, interrupted, epochs):
    assert train(table, tmp_path / "whole", epochs=epochs).exit_code == 0
    result = train(table, interrupted, epochs=epochs)
    assert result.exit_code == 0, result.output
    assert not (tmp_path / ".m.stream.safetensors").exists()
    X = np.random.default_rng(1).standard_normal((20, 3))
    assert np.array_equal(*(tp.load(tmp_path / name).predict_proba(X) for name in ("whole", "m")))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--loss", "gls"], "learner's loss (gls instead of forward)"),
        (["--model", "mlp"], "learner's model"),
        (["--seed", "1"], "seed (1 instead of 0)"),
        (["--l2", "0.5"], "learner's l2"),
        (["--no-standardize"], "standardize"),
        (["--features", "b,a,c"], "features"),
        (["--features", "a,b"], "features"),
        (["--transition", "symmetric:0.2"], "learner's transition"),
    ],
)
def test_another_command_is_refused_the_checkpoint(table, interrupted, more, says):
    kept = interrupted.with_name(".m.stream.safetensors").read_bytes()
    if more[0] == "--transition":
        args = ["train", str(table), "--label", "weak", "--out", str(interrupted), "--stream", "--ignore", "other"]
        result = run.invoke(app, [*args, *more])
    else:
        result = train(table, interrupted, *more)
    refused(result, says)
    assert interrupted.with_name(".m.stream.safetensors").read_bytes() == kept
    assert train(table, interrupted).exit_code == 0


def refused(result, *says):
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    for text in says:
        assert text in result.stderr
    return result


def test_other_labels_and_other_data_are_refused_it(table, interrupted):
    says = ("--out: expected the command that was interrupted", "choose another --out, or delete")
    refused(train(table, interrupted, label="other"), "label (other instead of weak)", *says)
    os.utime(table, ns=(0, 10**18))
    refused(train(table, interrupted), "another files (t.parquet)", *says)


def test_fewer_epochs_than_were_begun(table, tmp_path, monkeypatch):
    class Stopping(_streamed_training.Bar):
        def at(self, done, what):
            if what == "epoch 2":
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_streamed_training, "Bar", Stopping)
        assert train(table, tmp_path / "m").exit_code == 130
    refused(train(table, tmp_path / "m", epochs=1), "got fewer epochs (1, of which it has begun 2)")


@pytest.mark.parametrize(
    "column",
    [[dt.datetime(2024, 1, 1)] * 4, [dt.date(2024, 1, 1)] * 4, [dt.timedelta(1)] * 4, [b"1"] * 4, list("pqrs")],
    ids=["timestamp", "date", "duration", "binary", "text"],
)
def test_columns_that_are_no_numbers_are_refused(tmp_path, column):
    write(tmp_path / "t.parquet", {"q": column}, rows=4)
    said = train(tmp_path / "t.parquet", tmp_path / "m").stderr
    assert "column 'q': expected numbers, got the text" in said
    assert "train without --stream" in said


@pytest.mark.parametrize("bad", [np.nan, np.inf, None])
@pytest.mark.parametrize("more", [[], ["--no-standardize"], ["--no-standardize", "--model", "mlp"]])
def test_values_that_are_no_numbers(tmp_path, bad, more):
    column = [*np.zeros(ROWS - 1), bad]
    write(tmp_path / "t.parquet", {"q": column})
    result = train(tmp_path / "t.parquet", tmp_path / "m", *more)
    refused(result, "column 'q': expected", f"got 1 {'missing' if bad is None else 'NaN or infinite'} among 500 rows")
    assert f"first at row {ROWS} of t.parquet; " in result.stderr
    assert "--ignore" in result.stderr
    assert "Classifier" not in result.stderr


def test_numbers_beyond_the_model(tmp_path):
    write(tmp_path / "t.parquet", {"q": np.full(ROWS, 1e200)})
    result = refused(train(tmp_path / "t.parquet", tmp_path / "m", "--no-standardize", "--model", "mlp"), "column 'q'")
    assert "Classifier" not in result.stderr


def test_a_file_that_shrinks_during_training(table, tmp_path, monkeypatch):
    class Shrinking(_streamed_training.Bar):
        def at(self, done, what):
            if what == "epoch 2" and self.total != 0:
                self.total = 0
                os.unlink(table)
                write(table, rows=1000)

    monkeypatch.setattr(_streamed_training, "Bar", Shrinking)
    result = train(table, tmp_path / "m", epochs=3)
    refused(result, "t.parquet: expected the file as it was when training began")
    assert not (tmp_path / "m").exists()


def test_a_gap_inside_a_candidate_list(tmp_path):
    lists = [["x", "y"], ["y", None], ["z"], ["x", "z"]]
    write(tmp_path / "t.parquet", {"sets": lists}, rows=4)
    fixed = ["--transition", "partial:0.3", "--stream", "--out", str(tmp_path / "m"), "--features", "a,b,c"]
    result = run.invoke(app, ["train", str(tmp_path / "t.parquet"), "--label", "sets", *fixed])
    refused(result, "column 'sets': expected candidate lists without gaps, got a missing member at row 2")


def test_a_column_in_the_names_of_folders_is_refused_until_it_is_left_out(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"t/year={year}").mkdir(parents=True)
        write(tmp_path / f"t/year={year}/p.parquet")
    assert train(tmp_path / "t", tmp_path / "whole", stream=False).exit_code == 0
    result = train(tmp_path / "t", tmp_path / "m")
    assert result.exit_code == 2
    assert "--stream: expected columns that the files hold, got 'year'" in result.stderr
    assert "--ignore" in result.stderr
    without = train(tmp_path / "t", tmp_path / "m", ignore=("weak", "other", "year"))
    assert without.exit_code == 0, without.output
