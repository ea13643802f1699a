"""A T that was estimated: a Transition with draws, standard errors and intervals that belong together."""

import json

import numpy as np
import pytest
from refusals import refused

import tproper as tp
from tproper.transitions import transition_from_dict, transition_to_dict


def test_counts_become_a_transition_with_its_uncertainty():
    counts = np.array([[40, 3], [10, 27]])
    T = tp.Transition.from_counts(counts)
    assert isinstance(T, tp.EstimatedTransition)
    draws = T.samples(20_000, seed=1)
    assert draws.shape == (20_000, 2, 2)
    np.testing.assert_allclose(draws.sum(axis=1), 1)
    np.testing.assert_allclose(draws.mean(axis=0), T.matrix(), atol=3e-3)
    np.testing.assert_allclose(draws.std(axis=0), T.stderr, rtol=0.05)
    low, high = T.interval(0.9)
    inside = ((draws >= low) & (draws <= high)).mean(axis=0)
    np.testing.assert_allclose(inside, 0.9, atol=0.01)
    assert np.array_equal(draws, T.samples(20_000, seed=1))


def test_the_index_of_a_pandas_table_names_the_labels():
    pandas = pytest.importorskip("pandas")
    weak, true = pandas.Series([0, 2, 2, 0, 2]), pandas.Series([0, 1, 2, 2, 0])  # label 1 never occurs
    assert tp.Transition.from_counts(pandas.crosstab(weak, true)).weak_labels == [0, 2]
    table = pandas.DataFrame([[0.9, 0.2], [0.1, 0.8]], ["dog", "cat"], ["dog", "cat"])
    clf = tp.WeakLabelClassifier(tp.Transition(table), classes=["dog", "cat"], calibrate=False)
    assert clf.fit([[0.0], [1.0]] * 9, ["dog", "cat"] * 9).predict([[0.0], [1.0]]).tolist() == ["dog", "cat"]
    ordered = table.sort_index(axis=0).sort_index(axis=1)
    assert tp.Transition(ordered).label_kind == "classes"  # the order that classes have by default


def test_given_draws_are_kept_and_written_down():
    draws = np.random.default_rng(0).dirichlet(np.ones(3), size=(50, 2)).transpose(0, 2, 1)
    T = tp.EstimatedTransition(draws.mean(axis=0), draws=draws, notes=["made up"])
    again = transition_from_dict(json.loads(json.dumps(transition_to_dict(T))))
    assert isinstance(again, tp.EstimatedTransition)
    assert np.array_equal(again.samples(10, 3), T.samples(10, 3))
    assert again.notes == ["made up"]
    assert T.samples(80, 0).shape == (80, 3, 2)


@pytest.mark.parametrize("counts", [[[1, -1], [2, 3]], [[1, np.nan], [2, 3]], [1, 2]])
def test_counts_that_are_no_counts(counts):
    with refused("counts"):
        tp.Transition.from_counts(counts)
