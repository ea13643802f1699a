"""Scores from checked rows and all labels together: they cover, are narrower than either, and say what they assume."""

import functools
import math
import warnings

import numpy as np
import pytest

import tproper as tp

SHARES = np.array([0.2, 0.3, 0.5])
T = tp.symmetric_noise(3, 0.3)
HALF = 0.5


def drawn(seed, n=2000, checked=200):
    """Classes, labels, probabilities of a good and of a worse model, and the class of some rows."""
    rng = np.random.default_rng(seed)
    z = rng.choice(3, n, p=SHARES)
    y = T.sample(z, rng)
    good, poor = (
        rng.dirichlet(np.ones(3), n) * (1 - w) + w * np.eye(3)[np.where(rng.random(n) < h, z, (z + 1) % 3)]
        for w, h in ((0.5, 0.9), (0.5, 0.8))
    )
    true = np.full(n, -1)
    rows = rng.choice(n, checked, replace=False)
    true[rows] = z[rows]
    return z, y, good, poor, true


def scores(y, q, T, **given):
    return {
        "accuracy": tp.weak_accuracy(y, q.argmax(1), T, **given),
        "balanced": tp.weak_balanced_accuracy(y, q.argmax(1), T, **given),
        "log loss": tp.weak_log_loss(y, q, T, **given),
        "brier": tp.weak_brier(y, q, T, **given),
    }


@functools.cache
def expected():
    """The scores over a sample that is large enough."""
    z, _, good, poor, _ = drawn(99, 400_000, 1)
    clean = {name: s.value for name, s in scores(z, good, tp.identity(3)).items()}
    return clean, float(((good.argmax(1) == z) * 1.0 - (poor.argmax(1) == z)).mean())


@pytest.mark.parametrize("known", [False, True])
def test_coverage(known):
    truth, apart = expected()
    inside, better = dict.fromkeys(truth, 0), 0
    for seed in range(40):
        _, y, good, poor, true = drawn(seed)
        for name, score in scores(y, good, T if known else None, true=true).items():
            inside[name] += score.interval[0] <= truth[name] <= score.interval[1]
        test = tp.paired_test(y, good.argmax(1), poor.argmax(1), None, "accuracy", true=true)
        better += test.interval[0] <= apart <= test.interval[1]
    assert min(*inside.values(), better) >= 34


def test_narrower_than_the_checked_rows_and_than_the_labels():
    z, y, good, poor, true = drawn(0)
    rows = true >= 0
    for name, united in scores(y, good, T, true=true).items():
        own = scores(z[rows], good[rows], tp.identity(3))[name]
        weak = scores(y, good, T)[name]
        width = np.ptp(united.interval)
        assert width < np.ptp(own.interval)
        assert width < np.ptp(weak.interval) or name == "balanced"
        assert "random sample" in united.note
    one = tp.paired_test(y, good.argmax(1), poor.argmax(1), None, "accuracy", true=true)
    two = tp.paired_test(z[rows], good[rows], poor[rows], tp.identity(3), "accuracy")
    assert np.ptp(one.interval) < np.ptp(two.interval)


@pytest.mark.parametrize("score", ["accuracy", "log_loss", "brier"])
def test_equal_systems_are_called_different_in_one_of_twenty(score):
    called = 0
    for seed in range(60):
        z, y, good, _, true = drawn(seed, 1000, 100)
        rng = np.random.default_rng(seed)
        said = np.where(rng.random(1000) < 0.9, z, (z + 1) % 3)
        twin = rng.dirichlet(np.ones(3), 1000) * HALF + HALF * np.eye(3)[said]
        test = tp.paired_test(y, good, twin, T, score, true=true)
        called += test.p_value < 0.05
        assert (test.p_value < 0.05) == (test.better is not None)
    assert called <= 9


def test_a_T_that_the_checked_rows_contradict_is_left_out():
    _, y, good, _, true = drawn(1)
    score = tp.weak_accuracy(y, good.argmax(1), tp.symmetric_noise(3, 0.1), true=true)
    assert "T is not used" in score.note
    assert score.interval == tp.weak_accuracy(y, good.argmax(1), None, true=true).interval
    estimated = tp.weak_accuracy(y, good.argmax(1), tp.estimate_transition(y, true), true=true)
    assert "was estimated" in estimated.note


def test_several_judges_and_groups():
    rng = np.random.default_rng(0)
    z = np.repeat(rng.choice(3, 150, p=SHARES), 10)
    predicted = np.repeat(np.where(rng.random(150) < 0.8, z[::10], 0), 10)
    answers = np.stack([T.sample(z, s) for s in range(3)], axis=1)
    true = np.where(rng.random(1500) < 0.2, z, -1)
    plain = tp.weak_accuracy(answers, predicted, tp.annotators([T] * 3), true=true)
    grouped = tp.weak_accuracy(
        answers, predicted, tp.annotators([T] * 3), true=true, groups=np.repeat(np.arange(150), 10)
    )
    assert np.ptp(grouped.interval) > 1.5 * np.ptp(plain.interval)


