"""Files and folders: whole or not there, never in the place of another's work, whoever is killed and whenever."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tproper._core import files
from tproper._core.files import TakenError, atomic_file, atomic_folder, mark, sweep, write_file

SOURCE = str(Path(files.__file__).parent)  # the file alone, without the package above it: no torch to wait for


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def child(code, *arguments):
    """A real process that runs `code` with this package's files at hand."""
    prelude = f"import os, signal, sys, time; sys.path.insert(0, {SOURCE!r}); from pathlib import Path\n"
    prelude += "from files import atomic_file, atomic_folder, mark, TakenError\n"
    command = [sys.executable, "-c", prelude + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def anything(path):
    return None


# --- one process ------------------------------------------------------------------------------------


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("change", ["came", "changed", "replaced"])
def test_a_file_that_came_or_changed_meanwhile_stays(tmp_path, monkeypatch, change, links):
    def no_links(source, target):
        raise OSError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "out.csv"
    if change != "came":
        path.write_text("before")
    with (  # noqa: PT012
        pytest.raises(TakenError, match=r"out\.csv: expected .*, got a file there.* kept in .*kept-1\.csv"),
        atomic_file(path) as draft,
    ):
        draft.write_text("ours")
        if change == "replaced":
            path.unlink()
        path.write_text("another's")
    assert path.read_text() == "another's"
    assert (tmp_path / "out.kept-1.csv").read_text() == "ours"
    assert names(tmp_path) == ["out.csv", "out.kept-1.csv"]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_was_there_all_along_is_replaced_and_a_new_one_made(tmp_path, monkeypatch, links):
    def no_links(source, target):
        raise OSError(errno.ENOTSUP, "not supported")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "new" / "out.csv"
    for text in ("one", "two"):
        write_file(path, text.encode())
        assert path.read_text() == text
        assert names(path.parent) == ["out.csv"]


def test_the_mark_may_be_older_than_the_block(tmp_path):
    path = tmp_path / "out.csv"
    before = mark(path)
    path.write_text("another's")
    with pytest.raises(TakenError):
        write_file(path, b"ours", since=before)
    write_file(path, b"ours", overwrite=True)
    assert path.read_bytes() == b"ours"


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real.csv", tmp_path / "link.csv"
    real.write_text("before")
    link.symlink_to(real)
    write_file(link, b"after")
    assert link.is_symlink()
    assert real.read_text() == "after"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_nothing(tmp_path, error):
    with pytest.raises(error), atomic_file(tmp_path / "a" / "file") as draft:  # noqa: PT012
        draft.write_text("half")
        raise error
    with pytest.raises(error), atomic_folder(tmp_path / "a" / "folder") as draft:  # noqa: PT012
        (draft / "half").write_text("half")
        raise error
    assert names(tmp_path / "a") == []


@pytest.mark.parametrize("make", [atomic_file, atomic_folder])
def test_a_full_disk_is_that_of_the_result_and_not_of_its_draft(tmp_path, make):
    for inside in ((), ("a.png",)) if make is atomic_folder else ((),):
        for named in (True, False):
            with pytest.raises(OSError, match="No space left") as caught, make(tmp_path / "result") as draft:
                raise OSError(errno.ENOSPC, "No space left", *([str(draft.joinpath(*inside))] if named else []))
            assert caught.value.filename == str((tmp_path / "result").joinpath(*(inside if named else ())))
    with pytest.raises(FileNotFoundError) as caught, make(tmp_path / "result"):
        open(tmp_path / "other").close()
    assert caught.value.filename == str(tmp_path / "other")


def test_a_folder_that_came_meanwhile_stays(tmp_path):
    path = tmp_path / "model"
    (tmp_path / "model.kept-1").mkdir()
    says = r"model: .*got a folder there.* kept in .*model\.kept-2"
    with pytest.raises(TakenError, match=says), atomic_folder(path) as draft:  # noqa: PT012
        (draft / "ours").touch()
        path.mkdir()
        (path / "theirs").touch()
    assert names(path) == ["theirs"]
    assert names(tmp_path / "model.kept-2") == ["ours"]
    assert names(tmp_path) == ["model", "model.kept-1", "model.kept-2"]


def test_a_file_in_the_place_of_a_folder_stays(tmp_path):
    with pytest.raises(TakenError), atomic_folder(tmp_path / "model") as draft:  # noqa: PT012
        (draft / "ours").touch()
        (tmp_path / "model").write_text("theirs")
    assert (tmp_path / "model").read_text() == "theirs"
    assert names(tmp_path / "model.kept-1") == ["ours"]


def test_what_may_be_replaced_is_asked_at_the_last_moment(tmp_path):
    path = tmp_path / "model"

    def only_models(folder):
        return "which is no model" if (folder / "theirs").exists() else None

    for round in ("one", "two"):
        with atomic_folder(path, replaceable=only_models) as draft:
            (draft / round).touch()
        assert names(path) == [round]
    with (  # noqa: PT012
        pytest.raises(TakenError, match="which is no model; it is left alone"),
        atomic_folder(path, replaceable=only_models) as draft,
    ):
        (draft / "three").touch()
        (path / "theirs").touch()
    assert names(path) == ["theirs", "two"]
    assert names(tmp_path) == ["model", "model.kept-1"]


@pytest.mark.parametrize("when", [1, 2, 3])
def test_whatever_rename_fails_the_old_folder_is_there(tmp_path, monkeypatch, when):
    path = tmp_path / "model"
    path.mkdir()
    (path / "old").touch()
    monkeypatch.setattr(files, "_exchange", lambda: (None, 0))
    real, count = os.rename, 0

    def failing(source, target):
        nonlocal count
        count += 1
        if count == when:
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(OSError, match="Input/output"), atomic_folder(path, replaceable=anything) as draft:
        (draft / "new").touch()
    assert names(path) == ["old"]
    assert names(tmp_path) == ["model"]


def test_everything_is_synced_before_it_has_its_name(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_ino), real(handle)))
    write_file(tmp_path / "file", b"x")
    assert synced == [(tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino]
    synced.clear()
    with atomic_folder(tmp_path / "folder") as draft:
        (draft / "inner").mkdir()
        (draft / "inner" / "file").touch()
    made = [tmp_path / "folder", tmp_path / "folder" / "inner", tmp_path / "folder" / "inner" / "file", tmp_path]
    assert sorted(synced) == sorted(p.stat().st_ino for p in made)
    assert synced[-1] == tmp_path.stat().st_ino


# --- real processes ---------------------------------------------------------------------------------

RACE = """
path, me, kind = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
try:
    with (atomic_file if kind == "file" else atomic_folder)(path) as draft:
        (draft if kind == "file" else draft / "who").write_text(me)
        print("ready", flush=True)
        sys.stdin.readline()
    print("placed")
except TakenError as error:
    print(error.kept)
"""


@pytest.mark.parametrize("kind", ["file", "old file", "folder"])
def test_of_processes_with_one_place_one_gets_it_and_no_result_is_lost(tmp_path, kind):
    path = tmp_path / "out"
    if kind == "old file":
        path.write_text("before all of them")
    runs = [child(RACE, path, n, kind.split()[-1]) for n in range(4)]
    for run in runs:
        assert run.stdout.readline() == "ready\n"
    for run in runs:  # all at once
        run.stdin.write("go\n")
        run.stdin.flush()
    said = [run.communicate(timeout=60)[0].strip() for run in runs]
    assert said.count("placed") == 1
    where = [path if s == "placed" else Path(s) for s in said]
    assert len(set(where)) == 4
    for n, place in enumerate(where):
        assert (place if "file" in kind else place / "who").read_text() == str(n)
    assert names(tmp_path) == sorted(p.name for p in where)


HALF = """
with (atomic_file if sys.argv[2] == "file" else atomic_folder)(Path(sys.argv[1])) as draft:
    (draft if sys.argv[2] == "file" else draft / "part").write_text("half")
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_drafts_of_the_living_stay_and_those_of_the_killed_go(tmp_path, kind):
    run = child(HALF, tmp_path / "out", kind)
    assert run.stdout.readline() == "ready\n"
    (draft,) = names(tmp_path)
    sweep(tmp_path)
    write_file(tmp_path / "out", b"another run's")
    assert names(tmp_path) == [draft, "out"]
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert names(tmp_path) == [draft, "out"]
    write_file(tmp_path / "other", b"of another name")
    assert draft in names(tmp_path)
    write_file(tmp_path / "out", b"the next run's")
    assert names(tmp_path) == ["other", "out"]


def test_what_only_looks_like_a_draft_stays(tmp_path):
    for name in (".out.part", ".out.tproper-12.part", "out.tproper-0123456789ab.part", ".other.abcdefgh.part"):
        (tmp_path / name).touch()
    before = names(tmp_path)
    sweep(tmp_path)
    assert names(tmp_path) == before


KILLED_BETWEEN = """
real, count = os.rename, 0
def rename(source, target):
    global count
    count += 1
    if count == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    real(source, target)
os.rename = rename
import files
files._exchange = lambda: (None, 0)  # as on a disk that cannot exchange names
with atomic_folder(Path(sys.argv[1]), replaceable=lambda path: None) as draft:
    (draft / "new").touch()
"""


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_kill_between_the_renames_costs_no_model(tmp_path, at):
    """Renames: the trial, the old one aside, the new one in place. The next run puts back what was moved aside."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "old").touch()
    assert child(KILLED_BETWEEN, path, at).wait(60) == -signal.SIGKILL
    assert path.exists() is (at < 3)
    sweep(tmp_path, "model")
    assert names(tmp_path) == ["model"]
    assert names(path) == ["old"]


exchanges = pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="systems that exchange two names")

