"""What 0.1.0 wrote is read by today's code, and says the same; today's commands give its figures.

`write_0_1_0.py` made the files, with the code of that release. Trials and their reports are tested beside the lab.
"""

from __future__ import annotations

import csv
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import tproper as tp
from tproper.cli.main import app

from . import write_0_1_0 as release

OLD = Path(__file__).parent / "0.1.0"
MODELS = sorted(p.name for p in (OLD / "models").iterdir() if p.is_dir())


def said(name: str) -> Any:
    return json.loads((OLD / "commands" / f"{name}.json").read_text())


pytestmark = pytest.mark.kept


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the release's files, as the current folder."""
    shutil.copytree(OLD, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    return tmp_path / "old"


def call(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def table(path: Path) -> dict[str, np.ndarray]:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def same_predictions(new: Path, old: Path) -> None:
    """By name, whatever the order of the columns."""
    now, then = table(new), table(old)
    assert set(now) >= set(then)
    for name in then:
        if name.startswith("p_"):
            np.testing.assert_allclose(now[name].astype(float), then[name].astype(float), rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(now["predicted"], then["predicted"])


def figures(told: Any, path: str = "") -> dict[str, float | bool]:
    """Every number and verdict of a JSON document by its place, without what is said in words."""
    if isinstance(told, dict):
        return {k: v for name, part in told.items() for k, v in figures(part, f"{path}/{name}").items()}
    if isinstance(told, list):
        return {k: v for i, part in enumerate(told) for k, v in figures(part, f"{path}/{i}").items()}
    if told in ("inf", "-inf"):
        return {path: float(told)}
    return {path: told} if isinstance(told, bool | int | float) else {}


def same_figures(now: Any, then: Any, *asked: str, rtol: float = 1e-6) -> None:
    """The figures whose place holds one of these names; those that have been added since are not asked for."""
    new, old = figures(now), {k: v for k, v in figures(then).items() if any(name in f"{k}/" for name in asked)}
    assert old
    assert {k for k in old if k not in new} == set()
    for place, value in old.items():
        if isinstance(value, bool) or math.isinf(value):
            assert new[place] == value, place
        else:
            assert new[place] == pytest.approx(value, rel=rtol, abs=rtol), place


@pytest.mark.parametrize("name", MODELS)
def test_a_tables_model_gives_the_probabilities_it_gave(name: str, here: Path) -> None:
    call("predict", f"models/{name}", "first.csv", "--out", "now.csv")
    same_predictions(here / "now.csv", OLD / "models" / f"{name}.csv")


@pytest.mark.parametrize("name", release.ESTIMATORS)
def test_an_estimator_gives_the_probabilities_it_gave(name: str) -> None:
    then = json.loads((OLD / "estimators" / "answers.json").read_text())[name]
    clean = table(OLD / "clean.csv")
    X = np.stack([clean["x"], clean["y"]], axis=1).astype(float)[:20]
    clf = tp.load(OLD / "estimators" / name)
    assert [str(c) for c in clf.classes_] == then["classes"]
    np.testing.assert_allclose(clf.predict_proba(X), then["probabilities"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(clf.transition_.matrix(), then["transition"], rtol=1e-12)


@pytest.mark.parametrize("name", release.losses())
def test_a_state_dict_loads_and_gives_the_loss_it_gave(name: str) -> None:
    then = json.loads((OLD / "losses" / "values.json").read_text())[name]
    loss = release.losses()[name]
    loss.load_state_dict(torch.load(OLD / "losses" / f"{name}.pt", weights_only=True))
    value = loss(torch.tensor(then["scores"], dtype=torch.float64), torch.tensor(then["labels"]))
    assert value.item() == pytest.approx(then["value"], rel=1e-9)
    bounds = [-math.inf if b is None else b for b in then["bounds"]]
    np.testing.assert_allclose(np.asarray(loss.lower_bounds()), bounds, rtol=1e-9, atol=1e-12)


def matrices(document: Any) -> list[np.ndarray]:
    """Every T written in a file of one, in order."""
    if isinstance(document, dict):
        own = [np.array(document["matrix"])] if "matrix" in document else []
        return own + [m for name, part in document.items() if name != "matrix" for m in matrices(part)]
    return [m for part in document for m in matrices(part)] if isinstance(document, list) else []


@pytest.mark.parametrize("name", ["clean", "features", "pu", "annotators", "partial"])
def test_a_transition_file_gives_the_transition_it_gave(name: str) -> None:
    path = OLD / "transitions" / f"{name}.json"
    told, T = json.loads(path.read_text()), tp.parse_transition(str(path))
    if name == "annotators":
        for part, matrix in zip(T.transitions, matrices(told), strict=True):
            np.testing.assert_allclose(part.matrix(), matrix, rtol=1e-12)
    elif name == "partial":
        p = told["a"] / (told["a"] + told["b"])
        np.testing.assert_allclose(T.matrix(), tp.partial_labels(3, p).matrix(), rtol=1e-9)
    else:
        np.testing.assert_allclose(T.matrix(), told["matrix"], rtol=1e-12)
    assert isinstance(T, tp.EstimatedTransition) or name == "annotators"


@pytest.mark.parametrize("name", ["clean", "features", "pu", "annotators", "partial"])
def test_estimate_gives_the_transition_it_gave(name: str, here: Path) -> None:
    rest = {
        "clean": ["few.csv", "--label", "label", "--true-label", "kind"],
        "features": ["few.csv", "--label", "label", "--true-label", "kind"],
        "annotators": ["answers.csv", "--label", "ann,bob,cy"],
        "pu": ["positive.csv", "--label", "found", "--classes", "yes,no"],
        "partial": ["sets.csv", "--label", "weak_label", "--ignore", "kind"],
    }[name]
    call("estimate", name, *rest, "--out", "now.json")
    now, then = (tp.parse_transition(str(p)) for p in (here / "now.json", OLD / "transitions" / f"{name}.json"))
    for new, old in zip(getattr(now, "transitions", [now]), getattr(then, "transitions", [then]), strict=True):
        # how far estimates are shrunk was changed since, and may be again; not by more than their own error
        within = old.stderr if isinstance(old, tp.EstimatedTransition) else 1e-5
        assert (np.abs(new.matrix() - old.matrix()) <= 1e-4 + within).all()


def test_inspect_gives_its_figures(here: Path) -> None:
    asked = ("/rank/", "/condition_number/", "proper/", "/lower_bounded/", "/bounds/", "/slope/", "/critical_k/")
    same_figures(json.loads(call("inspect", "complementary:4", "--json")), said("inspect_complementary"), *asked)
    rest = ["--json", "--reconstruction", "min_variance", "--k", 0.5]
    same_figures(json.loads(call("inspect", "pair.csv", *rest)), said("inspect_file"), *asked)


@pytest.mark.parametrize(("name", "spec"), [("noisy", "pair.csv"), ("not", "complementary"), ("sets", "partial:0.3")])
def test_simulate_draws_the_labels_it_drew(name: str, spec: str, here: Path) -> None:
    named = release.ORDER if name == "noisy" else []
    rest = ["--label", "kind", "--keep-true", "--transition", spec, "--seed", 3, *named]
    call("simulate", "clean.csv", *rest, "--out", "now.csv")
    np.testing.assert_array_equal(table(here / "now.csv")["weak_label"], table(OLD / f"{name}.csv")["weak_label"])


TRAINED = {
    "noisy": ["noisy.csv", "--label", "weak_label", "--transition", "pair.csv", "--ignore", "kind", *release.ORDER],
    "sets": ["sets.csv", "--label", "weak_label", "--transition", "partial:0.3", "--ignore", "kind", "--loss", "gls"],
    "annotators": ["answers.csv", "--label", "ann,bob,cy", "--transition", "estimate"],
}


@pytest.mark.parametrize("name", TRAINED)
def test_train_gives_the_model_and_the_scores_it_gave(name: str, here: Path) -> None:
    """Intervals are not compared: they are held to their coverage, and may become better."""
    told = json.loads(call("train", *TRAINED[name], "--json", "--out", "model"))
    asked = ("/rows/", "/bounds/", "proper/", "/accuracy/unbiased/", "/log_loss/unbiased/", "/brier/unbiased/")
    same_figures(told, said(f"train_{name}"), *asked, rtol=1e-3)
    call("predict", "model", "first.csv", "--out", "now.csv")
    now, then = table(here / "now.csv"), table(OLD / "models" / f"{name}.csv")
    for column in [c for c in then if c.startswith("p_")]:
        np.testing.assert_allclose(now[column].astype(float), then[column].astype(float), atol=1e-3)


@pytest.mark.parametrize("name", ["noisy", "not", "sets"])
def test_evaluate_gives_the_scores_it_gave(name: str, here: Path) -> None:
    rest = ["--label", "weak_label", "--true-label", "kind", "--json"]
    told = json.loads(call("evaluate", f"models/{name}", f"{name}.csv", *rest))
    asked = ("/accuracy/unbiased/", "/log_loss/unbiased/", "/brier/unbiased/", "/balanced_accuracy/unbiased/")
    same_figures(told, said(f"evaluate_{name}"), *asked, rtol=1e-5)


def test_demo_gives_its_figures(here: Path) -> None:
    call("demo", "--out", "demo", "--epochs", 3)
    # its fits are those of the classifier since; what it draws by descent, and what is proven, is as it was
    now, then = (
        {o["loss"]: o for o in outcomes}
        for outcomes in (json.loads(Path("demo/demo.json").read_text())["outcomes"], said("demo")["outcomes"])
    )
    assert now.keys() == then.keys()
    assert all(now[name]["bound"] == then[name]["bound"] for name in ("bc", "ga", "forward"))
