"""T's intervals hold T where it is estimated from features alone: the classifier's own error is in them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tproper as tp
from tproper.estimation.likelihood import Evidence, effective_rows
from tproper.estimation.recalibration import Recalibration

SKEWED = tp.Transition([[0.7, 0.1, 0.2], [0.2, 0.8, 0.2], [0.1, 0.1, 0.6]])


def logistic(n, rng, slope=2.8):
    """Two classes whose log odds are linear: the classifier's form is right, the classes are left open."""
    w = np.random.default_rng(5).standard_normal(5) * slope
    X = rng.standard_normal((n, 5))
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ w + 0.3))).astype(np.int64)


def unlike_spreads(n, rng):
    """Three classes with heavy tails and spreads of their own: no linear classifier is right."""
    z = rng.choice(3, size=n, p=[0.4, 0.35, 0.25])
    return 2 * np.eye(3, 4)[z] + rng.standard_t(5, (n, 4)) * np.array([0.56, 0.84, 1.12])[z][:, None], z


@pytest.mark.parametrize(
    ("draw", "T", "n"),
    [(logistic, tp.binary_noise(0.4, 0.1), 5000), (unlike_spreads, tp.symmetric_noise(3, 0.3), 2000)],
    ids=["classes left open", "form not right"],
)
def test_intervals_hold_T(draw, T, n):
    """In 24 sets; with p taken as known and as it is they held 77 and 82% of the entries."""
    held = []
    for r in range(24):
        rng = np.random.default_rng([4, r])
        X, z = draw(n, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tp.IdentifiabilityWarning)
            low, high = tp.estimate_transition(T.sample(z, rng), X=X).interval()
        held.append(((low <= T.matrix()) & (T.matrix() <= high)).mean())
    assert np.mean(held) > 0.88


def test_two_classes_keep_both_rates():
    """Rates of .4 and .1 were both put at about .2 where one number explained the labels as well, with small errors."""
    T, held = tp.binary_noise(0.4, 0.1), []
    for r in range(12):
        rng = np.random.default_rng([6, r])
        X, z = logistic(2000, rng, slope=0.8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tp.IdentifiabilityWarning)
            estimate = tp.estimate_transition(T.sample(z, rng), X=X)
        assert not any("one rate of T alone" in note for note in estimate.notes)
        low, high = estimate.interval()
        held.append(((low <= T.matrix()) & (T.matrix() <= high)).mean())
    assert np.mean(held) > 0.88


def test_a_classifier_of_the_wrong_form_is_told():
    """Heavy tails and spreads of their own: the linear form is wrong, and intervals hold less than they say."""
    told = "the intervals of T may be too narrow: the classifier's form does not fit"
    rng = np.random.default_rng(0)
    z = rng.integers(4, size=2000)
    noise = rng.standard_t(5, (2000, 4)) * np.linspace(0.56, 1.12, 4)[z][:, None]
    weak = tp.pair_noise(4, 0.3).sample(z, 1)
    with pytest.warns(tp.IdentifiabilityWarning, match=told):
        tp.estimate_transition(weak, X=2 * np.eye(4)[z] + noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        right = tp.estimate_transition(weak, X=3 * np.eye(4)[z] + rng.standard_normal((2000, 4)))
    assert not any(told in note for note in right.notes)
    with pytest.warns(tp.IdentifiabilityWarning) as seen:  # of features that say nothing, no form is wrong
        tp.estimate_transition(weak, X=rng.standard_normal((2000, 2)))
    assert not any(told in str(w.message) for w in seen)


def test_labels_that_a_class_never_gets_may_have_the_rate_0():
    """Its interval ends at 0, as it does where clean rows are counted; a common label's does not."""
    T = tp.pair_noise(4, 0.3)
    rng = np.random.default_rng(0)
    z = rng.integers(4, size=2000)
    X = 3 * np.eye(4)[z] + rng.standard_normal((2000, 4))
    low, high = tp.estimate_transition(T.sample(z, rng), X=X).interval()
    assert (low[T.matrix() == 0] == 0).mean() > 0.8
    assert (high[T.matrix() == 0] < 0.1).all()
    assert (low[T.matrix() > 0] > 0.1).all()


@pytest.fixture
def sample():
    rng = np.random.default_rng(1)
    n = 400
    z = rng.integers(3, size=n)
    P = np.exp(1.5 * np.eye(3)[:, z] + 0.5 * rng.standard_normal((3, n)))
    true = np.where(rng.random(n) < 0.1, z, -1)
    return Evidence(SKEWED.sample(z, 7), true, 3, 3), P / P.sum(axis=0)


def value(evidence, p, T, W):
    """The log likelihood and the priors, by their definition; T's columns need not sum to one."""
    out = -0.5 * (p.precision * (W - p.start) ** 2).sum() + ((evidence.clean + 1 / len(T)) * np.log(T)).sum()
    q, known = p.probabilities(W), evidence.true >= 0
    mass = (T[evidence.weak] * q.T).sum(axis=1)
    return out + np.log(np.where(known, q[evidence.true, np.arange(len(known))], mass)).sum()


def test_the_recalibrated_fit_is_a_maximum(sample):
    evidence, P = sample
    p, rng = Recalibration(P, 400), np.random.default_rng(0)
    T, _ = p.fit(evidence, SKEWED.matrix(), "auto")
    top = value(evidence, p, T, p.W)
    assert top > value(evidence, p, SKEWED.matrix(), p.start) + 1
    for _ in range(30):
        near = T * np.exp(0.05 * rng.standard_normal(T.shape))
        assert value(evidence, p, near / near.sum(axis=0), p.W + 0.05 * rng.standard_normal(p.W.shape)) < top + 1e-2


def test_rows_are_worth_what_the_whole_information_says(sample):
    """The inverse of all second derivatives, by differences, on the surface where columns sum to one."""
    evidence, P = sample
    p = Recalibration(P, 400)
    T, q = p.fit(evidence, SKEWED.matrix(), "auto")
    at, step = np.concatenate([T.ravel(), p.W[p.free]]), 1e-3

    def f(x):
        W = p.W.copy()
        W[p.free] = x[T.size :]
        return value(evidence, p, x[: T.size].reshape(T.shape), W)

    E = step * np.eye(len(at))
    H = [[(f(at + a - b) + f(at - a + b) - f(at + a + b) - f(at - a - b)) / (4 * step**2) for a in E] for b in E]
    sums = np.zeros((3, len(at)))
    for z in range(3):
        sums[z, np.arange(3) * 3 + z] = 1
    whole = np.linalg.inv(np.block([[np.array(H), sums.T], [sums, np.zeros((3, 3))]]))
    variance = whole.diagonal()[: T.size].reshape(T.shape).sum(axis=0)
    expected = (T * (1 - T)).sum(axis=0) / variance - evidence.clean.sum(axis=0)
    worth = effective_rows(evidence, T, q, p.information(evidence, T))
    np.testing.assert_allclose(worth, expected, rtol=0.02)
    assert (worth < 0.97 * effective_rows(evidence, T, q)).all()


def test_many_classes_or_few_rows_are_recalibrated_one_by_one():
    P = np.random.default_rng(0).dirichlet(np.ones(30), 50).T
    assert Recalibration(P, 1e4).free.sum() == 3 * 30
    few = P[:10] / P[:10].sum(axis=0)
    assert Recalibration(few, 1e4).free.all()
    assert Recalibration(few, 200).free.sum() == 3 * 10
