"""Calibrated probabilities are never much worse than the shares of the classes, and good ones stay as they are."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.preprocessing import scale

import tproper as tp
from tproper.learn.shares import class_shares

K = 4


def quadratic(seed, n):
    """Classes that no line tells apart."""
    A = np.random.default_rng(1000 + seed).standard_normal((K, 5, 5))
    X = np.random.default_rng(seed).standard_normal((n, 5))
    v = 0.4 * np.einsum("ni,kij,nj->nk", X, A, X)
    return X, v


def wide(seed, n):
    """As many features as rows."""
    W = np.random.default_rng(1000 + seed).standard_normal((200, K)) * 3 / np.sqrt(200)
    X = np.random.default_rng(seed).standard_normal((n, 200))
    return X, X @ W


def linear(seed, n):
    W = np.random.default_rng(1000 + seed).standard_normal((5, K)) * 1.5
    X = np.random.default_rng(seed).standard_normal((n, 5))
    return X, X @ W


def drawn(world, seed, n):
    X, v = world(seed, n)
    p = np.exp(v - v.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    z = (np.random.default_rng(7 + seed).random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
    return X, z


def losses(world, T, seed, n=200):
    """Log loss of the model's probabilities and of the class shares from the same labels, on new rows."""
    X, z = drawn(world, seed, n + 4000)
    y = T.encode(T.sample(z[:n], seed))
    clf = tp.WeakLabelClassifier(T, classes=list(range(K)), random_state=0).fit(X[:n], y.numpy())
    shares = class_shares(T, y, np.ones(n))
    p, true = clf.predict_proba(X[n:]), z[n:]
    return -np.log(p[np.arange(4000), true]).mean(), -np.log(shares[true]).mean(), clf


@pytest.mark.parametrize("world", [quadratic, wide])
@pytest.mark.parametrize("T", [tp.symmetric_noise(K, 0.3), tp.complementary(K)], ids=lambda T: T.name)
def test_a_model_that_cannot_be_right_is_no_worse_than_the_shares(world, T):
    found = [losses(world, T, seed) for seed in range(5)]
    assert max(model - shares for model, shares, _ in found) < 0.04
    assert any(clf.calibrator_.drawn > 0.5 for _, _, clf in found)
    told = next(clf.calibrator_ for _, _, clf in found if clf.calibrator_.drawn > 0.5)
    assert any("drawn to the shares of the classes by" in note for note in told.notes)
    assert tp.Calibrator.from_dict(told.to_dict()).drawn == told.drawn


def test_a_model_that_knows_more_stays_as_it_is():
    for seed in range(3):
        model, shares, clf = losses(linear, tp.symmetric_noise(K, 0.3), seed, 400)
        assert model < shares - 0.2
        assert clf.calibrator_.drawn == 0


def test_shares_are_the_likeliest_with_one_more_row_of_each_class():
    T, n = tp.Transition([[0.7, 0.2, 0.1], [0.2, 0.7, 0.2], [0.1, 0.1, 0.7]]), 3000
    z = np.repeat([0, 1, 2], [2000, 700, 300])
    labels = torch.as_tensor(T.sample(z, 0))
    found = class_shares(T, labels, np.ones(n))

    def likelihood(pi):
        return np.log(T.matrix()[labels] @ pi).sum() + np.log(pi).sum()

    rng = np.random.default_rng(0)
    for _ in range(50):
        other = np.abs(found + 0.01 * rng.standard_normal(3))
        assert likelihood(found) >= likelihood(other / other.sum())
    clean = class_shares(tp.identity(3), torch.as_tensor(z), np.ones(n))
    np.testing.assert_allclose(clean, [2001 / 3003, 701 / 3003, 301 / 3003], atol=1e-6)


def test_shares_that_a_row_went_into_do_not_judge_that_row():
    """Labels that say nothing of noise scores: no shares save anything, on average, over those of all models."""
    T, falls = tp.complementary(K), []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        prior = np.array([0.7, 0.1, 0.1, 0.1])
        scores = np.log(prior) + 0.7 * rng.standard_normal((150, K))
        found = tp.calibrate(scores, T.sample(rng.choice(K, 150, p=prior), rng), T)
        if found.drawn == 1:
            fresh, new = (
                T.sample(rng.choice(K, 5000, p=prior), rng),
                np.log(prior) + 0.7 * rng.standard_normal((5000, K)),
            )
            before = torch.softmax(torch.as_tensor(new), -1).numpy()
            risks = [
                -np.log(q @ T.matrix().T)[np.arange(5000), fresh].mean() for q in (before, found.probabilities(new))
            ]
            falls.append(found.gain.value - (risks[0] - risks[1]))
    assert len(falls) > 10
    assert np.mean(falls) < 2 * np.std(falls) / len(falls) ** 0.5


def test_groups_that_are_worth_few_rows_change_nothing():
    """Twenty labels, each on 25 rows, are twenty labels."""
    rng, T = np.random.default_rng(0), tp.complementary(3)
    code = np.repeat(np.arange(20), 25)
    scores = 3 * rng.standard_normal((20, 3))[code] + 0.3 * rng.standard_normal((500, 3))
    shared = T.sample(rng.integers(0, 3, 20), rng)[code]
    found = tp.calibrate(scores, shared, T, groups=code)
    assert found.is_identity
    assert not found.gain.informative
    assert "which is what these groups are worth" in found.notes[0]
    assert not tp.calibrate(scores, shared, T).is_identity
    own = T.sample(rng.integers(0, 3, 500), rng)
    assert tp.calibrate(scores, own, T, groups=code).gain.informative


def test_a_good_model_is_not_given_up_where_too_little_is_known_of_t():
    """A judge calls one class by the name of another, so that T, from a few checked rows, can hardly be inverted: gains
    over the shares, by its targets, say nothing. A model right in nine rows of ten became the class shares."""

    table = load_digits(as_frame=True).frame.sample(frac=1, random_state=0)
    X, z = scale(table.drop(columns="target").to_numpy()), table["target"].to_numpy()
    habits = np.vstack([0.95 * tp.symmetric_noise(10, 0.2).matrix(), np.full((1, 10), 0.05)])  # it refuses some rows
    habits[[3, 8], 3] = habits[[8, 3], 3]
    weak = tp.Transition(habits).sample(z, seed=1)
    checked = np.where(np.random.default_rng(0).random(len(z)) < 1 / 6, z, -1)
    train = np.arange(len(z)) % 3 != 1
    T = tp.estimate_transition(weak[train], true=checked[train], X=X[train], num_classes=10, random_state=0)
    clf = tp.WeakLabelClassifier(T, random_state=0).fit(X[train], weak[train])
    assert clf.calibrator_.drawn == 0
    assert (clf.predict(X[~train]) == z[~train]).mean() > 0.8
