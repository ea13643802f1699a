"""T from counts and clean rows: shrunk where counts are few, the frequencies where they are many, never silent."""

import json
import re

import numpy as np
import pytest

import tproper as tp
from tproper.transitions import STRUCTURES, posterior, shrink, transition_from_dict, transition_to_dict


def random_noise(K, seed):
    rng = np.random.default_rng(seed)
    T = np.zeros((K, K))
    for z in range(K):
        wrong = rng.uniform(0.1, 0.5)
        T[np.arange(K) != z, z] = wrong * rng.dirichlet(np.ones(K - 1))
        T[z, z] = 1 - wrong
    return T


def counts_of(T, n, rng):
    z = rng.integers(T.shape[1], size=n)
    return np.stack([rng.multinomial((z == k).sum(), T[:, k] / T[:, k].sum()) for k in range(T.shape[1])], axis=1)


def frequencies(counts):
    n = counts.sum(axis=0)
    return np.where(n > 0, counts / np.maximum(n, 1), 1 / len(counts))


def l1(A, B):
    return np.abs(A - B).sum(axis=0).mean()


FAMILIES = {
    "symmetric": tp.symmetric_noise(5, 0.3).matrix(),
    "complementary": tp.complementary(5).matrix(),
    "pooled": np.repeat(np.array([[0.5], [0.2], [0.1], [0.15], [0.05]]), 5, axis=1),
    "random": random_noise(5, 1),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_few_counts_are_shrunk_to_the_form_they_come_from(name):
    T, rng = FAMILIES[name], np.random.default_rng(0)
    tables = [counts_of(T, 60, rng) for _ in range(20)]
    ours = np.mean([l1(tp.Transition.from_counts(c).matrix(), T) for c in tables])
    plain = np.mean([l1(frequencies(c), T) for c in tables])
    assert ours < (0.98 if name == "random" else 0.65) * plain


@pytest.mark.parametrize("name", FAMILIES)
def test_many_counts_give_the_frequencies(name):
    counts = counts_of(FAMILIES[name], 300_000, np.random.default_rng(1))
    T = tp.Transition.from_counts(counts)
    assert np.abs(T.matrix() - frequencies(counts)).max() < 4 * T.stderr.max()
    assert l1(T.matrix(), FAMILIES[name]) < 0.02
    assert T.stderr.max() < 0.005


def test_the_estimate_is_the_mean_of_its_draws():
    counts = counts_of(FAMILIES["random"], 100, np.random.default_rng(3))
    T = tp.Transition.from_counts(counts)
    draws = T.samples(20_000, seed=0)
    np.testing.assert_allclose(draws.mean(axis=0), T.matrix(), atol=3e-3)
    np.testing.assert_allclose(draws.std(axis=0), T.stderr, atol=3e-3)
    low, high = T.interval(0.9)
    inside = ((draws > low) & (draws < high)).mean(axis=0)
    np.testing.assert_allclose(inside[counts > 0].mean(), 0.9, atol=0.01)


@pytest.mark.parametrize("name", ["random", "complementary"])
def test_an_entry_without_a_count_may_be_nothing_or_what_so_many_examples_do_not_exclude(name):
    """Neither 0 nor 1 in 50 is refuted by 20 examples without it, whatever form the other counts suggest."""
    counts = counts_of(FAMILIES[name], 100, np.random.default_rng(4))
    T = tp.Transition.from_counts(counts)
    again = transition_from_dict(json.loads(json.dumps(transition_to_dict(T))))
    for known in (T, again):
        low, high = known.interval()
        assert not low[counts == 0].any()
        assert (high[counts == 0] > 0.02).all()
    if name == "complementary":  # what was asked for is known
        asked = tp.Transition.from_counts(counts, structure="complementary")
        assert not asked.interval()[1].diagonal().any()


@pytest.mark.parametrize("name", ["symmetric", "random"])
@pytest.mark.parametrize("n", [100, 1000])
def test_intervals_cover(name, n):
    T, rng, K = FAMILIES[name], np.random.default_rng(n), 5
    inside = 0
    for _ in range(150):
        kept = tp.Transition.from_counts(counts_of(T, n, rng)).samples(300, 1).trace(axis1=1, axis2=2) / K
        low, high = np.quantile(kept, [0.025, 0.975])
        inside += low <= np.trace(T) / K <= high
    assert inside / 150 >= 0.9
    assert name == "symmetric" or inside / 150 <= 0.99  # classes that are alike might not have been


def one_differs(K, right):
    T = tp.symmetric_noise(K, 0.1).matrix()
    T[:, 0] = (1 - right) / (K - 1)
    T[0, 0] = right
    return T


@pytest.mark.parametrize(("K", "n"), [(4, 100), (10, 300), (20, 300)])
@pytest.mark.parametrize("right", [0.5, 0.75])
def test_a_class_that_differs_is_not_hidden_by_the_others(K, n, right, monkeypatch):
    monkeypatch.setattr(posterior, "MOST_DRAWS", 1000)  # enough for ends of intervals, and quick
    T, rng = one_differs(K, right), np.random.default_rng([K, n])
    inside = 0
    for _ in range(60):
        low, high = tp.Transition.from_counts(counts_of(T, n, rng)).interval()
        inside += low[0, 0] <= right <= high[0, 0]
    assert inside >= 48  # .90: fewer than 48 have the probability .005


def test_a_class_that_differs_is_named_and_leaves_the_others_alone():
    """Nine classes with 27 of 30 right, one with 15 of 30."""
    counts = np.diag([27.0] * 9 + [15.0])
    for z in range(10):
        errors = np.random.default_rng(z).choice(np.delete(np.arange(10), z), int(30 - counts[z, z]))
        np.add.at(counts, (errors, np.full(len(errors), z)), 1)
    T = tp.Transition.from_counts(counts)
    low, high = T.interval()
    assert abs(T.matrix()[9, 9] - 0.5) < 0.05
    assert low[9, 9] < 0.4 < 0.6 < high[9, 9] < 0.75
    assert (low.diagonal()[:9] > 0.75).all()
    assert "class 9: unlike the others, so the column rests on its own counts" in T.notes


def test_a_class_without_counts_has_the_others_form_and_a_wide_interval():
    counts = np.array([[80, 9, 0], [11, 82, 0], [9, 9, 0]])
    T = tp.Transition.from_counts(counts)
    assert T.stderr[:, 2].min() > 3 * T.stderr[:, :2].max()
    assert T.matrix()[2, 2] > 0.5  # labels are mostly right in the other classes
    assert any(note.startswith("class 2: no counts") for note in T.notes)


def test_complementary_counts_keep_their_zero_diagonal():
    T = tp.Transition.from_counts(counts_of(FAMILIES["complementary"], 200, np.random.default_rng(0)))
    assert not T.matrix().diagonal().any()
    assert not T.samples(20, 0).diagonal(axis1=1, axis2=2).any()
    assert "complementary" in T.notes[0]


def test_weights_need_not_be_whole_and_more_of_them_say_more():
    counts = np.array([[4.5, 0.7], [1.2, 3.1]])
    few, many = tp.Transition.from_counts(counts), tp.Transition.from_counts(100 * counts)
    assert (many.stderr < few.stderr / 4).all()


@pytest.mark.parametrize("shape", [(1, 3), (2, 4), (6, 3)])
def test_any_number_of_labels(shape):
    counts = np.random.default_rng(0).integers(1, 9, shape)
    T = tp.Transition.from_counts(counts)
    assert T.matrix().shape == shape
    np.testing.assert_allclose(T.matrix().sum(axis=0), 1)


def test_printed_and_written_down():
    T = tp.Transition.from_counts([[40, 3], [10, 27]], weak_labels=["cat", "dog"])
    lines = str(T).splitlines()
    assert lines[0].startswith("estimated transition: P(label | class), 2 labels x 2 classes")
    assert re.fullmatch(r"\s+cat  0\.\d{3}\+-0\.\d{3}  0\.\d{3}\+-0\.\d{3}", lines[2])
    assert lines[-1] == T.notes[-1]
    again = transition_from_dict(json.loads(json.dumps(transition_to_dict(T))))
    assert np.array_equal(again.samples(5, 1), T.samples(5, 1))
    assert str(again) == str(T)


def test_the_same_counts_give_the_same_T():
    counts = counts_of(FAMILIES["random"], 80, np.random.default_rng(5))
    assert np.array_equal(shrink(counts.astype(float)).concentration, shrink(counts.astype(float)).concentration)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_structures_by_name(structure):
    counts = counts_of(FAMILIES["complementary"], 100, np.random.default_rng(0))
    T = tp.Transition.from_counts(counts, structure=structure)
    assert T.matrix().shape == (5, 5)


@pytest.mark.parametrize(
    ("counts", "structure", "message"),
    [
        (np.zeros((2, 2)), "auto", "counts: expected some counts > 0, got zeros only"),
        ([[1, 2], [3, np.nan]], "auto", "counts: expected finite entries, got nan at row 1, column 1"),
        ([[1, 2], [3, -4]], "auto", "counts: expected numbers from 0 to 2^53, got -4 at row 1, column 1"),
        ([1, 2], "auto", "counts: expected a non-empty 2-d matrix, got shape (2,)"),
        (
            [[1, 2], [3, 4]],
            "best",
            "structure: expected one of auto, free, pooled, symmetric, complementary, ordinal, got 'best'",
        ),
        (
            [[1, 2], [3, 4]],
            "complementary",
            "structure: expected counts with a zero diagonal for 'complementary', got 4",
        ),
        ([[1, 2, 3]], "symmetric", "structure: expected 'auto', 'free' or 'pooled' with fewer labels (1) than classes"),
    ],
)
def test_bad_counts(counts, structure, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        tp.Transition.from_counts(counts, structure=structure)


def test_clean_rows_among_others():
    T, rng = FAMILIES["random"], np.random.default_rng(0)
    z = rng.integers(5, size=2000)
    weak = tp.Transition(T).sample(z, 1)
    true = np.where(rng.random(2000) < 0.3, z, -1)
    estimate = tp.estimate_transition(weak, true)
    known = true >= 0
    counts = np.zeros((5, 5))
    np.add.at(counts, (weak[known], true[known]), 1)
    assert np.array_equal(estimate.matrix(), tp.Transition.from_counts(counts).matrix())
    assert estimate.classifier is None
    with pytest.warns(tp.IdentifiabilityWarning, match="`true` has 5 classes, and there are 8 weak labels"):
        tall = tp.estimate_transition(weak + 3 * (weak == 4), true)
    assert tall.matrix().shape == (8, 5)
    assert tp.estimate_transition(weak, true, num_classes=6).matrix().shape == (5, 6)


WEAK = np.array([0, 1, 2, 0, 1, 2, 0, 1])
TRUE = np.array([0, 1, 2, -1, -1, 2, 0, 0])
X = np.arange(16.0).reshape(8, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weak": WEAK}, "true: expected the class of some rows, or features X, got neither"),
        (
            {"weak": WEAK, "true": np.full(8, -1)},
            "true: expected the class of some rows, or features X, got -1 in every",
        ),
        ({"weak": WEAK, "true": TRUE[:5]}, "true: expected one class per row, shape (8,), got (5,)"),
        ({"weak": WEAK, "true": TRUE - 3}, "true: expected integers >= 0, or -1 where unknown, got -4 at row"),
        ({"weak": WEAK, "true": np.array(255 * (TRUE > 0), np.uint8)}, "true: expected classes, got 255 in uint8"),
        ({"weak": WEAK, "true": TRUE * 1.5}, "true: expected integers, -1 where the class is unknown, got [0.0, 1.5"),
        ({"weak": WEAK, "true": TRUE, "num_classes": 2}, "true: expected classes in [0, 2), got 2"),
        ({"weak": WEAK - 1, "true": TRUE}, "weak: expected integers >= 0, got -1"),
        ({"weak": ["a", "b"], "true": [0, 1]}, "weak: expected integers 0 .. M-1, got ['a', 'b']"),
        ({"weak": WEAK * np.nan, "true": TRUE}, "weak: expected integers 0 .. M-1, got [nan"),
        ({"weak": [], "true": []}, "weak: expected one weak label per row (n,), got shape (0,)"),
        ({"weak": WEAK, "true": np.where(TRUE > 0, -1, TRUE)}, "num_classes: expected at least 2 classes, got 1"),
        ({"weak": WEAK, "X": X[:4]}, "X: expected one row of features for each of the 8 labels, got shape (4, 2)"),
        ({"weak": WEAK, "X": X * np.nan}, "X: expected finite features, got NaN or infinity"),
        ({"weak": WEAK, "X": [["a"]] * 8}, "X: expected a matrix of numbers (n, d), got"),
        ({"weak": WEAK[:4], "X": X[:4]}, "X: expected at least 6 rows to estimate T with features, got 4"),
        ({"weak": WEAK, "X": X, "num_classes": 1}, "num_classes: expected an integer >= 2, got 1"),
        ({"weak": WEAK * 0, "X": X}, "num_classes: expected at least 2 classes, got 1 from the labels"),
        ({"weak": WEAK, "X": X, "model": "forest"}, "model: expected 'linear' or a scikit-learn classifier"),
        (
            {"weak": WEAK, "X": X, "random_state": "x"},
            "random_state: expected an integer, a Generator or None, got 'x'",
        ),
        ({"weak": WEAK, "X": X, "structure": "odd"}, "structure: expected one of auto, free, pooled, symmetric"),
    ],
)
def test_bad_rows(arguments, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        tp.estimate_transition(**arguments)


def test_columns_that_are_alike_have_narrow_intervals(monkeypatch):
    """That a column may stand apart costs little where none does: ten classes with 30 examples each, right with .9."""
    monkeypatch.setattr(posterior, "MOST_DRAWS", 1000)
    T, rng, widths = tp.symmetric_noise(10, 0.1).matrix(), np.random.default_rng(21), []
    for _ in range(25):
        low, high = tp.Transition.from_counts(counts_of(T, 300, rng)).interval()
        widths.append((high - low).diagonal().mean())
    assert np.mean(widths) < 0.143  # .15 where the others vary as much as one of them might
