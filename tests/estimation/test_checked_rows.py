"""Rows that somebody has checked, however they were chosen: T, and class shares, from them and all labels."""

import warnings

import numpy as np
import pytest

import tproper as tp
from tproper.metrics.checked import CheckedRows, Design, Strata, guesses

T2, T4 = tp.symmetric_noise(2, 0.15), tp.symmetric_noise(4, 0.2)
RARE, FOUR = np.array([0.1, 0.9]), np.array([0.1, 0.2, 0.3, 0.4])


def drawn(T, shares, seed, n=2000):
    rng = np.random.default_rng(seed)
    z = rng.choice(len(shares), n, p=shares)
    return rng, z, T.sample(z, rng)


def by_label(rng, y, z, each=100):
    true = np.full(len(y), -1)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        rows = rng.choice(rows, min(each, len(rows)), replace=False)
        true[rows] = z[rows]
    return true


def at_random(rng, z, count=200):
    true = np.full(len(z), -1)
    rows = rng.choice(len(z), count, replace=False)
    true[rows] = z[rows]
    return true


@pytest.mark.parametrize(("T", "shares"), [(T2, RARE), (T2, np.array([0.03, 0.97])), (T4, FOUR)])
def test_a_hundred_rows_of_each_label_give_the_shares(T, shares):
    """Counted as if they were drawn at random they gave .000 to .001 where .094 was true."""
    inside = []
    for seed in range(40):
        rng, z, y = drawn(T, shares, seed)
        result = tp.weak_prevalence(y, true=by_label(rng, y, z))
        inside.append((result.interval[:, 0] <= shares) & (shares <= result.interval[:, 1]))
        assert "chosen by the label" in result.notes[0]
    assert np.mean(inside) >= 0.91


def test_T_from_rows_chosen_by_label():
    """Counts would make the rare class's column far too pure."""
    M, off, wrong, inside = T2.matrix(), [], [], []
    for seed in range(30):
        rng, z, y = drawn(T2, RARE, seed)
        true = by_label(rng, y, z)
        T = tp.estimate_transition(y, true)
        low, high = T.interval()
        inside.append((low <= M) & (high >= M))
        off.append(T.matrix() - M)
        counts = np.zeros((2, 2))
        np.add.at(counts, (y[true >= 0], true[true >= 0]), 1)
        wrong.append(counts / counts.sum(axis=0) - M)
        assert "chosen by their label" in T.notes[0]
    assert np.mean(inside) >= 0.9
    assert np.abs(np.mean(off, axis=0)).max() < 0.05 < np.abs(np.mean(wrong, axis=0)).max()


def test_T_with_features_from_rows_chosen_by_label():
    off = []
    for seed in range(4):
        rng, z, y = drawn(T2, RARE, seed)
        X = rng.normal(size=(2000, 2)) + 2 * np.eye(2)[z]
        off.append(tp.estimate_transition(y, by_label(rng, y, z), X).matrix() - T2.matrix())
    assert np.abs(np.mean(off, axis=0)).max() < 0.05


def test_rows_at_random_are_hardly_ever_called_chosen():
    """At most 2% of clean draws."""
    called = 0
    for seed in range(200):
        rng, z, y = drawn(T4, FOUR, seed, 600)
        true = at_random(rng, z, 100)
        called += bool(Design.of([y], true >= 0).by)
    assert called <= 6  # 1% of 200 expected
    answers = np.stack([T4.sample(z, s) for s in range(3)], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tp.SelectionWarning)
        tp.weak_prevalence(answers, true=true)


def test_one_judge_and_random_rows_are_the_likeliest_together():
    """sum_y P(y) P(z | y): each label's classes by its checked rows, labels by all rows."""
    rng, z, y = drawn(T4, FOUR, 3)
    true = at_random(rng, z, 400)
    known = true >= 0
    expected = sum(
        np.mean(y == k) * np.bincount(true[known & (y == k)], minlength=4) / (known & (y == k)).sum() for k in range(4)
    )
    np.testing.assert_allclose(tp.weak_prevalence(y, true=true).value, expected, atol=0.01)


def test_checked_rows_narrow_what_labels_say_and_labels_what_checked_rows_say():
    rng, z, y = drawn(T2, np.array([0.4, 0.6]), 0)
    true = at_random(rng, z, 200)
    widths = {
        "both": np.ptp(tp.weak_prevalence(y, T2, true=true).interval[0]),
        "labels": np.ptp(tp.weak_prevalence(y, T2).interval[0]),
        "no T": np.ptp(tp.weak_prevalence(y, true=true).interval[0]),
        "checked": np.ptp(tp.weak_prevalence(true[true >= 0], tp.identity(2)).interval[0]),
    }
    assert widths["both"] < 0.97 * widths["labels"]
    assert widths["no T"] < 0.8 * widths["checked"]


