"""Flipped bits, another trial's file and edited numbers: named, and never part of a record."""

import dataclasses
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from test_bad_files import stored
from test_runner import TRIAL, train
from test_store import record

from tproper._core.sealed import read_sealed, write_sealed
from tproper_lab.protocol import Trial
from tproper_lab.record_files import export_records, gather, read_records
from tproper_lab.records import RecordError
from tproper_lab.store import Store, read_store

RESULTS = Path(__file__).parents[1] / "results"
TIMES = ("seconds", "finished_at")


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "run")
    yield opened
    opened.close()


@pytest.fixture
def checkpoint(small_data, store):
    """Of a trial that was stopped after its first epoch."""
    assert not train(small_data, store, seconds=0)
    (path,) = store.checkpoints.iterdir()
    return path


@pytest.fixture
def unbroken(small_data, tmp_path):
    other = Store(tmp_path / "unbroken")
    assert train(small_data, other)
    (row,) = other.records()
    other.close()
    return row


def without_times(row):
    return {name: value for name, value in row.items() if name not in TIMES}


def finish_and_compare(small_data, store, unbroken, capsys, path):
    capsys.readouterr()
    assert train(small_data, store)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert path.name in said
    assert "its trial starts afresh" in said
    (row,) = store.records()
    assert without_times(row) == without_times(unbroken)
    return said


@pytest.mark.parametrize("seed", range(6))
def test_one_flipped_bit_of_a_checkpoint(seed, small_data, store, checkpoint, unbroken, capsys):
    rng = np.random.default_rng(seed)
    content = bytearray(checkpoint.read_bytes())
    place = len(content) // 2 if seed == 0 else int(rng.integers(len(content)))  # the first one is in a weight
    content[place] ^= 1 << int(rng.integers(8))
    checkpoint.write_bytes(bytes(content))
    finish_and_compare(small_data, store, unbroken, capsys, checkpoint)


def test_another_trials_checkpoint_under_this_name(small_data, store, checkpoint, unbroken, capsys):
    mine = checkpoint.read_bytes()
    other = Trial(dataclasses.replace(TRIAL.config, lr=0.5), TRIAL.seed)
    assert not train(small_data, store, seconds=0, trial=other)
    (theirs,) = set(store.checkpoints.iterdir()) - {checkpoint}
    checkpoint.write_bytes(theirs.read_bytes())
    assert checkpoint.read_bytes() != mine
    theirs.unlink()
    said = finish_and_compare(small_data, store, unbroken, capsys, checkpoint)
    assert f"it is of the trial {other.id}" in said


@pytest.mark.parametrize(
    "changes",
    [
        {"epoch": 10**12},
        {"epoch": 2},
        {"best_epoch": 0},
        {"best_accuracy": 0.999},
        {"valid": [1.5], "best_accuracy": 1.5},
        {"valid": [0.5, 0.6]},
        {"stale": 5},
        {"reductions": 2},
        {"seconds": -1.0},
        {"seconds": 10**400},
        {"risk": []},
    ],
    ids=str,
)
def test_progress_that_cannot_have_come_about(changes, small_data, store, checkpoint, unbroken, capsys):
    """Edited by someone who knows how to make the checksum right."""
    header, tensors = read_sealed(checkpoint)
    progress = json.loads(header["progress"]) | changes
    write_sealed(checkpoint, tensors, header | {"progress": json.dumps(progress)})
    finish_and_compare(small_data, store, unbroken, capsys, checkpoint)


def test_leftovers_of_a_killed_run_are_gone_after_the_next(tmp_path):
    Store(tmp_path).close()
    (tmp_path / "checkpoints" / ".x-0.safetensors.tproper-0123456789ab.part").write_bytes(b"half")
    Store(tmp_path).close()
    assert list((tmp_path / "checkpoints").iterdir()) == []


# --- records ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"accuracy": 97.3},
        {"accuracy": float("nan")},
        {"seconds": -1.0},
        {"best_epoch": 41},
        {"seed": 5},
        {"risk": "low"},
        {"zeros": 0.5},
        {"software": None, "machine": 3},
    ],
    ids=str,
)
def test_what_would_be_refused_when_read_is_not_written(store, changes):
    with pytest.raises(RecordError, match=r"record 2 for .*records\.sqlite: "):
        store.add([record(seed=0), record(seed=1) | changes])
    assert store.records() == []
    store.check()


def test_a_changed_value_within_its_limits_is_named(tmp_path):
    path = stored(tmp_path, 3)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE trials SET accuracy = 0.81 WHERE seed = 1")
    db.close()
    for read in (lambda: read_store(tmp_path), Store(tmp_path).check, Store(tmp_path).records):
        with pytest.raises(RecordError, match=r"records\.sqlite, row 2: damaged or edited: the checksum"):
            read()


def test_bytes_that_flip_in_a_store_are_named_or_harmless(tmp_path):
    path = stored(tmp_path, 12)
    good, truth = path.read_bytes(), read_store(tmp_path)
    rng = np.random.default_rng(1)
    named = 0
    for place in rng.integers(len(good), size=150).tolist():
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(bad))
        try:
            found, said = read_store(tmp_path), ""
        except (RecordError, OSError) as error:
            found, said = truth, str(error)
        assert found == truth, place
        assert not said or str(path) in said
        named += bool(said)
    assert named > 30  # much of the file is empty


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_an_exported_record_that_was_changed_is_named(tmp_path, suffix):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    path = tmp_path / f"r.{suffix}"
    export_records([record(seed=s) for s in range(3)], path)
    assert gather(path) == [record(seed=s) for s in range(3)]
    if suffix == "jsonl":
        lines = path.read_text().splitlines()
        lines[1] = lines[1].replace('"accuracy": 0.8,', '"accuracy": 0.9,')
        path.write_text("\n".join(lines))
    else:
        import pandas as pd

        pd.read_parquet(path).assign(accuracy=[0.8, 0.9, 0.8]).to_parquet(path)
    with pytest.raises(RecordError, match=rf"r\.{suffix}, (line|row) 2: damaged or edited: the checksum of the record"):
        read_records(path)


@pytest.mark.parametrize("name", sorted(p.name for p in RESULTS.glob("*.jsonl")))
def test_records_from_before_there_were_checksums_are_read(name, tmp_path, store):
    old = tmp_path / name
    plain = [json.loads(line) for line in (RESULTS / name).read_text().splitlines()]
    old.write_text("".join(json.dumps({n: v for n, v in row.items() if n != "sha256"}) + "\n" for row in plain))
    rows = read_records(old)
    assert store.add(rows) == len(rows)
    assert sorted(store.records(), key=str) == sorted(rows, key=str)


def test_a_store_from_before_there_were_checksums_goes_on(tmp_path):
    path = stored(tmp_path, 2)
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE trials DROP COLUMN sha256")
    db.close()
    assert len(read_store(tmp_path)) == 2
    store = Store(tmp_path)
    store.add([record(seed=2)])
    store.check()
    assert len(store.records()) == 3
    store.close()
