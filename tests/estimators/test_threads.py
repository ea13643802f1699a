"""Fits in threads are what they are alone, and nobody's random numbers change."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
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


def test_fits_in_threads_leave_the_process_its_warnings(tmp_path: Any) -> None:
    """A fold that did not converge is not told of, in its own thread; afterwards all is said that was said before."""
    before, shown = list(warnings.filters), warnings.showwarning
    frame = {"x": X[:, 20], "y": X[:, 30], "weak": WEAK % 3}
    data = tmp_path / "t.csv"
    rows = zip(*frame.values(), strict=True)
    data.write_text("\n".join([",".join(frame), *(",".join(map(str, row)) for row in rows)]) + "\n")

    def fit(i: int) -> None:
        if i % 3 == 0:
            tp.TableModel.fit(data, "symmetric:0.2", label="weak", epochs=2)
        else:
            tp.WeakLabelClassifier(T, max_iter=1, tune=[{"l2": [0.1, 1.0]}] if i % 3 == 1 else False).fit(X, WEAK)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(fit, range(9)))
        during = list(warnings.filters)
        warnings.warn("still heard", ConvergenceWarning, stacklevel=1)
    assert during[0][:3] == ("always", None, Warning)
    assert str(caught[-1].message) == "still heard"
    assert sum(issubclass(w.category, ConvergenceWarning) for w in caught) == 7  # each fit to all rows, and ours
    assert (warnings.filters, warnings.showwarning) == (before, shown)


def test_a_warning_points_at_the_callers_line() -> None:
    with pytest.warns(ConvergenceWarning) as caught:
        tp.WeakLabelClassifier(T, max_iter=1).fit(X, WEAK)
    assert {w.filename for w in caught} == {__file__}
    with pytest.warns(tp.IdentifiabilityWarning) as caught:
        tp.estimate_annotators(WEAK[:, None] % 2)
    assert {w.filename for w in caught} == {__file__}


def test_nothing_in_the_package_changes_how_the_process_warns() -> None:
    """``catch_warnings`` is not safe in threads: the command alone, which has one, may use it."""
    root = Path(tp.__file__).parent
    uses = set()
    for path in root.rglob("*.py"):
        code = [line for line in path.read_text().splitlines() if not line.lstrip().startswith((">>>", "..."))]
        if any("warnings.catch_warnings(" in line for line in code):  # (examples in docstrings are a caller's)
            uses.add(path.relative_to(root).as_posix())
    assert uses == {"cli/errors.py"}