def test_several_judges_with_doubtful_rows_checked():
    """Rows on which the judges disagree are checked most."""
    shares, inside = np.array([0.3, 0.7]), []
    T = tp.symmetric_noise(2, 0.25)
    for seed in range(40):
        rng, z, _ = drawn(T, shares, seed)
        answers = np.stack([T.sample(z, rng) for _ in range(3)], axis=1)
        doubtful = np.ptp(answers, axis=1) > 0
        p = np.where(doubtful, 0.25, 0.05)
        true = np.where(rng.random(len(z)) < p, z, -1)
        low, high = tp.weak_prevalence(answers, true=true).interval.T
        inside.append((low <= shares) & (shares <= high))
    assert np.mean(inside) >= 0.9


def test_other_designs_by_their_weights():
    shares, inside, without = np.array([0.3, 0.7]), [], []
    for seed in range(40):
        rng, z, y = drawn(T2, shares, seed)
        p = np.where(z == 0, 0.2, 0.06)  # by the class itself: only weights can tell
        true = np.where(rng.random(len(z)) < p, z, -1)
        low, high = tp.weak_prevalence(y, true=true, sample_weight=1 / p).interval[0]
        inside.append(low <= 0.3 <= high)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tp.SelectionWarning)
            low, high = tp.weak_prevalence(y, true=true).interval[0]
        without.append(low <= 0.3 <= high)
    assert np.mean(inside) >= 0.9 > 0.5 > np.mean(without)
    T = tp.estimate_transition(y, true, sample_weight=1 / p).matrix()
    assert np.abs(T - T2.matrix()).max() < 0.15


def test_labels_that_were_never_checked_are_warned_of_and_left_open():
    rng, z, y = drawn(T4, FOUR, 0)
    true = by_label(rng, y, z)
    true[y == 2] = -1
    with pytest.warns(tp.SelectionWarning, match="of which none was checked"):
        result = tp.weak_prevalence(y, true=true)
    assert (np.ptp(result.interval, axis=1) >= np.mean(y == 2)).all()
    with pytest.warns(tp.SelectionWarning, match="label 2"):
        tp.estimate_transition(y, true)


def test_names_and_numbers_give_the_same():
    rng, z, y = drawn(T2, RARE, 1)
    true = at_random(rng, z)
    names = np.array(["ham", "spam"])
    one = tp.weak_prevalence(y, true=true)
    two = tp.weak_prevalence(names[y].tolist(), true=[None if t < 0 else names[t] for t in true])
    np.testing.assert_array_equal(one.interval, two.interval)
    assert two.classes == ["ham", "spam"]
    assert "spam" in str(two)
    assert two.to_dict()["checked"] == 200


def test_an_estimated_T_is_left_aside_and_a_known_one_that_is_contradicted_too():
    rng, z, y = drawn(T4, FOUR, 5)
    true = at_random(rng, z, 300)
    plain = tp.weak_prevalence(y, true=true)
    for T, why in ((tp.estimate_transition(y, true), "estimated"), (tp.symmetric_noise(4, 0.6), "contradict")):
        result = tp.weak_prevalence(y, T, true=true)
        np.testing.assert_array_equal(result.interval, plain.interval)
        assert why in result.notes[-1]
    known = tp.weak_prevalence(y, T4, true=true)
    assert (np.ptp(known.interval, axis=1) < np.ptp(plain.interval, axis=1)).all()


def test_groups_widen():
    rng = np.random.default_rng(0)
    inside, plain = [], []
    for _ in range(40):
        z = np.repeat(rng.integers(0, 2, 100), 10)  # ten rows of one class each
        y = T2.sample(z, rng)
        true = at_random(rng, z, 300)
        groups = np.repeat(np.arange(100), 10)
        for found, g in ((inside, groups), (plain, None)):
            for result in (tp.weak_prevalence(y, true=true, groups=g), tp.weak_prevalence(y, T2, groups=g)):
                found.append(result.interval[0, 0] <= 0.5 <= result.interval[0, 1])
    assert np.mean(inside) >= 0.9 > np.mean(plain)


def test_one_stratum_is_Wilsons_interval_where_few_decide():
    n, k, q = 50, 2, 1.959963984540054
    low, high = Strata(np.ones(1), np.array([n * 1.0]), np.array([k * 1.0]), 1e12).by_score(q)
    centre, half = (k + q * q / 2) / (n + q * q), q / (n + q * q) * np.sqrt(k * (n - k) / n + q * q / 4)
    np.testing.assert_allclose([low, high], [centre - half, centre + half], atol=1e-4)


