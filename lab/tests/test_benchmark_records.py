"""Records of a benchmark: edited ones are refused with their place, and a search counts for its own budget alone."""

import copy
import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from test_commands import records, run_here

import tproper as tp
from tproper_lab import leaderboard
from tproper_lab.commands import benchmark
from tproper_lab.comparing import pose
from tproper_lab.datasets import load
from tproper_lab.problems import read_labels
from tproper_lab.protocol import SEARCH_SEED, Trial, TrialConfig
from tproper_lab.records import RecordError, check_record
from tproper_lab.store import Store, read_store

TINY = ["complementary", "--data", "digits", "--models", "linear", "--trials", "2", "--epochs", "2",
        "--search-epochs", "1", "--device", "cpu"]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("tiny")
    done = run_here("bench", *TINY, "--methods", "forward,scl_exp", "--lr", "0.3,1,3", "--out", out)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture
def row(folder):
    return copy.deepcopy(next(r for r in records(folder) if r["seed"] < SEARCH_SEED))


def within(row, path, value):
    """The row with another value at a path; ``None`` as value leaves it out."""
    *steps, last = path.split("/")
    place = row
    for step in steps:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return row


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("selections", None, "a record of a benchmark lacks selections"),
        ("weak", None, "a record of a benchmark lacks weak"),
        ("selections/weak", None, "a record of a benchmark lacks the selection weak"),
        ("selections/weak/epoch", 99, r"expected the epoch of the selection weak in \[1, 2\], got 99"),
        ("selections/weak/raw", 3, "expected raw in the selection weak to be scores, got 3"),
        ("selections/clean/raw/accuracy", 7, "expected raw accuracy in the selection clean from 0 to 1, got 7"),
        ("selections/weak/raw/log_loss", math.inf, "expected numbers in the selection weak, got raw log_loss Infinity"),
        ("selections/weak/by_weak/brier", math.nan, "expected numbers in the selection weak, got by_weak brier NaN"),
        ("weak", [], "expected weak to have 2 numbers, one per epoch, got 0"),
    ],
)
def test_edited_scores_are_refused(row, path, value, sentence):
    assert check_record(copy.deepcopy(row), "here") == row
    with pytest.raises(RecordError, match=f"here: {sentence}"):
        check_record(within(row, path, value), "here")


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("learned_lr", math.inf, "expected learned_lr in config of type float, got Infinity"),
        ("lr", math.nan, "expected lr to be a number, got NaN"),
        ("dataset", "fashion", "expected a data set among mnist, cifar10, digits, got .fashion"),
    ],
)
def test_a_record_that_could_not_be_read_again_is_not_written(row, field, value, sentence, tmp_path):
    row["config"][field] = value
    trial = Trial(TrialConfig.from_dict(row["config"]), row["seed"])
    changed = row | {field: value, "config_key": trial.config.key, "id": trial.id}
    store = Store(tmp_path / "run")
    with pytest.raises(RecordError, match=sentence):
        store.add([changed])
    assert store.records() == []
    store.close()


def test_a_search_counts_for_its_own_budget_alone(folder, tmp_path):
    rows = records(folder)
    more = ["--methods", "forward", "--lr", "0.01,0.03", "--weight-decay", "0.1", "--out", tmp_path]
    assert run_here("bench", *TINY, *more).exit_code == 0
    other = records(tmp_path)
    for mixed in ([*rows, *other], [*other, *rows]):
        blocks = {b.config.weight_decay: b for b in leaderboard.blocks(mixed)}
        assert {r["weight_decay"] for r in blocks[1e-4].searches} == {1e-4}
        assert {r["weight_decay"] for r in blocks[0.1].searches} == {0.1}
        for weight_decay, block in blocks.items():
            (alone,) = leaderboard.blocks(rows if weight_decay == 1e-4 else other)
            assert block.note() == alone.note()
            assert [e.config for e in block.entries] == [e.config for e in alone.entries]


