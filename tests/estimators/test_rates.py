"""Learning rates and early stopping by what labels say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

import tproper as tp
from tproper.learn.defaults import default_learning_rate, label_information
from tproper.solvers import minibatch

X, Y = load_digits(return_X_y=True)
X = X / 16


@pytest.mark.parametrize("K", [2, 3, 10])
def test_information_of_a_label(K: int) -> None:
    clean, other = label_information(tp.ForwardLoss(tp.identity(K))), tp.complementary(K)
    assert clean == pytest.approx(1)
    assert label_information(tp.ForwardLoss(other)) == pytest.approx(1 / (K - 1) ** 2)
    assert label_information(tp.ForwardLoss(tp.Transition(np.full((3, K), 1 / 3)))) == 1  # nothing: any rate will do
    assert label_information(tp.BackwardLoss(other)) == 1
    noisy = [label_information(tp.ForwardLoss(tp.symmetric_noise(K, p))) for p in (0.0, 0.1, 0.2, 0.3)]
    assert noisy == sorted(noisy, reverse=True)
    rates = [default_learning_rate(i) for i in noisy]
    assert rates[0] == pytest.approx(3e-3)
    assert rates == sorted(rates)


def test_the_rate_is_that_of_the_labels_or_the_one_asked_for() -> None:
    T = tp.complementary(10)
    settings = {"model": "mlp", "epochs": 1, "random_state": 0}
    weak = T.sample(Y, 0)
    auto = tp.WeakLabelClassifier(T, **settings).fit(X, weak)
    assert auto.learning_rate_ == pytest.approx(9e-3)
    asked = tp.WeakLabelClassifier(T, learning_rate=1e-3, **settings).fit(X, weak)
    assert asked.learning_rate_ == 1e-3
    assert tp.WeakLabelClassifier(**settings).fit(X, Y).learning_rate_ == pytest.approx(3e-3)
    stream = tp.WeakLabelClassifier(T, **settings).partial_fit(X[:100], weak[:100])
    assert stream.partial_fit(X[100:], weak[100:]).learning_rate_ == pytest.approx(9e-3)
    with pytest.raises(ValueError, match="learning_rate: expected"):
        tp.WeakLabelClassifier(T, learning_rate="fast").fit(X, weak)


def test_rows_are_held_out_where_their_labels_say_enough() -> None:
    settings = {"model": "mlp", "epochs": 1, "random_state": 0}
    T = tp.complementary(10)
    few = tp.WeakLabelClassifier(T, **settings).fit(X, T.sample(Y, 0))  # 180 labels, worth 2.2 clean ones
    assert few.calibrator_ is not None
    assert few.calibrator_.notes == [
        "not calibrated: no rows were held out (early_stopping): they would say as much as 2.2 clean labels"
    ]
    assert "weak_risk" not in few.history_[0]
    noisy = tp.symmetric_noise(10, 0.2)
    assert "weak_risk" in tp.WeakLabelClassifier(noisy, **settings).fit(X, noisy.sample(Y, 0)).history_[0]
    forced = tp.WeakLabelClassifier(T, early_stopping=True, **settings).fit(X, T.sample(Y, 0))
    assert "weak_risk" in forced.history_[0]


def test_rows_of_weight_two_count_as_two_rows() -> None:
    clf = tp.WeakLabelClassifier(model="mlp", epochs=1, random_state=0)
    for rows, weights, held in ((300, None, False), (300, np.full(300, 2.0), True), (600, None, True)):
        again = np.arange(rows) % 300
        assert ("weak_risk" in clf.fit(X[again], Y[again], weights).history_[0]) == held


@pytest.mark.parametrize("units", [(1e4, 1, 1), (1, 1e7, 1), (1e3, 1e6, 1e-2)], ids=str)
@pytest.mark.parametrize("transition", [None, "symmetric:0.2", "complementary"])
def test_one_column_in_large_units_does_not_silence_the_others(units, transition) -> None:
    rng = np.random.default_rng(0)
    W, X = 2 * rng.standard_normal((3, 3)), rng.standard_normal((1500, 3))
    z = (X @ W.T).argmax(axis=1)
    T = None if transition is None else tp.parse_transition(transition, 3)
    y = z if T is None else T.sample(z, 1)
    right = [(tp.WeakLabelClassifier(T, calibrate=False).fit(A, y).predict(A) == z).mean() for A in (X, X * units)]
    if min(units) == 1:  # a feature far below the middle one may still be lost, as with any penalty
        assert right[1] > right[0] - 0.05
    assert right[1] > 0.6


@pytest.mark.parametrize(("best", "epochs"), [(3, 40), (0, 40), (30, 40), (39, 40)])
def test_the_rate_is_taken_to_zero_before_training_stops(
    best: int, epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The risk falls up to epoch `best` and rises then: patience, as many epochs of cooling, from the weights kept."""
    patience, rates, at = 4, [], []
    module = torch.nn.Linear(2, 2, bias=False)

    def epoch(module: torch.nn.Module, *args: Any) -> float:
        steps = args[-1]
        at.append(float(module.weight.detach()[0, 0]))
        rates.append(steps.optimizer.param_groups[0]["lr"])
        module.weight.data.fill_(float(len(rates)))  # epoch e leaves weights e + 1
        return 0.0

    def risks(*_: Any) -> tuple[torch.Tensor, float]:
        e = len(rates) - 1
        return torch.linspace(0.9, 1.1, 50).double() + abs(e - best) * (1 + torch.arange(50) % 2 / 100), 1.0

    monkeypatch.setattr(minibatch, "train_epoch", epoch)
    monkeypatch.setattr(minibatch, "weak_risks", risks)
    rows = minibatch.Rows(np.zeros((50, 2)), torch.float32, torch.device("cpu"))
    held = (rows, torch.zeros(50, dtype=torch.long), None)
    steps = minibatch.Steps(0.1, 0.0, 10, torch.Generator())
    settings = {"epochs": epochs, "patience": patience, "tol": 0.0, "transition": tp.identity(2)}
    n = minibatch.fit_minibatch(module, torch.nn.Identity(), *held, steps, held_out=held, **settings)
    turn = best + 1 + patience  # epochs until patience has run out
    assert n == len(rates) == min(epochs, turn + patience)
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == 0.1
    assert rates[-1] < 0.1 * (0.2 if turn < epochs else 0.01)
    np.testing.assert_allclose(rates[:turn], [0.05 * (1 + np.cos(np.pi * e / epochs)) for e in range(min(turn, n))])
    if turn < n:
        assert at[turn] == best + 1  # goes on from the best epoch's weights, once
        assert at[turn + 1 :] == list(range(turn + 1, n))
    assert float(module.weight.detach()[0, 0]) == best + 1  # no later one came close


@pytest.mark.parametrize("sparse", [False, True])
def test_constant_columns_leave_the_default_penalty_alone(sparse):
    """What rounding leaves of their spread is no unit that others could be measured in."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 4)), rng.integers(0, 3, 400)
    constants = np.tile([7.3, 0.1, 1 / 3, 99.7, 1e3 / 7, 2.2], (400, 1))
    table = np.hstack([X, constants])
    with_them = tp.WeakLabelClassifier(tp.symmetric_noise(3, 0.2)).fit(csr_array(table) if sparse else table, y)
    without = tp.WeakLabelClassifier(tp.symmetric_noise(3, 0.2)).fit(X, y)
    assert with_them.l2_ == pytest.approx(without.l2_, rel=1e-6)
