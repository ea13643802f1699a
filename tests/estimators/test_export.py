"""Models as ONNX files: the probabilities of `predict_proba`, without Python's help."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("pyarrow")

import tproper as tp  # noqa: E402


def blobs(names=None, n=300, K=3, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(K, size=n)
    X = rng.normal(size=(n, 4)) + 2 * np.eye(K, 4)[z]
    y = np.where(rng.random(n) < 0.2, rng.integers(K, size=n), z)
    return X, y if names is None else np.array(names)[y]


def session(path):
    return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"calibrate": False}, None),
        ({"calibrate": "vector"}, [7, 8, 9]),
        ({"calibrate": "matrix"}, ["ant", "bee", "cat"]),
        ({"loss": "gls"}, None),
        ({"model": "mlp", "epochs": 5, "hidden": (8, 4), "random_state": 0}, ["ant", "bee", "cat"]),
    ],
)
def test_classifiers_of_features(tmp_path, settings, names):
    X, y = blobs(names)
    model = tp.WeakLabelClassifier("symmetric:0.2", **settings).fit(X, y)
    graph = session(tp.export_onnx(model, tmp_path / "m.onnx"))
    p, best = graph.run(["probabilities", "class"], {"features": X})
    np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-5)
    assert list(best) == list(model.predict(X))
    one = graph.run(["probabilities"], {"features": X[:1]})[0]
    np.testing.assert_allclose(one, p[:1], atol=1e-6)


def test_tables_with_gaps_and_categories(tmp_path):
    rng = np.random.default_rng(1)
    X, y = blobs(["ant", "bee", "cat"])
    towns = np.array(["Rome", "Oslo", "Bonn", "Lima", None], dtype=object)[rng.integers(5, size=300)]
    towns[:2] = "rare one", "rare two"
    frame = {"x": np.where(rng.random(300) < 0.1, np.nan, X[:, 0]), "u": X[:, 1], "town": list(towns), "y": y}
    model = tp.TableModel.fit(frame, "symmetric:0.2", label="y", category="town", holdout=0)
    model.save(tmp_path / "m")
    new = frame | {"town": ["nowhere", *frame["town"][1:]]}
    graph = session(tp.export_onnx(tp.load(tmp_path / "m"), tmp_path / "m.onnx"))
    new["u"] = np.where(np.arange(300) < 5, np.nan, X[:, 1])  # no gap in training: the median stands in
    text = np.array([["" if t is None else t] for t in new["town"]])
    p = graph.run(["probabilities"], {"x": new["x"][:, None], "u": new["u"][:, None], "town": text})[0]
    with pytest.warns(tp.UnseenWarning, match="u has no value in 5 of 300 rows"):
        np.testing.assert_allclose(p, model.predict_proba(new), atol=1e-5)


def test_what_no_graph_can_hold_is_refused(tmp_path):
    X, y = blobs()
    refused = tmp_path / "m.onnx"
    with pytest.raises(tp.InputError, match="another link"):
        tp.export_onnx(tp.WeakLabelClassifier("symmetric:0.2", "gls", calibrate=False).fit(X, y), refused)
    frame = {"note": [f"some text about thing {k} here" for k in y], "y": [f"c{k}" for k in y]}
    model = tp.TableModel.fit(frame, "symmetric:0.2", label="y", holdout=0, calibrate="none")
    with pytest.raises(tp.InputError, match="'note', a column of text"):
        tp.export_onnx(model.estimator, refused)
    assert not refused.exists()


def test_the_command(tmp_path):
    from typer.testing import CliRunner

    from tproper.cli.main import app

    X, y = blobs(["a", "b", "c"])
    frame = {"u": X[:, 0], "v": X[:, 1], "y": y}
    tp.TableModel.fit(frame, "symmetric:0.2", label="y", holdout=0, calibrate="none").save(tmp_path / "m")
    call = ["export", str(tmp_path / "m"), "--out", str(tmp_path / "m.onnx")]
    first, again = CliRunner().invoke(app, call), CliRunner().invoke(app, call)
    assert first.exit_code == 0, first.output
    assert again.exit_code == 2
    p = session(tmp_path / "m.onnx").run(["probabilities"], {"u": X[:, :1], "v": X[:, 1:2]})[0]
    np.testing.assert_allclose(p, tp.load(tmp_path / "m").predict_proba(frame), atol=1e-5)