REPLACING = """
path = Path(sys.argv[1])
for n in range(int(sys.argv[2])):
    with atomic_folder(path, replaceable=lambda path: None) as draft:
        for name in ("one", "two"):
            (draft / name).write_text(f"{os.getpid()} {n}")
    print(n, flush=True)
"""


@exchanges
def test_while_a_folder_is_replaced_there_is_no_moment_without_it(tmp_path):
    path = tmp_path / "model"
    with atomic_folder(path) as draft:
        for name in ("one", "two"):
            (draft / name).write_text("0 0")
    run = child(REPLACING, path, 300)
    assert run.stdout.readline() == "0\n"
    looks = 0
    while run.poll() is None:
        assert path.is_dir(), f"nothing at look {looks}"
        looks += 1
    assert run.communicate()[0].splitlines()[-1] == "299"
    assert looks > 1000
    assert names(tmp_path) == ["model"]


@exchanges
def test_a_kill_while_a_folder_is_replaced_leaves_one(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    for name in ("one", "two"):
        (path / name).write_text("old")
    for n in range(30):
        run = child(REPLACING, path, 1000)
        assert run.stdout.readline() == "0\n"
        for _ in range(n % 4):
            run.stdout.readline()
        run.kill()
        run.communicate()
        assert (path / "one").read_text() == (path / "two").read_text()
    sweep(tmp_path)
    assert names(tmp_path) == ["model"]


@exchanges
def test_what_came_into_the_older_folder_meanwhile_is_put_back(tmp_path, monkeypatch):
    """Asked twice, the second time when nobody else can reach it: the older folder is there again, with all of it."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "old").touch()
    answers = iter([None, "which is no model"])
    with (
        pytest.raises(TakenError, match="which is no model"),
        atomic_folder(path, replaceable=lambda _: next(answers)) as draft,
    ):
        (draft / "new").touch()
    assert names(path) == ["old"]
    assert names(tmp_path / "model.kept-1") == ["new"]
    assert names(tmp_path) == ["model", "model.kept-1"]


def test_without_locks_no_handle_is_kept_and_files_are_synced_open_for_writing(tmp_path, monkeypatch):
    """As on Windows, where fsync takes no read-only descriptor and an open file cannot be renamed."""
    opened = {}
    real_open, real_sync = os.open, os.fsync
    monkeypatch.setattr(files, "fcntl", None)

    def noted(path, flags, *rest, **more):
        handle = real_open(path, flags, *rest, **more)
        opened[handle] = flags
        return handle

    def sync(handle):
        if not opened[handle] & (os.O_RDWR | os.O_WRONLY) and not os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(errno.EBADF, "Bad file descriptor")
        real_sync(handle)

    def placed(source, target):
        left = [h for h in opened if os.path.realpath(f"/proc/self/fd/{h}") == str(source)]
        assert left == [], "an open file cannot be renamed"
        real_replace(source, target)

    real_replace = os.replace
    monkeypatch.setattr(files.os, "open", noted)
    monkeypatch.setattr(files.os, "fsync", sync)
    monkeypatch.setattr(files.os, "replace", placed)
    monkeypatch.setattr(files, "WRITE_TO_SYNC", True)
    for text in ("one", "two"):
        write_file(tmp_path / "file", text.encode())
    with atomic_folder(tmp_path / "folder") as draft:
        (draft / "file").touch()
    assert names(tmp_path) == ["file", "folder"]


def test_many_makers_and_sweepers_at_once(tmp_path):
    code = """
for n in range(60):
    with atomic_file(Path(sys.argv[1]) / "shared", overwrite=True) as draft:
        draft.write_text("x" * 1000)
"""
    runs = [child(code, tmp_path) for _ in range(3)]
    assert [run.wait(120) for run in runs] == [0, 0, 0]
    assert (tmp_path / "shared").read_text() == "x" * 1000
    assert names(tmp_path) == ["shared"]
