"""Positives among unlabeled rows, as tables have them: true and false, 1 and 0, a name and an empty cell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from sklearn.metrics import roc_auc_score

import tproper as tp

Run = Callable[..., Any]
ALONE = ["--holdout", "0", "--calibrate", "none"]
SPELLINGS = {
    "booleans": (("true", "false"), "true,false"),
    "numbers": (("1", "0"), "1,0"),
    "a number and nothing": (("1", ""), "1,0"),
    "a name and nothing": (("yes", ""), "yes,no"),
    "names": (("yes", "unlabeled"), "yes,no"),
}


def positives(n: int = 400) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=n)
    return rng.normal(size=(n, 2)) + 2.5 * z[:, None], z, (z == 1) & (rng.random(n) < 0.5)


def table(path: Path, words: tuple[str, str]) -> Path:
    X, _, labeled = positives()
    rows = [f"{a:.5f},{b:.5f},{words[0] if y else words[1]}" for (a, b), y in zip(X, labeled, strict=True)]
    path.write_text("\n".join(["u,v,y", *rows]) + "\n")
    return path


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("transition", ["pu:0.5", "estimate:pu"])
def test_the_command_reads_them(spelling: str, transition: str, tmp_path: Path, run: Run) -> None:
    words, classes = SPELLINGS[spelling]
    data, (X, z, _) = table(tmp_path / "t.csv", words), positives()
    common = ["train", data, "--label", "y", "--transition", transition, *ALONE, "--out", tmp_path / "m"]
    result = run(*common, "--classes", classes)
    assert result.exit_code == 0, result.output
    model = tp.load(tmp_path / "m")
    positive = words[0] if words[0] != "1" else 1
    column = model.classes_.tolist().index(positive)
    assert model.classes_.tolist() == sorted(model.classes_.tolist())
    assert roc_auc_score(z, model.predict_proba(X)[:, column]) > 0.95
    refused = run(*common, "--force")  # which one is positive?
    assert refused.exit_code == 2
    assert "--classes" in refused.stderr


@pytest.mark.parametrize("spelling", [s for s in SPELLINGS if s != "numbers"])
@pytest.mark.parametrize("transition", [tp.positive_unlabeled(0.5), ("estimate", {"kind": "pu"})], ids=["T", "none"])
def test_python_reads_them(spelling: str, transition: Any) -> None:
    X, z, labeled = positives()
    words = {"booleans": (True, False), "a number and nothing": (True, None)}.get(spelling, SPELLINGS[spelling][0])
    y = np.array([words[0] if known else words[1] for known in labeled], dtype=object)
    clf = tp.WeakLabelClassifier(transition, calibrate=False, random_state=0).fit(X, y)
    assert clf.classes_.tolist() == [False, True]
    assert roc_auc_score(z, clf.predict_proba(X)[:, 1]) > 0.95
    assert clf.score(X, y) > 0.8


def test_numbers_are_rows_of_a_T_that_is_given() -> None:
    X, z, labeled = positives()
    T = tp.positive_unlabeled(0.5)
    clf = tp.WeakLabelClassifier(T, calibrate=False).fit(X, np.where(labeled, 0, 1))
    assert clf.classes_.tolist() == [False, True]
    assert roc_auc_score(z, clf.predict_proba(X)[:, 1]) > 0.95
    named = tp.WeakLabelClassifier(T, classes=[1, 0], calibrate=False).fit(X, labeled.astype(int))
    assert named.classes_.tolist() == [0, 1]
    np.testing.assert_allclose(named.predict_proba(X), clf.predict_proba(X), atol=1e-6)
    for y in (labeled.astype(int), np.where(labeled, 1, -1), np.where(labeled, 1.0, np.nan)):
        for transition in (T, ("estimate", {"kind": "pu"})):
            if y is not None and transition is T and set(np.unique(y)) == {0, 1}:
                continue  # rows of T the other way round: their share is possible here
            with pytest.raises(tp.InputError, match="expected True = labeled positive"):
                tp.WeakLabelClassifier(transition).fit(X, y)


def test_scores_do_not_mistake_the_columns_of_probabilities() -> None:
    X, _, labeled = positives()
    T = tp.positive_unlabeled(0.5)
    clf = tp.WeakLabelClassifier(T, calibrate=False).fit(X, labeled)
    p = clf.predict_proba(X)
    right = tp.weak_accuracy(labeled, clf.predict(X), T).value
    assert right == pytest.approx(tp.weak_accuracy(labeled, p.argmax(axis=1) == 1, clf.transition_).value)
    assert right == pytest.approx(clf.score(X, labeled))
    assert tp.weak_brier(labeled, clf.predict_frame(X), T).value == pytest.approx(
        tp.weak_brier(labeled, p, clf.transition_).value
    )
    with pytest.raises(tp.InputError, match="expected a frame with the columns"):
        tp.weak_brier(labeled, p, T)
    with refused("predictions"):
        tp.weak_accuracy(labeled, p.argmax(axis=1), T)


def test_two_classes_of_which_one_may_mean_nothing_are_told_of(tmp_path: Path, run: Run) -> None:
    data = table(tmp_path / "t.csv", ("1", "0"))
    common = ["train", data, "--label", "y", "--transition", "estimate", *ALONE, "--out", tmp_path / "m", "--json"]
    result = run(*common, "--classes", "1,0")
    assert result.exit_code == 0, result.output
    assert any("ask for --transition estimate:pu" in note for note in json.loads(result.stdout)["warnings"])
