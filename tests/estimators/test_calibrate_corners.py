"""Calibration where labels are few, silent or unlike each other, and how well its gain is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tproper as tp
from tproper.learn import fitting, scaling
from tproper.solvers import row_risks

K = 4


def drawn(T: tp.Transition, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores whose softmax is the truth, classes, weak labels."""
    rng = np.random.default_rng(seed)
    v = 2 * rng.standard_normal((n, T.num_classes))
    p = torch.softmax(torch.as_tensor(v), -1).numpy()
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=T.num_classes - 1)
    return v, y, T.sample(y, seed + 1)


def log_loss(p: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(p[np.arange(len(y)), y]).mean())


@pytest.mark.parametrize("factor", [1e-9, 1e-3, 1e3, 1e9])
def test_scores_of_any_size_are_brought_to_their_place(factor: float) -> None:
    T = tp.symmetric_noise(K, 0.2)
    v, y, weak = drawn(T, 1500)
    found = tp.calibrate(factor * v, weak, T)
    p = found.probabilities(factor * v)
    assert found.method == "temperature"
    assert found.scale == pytest.approx(1 / factor, rel=0.2)
    assert (p > 0).all()
    assert log_loss(p, y) < log_loss(torch.softmax(torch.as_tensor(v), -1).numpy(), y) + 0.01


def test_probabilities_are_told_from_scores_however_rounded() -> None:
    T = tp.Transition([[0.7, 0.1, 0.2, 0], [0.1, 0.6, 0.1, 0.1], [0, 0.2, 0.5, 0.1], [0.2, 0.1, 0.2, 0.8]])
    v, _, weak = drawn(T, 1500)
    p = torch.softmax(torch.as_tensor(2.5 * v), -1)
    told = tp.calibrate(p, weak, T)
    for rounded in (p.bfloat16(), p.half(), p.float(), p.numpy().round(3), p.numpy().round(2)):
        other = tp.calibrate(rounded, weak, T)
        assert other.inputs == "probabilities"
        assert other.temperature == pytest.approx(told.temperature, rel=0.1)
        assert np.abs(other.probabilities(rounded[:1]) - told.probabilities(p[:1])).max() < 0.05
    assert tp.calibrate(p + 0.2, weak, T).inputs == "scores"
    with pytest.warns(UserWarning, match="expected scores, as the calibrator was fitted to, got what looks like prob"):
        tp.calibrate(2.5 * v, weak, T).probabilities(p)


def test_masked_weights_are_refused() -> None:
    v, _, weak = drawn(tp.identity(K), 200)
    with pytest.raises(ValueError, match="sample_weight: expected no masked entries, got 200"):
        tp.calibrate(v, weak, tp.identity(K), sample_weight=np.ma.masked_equal(np.ones(200), 1))


def test_a_temperature_that_chance_could_bring_about_is_not_taken() -> None:
    # of models that are right as they are, most stay so; a clear error is corrected all but fully
    for T in (tp.symmetric_noise(K, 0.3), tp.complementary(K)):
        moved = []
        for seed in range(12):
            v, _, weak = drawn(T, 400, seed)
            drawn_back = scaling.fit_cautiously(v, T.encode(weak), T, np.ones(400))
            moved.append(abs(np.log(float(drawn_back.scale))))
            plain = abs(np.log(scaling.fit_temperature(v, T.encode(weak), T, np.ones(400))))
            assert moved[-1] <= plain + 1e-12
        assert np.mean(np.array(moved) == 0) > 0.4
        v, _, weak = drawn(T, 4000)
        assert float(tp.calibrate(5 * v, weak, T).scale) == pytest.approx(0.2, rel=0.1)


def test_labels_that_say_nothing_are_left_out() -> None:
    T = tp.annotators([tp.symmetric_noise(K, 0.2)] * 2)
    v, _, weak = drawn(T, 900)
    weak[600:] = -1
    found, told = tp.calibrate(3 * v, weak, T), tp.calibrate(3 * v[:600], weak[:600], T)
    assert found.gain.n == told.gain.n <= 600
    assert float(found.scale) == pytest.approx(float(told.scale), rel=0.05)
    assert any("say nothing of the class and are left out" in note for note in found.notes)
    silent = tp.calibrate(3 * v, np.full_like(weak, -1), T, "temperature")
    assert silent.is_identity
    assert not silent.gain.informative
    blind = tp.calibrate(3 * v, weak[:, 0].clip(0), tp.Transition(np.full((K, K), 1 / K)))
    assert blind.is_identity
    assert blind.notes == ["900 of 900 labels say nothing of the class and are left out"]


