"""Rows of known class and rows of weak labels train one model; groups stay on one side; T from the fit's own data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits

import tproper as tp
from tproper._core import fold_numbers, group_codes, held_out_rows, random_folds
from tproper.learn.truth import with_truth


def table(n: int = 400, spread: float = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=n)
    return rng.normal(size=(n, 4)) + spread * np.eye(3, 4)[z], z


FAMILIES = {
    "noisy": tp.symmetric_noise(3, 0.3),
    "complementary": tp.complementary(3),
    "coarse": tp.Transition([[0.7, 0.6, 0.0], [0.3, 0.4, 1.0]]),
    "partial": tp.partial_labels(3, 0.3),
    "fixed size": tp.multi_complementary(4, 1),
    "annotators": tp.annotators([tp.symmetric_noise(3, 0.2), tp.pair_noise(3, 0.3)]),
    "sources": tp.multi_source([tp.symmetric_noise(3, 0.2), tp.complementary(3)]),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_loss_of_both_kinds_of_rows_is_their_joint_likelihood(name: str) -> None:
    """Up to constants of T alone: the gradient of a known row is that of its class, of another that of its label."""
    T = FAMILIES[name]
    K, rng = T.num_classes, np.random.default_rng(1)
    z = rng.integers(K, size=60)
    weak = T.encode(T.sample(z, 2))
    known = np.where(rng.random(60) < 0.4, z, -1)
    v = torch.as_tensor(rng.normal(size=(60, K))).requires_grad_()
    both, labels = with_truth(T, weak, known, forward=True)
    tp.ForwardLoss(both, reduction="sum")(v, labels).backward()
    got = v.grad.numpy().copy()
    v.grad = None
    unknown = torch.as_tensor(known < 0)
    (tp.ForwardLoss(T, reduction="sum")(v[unknown], weak[unknown])).backward()
    told = torch.as_tensor(known >= 0)
    torch.nn.functional.cross_entropy(v[told], torch.as_tensor(z)[told], reduction="sum").backward()
    np.testing.assert_allclose(got, v.grad.numpy(), atol=1e-9)


@pytest.mark.parametrize("loss", ["forward", "backward", "gls"])
def test_where_every_class_is_known_weak_labels_do_not_matter(loss: str) -> None:
    X, z = table()
    T = tp.symmetric_noise(3, 0.3)
    clean = tp.WeakLabelClassifier(tp.identity(3), loss=loss, l2=1e-3, calibrate=False).fit(X, z)
    noise = np.random.default_rng(3).integers(3, size=len(z))
    told = tp.WeakLabelClassifier(T, loss=loss, l2=1e-3, calibrate=False).fit(X, noise, true=z)
    assert told.transition_ is T
    assert np.abs(told.predict_proba(X) - clean.predict_proba(X)).max() < 0.03  # forward has a prior on intercepts


def test_a_weak_label_may_be_missing_where_the_class_is_known() -> None:
    X, z = table()
    weak = tp.symmetric_noise(3, 0.3).sample(z, 1).astype(object)
    true = np.where(np.arange(len(z)) < 80, z, -1)
    whole = tp.WeakLabelClassifier("symmetric:0.3").fit(X, weak.astype(int), true=true)
    weak[:80] = None
    gaps = tp.WeakLabelClassifier("symmetric:0.3", classes=[0, 1, 2]).fit(X, weak, true=true)
    np.testing.assert_allclose(gaps.coef_, whole.coef_, atol=1e-6)
    estimated = tp.WeakLabelClassifier("estimate").fit(X, weak, true=true)
    assert (estimated.predict(X) == z).mean() > 0.7


@pytest.mark.parametrize("data", ["digits", "cancer"])
def test_clean_rows_and_noisy_rows_together_beat_either_alone(data: str) -> None:
    """Mean log loss over splits: 100 rows of known class among about 400 (1,200) noisy ones."""
    X, z = (load_digits if data == "digits" else load_breast_cancer)(return_X_y=True)
    K = int(z.max()) + 1
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)
    T = tp.symmetric_noise(K, 0.4 if K > 2 else 0.3)
    names = np.arange(K)
    losses = []
    for seed in range(4 if K == 2 else 2):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[: len(X) * 2 // 3], order[len(X) * 2 // 3 :]
        weak, true = T.sample(z[train], seed), np.full(len(train), -1)
        true[:100] = z[train][:100]
        models = [
            tp.WeakLabelClassifier(classes=names).fit(X[train][:100], true[:100]),
            tp.WeakLabelClassifier("estimate", classes=names).fit(X[train], weak),
            tp.WeakLabelClassifier("estimate", classes=names).fit(X[train], weak, true=true),
        ]
        rows = np.arange(len(test))
        losses.append([-np.log(m.predict_proba(X[test])[rows, z[test]]).mean() for m in models])
    clean, noisy, both = np.mean(losses, axis=0)
    assert both < min(clean, noisy), (clean, noisy, both)


def test_tuning_and_networks_take_known_classes_and_groups() -> None:
    X, z = table(240)
    weak, true = tp.pair_noise(3, 0.3).sample(z, 1), np.where(np.arange(240) < 60, z, -1)
    groups = np.repeat(np.arange(80), 3)
    grid = {"l2": [1e-3, 1e-1]}
    tuned = tp.WeakLabelClassifier("pair:0.3", tune=grid).fit(X, weak, true=true, groups=groups)
    assert len(tuned.cv_results_["mean_weak_risk"]) == 2
    searched = tp.WeakLabelClassifier("estimate", tune=grid).fit(X, weak, true=true, groups=groups)
    assert searched.transition_.num_classes == 3
    assert searched.best_params_["l2"] in grid["l2"]
    network = tp.WeakLabelClassifier("pair:0.3", model="mlp", epochs=20, early_stopping=True, random_state=0)
    network.fit(X, weak, true=true, groups=groups)
    assert (network.predict(X) == z).mean() > 0.6


# T from the data of the fit.


def test_answers_are_estimated_as_annotators() -> None:
    X, z = table(500, spread=3)
    T = tp.annotators([tp.symmetric_noise(3, p) for p in (0.1, 0.3, 0.4)])
    answers = np.where(np.random.default_rng(1).random((500, 3)) < 0.2, -1, T.sample(z, 2))
    names = np.array(["ant", "bee", "cat", None], dtype=object)
    for y in (answers, names[answers]):
        clf = tp.WeakLabelClassifier("estimate").fit(X, y)
        rates = [1 - t.matrix().diagonal().mean() for t in clf.transition_.transitions]
        np.testing.assert_allclose(rates, [0.1, 0.3, 0.4], atol=0.07)
        assert (clf.predict(X) == (z if y is answers else names[z])).mean() > 0.85


def test_sets_and_positive_unlabeled_data_are_estimated_by_their_kind() -> None:
    X, z = table(600)
    masks = tp.partial_labels(3, 0.3).sample(z, 1)
    assert tp.WeakLabelClassifier(("estimate", {"kind": "partial"})).fit(X, masks).transition_.p == pytest.approx(
        0.3, abs=0.05
    )
    y = np.where((z == 0) & (np.random.default_rng(2).random(600) < 0.5), "yes", "unlabeled")
    pu = tp.WeakLabelClassifier(("estimate", {"kind": "pu"}), classes=["yes", "no"]).fit(X, y)
    assert pu.transition_.label_kind == "positive/unlabeled"
    assert pu.classes_.tolist() == ["no", "yes"]  # in sorted order, and T's columns with them
    assert pu.transition_.matrix()[0].tolist() == [0, pytest.approx(0.5, abs=0.15)]


# Groups.


@pytest.mark.parametrize("seed", range(5))
def test_no_group_is_on_both_sides(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = group_codes(rng.choice(["a", "b", "c", "d", "e", "f", "g", "h"], 200, p=np.arange(1, 9) / 36), 200)
    for train, test in [*random_folds(200, 5, rng, groups), held_out_rows(200, 0.2, rng, groups)]:
        assert len(test)
        assert not set(groups[train]) & set(groups[test])
        assert sorted([*train, *test]) == list(range(200))
    numbers = fold_numbers(200, 3, rng, groups)
    assert all(len(set(numbers[groups == g])) == 1 for g in range(8))
    assert set(numbers) == {0, 1, 2}
    tests = [test for _, test in random_folds(200, 5, rng, groups)]
    assert sorted(np.concatenate(tests)) == list(range(200))


def test_calibration_by_copies_of_rows_is_honest_with_groups_alone() -> None:
    """Each row ten times: without groups a copy of every row is in its training fold, and overfitting goes unseen."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=40)
    X = rng.normal(size=(40, 60))  # says nothing of the class
    X, z, groups = np.repeat(X, 10, axis=0), np.repeat(z, 10), np.repeat(np.arange(40), 10)
    weak = np.repeat(tp.symmetric_noise(2, 0.2).sample(z[::10], 1), 10)
    model = tp.WeakLabelClassifier("symmetric:0.2", l2=1e-4, calibrate="temperature")
    apart = model.fit(X, weak, groups=groups).calibrator_.temperature
    mixed = model.fit(X, weak).calibrator_.temperature
    assert apart > 2 * mixed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"true": np.full(400, 7)}, "true: expected classes among 0, 1, 2, got 7 at row 0"),
        ({"true": np.zeros(3, int)}, "true: expected one class for each of the 400 rows"),
        ({"true": np.zeros((400, 2), int)}, "true: expected one class per row"),
        ({"groups": np.zeros(400)}, "groups: expected at least two different groups, got one"),
        ({"groups": np.zeros(3)}, "groups: expected one group for each of the 400 rows"),
        ({"groups": np.where(np.arange(400) == 5, np.nan, 1.0)}, "groups: expected a group for every row, got none at"),
        ({"groups": ["a"] * 399 + [None]}, "groups: expected a group for every row, got none at row 399"),
        ({"groups": pd.array(["a"] * 399 + [None], "string")}, "groups: expected a group for every row, got none at"),
        ({"groups": ["a"] * 399 + [np.nan]}, "groups: expected a group for every row, got none at row 399"),
        ({"groups": np.array(["NaT"] + ["2024-01-01"] * 399, "M8[D]")}, "groups: expected a group for every row"),
    ],
)
def test_mistakes_are_sentences(arguments: dict[str, Any], says: str) -> None:
    X, z = table()
    with pytest.raises(ValueError, match=says):
        tp.WeakLabelClassifier("symmetric:0.3").fit(X, z, **arguments)


def test_what_cannot_be_combined_is_refused() -> None:
    X, z = table()
    T = tp.symmetric_noise(3, 0.3)
    for loss in (tp.ForwardLoss(T), torch.nn.CrossEntropyLoss()):
        with pytest.raises(ValueError, match="true: expected a loss by its name"):
            tp.WeakLabelClassifier(T, loss=loss).fit(X, z, true=z)
    bags = tp.unlabeled_sets([[0.7, 0.3], [0.2, 0.8]], [200, 200], prior=[0.5, 0.5])
    with pytest.raises(ValueError, match="true: expected None with bags"):
        tp.WeakLabelClassifier(bags).fit(X, np.repeat([0, 1], 200), true=np.minimum(z, 1))
    with pytest.raises(ValueError, match="true: expected classes other than -1"):
        tp.WeakLabelClassifier("symmetric:0.3", classes=[-1, 1]).fit(X, 2 * (z > 0) - 1, true=2 * (z > 0) - 1)
    with pytest.raises(ValueError, match="kind: expected one of clean, features"):
        tp.WeakLabelClassifier(("estimate", {"kind": "magic"})).fit(X, z)
