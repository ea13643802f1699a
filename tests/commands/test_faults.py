"""Disks that are full or closed, and kills at any moment: nothing half-written stays, nothing old is lost."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from typer.testing import CliRunner

import tproper as tp
from tproper.cli.main import app
from tproper.tables import evaluating, from_data, training  # noqa: F401  (no import may fail for want of space)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and signals")


def limited() -> None:
    """Run the commands that the first argument lists, and print how they ended."""
    sys.dont_write_bytecode = True  # half of a .pyc would stay
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as on a full disk: writing fails, the process lives
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
    done = {name: CliRunner().invoke(app, line) for name, line in json.loads(sys.argv[1]).items()}
    print(json.dumps({name: [result.exit_code, result.stderr] for name, result in done.items()}))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=3000)
    X = rng.normal(size=(3000, 2)) + z[:, None]
    weak = np.where(rng.random(3000) < 0.2, rng.integers(3, size=3000), z)
    rows = [
        f"{a:.3f},{b:.3f},c{y},{f'c{k}' if i < 300 else ''}"
        for i, ((a, b), y, k) in enumerate(zip(X, weak, z, strict=True))
    ]
    (folder / "t.csv").write_text("\n".join(["x,y,weak,kind", *rows]) + "\n")
    return folder / "t.csv"


def commands(table: Path, out: Path) -> dict[str, list[str]]:
    return {
        "estimate": ["estimate", "clean", str(table), "--label", "weak", "--true-label", "kind",
                     "--out", f"{out}.json"],
        "train": ["train", str(table), "--label", "weak", "--ignore", "kind", "--transition", "symmetric:0.2",
                  "--epochs", "5", "--out", str(out)],
        "simulate": ["simulate", str(table), "--label", "weak", "--transition", "symmetric:0.2", "--out", f"{out}.csv"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def on_a_full_disk(table: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Each command in a folder of its own, and once more where an older file is; all in one process with a limit."""
    root = tmp_path_factory.mktemp("full")
    lines = {}
    for name in ("estimate", "train", "simulate", "older"):
        (root / name).mkdir()
        lines[name] = commands(table, root / name / "result")["estimate" if name == "older" else name]
        lines[name] += ["--force"] if name == "older" else []
    (root / "older" / "result.json").write_text("[[0.9, 0.1], [0.1, 0.9]]")
    process = forked.start_function(limited, json.dumps(lines), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return root, json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("name", ["estimate", "train", "simulate"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(name: str, on_a_full_disk: Any) -> None:
    root, results = on_a_full_disk
    code, stderr = results[name]
    assert code == 1, stderr
    assert "Traceback" not in stderr
    assert "File too large" in stderr
    assert list((root / name).iterdir()) == []


def test_a_full_disk_leaves_the_older_file(on_a_full_disk: Any) -> None:
    root, results = on_a_full_disk
    assert results["older"][0] == 1
    assert tp.parse_transition(str(root / "older" / "result.json")).num_classes == 2
    assert [p.name for p in (root / "older").iterdir()] == ["result.json"]


def test_killed_at_any_moment_estimate_leaves_the_old_file_or_the_new_one(table: Path, tmp_path: Path) -> None:
    """And what a killed process left behind is gone after the next."""
    folder = tmp_path / "results"
    folder.mkdir()
    out = folder / "T"
    old = "[[0.9, 0.1], [0.1, 0.9]]"
    line = [*commands(table, out)["estimate"], "--force"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    began = time.monotonic()
    assert forked.start(*line, **quiet).wait(60) == 0
    whole = time.monotonic() - began
    for share in (0.3, 0.6, 0.8, 0.95):
        (folder / "T.json").write_text(old)
        process = forked.start(*line, **quiet)
        time.sleep(share * whole)
        process.kill()
        process.wait()
        content = (folder / "T.json").read_text()
        assert content == old or json.loads(content)["family"] == "estimated"
    assert CliRunner().invoke(app, line).exit_code == 0
    assert {p.name for p in folder.iterdir()} <= {"T.json", "T.png"}
    assert isinstance(tp.parse_transition(str(folder / "T.json")), tp.EstimatedTransition)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
@pytest.mark.parametrize("name", ["estimate", "train", "simulate"])
def test_a_folder_without_permission_is_said_before_the_work(name: str, table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    done = CliRunner().invoke(app, commands(table, folder / "result")[name])
    assert done.exit_code == 1
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_limit_of_these_tests_is_not_this_process() -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] in (resource.RLIM_INFINITY, -1)
