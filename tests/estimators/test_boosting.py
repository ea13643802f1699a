"""Boosted trees on the losses of the library: the solver, the classifier, its files."""

from __future__ import annotations

import functools
import sys
import warnings
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.base import clone

import tproper as tp
from tproper.learn import saving
from tproper.learn.classifier import WeakLabelClassifier
from tproper.solvers import RunningScale, boosting, calibrated_risks, forward_risk

QUICK: dict[str, Any] = {"model": "boosting", "max_iter": 8, "early_stopping": False, "calibrate": False}
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (600, 4))
Z = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)  # three classes
POSITIVE = (X[:, 0] > 0).astype(int)
TWO = X[:, :2]
PRODUCT = (X[:, 0] * X[:, 1] > 0).astype(int)


def log_loss(p: NDArray[Any], z: NDArray[Any]) -> float:
    return -float(np.log(p[np.arange(len(z)), z]).mean())


def grown(loss: Any, labels: Any, classes: int, weights: Any = None, **settings: Any) -> boosting.Solution:
    plan = {"rounds": 12, "learning_rate": 0.1, "l2": 0.0, "leaves": 8, "fewest_rows": 20, "patience": None}
    problem = boosting.Problem(X, torch.as_tensor(labels), loss, classes, weights)
    return boosting.solve(problem, boosting.Settings(**plan | settings))


