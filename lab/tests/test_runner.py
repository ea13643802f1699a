"""What a run goes on from: good checkpoints, never bad ones, never other kernels; and which code it says it is."""

import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import tproper
from tproper_lab.engine import Pixels
from tproper_lab.protocol import Protocol, Trial, TrialConfig
from tproper_lab.records import RecordError, kernel_group, kernels_of
from tproper_lab.results import revision
from tproper_lab.runner import Runner, Stop
from tproper_lab.store import Store

CPU = torch.device("cpu")
TRIAL = Trial(TrialConfig("digits", "linear", "forward", 0.1, protocol=Protocol(batch_size=50, max_epochs=3)), 0)


def train(data, store, kernels="auto", seconds=None, trial=TRIAL):
    return Runner(data, Pixels(data, CPU), store, 1, kernels).run([trial], Stop(seconds))


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path)
    yield opened
    opened.close()


def truncated(path):
    path.write_bytes(path.read_bytes()[:300])


def empty(path):
    path.write_bytes(b"")


def no_header(path):
    save_file(load_file(path), path)


def no_scores(path):
    rest = {name: t for name, t in load_file(path).items() if name != "best_scores"}
    save_file(rest, path, metadata=header(path))


def no_velocity(path):
    rest = {name: t for name, t in load_file(path).items() if not name.startswith("velocity")}
    save_file(rest, path, metadata=header(path))


def bad_progress(path):
    save_file(load_file(path), path, metadata={"progress": '{"epoch": "two"}'})


def unknown_progress(path):
    save_file(load_file(path), path, metadata={"progress": '{"age": 2}'})


def header(path):
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return file.metadata()


@pytest.mark.parametrize("spoil", [truncated, empty, no_header, no_scores, no_velocity, bad_progress, unknown_progress])
def test_a_bad_checkpoint_is_named_and_its_trial_starts_afresh(spoil, small_data, store, capsys):
    assert not train(small_data, store, seconds=0)
    (path,) = store.checkpoints.iterdir()
    spoil(path)
    assert train(small_data, store)
    said = capsys.readouterr().err
    assert path.name in said
    assert "its trial starts afresh" in said
    (row,) = store.records()
    assert row["epochs"] == 3
    assert not list(store.checkpoints.iterdir())


def test_a_good_checkpoint_is_silent(small_data, store, capsys):
    assert not train(small_data, store, seconds=0)
    assert train(small_data, store)
    assert capsys.readouterr().err == ""


def test_a_checkpoint_of_other_kernels_is_not_gone_on_from(small_data, store, capsys):
    assert not train(small_data, store, "float32", seconds=0)
    assert train(small_data, store)
    assert "was made with kernels float32, expected auto; its trial starts afresh" in capsys.readouterr().err


def test_trials_of_other_kernels_do_not_count_as_done(small_data, store):
    assert train(small_data, store)
    for kernels in ("auto", "triton", "plain"):  # a linear model has none of these kernels
        assert train(small_data, store, kernels)
    with pytest.raises(RecordError, match="holds trials of linear made with kernels auto; expected kernels float32"):
        train(small_data, store, "float32")


def test_which_kernels_are_the_same():
    assert [kernel_group("mlp", k) for k in ("auto", "triton", "compile", "plain", "float32")] == [""] * 4 + ["float32"]
    assert [kernel_group("resnet20", k) for k in ("auto", "triton", "plain")] == ["", "", "plain"]
    assert kernels_of({"model": "resnet20", "software": "torch 2.11, kernels compile"}) == "compile"
    assert kernels_of({"model": "resnet20", "software": None}) == ""


# --- which code -------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.delenv("TPROPER_REVISION", raising=False)

    def git(*arguments):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    package = tmp_path / "src" / "tproper"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    return tmp_path, git("rev-parse", "HEAD")[:12]


def test_a_clean_tree_is_its_commit_and_a_changed_one_says_so(repository):
    root, commit = repository
    package = root / "src" / "tproper"
    (root / "notes.txt").write_text("not the code")
    assert revision(package) == commit
    (package / "__init__.py").write_text("changed")
    assert revision(package) == f"{commit}+changes"
    (package / "__init__.py").write_text("")
    assert revision(package) == commit
    lab = root / "lab" / "src"
    lab.mkdir(parents=True)
    (lab / "new.py").write_text("")
    assert revision(package) == f"{commit}+changes"


def test_the_revision_is_that_of_the_library_in_use():
    assert revision() == revision(Path(tproper.__file__).parent)


def test_someone_elses_repository_is_not_the_codes(repository, tmp_path_factory, monkeypatch):
    root, _ = repository
    installed = root / ".venv" / "lib" / "tproper"
    installed.mkdir(parents=True)
    assert revision(installed) == "version 0.1.0"
    assert revision(tmp_path_factory.mktemp("nowhere")) == "version 0.1.0"
    monkeypatch.setenv("TPROPER_REVISION", "given")
    assert revision(root / "src" / "tproper") == "given"
