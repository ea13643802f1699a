"""Saved models: the same probabilities back, and no damaged file goes through."""

from __future__ import annotations

import functools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import tproper as tp
from tproper.learn import saving
from tproper.learn.classifier import WeakLabelClassifier
from tproper.learn.saving import ModelFileError, load, save
from tproper.transitions.parsing import parse_transition

X, Y = load_digits(return_X_y=True)
X = X[:300] / 16
Y = Y[:300]
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
CASES: dict[str, dict[str, Any]] = {
    "clean": {"transition": "identity:10"},
    "complementary": {"transition": "complementary:10", "l2": 1e-2},
    "gls": {"transition": tp.complementary(10), "loss": "gls", "squeeze": (0.5, 1.5), "l2": 1e-2},
    "dense": {"transition": tp.pair_noise(10, 0.2), "loss": "backward", "potential": "brier", "l2": 1e-2},
    "partial": {"transition": tp.partial_labels(10, 0.3), "loss": "backward", "reconstruction": "tightest", "l2": 0.1},
    "ga": {"transition": "symmetric:10,0.2", "loss": "ga", "epochs": 2, "random_state": 3},
    "mlp": {"transition": "symmetric:10,0.2", "model": "mlp", "hidden": (16, 8), "epochs": 2, "random_state": 3},
    "object": {"loss": tp.BackwardLoss(tp.symmetric_noise(10, 0.2), tp.Tsallis(1.5), squeeze=(1.0, 2.0)), "l2": 1e-2},
}


@functools.cache
def fitted(name: str = "complementary") -> WeakLabelClassifier:
    """One fit for all tests, none of which may change it."""
    clf = WeakLabelClassifier(**CASES[name])
    T = clf._transition_or_loss()
    T = parse_transition(T) if isinstance(T, str) else T
    return clf.fit(X, T.sample(Y, 0))


@pytest.mark.parametrize("name", CASES)
def test_round_trip_is_exact(name: str, tmp_path: Path) -> None:
    clf = fitted(name)
    back = load(save(clf, tmp_path / "model", extra={"note": "hello"}))
    np.testing.assert_array_equal(back.predict_proba(X), clf.predict_proba(X))
    np.testing.assert_array_equal(back.classes_, clf.classes_)
    assert back.classes_.dtype == clf.classes_.dtype
    assert back.transition_.name == clf.transition_.name
    assert back.n_iter_ == clf.n_iter_
    assert back.extra_ == {"note": "hello"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model"]  # nothing left beside it
    back.partial_fit(X, clf.transition_.sample(Y, 1))  # and it can go on
    load(save(back, tmp_path / "again"))


def test_names_of_classes_and_features(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)])
    for names in (NAMES, NAMES.astype(object), np.arange(10, 20), np.arange(10) * 2.0):
        clf = WeakLabelClassifier(classes=names, l2=1e-2, calibrate=False).fit(frame, names[Y])
        back = load(save(clf, tmp_path / "model"))  # replaces the older one
        assert back.predict(frame).tolist() == clf.predict(frame).tolist()
        assert back.feature_names_in_.tolist() == frame.columns.tolist()
        with pytest.raises(ValueError, match="feature names"):
            back.predict(frame[frame.columns[::-1]])


def test_chosen_models_are_saved_too(tmp_path: Path) -> None:
    chosen = WeakLabelClassifier(tune={"l2": [1e-2, 1e-1]}).fit(X, Y)
    np.testing.assert_array_equal(load(save(chosen, tmp_path / "m")).predict_proba(X), chosen.predict_proba(X))
    tuned = WeakLabelClassifier(tune={"loss": ["gls"], "squeeze": [(1.0, 2.0)]}).fit(X, Y)
    back = load(save(tuned, tmp_path / "m"))
    np.testing.assert_array_equal(back.predict_proba(X), tuned.predict_proba(X))
    assert back.best_params_["loss"] == "gls"


def edit(path: Path, **changes: Any) -> None:
    """An attacker who also mends the checksum."""
    description = json.loads((path / "model.json").read_text()) | changes
    description["sha256"] = saving._own_hash(description)
    (path / "model.json").write_text(json.dumps(description))


