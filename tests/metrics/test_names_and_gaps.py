"""Every function that reads labels takes the names and gaps that `fit` takes, and says what it says of rows of T."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tproper as tp
from tproper.metrics import forward_risk

T = tp.Transition([[0.8, 0.2, 0.1], [0.1, 0.7, 0.1], [0.1, 0.1, 0.8]])
NAMES = np.array(["ant", "bee", "cat"])
NAMED = T.named(NAMES)
N = 300


def drawn() -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=N)
    p = rng.dirichlet([1, 1, 1], N) * 0.4 + 0.6 * np.eye(3)[z]
    return T.sample(z, 1), z, p, rng.random(N) < 0.15


def flatter(p: Any) -> Any:
    q = np.sqrt(p)
    return q.div(q.sum(axis=1), axis=0) if isinstance(q, pd.DataFrame) else q / q.sum(axis=1, keepdims=True)


FUNCTIONS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {  # of labels, probabilities, predictions, T
    "weak_accuracy": lambda y, p, d, t: tp.weak_accuracy(y, d, t).interval,
    "weak_log_loss": lambda y, p, d, t: tp.weak_log_loss(y, p, t).interval,
    "weak_brier": lambda y, p, d, t: tp.weak_brier(y, p, t).interval,
    "weak_balanced_accuracy": lambda y, p, d, t: tp.weak_balanced_accuracy(y, d, t).interval,
    "weak_calibration": lambda y, p, d, t: tp.weak_calibration(y, p, t).to_dict()["interval"],
    "paired_test": lambda y, p, d, t: tp.paired_test(y, p, flatter(p), t).p_value,
    "forward_risk": lambda y, p, d, t: forward_risk(y, p, t),
    "weak_prevalence": lambda y, p, d, t: tp.weak_prevalence(y, t).interval,
    "check_transition": lambda y, p, d, t: tp.check_transition(y, t, p).p_value,
    "calibrate": lambda y, p, d, t: tp.calibrate(p, y, t).probabilities(np.eye(3) * 0.7 + 0.1),
    "conformal": lambda y, p, d, t: tp.conformal(p, y, t).threshold,
    "sensitivity": lambda y, p, d, t: list(tp.sensitivity("accuracy", y, d, t).ranges.values()),
    "evaluate": lambda y, p, d, t: tp.evaluate(p, y, t).scores["accuracy"].interval,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("none", [None, np.nan, pd.NA, ""], ids=repr)
def test_names_and_gaps_are_read_as_rows_of_the_labelled(name: str, none: Any) -> None:
    y, z, p, gap = drawn()
    rows = FUNCTIONS[name](y[~gap], p[~gap], z[~gap], T)
    words = NAMES[y].astype(object)
    words[gap] = none
    got = FUNCTIONS[name](words, p, NAMES[z], NAMED)
    if name != "paired_test":
        np.testing.assert_allclose(got, rows, rtol=1e-6, atol=1e-9)
    else:
        assert got == pytest.approx(rows)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_are_rows_of_a_T_without_names_alone(name: str) -> None:
    y, z, p, gap = drawn()
    rows = FUNCTIONS[name](y[~gap], p[~gap], z[~gap], T)
    numbers = np.where(gap, np.nan, y)
    np.testing.assert_allclose(FUNCTIONS[name](numbers, p, z, T), rows, rtol=1e-6, atol=1e-9)
    with pytest.raises(tp.InputError, match=r"expected labels among 'ant', 'bee', 'cat', got . at row 0; if these are"):
        FUNCTIONS[name](y, p, NAMES[z], NAMED)
    with pytest.raises(tp.InputError, match="does not treat them alike"):
        FUNCTIONS[name](NAMES[y], p, z, T)
    with pytest.raises(tp.InputError, match=r"expected integers in \[0, 3\), got -1"):
        FUNCTIONS[name](np.where(gap, -1, y), p, z, T)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("weak_prevalence", "calibrate")])
def test_columns_of_probabilities_are_taken_by_name(name: str) -> None:
    """A T whose names stand in another order: a frame's columns are its classes, an array's nobody knows."""
    y, z, p, _ = drawn()
    turned = tp.Transition(T.matrix()[::-1, ::-1]).named(NAMES[::-1])
    frame = pd.DataFrame(p, columns=NAMES)
    expected = FUNCTIONS[name](NAMES[y], p, NAMES[z], NAMED)
    np.testing.assert_allclose(FUNCTIONS[name](NAMES[y], frame, NAMES[z], turned), expected, rtol=0.02, atol=1e-3)
    if name not in ("weak_accuracy", "weak_balanced_accuracy", "sensitivity"):
        with pytest.raises(tp.InputError, match="expected a frame with the columns"):
            FUNCTIONS[name](NAMES[y], p, NAMES[z], turned)


@pytest.mark.parametrize("none", [None, np.nan, pd.NA, ""], ids=repr)
def test_a_fit_leaves_rows_without_a_label_out(none: Any) -> None:
    y, z, _, gap = drawn()
    X = np.random.default_rng(1).normal(size=(N, 2)) + np.array([[0, 2], [2, 0], [-2, -2]])[z]
    words = NAMES[y].astype(object)
    words[gap] = none
    w, groups = np.random.default_rng(2).random(N) + 0.5, np.repeat(np.arange(N // 3), 3)
    clf = tp.WeakLabelClassifier(NAMED, random_state=0)
    some = clf.fit(X[~gap], NAMES[y[~gap]], sample_weight=w[~gap], groups=groups[~gap]).predict_proba(X)
    every = tp.WeakLabelClassifier(NAMED, random_state=0).fit(X, words, sample_weight=w, groups=groups)
    np.testing.assert_allclose(every.predict_proba(X), some)
    assert every.score(X, words) == pytest.approx(clf.score(X[~gap], words[~gap]))
    assert np.isnan(every.weak_log_likelihood(X, words)).tolist() == gap.tolist()
    for scorer in (tp.weak_scorer("log_loss"), tp.calibrated_scorer()):
        assert scorer(every, X, words) == pytest.approx(scorer(every, X[~gap], words[~gap]))
    tuned = tp.WeakLabelClassifier(NAMED, tune={"l2": [1e-3, 1e-1]}, calibrate=False).fit(X, words)
    assert tuned.classes_.tolist() == NAMES.tolist()
    estimated = tp.WeakLabelClassifier("estimate", calibrate=False, random_state=0).fit(X, words)
    assert estimated.transition_.classes == NAMES.tolist()
    assert "ant" in str(estimated.transition_)
    assert "'ant', 'bee', 'cat'" in repr(NAMED)
    frame = every.predict_frame(pd.DataFrame(X, index=np.arange(N) + 7))
    assert frame.columns.tolist() == NAMES.tolist()
    assert frame.index[0] == 7
