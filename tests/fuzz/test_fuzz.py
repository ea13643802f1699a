"""A taste of `make fuzz`, with fixed seeds: every check on a few cases, and a check that finds a planted fault."""

import runpy
import subprocess

import forked
import pytest

import tproper as tp
from tproper.transitions import DenseReconstruction

from . import commands, files, numeric, structure  # noqa: F401  (they register their checks)
from .harness import CHECKS, run_case

#: Cases of each check: together about twenty seconds.
FEW = {
    "models": 6, "train_lines": 6, "tables": 6, "other_lines": 6, "checkpoints": 12, "transition_files": 12,
    "interrupted": 1, "coverage": 3, "other_calls": 4, "critical_ks": 5,
}  # fmt: skip


@pytest.mark.parametrize("name", list(CHECKS))
def test_a_few_cases(name, tmp_path):
    for seed in range(FEW.get(name, 10)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        wrong = run_case(name, seed, folder)
        assert wrong is None, f"python -m tests.fuzz --only {name} --seed {seed} --cases 1\n{wrong}"


@pytest.mark.parametrize(
    ("name", "method", "fault"),
    [
        ("backward_losses", "forward", lambda true: lambda self, *a, **k: true(self, *a, **k) * (1 + 1e-7)),
        ("reconstructions", "matrix", lambda true: lambda self: true(self).T),
    ],
)
def test_a_planted_fault_is_seen(name, method, fault, tmp_path, monkeypatch):
    owner = tp.BackwardLoss if method == "forward" else DenseReconstruction
    monkeypatch.setattr(owner, method, fault(getattr(owner, method)))
    assert any(run_case(name, seed, tmp_path) for seed in range(20))


def test_a_broken_command_is_seen(tmp_path, monkeypatch):
    from tproper import certificates

    monkeypatch.setattr(certificates, "inspect", lambda *a: {}["nothing"])
    assert "broke: KeyError" in "".join(str(run_case("inspect_lines", seed, tmp_path)) for seed in range(10))


def test_a_seed_given_on_the_command_line_is_run_alone():
    """As ``python -m tests.fuzz --only ...``, without the imports of a new process."""
    process = forked.start_function(
        lambda: runpy.run_module(__package__, run_name="__main__", alter_sys=True),
        "--only", "forward_losses", "--seed", "5", "--cases", "2", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "first seed 5" in out
    assert "2 cases (forward_losses 2), 0 failures" in out
