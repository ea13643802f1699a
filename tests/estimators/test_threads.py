"""Fits in threads are what they are alone, and nobody's random numbers change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import tproper as tp

X, Y = load_digits(return_X_y=True)
X = X[:300] / 16
T = tp.symmetric_noise(10, 0.2)
WEAK = T.sample(Y[:300], 0)


def network(d: int, k: int) -> nn.Module:
    return nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, k))


MODELS: dict[str, dict[str, Any]] = {
    "linear": {},
    "mlp": {"model": "mlp", "hidden": (16,), "epochs": 4},
    "callable": {"model": network, "epochs": 4},
    "linear in minibatches": {"early_stopping": True, "epochs": 4},
}


def fitted(settings: dict[str, Any], seed: int) -> np.ndarray:
    return tp.WeakLabelClassifier(T, random_state=seed, **settings).fit(X, WEAK).predict_proba(X)


@pytest.mark.parametrize("name", MODELS)
def test_threads_do_not_meet(name: str) -> None:
    seeds = [0, 0, 0, 0] if name == "linear" else [0, 1, 2, 3]  # the solver of linear models draws nothing
    alone = {seed: fitted(MODELS[name], seed) for seed in set(seeds)}
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: fitted(MODELS[name], seed), seeds))
    for seed, b in zip(seeds, together, strict=True):
        np.testing.assert_array_equal(alone[seed], b)
    if name == "mlp":
        assert not np.array_equal(alone[0], alone[1])


@pytest.mark.parametrize("name", MODELS)
def test_the_callers_random_numbers_stay(name: str, tmp_path: Any) -> None:
    torch.manual_seed(3)
    np.random.seed(3)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    clf = tp.WeakLabelClassifier(T, random_state=0, warm_start=True, **MODELS[name]).fit(X, WEAK).fit(X, WEAK)
    clf.predict_proba(X)
    if name != "callable":
        tp.load(tp.save(clf, tmp_path / "model"))
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(numpy_before, np.random.get_state()[1])


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_another_threads_random_numbers_stay_while_a_fit_runs(name: str) -> None:
    """What torch draws in another thread meanwhile is what it would draw alone."""
    generator = torch.Generator().manual_seed(5)
    expected = torch.rand(200, generator=generator)
    torch.manual_seed(5)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(fitted, MODELS[name], 0)
        got = torch.cat([torch.rand(1) for _ in range(200)])
        running.result()
    assert torch.equal(expected, got)


def test_a_fitted_network_stays_in_evaluation_mode() -> None:
    """A prediction that switched dropout off and on again would do so under another thread's hands."""
    clf = tp.WeakLabelClassifier(T, model=network, epochs=1, early_stopping=False, calibrate=False, random_state=0)
    for learn in (clf.fit, clf.partial_fit):
        learn(X, WEAK)
        assert not clf.module_.training
        clf.predict(X)
        assert not clf.module_.training
