"""The tour of docs/command-line.md runs as printed; exit codes and Ctrl-C of the real command."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def console(page: Path) -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(), re.S)
    return [line[2:] for block in blocks for line in block.splitlines()]


def tour() -> tuple[str, list[list[str]]]:
    program = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert program is not None
    return program.group(1), [shlex.split(c) for c in console(PAGE)]


@pytest.fixture(scope="module")
def toured(tmp_path_factory: pytest.TempPathFactory, run: Callable[..., Any]) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("tour")
    program, commands = tour()
    before = Path.cwd()
    os.chdir(folder)
    said = []
    try:
        exec(compile(program, str(PAGE), "exec"), {})
        for command in commands:
            assert command[0] == "tproper"
            result = run(*command[1:])
            assert result.exit_code == 0, (command, result.output)
            said.append(result.stdout)
    finally:
        os.chdir(before)
    return folder, said


def test_the_tour_runs_as_printed(toured: tuple[Path, list[str]]) -> None:
    folder, said = toured
    _, commands = tour()
    assert [c[1] for c in commands] == ["simulate", "simulate", "train", "predict", "evaluate"]
    for name in (
        "weak_train.csv",
        "model/model_card.md",
        "model/reliability.png",
        "predictions.csv",
        "reliability.png",
    ):
        assert (folder / name).stat().st_size > 0
    assert "strictly T-proper   yes" in said[2]
    numbers = re.findall(r"-?[\d.]+", next(line for line in said[4].splitlines() if line.startswith("accuracy")))
    assert len(numbers) == 6, "weak value, weak interval, clean value, clean interval"


def test_weak_scores_of_the_tour_agree_with_the_clean_ones(
    toured: tuple[Path, list[str]], run: Callable[..., Any]
) -> None:
    folder, _ = toured
    options = ["--label", "weak_label", "--true-label", "digit", "--json"]
    result = run("evaluate", folder / "model", folder / "weak_test.csv", *options)
    scores = json.loads(result.stdout)
    assert scores["clean"]["accuracy"]["value"] > 0.75, "learned from nothing but digits that the images are not"
    for name in ("accuracy", "log_loss", "brier"):
        weak, clean = scores["weak"][name], scores["clean"][name]
        assert abs(weak["value"] - clean["value"]) < 4 * weak["stderr"], name


PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """From nothing: where it matters how an interpreter begins and ends."""
    command = [sys.executable, "-m", "tproper", *map(str, arguments)]
    return subprocess.Popen(command, text=True, env=ENVIRONMENT, **options)


def test_a_mistake_ends_the_process_with_2_and_one_sentence(workshop: Path) -> None:
    nowhere = workshop / "nowhere.csv"
    for process, sentence in (
        (
            start("inspect", nowhere, **PIPES),
            r"error: SPEC: expected a file .*, got '.*nowhere\.csv': .*\n",
        ),
        (
            forked.start("predict", workshop / "model", nowhere, **PIPES),
            r"error: .*nowhere\.csv: expected a file to .*\n",
        ),
    ):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 2
        assert out == ""
        assert re.fullmatch(sentence, err)


def test_a_reader_that_leaves_early_is_no_error(workshop: Path, tmp_path: Path) -> None:
    """predict ... | head -1"""
    body = (workshop / "weak.csv").read_text().splitlines()
    (tmp_path / "long.csv").write_text("\n".join([body[0], *(body[1:] * 200)]) + "\n")
    process = forked.start("predict", workshop / "model", tmp_path / "long.csv", **PIPES)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith("predicted,")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(60) == 0


@pytest.mark.parametrize(("begin", "options"), [(start, []), (forked.start, ["--json"])], ids=["a table", "JSON"])
def test_every_command_ends_quietly_when_its_reader_has_seen_enough(begin: Callable[..., Any], options: Any) -> None:
    process = begin("inspect", "complementary:10", *options, **PIPES)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()  # before anything is written
    said = process.stderr.read()
    assert said == ""
    assert process.wait(60) == 0


@pytest.fixture(scope="module")
def long_table(workshop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A million rows: seconds of work for `simulate`."""
    header, body = (workshop / "clean.csv").read_text().split("\n", 1)
    path = tmp_path_factory.mktemp("long") / "long.csv"
    path.write_text(f"{header}\n{body * 4_000}")
    return path


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_nothing_behind(number: int, code: int, long_table: Path, tmp_path: Path) -> None:
    """Interrupted in the middle of writing: its own exit code, no traceback, no file."""
    process = forked.start("simulate", long_table, "--label", "kind", "--transition", "complementary", "--classes",
                           "ant,bee,cat", "--out", tmp_path / "weak.csv", **PIPES)  # fmt: skip
    for _ in range(600):  # until the temporary file grows
        if any(p.stat().st_size for p in tmp_path.glob(".weak.csv.*")):
            break
        assert process.poll() is None, "the table must be long enough to be interrupted"
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
    assert out == ""
