"""What was not written is an error: whatever takes the output, and however Python buffers it.

The processes are real ones, with PYTHONUNBUFFERED=1 as containers set it: then Python's own stream drops what one
``write`` did not take. One of each kind is started from nothing; the others are forks, which import nothing.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from typer.testing import CliRunner

from tproper.cli import main
from tproper.cli.main import app

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits, descriptors and pipes of POSIX")
ROWS = 2000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table t.csv and a model m."""
    folder = tmp_path_factory.mktemp("output")
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=ROWS)
    X = rng.normal(size=(ROWS, 2)) + 2 * z[:, None]
    weak = np.where(rng.random(ROWS) < 0.2, rng.integers(3, size=ROWS), z)
    lines = [f"{a:.3f},{b:.3f},c{y}" for (a, b), y in zip(X, weak, strict=True)]
    (folder / "t.csv").write_text("\n".join(["x,y,weak", *lines]) + "\n")
    line = ["train", "t.csv", "--label", "weak", "--transition", "symmetric:0.2", "--epochs", "5", "--out", "m"]
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert CliRunner().invoke(app, line).exit_code == 0
    finally:
        os.chdir(before)
    return folder


LINES = {
    "predict": ["predict", "m", "t.csv"],
    "evaluate": ["evaluate", "m", "t.csv", "--label", "weak", "--json"],
    "help": ["--help"],
    "help of a command": ["train", "--help"],
    "inspect": ["inspect", "symmetric:3,0.2"],
}


def run_forked(
    folder: Path, line: list[str], unbuffered: bool = True, function: Callable[[], object] = main, **options: Any
) -> subprocess.Popen[str]:
    env = {"PYTHONUNBUFFERED": "1" if unbuffered else "", "TPROPER_TRACEBACK": ""}
    return forked.start_function(function, *line, cwd=folder, env=env, stderr=subprocess.PIPE, **options)


def run(folder: Path, line: list[str], unbuffered: bool = True, **options: Any) -> subprocess.Popen[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONUNBUFFERED", "TPROPER_TRACEBACK")}
    env |= {"PYTHONUNBUFFERED": "1"} if unbuffered else {}
    command = [sys.executable, "-m", "tproper", *line]
    return subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("name", "unbuffered", "start"),
    [
        ("predict", True, "new"),
        ("help", True, "new"),
        ("help of a command", True, "new"),
        ("help", False, "new"),
        ("predict", False, "forked"),
        ("evaluate", True, "forked"),
        ("inspect", True, "forked"),
    ],
)
def test_a_full_disk(name: str, unbuffered: bool, start: str, model: Path) -> None:
    with open("/dev/full", "w") as full:
        process = {"new": run, "forked": run_forked}[start](model, LINES[name], unbuffered, stdout=full)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert said.splitlines()[-1] == "error: standard output: No space left on device"
    assert "Traceback" not in said
    assert "Exception ignored" not in said


@pytest.mark.parametrize("name", ["predict", "evaluate"])
def test_a_limit_of_size(name: str, model: Path, tmp_path: Path) -> None:
    import resource

    limit = {"predict": 8192, "evaluate": 512}[name]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        main()

    with open(tmp_path / "out", "w") as out:
        process = run_forked(model, LINES[name], function=limited, stdout=out)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert said.splitlines()[-1] == "error: standard output: File too large"


def test_a_pipe_that_does_not_block_gets_every_row(model: Path) -> None:
    """Its reader is slow: the pipe is full when the rows come."""
    import fcntl
    import termios

    read, write = os.pipe()
    os.set_blocking(write, False)
    process = run_forked(model, LINES["predict"], stdout=write)
    os.close(write)
    held, before = 0, -1
    while process.poll() is None and (held == 0 or held > before):  # until it is full
        time.sleep(0.5)
        before, held = held, int.from_bytes(fcntl.ioctl(read, termios.FIONREAD, bytes(4)), sys.byteorder)
    assert held > 32_768
    assert process.poll() is None
    content = b""
    while piece := os.read(read, 4096):
        content += piece
    os.close(read)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 0, said
    assert content.count(b"\n") == ROWS + 1


def test_a_reader_that_has_seen_enough_is_no_error(model: Path) -> None:
    process = run_forked(model, LINES["predict"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(120) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize("name", ["predict", "help"])
def test_a_closed_output_is_an_error(name: str, model: Path) -> None:
    process = run(model, LINES[name], preexec_fn=lambda: os.close(1))
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert said == "error: standard output: Bad file descriptor\n"


def test_work_goes_on_where_nobody_hears_warnings(model: Path) -> None:
    """A closed stderr, with rows of the training table that a warning would speak of."""
    process = run(model, LINES["evaluate"], stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    out = process.communicate(timeout=120)[0]
    assert process.returncode == 0
    assert out.endswith("}\n")


class _Sips(io.RawIOBase):
    """A stream that takes three bytes at a time."""

    def __init__(self) -> None:
        self.taken = b""

    def write(self, content: Any) -> int:
        self.taken += bytes(content[:3])
        return min(3, len(content))


def test_a_stream_that_takes_a_part_is_given_the_rest() -> None:
    from tproper.data import write_all

    stream = _Sips()
    write_all(stream, b"0123456789")  # type: ignore[arg-type]
    assert stream.taken == b"0123456789"


def test_a_stream_that_takes_nothing_is_an_error() -> None:
    from tproper.data import write_all

    class Full(io.RawIOBase):
        def write(self, content: Any) -> None:  # type: ignore[override]
            return None

    with pytest.raises(BlockingIOError):
        write_all(Full(), b"rows")  # type: ignore[arg-type]