def test_the_likelihood_interval_ends_where_the_likelihood_has_fallen():
    W, c, k = np.array([0.5, 0.3, 0.2]), np.array([30.0, 20.0, 25.0]), np.array([3.0, 10.0, 24.0])
    strata = Strata(W, c, k, 400.0)
    low, high = strata.by_likelihood(1.96)
    assert low < W @ (k / c) < high
    rng = np.random.default_rng(0)
    top = strata.profiled(0.0)[1]
    for _ in range(20_000):  # no means with a likelihood above the limit lie beyond the ends
        t = np.clip(k / c + 0.15 * rng.standard_normal(3), 1e-6, 1 - 1e-6)
        V = W * np.exp(0.2 * rng.standard_normal(3))
        V /= V.sum()
        value = (k * np.log(t) + (c - k) * np.log(1 - t)).sum() + 400 * (W * np.log(V)).sum()
        if value > top - 1.96**2 / 2:
            assert low - 1e-3 <= V @ t <= high + 1e-3


def test_guesses_of_one_column_are_its_checked_rows_shares():
    y = np.repeat([0, 1], 500)
    true = np.full(1000, -1)
    true[:100] = np.repeat([0, 1], [80, 20])
    true[500:600] = np.repeat([0, 1], [10, 90])
    P = guesses(y[:, None], true, 2)
    np.testing.assert_allclose(P[[0, 999], 0], [0.8, 0.1], atol=0.02)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"labels": [0, 1]}, "transition"),
        ({"labels": [0, 1], "true": [-1, -1]}, "true"),
        ({"labels": [0, 1], "true": [0]}, "true"),
        ({"labels": [0, 1], "transition": T2, "true": [0, 2]}, "true"),
        ({"labels": [0, 1], "transition": T2, "true": [0, -2]}, "true"),
        ({"labels": [0, 1], "transition": T2, "sample_weight": [1, 1]}, "sample_weight"),
        ({"labels": [0, 1], "true": [0, 1], "sample_weight": [1, 0]}, "sample_weight"),
        ({"labels": [[True, False]], "true": [0]}, "labels"),
    ],
)
def test_wrong_calls(arguments, argument):
    with pytest.raises(tp.InputError) as error:
        tp.weak_prevalence(**arguments)
    assert error.value.argument == argument


def test_no_checked_row():
    with pytest.raises(tp.InputError) as error:
        CheckedRows(np.zeros((3, 1), int), np.full(3, -1), 2)
    assert error.value.argument == "true"


@pytest.mark.parametrize("design", ["random", "by label"])
def test_features_narrow_shares_and_keep_their_coverage(design):
    inside, widths = [], []
    shares = np.array([0.15, 0.85])
    for seed in range(60):
        rng, z, y = drawn(tp.symmetric_noise(2, 0.3), shares, [seed, 7])
        X = rng.normal(size=(2000, 8)) + 2.0 * np.outer(z, [1, 1, 0, 0, 0, 0, 0, 0])
        true = by_label(rng, y, z) if design == "by label" else at_random(rng, z)
        plain, found = tp.weak_prevalence(y, true=true), tp.weak_prevalence(y, true=true, X=X)
        low, high = found.interval[0]
        inside.append(low <= shares[0] <= high)
        widths.append([np.ptp(plain.interval[0]), high - low])
    before, after = np.mean(widths, axis=0)
    assert np.mean(inside) >= 0.87  # of 60; over 300 draws .93 to .96
    assert after < 0.85 * before


def test_features_that_say_nothing_change_nothing_much():
    rng, z, y = drawn(T2, np.array([0.3, 0.7]), 9)
    true = at_random(rng, z)
    X = rng.normal(size=(2000, 30))
    plain, found = tp.weak_prevalence(y, true=true), tp.weak_prevalence(y, true=true, X=X)
    assert np.ptp(found.interval[0]) < 1.1 * np.ptp(plain.interval[0])
    with pytest.raises(tp.InputError, match="beside true="):
        tp.weak_prevalence(y, T2, X=X)


def test_two_systems_are_compared_by_a_judge_and_a_few_people():
    """The interval of the difference of two shares; a refusal is a label and no class."""
    shares, inside, wider = np.array([0.45, 0.35, 0.2]), [], []
    T = np.vstack([0.95 * tp.symmetric_noise(3, 0.25).matrix(), np.full((1, 3), 0.05)])
    for seed in range(60):
        rng, z, y = drawn(tp.Transition(T), shares, [seed, 3])
        true = at_random(rng, z)
        found = tp.weak_prevalence(y, true=true, num_classes=3)
        assert len(found.value) == 3
        pair = found.difference(0, 1)
        inside.append(pair.interval[0] <= 0.1 <= pair.interval[1])
        known = true[true >= 0]
        d = (known == 0).astype(float) - (known == 1)
        wider.append([np.ptp(pair.interval), 2 * 1.96 * d.std() / np.sqrt(len(d))])
        assert (pair.p_value < 0.05) == (pair.better is not None)
    assert np.mean(inside) >= 0.9
    assert np.mean(wider, axis=0)[0] < np.mean(wider, axis=0)[1]
    with pytest.raises(tp.InputError) as error:
        found.difference(0, "tie")
    assert error.value.argument == "b"