def damage_cases() -> dict[str, Any]:
    def cut(name: str) -> Any:
        return lambda p: (p / name).write_bytes((p / name).read_bytes()[:-20])

    def flip(p: Path) -> None:
        blob = bytearray((p / "model.safetensors").read_bytes())
        blob[-5] ^= 1
        (p / "model.safetensors").write_bytes(bytes(blob))

    def reclass(p: Path) -> None:
        text = (p / "model.json").read_text()
        (p / "model.json").write_text(text.replace('"zero"', '"nine hundred"'))

    def foreign(p: Path) -> None:
        (p / "model.json").write_text('{"weights": [1, 2, 3]}')

    return {
        "cut tensors": (cut("model.safetensors"), "cut or changed after it was saved"),
        "cut description": (cut("model.json"), "not valid JSON"),
        "one bit": (flip, "cut or changed after it was saved"),
        "edited description": (reclass, "edited after it was saved"),
        "foreign description": (foreign, "not the description of a tproper model"),
        "no tensors": (lambda p: (p / "model.safetensors").unlink(), "expected a file model.safetensors"),
        "newer format": (lambda p: edit(p, format_version=99), "format version 99"),
        "wrong loss": (lambda p: edit(p, loss={"kind": "os.system"}), "expected a known kind of loss"),
        "wrong transition": (lambda p: edit(p, transition={"family": "x", "name": "y"}), "expected a known family"),
        "wrong shape": (
            lambda p: edit(p, architecture={"model": "linear", "n_features": 5, "hidden": []}),
            "size mismatch",
        ),
        "missing key": (lambda p: edit(p, architecture={}), "not consistent"),
        "unknown setting": (lambda p: edit(p, settings={"evil": 1}), "not consistent"),
        "object dtype": (lambda p: edit(p, classes={"dtype": "V8", "names": []}), "expected text or numbers"),
    }


