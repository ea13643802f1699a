"""Choosing among models with scikit-learn's own searches, by weak labels alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from refusals import refused
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tproper as tp

X, Y = load_digits(return_X_y=True)
X = X / 16
T = tp.complementary(10)
WEAK = T.sample(Y, 0)


def test_grid_search_by_the_calibrated_weak_risk() -> None:
    clf = tp.WeakLabelClassifier("complementary", classes=range(10), calibrate=False)
    search = GridSearchCV(clf, {"l2": [1e-4, 1e-2, 1.0]}, scoring=tp.calibrated_scorer(), cv=3)
    search.fit(X[:900], WEAK[:900])
    assert search.best_params_ == {"l2": 1e-4}
    assert (search.cv_results_["mean_test_score"] < 0).all()
    clean = [(clf.set_params(l2=l2).fit(X[:900], WEAK[:900]).predict(X[900:]) == Y[900:]).mean() for l2 in (1e-4, 1.0)]
    assert clean[0] > clean[1]


def test_it_is_minus_the_forward_risk_at_the_best_temperature() -> None:
    clf = tp.WeakLabelClassifier(T, classes=range(10), calibrate=False).fit(X[:900], WEAK[:900])
    score = tp.calibrated_scorer()(clf, X[900:], WEAK[900:])
    loss, v = tp.ForwardLoss(T), torch.as_tensor(clf.decision_function(X[900:]))
    labels = torch.as_tensor(WEAK[900:])
    scales = np.linspace(-2, 2, 2000)
    risks = np.array([float(loss(v * np.exp(a), labels)) for a in scales])
    assert -score == pytest.approx(risks.min(), abs=1e-6)
    # a model ten times as sure of itself knows as much, and so does one whose link has other units
    for factor in (1e-4, 10.0):
        surer = tp.WeakLabelClassifier(T, classes=range(10), calibrate=False).fit(X[:900], WEAK[:900])
        with torch.no_grad():
            surer.module_.weight.mul_(factor)
            surer.module_.bias.mul_(factor)
        assert tp.calibrated_scorer(T)(surer, X[900:], WEAK[900:]) == pytest.approx(score, abs=1e-6)


def test_pipelines_searches_and_other_estimators() -> None:
    pipe = make_pipeline(StandardScaler(), tp.WeakLabelClassifier("complementary", classes=range(10)))
    scores = cross_val_score(pipe, X[:600], WEAK[:600], scoring=tp.calibrated_scorer(), cv=2)
    assert (scores < 0).all()
    other = LogisticRegression(max_iter=200).fit(X[:300], Y[:300])
    assert tp.calibrated_scorer(T)(other, X[300:], WEAK[300:]) > max(scores)  # it saw clean labels
    assert tp.calibrated_scorer("complementary:10")(other, X[300:], WEAK[300:], np.ones(1497)) < 0
    binary = LogisticRegression().fit(X[:300], Y[:300] % 2)
    assert tp.calibrated_scorer(tp.identity(2))(binary, X[300:], Y[300:] % 2) > -0.5
    with refused("transition"):
        tp.calibrated_scorer()(other, X[300:], WEAK[300:])
    with refused("sample_weight"):
        tp.calibrated_scorer(T)(other, X[300:], WEAK[300:], -np.ones(1497))
    with refused("estimator"):
        tp.calibrated_scorer(tp.identity(3))(other, X[:5], [0, 1, 2, 0, 1])


def test_right_uses_are_not_warned_of() -> None:
    clf = tp.WeakLabelClassifier("complementary", classes=range(10), calibrate=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for scoring in (None, tp.calibrated_scorer(), tp.weak_scorer("accuracy", T)):
            cross_val_score(clf, X[:300], WEAK[:300], scoring=scoring, cv=2)
        fitted = clf.fit(X[:300], WEAK[:300])
        get_scorer("accuracy")(fitted, X[300:], Y[300:])  # clean labels of one's own
        clean = tp.WeakLabelClassifier()
        cross_val_score(clean, X[:300], Y[:300], scoring="accuracy", cv=2)


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "log_loss", "brier"])
def test_labels_may_go_by_any_names_of_the_classes(name):
    """A search over models of named classes is that over indices."""
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((120, 3)), tp.symmetric_noise(3, 0.2)
    y = T.sample(X.argmax(axis=1), 1)
    scores = []
    for given in ([0, 1, 2], ["a", "b", "c"], [1, 2, 3], [0.0, 1.0, 2.0], [2, 0, 1], ["c", "a", "b"]):
        names = np.array(given)
        clf = tp.WeakLabelClassifier(T, classes=given, calibrate=False).fit(X, names[y])
        scores.append(tp.weak_scorer(name, T)(clf, X, names[y]))
    np.testing.assert_allclose(scores, scores[0], rtol=1e-5)  # in another order the solver ends a little elsewhere
    with refused("y"):
        tp.weak_scorer(name, T)(clf, X, np.ma.masked_equal(names[y], "a"))