def test_what_no_checked_row_can_say():
    _, y, good, _, true = drawn(2)
    certain = good.copy()
    row = int(np.flatnonzero(true < 0)[0])
    certain[row] = [0.0, 0.5, 0.5]
    score = tp.weak_log_loss(y, certain, None, true=true)
    assert score.interval[1] == math.inf
    row = int(np.flatnonzero(true >= 0)[0])
    certain[row] = np.where(np.arange(3) == true[row], 0.0, HALF)
    assert not tp.weak_log_loss(y, certain, None, true=true).informative
    with pytest.raises(tp.InputError) as error:
        tp.paired_test(y, certain, good, None, "log_loss", true=true)
    assert error.value.argument == "a"


def test_rows_of_weight_zero_and_predictions_that_never_differ():
    _, y, good, _, true = drawn(3)
    weights = np.ones(2000)
    weights[:1000] = 0
    part = tp.weak_brier(y, good, None, true=true, sample_weight=weights)
    assert part.value == pytest.approx(tp.weak_brier(y[1000:], good[1000:], None, true=true[1000:]).value, abs=0.02)
    same = tp.paired_test(y, good, good, None, "accuracy", true=true)
    assert same.value == 0
    assert same.better is None


def test_doubt_in_the_design_is_warned_of_in_few_clean_draws():
    with warnings.catch_warnings():
        warnings.simplefilter("error", tp.SelectionWarning)
        spoken = 0
        for seed in range(100):
            _, y, good, _, true = drawn(seed, 800, 100)
            try:
                tp.weak_brier(y, good, None, true=true)
            except tp.SelectionWarning:
                spoken += 1
    assert spoken <= 3


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: tp.weak_accuracy([0, 1], [0, 1], None), "transition"),
        (lambda: tp.weak_balanced_accuracy([0, 1], [0, 1], None), "transition"),
        (lambda: tp.paired_test([0, 1], [0, 1], [0, 1], None, "accuracy"), "transition"),
        (lambda: tp.weak_accuracy([0, 1], [0, 1], None, true=[-1, -1]), "true"),
        (lambda: tp.weak_brier([0, 1], [[0.5, 0.5]] * 2, tp.identity(2), true=[0, 2]), "true"),
        (lambda: tp.weak_accuracy([0, 1], [0, 1], np.eye(2), true=[0, 1]), "transition"),
        (lambda: tp.weak_accuracy(["a", "b"], [0, 2], None, true=["a", None]), "predictions"),
    ],
)
def test_wrong_calls(call, argument):
    with pytest.raises(tp.InputError) as error:
        call()
    assert error.value.argument == argument


@pytest.mark.parametrize("seed", range(6))
def test_a_model_that_every_checked_row_finds_right_has_an_interval_below_one(seed):
    """Then the variance at the estimate is 0, and the interval is what one more row could have said."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, 400)
    y = tp.symmetric_noise(3, 0.2).sample(z, rng)
    true = np.where(rng.random(400) < 0.3, z, -1)
    score = tp.weak_accuracy(y, z, tp.estimate_transition(y, true=true), true=true)
    assert score.informative
    assert 1 - 8 / (true >= 0).sum() < score.interval[0] < 1 - 2 / (true >= 0).sum()
    assert score.interval[1] == 1


def test_predictions_that_repeat_what_was_checked_are_called_so():
    """Labels of an estimate that was told the checked classes are right on every checked row."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 600)
    votes = np.column_stack([np.where(rng.random(600) < 0.7, z, 1 - z) for _ in range(3)])
    true = np.where(rng.random(600) < 0.15, z, -1)
    told = tp.estimate_annotators(votes, true=true)
    assert "repeats them" in tp.weak_accuracy(votes, told.labels, None, true=true).note
    alone = tp.estimate_annotators(votes)
    assert "repeats them" not in tp.weak_accuracy(votes, alone.labels, None, true=true).note


def test_a_log_loss_of_checked_rows_is_that_of_all_rows_in_the_mean():
    """Guesses had seen the classes that they were compared with: they looked better there than elsewhere, and the score
    was too high by more than its standard error, in the mean over samples of checked rows."""
    rng, K, n = np.random.default_rng(0), 10, 600
    z = rng.integers(K, size=n)
    v = 6.0 * np.eye(K)[z] + 1.5 * rng.normal(size=(n, K))
    p = np.exp(v) / np.exp(v).sum(axis=1, keepdims=True)
    answers = tp.symmetric_noise(K, 0.3).sample(z, seed=1)
    truth = float(-np.log(p[np.arange(n), z]).mean())
    found, alone, held = [], [], []
    for seed in range(30):
        looked = np.random.default_rng(seed).random(n) < 1 / 6
        score = tp.weak_log_loss(answers, p, None, true=np.where(looked, z, -1))
        found.append(score.value)
        alone.append(float(-np.log(p[np.arange(n), z])[looked].mean()))
        held.append(score.interval[0] <= truth <= score.interval[1])
    error = np.std(alone) / np.sqrt(len(alone))
    assert abs(np.mean(found) - truth) < 3 * error
    assert np.std(found) < 1.2 * np.std(alone)
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize("n", [90, 130, 150, 170])
def test_predictions_that_differ_in_every_row_are_compared(n):
    z = np.random.default_rng(n).integers(3, size=n)
    true = np.where(np.arange(n) % 3 == 0, z, -1)
    found = tp.paired_test(z, (z + (np.arange(n) % 4 == 0)) % 3, (z + 2) % 3, None, "accuracy", true=true)
    assert found.better == "a"
    assert found.interval[0] > 0
    assert math.isfinite(found.stderr)
