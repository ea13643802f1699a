"""Choosing by weak risk."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold

import tproper as tp
from tproper.learn.classifier import WeakLabelClassifier
from tproper.learn.search import brier_risk, default_grid, search

X, Y = load_digits(return_X_y=True)
X = X / 16
T = tp.symmetric_noise(10, 0.3)
WEAK = T.sample(Y, 0)
GRID = {"l2": [1e-5, 1e-2, 100.0]}
SMALL = {"l2": [1e-2, 1.0]}  # where the choice is not what is tested: the least penalties take longest


def test_chooses_by_weak_risk_and_keeps_what_it_tried() -> None:
    clf = WeakLabelClassifier(T, tune=GRID, random_state=0).fit(X[:800], WEAK[:800])
    results = clf.cv_results_
    assert clf.best_params_ == {"l2": 1e-2}
    assert results["criterion"] == "calibrated"
    assert (results["mean_raw_risk"] > results["mean_weak_risk"]).all()
    assert [p["l2"] for p in results["params"]] == GRID["l2"] == results["param_l2"]
    assert results["rank"][clf.best_index_] == 1
    assert results["mean_weak_risk"].argmin() == clf.best_index_
    by_fold = np.mean([results[f"split{f}_weak_risk"] for f in range(5)], axis=0)
    np.testing.assert_allclose(results["mean_weak_risk"], by_fold, rtol=1e-12)
    assert (results["stderr_weak_risk"] > 0).all()
    assert results["stderr_of_difference_to_best"][clf.best_index_] == 0
    others = [WeakLabelClassifier(T, l2=l2, calibrate=False).fit(X[:800], WEAK[:800]) for l2 in (1e-5, 100.0)]
    clean = [(other.predict(X[800:]) == Y[800:]).mean() for other in others]
    assert (clf.predict(X[800:]) == Y[800:]).mean() > max(clean)


def test_tune_is_the_search_and_a_fit_of_the_winner() -> None:
    clf = WeakLabelClassifier(T, random_state=0)
    found = search(clf, X[:500], WEAK[:500], grid=SMALL)
    winner = WeakLabelClassifier(T, random_state=0, **found.best_params).fit(X[:500], WEAK[:500])
    tuned = WeakLabelClassifier(T, tune=SMALL, random_state=0).fit(X[:500], WEAK[:500])
    assert tuned.best_params_ == found.best_params
    assert tuned.l2 == "auto"  # the user's setting stays
    assert tuned.l2_ == tuned.best_params_["l2"]
    np.testing.assert_array_equal(tuned.predict_proba(X), winner.predict_proba(X))
    np.testing.assert_array_equal(tuned.cv_results_["mean_weak_risk"], found.results["mean_weak_risk"])


def test_default_grid_in_one_call() -> None:
    clf = WeakLabelClassifier("symmetric:0.3", tune=True, random_state=0).fit(X[:600], WEAK[:600])
    assert clf.best_params_["loss"] == "forward"
    assert len(clf.cv_results_["params"]) == 11
    assert {p["loss"] for p in clf.cv_results_["params"]} == {"forward", "gls"}
    assert (clf.predict(X[600:]) == Y[600:]).mean() > 0.8
    assert any("learning_rate" in g for g in default_grid("mlp"))


def test_infinite_log_risk_hands_over_to_brier() -> None:
    K = tp.partial_labels(10, 0.3)
    masks = K.sample(Y[:400], 0)
    grid = {"loss": ["gls"], "squeeze": [(0.01, 2.0), (1.0, 2.0)], "l2": [1e-6]}
    base = WeakLabelClassifier(K, random_state=0, calibrate=False)
    found = search(base, X[:400], masks, grid=grid, cv=2)
    assert np.isinf(found.results["mean_weak_risk"]).any()
    assert found.results["criterion"] == "brier"
    assert found.results["mean_weak_brier"].argmin() == found.best_index


@pytest.mark.parametrize(
    "transition", [T, tp.partial_labels(10, 0.3), tp.partial_labels(14, 0.2)], ids=lambda t: t.name
)
def test_brier_risk_is_what_it_says(transition: tp.Transition) -> None:
    y = Y[:300]
    weak = transition.sample(y, 0)
    model = WeakLabelClassifier(transition, classes=range(transition.num_classes), l2=1e-2).fit(X[:300], weak)
    p = model.predict_proba(X[:300])
    if transition.num_classes > 12:
        r = transition.reconstruction().targets(weak).numpy()
        expected = ((p - r) ** 2).sum(axis=1) - (r**2).sum(axis=1) + 1
    else:
        rows = transition.row_index(transition.encode(weak)).numpy()
        expected = ((p @ transition.matrix().T - np.eye(transition.num_weak_labels)[rows]) ** 2).sum(axis=1)
    np.testing.assert_allclose(brier_risk(p, transition.encode(weak), transition), expected, atol=1e-12)


def test_splitters_weights_and_wrong_uses() -> None:
    base = WeakLabelClassifier(T, random_state=0)
    by_splitter = search(base, X[:300], WEAK[:300], grid=SMALL, cv=KFold(3)).results
    by_list = search(base, X[:300], WEAK[:300], grid=SMALL, cv=list(KFold(3).split(X[:300]))).results
    np.testing.assert_array_equal(by_splitter["mean_weak_risk"], by_list["mean_weak_risk"])
    weights = np.r_[np.ones(200), np.zeros(100)]
    weighted = search(base, X[:300], WEAK[:300], weights, SMALL, KFold(3))
    assert np.isnan(weighted.results["split2_weak_risk"]).all()  # nothing of weight in the last fold
    assert np.isfinite(weighted.results["mean_weak_risk"][weighted.best_index])
    for bad, argument in (({"cv": 1}, "cv"), ({"cv": "x"}, "cv"), ({"cv": []}, "cv"), ({"grid": []}, "tune")):
        with pytest.raises(tp.InputError) as error:
            search(base, X[:50], WEAK[:50], **({"grid": GRID} | bad))
        assert error.value.argument == argument
    with pytest.raises(tp.InputError, match="expected at least 10 rows"):
        WeakLabelClassifier(T, tune=GRID).fit(X[:6], WEAK[:6])


def test_every_time_that_a_row_is_held_out_counts() -> None:
    base, rows = WeakLabelClassifier(T, calibrate=False, random_state=0), np.arange(120)
    splits = [(rows[40:], rows[:40]), (rows[:60], rows[20:60]), (rows[60:], rows[:50])]
    together = search(base, X[:120], WEAK[:120], grid=SMALL, cv=splits).results
    for f, split in enumerate(splits):
        alone = search(base, X[:120], WEAK[:120], grid=SMALL, cv=[split]).results
        np.testing.assert_array_equal(together[f"split{f}_weak_risk"], alone["split0_weak_risk"])


@pytest.mark.parametrize("calibrate", ["temperature", False])
def test_a_row_of_weight_two_is_the_row_twice(calibrate: str | bool) -> None:
    rng = np.random.default_rng(0)
    features, weights, fold = rng.normal(size=(150, 3)), rng.integers(0, 4, 150), np.arange(150) % 3
    weak = tp.complementary(3).sample((features + rng.gumbel(size=features.shape)).argmax(1), 1)

    def results(rows: np.ndarray, w: np.ndarray | None) -> dict[str, np.ndarray]:
        splits = [(np.flatnonzero(fold[rows] != f), np.flatnonzero(fold[rows] == f)) for f in range(3)]
        clf = WeakLabelClassifier("complementary:3", calibrate=calibrate, tol=1e-9)
        return search(clf, features[rows], weak[rows], w, SMALL, splits).results

    weighted, repeated = results(np.arange(150), weights), results(np.repeat(np.arange(150), weights), None)
    for key in ("mean_weak_risk", "stderr_weak_risk", "stderr_of_difference_to_best", "temperature", "mean_weak_brier"):
        np.testing.assert_allclose(weighted[key], repeated[key], rtol=1e-5, atol=1e-7)
