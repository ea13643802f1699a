"""Partial labels: p with its uncertainty, rates by class, and a test of the family that holds its level."""

import json
import re
import warnings

import numpy as np
import pytest

import tproper as tp
from tproper.estimation.partial import class_wise
from tproper.transitions import transition_from_dict, transition_to_dict


def skewed_masks(n, rates, shares, seed):
    rng = np.random.default_rng(seed)
    z = rng.choice(len(rates), n, p=shares)
    masks = rng.random((n, len(rates))) < rates
    masks[np.arange(n), z] = True
    return masks, z


@pytest.mark.parametrize(("K", "p"), [(3, 0.1), (5, 0.4), (30, 0.05)])
def test_p_with_its_interval(K, p):
    inside, levels = [], []
    for seed in range(40 if K < 10 else 8):
        masks = tp.partial_labels(K, p).sample(np.random.default_rng(seed).integers(K, size=300), seed + 1000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tp.FamilyWarning)
            T = tp.estimate_transition(masks)
        low, high = T.p_interval()
        inside.append(low <= p <= high)
        levels += [t.p_value < 0.05 for t in T.tests]
    assert np.mean(inside) >= 0.8
    assert np.mean(levels) <= 0.15


def test_it_is_a_transition_of_its_family():
    z = np.arange(600) % 4
    masks = tp.partial_labels(4, 0.3).sample(z, 77)
    T = tp.estimate_transition(masks)
    assert isinstance(T, tp.EstimatedTransition)
    same = tp.partial_labels(4, T.p)
    np.testing.assert_allclose(T.matrix(), same.matrix())
    np.testing.assert_allclose(T.reconstruction().targets(masks), same.reconstruction().targets(masks))
    assert float(tp.weak_accuracy(masks, z, T)) > 0.9
    draws = T.samples(2000, 1)
    np.testing.assert_allclose(draws.sum(axis=1), 1)
    np.testing.assert_allclose(draws.mean(axis=0), T.matrix(), atol=2e-3)
    np.testing.assert_allclose(T.stderr, draws.std(axis=0), atol=2e-3)
    low, high = T.interval()
    assert ((low <= T.matrix()) & (T.matrix() <= high)).all()
    again = transition_from_dict(json.loads(json.dumps(transition_to_dict(T))))
    assert np.array_equal(again.samples(3, 2), T.samples(3, 2))
    assert str(again) == str(T)
    assert "95% interval" in str(T)


def test_many_classes_need_no_enumeration():
    masks = tp.partial_labels(200, 0.05).sample(np.arange(400) % 200, 0)
    T = tp.estimate_transition(masks)
    assert abs(T.p - 0.05) < 4 * T.p_stderr
    with pytest.raises(ValueError, match="enumerated for at most 12 classes"):
        T.samples(3)


def test_rates_by_class_and_the_warning():
    rates, shares = np.array([0.05, 0.2, 0.5, 0.3]), np.array([0.4, 0.3, 0.2, 0.1])
    masks, z = skewed_masks(2000, rates, shares, 0)
    with pytest.warns(tp.FamilyWarning, match="all classes are included at the same rate has p = "):
        T = tp.estimate_transition(masks)
    np.testing.assert_allclose(T.flip_rates, rates, atol=0.07)
    some = np.where(np.arange(2000) < 600, z, -1)
    better = class_wise(masks, some).rates
    np.testing.assert_allclose(better, rates, atol=0.05)


def test_sets_of_one_size_are_not_of_this_family():
    masks = tp.multi_complementary(6, 3).sample(np.arange(600) % 6, 0)
    with pytest.warns(tp.FamilyWarning, match="set sizes are binomial has p = "):
        tp.estimate_transition(masks)


def test_a_classifier_where_there_are_features():
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=600)
    X = np.eye(3)[z] + 0.3 * rng.standard_normal((600, 3))
    T = tp.estimate_transition(tp.partial_labels(3, 0.4).sample(z, 77), np.where(np.arange(600) < 100, z, -1), X)
    assert (T.classifier.predict(X) == z).mean() > 0.95


def test_sets_as_sets():
    T = tp.estimate_transition([{0, 1}, {2}, {1, 2}, {0}], num_classes=3)
    assert T.p == pytest.approx(2.5 / 9)


MASKS = np.array([[True, False, True], [False, True, True], [True, False, False], [False, True, True]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"weak": MASKS & [True, False, False]},
            "labels: expected non-empty candidate sets, got an empty one at row 1",
        ),
        (
            {"weak": MASKS, "true": [1, 1, 0, 1]},
            "true: expected every known class among the candidates of its row, got class 1",
        ),
        ({"weak": MASKS, "true": [0, 1]}, "true: expected one class per row, shape (4,), got (2,)"),
        ({"weak": MASKS, "true": [0, 5, 0, 1]}, "true: expected classes in [0, 3), got 5"),
        ({"weak": MASKS, "num_classes": 4}, "labels: expected boolean candidate masks (n, 4)"),
        ({"weak": MASKS * 2}, "labels: expected masks of 0 and 1 (or booleans), got other integers"),
        (
            {"weak": MASKS * np.nan},
            "labels: expected boolean candidate masks (n, 3), True = class still possible, got dtype",
        ),
        ({"weak": [{0, 1}, {2}]}, "num_classes: expected the number of classes with sets of candidates, got none"),
        ({"weak": [[0, 1], [2]]}, "weak: expected rows of equal length, got [[0, 1], [2]]"),
        ({"weak": MASKS[:, :1] | True}, "weak: expected candidate masks of at least 2 classes, got 1"),
        ({"weak": MASKS, "structure": "free"}, "structure: expected the defaults of structure and model for candidate"),
        ({"weak": MASKS, "X": np.ones((3, 2))}, "X: expected one row of features for each of the 4 labels"),
    ],
)
def test_bad_masks(arguments, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        tp.estimate_transition(**arguments)
