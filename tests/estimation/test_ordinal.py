"""Classes in an order: T shrunk to errors among neighbours, where a caller says so."""

import numpy as np
import pytest

import tproper as tp


@pytest.mark.parametrize(("p", "spread"), [(0.3, 0.0), (0.4, 0.4)])
def test_few_counts_are_shrunk_to_the_order(p, spread):
    """Nearer to T than without the order, in the mean of some draws; intervals hold T."""
    T = tp.ordinal_noise(6, p, spread)
    error, inside = {"ordinal": [], "auto": []}, []
    for seed in range(8):
        z = np.repeat(np.arange(6), 12)
        counts = np.zeros((6, 6))
        np.add.at(counts, (T.sample(z, seed), z), 1)
        for structure, found in error.items():
            estimate = tp.Transition.from_counts(counts, structure=structure)
            found.append(np.abs(estimate.matrix() - T.matrix()).mean())
        low, high = tp.Transition.from_counts(counts, structure="ordinal").interval()
        inside.append(((low <= T.matrix() + 1e-12) & (T.matrix() <= high + 1e-12)).mean())
    assert np.mean(error["ordinal"]) < 0.85 * np.mean(error["auto"])
    assert np.mean(inside) > 0.9


def test_many_counts_speak_for_themselves():
    T = tp.symmetric_noise(4, 0.4)
    z = np.repeat(np.arange(4), 5000)
    counts = np.zeros((4, 4))
    np.add.at(counts, (T.sample(z, 0), z), 1)
    found = tp.Transition.from_counts(counts, structure="ordinal").matrix()
    assert np.abs(found - T.matrix()).max() < 0.03


def test_as_many_labels_as_classes_are_wanted():
    with pytest.raises(tp.InputError, match="ordinal"):
        tp.Transition.from_counts(np.ones((3, 2)), structure="ordinal")
