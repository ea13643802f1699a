"""`tproper doctor`: it names what is there, and it can fail."""

import json

import pytest
from typer.testing import CliRunner

from tproper.cli import checkup
from tproper.cli.main import app


def doctor(*options):
    return CliRunner().invoke(app, ["doctor", *options])


def test_a_working_installation_is_well():
    result = doctor("--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["healthy"] is True
    assert found["problems"] == []
    assert {"tproper", "Python", "torch", "numpy", "scipy", "scikit-learn"} <= set(found["versions"])
    assert set(found["extras"]) == set(checkup.EXTRAS)
    assert found["tests"]["certificates"] == "ok"
    text = doctor().stdout
    assert "all is well" in text
    assert "GPU" in text


def test_the_self_tests_see_a_wrong_answer(monkeypatch):
    class Wrong(checkup.ForwardLoss):
        def lower_bounds(self):
            return super().lower_bounds() - 1

    monkeypatch.setattr(checkup, "ForwardLoss", Wrong)
    result = doctor()
    assert result.exit_code == 1
    assert "certificates: expected the bound log 9 = 2.197225, got 1.197225" in result.stdout
    assert "something installed does not work" in result.stdout


@pytest.mark.parametrize("test", ["_gradients", "_learning"])
def test_each_self_test_reports_an_exception(test, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(checkup, "symmetric_noise", broken)
    assert checkup._outcome(getattr(checkup, test)) == "RuntimeError: no such kernel"


def test_a_package_that_cannot_be_imported_is_a_problem(monkeypatch):
    monkeypatch.setattr(checkup.metadata, "version", lambda name: "1.0")
    problems = []
    assert checkup._version("no-such-package", problems) == "1.0"
    (problem,) = problems
    assert "no-such-package 1.0 is installed and cannot be imported: ModuleNotFoundError" in problem


def test_an_extra_that_is_not_there_is_named_with_its_remedy(monkeypatch):
    found = checkup.Checkup({}, [], {"ray": ["ray"]}, "none", {"a": "ok"}, 0.0, [])
    assert found.healthy
    assert "lacks ray; pip install 'tproper[ray]'" in found.text
