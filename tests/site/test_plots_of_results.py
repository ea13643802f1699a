"""Transitions, scores and calibration curves draw themselves."""

from __future__ import annotations

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import tproper as tp  # noqa: E402


@pytest.fixture
def ax():
    from matplotlib.figure import Figure

    return Figure().add_subplot()


def test_T_shows_its_names_and_intervals(ax):
    T = tp.Transition.from_counts([[90, 20], [10, 80]])
    assert T.plot(ax, classes=["ant", "bee"]) is ax
    assert [t.get_text() for t in ax.get_xticklabels()] == ["ant", "bee"]
    assert "-" in ax.texts[0].get_text()
    assert len(ax.texts) == 4


def test_scores_and_curves(ax):
    rng = np.random.default_rng(0)
    T, z = tp.symmetric_noise(2, 0.2), rng.integers(2, size=400)
    weak = T.sample(z, 0)
    score = tp.weak_accuracy(weak, z, T)
    score.plot(ax)
    (line, point) = ax.lines
    assert tuple(line.get_xdata()) == pytest.approx(score.interval)
    assert point.get_xdata()[0] == score.shown
    ax.clear()
    curve = tp.weak_calibration(weak, np.where(np.eye(2)[z] > 0, 0.9, 0.1), T)
    curve.plot(ax)
    assert ax.get_xlabel() == "confidence"
    assert tp.weak_accuracy(weak[:3], z[:3], T).plot(ax) is ax


def test_new_axes_are_pyplots():
    from matplotlib import pyplot

    axes = tp.symmetric_noise(3, 0.3).plot()
    assert axes.figure is pyplot.gcf()
    pyplot.close(axes.figure)
