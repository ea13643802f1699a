"""What labels are follows from what T is; its name is for people."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import tproper as tp
from tproper.transitions import in_sorted_order, settle, transition_from_dict, transition_to_dict

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
    assert one.classes_.tolist() == other.classes_.tolist() == [False, True]
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    tp.save(other, tmp_path / "model")
    loaded = tp.load(tmp_path / "model")
    assert (loaded.transition_.name, loaded.transition_.label_kind) == ("my PU", "positive/unlabeled")
    np.testing.assert_array_equal(loaded.predict_proba(X), other.predict_proba(X))
    for model in (one, other, loaded):
        assert model.score(X, y == 0) == model.score(X, y) == model.score(X, np.where(y == 0, "known", None))


def test_pu_labels_have_the_names_that_the_command_writes() -> None:
    space = settle(["spam", "unlabeled"], tp.positive_unlabeled(0.9), ["spam", "ham"])
    assert space.encode(["unlabeled", "spam", "ham", "unlabeled"]).tolist() == [1, 0, 1, 1]
    assert space.names == ["spam", "unlabeled"]
    with pytest.raises(tp.InputError, match="expected labels among 'spam', 'unlabeled', got 'eggs' at row 0"):
        space.encode(["eggs"])


def test_names_inside_sets_and_pairs_are_those_of_classes() -> None:
    assert tp.coarse_labels([[0, 2], [1]]).named(["a", "b", "c"]).labels.names[0] == frozenset("ac")
    both = tp.multi_source([tp.identity(2), tp.positive_unlabeled(0.5)]).named(["a", "b"])
    assert both.labels.names == [(0, "a"), (0, "b"), (1, "a"), (1, "unlabeled")]


@pytest.mark.parametrize("T", [T for group in KINDS.values() for T in group], ids=str)
@pytest.mark.parametrize("named", [False, True])
def test_what_is_decoded_is_read_back(T: tp.Transition, named: bool) -> None:
    names = ["walnut", "ash", "oak", "elm"][: T.num_classes]
    T = T.named(names) if named else T
    space = T.labels
    labels = space.all()
    assert space.row(labels).tolist() == list(range(len(labels)))
    words = space.decode(labels)
    assert words == space.names
    np.testing.assert_array_equal(space.encode(words), labels)
    back = transition_from_dict(json.loads(json.dumps(transition_to_dict(T))))
    assert (back.classes, back.labels.names) == (T.classes, space.names)
    assert space.to_dict()["classes"] == (names if named else None)


@pytest.mark.parametrize("T", [T for group in KINDS.values() for T in group], ids=str)
def test_in_sorted_order_T_says_the_same_of_every_name(T: tp.Transition) -> None:
    names = ["walnut", "ash", "oak", "elm"][: T.num_classes]
    ours, given = in_sorted_order(T.named(names)), T.named(names)
    assert ours.classes == sorted(names)
    assert ours.label_kind == T.label_kind
    columns = [names.index(name) for name in ours.classes]
    words = given.labels.names
    rows = [words.index(name) for name in ours.labels.names]
    np.testing.assert_allclose(ours.matrix(), T.matrix()[np.ix_(rows, columns)], rtol=1e-12)
    assert T.classes is None


def test_estimates_keep_their_error_in_another_order() -> None:
    T = tp.Transition.from_counts(np.array([[30, 2, 1], [3, 40, 2], [1, 1, 20]])).named(["c", "a", "b"])
    ours, order = in_sorted_order(T), [1, 2, 0]
    np.testing.assert_allclose(ours.stderr, T.stderr[np.ix_(order, order)])
    np.testing.assert_allclose(ours.interval()[1], T.interval()[1][np.ix_(order, order)], atol=0.03)  # drawn anew
    assert ours.samples(3).shape == (3, 3, 3)


def test_pairs_are_read_from_whatever_holds_them() -> None:
    T = tp.multi_source([tp.identity(2), tp.identity(2)])
    pairs = [(0, 1), (1, 0), (1, 1)]
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
        assert T.labels.encode(y).tolist() == [1, 2, 3]
    assert T.labels.missing([(0, 1), (1, None), None]).tolist() == [False, True, True]


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
    if T._weak_labels == ["yes", "no"]:
        y = np.array(T.labels.decode(y))  # labels that have names go by them
    clf = tp.WeakLabelClassifier(T, calibrate=False).fit(X, y)
    if T.diagnose().reconstructible:
        assert clf.score(X, y) == pytest.approx(np.clip(tp.weak_accuracy(y, clf.predict(X), T).value, 0, 1))
    else:
        with pytest.raises(tp.NotReconstructibleError, match=r"^y: .* no accuracy can be .* use weak_log_likelihood"):
            clf.score(X, y)
        assert np.isfinite(clf.weak_log_likelihood(X, y)).all()
        assert np.isfinite(tp.calibrated_scorer()(clf, X, y))
