"""Files that are not what they should be: one sentence says which, where and why, and nothing of them is used."""

import hashlib
import json
import os
import sqlite3

import pytest
from test_commands import SMALL, run_here
from test_store import record

from tproper_lab.commands import experiments as commands
from tproper_lab.record_files import export_records, gather
from tproper_lab.records import RecordError
from tproper_lab.store import Store, read_store

SHORT = [*SMALL[:-1], "3"]  # as many epochs


DEEP = "[" * 100_000 + "]" * 100_000


def changed(**changes):
    return json.dumps(record(seed=1) | changes)


def config(**changes):
    return record()["config"] | changes


def without(values, name):
    return {key: value for key, value in values.items() if key != name}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("5", "expected a record (a JSON object), got 5"),
        ("null", "expected a record (a JSON object), got null"),
        ("{oops", "expected JSON, got something else (Expecting property name"),
        (changed()[:195], "expected JSON, got something else ("),
        ("[" * 100_000, "expected a record, got JSON that is nested too deeply"),
        (changed()[:-1] + ', "zeros": ' + DEEP + "}", "expected a record, got JSON that is nested too deeply"),
        (json.dumps(without(record(), "zeros")), "a record lacks zeros"),
        (changed(config=config(speed=3)), "in config, got speed besides"),
        (changed(config=without(config(), "protocol")), "in config, got no protocol"),
        (changed(config=config(protocol=None)), "expected protocol to be a JSON object, got null"),
        (changed(config=without(config(), "lr")), "in config, got no lr"),
        (changed(config=config(protocol={"patience": 3})), "in protocol, got no batch_size"),
        (changed(config=None), "expected config to be a JSON object, got null"),
        (changed(config=config(lr="high")), 'expected lr in config of type float, got "high"'),
        (changed(config=config(model="vgg")), 'expected a model among linear, mlp, resnet20, wrn28_2, got "vgg"'),
        (changed(config=config(k=0.0)), "expected k > 0 for the loss 'gls', got 0.0"),
        (changed(config=config(lr=0.5)), "does not match its configuration"),
        (changed(seed=7), "does not match its configuration and seed"),
        (changed(seed="1"), 'expected seed to be a whole number >= 0, got "1"'),
        (changed(accuracy="high"), 'expected accuracy to be a number from 0 to 1, got "high"'),
        (changed(accuracy=97.3), "expected accuracy to be a number from 0 to 1, got 97.3"),
        (changed(accuracy=None), "expected accuracy to be a number from 0 to 1, got null"),
        (changed(accuracy=float("nan")), "expected accuracy to be a number from 0 to 1, got NaN"),
        (changed(accuracy=True), "expected accuracy to be a number from 0 to 1, got true"),
        (changed(brier="low"), 'expected brier to be a number, got "low"'),
        (changed(epochs=0), "expected epochs to be a whole number >= 1, got 0"),
        (changed(best_epoch=41), "expected best_epoch <= epochs = 40, got 41"),
        (changed(model="linear"), 'expected model "mlp", as configured, got "linear"'),
        (changed(dataset="cifar10"), 'expected dataset "mnist", as configured, got "cifar10"'),
        (changed(config_key="0"), "expected config_key "),
        (changed(software=3), "expected software to be text, got 3"),
        (changed(risk=3), "expected risk to be a list of numbers, got 3"),
        (changed(valid=["a"]), 'expected valid to be a list of numbers, got ["a"]'),
    ],
)
def test_a_bad_line_is_named_and_nothing_of_its_file_is_taken(line, sentence, tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text(f"{json.dumps(record())}\n\n{line}\n")
    store = Store(tmp_path / "run")
    with pytest.raises(RecordError) as error:
        store.add(gather(path))
    assert str(error.value).startswith(f"{path}, line 3: ")
    assert sentence in str(error.value)
    assert store.done() == set()
    store.close()
    done = run_here("report", path)
    assert done.exit_code == 2
    assert f"error: {path}, line 3: " in done.output


def test_a_bad_file_of_a_folder_leaves_the_others_out_too(tmp_path):
    export_records([record()], tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_text("5\n")
    store = Store(tmp_path / "run")
    with pytest.raises(RecordError, match=r"b.jsonl, line 1"):
        store.add(gather(tmp_path))
    assert store.done() == set()
    store.close()


def test_bytes_that_are_no_text_are_said(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'"\xff\xfe"\n')
    with pytest.raises(RecordError, match=r"a.jsonl, line 1: expected JSON in UTF-8"):
        gather(tmp_path)


def test_bad_parquet_is_said(tmp_path):
    pd = pytest.importorskip("pandas", reason="Parquet needs pandas")
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    path = tmp_path / "r.parquet"
    export_records([record(), record(seed=1)], path)
    rows = pd.read_parquet(path)
    rows.drop(columns="zeros").to_parquet(path)
    with pytest.raises(RecordError, match=r"r.parquet, row 1: a record lacks zeros"):
        gather(path)
    rows.assign(config=["{}", "{oops"]).iloc[1:].to_parquet(path)
    with pytest.raises(RecordError, match=r'r.parquet, row 1: expected JSON in config, got "{oops"'):
        gather(path)
    rows.assign(config=["{}", DEEP]).iloc[1:].to_parquet(path)
    with pytest.raises(RecordError, match=r"r.parquet, row 1: expected JSON in config"):
        gather(path)
    rows.assign(accuracy=[0.8, None]).to_parquet(path)
    with pytest.raises(RecordError, match=r"r.parquet, row 2: expected accuracy to be a number from 0 to 1"):
        gather(path)
    path.write_bytes(b"PAR1 but not really")
    with pytest.raises(RecordError, match=r"r.parquet: expected a Parquet file, got something else"):
        gather(path)


# --- a store that is none ---------------------------------------------------------------------------


def stored(folder, count=40):
    store = Store(folder)
    store.add([record(seed=s) for s in range(count)])
    store.close()
    return folder / "records.sqlite"


def garbage(path):
    path.write_bytes(b"these are no records, and no database " * 100)


def truncated(path):
    path.write_bytes(path.read_bytes()[:12288])


def other_table(path):
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE trials (id TEXT, seed TEXT, dataset TEXT, model TEXT, config_key TEXT)")
        db.execute("INSERT INTO trials VALUES ('a', 'b', 'c', 'd', 'e')")
    db.close()


@pytest.mark.parametrize("spoil", [garbage, truncated, other_table])
def test_a_store_that_is_none_is_said_and_left_alone(spoil, tmp_path):
    path = stored(tmp_path)
    spoil(path)
    before = path.read_bytes()
    for args in (["report", tmp_path], ["reproduce", "table2", *SHORT, "--models", "mlp", "--out", tmp_path]):
        done = run_here(*args)
        assert done.exit_code == 2, done.output
        said = " ".join(done.output.split())
        assert f"{path} is not a store of records" in said
        assert "move it away" in said
        assert "is kept" not in said
    assert path.read_bytes() == before


def test_an_empty_file_holds_no_records(tmp_path):
    (tmp_path / "records.sqlite").touch()
    done = run_here("report", tmp_path)
    assert done.exit_code == 2
    assert "is not a store of records (no such table: trials)" in " ".join(done.output.split())


def test_a_bad_row_of_a_store_is_said(tmp_path):
    path = stored(tmp_path, 2)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE trials SET accuracy = 97.3 WHERE seed = 1")
    db.close()
    with pytest.raises(RecordError, match=r"records.sqlite, row 2: expected accuracy to be a number from 0 to 1"):
        read_store(tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("accuracy = 'abc'", 'expected accuracy to be a number from 0 to 1, got "abc"'),
        ("risk = '{oops'", "expected JSON in config, risk, valid, weak, selections, got something else"),
        (f"valid = '{DEEP}'", "expected JSON in config, risk, valid, weak, selections, got something else"),
        ("config = 3", "expected config to be a JSON object, got 3"),
    ],
)
def test_a_bad_row_of_a_store_is_said_before_anything_is_trained(change, sentence, tmp_path, monkeypatch):
    path = stored(tmp_path, 2)
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE trials SET {change} WHERE seed = 1")
    db.close()
    monkeypatch.setattr(commands.Work, "run", lambda *rest: pytest.fail("trained"))
    done = run_here("reproduce", "table2", *SHORT, "--models", "mlp", "--out", tmp_path)
    assert done.exit_code == 2, done.output
    assert f"error: {path}, row 2: {sentence}" in " ".join(done.output.split())


def fingerprints(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir() if p.is_file()}


def test_reading_changes_nothing_in_the_folder(tmp_path):
    stored(tmp_path)
    before = fingerprints(tmp_path)
    assert set(before) == {"records.sqlite"}
    assert len(read_store(tmp_path)) == 40
    assert fingerprints(tmp_path) == before


def test_what_a_running_run_has_written_is_read(tmp_path):
    store = Store(tmp_path)
    store.add([record(seed=0)])
    assert (tmp_path / "records.sqlite-wal").exists()
    assert read_store(tmp_path) == [record(seed=0)]
    store.add([record(seed=1)])
    assert len(read_store(tmp_path)) == 2
    store.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_reported(tmp_path):
    stored(tmp_path / "run")
    (tmp_path / "run").chmod(0o555)
    try:
        assert run_here("report", tmp_path / "run", "--out", tmp_path / "out").exit_code == 0
        done = run_here("report", tmp_path / "run")
        assert done.exit_code == 1
        assert "Permission denied" in done.output
    finally:
        (tmp_path / "run").chmod(0o755)
