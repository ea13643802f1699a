"""Tools of scikit-learn number labels before they fit, at times in other processes: what T means must not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tproper as tp

MATRIX = np.array([[0.9, 0.4, 0.0], [0.1, 0.6, 0.3], [0.0, 0.0, 0.7]])
Tool = Callable[[Any, Any, Any], Any]


def voted(estimator: Any, X: Any, y: Any) -> Any:
    return VotingClassifier([("one", estimator)], voting="soft").fit(X, y).predict_proba(X)


def voted_in_processes(estimator: Any, X: Any, y: Any) -> Any:
    two = [("one", estimator), ("two", estimator)]
    return VotingClassifier(two, voting="soft", n_jobs=2).fit(X, y).predict_proba(X)


def bagged(estimator: Any, X: Any, y: Any) -> Any:
    bag = BaggingClassifier(estimator, n_estimators=1, bootstrap=False, random_state=0)
    return bag.fit(X, y).predict_proba(X)


def stacked(estimator: Any, X: Any, y: Any) -> Any:
    return StackingClassifier([("one", estimator)], LogisticRegression(), cv=2).fit(X, y).predict_proba(X)


def held_out(estimator: Any, X: Any, y: Any) -> Any:
    both = [(np.arange(len(X)), np.arange(len(X)))]  # trained on all rows, as the others
    return cross_val_predict(estimator, X, y, cv=both, method="predict_proba")


def inside(estimator: Any, X: Any, y: Any) -> Any:
    return held_out(VotingClassifier([("one", estimator)], voting="soft"), X, y)


TOOLS = pytest.mark.parametrize("tool", [voted, bagged, stacked, held_out, inside])


@pytest.fixture(scope="module")
def blobs() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=150)
    return rng.normal(size=(150, 2)) + 3 * np.array([[0, 1], [1, 0], [-1, -1]])[z], z


def classifier(T: Any, **settings: Any) -> tp.WeakLabelClassifier:
    return tp.WeakLabelClassifier(T, random_state=0, calibrate=False, **settings)


MEANT = r"expected labels among .* if these are rows of T, pass T.labels.decode"


@TOOLS
@pytest.mark.parametrize("names", [["a", "b", "c"], ["c", "b", "a"]])
def test_numbers_in_place_of_names_are_refused(tool: Tool, names: list[str], blobs: tuple[Any, Any]) -> None:
    """Two thirds of the predictions were right where nine tenths are."""
    X, z = blobs
    T = tp.Transition(MATRIX).named(names)
    y = np.array(names)[T.sample(z, seed=1)]
    for given in (classifier(T), classifier(tp.Transition(MATRIX), classes=names)):
        with pytest.raises(ValueError, match=MEANT):
            tool(given, X, y)


@pytest.mark.parametrize("names", [["a", "b", "c"], ["c", "b", "a"]])
def test_names_themselves_are_taken(names: list[str], blobs: tuple[Any, Any]) -> None:
    X, z = blobs
    T = tp.Transition(MATRIX).named(names)
    y = np.array(names)[T.sample(z, seed=1)]
    alone = classifier(T).fit(X, y)
    assert (alone.predict(X) == np.array(names)[z]).mean() > 0.85
    scores = cross_val_score(classifier(T), X, y, scoring=tp.weak_scorer("accuracy"), cv=3)  # by name, fold by fold
    assert scores.mean() > 0.8


@TOOLS
@pytest.mark.parametrize(
    ("T", "labels", "classes"),
    [
        (tp.binary_noise(0.05, 0.4), ["no", "yes"], ["yes", "no"]),
        (tp.positive_unlabeled(0.9), ["unlabeled", "yes"], ["yes", "no"]),
        (tp.positive_unlabeled(0.9).named([True, False]), [False, True], None),
        (("estimate", {"kind": "pu"}), ["unlabeled", "yes"], ["yes", "no"]),
        (tp.coarse_labels([[0], [1, 2]]), ["a", "b|c"], ["a", "b", "c"]),
    ],
)
def test_two_names_are_not_two_numbers(tool: Tool, T: Any, labels: list[Any], classes: Any) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match=r"expected (labels among|True = labeled positive)"):
        tool(classifier(T, classes=classes), X, np.array(labels)[np.arange(60) % len(labels)])


def test_in_other_processes_too(blobs: tuple[Any, Any]) -> None:
    """No guard that looks at who calls could see it there. What a fit in another process makes of labels is theirs."""
    X, z = blobs
    y = np.array(["c", "b", "a"])[tp.symmetric_noise(3, 0.2).sample(z, 0)]
    alone = classifier("symmetric:0.2").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(voted_in_processes(classifier("symmetric:0.2"), X, y), alone, atol=1e-8)
    T = tp.Transition(MATRIX).named(["c", "b", "a"])
    with pytest.raises(ValueError, match=MEANT):  # the error ends the processes: those of the fit above serve once
        voted_in_processes(classifier(T), X, np.array(["c", "b", "a"])[T.sample(z, seed=1)])


@pytest.mark.parametrize("tool", [voted, bagged, held_out, inside])
def test_where_all_classes_are_alike_any_order_will_do(tool: Tool, blobs: tuple[Any, Any]) -> None:
    X, z = blobs
    names = np.array(["c", "b", "a"])
    y = names[tp.symmetric_noise(3, 0.2).sample(z, 0)]
    alone = classifier("symmetric:0.2").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(tool(classifier("symmetric:0.2"), X, y), alone, atol=1e-8)
    scaled = make_pipeline(StandardScaler(), classifier("symmetric:0.2"))
    np.testing.assert_allclose(tool(scaled, X, y), alone, atol=0.1)


def test_rows_of_T_that_all_occur_are_the_same_everywhere(blobs: tuple[Any, Any]) -> None:
    X, z = blobs
    T = tp.Transition(MATRIX)
    y = T.sample(z, seed=1)
    alone = classifier(T).fit(X, y)
    search = GridSearchCV(classifier(T), {"l2": [alone.l2_]}, cv=2).fit(X, y)
    np.testing.assert_array_equal(search.predict_proba(X), alone.predict_proba(X))
    for tool in (voted, bagged, held_out):
        np.testing.assert_array_equal(tool(classifier(T), X, y), alone.predict_proba(X))
