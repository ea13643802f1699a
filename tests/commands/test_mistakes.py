"""Whose fault it is: a user's mistake is one sentence, a fault of ours keeps its traceback and says whom to tell."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Annotated, Any

import forked
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from tproper import InputError
from tproper.cli import main
from tproper.cli.errors import user_errors
from tproper.cli.main import app
from tproper.tables import TableModel


def ended(function: Any, *arguments: object, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    process = forked.start_function(function, *arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


FAULTS = [ValueError("shapes do not fit"), np.linalg.LinAlgError("Singular matrix"), KeyError("nothing")]


@pytest.mark.parametrize("error", [*FAULTS, UnicodeDecodeError("utf-8", b"\xff", 0, 1, "of ours")])
def test_a_fault_of_ours_keeps_its_traceback_and_says_whom_to_tell(error: Exception) -> None:
    def faulty() -> None:
        def fails(*arguments: object) -> None:
            raise error

        TableModel.load = fails  # type: ignore[method-assign]
        main()

    code, _, said = ended(faulty, "predict", "m", "t.csv")
    assert code == 1
    assert "Traceback (most recent call last)" in said
    assert type(error).__name__ in said
    assert "tproper doctor" in said.splitlines()[-1]
    assert not any(line.startswith("error:") for line in said.splitlines())


def test_a_mistake_is_one_sentence_and_shows_its_traceback_where_it_is_asked_for(tmp_path: Path) -> None:
    line = ("predict", tmp_path / "m", tmp_path / "t.csv")
    code, out, said = ended(main, *line)
    assert (code, out) == (2, "")
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1
    for arguments, env in ((("--traceback", *line), None), (line, {"TPROPER_TRACEBACK": "1"})):
        code, _, shown = ended(main, *arguments, env=env)
        assert code == 2
        assert "Traceback (most recent call last)" in shown
        assert shown.endswith(said)


@pytest.mark.parametrize(
    ("argument", "option"),
    [
        ("random_state", "--seed"),  # by the table
        ("l2", "--l2"),  # the same name
        ("true", "--true-label"),
        ("transition", "--how"),  # a name that the option was given
        ("path", "DATA"),
        ("alpha", "alpha"),  # no option of this command
    ],
)
def test_the_librarys_arguments_are_named_as_the_commands_options(argument: str, option: str) -> None:
    @user_errors
    def command(
        data: Annotated[str, typer.Argument()],
        l2: Annotated[float, typer.Option()] = 0.0,
        seed: Annotated[int, typer.Option()] = 0,
        true_label: Annotated[str, typer.Option()] = "",
        transition: Annotated[str, typer.Option("--how")] = "",
    ) -> None:
        raise InputError(f"{argument}: expected a number, got none")

    single = typer.Typer(pretty_exceptions_enable=False)
    single.command()(command)
    done = CliRunner().invoke(single, ["x"])
    assert done.exit_code == 2
    assert done.stderr == f"error: {option}: expected a number, got none\n"


def test_a_trained_models_features_cannot_be_left_out(tmp_path: Path) -> None:
    """`evaluate` and `predict` have no --ignore and no --features, and do not advise them."""
    rng = np.random.default_rng(0)
    rows = [f"{x:.3f},{rng.integers(2)},{'ab'[int(x > 0)]}" for x in rng.normal(size=60)]
    (tmp_path / "t.csv").write_text("\n".join(["x,flag,weak", *rows]) + "\n")
    line = ["train", str(tmp_path / "t.csv"), "--label", "weak", "--transition", "symmetric:0.1", "--epochs", "2"]
    assert CliRunner().invoke(app, [*line, "--out", str(tmp_path / "m")]).exit_code == 0
    odd = {"text": "high", "inexact": "9007199254740993", "missing": ""}
    for kind, value in odd.items():
        (tmp_path / "other.csv").write_text(f"x,flag,weak\n1.5,1,a\n{value},1,b\n")
        line = ["evaluate", str(tmp_path / "m"), str(tmp_path / "other.csv"), "--label", "weak"]
        done = CliRunner().invoke(app, line)
        assert done.exit_code == (0 if kind == "missing" else 2)  # a gap is filled, and told of
        assert ("x has no value in 1 of 2 rows" if kind == "missing" else "column 'x'") in done.stderr
        assert "--ignore" not in done.stderr
        assert "--features" not in done.stderr
