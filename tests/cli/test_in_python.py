"""What each command does, in at most five lines of public Python: the same numbers and the same files."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcomes import good
from sklearn.datasets import load_digits

import tproper as tp
from tproper._core import json_text
from tproper.cli.main import COMMANDS

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

Run = Callable[..., Any]


def test_simulate(workshop: Path, tmp_path: Path, run: Run) -> None:
    out, again = tmp_path / "weak.csv", tmp_path / "again.csv"
    asked = ["--label", "kind", "--transition", "complementary", "--seed", "3"]
    said = json.loads(good(run, "simulate", workshop / "clean.csv", *asked, "--out", out, "--json").stdout)
    drawn = tp.simulate(workshop / "clean.csv", "complementary", label="kind", seed=3, out=again)
    assert again.read_bytes() == out.read_bytes()
    assert drawn.counts == said["labels"]
    frame = pd.read_csv(workshop / "clean.csv")
    table = tp.simulate(frame, tp.complementary(3), label="kind", seed=3, classes=["ant", "bee", "cat"]).table
    pd.testing.assert_frame_equal(table.to_pandas(), pd.read_csv(out))


TRAININGS: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "complementary": ("weak.csv", ["--transition", "complementary"], {"transition": "complementary"}),
    "sets, tuned": (
        "sets.csv",
        ["--transition", "estimate", "--tune", "--seed", "2"],
        {"transition": "estimate", "tune": True, "seed": 2},
    ),
    "squeezed": (
        "weak.csv",
        ["--transition", "complementary", "--loss", "gls", "--squeeze", "1,1.5", "--holdout", "0.3", "--features", "y"],
        {"transition": "complementary", "loss": "gls", "squeeze": (1, 1.5), "holdout": 0.3, "features": ["y"]},
    ),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_train(name: str, workshop: Path, tmp_path: Path, run: Run) -> None:
    file, options, keywords = TRAININGS[name]
    asked = ["--label", "weak_label", *options, "--out", tmp_path / "m"]
    said = json.loads(good(run, "train", workshop / file, *asked, "--json").stdout)
    frame = pd.read_csv(workshop / file)
    for data in (frame, workshop / file):
        model = tp.TableModel.fit(data, label="weak_label", **keywords)
        found = json.loads(json_text(model.to_dict()))
        assert found["scores"]["accuracy"]["value"] == said["scores"]["accuracy"]["value"]
        np.testing.assert_array_equal(model.estimator.coef_, tp.load(tmp_path / "m").coef_)
        np.testing.assert_array_equal(model.estimator.intercept_, tp.load(tmp_path / "m").intercept_)
        if data is not frame:
            model.save(tmp_path / "again" / "m")
    for part in ("model.safetensors", "model_card.md"):
        assert (tmp_path / "again" / "m" / part).read_bytes() == (tmp_path / "m" / part).read_bytes()
    back = tp.TableModel.load(tmp_path / "again" / "m")
    assert back.card() == model.card("m") == (tmp_path / "m" / "model_card.md").read_text()
    np.testing.assert_array_equal(back.predict_proba(frame), model.predict_proba(frame))


def test_predict(workshop: Path, tmp_path: Path, run: Run) -> None:
    data = workshop / "clean.csv"
    good(run, "predict", workshop / "model", data, "--keep", "kind", "--out", tmp_path / "p.csv")
    model = tp.TableModel.load(workshop / "model")
    model.predict_file(data, tmp_path / "again.csv", keep=["kind"])
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()
    exact = {"float_precision": "round_trip"}  # pandas 2 reads numbers to the last digit but one by itself
    written, frame = pd.read_csv(tmp_path / "p.csv", **exact), pd.read_csv(data, **exact)
    assert model.predict(frame).tolist() == written["predicted"].tolist()
    probabilities = model.predict_proba(frame[["kind", "y", "x"]])
    np.testing.assert_array_equal(probabilities, written[[f"p_{c}" for c in model.classes_]])


def test_evaluate(workshop: Path, run: Run) -> None:
    asked = ["--label", "weak_label", "--json"]
    said = json.loads(good(run, "evaluate", workshop / "model", workshop / "weak.csv", *asked).stdout)
    model = tp.TableModel.load(workshop / "model")
    for data in (workshop / "weak.csv", pd.read_csv(workshop / "weak.csv")):
        result = model.evaluate(data, label="weak_label")
        assert result.scores["log_loss"].value == said["weak"]["log_loss"]["value"]
        assert list(result.scores["accuracy"].interval) == said["weak"]["accuracy"]["interval"]


def test_estimate(workshop: Path, tmp_path: Path, run: Run) -> None:
    good(run, "estimate", "partial", workshop / "sets.csv", "--label", "weak_label", "--out", tmp_path / "T.json")
    found = tp.estimate_table(workshop / "sets.csv", "partial", label="weak_label")
    found.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "T.json").read_bytes()
    assert found.classes == ["ant", "bee", "cat"]


def test_prevalence(workshop: Path, run: Run) -> None:
    asked = ["--label", "weak_label", "--transition", "complementary", "--classes", "ant,bee,cat"]
    difference = ["--difference", "ant,cat", "--json"]
    said = json.loads(good(run, "prevalence", workshop / "weak.csv", *asked, *difference).stdout)
    columns = {"label": "weak_label", "transition": "complementary", "classes": ["ant", "bee", "cat"]}
    found = tp.prevalence_table(workshop / "weak.csv", **columns)
    pair = found.difference("ant", "cat")
    assert json.loads(json_text(found.to_dict() | {"difference": pair.to_dict()})) == said
    frame = pd.read_csv(workshop / "weak.csv")
    by_hand = tp.weak_prevalence(frame["weak_label"], tp.complementary(3).named(["ant", "bee", "cat"]))
    np.testing.assert_array_equal(by_hand.value, found.value)


def test_export(workshop: Path, tmp_path: Path, run: Run) -> None:
    pytest.importorskip("onnx")
    out, again = tmp_path / "m.onnx", tmp_path / "again.onnx"
    said = json.loads(good(run, "export", workshop / "model", "--out", out, "--json").stdout)
    model = tp.load(workshop / "model")
    tp.export_onnx(model, again)
    assert again.read_bytes() == out.read_bytes()
    assert said["inputs"] == model.feature_names_in_.tolist()
    assert said["classes"] == model.classes_.tolist()


def test_export_of_trees(workshop: Path, tmp_path: Path, run: Run) -> None:
    pytest.importorskip("lightgbm")
    trees = tp.TableModel.fit(
        workshop / "weak.csv", "complementary", label="weak_label", model="boosting", epochs=3, holdout=0
    )
    trees.save(tmp_path / "m")
    said = json.loads(good(run, "export", tmp_path / "m", "--out", tmp_path / "m.txt", "--json").stdout)
    model = tp.load(tmp_path / "m")
    tp.export_trees(model, tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == (tmp_path / "m.txt").read_bytes()
    assert said["rounds"] == model.n_iter_


def test_demo(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("matplotlib")
    good(run, "demo", "--out", tmp_path, "--epochs", "1")
    said = {o["loss"]: o for o in json.loads((tmp_path / "demo.json").read_text())["outcomes"]}
    X, z = load_digits(return_X_y=True)
    rest, test = np.split(np.random.default_rng(0).permutation(len(z)), [1347])
    X, T = np.float64(np.float32(X / 16)), tp.complementary(10)
    losses = {"forward": tp.ForwardLoss(T), "gls": tp.BackwardLoss(T, squeeze=(1.0, 2.0))}
    for name, loss in losses.items():
        model = tp.WeakLabelClassifier(T, loss=loss, random_state=0).fit(X[rest], T.sample(z[rest], 0))
        p = model.predict_proba(X[test])
        assert said[name]["accuracy"] == (p.argmax(1) == z[test]).mean()
        assert said[name]["log_loss"] == pytest.approx(-np.log(p[np.arange(len(p)), z[test]]).mean(), rel=1e-12)
        assert said[name]["proper"] == tp.certify(loss).proper
        assert said[name]["bound"] == loss.lower_bounds().min()


def test_doctor(run: Run) -> None:
    """It asks what is installed, and tries certificates, gradients and a fit."""
    said = json.loads(good(run, "doctor", "--json").stdout)
    for name, version in said["versions"].items():
        assert name == "Python" or version == importlib.metadata.version(name)
    assert said["tests"]["certificates"] == "ok"
    T = tp.complementary(10)
    assert [tp.certify(tp.BackwardLoss(T, squeeze=s)).lower_bounded for s in (None, (1.0, 2.0))] == [False, True]
    assert tp.ForwardLoss(T).lower_bounds().min() == pytest.approx(np.log(9))


def test_every_command_has_its_lines_here() -> None:
    assert {f"test_{name}" for name in COMMANDS} <= set(globals())


def test_inspect(run: Run) -> None:
    said = json.loads(good(run, "inspect", "complementary:3", "--json").stdout)
    seen = tp.inspect(tp.complementary(3))
    assert seen.to_dict()["losses"]["BC"]["witness"] == said["losses"]["BC"]["witness"]
    assert list(seen.critical_k) == said["critical_k"]
    assert str(seen) == good(run, "inspect", "complementary:3").stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda data: tp.TableModel.fit(data, "complementary", label="nothing"), "label"),
        (lambda data: tp.TableModel.fit(data, "complementary", label="weak_label", true_label="no"), "true_label"),
        (lambda data: tp.TableModel.fit(data, "complementary", label="weak_label", squeeze="1,2"), "squeeze"),
        (lambda data: tp.simulate(data, "complementary", label="x", column="y"), "column"),
        (lambda data: tp.estimate_table(data, "clean", label="weak_label"), "true_label"),
        (lambda data: tp.TableModel.load(data.parent / "model").predict_file(data, "x.csv", keep="no"), "keep"),
    ],
)
def test_refusals_name_keywords_in_python(call: Callable[[Path], Any], argument: str, workshop: Path) -> None:
    with pytest.raises(tp.InputError) as error:
        call(workshop / "weak.csv")
    assert error.value.argument == argument
    assert "--" not in str(error.value)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(tp.InputError) as error:
        tp.read_table(np.zeros((3, 2)))
    assert error.value.argument == "data"
    with pytest.raises(TypeError, match="colour"):
        tp.TableModel.fit({"a": [1]}, "complementary", label="a", colour="red")
