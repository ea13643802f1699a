"""The linear solver: its closed forms, its optimum, its invariances."""

from __future__ import annotations

import tracemalloc
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
from tproper.learn.classifier import WeakLabelClassifier
from tproper.solvers import linear
from tproper.transitions import evidence

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
    for kind in (evidence.Dense, evidence.Spike, evidence.Step):
        monkeypatch.setattr(kind, "subtract_", lambda self, g, share=1.0: None)
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
    ours = WeakLabelClassifier(l2=l2, tol=1e-8, calibrate=False).fit(X, y)
    theirs = LogisticRegression(C=1 / (l2 * len(y)), tol=1e-8, max_iter=2000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    assert ours.history_[-1]["gradient"] <= 1e-8


@pytest.mark.parametrize("loss", ["forward", "gls", "backward"])
def test_stops_at_the_stated_gradient(loss: str) -> None:
    X, y = digits(300)
    T = tp.symmetric_noise(10, 0.2)
    clf = WeakLabelClassifier(T, loss=loss, l2=1e-2, tol=1e-6, calibrate=False).fit(X, T.sample(y, 0))
    mean, sd = X.mean(axis=0), X.std(axis=0)
    v = torch.tensor(clf.decision_function(X), requires_grad=True)
    labels = torch.tensor(T.sample(y, 0))
    clf.loss_(v, labels).backward()
    G = v.grad.numpy().T @ (X - mean) + clf.l2 * clf.coef_
    assert np.abs(G[:, sd > 0] / sd[sd > 0]).max() <= 1.01e-6
    varies = float((T.reconstruction().targets(labels) - 0.1).square().sum(1).mean()) / 0.9  # 1 for clean labels
    prior = {"forward": 1 / 4, "backward": varies, "gls": varies * (1 + 10)}[loss] / 300  # of the intercepts
    at_mean = clf.intercept_ + clf.coef_ @ mean
    assert np.abs(v.grad.sum(0).numpy() + prior * at_mean).max() <= 1.01e-6
    assert (clf.coef_[:, sd == 0] == 0).all()  # constant pixels


@pytest.mark.parametrize("constant", [0.0, 0.1, -0.7985913, 1e6 / 3, 1e-7])
@pytest.mark.parametrize("loss", ["forward", "gls"])
def test_a_constant_column_changes_nothing(loss: str, constant: float) -> None:
    """Whatever its value: the rounding of its mean is not taken for a spread."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1198, 3))
    y = tp.complementary(K).sample((X @ rng.normal(size=(3, K))).argmax(axis=1), seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = WeakLabelClassifier(tp.complementary(K), loss=loss, calibrate=False, l2=0.01).fit(X, y)
        more = WeakLabelClassifier(tp.complementary(K), loss=loss, calibrate=False, l2=0.01)
        more.fit(np.column_stack([X, np.full(len(X), constant)]), y)
    assert (more.coef_[:, 3] == 0).all()
    np.testing.assert_allclose(more.coef_[:, :3], plain.coef_, atol=0.01)  # tol is of the gradient


@pytest.mark.parametrize("loss", ["forward", "gls"])
def test_sparse_is_dense(loss: str) -> None:
    X, y = digits(400)
    weak = tp.complementary(10).sample(y, 0)
    for calibrate, close in ((False, 1e-5), ("auto", 5e-3)):  # cross-fitted scores need fewer digits
        clf = WeakLabelClassifier("complementary", loss=loss, l2=1e-2, tol=1e-8, calibrate=calibrate)
        a = clf.fit(X, weak).predict_proba(X)
        b = clf.fit(sparse.csr_matrix(X), weak).predict_proba(sparse.csc_array(X))
        np.testing.assert_allclose(a, b, atol=close)


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
    settings = {"transition": "complementary:10", "l2": 1e-2, "tol": 1e-9, "calibrate": False}
    a = WeakLabelClassifier(**settings).fit(X, weak, sample_weight=w).predict_proba(X)
    b = WeakLabelClassifier(**settings).fit(X[rows], weak[rows]).predict_proba(X)
    np.testing.assert_allclose(a, b, atol=1e-6)
    clean = {"l2": 1e-2, "tol": 1e-9, "calibrate": False}  # clean labels: nothing depends on the number of rows
    c, d = (WeakLabelClassifier(**clean).fit(X, y, sample_weight=k * w).predict_proba(X) for k in (1, 7.5))
    np.testing.assert_allclose(c, d, atol=1e-6)


def test_warm_start_goes_on_from_the_solution() -> None:
    X, y = digits(400)
    clf = WeakLabelClassifier(l2=1e-3, warm_start=True, calibrate=False).fit(X, y)
    first = clf.n_iter_
    assert clf.fit(X, y).n_iter_ <= 2 < first
    before = clf.predict_proba(X)
    with pytest.raises(ValueError, match="warm_start: expected the 64 features"):
        clf.fit(X[:, :5], y)
    with pytest.raises(ValueError, match="warm_start: expected False with tune"):
        clf.set_params(tune={"l2": [1e-3]}).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), before)  # what was refused has changed nothing


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


def test_a_warm_start_that_diverges_is_undone() -> None:
    X, y = digits(100)
    clf = WeakLabelClassifier(model="mlp", epochs=2, warm_start=True, random_state=0).fit(X, y)
    before = clf.predict_proba(X)
    with pytest.raises(ValueError, match="loss: expected finite values"):
        clf.set_params(learning_rate=1e30).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), before)


@pytest.mark.parametrize("weights", [np.ones(3), np.full(100, -1.0), np.ones((100, 2)), np.zeros(100), ["a"] * 100])
def test_wrong_weights_are_one_sentence_everywhere(weights: Any) -> None:
    X, y = digits(100)
    clf = WeakLabelClassifier(calibrate=False).fit(X, y)
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
    clf = WeakLabelClassifier("complementary:10", loss="backward", l2=0.0, max_iter=500, calibrate=False)
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


def mixture(T: tp.Transition, n: int, seed: int, d: int = 6) -> tuple[np.ndarray, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, T.num_classes, n)
    return (rng.standard_normal((T.num_classes, d)) * 1.5)[y] + rng.standard_normal((n, d)), T.sample(y, seed)


def best_of_random_starts(clf: WeakLabelClassifier, X: np.ndarray, weak: Any, starts: int = 10) -> float:
    """The smallest objective of as many descents from random points on the objective that the classifier had."""
    labels, loss, prior = clf.transition_.encode(weak), clf.loss_, 1 / (4 * len(X))
    rng = np.random.default_rng(1)
    K, d = len(clf.classes_), X.shape[1]
    spread = X.std(axis=0) * np.sqrt(d)
    points = [(rng.standard_normal((K, d)) / spread, 0.5 * rng.standard_normal(K)) for _ in range(starts)]
    return min(linear.fit_linear(X, labels, loss, None, clf.l2_, 1e-5, 1000, at, 0, prior).objective for at in points)


@pytest.mark.parametrize("seed", range(4))
def test_equal_columns_of_T_are_no_saddle(seed: int) -> None:
    """Coarse labels: at zero scores the classes of a group cannot be told apart by the gradient."""
    T = tp.coarse_labels([[0, 1], [2, 3, 4]])
    X, weak = mixture(T, 300, seed)
    clf = WeakLabelClassifier(T, calibrate=False).fit(X, weak)
    best = best_of_random_starts(clf, X, weak)
    zero = (np.zeros((5, 6)), np.zeros(5))
    stuck = linear.fit_linear(X, T.encode(weak), clf.loss_, None, clf.l2_, 1e-5, 1000, zero)
    assert np.ptp(stuck.coef[2:], axis=0).max() < 1e-12  # what a start from zero cannot leave
    assert clf.objective_ - best < 0.2 * (stuck.objective - best)


@pytest.mark.parametrize("n", [100, 400])
def test_few_problems_end_above_the_best_of_random_starts(n: int) -> None:
    worse = []
    for seed in range(20):
        K = 3 + seed % 4
        T = [tp.symmetric_noise(K, 0.3), tp.complementary(K), tp.partial_labels(K, 0.4), tp.pair_noise(K, 0.3)][
            seed % 4
        ]
        X, weak = mixture(T, n, seed)
        clf = WeakLabelClassifier(T, classes=range(K), calibrate=False).fit(X, weak)
        worse.append(clf.objective_ > best_of_random_starts(clf, X, weak, 5) + 1e-3)
        assert clf.minima_[0] == clf.objective_
        assert clf.minima_ == sorted(clf.minima_)
    assert np.mean(worse) <= 0.1


def test_starts_are_the_same_and_one_where_the_objective_is_convex() -> None:
    T = tp.symmetric_noise(3, 0.3)
    X, weak = mixture(T, 200, 0)
    a, b = (WeakLabelClassifier(T, random_state=s, calibrate=False).fit(X, weak) for s in (0, 1))
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert a.minima_ == b.minima_
    assert len(WeakLabelClassifier(calibrate=False).fit(X, weak).minima_) == 1
    assert len(WeakLabelClassifier(T, loss="gls", calibrate=False).fit(X, weak).minima_) == 1
    large = WeakLabelClassifier(T, calibrate=False, max_iter=50)
    X, weak = mixture(T, 30_000, 0)
    assert len(large.fit(X, weak).minima_) == 1


@pytest.mark.parametrize(("labels", "n"), [("complementary", 100), ("coarse", 400), ("noisy", 100)])
def test_minima_are_different_and_the_one_that_is_kept_is_finished(labels: str, n: int) -> None:
    """A start that only met what was known leaves no trace; whichever start won, it went on to the tolerance."""
    groups = [[0, 1, 2], [3, 4, 5]]
    T = {
        "complementary": tp.complementary(6),
        "coarse": tp.coarse_labels(groups),
        "noisy": tp.symmetric_noise(6, 0.7),
    }[labels]
    several = 0
    for seed in range(8):
        X, weak = mixture(T, n, seed)
        clf = WeakLabelClassifier(T, classes=range(6), calibrate=False, l2=3e-3, tol=1e-5).fit(X, weak)
        gaps = np.diff(clf.minima_)
        assert 1 <= len(clf.minima_) <= 1 + linear.STARTS
        assert (gaps >= 0).all()
        assert clf.history_[-1]["gradient"] <= 1e-5
        assert clf.history_[-1]["objective"] == pytest.approx(clf.objective_, abs=1e-12)
        several += len(clf.minima_) > 1
    assert several >= 1  # these problems were chosen for it


def test_starts_that_meet_a_known_minimum_are_left_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is one minimum, the starts after the first cost less than it did, all together."""
    calls = []
    true = linear._Problem.__call__
    monkeypatch.setattr(linear._Problem, "__call__", lambda self, x: calls.append(1) or true(self, x))
    monkeypatch.setattr(linear, "STARTS", 0)
    T = tp.symmetric_noise(3, 0.2)
    problems = [mixture(T, 300, seed) for seed in range(8)]
    spent = []
    for starts in (0, 4):
        monkeypatch.setattr(linear, "STARTS", starts)
        calls.clear()
        ends = [WeakLabelClassifier(T, calibrate=False).fit(X, weak).objective_ for X, weak in problems]
        spent.append((len(calls), ends))
    np.testing.assert_allclose(spent[1][1], spent[0][1], atol=1e-9)
    assert spent[0][0] < spent[1][0] < 2 * spent[0][0]


def test_no_class_is_given_up() -> None:
    """With free intercepts a class of weak labels can be bought off: its intercept goes to minus infinity."""
    X, y = digits(1797)
    T = tp.complementary(10)
    order = np.random.default_rng(0).permutation(1797)[:900]
    clf = WeakLabelClassifier(T, calibrate=False).fit(X[order], T.sample(y, 0)[order])
    assert clf.predict_proba(X).mean(axis=0).min() > 0.02
    assert np.abs(clf.intercept_ + clf.coef_ @ X[order].mean(axis=0)).max() < 6


def test_the_default_penalty_goes_with_rows_variance_and_what_labels_say() -> None:
    X, y = digits(900)
    weak = tp.complementary(10).sample(y, 0)
    l2 = {
        n: WeakLabelClassifier("complementary", calibrate=False, max_iter=1000).fit(X[:n], weak[:n]).l2_
        for n in (300, 900)
    }
    assert l2[300] == pytest.approx(3 * l2[900], rel=0.1)
    clean = WeakLabelClassifier(calibrate=False).fit(X, y).l2_
    assert clean == pytest.approx(0.4 * X.var(axis=0).sum() / 900)
    assert l2[900] == pytest.approx(clean / 9)  # one complementary label of ten classes says 1/81 of a clean one
    for squeeze, k in (((1.0, 2.0), 1.0), ((0.3, 1.5), 0.3)):  # and its target varies 81 times as much
        backward = WeakLabelClassifier("complementary", "gls", squeeze=squeeze, calibrate=False).fit(X, weak)
        assert backward.l2_ == pytest.approx(81 * (1 + k) * clean)
    assert WeakLabelClassifier(calibrate=False).fit(10 * X, y).l2_ == pytest.approx(100 * clean)
    twice = WeakLabelClassifier(calibrate=False).fit(X, y, sample_weight=np.full(900, 2.0)).l2_
    assert twice == pytest.approx(clean / 2)
    assert WeakLabelClassifier(calibrate=False).fit(X, y, sample_weight=np.full(900, 1 / 900)).l2_ == clean
    assert WeakLabelClassifier(model="mlp", epochs=1).fit(X, y).l2_ == 3e-4


def test_what_may_be_used_up_gives_the_same_fit() -> None:
    rng = np.random.default_rng(0)
    X, loss = rng.normal(size=(300, 6)) + 3, tp.ForwardLoss(tp.symmetric_noise(3, 0.2))
    y = torch.as_tensor(rng.integers(3, size=300))
    before, given = X.copy(), X.copy()
    kept = linear.fit_linear(X, y, loss, None, 0.01, 1e-8, 500)
    spent = linear.fit_linear(given, y, loss, None, 0.01, 1e-8, 500, spend=True)
    np.testing.assert_array_equal(kept.coef, spent.coef)
    np.testing.assert_array_equal(X, before)
    tp.WeakLabelClassifier(tp.symmetric_noise(3, 0.2)).fit(X, y.numpy())  # cross-fitted, and calibrated
    np.testing.assert_array_equal(X, before)


def test_a_fit_of_many_terms_takes_memory_in_proportion_to_the_matrix() -> None:
    rng = np.random.default_rng(0)
    n, d, each = 6000, 15_000, 100
    cells = np.repeat(np.arange(n), each), rng.integers(d, size=n * each)
    X = sparse.csr_matrix((rng.exponential(size=n * each), cells), shape=(n, d))
    z = rng.integers(K, size=n)
    clf = tp.WeakLabelClassifier(l2=0.01, calibrate=False, max_iter=12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X[:100], z[:100])  # what is imported at the first fit
        tracemalloc.start()
        clf.fit(X, z)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
