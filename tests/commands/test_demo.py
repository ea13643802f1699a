"""`tproper demo`: runs, shows BC falling, keeps the others above their bounds, writes all or nothing."""

import json

import torch
from threadpoolctl import threadpool_info, threadpool_limits
from typer.testing import CliRunner

from tproper.cli.main import app
from tproper.estimation.alone import SMALL, one_thread

run = CliRunner()


def test_demo(tmp_path):
    result = run.invoke(app, ["demo", "--out", str(tmp_path / "demo"), "--epochs", "40"])
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == ["demo.json", "demo.png"]
    outcomes = {o["loss"]: o for o in json.loads((tmp_path / "demo" / "demo.json").read_text())["outcomes"]}
    assert {name for name, o in outcomes.items() if o["proper"]} == {"forward", "gls", "bc"}
    assert outcomes["bc"]["bound"] == "-inf"
    assert outcomes["bc"]["lowest_risk"] < 0
    for name in ("ga", "gls", "forward"):
        assert outcomes[name]["lowest_risk"] >= outcomes[name]["bound"]
    assert max(outcomes, key=lambda name: outcomes[name]["accuracy"]) == "forward"
    assert outcomes["forward"]["accuracy"] > 0.9
    said = " ".join(result.stdout.split())
    assert "BC is what must not happen" in said
    assert "by the weak labels of the test digits alone: accuracy" in said


def test_same_seed_same_numbers(tmp_path):
    for name in ("a", "b"):
        assert run.invoke(app, ["demo", "--out", str(tmp_path / name), "--epochs", "2"]).exit_code == 0
    assert (tmp_path / "a" / "demo.json").read_text() == (tmp_path / "b" / "demo.json").read_text()


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "file").write_text("mine")
    result = run.invoke(app, ["demo", "--out", str(tmp_path / "file"), "--epochs", "1"])
    assert result.exit_code == 2
    assert "expected a folder" in result.stderr
    assert (tmp_path / "file").read_text() == "mine"


def test_small_work_runs_in_one_thread_and_large_work_in_all():
    def threads():
        return {torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())}

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(2):
            with one_thread(SMALL + 1):
                assert threads() == {2}
            with one_thread(SMALL):
                assert threads() == {1}
            assert threads() == {2}
    finally:
        torch.set_num_threads(before)
