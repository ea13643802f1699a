"""WeakLabelClassifier: it learns, it is honest, and it lives with the rest of scikit-learn."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import tproper as tp
from tproper.learn.classifier import WeakLabelClassifier

X, Y = load_digits(return_X_y=True)
X = X / 16
TRAIN, TEST = slice(0, 1200), slice(1200, None)
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


def accuracy(clf: Any) -> float:
    index = {name: z for z, name in enumerate(clf.classes_.tolist())}
    return float((np.array([index[p] for p in clf.predict(X[TEST])]) == Y[TEST]).mean())


@pytest.mark.parametrize(
    ("transition", "least"),
    [
        (tp.identity(10), 0.90),
        (tp.complementary(10), 0.80),
        (tp.symmetric_noise(10, 0.2), 0.85),
        (tp.pair_noise(10, 0.2), 0.85),
        (tp.partial_labels(10, 0.3), 0.88),
        (tp.multi_complementary(10, 3), 0.85),
        (tp.multi_source([tp.complementary(10), tp.symmetric_noise(10, 0.3)]), 0.80),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_learns_from_weak_labels(transition: tp.Transition, least: float) -> None:
    clf = WeakLabelClassifier(transition, l2=1e-3).fit(X[TRAIN], transition.sample(Y[TRAIN], 0))
    assert accuracy(clf) > least
    p = clf.predict_proba(X[TEST])
    assert p.shape == (597, 10)
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_positive_unlabeled() -> None:
    T = tp.positive_unlabeled(0.5)
    y = Y % 2
    labeled = T.sample(y[TRAIN], 0) == 0
    clf = WeakLabelClassifier("pu:0.5", classes=["even", "odd"], l2=1e-3).fit(X[TRAIN], labeled)
    assert (clf.predict(X[TEST]) == np.array(["even", "odd"])[y[TEST]]).mean() > 0.82


def test_names_candidate_lists_and_classes() -> None:
    T = tp.partial_labels(10, 0.3)
    masks = T.sample(Y[TRAIN], 0)
    settings: dict[str, Any] = {"l2": 1e-3, "calibrate": False}
    a = WeakLabelClassifier("partial:0.3", **settings).fit(X[TRAIN], masks)
    b = WeakLabelClassifier("partial:0.3", **settings).fit(X[TRAIN], [NAMES[m].tolist() for m in masks])
    c = WeakLabelClassifier("partial:0.3", **settings, classes=NAMES).fit(X[TRAIN], [set(NAMES[m]) for m in masks])
    assert sorted(NAMES) == b.classes_.tolist()
    assert c.classes_.tolist() == sorted(NAMES)
    by_name = [c.classes_.tolist().index(name) for name in NAMES]
    np.testing.assert_allclose(
        a.predict_proba(X[TEST]), c.predict_proba(X[TEST])[:, by_name], atol=1e-3
    )  # the order of classes
    np.testing.assert_array_equal(b.predict_proba(X[TEST]), c.predict_proba(X[TEST]))


@pytest.mark.parametrize("loss", ["backward", "gls", "ga", "nonnegative"])
def test_every_loss_by_name(loss: str) -> None:
    T = tp.symmetric_noise(10, 0.2)
    clf = WeakLabelClassifier(T, loss, l2=1e-2, epochs=30, calibrate=False, random_state=0)
    clf.fit(X[TRAIN], T.sample(Y[TRAIN], 0))
    assert accuracy(clf) > 0.8
    assert clf.certificate_.lower_bounded == (loss != "backward")
    assert clf.certificate_ is clf.certificate_


def test_probabilities_are_the_losses_own_link() -> None:
    T = tp.complementary(10)
    clf = WeakLabelClassifier(T, "gls", l2=1e-2, calibrate=False).fit(X[TRAIN], T.sample(Y[TRAIN], 0))
    assert clf.calibrator_ is None
    scores = torch.as_tensor(clf.decision_function(X[TEST]))
    own = tp.LogSumExp().squeezed(1.0, 2.0).probabilities(scores)
    np.testing.assert_allclose(clf.predict_proba(X[TEST]), own, atol=1e-12)
    assert np.abs(clf.predict_proba(X[TEST]) - torch.softmax(scores, -1).numpy()).max() > 0.1
    assert (clf.predict(X[TEST]) == clf.classes_[clf.predict_proba(X[TEST]).argmax(axis=1)]).mean() > 0.99


def test_score_is_unbiased_for_clean_accuracy() -> None:
    T = tp.complementary(10)
    clf = WeakLabelClassifier(T, l2=1e-3).fit(X[TRAIN], T.sample(Y[TRAIN], 0))
    clean = accuracy(clf)
    estimates = [clf.score(X[TEST], T.sample(Y[TEST], seed)) for seed in range(200)]
    z = (np.mean(estimates) - clean) / (np.std(estimates) / np.sqrt(len(estimates)))
    assert abs(z) < 4
    plain = WeakLabelClassifier().fit(X[TRAIN], Y[TRAIN])
    assert plain.score(X[TEST], Y[TEST]) == pytest.approx((plain.predict(X[TEST]) == Y[TEST]).mean())


def test_weak_log_likelihood_is_the_forward_loss() -> None:
    T = tp.symmetric_noise(10, 0.2)
    weak = T.sample(Y, 0)
    clf = WeakLabelClassifier(T, calibrate=False).fit(X[TRAIN], weak[TRAIN])
    p = clf.predict_proba(X[TEST])
    np.testing.assert_allclose(
        clf.weak_log_likelihood(X[TEST], weak[TEST]), np.log((p @ T.matrix().T)[np.arange(597), weak[TEST]])
    )


def test_mlp_early_stopping_keeps_the_best_epoch() -> None:
    T = tp.symmetric_noise(10, 0.3)
    clf = WeakLabelClassifier(T, model="mlp", hidden=(64,), epochs=40, patience=4, learning_rate=1e-2, random_state=0)
    clf.fit(X[TRAIN], T.sample(Y[TRAIN], 0))
    risks = [h["weak_risk"] for h in clf.history_]
    assert accuracy(clf) > 0.85
    assert len(risks) == clf.n_iter_ < 40  # stopped
    held = clone(clf).set_params(early_stopping=False, epochs=clf.n_iter_).fit(X[TRAIN], T.sample(Y[TRAIN], 0))
    assert "weak_risk" not in held.history_[-1]


@pytest.mark.parametrize("no", [None, False, np.False_, 0])
def test_false_in_every_spelling(no: Any) -> None:
    assert not hasattr(WeakLabelClassifier(tune=no, calibrate=False).fit(X[:100], Y[:100]), "best_params_")
    stop = False if no is None else no
    going_on = WeakLabelClassifier(model="mlp", early_stopping=stop, epochs=2, random_state=0).fit(X[:600], Y[:600])
    assert "weak_risk" not in going_on.history_[0]


@pytest.mark.parametrize("yes", [True, np.True_, 1])
def test_true_in_every_spelling(yes: Any) -> None:
    stopping = WeakLabelClassifier(early_stopping=yes, epochs=2, random_state=0).fit(X[:100], Y[:100])
    assert "weak_risk" in stopping.history_[0]


def test_tune_may_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tproper.learn.search.default_grid", lambda model: [{"l2": [1e-3]}])
    for yes in (True, np.True_, 1):
        tuned = WeakLabelClassifier(tune=yes, calibrate=False).fit(X[:100], Y[:100])
        assert tuned.best_params_ == {"l2": 1e-3}


def test_same_seed_same_model_and_global_random_numbers_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"model": "mlp", "hidden": (8,), "epochs": 3, "random_state": 7}
    before = torch.get_rng_state()
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("seeds devices that it does not use"))
    WeakLabelClassifier(model=torch.nn.Linear, epochs=1, device="cpu", random_state=0).fit(X[:30], Y[:30])
    a, b = (WeakLabelClassifier(**settings).fit(X[:300], Y[:300]).predict_proba(X[TEST]) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(a, b)
    c = WeakLabelClassifier(**(settings | {"random_state": 8})).fit(X[:300], Y[:300]).predict_proba(X[TEST])
    assert not np.array_equal(a, c)


def test_callable_models_and_loss_objects() -> None:
    T = tp.symmetric_noise(10, 0.2)
    weak = T.sample(Y[TRAIN], 0)

    def network(d: int, k: int) -> nn.Module:
        return nn.Sequential(nn.Linear(d, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, k))

    clf = WeakLabelClassifier(T, model=network, epochs=20, learning_rate=1e-2, random_state=0).fit(X[TRAIN], weak)
    assert accuracy(clf) > 0.85
    ways: list[dict[str, Any]] = [
        {"loss": tp.BackwardLoss(T, tp.Brier())},
        {"transition": T, "loss": lambda t: tp.BackwardLoss(t, tp.Brier())},
        {"transition": T, "loss": "backward", "potential": "brier"},
    ]
    by_object, by_factory, by_name = (WeakLabelClassifier(**way, calibrate=False).fit(X[TRAIN], weak) for way in ways)
    np.testing.assert_array_equal(by_object.coef_, by_factory.coef_)
    np.testing.assert_array_equal(by_object.coef_, by_name.coef_)
    own = WeakLabelClassifier(loss=nn.CrossEntropyLoss(), epochs=20, learning_rate=1e-2).fit(X[TRAIN], Y[TRAIN])
    assert accuracy(own) > 0.85
    with pytest.raises(AttributeError, match="only tproper's losses certify"):
        _ = own.certificate_
    with pytest.raises(ValueError, match="model: expected scores of shape"):
        WeakLabelClassifier(model=lambda d, k: nn.Linear(d, k + 1)).fit(X[:50], Y[:50])


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_partial_fit_goes_on_learning(model: str) -> None:
    T = tp.complementary(10)
    weak = T.sample(Y, 0)
    clf = WeakLabelClassifier("complementary:10", model=model, l2=1e-5, learning_rate=1e-2, random_state=0)
    for _ in range(12):
        for start in range(0, 1200, 300):
            clf.partial_fit(X[start : start + 300], weak[start : start + 300])
    assert accuracy(clf) > 0.7
    assert clf.n_iter_ == 48
    first = WeakLabelClassifier(random_state=0)
    with pytest.raises(ValueError, match="classes: expected all class names on the first call"):
        first.partial_fit(X[:50], Y[:50])
    first.partial_fit(X[:5], Y[:5], classes=range(10))
    assert first.predict_proba(X[:3]).shape == (3, 10)
    with pytest.raises(ValueError, match="classes: expected those of the first call"):
        first.partial_fit(X[:5], Y[:5], classes=range(9))


def test_a_fit_forgets_the_calls_of_partial_fit_before_it() -> None:
    one, other = (WeakLabelClassifier(model="mlp", epochs=1, calibrate=False, random_state=0) for _ in range(2))
    other.partial_fit(X[:100], Y[:100], classes=range(10))
    for clf in (one, other):
        clf.fit(X[:100], Y[:100]).partial_fit(X[:100], Y[:100])
    np.testing.assert_array_equal(one.predict_proba(X[TEST]), other.predict_proba(X[TEST]))


def test_lives_with_scikit_learn() -> None:
    weak = NAMES[tp.complementary(10).sample(Y, 0)]
    clf = WeakLabelClassifier("complementary", l2=1e-3)
    pipe = make_pipeline(StandardScaler(), clone(clf).set_params(calibrate=False))
    search = GridSearchCV(pipe, {"weaklabelclassifier__l2": [1e-3, 1e-1]}, cv=2).fit(X[:600], weak[:600])
    assert search.best_params_["weaklabelclassifier__l2"] in (1e-3, 1e-1)
    clf.fit(X[TRAIN], weak[TRAIN])
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict_proba(X[TEST]), clf.predict_proba(X[TEST]))
    assert clone(clf).get_params()["transition"] == "complementary"
    assert not hasattr(clone(clf), "module_")
    assert not hasattr(clone(clf), "certificate_")


def test_data_frames() -> None:
    frame = pd.DataFrame(X[TRAIN], columns=[f"p{i}" for i in range(64)])
    clf = WeakLabelClassifier(l2=1e-2, calibrate=False).fit(frame, pd.Series(NAMES[Y[TRAIN]]))
    assert clf.feature_names_in_.tolist() == frame.columns.tolist()
    plain = WeakLabelClassifier(l2=1e-2, calibrate=False).fit(X[TRAIN], Y[TRAIN]).predict_proba(X[TRAIN])
    np.testing.assert_allclose(clf.predict_proba(frame), plain[:, np.argsort(NAMES)], atol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[frame.columns[::-1]])


def test_a_network_takes_a_frame_that_lends_its_memory() -> None:
    frame = pd.DataFrame(X[TRAIN][:200].astype(np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = WeakLabelClassifier(model="mlp", epochs=1, calibrate=False).fit(frame, Y[TRAIN][:200])
        clf.predict_proba(frame)


def test_polars() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({f"p{i}": X[TRAIN][:, i] for i in range(64)})
    clf = WeakLabelClassifier(l2=1e-2).fit(frame, pl.Series(NAMES[Y[TRAIN]].tolist()))
    assert clf.feature_names_in_.tolist() == frame.columns
    assert (clf.predict(frame) == NAMES[Y[TRAIN]]).mean() > 0.9
    lists = pl.Series([[NAMES[z]] for z in Y[TRAIN]])
    assert WeakLabelClassifier("partial:0.3", classes=NAMES).fit(frame, lists).predict(frame).shape == (1200,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "forest"}, "model: expected 'linear', 'mlp', 'boosting' or a callable"),
        ({"loss": "hinge"}, "loss: expected one of forward"),
        ({"l2": -1}, "l2: expected a finite number"),
        ({"squeeze": (1, 2)}, "squeeze: expected its default"),
        ({"transition": "complementary:7"}, r"expected integers in \[0, 7\), got 7"),
        ({"transition": np.eye(3)}, r"expected integers in \[0, 3\), got 3"),
        ({"transition": [[0.5, 0.5], [0.1, 0.9]], "classes": [0, 1]}, "rows sum to one"),
        ({"early_stopping": "maybe"}, "early_stopping: expected True, False or 'auto'"),
        ({"warm_start": "x"}, "warm_start: expected True or False, got 'x'"),
        ({"verbose": "x"}, "verbose: expected an integer >= 0, got 'x'"),
        ({"device": "cuda:9"}, "device: expected 'auto' or 'cpu' for the linear solver"),
        ({"model": "mlp", "device": "gpu"}, "device: expected 'auto', 'cpu' or a device"),
        ({"batch_size": 0}, "batch_size: expected an integer >= 1"),
        ({"hidden": (0,), "model": "mlp"}, "hidden: expected an integer >= 1"),
        ({"tune": {"l2": [1], "colour": [2]}}, "colour"),
        ({"tune": "yes"}, "tune: expected True, False or a grid as for GridSearchCV, got 'yes'"),
        ({"tune": {"l2": 3}}, "tune: expected True, False or a grid"),
        (
            {"transition": tp.coarse_labels([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]), "loss": "backward"},
            "expected rank 10",
        ),
    ],
)
def test_wrong_settings_are_clear(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WeakLabelClassifier(**settings).fit(X[:200], Y[:200])


def test_classes_that_cannot_be_told_apart() -> None:
    T = tp.coarse_labels([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]])
    weak = T.sample(Y[TRAIN], 0)
    clf = WeakLabelClassifier(T).fit(X[TRAIN], weak)  # forward: proper all the same
    group = clf.predict_proba(X[TEST])[:, :5].sum(axis=1) > 0.5
    assert (group == (Y[TEST] < 5)).mean() > 0.8
    with pytest.raises(tp.NotReconstructibleError):
        WeakLabelClassifier(T, loss="backward").fit(X[TRAIN], weak)
    with pytest.raises(tp.NotReconstructibleError):
        clf.score(X[TRAIN], weak)


def test_transition_from_the_data_of_the_fit(tmp_path: Any) -> None:
    T = tp.symmetric_noise(10, 0.3)
    weak = NAMES[T.sample(Y, 0)]
    clf = WeakLabelClassifier("estimate", random_state=0).fit(X[TRAIN], weak[TRAIN])
    assert isinstance(clf.transition_, tp.EstimatedTransition)
    assert clf.transition == "estimate"
    assert clf.classes_.tolist() == sorted(NAMES)
    order = np.argsort(NAMES)
    assert np.abs(clf.transition_.matrix() - T.matrix()[np.ix_(order, order)]).sum(axis=0).mean() < 0.5
    assert (clf.predict(X[TEST]) == NAMES[Y[TEST]]).mean() > 0.85
    again = tp.load(tp.save(clf, tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(X[TEST]), clf.predict_proba(X[TEST]))
    structured = WeakLabelClassifier(("estimate", {"structure": "symmetric"}), random_state=0, tune={"l2": [1e-3]})
    structured.fit(X[:400], weak[:400])
    assert structured.best_params_ == {"l2": 1e-3}
    assert isinstance(structured.transition_, tp.Transition)
    for settings, message in (
        ({"transition": ("estimate", 3)}, "transition: expected \\('estimate', {settings}\\)"),
        ({"transition": "estimate", "warm_start": True}, "warm_start: expected False with transition='estimate'"),
    ):
        with pytest.raises(ValueError, match=message):
            WeakLabelClassifier(**settings).fit(X[:100], weak[:100])
    with pytest.raises(ValueError, match="transition: expected one that is known for partial_fit"):
        WeakLabelClassifier("estimate").partial_fit(X[:100], weak[:100])
