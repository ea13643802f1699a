"""Records are written once and whole; checkpoints are replaced, never torn."""

import json
import os
import sqlite3

import pytest
import torch

from tproper_lab import paper, store
from tproper_lab.protocol import Progress, Trial
from tproper_lab.record_files import export_records, gather, read_records
from tproper_lab.records import RecordError, significant
from tproper_lab.store import Store


def record(method="gls", model="mlp", seed=0, accuracy=0.8, **changes):
    config = paper.chosen(method, model)
    trial = Trial(config, seed)
    values = {
        "id": trial.id, "config_key": config.key, "seed": seed, "dataset": config.dataset,
        "model": model, "loss": config.loss, "lr": config.lr, "weight_decay": config.weight_decay,
        "k": config.k, "alpha": config.alpha, "epochs": 40, "best_epoch": 10, "valid_accuracy": accuracy,
        "accuracy": accuracy, "log_loss": 0.5, "brier": 0.2, "ece": 0.1, "zeros": 0,
        "softmax_log_loss": 0.6, "softmax_brier": 0.3, "softmax_ece": 0.2, "seconds": 1.0,
        "machine": "test", "software": "test", "revision": "test", "finished_at": "2021-07-18",
        "config": config.as_dict(), "risk": [2.0, 1.5, None], "valid": [0.5, 0.8, 0.7],
    }  # fmt: skip
    return values | changes


@pytest.fixture
def run(tmp_path):
    opened = Store(tmp_path / "run")
    yield opened
    opened.close()


def test_a_trial_is_written_once(run):
    assert run.add([record(seed=0), record(seed=1)]) == 2
    assert run.add([record(seed=1, accuracy=0.1), record(seed=2)]) == 1
    assert [r["accuracy"] for r in run.records()] == [0.8, 0.8, 0.8]
    assert run.done() == {record(seed=s)["id"] for s in range(3)}
    assert run.records(seed=1)[0] == record(seed=1)
    with pytest.raises(ValueError, match="expected columns of the store, got sead"):
        run.records(sead=1)


def test_records_can_be_queried_with_plain_sql(run):
    run.add([record(seed=s, accuracy=0.7 + s / 100) for s in range(3)])
    with sqlite3.connect(run.path) as other:
        rows = other.execute("SELECT model, COUNT(*), AVG(accuracy) FROM trials GROUP BY model").fetchall()
    assert rows == [("mlp", 3, pytest.approx(0.71))]


def test_a_failed_transaction_leaves_no_row(run):
    broken = record(seed=1)
    del broken["epochs"]
    with pytest.raises(RecordError, match="a record lacks epochs"):
        run.add([record(seed=0), broken])
    assert run.records() == []


def progress_after(epochs, protocol):
    """Made as a run makes it: one accuracy after the other."""
    progress = Progress()
    for epoch in range(epochs):
        progress.record(protocol, 1.0, 0.5 + epoch / 100)
    return progress


def test_checkpoint_round_trip_and_replacement(run):
    trial = Trial(paper.chosen("bc", "linear"), 4)
    assert run.restore(trial) is None
    for epoch in (3, 4):
        state = {"weight/0": torch.full((2, 3), float(epoch)), "best_scores": torch.zeros(5, 2)}
        run.save(trial, progress_after(epoch, trial.config.protocol), state)
    progress, tensors = run.restore(trial)
    assert (progress.epoch, progress.risk) == (4, [1.0] * 4)
    assert torch.equal(tensors["weight/0"], torch.full((2, 3), 4.0))
    assert len(os.listdir(run.checkpoints)) == 1
    run.forget(trial)
    assert run.restore(trial) is None


def test_a_full_disk_leaves_the_old_checkpoint(run, monkeypatch):
    trial = Trial(paper.chosen("bc", "linear"), 4)
    run.save(trial, progress_after(1, trial.config.protocol), {"a": torch.ones(2)})

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        run.save(trial, progress_after(2, trial.config.protocol), {"a": torch.zeros(2)})
    progress, tensors = run.restore(trial)
    assert progress.epoch == 1
    assert torch.equal(tensors["a"], torch.ones(2))
    assert len(os.listdir(run.checkpoints)) == 1  # no draft left over


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_export_and_import(run, tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    rows = [record(seed=s) for s in range(3)] + [record(method="bc", seed=0)]
    run.add(rows)
    path = tmp_path / f"records.{suffix}"
    export_records(run.records(), path)
    other = Store(tmp_path / "other")
    assert other.add(gather(tmp_path)) == 4
    assert other.add(gather(path)) == 0
    assert other.records() == run.records()
    other.close()


def test_records_that_were_tampered_with_are_refused(tmp_path):
    path = tmp_path / "records.jsonl"
    altered = record()
    altered["config"]["lr"] = 0.5
    path.write_text(json.dumps(altered) + "\n")
    with pytest.raises(RecordError, match="does not match its configuration"):
        read_records(path)
    path.write_text('{"id": "x"}\n')
    with pytest.raises(RecordError, match="a record lacks"):
        read_records(path)
    path.write_text("not json\n")
    with pytest.raises(RecordError, match=r"records.jsonl, line 1: expected JSON, got something else"):
        read_records(path)
    with pytest.raises(RecordError, match=r"ends in .jsonl or .parquet"):
        export_records([], tmp_path / "records.csv")


def test_numbers_that_are_none_in_json():
    assert significant(1.23456789) == 1.23457
    assert significant(float("nan")) is None
    assert significant(float("inf")) is None


def test_a_checkpoint_whose_header_is_nested_too_deeply_cannot_be_used(run):
    from safetensors.torch import save_file

    trial = Trial(paper.chosen("gls", "mlp"), 0)
    save_file({"w": torch.zeros(1)}, run._checkpoint(trial), metadata={"progress": "[" * 100_000})
    with pytest.raises(store.CheckpointError, match="cannot be used"):
        run.restore(trial)
