"""A model that `tproper train` made answers in Python, from rows as they stand in a table, as the command does."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcomes import good
from sklearn.datasets import load_wine

import tproper as tp
from tproper.learn import saving

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """Thirteen features in very different units, a noisy label, and a model in `model`."""
    folder = tmp_path_factory.mktemp("wine")
    data = load_wine(as_frame=True)
    frame = data.data.copy()
    names = np.array(["Barbera", "Barolo", "Grignolino"])
    frame["label"] = names[tp.symmetric_noise(3, 0.2).sample(data.target.to_numpy(), 1)]
    frame["kind"] = names[data.target]
    frame.to_csv(folder / "wine.csv", index=False)
    good(run, "train", folder / "wine.csv", "--label", "label", "--transition", "symmetric:0.2", "--ignore", "kind",
         "--out", folder / "model")  # fmt: skip
    good(run, "predict", folder / "model", folder / "wine.csv", "--out", folder / "p.csv")
    return folder


def predicted(wine: Path) -> tuple[list[str], np.ndarray]:
    with open(wine / "p.csv") as file:
        rows = list(csv.DictReader(file))
    columns = [n for n in rows[0] if n.startswith("p_")]
    return [r["predicted"] for r in rows], np.array([[float(r[n]) for n in columns] for r in rows])


def test_a_frame_in_any_order_of_columns_is_answered_as_by_the_command(wine: Path) -> None:
    model, frame = tp.load(wine / "model"), pd.read_csv(wine / "wine.csv")
    names, p = predicted(wine)
    assert np.mean(np.array(names) == frame["kind"]) > 0.95
    shuffled = frame[np.random.default_rng(0).permutation(frame.columns)]
    features = [n for n in frame.columns if n not in ("label", "kind")]
    others: list[Any] = [frame, shuffled, frame[features], frame.to_dict("list"), frame.convert_dtypes()]
    for rows in others:
        np.testing.assert_array_equal(model.predict_proba(rows), p)
        assert model.predict(rows).tolist() == names
    import pyarrow as pa

    np.testing.assert_array_equal(model.predict_proba(pa.Table.from_pandas(shuffled)), p)
    np.testing.assert_array_equal(model.predict_proba(pa.Table.from_pandas(shuffled).to_batches()[0]), p)
    assert model.feature_names_in_.tolist() == features
    assert model.n_features_in_ == len(features)


def test_polars_frames_are_answered_too(wine: Path) -> None:
    pl = pytest.importorskip("polars")
    p = tp.load(wine / "model").predict_proba(pl.read_csv(wine / "wine.csv"))
    np.testing.assert_array_equal(p, predicted(wine)[1])


def test_an_array_without_names_holds_the_features_in_the_saved_order(wine: Path) -> None:
    model, frame = tp.load(wine / "model"), pd.read_csv(wine / "wine.csv")
    X = frame[list(model.feature_names_in_)].to_numpy()
    for rows in (X, X.tolist(), X.astype(object)):
        np.testing.assert_array_equal(model.predict_proba(rows), predicted(wine)[1])
    with pytest.raises(tp.InputError) as error:
        model.predict_proba(X[:, :-1])
    assert error.value.argument == "X"


def test_what_is_not_in_a_frame_is_named(wine: Path) -> None:
    model, frame = tp.load(wine / "model"), pd.read_csv(wine / "wine.csv")
    with pytest.raises(tp.InputError, match="hue") as error:
        model.predict_proba(frame.drop(columns="hue"))
    assert error.value.argument == "X"
    with pytest.raises(tp.InputError, match="more than once"):
        model.predict_proba(pd.concat([frame, frame[["hue"]]], axis=1))
    for value, row in (("none", 3), (np.inf, 5)):
        spoiled = frame.astype({"hue": object})
        spoiled.loc[row, "hue"] = value
        with pytest.raises(tp.InputError, match=f"row {row + 1}") as error:
            model.predict_proba(spoiled)
        assert (error.value.column, error.value.row) == ("hue", row)
    gap = frame.copy()
    gap.loc[0, "hue"] = np.nan
    filled = frame.copy()
    filled.loc[0, "hue"] = frame["hue"].median()
    with pytest.warns(tp.UnseenWarning, match="hue"):
        p = model.predict_proba(gap)
    np.testing.assert_allclose(p, model.predict_proba(filled), rtol=1e-12)


def test_saved_again_it_answers_the_same(wine: Path, tmp_path: Path, run: Run) -> None:
    model, frame = tp.load(wine / "model"), pd.read_csv(wine / "wine.csv")
    tp.save(model, tmp_path / "again", extra=model.extra_)
    np.testing.assert_array_equal(tp.load(tmp_path / "again").predict_proba(frame), predicted(wine)[1])
    good(run, "predict", tmp_path / "again", wine / "wine.csv", "--out", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_bytes() == (wine / "p.csv").read_bytes()
    fresh = model.fit(frame[list(model.feature_names_in_)], frame["label"])  # given features again
    assert fresh.inputs_ is None


def test_a_model_of_an_older_version_loads_and_answers_the_same(wine: Path, tmp_path: Path, run: Run) -> None:
    """It kept the scale among the facts of its table, for readers to apply by hand."""
    shutil.copytree(wine / "model", tmp_path / "old")
    file = tmp_path / "old" / saving.DESCRIPTION
    description = json.loads(file.read_text())
    inputs = description.pop("inputs")
    description |= {"format_version": 1, "feature_names": None}
    description["extra"]["table"] |= {name: inputs[name] for name in ("centre", "scale")}
    file.write_text(json.dumps(description | {"sha256": saving._own_hash(description)}))
    model, frame = tp.load(tmp_path / "old"), pd.read_csv(wine / "wine.csv")
    np.testing.assert_array_equal(model.predict_proba(frame), predicted(wine)[1])
    table = model.extra_["table"]
    by_hand = (frame[table["features"]].to_numpy() - table["centre"]) / table["scale"]  # as its card says
    np.testing.assert_array_equal(model.predict_proba(by_hand), predicted(wine)[1])
    good(run, "predict", tmp_path / "old", wine / "wine.csv", "--out", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_bytes() == (wine / "p.csv").read_bytes()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("columns", 3),
        ("columns", ["hue", "hue"]),
        ("centre", [0.0]),
        ("centre", [10**400] * 13),
        ("scale", [0.0] * 13),
        ("scale", {"a": 1}),
    ],
    ids=["no list", "twice", "one", "infinite", "zero", "object"],
)
def test_damaged_inputs_are_refused(wine: Path, tmp_path: Path, field: str, value: Any) -> None:
    shutil.copytree(wine / "model", tmp_path / "m")
    file = tmp_path / "m" / saving.DESCRIPTION
    description = json.loads(file.read_text())
    description["inputs"][field] = value
    file.write_text(json.dumps(description | {"sha256": saving._own_hash(description)}))
    with pytest.raises(tp.ModelFileError, match="inputs"):
        tp.load(tmp_path / "m")