def test_the_longest_search_speaks(folder):
    rows = records(folder)
    entry = next(e for e in leaderboard.blocks(rows)[0].entries if e.config.loss == "forward")
    longer = []
    for record in leaderboard.searches_of(entry.config, rows):
        changed = copy.deepcopy(record)
        changed["config"]["protocol"]["max_epochs"] = 5
        changed["weak"] = [9.0 if record["lr"] != 1 else 1.0]  # the longer search wants this rate
        longer.append(changed)
    found = leaderboard.searches_of(entry.config, [*rows, *longer])
    assert [r["config"]["protocol"]["max_epochs"] for r in found] == [5] * len(longer)


def test_a_rate_that_was_given_is_said_to_be(folder, tmp_path):
    args = ["--methods", "mcl_log", "--lr", "3", "--out", tmp_path]
    assert run_here("bench", *TINY, *args).exit_code == 0
    (block,) = leaderboard.blocks([*records(folder), *records(tmp_path)])
    assert "learning rates 0.3, 1, 3" in block.note()
    assert "1 trial of 1 epoch each; no search, but a given rate, for MCL-LOG" in block.note()


def test_a_folder_whose_name_is_no_text_is_read(folder, tmp_path):
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/r\xfcn 50%?#"))  # Latin-1 in a UTF-8 locale, or any umlaut in C
    try:
        shutil.copytree(folder, odd)
    except OSError:
        pytest.skip("this file system takes names in UTF-8 alone")
    assert read_store(odd) == read_store(folder)


def test_edited_certificates_are_named(folder, tmp_path):
    kept = tmp_path / "certificates.json"
    for content in ("[]", "{", '{"a": 1}', '{"a": {"x": 1}}'):
        kept.write_text(content)
        with pytest.raises(ValueError, match=r"certificates\.json: expected kept certificates, got something else"):
            leaderboard.Verdicts(kept)


# --- labels and T -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("label\n1\n2\n", "expected whole numbers in line 1, got 'label'; write it without header and index"),
        ("1\n\n2\n", "expected whole numbers in line 2, got ''"),
        ("1\nNA\n", "expected whole numbers in line 2, got 'NA'"),
        ("1\n2.0\n", "expected whole numbers in line 2, got '2.0'"),
        ("1,2\n3\n", "expected 2 numbers in line 2, as in the first, got 1"),
        (f"1\n{10**30}\n", "not a table of labels"),
    ],
)
def test_a_line_that_holds_no_labels_is_named(tmp_path, text, sentence):
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_labels(path)


def test_label_files_by_any_name(tmp_path):
    path = tmp_path / "Läbels 1.CSV"
    path.write_text("\ufeff1,-1\r\n2,3\r\n", encoding="utf-8")
    assert read_labels(path).tolist() == [[1, -1], [2, 3]]
    path.write_text("")
    assert read_labels(path).shape == (0,)
    path.write_bytes("1\n2".encode("utf-16"))
    with pytest.raises(ValueError, match="in UTF-8, got other bytes"):
        read_labels(path)


def test_labels_that_the_told_t_forbids_are_refused(tmp_path):
    told = np.full((10, 10), 1 / 9)
    told[3] = 0
    np.savetxt(tmp_path / "T.csv", told / told.sum(0), delimiter=",", fmt="%.17g")
    digits = load("digits")
    with pytest.raises(
        ValueError, match=r"expected a T that allows every label drawn from complementary\(10\).*label 3"
    ):
        pose("complementary", digits, told=str(tmp_path / "T.csv"))
    (tmp_path / "T.json").write_text(json.dumps(tp.complementary(10).matrix().tolist()))
    assert pose("complementary", digits, told=str(tmp_path / "T.json")).problem.source == "wrong"


def test_soft_labels_need_the_classes_of_the_problem(monkeypatch):
    monkeypatch.setattr(benchmark.lab, "cifar10h_counts", lambda folder: np.ones((360, 10), dtype=np.int64))
    digits = load("digits")
    assert benchmark._soft(Path("."), digits, 10).sum() == pytest.approx(360)
    with pytest.raises(ValueError, match=r"--soft: expected counts for the 360 test images .* and the 2 classes"):
        benchmark._soft(Path("."), digits, 2)
