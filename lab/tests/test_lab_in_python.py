"""What the lab's commands do, in a few lines of public Python: the same records and the same tables."""

from pathlib import Path
from unittest import mock

import pytest
import torch
from test_commands import records, run_here

import tproper_lab as lab
from tproper_lab import report

CPU = torch.device("cpu")
ALIKE = ("seconds", "finished_at")  # of a machine, not of a trial


def same(found, expected):
    """The same records but for the clock."""
    assert [r["id"] for r in found] == [r["id"] for r in expected]
    for mine, other in zip(found, expected, strict=True):
        assert {n: v for n, v in mine.items() if n not in ALIKE} == {n: v for n, v in other.items() if n not in ALIKE}


def tables(folder: Path) -> list[str]:
    """The lines of a report's tables, without what a trial took."""
    lines = next(folder.glob("*.md")).read_text().splitlines()
    kept = [line for line in lines if line.startswith(("|", "#"))]
    return kept[: next((i for i, line in enumerate(kept) if "epochs and settings" in line), len(kept))]


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    """Tables alone: what is drawn is kept elsewhere."""
    with mock.patch.object(report, "can_draw", return_value=False):
        yield


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory, no_pictures):
    out = tmp_path_factory.mktemp("reproduced")
    asked = ["--dataset", "digits", "--models", "linear", "--methods", "bc,gls", "--trials", "2", "--max-epochs", "3"]
    done = run_here("reproduce", "table2", *asked, "--device", "cpu", "--out", out)
    assert done.exit_code == 0, done.output
    return out


def test_reproduce(reproduced, tmp_path):
    data, store = lab.load("digits"), lab.Store(tmp_path)
    protocol = lab.Protocol(batch_size=lab.batch_size("digits"), max_epochs=3)
    configs = [lab.paper.chosen(method, "linear", "digits", protocol) for method in ("bc", "gls")]
    trials = lab.sweep.breadth_first(configs, range(2))
    assert lab.Runner(data, lab.Pixels(data, CPU), store).run(trials, lab.Stop())
    same(store.records(), records(reproduced))
    store.close()


def test_report(reproduced, tmp_path):
    lab.write_report(reproduced, tmp_path / "again")
    assert tables(tmp_path / "again") == tables(reproduced / "report")
    assert len(tables(tmp_path / "again")) > 10
    assert run_here("report", reproduced, "--out", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out/report.md").read_bytes() == (tmp_path / "again/report.md").read_bytes()


def test_bench(tmp_path):
    asked = ["symmetric:0.3", "--data", "digits", "--models", "linear", "--methods", "ce,volminnet", "--trials", "2",
             "--epochs", "3", "--search-epochs", "1", "--search-trials", "1", "--lr", "0.1,0.3,1", "--device", "cpu",
             "--weight-decay", "1e-3", "--learned-lr", "0.02"]  # fmt: skip
    done = run_here("bench", *asked, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    data, store = lab.load("digits"), lab.Store(tmp_path / "again")
    posed = lab.pose("symmetric:0.3", data)
    budget = lab.Budget((0.1, 0.3, 1.0), 3, 1, trials=2, search_trials=1, weight_decay=1e-3, learned_lr=0.02)
    configs = [lab.config_of(method, "linear", "digits", posed, budget) for method in ("ce", "volminnet")]
    runner = lab.Runner(data, lab.Pixels(data, CPU), store)
    chosen = lab.run_bench(configs, budget, lambda trials: store.records() if runner.run(trials, lab.Stop()) else None)
    same(store.records(), records(tmp_path / "run"))
    rates = {r["loss"]: r["lr"] for r in store.records() if r["seed"] < 1000}
    assert rates == {c.loss: c.lr for c in chosen}
    store.close()
    lab.write_report(tmp_path / "again", tmp_path / "page")
    assert tables(tmp_path / "page") == tables(tmp_path / "run/report")
