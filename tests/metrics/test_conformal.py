"""Prediction sets from weak labels hold the true class as often as they say."""

import numpy as np
import pytest

import tproper as tp

K = 4


def world(seed, n):
    """Probabilities of a model that is too sure of itself, and classes."""
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((n, 5)) @ np.random.default_rng(1).standard_normal((5, K))
    p = np.exp(v) / np.exp(v).sum(axis=1, keepdims=True)
    z = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
    q = np.exp(1.5 * v)
    return q / q.sum(axis=1, keepdims=True), z


def covered(found, q, z):
    return found.sets(q)[np.arange(len(z)), z].mean()


def test_clean_labels_give_the_threshold_of_split_conformal_prediction():
    q, z = world(0, 199)
    for level in (0.5, 0.8, 0.9):
        own = np.sort(q[np.arange(199), z])[::-1]
        rank = int(np.ceil(level * 200))  # of the classes' probabilities, from the largest down
        found = tp.conformal(q, z, tp.identity(K), level)
        at = int((own >= found.threshold).sum())
        assert rank <= at <= rank + 2  # a little more where the bootstrap's mean falls short


FAMILIES = {
    "noisy": tp.symmetric_noise(K, 0.3),
    "pair": tp.pair_noise(K, 0.3),
    "partial": tp.partial_labels(K, 0.3),
    "complementary": tp.complementary(K),
    "annotators": tp.annotators([tp.symmetric_noise(K, e) for e in (0.2, 0.3, 0.4)]),
    "counted": tp.symmetric_noise(K, 0.3),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_sets_hold_the_level_and_the_interval_holds_their_coverage(name):
    T, shares, held = FAMILIES[name], [], []
    new = world(99, 10_000)
    for seed in range(12):
        q, z = world(seed, 600)
        told = T
        if name == "counted":
            clean = world(100 + seed, 300)[1]
            counts = np.zeros((K, K))
            np.add.at(counts, (T.sample(clean, seed), clean), 1)
            told = tp.Transition.from_counts(counts)
        found = tp.conformal(q, T.sample(z, seed), told)
        low, high = found.coverage.interval
        shares.append(covered(found, *new))
        held.append(low <= covered(found, q, z) <= high)
    assert 0.88 < np.mean(shares) < 0.95
    assert np.mean(held) > 0.8


def test_positive_and_unlabeled_rows_have_sets_too():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(4000)
    p = 1 / (1 + np.exp(-2 * x))
    z = (rng.random(4000) > p).astype(int)  # class 0 is positive
    T = tp.positive_unlabeled(0.5)
    found = tp.conformal(np.c_[p, 1 - p], T.sample(z, 0), T)
    assert abs(covered(found, np.c_[p, 1 - p], z) - 0.9) < 0.04


def test_labels_that_say_nothing_give_all_classes():
    q, z = world(0, 60)
    T = tp.symmetric_noise(K, 0.7)
    found = tp.conformal(q, T.sample(z, 0), T, 0.95)
    assert found.sets(q).mean() > 0.9
    assert not found.coverage.informative or found.coverage.interval[1] == 1


def test_no_label_need_be_drawn_again_for_the_same_answer():
    q, z = world(3, 500)
    T = tp.partial_labels(K, 0.3)
    y = T.sample(z, 0)
    a, b = tp.conformal(q, y, T), tp.conformal(q, y, T)
    assert a.to_dict() == b.to_dict()
    assert "if the labels came from" in str(a)


def test_rows_in_groups_are_known_less_well():
    q, z = world(4, 200)
    T = tp.symmetric_noise(K, 0.3)
    q, y = np.repeat(q, 5, axis=0), np.repeat(T.sample(z, 0), 5)
    alone, grouped = tp.conformal(q, y, T), tp.conformal(q, y, T, groups=np.repeat(np.arange(200), 5))
    assert grouped.coverage.stderr > 1.5 * alone.coverage.stderr


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"level": 1.0}, "level"),
        ({"level": 0}, "level"),
        ({"probabilities": np.ones((3, K))}, "probabilities"),
        ({"labels": [0, 1, K]}, "labels"),
    ],
)
def test_wrong_calls_name_the_argument(change, argument):
    given = {"probabilities": np.full((3, K), 1 / K), "labels": [0, 1, 2], "transition": tp.identity(K)} | change
    with pytest.raises(tp.InputError, match=f"^{argument}"):
        tp.conformal(**given)
