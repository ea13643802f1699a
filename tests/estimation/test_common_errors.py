"""Copies and errors in common: what is found, what is counted once, and what known classes mend."""

import warnings

import numpy as np
import pytest
import torch

import tproper as tp


def sources(seed, right, n=1000, K=4, coverage=0.6):
    """Independent sources: answers (n, m) and classes."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, K, n)
    wrong = (z[:, None] + rng.integers(1, K, (n, len(right)))) % K
    answers = np.where(rng.random((n, len(right))) < right, z[:, None], wrong)
    answers[rng.random(answers.shape) > coverage] = -1
    return answers, z


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize(("times", "same"), [(3, 1.0), (5, 1.0), (3, 0.95), (5, 0.95)])
def test_copies_are_named_and_count_as_one(K, times, same):
    for seed in range(4):
        answers, z = sources(seed, [0.7, 0.73, 0.76, 0.79, 0.82, 0.85, 0.6], K=K)
        rng = np.random.default_rng(seed)
        again = np.tile(answers[:, 6:], (1, times - 1))
        moved = (rng.random(again.shape) > same) & (again >= 0)
        again[moved] = (again[moved] + rng.integers(1, K, moved.sum())) % K
        alone = tp.estimate_annotators(answers, num_classes=K)
        with pytest.warns(tp.DependenceWarning, match="counted as one source"):
            result = tp.estimate_annotators(np.column_stack([answers, again]), num_classes=K)
        those = range(6, 6 + times)
        assert {(c.first, c.second) for c in result.copied} == {(a, b) for a in those for b in those if a < b}
        p, q = result.posteriors, alone.posteriors
        assert (p.argmax(axis=1) == z).mean() > (q.argmax(axis=1) == z).mean() - 0.01
        own = np.arange(len(z)), z
        assert -np.log(p[own]).mean() < -np.log(q[own]).mean() + 0.03
        assert result.transitions[7].same_as(result.transitions[6])
        row = np.full((1, 6 + times), -1)
        row[0, 7:] = 1  # copies alone say nothing to a loss: the first of them does
        p = np.full((1, K), 1 / K)
        assert np.ptp(_logs(result.transition, row)) < 1e-9
        assert len(p) == 1


def _logs(T, row):
    return T.evidence(T.encode(row)).logs(torch.float64).numpy()


def test_honest_sources_that_agree_often_are_not_called_copies():
    """Two that are right in .97 agree in .944; rules of one class always agree: named in at most 5% of draws."""
    named = 0
    for seed in range(20):
        answers, z = sources(seed, [0.97, 0.97, 0.7, 0.65, 0.8], n=800, K=3, coverage=0.7)
        rng = np.random.default_rng(seed)
        own = np.arange(5) % 3
        rules = np.where(rng.random((800, 5)) < np.where(z[:, None] == own, 0.5, 0.06), own, -1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tp.DependenceWarning)
            named += bool(tp.estimate_annotators(answers, num_classes=3).copied)
            named += bool(tp.estimate_annotators(rules, num_classes=3).copied)
    assert named <= 2


def test_a_rule_that_is_copied_counts_once():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 2000)
    own = np.arange(6) % 2
    rules = np.where(rng.random((2000, 6)) < np.where(z[:, None] == own, 0.4, 0.12), own, -1)
    copied = np.column_stack([rules, rules[:, 0], rules[:, 0]])
    alone = tp.estimate_annotators(rules)
    with pytest.warns(tp.DependenceWarning, match="counted as one source"):
        result = tp.estimate_annotators(copied)
    assert {(c.first, c.second) for c in result.copied} == {(0, 6), (0, 7), (6, 7)}
    assert np.abs(result.posteriors - alone.posteriors).max() < 1e-6


@pytest.mark.parametrize("K", [4, 6])
def test_known_classes_temper_what_hard_items_made_too_sure(K):
    """A quarter of the items is hard: there each of five is drawn to one wrong class with .7. 200 of 600 are known."""
    losses, sure, right = [], 0, 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        answers, z = sources(seed, [0.8] * 5, n=600, K=K, coverage=1.0)
        hard, lure = rng.random(600) < 0.25, (z + rng.integers(1, K, 600)) % K
        drawn = hard[:, None] & (rng.random((600, 5)) < 0.7)
        answers = np.where(drawn, lure[:, None], answers)
        true = np.where(np.arange(600) < 200, z, -1)
        result = tp.estimate_annotators(answers, true, num_classes=K)
        assert result.tempering.items == 200
        votes = np.stack([(answers == k).sum(axis=1) + 1.0 for k in range(K)], axis=1)
        votes /= votes.sum(axis=1, keepdims=True)
        p, own = result.posteriors[200:], z[200:]
        rows = np.arange(400)
        losses.append([-np.log(x[rows, own]).mean() for x in (p, votes[200:])])
        sure += (p.max(axis=1) > 0.99).sum()
        right += (p.argmax(axis=1) == own)[p.max(axis=1) > 0.99].sum()
        blind = tp.estimate_annotators(answers, num_classes=K)
        assert "answers alone cannot show" in str(blind)
    ours, smoothed = np.mean(losses, axis=0)
    assert ours < smoothed
    assert right >= 0.97 * sure


def test_known_classes_change_nothing_that_is_calibrated():
    for seed in range(6):
        answers, z = sources(seed, [0.7, 0.75, 0.8, 0.7, 0.75], n=800, K=3, coverage=0.8)
        true = np.where(np.arange(800) < 200, z, -1)
        told = tp.estimate_annotators(answers, true, num_classes=3)
        p = told.posteriors[200:]
        loss = -np.log(p[np.arange(600), z[200:]]).mean()
        blind = tp.estimate_annotators(answers, num_classes=3).posteriors[200:]
        assert loss < -np.log(blind[np.arange(600), z[200:]]).mean() + 0.02


def test_the_best_of_a_few_are_not_called_copies():
    """Shrunk to the T of all, they were expected to agree less often than they do."""
    named = 0
    for seed in range(20):
        answers, _ = sources(seed, [0.7, 0.73, 0.76, 0.79, 0.82, 0.85, 0.6])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tp.DependenceWarning)
            named += bool(tp.estimate_annotators(answers, num_classes=4).copied)
    assert named <= 1
