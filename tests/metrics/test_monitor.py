"""The monitor warns when an unbounded loss falls, and only then."""

import math
import warnings

import numpy as np
import pytest
import torch
from refusals import refused
from sklearn.datasets import load_digits
from torch import nn

import tproper as tp
from tproper.certificates.monitor import BoundViolationWarning, LossMonitor, UnboundedLossWarning

IMAGES, DIGITS = load_digits(return_X_y=True)


def train(loss, epochs, seed=0, lr=1e-2, **options):
    """An MLP on complementary digits, in the smallest of loops."""
    torch.manual_seed(seed)
    x = torch.as_tensor(IMAGES / 16, dtype=torch.float32)
    y = torch.as_tensor(loss.transition.sample(DIGITS, seed))
    model = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    monitor = LossMonitor(loss, num_examples=len(x), **options)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(64):
            value = loss(model(x[batch]), y[batch])
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            monitor.update(value, y[batch])
    return monitor


@pytest.mark.parametrize("seed", range(3))
def test_overfitting_an_unbounded_loss_is_noticed(seed):
    with pytest.warns(UnboundedLossWarning, match="fitting the noise") as caught:
        monitor = train(tp.BackwardLoss(tp.complementary(10)), epochs=20, seed=seed)
    assert len(caught) == 1  # once, though the loss goes on falling
    assert monitor.alarm
    history = monitor.history
    assert history["mean"][monitor.alarm_step] < 0
    assert not monitor.bounded
    assert monitor.floor == 0
    assert "ALARM" in str(monitor)


@pytest.mark.parametrize(
    "loss",
    [
        tp.ForwardLoss(tp.complementary(10)),
        tp.BackwardLoss(tp.complementary(10), squeeze=(1.0, 2.0)),
        tp.BackwardLoss(tp.complementary(10), potential=tp.Brier()),
        tp.GradientAscentLoss(tp.complementary(10)),
    ],
    ids=["forward", "gLS", "Brier", "GA"],
)
def test_bounded_losses_never_raise_an_alarm(loss):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monitor = train(loss, epochs=15)
    history = monitor.history
    assert not monitor.alarm
    assert monitor.bounded
    assert (history["value"] >= history["bound"] - 1e-3 * (1 + abs(history["bound"]))).all()
    assert len(history["value"]) == 15 * 29