@pytest.fixture(scope="module")
def whole_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model with names of classes; to be copied."""
    clf = WeakLabelClassifier(classes=NAMES, l2=1e-2).fit(X, NAMES[Y])
    return save(clf, tmp_path_factory.mktemp("whole") / "model")


@pytest.mark.parametrize("name", damage_cases())
def test_damaged_files_are_refused_with_the_reason(name: str, whole_model: Path, tmp_path: Path) -> None:
    harm, message = damage_cases()[name]
    path = Path(shutil.copytree(whole_model, tmp_path / "model"))
    load(path)
    harm(path)
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_paths_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="got nothing at"):
        load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelFileError, match="got a file at"):
        load(tmp_path / "file")
    with pytest.raises(ModelFileError, match=r"expected a file model\.json"):
        load(tmp_path)
    with pytest.raises(ModelFileError, match="which is neither"):
        save(fitted(), tmp_path)  # a folder with something else in it is not overwritten
    assert (tmp_path / "file").read_text() == "x"


def test_what_is_not_a_models_is_never_replaced(tmp_path: Path) -> None:
    other, own = tmp_path / "other", tmp_path / "own"
    other.mkdir()
    (other / "model.json").write_text('{"format": "layers-model"}')
    with pytest.raises(ModelFileError, match="which is neither"):
        save(fitted(), other)
    save(fitted(), own)
    save(fitted(), own)
    (own / "notes.txt").write_text("mine")
    with pytest.raises(ModelFileError, match=r"which also holds 'notes\.txt': move it away first"):
        save(fitted(), own)
    assert (own / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "backward", "potential": tp.Brier()},
        {"loss": "backward", "potential": tp.Tsallis(1.5), "squeeze": (0.5, 2.0), "calibrate": False},
        {"loss": "backward", "squeeze": (1.0, 2.0), "reconstruction": tp.symmetric_noise(10, 0.2).reconstruction()},
        {"loss": tp.ForwardLoss(tp.symmetric_noise(10, 0.2))},
        {"model": "mlp", "hidden": np.array([3]), "epochs": 2, "random_state": 0},
        {"tune": {"loss": ["forward"], "l2": [1e-4, 1e-1]}},
        {"tune": {"loss": [tp.ForwardLoss(tp.symmetric_noise(10, 0.2))], "l2": [1e-4]}, "calibrate": False},
        {"tune": {"loss": ["backward"], "potential": [tp.Brier()], "l2": [1e-4]}, "calibrate": False},
    ],
    ids=lambda settings: " ".join(settings),
)
def test_a_loaded_model_refits_with_the_same_settings(settings: dict[str, Any], tmp_path: Path) -> None:
    T = tp.symmetric_noise(10, 0.2)
    weak = T.sample(load_digits().target[:300], seed=0)
    data = load_digits().data[:300] / 16
    made = WeakLabelClassifier(T, **settings).fit(data, weak)
    again = load(save(load(save(made, tmp_path / "m")), tmp_path / "m"))
    if "tune" in settings:
        assert again.get_params()["l2"] == made.best_params_["l2"]
    np.testing.assert_allclose(again.fit(data, weak).predict_proba(data), made.predict_proba(data), atol=1e-9)


def test_code_cannot_be_saved(tmp_path: Path) -> None:
    made = WeakLabelClassifier(model=lambda d, k: nn.Linear(d, k), epochs=1).fit(X, Y)
    with pytest.raises(ValueError, match="a callable, which is code and cannot be saved"):
        save(made, tmp_path / "m")
    own = WeakLabelClassifier(loss=nn.CrossEntropyLoss(), epochs=1).fit(X, Y)
    with pytest.raises(ValueError, match="a CrossEntropyLoss is code"):
        save(own, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_failed_write_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clf = fitted()
    path = save(clf, tmp_path / "model")
    real = os.fsync

    def full_disk(fd: int) -> None:
        real(fd)
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="disk full"):
        save(fitted("gls"), path)
    monkeypatch.undo()
    np.testing.assert_array_equal(load(path).predict_proba(X), clf.predict_proba(X))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model"]


@pytest.mark.parametrize("part", ["architecture", "transition"])
def test_sizes_are_compared_before_anything_is_allocated(tmp_path: Path, part: str) -> None:
    """Two kilobytes of JSON that ask for a terabyte are refused in a sentence."""
    rng = np.random.default_rng(0)
    T = tp.partial_labels(3, 0.3)
    y = T.sample(rng.integers(3, size=60), 1)
    model = tp.WeakLabelClassifier(transition=T, model="mlp", hidden=(4,), epochs=1, random_state=0)
    tp.save(model.fit(rng.normal(size=(60, 2)), y), tmp_path / "m")
    huge = {
        "architecture": {"model": "mlp", "n_features": 2, "hidden": [10**6, 10**6]},
        "transition": {"family": "partial", "name": "partial", "num_classes": 10**11, "p": 0.3},
    }[part]
    edit(tmp_path / "m", **{part: huge})
    with pytest.raises(tp.ModelFileError, match=r"size mismatch|classes: expected 100000000000"):
        tp.load(tmp_path / "m")


def test_a_pipeline_is_told_how_it_is_saved(tmp_path: Path) -> None:
    pipeline = make_pipeline(StandardScaler(), tp.WeakLabelClassifier("symmetric:0.2"))
    with pytest.raises(ValueError, match=r"expected a WeakLabelClassifier, got a Pipeline, .* pipeline\[-1\]"):
        tp.save(pipeline, tmp_path / "model")
    search = GridSearchCV(tp.WeakLabelClassifier("symmetric:0.2"), {"l2": [0.1]}, cv=2).fit(np.eye(8), [0, 1] * 4)
    with pytest.raises(ValueError, match="expected a WeakLabelClassifier, got GridSearchCV; save its best_estimator_"):
        tp.save(search, tmp_path / "model")


def rewritten(model: Path, change: Any) -> None:
    """A description that was changed, with the checksum that fits it."""
    description = json.loads((model / "model.json").read_text())
    change(description)
    description["sha256"] = saving._own_hash(description)
    (model / "model.json").write_text(json.dumps(description))


def test_the_width_of_names_is_their_own(tmp_path: Path) -> None:
    """A file of 5 kB that says "<U500000000" asks for 2 GB a class."""
    resource = pytest.importorskip("resource")
    folder = save(WeakLabelClassifier(classes=NAMES, l2=1.0, calibrate=False).fit(X, NAMES[Y]), tmp_path / "model")
    rewritten(folder, lambda d: d["classes"].update(dtype="<U500000000"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    back = load(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
    assert back.classes_.dtype == np.array(sorted(NAMES)).dtype
    assert back.classes_.nbytes < 1000


@pytest.mark.parametrize("names", [["one"] * 10, [*map(str, range(9)), 3.5], "0123456789", [[0]] * 10, [1] * 10])
def test_names_that_cannot_be_told_apart_are_refused(names: Any, tmp_path: Path) -> None:
    folder = save(fitted(), tmp_path / "model")
    rewritten(folder, lambda d: d["classes"].update(names=names, dtype="object"))
    if names == [*map(str, range(9)), 3.5]:
        load(folder)  # of two kinds, and different
        return
    with pytest.raises(ModelFileError, match="classes"):
        load(folder)


def test_a_model_that_is_replaced_while_it_is_read_is_one_of_the_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Description and tensors are two files: between the one and the other a newer model comes."""
    older, newer = fitted("complementary"), fitted("gls")
    folder = save(older, tmp_path / "model")
    real, replaced = Path.read_bytes, []

    def read_bytes(path: Path) -> bytes:
        content = real(path)
        if path == folder / "model.json" and not replaced:
            replaced.append(path)
            save(newer, folder)
        return content

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    np.testing.assert_array_equal(load(folder).predict_proba(X), newer.predict_proba(X))
    assert replaced
