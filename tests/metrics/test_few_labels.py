"""A handful of labels says little, and the scores must not pretend otherwise."""

import warnings

import numpy as np
import pytest

import tproper as tp


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("T", [tp.identity(3), tp.complementary(3)], ids=str)
def test_calibration_of_few_examples_is_unknown(T, n):
    rng = np.random.default_rng(n)
    q = rng.dirichlet(np.ones(3), n)
    y = T.sample(q.argmax(1), seed=0)
    found = tp.weak_calibration(y, q, T).squared_error
    assert not found.informative
    assert found.interval[1] - found.interval[0] > 0.25


def test_examples_that_all_agree_say_nothing_when_they_are_few():
    found = tp.weak_calibration([0, 1], [[0.5, 0.5], [0.5, 0.5]], tp.identity(2)).squared_error
    assert not found.informative
    sure = tp.weak_calibration(np.zeros(10, dtype=int), np.tile([1.0, 0.0], (10, 1)), tp.identity(2)).squared_error
    assert sure.interval == (0.0, 1.0)
    assert not sure.informative


def test_a_calibrated_model_never_gets_an_interval_of_one_point():
    T = tp.identity(4)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        q = rng.dirichlet(np.ones(4), 1000)
        y = (rng.random((1000, 1)) > q.cumsum(1)).sum(1)
        low, high = tp.weak_calibration(y, q, T).squared_error.interval
        assert 0 <= low < high


def test_weights_beyond_what_squares_can_hold():
    """Two rows outweigh all others by more than a double can say: scores and intervals are still numbers."""
    rng = np.random.default_rng(0)
    T, y, p = tp.symmetric_noise(3, 0.2), rng.integers(3, size=300), rng.dirichlet(np.ones(3), 300)
    w = np.where(np.arange(300) < 2, 1e300, 1e-300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = tp.weak_calibration(y, p, T, sample_weight=w)
    low, high = result.interval
    assert 0 <= low <= result.value <= high <= 1