@pytest.mark.parametrize("classes", [2, 3])
def test_clean_labels_give_the_trees_of_lightgbm_itself(classes: int) -> None:
    z = np.repeat(np.arange(classes), 600 // classes)  # balanced, so that both begin at zero
    x = X.copy()
    x[:, 0] += 0.6 * z
    problem = boosting.Problem(x, torch.as_tensor(z), tp.ForwardLoss(tp.identity(classes)), classes)
    plan = boosting.Settings(12, 0.1, 0.0, 8, 20, None)
    ours = boosting.solve(problem, plan).trees.scores(x)
    objective = {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": 3}
    params = boosting._params(problem, plan) | objective | {"boost_from_average": False}
    if classes == 2:
        params.pop("num_class")
    theirs = lightgbm.train(params, lightgbm.Dataset(x, z), 12).predict(x, raw_score=True)
    np.testing.assert_allclose(ours, boosting.spread(np.reshape(theirs, (600, -1)), classes), atol=1e-5)


LOSSES = {
    "forward": tp.ForwardLoss(tp.complementary(3)),
    "forward, skewed": tp.ForwardLoss(tp.Transition([[0.7, 0.1, 0.0], [0.2, 0.3, 0.9], [0.1, 0.6, 0.1]])),
    "sets": tp.ForwardLoss(tp.partial_labels(3, 0.4)),
    "answers": tp.ForwardLoss(tp.annotators([tp.symmetric_noise(3, 0.3), tp.pair_noise(3, 0.2)])),
    "backward": tp.BackwardLoss(tp.symmetric_noise(3, 0.3)),
    "brier": tp.BackwardLoss(tp.symmetric_noise(3, 0.3), tp.Brier()),
    "gls": tp.BackwardLoss(tp.symmetric_noise(3, 0.3), squeeze=(1.0, 2.0)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_curvature_bounds_that_of_the_loss(name: str) -> None:
    loss = LOSSES[name]
    rng = np.random.default_rng(1)
    V = rng.normal(0, 2, (40, 3))
    bound = boosting.curvature(loss)(V)
    for row, v in enumerate(torch.as_tensor(V)):
        y = loss.transition.encode(loss.transition.sample(np.array([row % 3]), row))

        def of(v: torch.Tensor, y: Any = y) -> torch.Tensor:
            return loss.per_example(v[None], y)[0]

        second = torch.autograd.functional.hessian(of, v).diagonal().numpy()
        assert (second <= bound[row] + 1e-9).all(), (second, bound[row])


@pytest.mark.parametrize("name", LOSSES)
def test_every_round_lowers_the_risk(name: str) -> None:
    loss = LOSSES[name]
    y = loss.transition.encode(loss.transition.sample(Z, 0))
    text = grown(loss, y, 3).trees.text
    risks = []
    for rounds in (1, 2, 4, 8, 12):
        trees = lightgbm.Booster(model_str=text).model_to_string(num_iteration=rounds)
        risks.append(float(loss(torch.as_tensor(boosting.Trees(trees, 3).scores(X)), y)))
    assert (np.diff(risks) < 0).all(), risks


def test_the_start_is_the_shares_of_the_classes() -> None:
    T = tp.symmetric_noise(3, 0.3)
    z = np.repeat([0, 1, 2], [400, 150, 50])
    y = T.encode(T.sample(z, 0))
    # no leaf can be split: the trees are the start alone
    p = torch.softmax(torch.as_tensor(grown(tp.ForwardLoss(T), y, 3, fewest_rows=500).trees.scores(X[:1])), -1)[0]
    shares = tp.weak_prevalence(y.numpy(), T).value
    np.testing.assert_allclose(p, shares, atol=0.03)


def test_weights() -> None:
    T = tp.symmetric_noise(3, 0.3)
    y, w = T.sample(Z, 0), np.where(np.arange(600) % 3 == 0, 0.0, 1.0)
    clf = WeakLabelClassifier(T, **QUICK).fit(X, y, w)
    alone = WeakLabelClassifier(T, **QUICK).fit(X[w > 0], y[w > 0])
    np.testing.assert_array_equal(clf.predict_proba(X), alone.predict_proba(X))
    uneven = np.random.default_rng(0).uniform(0.2, 2, 600)
    one, other = (WeakLabelClassifier(T, **QUICK).fit(X, y, s * uneven).predict_proba(X) for s in (0.1, 0.4))
    np.testing.assert_allclose(one, other, atol=1e-6)
    assert np.abs(one - WeakLabelClassifier(T, **QUICK).fit(X, y).predict_proba(X)).max() > 0.01


def test_the_running_scale_finds_the_best_temperature() -> None:
    T = tp.symmetric_noise(3, 0.3)
    y = torch.as_tensor(T.sample(Z, 0))
    rng = np.random.default_rng(0)
    signal = np.eye(3)[Z] + 0.3 * rng.normal(size=(600, 3))
    running = RunningScale(forward_risk(T, y, np.full(600, 1 / 600)))
    for size in (0.1, 0.5, 1.0, 2.0, 4.0, 5.0):
        rows, _ = calibrated_risks(size * signal, y, T)
        assert running(size * signal) == pytest.approx(rows.mean(), abs=2e-4)


@functools.cache
def of_product() -> WeakLabelClassifier:
    T = tp.symmetric_noise(2, 0.3)
    return WeakLabelClassifier(T, model="boosting").fit(TWO, T.sample(PRODUCT, 0))


def test_a_product_of_features_is_learned() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = of_product()
    fresh = np.random.default_rng(1).uniform(-1, 1, (2000, 2))
    z = (fresh[:, 0] * fresh[:, 1] > 0).astype(int)
    p = clf.predict_proba(fresh)
    np.testing.assert_allclose(p.sum(1), 1)
    assert log_loss(p, z) < 0.4  # 0.69 by a linear model
    assert len(clf.history_) > clf.n_iter_ > 5
    assert clf.calibrator_ is not None
    assert clf.calibrator_.reliability
    assert clf.certificate_.proper
    assert clf.n_features_in_ == 2
    with pytest.raises(AttributeError, match="model='linear' only"):
        _ = clf.coef_


def test_the_same_fit_gives_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    T = tp.symmetric_noise(2, 0.3)
    y, clf = T.sample(PRODUCT, 0), of_product()
    again = clone(clf).fit(scipy.sparse.csr_matrix(TWO), y)
    np.testing.assert_array_equal(again.predict_proba(scipy.sparse.csr_matrix(TWO)), clf.predict_proba(TWO))
    few = {**QUICK, "max_iter": 2}
    one = WeakLabelClassifier(T, **few).fit(X, y).predict_proba(X)
    monkeypatch.setattr(boosting, "threads", lambda X: 2)
    np.testing.assert_array_equal(WeakLabelClassifier(T, **few).fit(X, y).predict_proba(X), one)


def weak_labels() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Transition, labels, other arguments of `fit`."""
    out: dict[str, tuple[Any, Any, dict[str, Any]]] = {}
    for T in (tp.complementary(3), tp.partial_labels(3, 0.3), tp.multi_complementary(3, 2), tp.pair_noise(3, 0.2)):
        out[T.name] = T, T.sample(Z, 0), {}
    crowd = tp.annotators([tp.symmetric_noise(3, 0.2)] * 3)
    answers = np.where(np.random.default_rng(0).random((600, 3)) < 0.3, -1, crowd.sample(Z, 0))
    out["annotators"] = crowd, answers, {}
    out["estimate"] = "estimate", answers, {"groups": np.arange(600) // 3}
    noisy = tp.symmetric_noise(3, 0.3).sample(Z, 0)
    out["true"] = tp.symmetric_noise(3, 0.3), noisy, {"true": np.where(np.arange(600) < 100, Z, -1)}
    out["soft"] = tp.symmetric_noise(3, 0.3), tp.SoftLabels(0.8 * np.eye(3)[noisy] + 0.2 / 3), {}
    pu = tp.positive_unlabeled(0.5)
    out["pu"] = pu, pu.sample(1 - POSITIVE, 0), {}
    out["clean names"] = None, np.array(["a", "b", "c"])[Z], {}
    return out


@pytest.mark.parametrize("name", weak_labels())
def test_every_kind_of_weak_label(name: str) -> None:
    T, y, more = weak_labels()[name]
    z = POSITIVE if name == "pu" else Z
    clf = WeakLabelClassifier(T, model="boosting", max_iter=25, max_leaves=4, classes=None).fit(X, y, **more)
    p = clf.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    shares = np.bincount(z) / len(z)
    assert log_loss(p, z) < -float(shares @ np.log(shares)) - 0.05


@pytest.mark.parametrize("loss", ["backward", "gls", "ga", "nonnegative"])
@pytest.mark.parametrize("potential", ["logsumexp", "brier", "sparsemax"])
def test_every_loss(loss: str, potential: str) -> None:
    if loss in ("ga", "nonnegative") and potential != "logsumexp":
        pytest.skip("these have none")
    T = tp.symmetric_noise(3, 0.3)
    settings = {"loss": loss} | ({} if loss in ("ga", "nonnegative") else {"potential": potential})
    clf = WeakLabelClassifier(T, model="boosting", max_iter=40, max_leaves=4, **settings).fit(X, T.sample(Z, 0))
    assert log_loss(clf.predict_proba(X), Z) < 0.8  # the shares: 1.05
    assert (clf.predict(X) == Z).mean() > 0.8


def test_rounds() -> None:
    T = tp.symmetric_noise(3, 0.3)
    y = T.sample(Z, 0)
    assert WeakLabelClassifier(T, **QUICK).fit(X, y).n_iter_ == 8
    noise = np.random.default_rng(0).normal(size=X.shape)  # features that say nothing
    clf = WeakLabelClassifier(T, model="boosting").fit(noise, y)
    assert clf.n_iter_ < 30
    p = clf.predict_proba(np.random.default_rng(1).normal(size=X.shape))
    shares = np.bincount(Z) / 600
    assert log_loss(p, Z) < -float(shares @ np.log(shares)) + 0.02


def test_search() -> None:
    T = tp.symmetric_noise(2, 0.3)
    grid = {"max_leaves": [2, 8]}  # a stump knows no products
    clf = WeakLabelClassifier(T, **QUICK | {"max_iter": 20}, tune=grid).fit(TWO, T.sample(PRODUCT, 0))
    assert clf.best_params_ == {"max_leaves": 8}


def test_few_rows() -> None:
    T = tp.symmetric_noise(3, 0.3)
    for n in (3, 8, 40):
        clf = WeakLabelClassifier(T, model="boosting").fit(X[:n], T.sample(Z[:n], 0))
        assert np.isfinite(clf.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_leaves": 1}, "max_leaves: expected an integer >= 2"),
        ({"warm_start": True}, "warm_start: expected False with model='boosting'"),
        ({"device": "cuda"}, "device: expected 'auto' or 'cpu' for boosted trees"),
    ],
)
def test_refusals(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(tp.InputError, match=message):
        WeakLabelClassifier(**QUICK | settings).fit(X, Z)
    assert not hasattr(WeakLabelClassifier(model="boosting"), "partial_fit")


def test_without_lightgbm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tp.save(of_product(), tmp_path / "m")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    for call in (lambda: WeakLabelClassifier(**QUICK).fit(X, Z), lambda: tp.load(tmp_path / "m")):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'tproper\[boosting\]'"):
            call()


# Files.


def test_saved_trees_are_lightgbm_text(tmp_path: Path) -> None:
    clf = of_product()
    folder = tp.save(clf, tmp_path / "m")
    assert {p.name for p in folder.iterdir()} == {"model.json", "model.safetensors", "model.lightgbm.txt"}
    back = tp.load(folder)
    np.testing.assert_array_equal(back.predict_proba(TWO), clf.predict_proba(TWO))
    assert back.n_iter_ == clf.n_iter_
    raw = lightgbm.Booster(model_file=folder / "model.lightgbm.txt").predict(TWO, raw_score=True)
    np.testing.assert_array_equal(raw, clf.module_.scores(TWO) @ [-1, 1])  # whole: the start is in it
    tp.save(WeakLabelClassifier(l2=1e-2, calibrate=False).fit(X, Z), folder)  # another kind of model takes its place
    assert {p.name for p in folder.iterdir()} == {"model.json", "model.safetensors"}


def test_changed_trees_are_refused(tmp_path: Path) -> None:
    folder = tp.save(of_product(), tmp_path / "m")
    file = folder / "model.lightgbm.txt"
    content = file.read_bytes()
    for changed in (content[:-40], content.replace(b"leaf_value=", b"leaf_value=9", 1), b""):
        file.write_bytes(changed)
        with pytest.raises(saving.ModelFileError, match=r"model\.lightgbm\.txt.*cut or changed"):
            tp.load(folder)
    file.unlink()
    with pytest.raises(saving.ModelFileError, match=r"model\.lightgbm\.txt"):
        tp.load(folder)


def test_the_running_scale_begins_anywhere_and_asks_little_of_scores_that_hardly_change() -> None:
    T = tp.symmetric_noise(3, 0.3)
    y = torch.as_tensor(T.sample(Z, 0))
    rng = np.random.default_rng(0)
    signal = np.eye(3)[Z] + 0.3 * rng.normal(size=(600, 3))
    risk, calls = forward_risk(T, y, np.full(600, 1 / 600)), []
    running = RunningScale(lambda V: calls.append(1) or risk(V))
    rows, _ = calibrated_risks(signal, y, T)
    for size in (1e-3, 1.0, 1e3):  # scores in any unit
        assert RunningScale(risk)(size * signal) == pytest.approx(rows.mean(), abs=1e-5)
    for step in range(40):
        running((1 + 0.01 * step) * signal)
    assert len(calls) < 80
    sure = np.where(np.eye(3)[y.numpy()] > 0, 1.0, -1.0)  # no scale is the best one: the larger, the better
    del calls[:]
    for _ in range(5):
        running(sure)
    assert len(calls) < 30
