"""How far a weak score moves when T's rates move."""

import json

import numpy as np
import pytest
from refusals import refused

import tproper as tp


def data(T, n=4000, seed=0):
    rng = np.random.default_rng(seed)
    K = T.num_classes
    z = rng.integers(0, K, n)
    predicted = np.where(rng.random(n) < 0.7, z, rng.integers(0, K, n))
    q = np.full((n, K), 0.3 / K)
    q[np.arange(n), predicted] += 0.7
    return T.sample(z, rng), predicted, q


def given(score, predicted, q):
    return predicted if score == "accuracy" else q


FUNCTIONS = {"accuracy": tp.weak_accuracy, "log_loss": tp.weak_log_loss, "brier": tp.weak_brier}


@pytest.mark.parametrize("score", FUNCTIONS)
@pytest.mark.parametrize(
    "T",
    [
        tp.symmetric_noise(3, 0.3),
        tp.positive_unlabeled(0.4),
        tp.complementary(3),
        tp.partial_labels(4, 0.3),
        tp.multi_source([tp.symmetric_noise(3, 0.3), tp.pair_noise(3, 0.2)]),
        tp.Transition([[0.6, 0.1], [0.3, 0.2], [0.1, 0.7]]),
        tp.symmetric_noise(500, 0.2),
    ],
    ids=lambda T: T.name,
)
def test_ranges_grow_and_hold_the_score(score, T):
    y, predicted, q = data(T)
    s = tp.sensitivity(score, y, given(score, predicted, q), T)
    value = FUNCTIONS[score](y, given(score, predicted, q), T).value
    assert s.value == pytest.approx(value)
    (low, high), (lower, higher) = s.ranges[0.05], s.ranges[0.1]
    for m, ends in s.ranges.items():  # sampling error widens a range, and a larger move has the larger interval
        assert s.intervals[m][0] <= ends[0] <= ends[1] <= s.intervals[m][1]
        assert s.intervals[m] != ends
    assert s.intervals[0.1][0] <= s.intervals[0.05][0] <= s.intervals[0.05][1] <= s.intervals[0.1][1]
    assert lower < low < value < high < higher
    assert s.rate
    assert s.rate in str(s)
    json.dumps(s.to_dict())


@pytest.mark.parametrize("score", FUNCTIONS)
def test_moves_of_r_are_the_scores_at_other_r(score):
    T = tp.positive_unlabeled(0.4)
    y, predicted, q = data(T)
    s = tp.sensitivity(score, y, given(score, predicted, q), T, moves=[0.1])
    ends = [FUNCTIONS[score](y, given(score, predicted, q), tp.positive_unlabeled(r)).value for r in (0.3, 0.5)]
    assert s.ranges[0.1] == pytest.approx((min(ends), max(ends)))
    assert s.rate == "r = P(labeled | positive)"
    h = 1e-5
    slope = [FUNCTIONS[score](y, given(score, predicted, q), tp.positive_unlabeled(0.4 + d)).value for d in (-h, h)]
    assert s.effect == pytest.approx((slope[1] - slope[0]) / (2 * h), rel=1e-4)


def test_the_rate_that_matters_most_is_the_one_with_the_largest_slope():
    T = tp.binary_noise(0.4, 0.1)
    y, predicted, _ = data(T)
    s = tp.sensitivity("accuracy", y, predicted, T)
    slopes = {}
    for z, make in enumerate([lambda d: tp.binary_noise(0.4 - d, 0.1), lambda d: tp.binary_noise(0.4, 0.1 - d)]):
        low, high = (tp.weak_accuracy(y, predicted, make(d)).value for d in (-1e-5, 1e-5))
        slopes[z] = (high - low) / 2e-5  # per unit of P(label z | class z)
    most = max(slopes, key=lambda z: abs(slopes[z]))
    assert f"class {most})" in s.rate
    assert abs(s.effect) == pytest.approx(abs(slopes[most]), rel=1e-3)


def test_a_wrong_rate_is_in_the_range():
    true, used = tp.positive_unlabeled(0.3), tp.positive_unlabeled(0.38)
    y, predicted, _ = data(true, 20_000)
    at_truth = tp.weak_accuracy(y, predicted, true).value
    low, high = tp.sensitivity("accuracy", y, predicted, used).ranges[0.1]
    assert low < at_truth < high


def test_where_T_could_not_be_inverted_any_score_is_possible():
    T = tp.binary_noise(0.46, 0.46)
    y, predicted, _ = data(T)
    s = tp.sensitivity("accuracy", y, predicted, T)
    assert s.ranges[0.1] == (0.0, 1.0)


@pytest.mark.parametrize("score", FUNCTIONS)
def test_nothing_lies_outside_of_the_possible_values(score):
    true, used = tp.binary_noise(0.45, 0.05), tp.symmetric_noise(2, 0.3)
    z = np.repeat([0, 1], [100, 400])
    y, q = true.sample(z, 0), np.eye(2)[z] * 0.98 + 0.01
    base = FUNCTIONS[score](y, given(score, z, q), used)
    s = tp.sensitivity(score, y, given(score, z, q), used)
    assert base.value != base.shown == s.value  # the unbiased estimate is not possible: the wrong T makes it so
    for low, high in [*s.ranges.values(), *s.intervals.values()]:
        assert base.limits[0] <= low <= high <= base.limits[1]


@pytest.mark.parametrize("T", [tp.identity(3), tp.multi_complementary(3, 1), tp.coarse_labels([[0], [1], [2]])])
def test_a_transition_without_rates_says_so(T):
    y, predicted, _ = data(T)
    s = tp.sensitivity("accuracy", y, predicted, T)
    assert s.ranges[0.1] == (s.value, s.value)
    assert str(s).endswith("T has no rate that could be moved")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: tp.sensitivity("auc", [0, 1], [0, 1], tp.identity(2)),
            "score",
        ),
        (
            lambda: tp.sensitivity("accuracy", [0, 1], [0, 1], tp.identity(2), moves=[]),
            "moves",
        ),
        (
            lambda: tp.sensitivity("accuracy", [0, 1], [0, 1], tp.identity(2), moves=[2]),
            "moves",
        ),
        (
            lambda: tp.sensitivity("accuracy", [0, 1], [0, 1], tp.identity(2), moves=0.1),
            "moves",
        ),
        (lambda: tp.sensitivity("accuracy", [0, 2], [0, 1], tp.identity(2)), "labels"),
        (lambda: tp.sensitivity("accuracy", [0, 1], [0], tp.identity(2)), "predictions"),
        (
            lambda: tp.sensitivity("log_loss", [0, 1], [[0.0, 1.0], [0.5, 0.5]], tp.symmetric_noise(2, 0.2)),
            "predictions",
        ),
        (
            lambda: tp.sensitivity("accuracy", [0, 1], [0, 1], tp.identity(2), classes=["a"]),
            "classes",
        ),
        (
            lambda: tp.sensitivity("accuracy", [[0], [1]], [0, 1], tp.annotators([tp.identity(2)]), annotators=[]),
            "annotators",
        ),
    ],
)
def test_bad_input(call, message):
    with refused(message):
        call()
