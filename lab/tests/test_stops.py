"""Signals and time limits reach a command wherever it waits: on a server that says nothing, or on a pipe."""

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import threading
import time

import forked
import pytest
from typer.testing import CliRunner

from tproper.cli.main import app
from tproper.data import ParquetSource, open_table
from tproper_lab import download
from tproper_lab.datasets import DataError

FILE = "train-images-idx3-ubyte.gz"
SOON = 8.0  # seconds; without these stops the waits below would last for minutes
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and pipes")


@contextlib.contextmanager
def serving(answer):
    """A server that gives every connection to `answer`, in a thread; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    kept.append(connection)
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", kept
        finally:
            for connection in kept:
                connection.close()


def silent(connection):
    """Takes the question and never answers."""


def drip(connection):
    """One byte now and then: no read ever takes long enough to count as silence."""
    with contextlib.suppress(OSError):
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)


def endless(connection):
    with contextlib.suppress(OSError):
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * (1 << 16))


def boastful(connection):
    with contextlib.suppress(OSError):
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        time.sleep(60)


def line(folder, mirror, *options):
    return [
        "reproduce", "table2", "--models", "linear", "--methods", "bc", "--trials", "1", "--mirror", mirror,
        "--out", str(folder / "run"), *options,
    ]  # fmt: skip


def reproduce(folder, mirror):
    environment = {"TPROPER_CACHE": str(folder / "cache")}
    return forked.start(*line(folder, mirror), env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(("answer", "number", "code"), [(drip, signal.SIGTERM, 75), (silent, signal.SIGINT, 130)])
def test_a_signal_ends_a_download(answer, number, code, tmp_path):
    with serving(answer) as (mirror, asked), reproduce(tmp_path, mirror) as process:
        deadline = time.monotonic() + 60
        while not asked and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(number)
        began = time.monotonic()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert time.monotonic() - began < SOON
    assert "Traceback" not in errors
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]


def test_minutes_end_a_download(tmp_path, monkeypatch):
    monkeypatch.setenv("TPROPER_CACHE", str(tmp_path / "cache"))
    with serving(silent) as (mirror, asked):
        began = time.monotonic()
        done = CliRunner().invoke(app, line(tmp_path, mirror, "--minutes", "0.01"))
    assert done.exit_code == 75, done.output
    assert asked
    assert time.monotonic() - began < 60  # imports may be most of it; the server is silent for ever
    assert "run the command again" in done.stderr


def fetch(mirror, cache, **options):
    return download.fetch("mnist", mirror=mirror, cache=cache, digests={FILE: "md5:0"}, **options)


@pytest.mark.parametrize("answer", [silent, drip])
def test_a_download_has_a_time_limit(answer, tmp_path):
    with serving(answer) as (mirror, _):
        began = time.monotonic()
        with pytest.raises(download.DownloadError, match=rf"{FILE}: expected it within 0.5 seconds, got less"):
            fetch(mirror, tmp_path, seconds=0.5)
    assert time.monotonic() - began < SOON
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


@pytest.mark.parametrize("answer", [endless, boastful])
def test_a_download_has_a_size_limit(answer, tmp_path):
    with (
        serving(answer) as (mirror, _),
        pytest.raises(download.DownloadError, match=r"could not download .*: expected at most 1,000,000 bytes, got"),
    ):
        fetch(mirror, tmp_path, largest=1_000_000)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_file_that_is_not_there_is_asked_for_once(tmp_path):
    def missing(connection):
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    with serving(missing) as (mirror, asked), pytest.raises(download.DownloadError, match="404"):
        fetch(mirror, tmp_path)
    assert len(asked) == 1


def test_what_a_killed_download_left_is_removed_by_the_next(tmp_path):
    with serving(drip) as (mirror, asked), forked.start_function(lambda: fetch(mirror, tmp_path)) as process:
        deadline = time.monotonic() + 60
        while not asked and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        process.kill()
    left = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(left) == 1
    assert left[0].name.endswith(".part")

    def serve(connection):
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd")

    with serving(serve) as (mirror, _):
        digests = {FILE: "sha256:" + hashlib.sha256(b"abcd").hexdigest()}
        folder = download.fetch("mnist", mirror=mirror, cache=tmp_path, digests=digests)
    assert [p.name for p in folder.iterdir()] == [FILE]


def test_an_altered_download_says_what_to_do(tmp_path):
    def serve(connection):
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd")

    with serving(serve) as (mirror, _), pytest.raises(DataError, match="was altered: expected the digest md5:0, got"):
        fetch(mirror, tmp_path)


@pytest.mark.parametrize("name", ["table.csv", "table.tsv", "table.parquet", "table.csv.gz"])
def test_a_pipe_is_refused_at_once_as_a_table(name, tmp_path):
    os.mkfifo(tmp_path / name)
    message = "expected a file, which can be read more than once, got a pipe or a device; save it to a file first"
    with pytest.raises(ValueError, match=message):
        open_table(tmp_path / name)


def test_a_pipe_is_refused_at_once_in_a_folder_and_by_a_stream(tmp_path):
    os.mkfifo(tmp_path / "part.parquet")
    for path in (tmp_path, tmp_path / "part.parquet"):
        with pytest.raises(ValueError, match="got a pipe or a device"):
            ParquetSource(path, "label")
    with pytest.raises(ValueError, match="got a pipe or a device"):
        open_table(tmp_path)


def test_records_from_a_pipe_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "records.jsonl")
    asked = ["reproduce", "table2", "--records", str(tmp_path / "records.jsonl"), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 2
    assert "got a pipe or a device" in done.output


@contextlib.contextmanager
def waiting_reader(pipe, process):
    """Once the process has opened the pipe to read it: a pipe without a reader cannot be opened for writing."""
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None
        assert time.monotonic() < deadline
        try:
            writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.05)
        else:
            break
    try:
        yield
    finally:
        os.close(writer)


def test_a_signal_ends_the_wait_for_a_matrix_from_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "T.csv")
    with forked.start("inspect", tmp_path / "T.csv", stderr=subprocess.PIPE) as process:
        with waiting_reader(tmp_path / "T.csv", process):
            process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        _, errors = process.communicate(timeout=60)
    assert time.monotonic() - began < SOON
    assert process.returncode in (143, -signal.SIGTERM)
    assert "Traceback" not in errors
