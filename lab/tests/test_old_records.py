"""Trials of 0.1.0 are read by today's code, give the same report, and are run again to the same result."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tproper.cli.main import app
from tproper_lab.record_files import gather
from tproper_lab.records import Record
from tproper_lab.store import read_store

OLD = Path(__file__).parents[2] / "tests" / "releases" / "0.1.0"


def call(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """A copy: reading a store may write beside it."""
    return Path(shutil.copytree(OLD / "records", tmp_path / "records"))


def by_id(rows: list[Record]) -> dict[str, Record]:
    return {row["id"]: row for row in rows}


@pytest.mark.parametrize("name", ["paper", "bench"])
def test_the_store_and_the_export_hold_the_same_trials(name: str, records: Path) -> None:
    stored, exported = by_id(read_store(records / name)), by_id(gather(records / f"{name}.jsonl"))
    lines = [json.loads(line) for line in (OLD / "records" / f"{name}.jsonl").read_text().splitlines()]
    assert set(stored) == set(exported) == {line["id"] for line in lines}
    for line in lines:
        for row in (stored[line["id"]], exported[line["id"]]):
            assert row["accuracy"] == line["accuracy"]
            assert row["risk"] == line["risk"]
            assert row["config"] == line["config"]


def numbers(page: str) -> list[list[str]]:
    """The cells of every table on a page, a row a line."""
    rows = [line for line in page.splitlines() if line.startswith("|") and not set(line) <= set("| -")]
    return [re.findall(r"-?\d+(?:\.\d+)?|proper|bounded|unbounded", row) for row in rows]


@pytest.mark.parametrize("name", ["paper", "bench"])
def test_the_report_has_the_numbers_it_had(name: str, records: Path, tmp_path: Path) -> None:
    call("report", records / name, "--out", tmp_path / "page")
    then = json.loads((OLD / "commands" / f"report_{name}.json").read_text())
    assert then
    for page, text in then.items():
        assert numbers((tmp_path / "page" / page).read_text()) == numbers(text)


def test_the_trials_are_run_again_to_the_same_numbers(records: Path, tmp_path: Path) -> None:
    """What a trial is called is made of its settings; the same settings are the same trial, and have its result."""
    rest = ["--dataset", "digits", "--threads", 1, "--device", "cpu", "--trials", 2, "--max-epochs", 2]
    call("reproduce", "fig2", "--models", "linear", "--values", "0.1,1.0", *rest, "--out", tmp_path / "run")
    now, then = by_id(read_store(tmp_path / "run")), by_id(read_store(records / "paper"))
    assert set(now) == set(then)
    for name, row in then.items():
        assert now[name]["risk"] == pytest.approx(row["risk"], rel=1e-4)
        assert now[name]["accuracy"] == pytest.approx(row["accuracy"], abs=0.01)
