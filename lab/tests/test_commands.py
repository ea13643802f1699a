"""The command a user types: a small reproduction, killed and resumed, stopped, misused."""

import importlib.util
import signal
import subprocess
import time

import forked
import pytest
import torch
from typer.testing import CliRunner

from tproper.cli.main import app
from tproper_lab import download, figures
from tproper_lab.commands import benchmark, running
from tproper_lab.commands import experiments as commands
from tproper_lab.record_files import export_records, read_records
from tproper_lab.store import Store

SMALL = ["--dataset", "digits", "--models", "linear", "--methods", "bc,gls", "--trials", "4", "--device", "cpu",
         "--max-epochs", "40"]  # fmt: skip


def run_here(*args):
    """The same command without a new process, where no signal is involved."""
    return CliRunner().invoke(app, list(map(str, args)))


def start(*args):
    return forked.start(*args, env={"COLUMNS": "200"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def records(folder):
    store = Store(folder)
    try:
        return store.records()
    finally:
        store.close()


def wait_for(condition, process, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    began = time.monotonic()
    done = run_here("reproduce", "table2", *SMALL, "--out", folder)
    assert done.exit_code == 0, done.output
    assert time.monotonic() - began < 60
    return folder


def same(found, expected):
    assert [r["id"] for r in found] == [r["id"] for r in expected]
    for a, b in zip(found, expected, strict=True):
        assert (a["epochs"], a["best_epoch"]) == (b["epochs"], b["best_epoch"])
        assert a["valid"] == pytest.approx(b["valid"])
        assert a["risk"] == pytest.approx(b["risk"], rel=1e-4)
        for name in ("accuracy", "log_loss", "brier", "ece", "softmax_ece"):
            assert a[name] == pytest.approx(b[name], rel=1e-3), name


def test_small_reproduction_stores_and_reports(undisturbed):
    rows = records(undisturbed)
    assert sorted((r["loss"], r["seed"]) for r in rows) == sorted((m, s) for m in ("bc", "gls") for s in range(4))
    assert not list((undisturbed / "checkpoints").iterdir())
    assert (undisturbed / "report/index.html").stat().st_size > 10_000
    assert "digits, linear" in (undisturbed / "report/report.md").read_text()


def test_killed_and_resumed_it_finds_the_same_records(undisturbed, tmp_path):
    args = ["reproduce", "table2", *SMALL, "--out", tmp_path, "--checkpoint-seconds", "0"]
    process = start(*args)
    folder = tmp_path / "checkpoints"
    wait_for(lambda: folder.is_dir() and any(folder.glob("*.safetensors")), process)
    time.sleep(0.3)
    process.kill()
    process.wait()
    assert len(records(tmp_path)) < 8
    assert any(folder.glob("*.safetensors"))
    done = run_here(*args)
    assert done.exit_code == 0, done.output
    same(records(tmp_path), records(undisturbed))
    assert not [p for p in folder.iterdir() if not p.name.startswith(".")]


def test_ctrl_c_stops_with_a_checkpoint_and_the_command_goes_on(undisturbed, tmp_path):
    args = ["reproduce", "table2", *SMALL, "--out", tmp_path]
    process = start(*args)
    wait_for(lambda: (tmp_path / "records.sqlite").exists(), process)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "run the command again" in stderr
    assert "Traceback" not in stderr
    assert run_here(*args).exit_code == 0
    same(records(tmp_path), records(undisturbed))


def test_a_run_goes_on_from_exported_records(undisturbed, tmp_path):
    exported = tmp_path / "records.jsonl"
    again = run_here("reproduce", "table2", *SMALL, "--out", undisturbed, "--export", exported)
    assert again.exit_code == 0, again.output
    fresh = run_here("reproduce", "table2", *SMALL, "--out", tmp_path / "fresh", "--records", exported)
    assert "8 records taken from" in fresh.output
    assert records(tmp_path / "fresh") == records(undisturbed)


def test_a_run_whose_trials_are_all_stored_reads_no_data(undisturbed, tmp_path, monkeypatch):
    export_records(records(undisturbed), tmp_path / "records.jsonl")
    monkeypatch.setattr(running.lab, "load", lambda *rest, **named: pytest.fail("read data"))
    done = run_here("reproduce", "table2", *SMALL, "--out", tmp_path / "run", "--records", tmp_path / "records.jsonl")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "run/report/report.md").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (["--device", "cuda"], "--device: expected a GPU that PyTorch can use for cuda, got none"),
        (["--address", "auto"], "--engine: expected ray beside --address or --gpus-per-task, got local"),
    ],
)
def test_what_cannot_run_is_refused_before_data_are_read(option, sentence, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark.lab, "load", lambda *rest, **named: pytest.fail("read data"))
    done = run_here("bench", "complementary", "--data", "digits", *option, "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert sentence in done.output
    assert not (tmp_path / "run").exists()


def test_a_network_that_fails_is_no_mistake_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("TPROPER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(download, "PAUSE", 0.0)
    args = ["--models", "linear", "--mirror", "http://127.0.0.1:9", "--out", tmp_path / "run"]
    done = run_here("reproduce", "table2", *args)
    assert done.exit_code == 1, done.output
    assert "error: could not download http://127.0.0.1:9/train-images" in " ".join(done.output.split())


def test_records_of_other_kernels_are_neither_taken_nor_mixed(undisturbed, tmp_path):
    exported = tmp_path / "records.jsonl"
    export_records(records(undisturbed), exported)
    args = [*SMALL, "--kernels", "float32", "--minutes", "0"]
    refused = run_here("reproduce", "table2", *args, "--out", undisturbed)
    assert refused.exit_code == 2, refused.output
    said = " ".join(refused.output.split())
    assert "holds trials of linear made with kernels auto; expected kernels float32" in said
    assert "choose another --out" in said
    fresh = run_here("reproduce", "table2", *args, "--out", tmp_path / "fresh", "--records", exported)
    assert "0 records taken from" in fresh.output
    assert "8 of other kernels left out" in " ".join(fresh.output.split())
    assert records(tmp_path / "fresh") == []


@pytest.mark.parametrize(
    ("target", "dataset", "models"),
    [
        ("table2", "mnist", ["linear", "mlp"]),
        ("table2", "cifar10", ["resnet20", "wrn28_2"]),
        ("table2", "digits", ["linear", "mlp"]),
        ("table2", "", ["linear", "mlp", "resnet20", "wrn28_2"]),
        ("fig2", "mnist", ["mlp"]),
        ("fig3", "", ["wrn28_2"]),
    ],
)
def test_without_models_the_data_sets_own_are_run(target, dataset, models, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(commands.Work, "run", lambda self, trials: asked.append(trials[0].config.model) or [])
    monkeypatch.setattr(commands, "report", lambda run, out: None)
    done = run_here("reproduce", target, "--dataset", dataset, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert asked == models


def test_an_export_may_lie_in_the_folder_that_the_run_makes(tmp_path):
    out = tmp_path / "run"
    args = [*SMALL[:-1], "2", "--out", out, "--export", out / "all.jsonl"]
    assert run_here("reproduce", "table2", *args).exit_code == 0
    assert len(read_records(out / "all.jsonl")) == 8


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--trials", "1001"], "--trials: expected at most 1000, got 1001: later seeds belong to --search"),
        (["--kernels", "foo"], "--kernels: expected one of auto, triton, compile, plain, float32, got 'foo'"),
        (["--dataset", "svhn"], "--dataset: expected one of mnist, cifar10, digits, got 'svhn'"),
        (["--export", "x.txt"], "expected a file that ends in .jsonl or .parquet, got x.txt"),
        (["--export", "nowhere/x.jsonl"], "--export: expected a file in a folder that exists, got nowhere/x.jsonl"),
        (["--records", "none.jsonl"], "got none.jsonl, which does not exist"),
        (["--data", "nowhere"], "expected a directory with the data, got nowhere, which does not exist"),
        (["--mirror", "foo"], "--mirror: expected an address such as https://host/folder, got 'foo'"),
        (["--minutes", "nan"], "--minutes: expected a number >= 0, got nan"),
        (["--minutes", "-1"], "--minutes: expected a number >= 0, got -1"),
        (["--device", "cuda"], "--device: expected a GPU that PyTorch can use for cuda, got none; try --device cpu"),
    ],
)
def test_mistakes_are_found_before_anything_is_made(args, sentence, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    done = run_here("reproduce", "table2", "--models", "linear", *args, "--out", tmp_path / "run")
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.output.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("args", [["--export", "x.jsonl"], ["--search"], ["--records", "x.jsonl"], ["--trials", "16"]])
def test_figure_1_refuses_what_it_would_ignore(args, tmp_path):
    done = run_here("reproduce", "fig1", *args, "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert f"{args[0]}: expected it without fig1, which trains nothing" in " ".join(done.output.split())
    assert not (tmp_path / "run").exists()


def test_an_export_that_cannot_be_written_is_found_before_anything_is_made(tmp_path):
    done = run_here("reproduce", "table2", *SMALL, "--export", "/proc/all.jsonl", "--out", tmp_path / "run")
    assert done.exit_code in (1, 2)
    assert done.output.startswith("error: /proc/all.jsonl: ")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("target", ["fig1", "fig2", "fig3"])
def test_figures_have_their_own_methods(target, tmp_path):
    done = run_here("reproduce", target, "--methods", "bc", "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert f"--methods: expected it with table2 alone, got it with {target}" in " ".join(done.output.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("target", "values", "sentence"),
    [
        ("table2", "0.3", "--values: expected it with fig2 or fig3, got it with table2, which has no grid"),
        (
            "fig2",
            "0.3;1",
            "--values: expected positive numbers within float32's range, separated by commas, got '0.3;1'",
        ),
        (
            "fig3",
            "1.5,-1",
            "--values: expected positive numbers within float32's range, separated by commas, got '1.5,-1'",
        ),
        (
            "fig3",
            "nan",
            "--values: expected positive numbers within float32's range, separated by commas, got 'nan'",
        ),
        ("fig2", "1,1e39", "within float32's range, separated by commas, got '1,1e39'"),
        ("fig2", "1e-50", "within float32's range, separated by commas, got '1e-50'"),
    ],
)
def test_wrong_grids_are_refused(target, values, sentence, tmp_path):
    done = run_here("reproduce", target, "--values", values, "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("target", "field"), [("fig2", "k"), ("fig3", "alpha")])
def test_a_part_of_a_figures_grid(target, field, tmp_path):
    small = ("--dataset", "digits", "--models", "linear", "--trials", "1", "--max-epochs", "2")
    done = run_here("reproduce", target, *small, "--values", "0.3,1.5,0.3", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert sorted(r[field] for r in Store(tmp_path).records() if r["loss"] == "gls") == [0.3, 1.5]


def test_time_limit_stops_cleanly(tmp_path):
    done = run_here("reproduce", "table2", *SMALL, "--out", tmp_path, "--minutes", "0")
    assert done.exit_code == 75
    assert "unfinished trials are kept" in done.output
    assert any((tmp_path / "checkpoints").iterdir())


def test_report_elsewhere(undisturbed, tmp_path):
    done = run_here("report", undisturbed, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert str(tmp_path / "out/index.html") in done.output.replace("\n", "")


def test_figure_1(tmp_path, monkeypatch):
    pytest.importorskip("mpltern", reason="ternary axes need mpltern")
    monkeypatch.setattr(figures.figure1, "__defaults__", (0.1, 24))  # fewer points are quicker to draw
    assert run_here("reproduce", "fig1", "--out", tmp_path).exit_code == 0
    assert {p.name for p in tmp_path.iterdir()} == {"figure1.png", "figure1.svg"}


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--models", "vgg"], "--models: expected one or more of linear, mlp, resnet20, wrn28_2, got vgg"),
        (
            ["--methods", "bc,sgd"],
            "--methods: expected one or more of bc, bc_tuned, ga, ga_tuned, gls, gls_released, forward, got sgd",
        ),
        (["--device", "tpu"], "--device: expected one of auto, cpu, cuda, got 'tpu'"),
        (
            ["--models", "resnet20", "--dataset", "digits"],
            "--models: expected models for the data set digits, got resnet20; linear and mlp take",
        ),
        (["--models", "mlp", "--data", "nowhere"], "expected a directory with the data, got nowhere"),
        (["--dataset", "digits", "--records", "none.jsonl"], "got none.jsonl, which does not exist"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(args, sentence, tmp_path):
    done = run_here("reproduce", "table2", *args, "--out", tmp_path / "run")
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.output.split())
    assert "Traceback" not in done.output


def test_a_missing_extra_is_named_before_the_work(tmp_path, monkeypatch):
    real = importlib.util.find_spec
    without = lambda name, *rest: None if name in ("matplotlib", "mpltern") else real(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", without)
    monkeypatch.setattr(commands.lab, "figure1", lambda *rest: pytest.fail("worked"))
    monkeypatch.chdir(tmp_path)
    result = run_here("reproduce", "fig1", "--out", "run")
    assert result.exit_code == 2, result.output
    assert "pip install 'tproper[plots]'" in " ".join(result.stderr.split())
    assert list(tmp_path.iterdir()) == []
