"""`tproper inspect`: the paper's Table 1 from the command line, JSON, pictures, and clear mistakes."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tproper.cli.main import app
from tproper.transitions import KINDS

run = CliRunner()


def test_table_1_of_the_paper():
    result = run.invoke(app, ["inspect", "complementary:10", "--json"])
    assert result.exit_code == 0
    losses = json.loads(result.stdout)["losses"]
    verdicts = {name: (c["proper"], c["lower_bounded"]) for name, c in losses.items()}
    assert verdicts == {
        "BC": (True, False),
        "BC+gLS (1, 2)": (True, True),
        "BC+GA": (False, True),
        "forward": (True, True),
    }
    assert losses["BC+gLS (1, 2)"]["bounds"][0] == pytest.approx(-33.35831565482171)
    assert losses["BC"]["bounds"] == ["-inf"] * 10
    assert losses["BC"]["witness"]["slope"] == pytest.approx(-80 / 9)


def test_reads_matrices_from_files(tmp_path):
    T = np.array([[0.9, 0.3], [0.1, 0.7]])
    np.save(tmp_path / "T.npy", T)
    np.savetxt(tmp_path / "T.csv", T, delimiter=",")
    by_npy = run.invoke(app, ["inspect", str(tmp_path / "T.npy"), "--json"])
    by_csv = run.invoke(app, ["inspect", str(tmp_path / "T.csv"), "--json"])
    assert by_npy.exit_code == by_csv.exit_code == 0
    assert (
        json.loads(by_npy.stdout)["critical_k"] == json.loads(by_csv.stdout)["critical_k"] == pytest.approx([1 / 3, 1])
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_is_listed_and_inspected(kind):
    listed = run.invoke(app, ["inspect", "kinds"])
    assert listed.exit_code == 0
    assert f"{kind.help}; {kind.example}" in listed.stdout
    assert run.invoke(app, ["inspect", "kinds", "--json"]).exit_code == 0
    result = run.invoke(app, ["inspect", kind.example, "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["losses"]["forward"]["lower_bounded"]


def test_a_transition_without_reconstruction_still_has_forward_correction():
    result = run.invoke(app, ["inspect", "coarse:0+1|2+3"])
    assert result.exit_code == 0
    assert "{0, 1} and {2, 3} cannot be told apart" in result.stdout
    assert "forward" in result.stdout
    assert "BC" not in result.stdout


def test_picture_of_the_simplex(tmp_path):
    result = run.invoke(app, ["inspect", "multi_complementary:3,1", "--plot", str(tmp_path / "new" / "figure.png")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "new" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["figure.png"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense:3"], "expected one of"),
        (["complementary:1"], "SPEC: expected an integer >= 2 for K of 'complementary', got 1"),
        (["symmetric:3,1.5"], "SPEC: expected a finite number in [0, 1] for p of 'symmetric', got 1.5"),
        (["complementary:10", "--alpha", "0.5"], "expected alpha >= 1, got 0.5"),
        (["complementary:10", "--k", "-1"], "k: expected a finite number in [0, inf), got -1.0"),
        (["complementary:4", "--plot", "x.png"], "three classes"),
        (["complementary:3", "--reconstruction", "best"], "--reconstruction: expected one of auto, inverse"),
        (["missing.csv"], "missing.csv"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run.invoke(app, ["inspect", *arguments])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert says in result.stderr
    assert "Traceback" not in result.output
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_row_stochastic_file_is_told_so(tmp_path):
    np.savetxt(tmp_path / "T.csv", [[0.9, 0.1], [0.3, 0.7]], delimiter=",")
    result = run.invoke(app, ["inspect", str(tmp_path / "T.csv")])
    assert result.exit_code == 2
    assert "row-stochastic" in result.stderr


def test_a_directory_for_a_picture(tmp_path):
    result = run.invoke(app, ["inspect", "partial:3,0.1", "--plot", str(tmp_path)])
    assert result.exit_code == 2
    assert "got a directory" in result.stderr


def test_numbers_of_very_many_labels_are_summed_up():
    said = (run.invoke(app, ["inspect", f"complementary:{K}", "--json"]).stdout for K in (10_000, 10_001))
    few, many = map(json.loads, said)
    assert len(few["critical_k"]) == 10_000
    assert many["critical_k"] == {"count": 10_001, "least": pytest.approx(10_000), "greatest": pytest.approx(10_000)}
    assert many["losses"]["BC"]["bounds"] == {"count": 10_001, "least": "-inf", "greatest": "-inf"}


def test_a_warning_is_one_line_of_its_own():
    result = run.invoke(app, ["inspect", "symmetric:2,0.499999999"])
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: symmetric_noise(2, 0.5): T is close to singular")
    assert len(result.stderr.strip().splitlines()) == 1
