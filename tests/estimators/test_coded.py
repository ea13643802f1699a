"""Tools of scikit-learn number labels before they fit: what T means must not change by that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tproper as tp

MATRIX = np.array([[0.9, 0.4, 0.0], [0.1, 0.6, 0.3], [0.0, 0.0, 0.7]])
Tool = Callable[[Any, Any, Any], Any]


def voted(estimator: Any, X: Any, y: Any) -> Any:
    return VotingClassifier([("one", estimator)], voting="soft").fit(X, y).predict_proba(X)


def bagged(estimator: Any, X: Any, y: Any) -> Any:
    bag = BaggingClassifier(estimator, n_estimators=1, bootstrap=False, random_state=0)
    return bag.fit(X, y).predict_proba(X)


def held_out(estimator: Any, X: Any, y: Any) -> Any:
    both = [(np.arange(len(X)), np.arange(len(X)))]  # trained on all rows, as the others
    return cross_val_predict(estimator, X, y, cv=both, method="predict_proba")


def inside(estimator: Any, X: Any, y: Any) -> Any:
    return held_out(VotingClassifier([("one", estimator)], voting="soft"), X, y)


TOOLS = pytest.mark.parametrize("tool", [voted, bagged, held_out, inside])


@pytest.fixture(scope="module")
def blobs() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=150)
    return rng.normal(size=(150, 2)) + 3 * np.array([[0, 1], [1, 0], [-1, -1]])[z], z


def classifier(T: Any, **settings: Any) -> tp.WeakLabelClassifier:
    return tp.WeakLabelClassifier(T, random_state=0, calibrate=False, **settings)


@TOOLS
def test_names_in_the_order_of_T_are_the_same_as_alone(tool: Tool, blobs: tuple[Any, Any]) -> None:
    X, z = blobs
    T, names = tp.Transition(MATRIX), np.array(["a", "b", "c"])
    y = names[T.sample(z, seed=1)]
    for settings in ({}, {"classes": list(names)}):
        alone = classifier(T, **settings).fit(X, y).predict_proba(X)
        np.testing.assert_array_equal(tool(classifier(T, **settings), X, y), alone)
        scaled = make_pipeline(StandardScaler(), classifier(T, **settings))
        np.testing.assert_allclose(tool(scaled, X, y), alone, atol=0.1)


@TOOLS
def test_numbers_in_another_order_are_refused(tool: Tool, blobs: tuple[Any, Any]) -> None:
    """Two thirds of the predictions were right where nine tenths are."""
    X, z = blobs
    T, names = tp.Transition(MATRIX), np.array(["c", "b", "a"])
    y = names[T.sample(z, seed=1)]
    with pytest.raises(ValueError, match=r"y: expected labels that \w+ does not change, got \['a', 'b', 'c'\]"):
        tool(classifier(T, classes=list(names)), X, y)
    named = {"classes": list(names)}
    search = tp.WeakLabelClassifierCV(classifier(T, **named), {"l2": [1e-3]}, cv=2)
    with pytest.raises(ValueError, match="does not change"):
        tool(search, X, y)
    T = tp.symmetric_noise(3, 0.2)  # where T knows no order any will do
    alone = classifier(T, **named).fit(X, names[z]).predict_proba(X)
    sorted_columns = tool(classifier(T, **named), X, names[z])
    np.testing.assert_array_equal(sorted_columns[:, ::-1].argmax(axis=1), alone.argmax(axis=1))


@TOOLS
@pytest.mark.parametrize(
    ("T", "labels", "classes", "match"),
    [
        (tp.binary_noise(0.05, 0.4), ["no", "yes"], None, "expected `classes` in the order of T's columns"),
        (tp.binary_noise(0.05, 0.4), ["no", "yes"], ["yes", "no"], r"read as the rows \[0, 1\] of T, not \[1, 0\]"),
        (tp.positive_unlabeled(0.9), ["unlabeled", "yes"], ["yes", "no"], r"not \[1, 0\]"),
        (tp.positive_unlabeled(0.9), [False, True], None, "expected 0 = labeled positive"),
        (tp.positive_unlabeled(0.9), [-1, 1], None, "expected 0 = labeled positive"),
        (("estimate", {"kind": "pu"}), ["unlabeled", "yes"], ["yes", "no"], r"not \[1, 0\]"),
        (tp.complementary(4), [0, 1, 3], None, r"read as the rows \[0, 1, 2\] of T, not \[0, 1, 3\]"),
        (tp.coarse_labels([[0], [1], [2, 3]]), [0, 2], None, r"read as the rows \[0, 1\] of T, not \[0, 2\]"),
    ],
)
def test_what_a_fit_alone_refuses_or_reads_otherwise_is_refused(
    tool: Tool, T: Any, labels: list[Any], classes: Any, match: str
) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match=match):
        tool(classifier(T, classes=classes), X, np.array(labels)[np.arange(60) % len(labels)])


def test_tables_of_labels(blobs: tuple[Any, Any]) -> None:
    """Of answers the -1 for none became 0; a class that is a candidate everywhere was one nowhere."""
    X, z = blobs
    T = tp.annotators([tp.symmetric_noise(3, 0.1)] * 2)
    answers = T.sample(z, seed=0)
    answers[::3, 0] = -1
    with pytest.raises(ValueError, match="got columns, each of which it numbers from 0"):
        held_out(classifier(T), X, answers)
    T = tp.partial_labels(3, 0.4)
    masks = T.sample(z, seed=0)
    np.testing.assert_array_equal(held_out(classifier(T), X, masks), classifier(T).fit(X, masks).predict_proba(X))
    always = masks | (np.arange(3) == 0)
    for transition, labels in ((T, always), ("partial:0.4", always), ("estimate", masks)):
        with pytest.raises(ValueError, match="got columns, each of which it numbers from 0"):
            held_out(classifier(transition), X, labels)


def test_other_tools_and_numbers_change_nothing(blobs: tuple[Any, Any]) -> None:
    X, z = blobs
    names = np.array(["c", "b", "a"])
    T = tp.Transition(MATRIX)
    y = T.sample(z, seed=1)
    estimator = classifier(T, classes=list(names))
    alone = estimator.fit(X, names[y])
    search = GridSearchCV(classifier(T, classes=list(names)), {"l2": [alone.l2_]}, cv=2).fit(X, names[y])
    np.testing.assert_array_equal(search.predict_proba(X), alone.predict_proba(X))
    for tool in (voted, bagged, held_out):
        np.testing.assert_array_equal(tool(classifier(T), X, y), alone.predict_proba(X))
