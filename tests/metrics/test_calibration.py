"""Calibration from weak labels: the textbook at T = I, honest under noise."""

import json

import numpy as np
import pytest
import torch
from refusals import refused

import tproper as tp
from tproper.metrics import Z95, BinnedErrors, bin_sums, statistics, weak_calibration
from tproper.metrics.binned import QuadraticForm
from tproper.metrics.classwise import Cells
from tproper.metrics.statistics import Reweigher


def data(n, K, temperature=1.0, seed=0, sharpness=3.0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, K)) * sharpness

    def softmax(v):
        v = np.exp(v - v.max(1, keepdims=True))
        return v / v.sum(1, keepdims=True)

    p = softmax(scores)
    z = (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=K - 1)
    return z, softmax(scores * temperature)


def test_clean_labels_give_the_textbook_curve_and_ece():
    z, q = data(500, 4)
    found = weak_calibration(z, q, tp.identity(4), bins=10, strategy="uniform")
    confidence, correct = q.max(1), q.argmax(1) == z
    ece = 0.0
    for b, (low, high) in enumerate(zip(found.edges[:-1], found.edges[1:], strict=True)):
        inside = (confidence > low) & (confidence <= high)
        assert found.count[b] == inside.sum()
        if inside.any():
            assert found.confidence[b] == pytest.approx(confidence[inside].mean())
            assert found.accuracy[b] == pytest.approx(correct[inside].mean())
            ece += inside.mean() * abs(confidence[inside].mean() - correct[inside].mean())
    assert found.ece == pytest.approx(ece)
    assert found.overconfidence.value == pytest.approx(confidence.mean() - correct.mean())


def test_equal_mass_bins_and_given_edges():
    z, q = data(600, 4)
    assert weak_calibration(z, q, tp.identity(4), bins=6).count == pytest.approx(np.full(6, 100), abs=1)
    assert len(weak_calibration(z, q, tp.identity(4), bins=[0, 0.5, 0.9, 1]).count) == 3
    assert 5 <= len(weak_calibration(z, q, tp.identity(4)).count) <= 15


@pytest.mark.parametrize("T", [tp.complementary(4), tp.partial_labels(4, 0.3)], ids=str)
def test_noise_is_not_mistaken_for_miscalibration(T):
    """A perfectly calibrated model: the plain ECE is far from 0, and the noise floor explains it."""
    values, plain, floor, covered = [], [], [], []
    for seed in range(60):
        z, q = data(500, 4, seed=seed)
        found = weak_calibration(T.sample(z, seed), q, T, bins=10)
        values.append(found.squared_error.value)
        plain.append(found.ece)
        floor.append(found.ece_of_noise)
        covered.append(found.interval[0] == 0)
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(60)
    assert np.mean(plain) > 0.04
    assert np.mean(floor) == pytest.approx(np.mean(plain), rel=0.2)
    assert np.mean(covered) > 0.9  # 97.5% expected: 0 is an end of the possible range


def test_overconfidence_has_its_sign():
    for temperature, sign in ((2.5, 1), (0.3, -1)):
        z, q = data(2000, 4, temperature)
        T = tp.complementary(4)
        found = weak_calibration(T.sample(z, 0), q, T)
        assert sign * found.overconfidence.value > 0
        low, high = found.overconfidence.interval
        assert not low <= 0 <= high
        assert found.interval[0] > 0


def test_classwise_matches_a_direct_computation():
    z, q = data(400, 3)
    T = tp.symmetric_noise(3, 0.2)
    y = T.sample(z, 0)
    found = weak_calibration(y, q, T, bins=[0, 0.2, 0.6, 1], classwise=True)
    r = T.reconstruction().targets(y).numpy()
    squared = []
    for c in range(3):
        total = 0.0
        for b, (low, high) in enumerate([(-1, 0.2), (0.2, 0.6), (0.6, 1)]):
            inside = (q[:, c] > low) & (q[:, c] <= high)
            h = (r - q)[inside, c]
            assert found.accuracy[c, b] == pytest.approx(r[inside, c].mean())
            total += inside.mean() * (h.mean() ** 2 - h.var(ddof=1) / len(h))
        squared.append(total)
    assert found.squared_error.value == pytest.approx(np.mean(squared))
    assert found.kind == "class-wise"


def test_classwise_interval_covers():
    """All classes are one quadratic form: 95%, within three standard errors of 400 data sets."""
    T, edges, hits = tp.symmetric_noise(3, 0.2), np.linspace(0, 1, 6), 0
    z, q = data(200_000, 3, temperature=2.0, seed=99)
    truth = weak_calibration(z, q, tp.identity(3), bins=edges, classwise=True).squared_error.value
    for seed in range(400):
        z, q = data(400, 3, temperature=2.0, seed=seed)
        low, high = weak_calibration(T.sample(z, seed), q, T, bins=edges, classwise=True).squared_error.interval
        hits += low <= truth <= high
    assert abs(hits / 400 - 0.95) < 0.033


def test_weights_of_one_change_nothing_and_zero_weights_drop():
    z, q = data(400, 4)
    T = tp.complementary(4)
    y = T.sample(z, 0)
    plain = weak_calibration(y, q, T, bins=5)
    assert weak_calibration(y, q, T, bins=5, sample_weight=np.full(400, 3.0)).squared_error.value == pytest.approx(
        plain.squared_error.value
    )


