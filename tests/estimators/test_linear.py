"""The linear solver: its closed forms, its optimum, its invariances."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import nn

import tproper as tp
from tproper.learn import linear
from tproper.learn.classifier import WeakLabelClassifier
from tproper.losses.kernels import cpu

K = 5
DENSE = tp.Transition(np.random.default_rng(0).dirichlet(np.ones(7), size=K).T)
LOSSES = {
    "clean": tp.ForwardLoss(tp.identity(K)),
    "forward complementary": tp.ForwardLoss(tp.complementary(K)),
    "forward noisy": tp.ForwardLoss(tp.symmetric_noise(K, 0.3)),
    "forward partial": tp.ForwardLoss(tp.partial_labels(K, 0.3)),
    "forward dense": tp.ForwardLoss(DENSE),
    "backward": tp.BackwardLoss(tp.complementary(K)),
    "backward dense": tp.BackwardLoss(DENSE),
    "backward weighted": tp.BackwardLoss(tp.complementary(K), class_weights=[1, 2, 3, 1, 2]),
    "squeezed": tp.BackwardLoss(tp.complementary(K), squeeze=(0.7, 2.0)),
    "squeezed 1.5": tp.BackwardLoss(tp.partial_labels(K, 0.3), squeeze=(0.7, 1.5)),
    "brier": tp.BackwardLoss(tp.complementary(K), tp.Brier()),
    "sparsemax": tp.BackwardLoss(tp.symmetric_noise(K, 0.1), tp.Sparsemax()),
    "squeezed tsallis": tp.BackwardLoss(tp.symmetric_noise(K, 0.1), tp.Tsallis(1.5), squeeze=(1.0, 2.0)),
}


def example(loss: tp.ForwardLoss, n: int = 40) -> tuple[np.ndarray, torch.Tensor, np.ndarray]:
    rng = np.random.default_rng(1)
    labels = loss.transition.encode(loss.transition.sample(rng.integers(0, K, n), 2))
    weights = rng.random(n)
    return rng.standard_normal((K, n)) * 2, labels, weights / weights.sum()


@pytest.mark.parametrize("name", LOSSES)
def test_closed_forms_are_the_loss_and_its_gradient(name: str) -> None:
    loss = LOSSES[name]
    V, labels, weights = example(loss)
    f, G = linear.score_loss(loss, labels, weights)(V.copy())
    v = torch.tensor(V.T.copy(), requires_grad=True)
    total = (loss.pointwise(v, labels) * torch.as_tensor(weights)).sum()
    total.backward()
    assert f == pytest.approx(float(total.detach()), rel=1e-12)
    np.testing.assert_allclose(G, v.grad.numpy().T, atol=1e-14)


def test_the_law_above_notices_a_planted_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu._Index, "take_off", lambda self, loss, slope, x, rows, centre: None)
    with pytest.raises(AssertionError):
        test_closed_forms_are_the_loss_and_its_gradient("backward")


def test_forward_takes_over_in_log_space_where_probabilities_underflow() -> None:
    loss = tp.ForwardLoss(tp.complementary(K))
    V = np.zeros((K, 2))
    V[1, 0], V[0, 1] = 900.0, 3.0
    labels, w = torch.tensor([1, 0]), np.array([0.5, 0.5])
    f, G = linear.score_loss(loss, labels, w)(V)
    assert f == pytest.approx(float(loss(torch.tensor(V.T.copy()), labels)), rel=1e-13)
    assert np.isfinite(G).all()
    assert f > 400


def digits(n: int = 900) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X[:n] / 16, y[:n]


def test_clean_labels_are_logistic_regression() -> None:
    X, y = digits()
    l2 = 1e-3
    ours = WeakLabelClassifier(l2=l2, tol=1e-8).fit(X, y)
    theirs = LogisticRegression(C=1 / (l2 * len(y)), tol=1e-8, max_iter=2000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    assert ours.history_[-1]["gradient"] <= 1e-8


@pytest.mark.parametrize("loss", ["forward", "gls", "backward"])
def test_stops_at_the_stated_gradient(loss: str) -> None:
    X, y = digits(300)
    T = tp.symmetric_noise(10, 0.2)
    clf = WeakLabelClassifier(T, loss=loss, l2=1e-2, tol=1e-6).fit(X, T.sample(y, 0))
    mean, sd = X.mean(axis=0), X.std(axis=0)
    v = torch.tensor(clf.decision_function(X), requires_grad=True)
    labels = torch.tensor(T.sample(y, 0))
    clf.loss_(v, labels).backward()
    G = v.grad.numpy().T @ (X - mean) + clf.l2 * clf.coef_
    assert np.abs(G[:, sd > 0] / sd[sd > 0]).max() <= 1.01e-6
    assert np.abs(v.grad.sum(0).numpy()).max() <= 1.01e-6
    assert (clf.coef_[:, sd == 0] == 0).all()  # constant pixels


@pytest.mark.parametrize("loss", ["forward", "gls"])
def test_sparse_is_dense(loss: str) -> None:
    X, y = digits(400)
    weak = tp.complementary(10).sample(y, 0)
    a = WeakLabelClassifier("complementary", loss=loss, l2=1e-2, tol=1e-8).fit(X, weak)
    b = WeakLabelClassifier("complementary", loss=loss, l2=1e-2, tol=1e-8).fit(sparse.csr_matrix(X), weak)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(sparse.csc_array(X)), atol=1e-5)


def test_sparse_is_never_densified(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("densified")

    for kind in (sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.csc_array):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)
    rng = np.random.default_rng(0)
    X = sparse.random(300, 20_000, density=5e-4, format="csr", random_state=0)
    y = rng.integers(0, 3, 300)
    clf = WeakLabelClassifier(l2=1e-2).fit(X, y)
    assert clf.predict_proba(X).shape == (300, 3)


@pytest.mark.parametrize("loss", ["forward", "gls"])
def test_units_of_features_do_not_ruin_it(loss: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 6))
    y = (X @ rng.standard_normal((6, 3))).argmax(axis=1)
    units = np.array([1e-4, 1.0, 1.0, 1e3, 1e6, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        clf = WeakLabelClassifier("symmetric:0.0", loss=loss, l2=1e-13).fit(X * units + 1e3 * units, y)
    assert clf.n_iter_ < 400
    assert (clf.predict(X * units + 1e3 * units) == y).mean() > (0.97 if loss == "forward" else 0.85)


def test_weights_are_repetitions_and_scale_does_not_matter() -> None:
    X, y = digits(300)
    w = np.random.default_rng(0).integers(0, 4, 300)
    weak = tp.complementary(10).sample(y, 0)
    rows = np.repeat(np.arange(300), w)
    settings = {"transition": "complementary:10", "l2": 1e-2, "tol": 1e-9}
    a = WeakLabelClassifier(**settings).fit(X, weak, sample_weight=w).predict_proba(X)
    b = WeakLabelClassifier(**settings).fit(X[rows], weak[rows]).predict_proba(X)
    c = WeakLabelClassifier(**settings).fit(X, weak, sample_weight=7.5 * w).predict_proba(X)
    np.testing.assert_allclose(a, b, atol=1e-6)
    np.testing.assert_allclose(a, c, atol=1e-6)


def test_warm_start_goes_on_from_the_solution() -> None:
    X, y = digits(400)
    clf = WeakLabelClassifier(l2=1e-3, warm_start=True).fit(X, y)
    first = clf.n_iter_
    assert clf.fit(X, y).n_iter_ <= 2 < first
    with pytest.raises(ValueError, match="warm_start: expected the 64 features"):
        clf.fit(X[:, :5], y)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"model": "linear"}, {"model": "mlp"}),
        ({"model": "mlp"}, {"model": "linear"}),
        ({"model": "mlp", "hidden": (8,)}, {"hidden": (8, 4)}),
        ({"model": nn.Linear}, {"model": "linear", "early_stopping": True}),
    ],
)
def test_a_warm_start_refuses_another_model(before: dict[str, Any], after: dict[str, Any]) -> None:
    X, y = digits(100)
    clf = WeakLabelClassifier(epochs=2, warm_start=True, random_state=0, **before).fit(X, y).fit(X, y)
    with pytest.raises(ValueError, match="warm_start: expected the model of the last fit, got another"):
        clf.set_params(**after).fit(X, y)


@pytest.mark.parametrize("weights", [np.ones(3), np.full(100, -1.0), np.ones((100, 2)), np.zeros(100), ["a"] * 100])
def test_wrong_weights_are_one_sentence_everywhere(weights: Any) -> None:
    X, y = digits(100)
    clf = WeakLabelClassifier().fit(X, y)
    tuned = WeakLabelClassifier(tune={"l2": [1e-3, 1e-2]})
    for call in (WeakLabelClassifier().fit, tuned.fit, clf.score):
        with pytest.raises(ValueError, match=r"^sample_weight: expected "):
            call(X, y, weights)


def test_says_so_when_it_did_not_converge() -> None:
    X, y = digits(200)
    with pytest.warns(ConvergenceWarning, match="stopped after 3 iterations"):
        WeakLabelClassifier(max_iter=3).fit(X, y)


def test_an_unbounded_objective_is_an_error_or_a_warning() -> None:
    X, y = digits(200)
    weak = tp.complementary(10).sample(y, 0)
    clf = WeakLabelClassifier("complementary:10", loss="backward", l2=0.0, max_iter=500)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            clf.fit(X, weak)
        except ValueError as error:
            assert "not bounded from below" in str(error)  # noqa: PT017
        else:
            assert any(issubclass(w.category, ConvergenceWarning) for w in caught)


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [("forward", "scale the features"), ("gls", "scale the features"), ("backward", "not bounded")],
)
def test_only_an_unbounded_loss_is_blamed_for_a_lost_objective(
    loss: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = digits(100)
    lost = SimpleNamespace(fun=np.nan, x=np.zeros(3))
    monkeypatch.setattr(linear, "minimize", lambda *args, **options: lost)
    with pytest.raises(ValueError, match=f"loss: the objective .*{sentence}"):
        WeakLabelClassifier("complementary:10", loss=loss).fit(X, tp.complementary(10).sample(y, 0))


def test_features_whose_variance_is_infinite_are_refused() -> None:
    X, y = digits(100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="X: expected features of finite variance"):
            WeakLabelClassifier().fit(1e300 * X, y)
