"""Rare classes, rare labels and few rows in which models differ: what is not seen is not excluded."""

import numpy as np
import pytest

import tproper as tp


def predicted(rng, z, K, right):
    return np.where(rng.random(len(z)) < right, z, (z + rng.integers(1, K, len(z))) % K)


@pytest.mark.parametrize("T", [tp.identity(2), tp.symmetric_noise(2, 0.2), tp.positive_unlabeled(0.1)])
def test_a_difference_that_was_not_seen_may_still_be_there(T):
    y, p = np.ones(200, dtype=np.int64), np.ones(200, dtype=np.int64)
    test = tp.paired_test(y, p, p, T, "accuracy")
    low, high = test.interval
    assert low == pytest.approx(-high)
    assert 2.5 / 200 < high < 3.7 / 200  # the rule of three
    assert test.better is None


def test_two_equally_good_models_seldom_win_where_the_label_is_rare():
    """One positive in ten is labeled, one row in twenty is positive, and the models differ in a few rows."""
    rng, T, wins = np.random.default_rng(7), tp.positive_unlabeled(0.1), 0
    for _ in range(200):
        z = (rng.random(300) > 0.05).astype(np.int64)
        a = predicted(rng, z, 2, 0.9)
        b = np.where(rng.random(300) < 0.9, a, predicted(rng, z, 2, 0.9))
        wins += tp.paired_test(T.sample(z, int(rng.integers(1 << 30))), a, b, T, "accuracy").better is not None
    assert wins <= 13


def test_where_models_differ_often_the_test_has_its_level():
    rng, wins = np.random.default_rng(8), 0
    for _ in range(300):
        z = rng.integers(3, size=200)
        a, b = predicted(rng, z, 3, 0.7), predicted(rng, z, 3, 0.7)
        wins += tp.paired_test(z, a, b, tp.identity(3), "accuracy").better is not None
    assert 5 <= wins <= 25


def test_a_class_that_no_row_has_leaves_balanced_accuracy_unknown():
    y = np.array([0, 1] * 50)
    score = tp.weak_balanced_accuracy(y, y, tp.identity(3))
    assert not score.informative
    assert "class 2" in score.note


@pytest.mark.parametrize(("share", "n"), [(0.01, 300), (0.03, 100), (0.03, 1000)])
@pytest.mark.parametrize("T", [tp.identity(2), tp.symmetric_noise(2, 0.2)])
def test_balanced_accuracy_of_rare_classes_covers_also_where_it_is_shown(share, n, T):
    rng, prior = np.random.default_rng([9, n]), np.array([share, 1 - share])
    held = shown = 0
    for _ in range(100):
        z = rng.choice(2, n, p=prior)
        p = np.where(rng.random(n) < np.array([0.6, 0.9])[z], z, 1 - z)
        score = tp.weak_balanced_accuracy(T.sample(z, int(rng.integers(1 << 30))), p, T, prior=prior)
        shown += score.informative
        held += score.informative and score.interval[0] <= 0.75 <= score.interval[1]
    assert held >= 0.88 * shown


def test_a_loss_below_what_is_possible_does_not_read_as_perfection():
    rng, T = np.random.default_rng(0), tp.symmetric_noise(3, 0.2)
    z = rng.integers(3, size=300)
    q = np.full((300, 3), 0.01)
    q[np.arange(300), z] = 0.98
    scores = (tp.weak_log_loss(T.sample(z, seed), q, T) for seed in range(100))
    below = [s for s in scores if s.value < 0 and s.informative]
    assert below
    assert all("cannot be told apart from 0" in str(s) and s.interval[1] > 0 for s in below)


def test_an_accuracy_that_is_returned_is_possible_and_a_false_transition_is_told():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(1)
    z = rng.integers(2, size=400)
    X = rng.normal(size=(400, 2)) + 3 * np.eye(2)[z]
    T = tp.symmetric_noise(2, 0.3)
    clf = tp.WeakLabelClassifier(T, calibrate=False, random_state=0).fit(X, T.sample(z, 0))
    with pytest.warns(UserWarning, match="contradict"):
        assert clf.score(X, z) == 1.0  # clean labels, of which T says that three in ten are wrong
    assert 0 <= clf.score(X[:30], np.asarray(T.sample(z, 1))[:30]) <= 1


def test_a_rare_class_that_was_never_predicted_is_not_taken_for_known():
    """Samples without a row predicted as the rare class were the only ones shown, and none of them held the truth."""
    rng, share, right = np.random.default_rng(11), 0.01, np.array([0.6, 0.9, 0.9, 0.9])
    prior = np.array([share, *[(1 - share) / 3] * 3])
    held = shown = 0
    for _ in range(200):
        z = rng.choice(4, 100, p=prior)
        p = np.where(rng.random(100) < right[z], z, (z + rng.integers(1, 4, 100)) % 4)
        score = tp.weak_balanced_accuracy(z, p, tp.identity(4), prior=prior)
        shown += score.informative
        held += score.informative and score.interval[0] <= right.mean() <= score.interval[1]
    assert held >= 0.88 * shown
