"""Rows of one group are not independent: what scores, tests and calibration make of groups."""

import numpy as np
import pytest

import tproper as tp

K = 4
T = tp.symmetric_noise(K, 0.3)
EVEN = np.full(K, 1 / K)
BINS = {"bins": 4, "strategy": "uniform"}


def sample(rng, groups, each, shared):
    """Rows of groups whose share of right predictions differs; with `shared` a group has one class and label."""
    code = np.repeat(np.arange(groups), each)
    z = rng.integers(K, size=groups)
    y = np.asarray(T.sample(z, seed=int(rng.integers(1 << 30))))[code]
    z = z[code]
    if not shared:
        y = np.asarray(T.sample(z, seed=int(rng.integers(1 << 30))))
    right = rng.random(len(code)) < rng.beta(3, 1.5, groups)[code]
    predicted = np.where(right, z, (z + rng.integers(1, K, len(code))) % K)
    q = np.full((len(code), K), 0.1)
    q[np.arange(len(code)), predicted] = rng.uniform(0.5, 0.9, len(code))
    return code, y, predicted, q / q.sum(1, keepdims=True)


SCORES = {
    "accuracy": lambda y, p, q, **more: tp.weak_accuracy(y, p, T, **more),
    "balanced": lambda y, p, q, **more: tp.weak_balanced_accuracy(y, p, T, **more),
    "balanced, shares known": lambda y, p, q, **more: tp.weak_balanced_accuracy(y, p, T, prior=EVEN, **more),
    "log loss": lambda y, p, q, **more: tp.weak_log_loss(y, q, T, **more),
    "Brier": lambda y, p, q, **more: tp.weak_brier(y, q, T, **more),
    "paired": lambda y, p, q, **more: tp.paired_test(y, q, q[:, ::-1], T, **more),
    "calibration": lambda y, p, q, **more: tp.weak_calibration(y, q, T, **BINS, **more).squared_error,
    "class-wise": lambda y, p, q, **more: tp.weak_calibration(y, q, T, **BINS, classwise=True, **more).squared_error,
}


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES.keys())
def test_rows_that_are_repeated_say_what_one_of_them_says(score):
    """Five copies of a row in one group are one row: the same value, and an interval as wide."""
    _, y, p, q = sample(np.random.default_rng(3), 400, 1, shared=False)
    once = score(y, p, q)
    five = np.repeat(np.arange(400), 5)
    again, naive = (score(y[five], p[five], q[five], **more) for more in ({"groups": five}, {}))
    # bins show a variance that is freed of its own noise: 5 rows are not quite one there
    assert again.value == pytest.approx(once.value, rel=1e-9 if "cal" not in once.name else 0.05, abs=2e-4)
    width, own, none = (s.interval[1] - s.interval[0] for s in (again, once, naive))
    assert width == pytest.approx(own, rel=0.1)
    assert none < 0.75 * own


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES.keys())
def test_groups_of_one_row_change_little(score):
    _, y, p, q = sample(np.random.default_rng(4), 400, 1, shared=False)
    alone, grouped = score(y, p, q), score(y, p, q, groups=np.arange(400)[::-1])
    np.testing.assert_allclose(grouped.interval, alone.interval, atol=0.05 * (alone.interval[1] - alone.interval[0]))


def test_intervals_of_grouped_rows_hold_the_truth():
    rng = np.random.default_rng(5)
    held, truth = {"groups": 0, "rows": 0}, 3 / 4.5
    for _ in range(100):
        code, y, p, _ = sample(rng, 20, 25, shared=True)
        for name, given in (("groups", code), ("rows", None)):
            low, high = tp.weak_accuracy(y, p, T, groups=given).interval
            held[name] += low <= truth <= high
    assert held["groups"] >= 90
    assert held["rows"] < 70  # as if the rows were independent


def test_where_all_rows_agree_a_group_counts_as_one_row():
    y = np.zeros(100, dtype=np.int64)
    groups = np.repeat(np.arange(10), 10)
    grouped = tp.weak_accuracy(y, y, tp.identity(2), groups=groups)
    ten = tp.weak_accuracy(y[:10], y[:10], tp.identity(2))
    assert grouped.interval[0] <= ten.interval[0]
    assert grouped.interval[0] == pytest.approx(ten.interval[0], abs=0.1)  # Student with 9 degrees of freedom


def test_the_gain_of_calibration_knows_groups():
    rng = np.random.default_rng(6)
    code, y, _, q = sample(rng, 60, 10, shared=True)
    scores = 4 * np.log(q)
    alone, grouped = tp.calibrate(scores, y, T), tp.calibrate(scores, y, T, groups=code)
    assert grouped.gain.stderr > 1.5 * alone.gain.stderr


@pytest.mark.parametrize("groups", [[0] * 5, [0, 1, None, 1, 1], [0, 1]])
def test_groups_that_cannot_be_are_refused(groups):
    with pytest.raises(tp.InputError) as error:
        tp.weak_accuracy([0, 1, 2, 3, 0], [0, 1, 2, 3, 0], T, groups=groups)
    assert error.value.argument == "groups"


def test_a_map_is_as_cautious_with_repeated_rows_as_with_one_of_each():
    """Which map is taken, and how far it is drawn back, goes with what labels say: repeated ones say nothing new."""
    for seed in range(5):
        rng = np.random.default_rng([12, seed])
        _, y, _, q = sample(rng, 200, 1, shared=False)
        scores, five = 3 * np.log(q), np.repeat(np.arange(200), 25)
        once = tp.calibrate(scores, y, T)
        again = tp.calibrate(scores[five], y[five], T, groups=five)
        naive = tp.calibrate(scores[five], y[five], T)
        assert again.method == once.method
        assert abs(np.log(again.scale) - np.log(once.scale)) < 0.15
        assert again.tried[1]["gain_stderr"] > 3 * naive.tried[1]["gain_stderr"]


def test_one_more_group_differs_in_as_many_rows_as_the_others():
    """Two accuracies that differ in one row of each large group: a group in which all rows do is not at the door."""
    rng, code = np.random.default_rng(0), np.repeat(np.arange(20), 25)
    z = rng.integers(0, 2, 500)
    a, b = z.copy(), z.copy()
    a[::50], b[25::50] = 1 - a[::50], 1 - b[25::50]  # in a row of each group one is wrong, ten times each
    low, high = tp.paired_test(z, a, b, tp.identity(2), "accuracy", groups=code).interval
    assert low < 0 < high
    assert high - low < 0.2  # one more group that differs altogether makes it .3
    same = tp.paired_test(z, a, a, tp.identity(2), "accuracy", groups=code).interval
    assert same[1] - same[0] > 0.1  # where none differs, nothing is known of the next
    alone = tp.paired_test(z, a, b, tp.identity(2), "accuracy", groups=np.arange(500)).interval
    np.testing.assert_allclose(alone, tp.paired_test(z, a, b, tp.identity(2), "accuracy").interval, rtol=0.01)