def test_too_few_labels_are_announced_and_dict_is_json():
    z, q = data(30, 10)
    T = tp.complementary(10)
    found = weak_calibration(T.sample(z, 0), q, T)
    assert not found.informative
    assert "too few" in found.note
    json.dumps(found.to_dict(), allow_nan=False)
    assert "noise alone" in str(found)
    assert float(found) == found.value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bins": 0}, "bins"),
        ({"bins": "many"}, "bins"),
        ({"bins": [0.1, 1]}, "bins"),
        ({"bins": [0, 0.5, 0.5, 1]}, "bins"),
        ({"bins": ["a", "b"]}, "bins"),
        ({"strategy": "mass"}, "strategy"),
    ],
)
def test_wrong_options(options, message):
    z, q = data(30, 3)
    with refused(message):
        weak_calibration(z, q, tp.identity(3), **options)


def test_the_interval_of_a_large_error_with_little_noise_is_narrow():
    """The gamma distribution is then normal to all digits, of which SciPy's incomplete gamma function keeps none."""
    noise = np.full(5, 1e-12)
    form = QuadraticForm(
        np.asarray(0.3), noise.sum(), (noise**2).sum(), (noise**3).sum(), noise[0], noise[0] ** 2,
        np.asarray(1e-3), np.asarray(False), noise.sum(),
    )  # fmt: skip
    away = Z95 * 1e-3**0.5  # the standard error of theta is theta times the root of 1e-3
    assert form.interval() == pytest.approx((0.3 / (1 + away), 0.3 / (1 - away)), rel=1e-6)


def test_where_the_shares_of_few_examples_leave_every_error_possible_the_interval_ends_at_the_largest():
    T, q = tp.identity(2), np.array([0.502, 0.503, 0.514, 0.515, 0.528, 0.529, 0.546, 0.547, 0.58, 0.595])
    form = QuadraticForm(*map(np.asarray, (0.046, 0.212, 0.0099, 0.00048, 0.0156, 0.00027, 0.38, False, 0.2)))
    assert form.interval()[1] == np.inf
    score = weak_calibration(np.tile([0, 1], 5), np.column_stack([q, 1 - q]), T, bins=5).squared_error
    assert 0 <= score.interval[0] < score.interval[1] <= 1


@pytest.mark.parametrize("away", [0.0, 1.0, 3.0])
def test_errors_of_known_covariance_are_covered_from_zero_on(away):
    """Five normal errors; theta `away` standard deviations (under 0) above 0, the end of its range."""
    variances = np.array([1.0, 1.0, 0.7, 0.5, 0.3])
    traces = [(variances**k).sum() for k in (1, 2, 3)]
    mu = np.sqrt(away * np.sqrt(2 * traces[1]) / 5) * np.ones(5)
    u = mu + np.random.default_rng(0).normal(size=(600, 5)) * np.sqrt(variances)
    raw = (u**2).sum(1)
    along = [(u**2 * variances**k).sum(1) / raw for k in (1, 2)]
    form = QuadraticForm(raw, *(np.full(600, t) for t in traces), *along, np.zeros(600), np.zeros(600, bool), raw)
    low, high = form.interval()
    assert (low < high).all()
    assert 0.935 < np.mean((low <= mu @ mu) & (mu @ mu <= high)) < 0.97


@pytest.mark.parametrize("heavy", [0.0, 1.0, 2.0])
def test_the_square_is_unbiased_whatever_the_weights(heavy):
    rng = np.random.default_rng(0)
    sets, n = 20_000, 8
    a = np.exp(heavy * rng.normal(size=n))
    h = 0.5 + rng.choice([-1.0, 1.0], size=(sets, n))
    cell = np.repeat(np.arange(sets), n)
    errors = BinnedErrors(*(s[:, None] for s in bin_sums(cell, sets, np.tile(a, sets), h.ravel())))
    assert errors.used.all()
    squares = errors.form().estimate
    assert squares.mean() == pytest.approx(0.25, abs=4 * squares.std() / np.sqrt(sets))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_cells_covariance_is_that_of_its_examples(weighted, monkeypatch):
    """Products with it go by sparse blocks; example by example, class by class, they are the same."""
    rng, T, n = np.random.default_rng(0), tp.symmetric_noise(4, 0.3), 90
    q, y = torch.as_tensor(rng.dirichlet(np.ones(4), n)), torch.as_tensor(T.sample(rng.integers(4, size=n), 1))
    a = rng.uniform(0.5, 1.5, n) if weighted else np.ones(n)
    edges = np.tile(np.linspace(0, 1, 4), (4, 1))
    monkeypatch.setattr(statistics, "BLOCK", 4 * 40)
    weigher = Reweigher(T, T.reconstruction())
    cells = Cells(weigher, y, q, a / a.sum(), edges)
    examples = cells.blocks()
    assert [len(z.toarray()) for z in examples] == [40, 40, 10]
    h = (weigher.targets(y) - q).numpy()
    V = rng.normal(size=(cells.size, 3))
    found, direct = sum(z.T @ (z @ V) for z in examples), np.zeros_like(V)
    for i in range(n):
        place = [k * 3 + min(int(q[i, k] * 3), 2) for k in range(4)]
        z = cells.scale[place].numpy() * a[i] / a.sum() * (h[i] - cells.centre[place].numpy())
        direct[place] += np.outer(z, z @ V[place])
    np.testing.assert_allclose(found, direct, rtol=1e-12, atol=1e-18)
    assert cells.pseudo().shape[1] == cells.size
    groups = np.arange(n) // 3  # of three examples each, which err together
    (together,) = Cells(weigher, y, q, a / a.sum(), edges, groups).blocks()
    by_group = np.add.reduceat(np.concatenate([z.toarray() for z in examples]), np.arange(0, n, 3))
    np.testing.assert_allclose(together.toarray(), by_group * np.sqrt(30 / 29), rtol=1e-12, atol=1e-18)
