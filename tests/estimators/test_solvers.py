"""What solvers share: cross-fitting, losses of what is known of rows, one temperature, and shares of classes by EM."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime, minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

import tproper as tp
from tproper._core import mixture_shares, random_folds, standardised
from tproper.solvers import best_log_scale, cross_fit, evidence_loss, matching_scale, score_loss, splits_of
from tproper.transitions import Dense, DenseRows


@pytest.mark.parametrize("axis", [0, -1])
def test_each_row_has_the_value_of_a_model_that_did_not_see_it(axis: int) -> None:
    rng, told = np.random.default_rng(0), list[float]()
    y = rng.normal(size=30)
    splits = random_folds(30, 4, rng)

    def mean(f: int, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        assert not set(train) & set(test)
        assert splits[f][1] is test
        out = np.tile([y[train].mean(), f], (len(test), 1))
        return out if axis == 0 else out.T

    found = cross_fit(mean, splits, 30, axis, told.append)
    found = found if axis == 0 else found.T
    for f, (train, test) in enumerate(splits):
        np.testing.assert_array_equal(found[test], np.tile([y[train].mean(), f], (len(test), 1)))
    assert told == [0.25, 0.5, 0.75, 1.0]
    assert np.isnan(cross_fit(lambda f, train, test: y[test], splits[1:], 30)[splits[0][1]]).all()


def test_numbers_of_folds_are_splits() -> None:
    fold = np.array([2, 0, 1, 0, 2])
    assert [test.tolist() for _, test in splits_of(fold)] == [[1, 3], [2], [0, 4]]
    assert all(sorted([*train, *test]) == [0, 1, 2, 3, 4] for train, test in splits_of(fold))


def test_the_loss_of_what_is_known_of_rows_is_its_definition() -> None:
    rng, n, K = np.random.default_rng(1), 20, 4
    t, r, w = rng.random((n, K)), rng.dirichlet(np.ones(K), n), rng.random(n)
    t[0, 1:] = 0.0
    V = 3 * rng.normal(size=(K, n))
    of_likelihoods = DenseRows(torch.as_tensor(t).log())
    for evidence, rows in (
        (of_likelihoods, -np.log((t * softmax(V.T, 1)).sum(1))),
        (Dense(torch.as_tensor(r)), logsumexp(V.T, 1) - (r * V.T).sum(1)),
    ):
        for weights in (w, n):
            loss = evidence_loss(evidence, weights)
            value, gradient = loss(V)
            assert value == pytest.approx(float(rows @ w if weights is w else rows.mean()), rel=1e-12)
            slope = approx_fprime(V.ravel(), lambda x, loss=loss: loss(x.reshape(K, n))[0], 1e-7)
            np.testing.assert_allclose(gradient.ravel(), slope, atol=1e-6)
    T = tp.pair_noise(K, 0.3)
    y = torch.as_tensor(rng.integers(K, size=n))
    mine = evidence_loss(DenseRows(torch.as_tensor(T.matrix()[y.numpy()]).log()), w)
    labelled = score_loss(tp.ForwardLoss(T), y, w)
    assert mine(V)[0] == pytest.approx(labelled(V)[0], rel=1e-12)
    np.testing.assert_allclose(mine(V)[1], labelled(V)[1], atol=1e-12)


def test_a_row_that_no_class_can_have_given_moves_nothing() -> None:
    loss = evidence_loss(DenseRows(torch.full((1, 3), -600.0, dtype=torch.float64)), 1)
    value, gradient = loss(np.array([[1.0], [2.0], [3.0]]))
    assert value == pytest.approx(600.0)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)


def test_a_temperature_is_where_a_bounded_search_finds_it() -> None:
    rng = np.random.default_rng(2)
    v = 4 * rng.normal(size=(300, 3))
    q = softmax(0.4 * v + 0.3 * rng.normal(size=v.shape), 1)
    w = rng.random(300)

    def risk(a: float) -> float:
        return -float((q * log_softmax(math.exp(a) * v, 1)).sum(1) @ w) / w.sum()

    expected = minimize_scalar(risk, bounds=(-4.0, 4.0), method="bounded", options={"xatol": 1e-10}).x
    assert math.log(matching_scale(v, q, w)) == pytest.approx(expected, abs=1e-5)
    assert math.log(matching_scale(v, q, w, limits=(-4.0, 4.0))) == pytest.approx(expected, abs=1e-5)
    assert math.log(matching_scale(v, q, w, limits=(-0.5, 4.0))) == pytest.approx(-0.5, abs=1e-6)
    loss = evidence_loss(Dense(torch.as_tensor(q)), w / w.sum())
    assert best_log_scale(v.T.copy(), loss, start=0.0) == pytest.approx(expected, abs=1e-5)


def test_shares_are_those_of_the_greatest_likelihood() -> None:
    rng, K = np.random.default_rng(3), 3
    likelihood, counts = rng.random((2, 5, K)), rng.integers(1, 40, (2, 5)).astype(float)
    found = mixture_shares(likelihood, counts, rounds=20_000, tolerance=1e-13)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    for pi, rows, c in zip(found, likelihood, counts, strict=True):
        gain = (c / (rows @ pi)) @ rows / c.sum()  # at the optimum at most 1, and 1 where a class has a share
        assert gain.max() <= 1 + 1e-5
        assert np.abs(gain[pi > 1e-4] - 1).max() < 1e-4
    scaled = mixture_shares(likelihood * rng.random((2, 5, 1)), counts, rounds=20_000, tolerance=1e-13)
    np.testing.assert_allclose(scaled, found, atol=1e-8)
    one = mixture_shares(likelihood[:1], counts[:1], pseudo=1e6, rounds=500)
    np.testing.assert_allclose(one, 1 / K, atol=1e-4)


def test_constants_are_left_as_they_are() -> None:
    X = np.stack([np.full(9, 0.1), np.arange(9.0), np.zeros(9)], axis=1)
    Z, mean, scale = standardised(X)
    np.testing.assert_allclose(Z[:, [0, 2]], 0.0, atol=1e-12)
    np.testing.assert_allclose(Z[:, 1].std(), 1.0)
    np.testing.assert_allclose((X - mean) / scale, Z)
    assert scale[0] == scale[2] == 1.0
