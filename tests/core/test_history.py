"""Histories of runs of any length stay bounded, and still tell the whole run."""

import numpy as np
import pytest
import torch

import tproper as tp
from tproper._core import thin
from tproper.certificates import monitor as monitor_module
from tproper.data.stream import fit_stream
from tproper.learn import classifier as module


@pytest.mark.parametrize("most", [4, 7, 64, 1024])
@pytest.mark.parametrize("first", [0, 1, 900])
def test_a_history_is_bounded_and_covers_the_run(most, first):
    entries, n = [], 5000
    for step in range(first, first + n):
        entries.append(step)
        thin(entries, int, most)
        assert len(entries) <= most
        assert entries[-1] == step
    gaps = np.diff([first, *entries])
    assert (gaps[1:] > 0).all()
    assert gaps.max() <= 8 * n / most  # no part of the run is forgotten


def test_short_histories_are_left_alone():
    entries = list(range(10))
    thin(entries, int, 10)
    assert entries == list(range(10))


def batches_of(n):
    rng = np.random.default_rng(0)
    return [(rng.standard_normal((2, 3)), rng.integers(3, size=2)) for _ in range(n)]


def test_streams_keep_a_bounded_history_and_a_small_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 16)

    def run(n, name):
        clf = tp.WeakLabelClassifier(transition=tp.complementary(3), random_state=0, device="cpu")
        fit_stream(clf, batches_of(n), checkpoint=tmp_path / name)
        return clf, (tmp_path / name).stat().st_size

    short, few = run(16, "few")
    long, many = run(300, "many")
    assert long.n_iter_ == 300
    assert len(short.history_) == 16
    assert len(long.history_) <= 16
    assert long.history_[-1]["call"] == 300
    assert many < few + 200  # a few digits more


def test_a_resumed_stream_has_the_history_of_an_unbroken_one(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 16)

    class Enough(Exception):
        pass

    def stop(at):
        if at.batches == 77:
            raise Enough

    def classifier():
        return tp.WeakLabelClassifier(transition=tp.complementary(3), random_state=0, device="cpu")

    whole = fit_stream(classifier(), batches_of(120))
    with pytest.raises(Enough):
        fit_stream(classifier(), batches_of(120), checkpoint=tmp_path / "c", progress=stop)
    resumed = fit_stream(classifier(), batches_of(120), checkpoint=tmp_path / "c")
    assert resumed.history_ == whole.history_


def test_a_loaded_model_goes_on_with_its_own_number(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 4)
    clf = tp.WeakLabelClassifier(transition=tp.complementary(3), random_state=0, device="cpu")
    for X, y in batches_of(9):
        clf.partial_fit(X, y)
    loaded = tp.load(tp.save(clf, tmp_path / "model"))
    for X, y in batches_of(9):
        loaded.partial_fit(X, y)
    assert loaded.history_[-1]["call"] == 18
    assert len(loaded.history_) <= 4


def test_the_monitor_is_bounded_and_its_alarm_keeps_its_number(monkeypatch):
    monkeypatch.setattr(monitor_module, "REMEMBERED", 64)
    loss = tp.BackwardLoss(tp.complementary(3))
    monitor = tp.LossMonitor(loss, every=1)
    values = [torch.tensor(1.0 - 0.01 * i + 0.01 * (i % 2)) for i in range(1000)]
    with pytest.warns(tp.UnboundedLossWarning):
        any(map(monitor.update, values))
    history = monitor.history
    assert {len(column) for column in history.values()} == {len(history["update"])}
    assert len(history["update"]) <= 64
    assert history["update"][-1] == 999
    assert (np.diff(history["update"]) > 0).all()
    assert 100 < monitor.alarm_step < 200
    assert "1000 updates" in str(monitor)