def test_weights_that_stand_for_few_rows() -> None:
    T = tp.symmetric_noise(K, 0.2)
    v, _, weak = drawn(T, 600)
    found = tp.calibrate(3 * v, weak, T, sample_weight=np.where(np.arange(600) == 0, 1e9, 1.0))
    assert found.is_identity
    assert "1 rows are too few to calibrate with" in found.notes[0]


def test_a_map_that_was_asked_for_and_hurts_says_so() -> None:
    T = tp.symmetric_noise(30, 0.2)
    v, _, weak = drawn(T, 60)
    found = tp.calibrate(v, weak, T, "matrix")
    assert found.gain.value < 0
    assert any("although it raises the weak risk" in note for note in found.notes)


def test_the_interval_of_the_gain_holds_the_gain_of_the_map_that_is_kept() -> None:
    T = tp.complementary(K)
    rng = np.random.default_rng(3)
    pool = 3 * rng.standard_normal((3000, K))
    p = torch.softmax(torch.as_tensor(pool), -1).numpy()
    held = []
    for seed in range(30):
        rows = rng.integers(0, 3000, 300)
        classes = (p[rows].cumsum(axis=1) < rng.random((300, 1))).sum(axis=1).clip(max=K - 1)
        found = tp.calibrate(1.6 * pool[rows], T.sample(classes, seed), T, "temperature")
        logs = [
            np.log(torch.softmax(torch.as_tensor(s), -1).numpy() @ T.matrix().T)
            for s in (1.6 * pool, found.map(pool * 1.6))
        ]
        truth = float(((p @ T.matrix().T) * (logs[1] - logs[0])).sum(axis=1).mean())
        held.append(found.gain.interval[0] <= truth <= found.gain.interval[1])
    assert np.mean(held) >= 0.85  # 95% of them; the plain interval of 1.96 standard errors holds three quarters


def test_cross_fits_are_many_where_rows_are_few() -> None:
    counts = [fitting.cross_fit_folds(n) for n in (100, 1200, 5000, 10_000, 60_000, 10**6)]
    assert counts == [10, 10, 10, 5, 3, 3]


def test_cross_fits_of_labels_that_say_nothing_are_no_better_than_equal_probabilities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of many minima the labels choose one; a fold that ended there because all labels did would have seen its own."""
    T, n = tp.complementary(30), 600
    fitted, scores = fitting.calibrator, []

    def noted(held_out: np.ndarray, *rest: object) -> tp.Calibrator:
        scores.append(held_out)
        return fitted(held_out, *rest)

    monkeypatch.setattr(fitting, "calibrator", noted)
    for seed in (0, 3):
        rng = np.random.default_rng(seed)
        X, weak = rng.standard_normal((n, 6)), T.sample(rng.integers(0, 30, n), rng)
        tp.WeakLabelClassifier(T, classes=list(range(30))).fit(X, weak)
        labels = T.encode(weak)
        excess = row_risks(T, labels, scores[-1]) - row_risks(T, labels, 0 * scores[-1])
        assert excess.mean() > -2.5 * excess.std() / np.sqrt(n)


def test_scores_of_two_classes_in_one_column_are_explained() -> None:
    T, v = tp.symmetric_noise(2, 0.1), np.random.default_rng(0).standard_normal(200)
    with pytest.raises(ValueError, match=r"\(n, K\), .* got \(200,\); for two classes pass np.c_\[-v / 2, v / 2\] of"):
        tp.calibrate(v, np.zeros(200, dtype=int), T)
    both = np.c_[-v / 2, v / 2]
    two = tp.calibrate(both, (v > 0).astype(int), T, method="identity").probabilities(both)
    np.testing.assert_allclose(two[:, 1], 1 / (1 + np.exp(-v)))
