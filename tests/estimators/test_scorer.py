"""Choosing among models with scikit-learn's own searches, by weak labels alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import AdaBoostClassifier, StackingClassifier
from sklearn.feature_selection import RFECV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_score,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

import tproper as tp
from tproper.learn.misuse import WeakLabelsAsClassesWarning

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
    with pytest.raises(ValueError, match="transition: expected one for a LogisticRegression, which has none"):
        tp.calibrated_scorer()(other, X[300:], WEAK[300:])
    with pytest.raises(ValueError, match="sample_weight: expected 1497 finite numbers >= 0"):
        tp.calibrated_scorer(T)(other, X[300:], WEAK[300:], -np.ones(1497))
    with pytest.raises(ValueError, match="estimator: expected one with scores for 3 classes, got 10"):
        tp.calibrated_scorer(tp.identity(3))(other, X[:5], [0, 1, 2, 0, 1])


def test_tools_that_take_weak_labels_for_classes_are_told_of() -> None:
    clf = tp.WeakLabelClassifier("complementary", classes=range(10), calibrate=False)
    with pytest.warns(WeakLabelsAsClassesWarning, match="compares predicted classes with weak labels"):
        cross_val_score(clf, X[:300], WEAK[:300], scoring="accuracy", cv=2)
    with pytest.warns(WeakLabelsAsClassesWarning, match="compares predicted classes with weak labels"):
        GridSearchCV(clf, {"l2": [1e-3]}, scoring="neg_log_loss", cv=2).fit(X[:300], WEAK[:300])
    with pytest.warns(WeakLabelsAsClassesWarning, match="CalibratedClassifierCV takes the weak labels for classes"):
        CalibratedClassifierCV(clf, cv=2).fit(X[:300], WEAK[:300])
    frozen = CalibratedClassifierCV(FrozenEstimator(clf.fit(X[:300], WEAK[:300])), cv=2)
    with pytest.warns(WeakLabelsAsClassesWarning, match="takes the labels it is given for classes: clean ones are"):
        frozen.fit(X[:300], WEAK[:300])
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakLabelsAsClassesWarning)
        frozen.predict_proba(X[:5])  # once is enough
    with pytest.warns(WeakLabelsAsClassesWarning, match="StackingClassifier takes the weak labels for classes"):
        StackingClassifier([("one", clf)], LogisticRegression(max_iter=500), cv=2).fit(X[:300], WEAK[:300])
    with pytest.warns(WeakLabelsAsClassesWarning, match="compares predicted classes with weak labels"):
        RFECV(clf, step=40, min_features_to_select=60, scoring="accuracy", cv=2).fit(X[:100], WEAK[:100])


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        (SelfTrainingClassifier, "SelfTrainingClassifier"),
        (OneVsRestClassifier, "a classifier of sklearn.multiclass"),
        (OneVsOneClassifier, "a classifier of sklearn.multiclass"),
        (AdaBoostClassifier, "AdaBoostClassifier"),
    ],
)
def test_other_learners_of_classes_are_told_of(tool: type, name: str) -> None:
    clf = tp.WeakLabelClassifier("symmetric:0.3", classes=range(10), calibrate=False)
    labels = tp.symmetric_noise(10, 0.3).sample(Y[:300], 0)
    if tool is SelfTrainingClassifier:
        labels[250:] = -1  # what it is for
    with pytest.warns(WeakLabelsAsClassesWarning, match=f"{name} takes the weak labels for classes"):
        tool(clf).fit(X[:300], labels)


def test_a_threshold_tuned_on_weak_labels_is_told_of_and_a_fixed_one_is_not() -> None:
    clf = tp.WeakLabelClassifier("symmetric:0.2", classes=range(2), calibrate=False)
    with pytest.warns(WeakLabelsAsClassesWarning, match="TunedThresholdClassifierCV takes the weak labels"):
        TunedThresholdClassifierCV(clf, cv=2).fit(X[:200], Y[:200] % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakLabelsAsClassesWarning)
        FixedThresholdClassifier(clf).fit(X[:200], Y[:200] % 2)


def test_right_uses_are_not_warned_of() -> None:
    clf = tp.WeakLabelClassifier("complementary", classes=range(10), calibrate=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakLabelsAsClassesWarning)
        for scoring in (None, tp.calibrated_scorer(), tp.weak_scorer("accuracy", T)):
            cross_val_score(clf, X[:300], WEAK[:300], scoring=scoring, cv=2)
        fitted = clf.fit(X[:300], WEAK[:300])
        get_scorer("accuracy")(fitted, X[300:], Y[300:])  # clean labels of one's own
        clean = tp.WeakLabelClassifier()
        cross_val_score(clean, X[:300], Y[:300], scoring="accuracy", cv=2)
        CalibratedClassifierCV(clean, cv=2).fit(X[:300], Y[:300])


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
    np.testing.assert_allclose(scores, scores[0])
    with pytest.raises(ValueError, match="y: expected no masked entries, got"):
        tp.weak_scorer(name, T)(clf, X, np.ma.masked_equal(names[y], "a"))