@pytest.mark.parametrize("num_examples", [None, 1000])
@pytest.mark.parametrize("transition", [tp.complementary(10), tp.positive_unlabeled(0.3)], ids=str)
def test_false_alarms_are_rare(transition, num_examples):
    """A good model that has never seen these labels: many batch means are negative, and at most 1% of runs warn.

    With `num_examples` the same labels return epoch after epoch, so that even the running mean can be negative.
    """
    K, batch, steps, alarms, negative = transition.num_classes, 32, 600, 0, 0.0
    loss = tp.BackwardLoss(transition, reduction="none")
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n = num_examples or batch * steps
        scores = torch.as_tensor(rng.normal(size=(n, K)) * 8)
        p = torch.softmax(scores, -1)
        z = (p.cumsum(-1) < torch.as_tensor(rng.random((n, 1)))).sum(-1).clamp_max(K - 1)
        losses = loss(scores, torch.as_tensor(transition.sample(z, rng))).numpy()
        order = np.concatenate([rng.permutation(n) for _ in range(-(-batch * steps // n))])[: batch * steps]
        values = losses[order].reshape(steps, batch).mean(1)
        monitor = LossMonitor(tp.BackwardLoss(transition), num_examples=num_examples, every=steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnboundedLossWarning)
            for value in values:
                monitor.update(float(value), n=batch)
        alarms += monitor.alarm
        negative += (values < 0).mean() / 100
    assert negative > 0.1  # the question is a real one
    assert alarms <= 1


def test_ignored_examples_and_labels_of_more_dimensions_are_counted_as_the_loss_counts_them():
    y, v = torch.randint(0, 3, (4, 5)), torch.randn(4, 5, 3)
    y[1, 2] = y[3] = -100
    loss = tp.BackwardLoss(tp.symmetric_noise(3, 0.2), squeeze=(1, 2), reduction="sum", ignore_index=-100)
    monitor = LossMonitor(loss, num_examples=14)
    monitor.update(loss(v, y), y)
    monitor.update(0.0, y[3:])  # nothing was learned from this batch
    assert monitor.history["value"] == pytest.approx([float(loss(v, y)) / 14])
    assert monitor.history["bound"] == pytest.approx(loss.lower_bounds()[y[y >= 0]].mean())


def test_bound_of_a_batch_is_that_of_its_labels():
    T = tp.positive_unlabeled(0.5)
    loss = tp.BackwardLoss(T, squeeze=(1.0, 2.0))
    monitor = LossMonitor(loss)
    bounds = loss.lower_bounds()
    monitor.update(1.0, [0, 1, 1, 1])
    monitor.update(1.0)
    assert monitor.history["bound"] == pytest.approx([bounds @ [0.25, 0.75], bounds.min()])


@pytest.mark.parametrize("K", [5, 20])
def test_bound_of_candidate_sets(K):
    """By row up to 12 classes, by set size beyond."""
    T = tp.partial_labels(K, 0.3)
    loss = tp.BackwardLoss(T, squeeze=(0.5, 2.0))
    masks = T.sample(np.arange(K), 0)
    monitor = LossMonitor(loss)
    monitor.update(10.0, masks)
    r = T.reconstruction().targets(masks)
    assert monitor.history["bound"] == pytest.approx([float(-loss.potential.conjugate(r).mean())])


def test_a_value_below_its_certified_bound_is_reported():
    loss = tp.ForwardLoss(tp.complementary(10))
    monitor = LossMonitor(loss, every=1)
    with pytest.warns(BoundViolationWarning, match="below its certified bound"):
        monitor.update(0.5)
    with pytest.warns(BoundViolationWarning, match="diverged"):
        monitor.update(math.nan)
    assert monitor.alarm_step == 0


def test_gradients_are_left_alone_and_values_read_rarely(monkeypatch):
    loss = tp.BackwardLoss(tp.complementary(4))
    scores = torch.randn(8, 4, requires_grad=True)
    monitor = LossMonitor(loss, every=10)
    reads = []
    read = LossMonitor._read
    monkeypatch.setattr(LossMonitor, "_read", lambda self: (reads.append(len(self._pending)), read(self))[1])
    for _ in range(25):
        value = loss(scores, torch.zeros(8, dtype=torch.long))
        monitor.update(value, n=8)
    value.backward()
    assert scores.grad is not None
    assert reads == [10, 10]
    assert all(not v.requires_grad for v, _, _ in monitor._pending)
    assert len(monitor.history["value"]) == 25


def test_sums_are_divided_and_floors_are_the_potentials():
    monitor = LossMonitor(tp.BackwardLoss(tp.complementary(4), reduction="sum"))
    monitor.update(6.0, [0, 1, 2])
    assert monitor.history["value"] == pytest.approx([2.0])
    assert monitor.history["mean"][-1] == pytest.approx(2.0)
    assert math.isnan(monitor.history["stderr"][-1])
    weighted = tp.BackwardLoss(tp.complementary(4), class_weights=[1, 2, 3, 4])
    assert LossMonitor(weighted).floor == 0
    tsallis = tp.BackwardLoss(tp.complementary(4), potential=tp.Tsallis(1.5))
    assert LossMonitor(tsallis).floor == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LossMonitor(nn.CrossEntropyLoss()), "loss"),
        (lambda: LossMonitor(tp.ForwardLoss(tp.identity(3), reduction="none")), "loss"),
        (lambda: LossMonitor(tp.ForwardLoss(tp.identity(3)), window=5), "window"),
        (lambda: LossMonitor(tp.ForwardLoss(tp.identity(3))).update(torch.zeros(3)), "value"),
        (lambda: LossMonitor(tp.ForwardLoss(tp.identity(3))).update("low"), "value"),
        (lambda: LossMonitor(tp.ForwardLoss(tp.identity(3))).update(1.0, [0, 1], n=3), "n"),
        (lambda: LossMonitor(tp.ForwardLoss(tp.identity(3)), num_examples=9).update(1.0), "n"),
        (lambda: LossMonitor(tp.ForwardLoss(tp.identity(3), reduction="sum")).update(1.0), "n"),
    ],
)
def test_wrong_uses(call, message):
    with refused(message):
        call()


def test_a_potential_that_prefers_a_class_has_the_floor_of_its_best_class():
    """One vertex stands for all only where F treats classes alike."""

    class Leaning(tp.ConvexPotential):
        evidence = "exact"

    F = Leaning(lambda v: torch.logsumexp(v + torch.arange(3.0), -1) + v.square().sum(-1) / 4, "affine")
    monitor = tp.LossMonitor(tp.BackwardLoss(tp.identity(3), F))
    floors = -F.conjugate(torch.eye(3, dtype=torch.float64))
    assert float(floors.max() - floors.min()) > 0.1
    assert monitor.floor == pytest.approx(float(floors.min()))
