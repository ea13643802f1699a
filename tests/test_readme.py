"""The README does what it prints: its Python runs, its table comes from the records, its links exist."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import tproper as tp

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_the_python_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    X, z = load_digits(return_X_y=True)
    X = X / 16
    T = tp.complementary(10)
    weak = T.sample(z, 0)
    scores = torch.zeros(8, 10, requires_grad=True)
    given = {"X": X[:1300], "weak": weak[:1300], "X_new": X[1300:], "X_test": X[1300:], "weak_test": weak[1300:]}
    space = given | {"scores": scores, "weak_labels": weak[:8]}
    exec(compile(code, "README.md", "exec"), space)
    assert scores.grad is not None
    assert torch.allclose(space["p"].sum(-1), torch.ones(8))
    assert np.allclose(space["model"].predict_proba(X[:5]).sum(axis=1), 1)
    said = capsys.readouterr().out
    assert "bounded from below  NO" in said
    assert "accuracy" in said


def test_its_table_is_made_from_the_records():
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    assert generate["generated"](README) == README


@pytest.mark.parametrize("page", ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/*.md"))])
def test_links_and_pictures_exist(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), target


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, flags=re.M):
        assert re.search(rf"^{target}:", makefile, flags=re.M)


def test_the_ambiguity_degree_of_the_theory_page():
    text = (ROOT / "docs/theory.md").read_text()
    (code,) = re.findall(r"`(tp\.Transition\(.*?\.diagnose\(\))`", text, flags=re.S)
    assert eval(code, {"tp": tp}).ambiguity_degree == 0.5
