"""What labels are follows from what T is; its name is for people."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import tproper as tp
from tproper.learn.labels import encode, resolve
from tproper.transitions import Vocabulary, transition_from_dict, transition_to_dict

KINDS = {
    "classes": [tp.identity(3), tp.pair_noise(3, 0.2), tp.complementary(4), tp.Transition.from_counts(np.eye(3) + 1)],
    "names": [
        tp.unlabeled_sets([[0.9, 0.1], [0.2, 0.8]], [5, 5]),
        tp.Transition([[0.5, 0.1], [0.3, 0.1], [0.2, 0.8]]),
        tp.Transition(np.eye(2), weak_labels=["yes", "no"]),
    ],
    "sets": [tp.coarse_labels([[0, 1], [2]])],
    "masks": [tp.partial_labels(3, 0.3), tp.multi_complementary(4, 2)],
    "pairs": [tp.multi_source([tp.identity(2), tp.positive_unlabeled(0.4)])],
    "answers": [tp.annotators([tp.symmetric_noise(3, 0.2), tp.symmetric_noise(3, 0.4)])],
    "positive/unlabeled": [tp.positive_unlabeled(0.4)],
}


@pytest.mark.parametrize(("kind", "T"), [(k, T) for k, group in KINDS.items() for T in group], ids=str)
def test_the_kind_survives_a_new_name_and_a_file(kind: str, T: tp.Transition) -> None:
    T = transition_from_dict(transition_to_dict(T))
    assert T.label_kind == kind
    T.name = "unlabeled_sets of positive_unlabeled bags"
    assert T.label_kind == kind
    back = transition_from_dict(json.loads(json.dumps(transition_to_dict(T))))
    assert (back.label_kind, back.name) == (kind, T.name)
    assert back.same_as(T)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"label_kind: expected one of classes, names, .*, got 'words'"):
        tp.identity(2).label_kind = "words"


def test_renaming_a_pu_transition_changes_nothing_in_the_estimator(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=300)
    X = rng.normal(size=(300, 2)) + 2.0 * z[:, None]
    plain, renamed = tp.positive_unlabeled(0.5), tp.positive_unlabeled(0.5)
    renamed.name = "my PU"
    y = plain.sample(z, 1)
    one, other = (tp.WeakLabelClassifier(transition=T, random_state=0).fit(X, y) for T in (plain, renamed))
    assert one.classes_.tolist() == other.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    tp.save(other, tmp_path / "model")
    loaded = tp.load(tmp_path / "model")
    assert (loaded.transition_.name, loaded.transition_.label_kind) == ("my PU", "positive/unlabeled")
    np.testing.assert_array_equal(loaded.predict_proba(X), other.predict_proba(X))
    for model in (one, other, loaded):
        with pytest.raises(ValueError, match="expected 0 = labeled positive and 1 = unlabeled"):
            model.score(X, y == 0)


def test_pu_labels_have_the_names_that_the_command_writes() -> None:
    T, names = resolve(["spam", "unlabeled"], tp.positive_unlabeled(0.9), ["spam", "ham"])
    assert encode(["unlabeled", "spam", "ham", "unlabeled"], T, names).tolist() == [1, 0, 1, 1]
    assert encode([1, 0, 1], T, names).tolist() == [1, 0, 1]
    # integer classes are no names: 0 stays "labeled positive", whatever the classes are called
    assert encode([1, 0, 1], T, np.array([1, 0])).tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="expected labels among 'spam', 'unlabeled', got 'eggs' at row 0"):
        encode(["eggs"], T, names)


def test_names_inside_sets_and_pairs_are_those_of_classes() -> None:
    words = Vocabulary(tp.coarse_labels([[0, 2], [1]]), ["a", "b", "c"])
    assert words.index[frozenset("ac")] == 0
    both = Vocabulary(tp.multi_source([tp.identity(2), tp.positive_unlabeled(0.5)]), ["a", "b"])
    assert both.names == [(0, "a"), (0, "b"), (1, "a"), (1, "unlabeled")]


def test_pairs_are_read_from_whatever_holds_them() -> None:
    T = tp.multi_source([tp.identity(2), tp.identity(2)])
    pairs, names = [(0, 1), (1, 0), (1, 1)], np.arange(2)
    objects = np.empty(3, dtype=object)
    objects[:] = pairs
    for y in (
        pairs,
        objects,
        np.array(pairs),
        torch.tensor(pairs),
        pd.DataFrame(pairs),
        [1, 2, 3],
        np.array([1, 2, 3]),
    ):
        assert encode(y, T, names).tolist() == [1, 2, 3]


def test_answers_that_nobody_gave_teach_nothing():
    X, T = np.random.default_rng(0).standard_normal((30, 2)), tp.symmetric_noise(3, 0.2)
    none, z = np.full((30, 2), -1), np.arange(30) % 3
    clf = tp.WeakLabelClassifier(tp.annotators([T, T]), calibrate=False)
    with pytest.raises(ValueError, match="y: expected at least one answer, got none in 30 rows"):
        clf.fit(X, none)
    with pytest.raises(ValueError, match="y: expected a candidate set that leaves a class out, got every class"):
        tp.WeakLabelClassifier("partial:0.3").fit(X, np.ones((30, 3), dtype=bool))
    assert clf.fit(X, none, true=z).predict(X).shape == (30,)  # known classes need no answer
    clf.fit(X, np.c_[z, none[:, 0]])
    with pytest.raises(ValueError, match="y: expected at least one row with an answer to score, got none of 30"):
        clf.score(X, none)


@pytest.mark.parametrize("T", [T for group in KINDS.values() for T in group], ids=str)
def test_every_kind_of_label_has_a_score_or_an_error_that_names_another(T: tp.Transition) -> None:
    z = np.arange(60) % T.num_classes
    X, y = np.eye(T.num_classes)[z] + np.random.default_rng(0).normal(size=(60, T.num_classes)), T.sample(z, 1)
    clf = tp.WeakLabelClassifier(T, calibrate=False).fit(X, y)
    if T.diagnose().reconstructible:
        unbiased = tp.weak_accuracy(T.encode(y), clf.predict(X), T).value
        assert clf.score(X, y) == pytest.approx(min(max(unbiased, 0.0), 1.0))
    else:
        with pytest.raises(tp.NotReconstructibleError, match=r"^y: .* no accuracy can be .* use weak_log_likelihood"):
            clf.score(X, y)
        assert np.isfinite(clf.weak_log_likelihood(X, y)).all()
        assert np.isfinite(tp.calibrated_scorer()(clf, X, y))
