"""Scores: T = I is the textbook, every kind of label works, wrong inputs are refused, and silence is announced."""

import json
import math
import pickle

import numpy as np
import pytest
import torch
from refusals import refused
from scipy.stats import binomtest
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score

import tproper as tp
from tproper.metrics import (
    paired_test,
    weak_accuracy,
    weak_balanced_accuracy,
    weak_brier,
    weak_log_loss,
    weak_scorer,
)


def data(n=300, K=5, seed=0, sharpness=2.0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, K)) * sharpness
    q = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    z = (q.cumsum(1) < rng.random((n, 1))).sum(1)
    return z, q


WITH_PROBABILITIES = [weak_log_loss, weak_brier]
WITH_CLASSES = [weak_accuracy, weak_balanced_accuracy]


@pytest.mark.parametrize("weighted", [False, True])
def test_clean_labels_give_the_textbook_scores(weighted):
    z, q = data()
    w = np.random.default_rng(1).random(len(z)) if weighted else None
    identity, predicted = tp.identity(5), q.argmax(1)
    ours = [
        weak_accuracy(z, predicted, identity, sample_weight=w),
        weak_balanced_accuracy(z, predicted, identity, sample_weight=w),
        weak_log_loss(z, q, identity, sample_weight=w),
        weak_brier(z, q, identity, sample_weight=w),
    ]
    theirs = [
        accuracy_score(z, predicted, sample_weight=w),
        balanced_accuracy_score(z, predicted, sample_weight=w),
        log_loss(z, q, sample_weight=w),
        np.average(((q - np.eye(5)[z]) ** 2).sum(1), weights=w),  # scikit-learn has it for several classes from 1.7 on
    ]
    tolerance = 1e-12 if not weighted else 3e-3  # a weighted ratio has its small bias taken off
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert float(a) == pytest.approx(b, abs=tolerance if i == 1 else 1e-12)


def test_interval_of_a_clean_accuracy_is_wilsons():
    z, q = data()
    score = weak_accuracy(z, q.argmax(1), tp.identity(5))
    wilson = binomtest(int((z == q.argmax(1)).sum()), len(z)).proportion_ci(method="wilson")
    assert score.interval == pytest.approx((wilson.low, wilson.high), abs=1e-12)
    assert score.stderr == pytest.approx(np.std(z == q.argmax(1), ddof=1) / math.sqrt(len(z)))


def test_no_rare_label_seen_is_no_certainty():
    """No complementary label contradicts the model: the sample has no spread, yet accuracy is not known to be 1."""
    predicted = np.zeros(100, dtype=int)
    labels = np.arange(100) % 9 + 1
    score = weak_accuracy(labels, predicted, tp.complementary(10))
    assert score.value == pytest.approx(1)
    assert score.stderr == pytest.approx(0, abs=1e-12)
    assert score.interval[0] < 0.75
    assert score.interval[1] == pytest.approx(1)


@pytest.mark.parametrize("score", WITH_PROBABILITIES + WITH_CLASSES)
def test_numpy_torch_and_lists_are_alike(score):
    z, q = data()
    T = tp.symmetric_noise(5, 0.1)
    y = T.sample(z, 0)
    given = q if score in WITH_PROBABILITIES else q.argmax(1)
    one = score(y, given, T)
    assert score(torch.as_tensor(y), torch.as_tensor(given), T) == one
    assert score(y.tolist(), given.tolist(), T) == one


def test_candidate_masks_and_sets_and_source_pairs():
    z, q = data()
    T = tp.partial_labels(5, 0.3)
    masks = T.sample(z, 0)
    sets = [set(np.flatnonzero(m).tolist()) for m in masks]
    assert weak_log_loss(masks, q, T) == weak_log_loss(sets, q, T)
    two = tp.multi_source([tp.complementary(5), tp.identity(5)], [0.5, 0.5])
    rows = two.sample(z, 0)
    assert weak_brier(rows, q, two) == weak_brier(two.pairs(rows), q, two)


@pytest.mark.parametrize("method", ["auto", "pinv", "min_variance", "tightest"])
def test_every_reconstruction_estimates_the_same_score(method):
    z, q = data(n=4000)
    T = tp.partial_labels(5, 0.3)
    y = T.sample(z, 0)
    clean = weak_brier(z, q, tp.identity(5)).value
    score = weak_brier(y, q, T, reconstruction=method)
    assert abs(score.value - clean) < 4 * score.stderr
    assert weak_brier(y, q, T, reconstruction=T.reconstruction(method)) == score


def test_prior_reduces_the_noise_of_balanced_accuracy():
    z, q = data(n=2000)
    T = tp.complementary(5)
    y = T.sample(z, 0)
    free = weak_balanced_accuracy(y, q.argmax(1), T)
    known = weak_balanced_accuracy(y, q.argmax(1), T, prior=np.full(5, 0.2))
    assert abs(known.value - balanced_accuracy_score(z, q.argmax(1))) < 4 * known.stderr
    assert known.interval[1] - known.interval[0] < 1.5 * (free.interval[1] - free.interval[0])


def test_integer_weights_repeat_examples():
    z, q = data(n=60)
    T = tp.complementary(5)
    y = T.sample(z, 0)
    w = np.arange(60) % 3
    for score in WITH_PROBABILITIES:
        repeated = score(np.repeat(y, w), np.repeat(q, w, axis=0), T)
        assert score(y, q, T, sample_weight=w).value == pytest.approx(repeated.value, abs=1e-12)
    assert weak_accuracy(y, q.argmax(1), T, sample_weight=np.full(60, 7.0)).interval == pytest.approx(
        weak_accuracy(y, q.argmax(1), T).interval
    )


def test_many_classes_need_no_table():
    K, n = 2000, 400
    rng = np.random.default_rng(0)
    z = rng.integers(0, K, n)
    q = np.full((n, K), 0.2 / (K - 1))
    q[np.arange(n), z] = 0.8  # right every time
    for T in (tp.partial_labels(K, 0.01), tp.multi_complementary(K, 1900), tp.symmetric_noise(K, 0.2)):
        y = T.sample(z, 1)
        assert abs(weak_accuracy(y, z, T).value - 1) < 0.2
        score = weak_log_loss(y, q, T)
        assert abs(score.value + math.log(0.8)) < 5 * score.stderr + 1e-9


# -- infinite log loss ---------------------------------------------------------------------------------------------


def test_log_loss_of_a_clean_zero_is_the_textbooks():
    q = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    assert weak_log_loss([0, 1], q, tp.identity(3)).value == pytest.approx(math.log(2) / 2)
    bad = weak_log_loss([0, 2], q, tp.identity(3))
    assert bad.value == math.inf
    assert "1 of 2 examples" in bad.note
    assert not bad.informative


def test_log_loss_with_a_zero_under_weak_labels_is_infinite_and_says_so():
    q = np.array([[1.0, 0.0, 0.0], [0.5, 0.3, 0.2]])
    bad = weak_log_loss([1, 1], q, tp.complementary(3))
    assert bad.value == math.inf
    assert "weak_brier" in bad.note
    assert json.loads(json.dumps(bad.to_dict()))["value"] == "inf"
    with refused("a"):
        paired_test([1, 1], q, q, tp.complementary(3))


# -- saying nothing ------------------------------------------------------------------------------------------------


def test_too_few_labels_are_announced():
    z, q = data(n=20, K=10)
    T = tp.complementary(10)
    score = weak_accuracy(T.sample(z, 0), q.argmax(1), T)
    assert not score.informative
    assert "too few weak labels" in score.note
    assert "too few weak labels" in str(score)
    loss = weak_log_loss(T.sample(z, 0), q, T)
    assert not loss.informative
    single = weak_accuracy([1], [0], T)
    assert math.isnan(single.stderr)
    assert single.interval == (0.0, 1.0)


def test_labels_that_cannot_come_from_this_transition_are_announced():
    score = weak_accuracy(np.zeros(500, dtype=int), np.zeros(500, dtype=int), tp.complementary(4))
    assert score.value == pytest.approx(-2)
    assert "did not come from this transition" in score.note


def test_prints_readably():
    z, q = data()
    score = weak_accuracy(z, q.argmax(1), tp.identity(5))
    assert str(score).startswith("accuracy 0.")
    assert "95% interval" in str(score)
    assert score.informative
    assert score.note == ""


# -- paired test ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["log_loss", "brier", "accuracy"])
def test_paired_test_is_the_difference_of_the_scores(kind):
    z, q = data(n=3000)
    T = tp.symmetric_noise(5, 0.2)
    y = T.sample(z, 0)
    worse = np.roll(q, 1, axis=0)  # another example's probabilities
    single = {"log_loss": weak_log_loss, "brier": weak_brier, "accuracy": weak_accuracy}[kind]
    a, b = (q, worse) if kind != "accuracy" else (q.argmax(1), worse.argmax(1))
    test = paired_test(y, q, worse, T, score=kind)
    assert test.difference == pytest.approx(single(y, a, T).value - single(y, b, T).value, abs=1e-12)
    assert test.better == "a"
    assert test.p_value < 1e-6
    back = paired_test(y, worse, q, T, score=kind)
    assert back.better == "b"
    assert back.difference == pytest.approx(-test.difference)
    assert "a is better" in str(test)


def test_p_value_goes_with_the_interval():
    z, q = data(n=400)
    T = tp.complementary(5)
    rng = np.random.default_rng(2)
    for seed in range(40):
        other = q * rng.gamma(4.0, size=q.shape)
        other /= other.sum(1, keepdims=True)
        for kind in ("log_loss", "brier", "accuracy"):
            test = paired_test(T.sample(z, seed), q, other, T, score=kind)
            assert (test.p_value < 0.05) == (not test.interval[0] <= 0 <= test.interval[1])
            assert (test.better is not None) == (test.p_value < 0.05)


def test_equal_models_have_p_one():
    z, q = data()
    test = paired_test(z, q, q, tp.identity(5))
    assert test.difference == 0
    assert test.p_value == 1
    assert test.better is None


def test_p_values_are_uniform_when_models_are_equally_good():
    """Two noisy versions of the truth, alike in law: 5% of the tests cry difference."""
    rng = np.random.default_rng(0)
    T = tp.complementary(4)
    p_values = []
    for _ in range(600):
        scores = rng.normal(size=(200, 4)) * 2
        p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        z = (p.cumsum(1) < rng.random((200, 1))).sum(1)
        models = []
        for _ in range(2):
            s = scores + rng.normal(size=scores.shape)
            models.append(np.exp(s) / np.exp(s).sum(1, keepdims=True))
        p_values.append(paired_test(T.sample(z, rng), *models, T).p_value)
    rate = np.mean(np.array(p_values) < 0.05)
    assert 0.05 - 4 * math.sqrt(0.05 * 0.95 / 600) < rate < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 600)


# -- scorers -------------------------------------------------------------------------------------------------------


def test_scorers_choose_a_model_from_weak_labels():
    X, z = load_digits(n_class=3, return_X_y=True)
    T = tp.symmetric_noise(3, 0.2)
    y = T.sample(z, 0)
    grid = {"C": [1e-6, 1e-3]}
    for name in ("log_loss", "brier", "accuracy", "balanced_accuracy"):
        search = GridSearchCV(LogisticRegression(max_iter=1000), grid, scoring=weak_scorer(name, T), cv=3).fit(X, y)
        if name in ("log_loss", "brier"):  # accuracy does not mind probabilities of about 1/3
            assert search.best_params_ == {"C": 1e-3}
        assert (search.cv_results_["mean_test_score"] <= 1.2).all()
    X, z = load_iris(return_X_y=True)
    scorer = weak_scorer("log_loss", tp.identity(3))
    ours = cross_val_score(LogisticRegression(max_iter=1000), X, z, scoring=pickle.loads(pickle.dumps(scorer)), cv=3)
    theirs = cross_val_score(LogisticRegression(max_iter=1000), X, z, scoring="neg_log_loss", cv=3)
    assert ours == pytest.approx(theirs)


def test_scorer_maps_names_and_missing_classes():
    X, z = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    named = LogisticRegression(max_iter=1000).fit(X, names[z])
    plain = LogisticRegression(max_iter=1000).fit(X, z)
    for kind in ("accuracy", "log_loss"):
        scorer = weak_scorer(kind, tp.identity(3))
        assert scorer(named, X, z) == pytest.approx(scorer(plain, X, z), abs=1e-4)
    partial = LogisticRegression().fit(X[z > 0], z[z > 0])  # has never seen class 0
    assert weak_scorer("brier", tp.identity(3))(partial, X[z > 0], z[z > 0]) > -0.2
    weak = LogisticRegression().fit(X, np.arange(len(z)) % 7)
    with refused("estimator"):
        weak_scorer("brier", tp.identity(3))(weak, X, z)


# -- wrong inputs --------------------------------------------------------------------------------------------------

T5 = tp.symmetric_noise(5, 0.2)
Z, Q = data(n=4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weak_accuracy([0, 1], [0, 1, 2], T5), "predictions: expected one predicted class for each of the 2"),
        (lambda: weak_accuracy(Z, Q, T5), r"predictions: .*argmax"),
        (lambda: weak_accuracy([0, 1], [0, 5], T5), r"predictions: expected integers in \[0, 5\), got 5"),
        (lambda: weak_accuracy([0, 1], [0.5, 1], T5), "predictions: expected integers"),
        (lambda: weak_accuracy([0, 1], [np.nan, 1], T5), "predictions: expected integers"),
        (lambda: weak_accuracy([0, 7], [0, 1], T5), r"labels: expected integers in \[0, 5\), got 7"),
        (lambda: weak_accuracy([], [], T5), "labels: expected at least one label|labels: expected integers"),
        (lambda: weak_accuracy([[0, 1]], [0], T5), "labels: expected one label per example"),
        (lambda: weak_log_loss(Z, Q[:, :4], T5), r"probabilities: expected shape \(4, 5\)"),
        (lambda: weak_log_loss(Z, 2 * Q, T5), "probabilities: expected rows that sum to 1, got 2"),
        (lambda: weak_log_loss(Z, Q * np.nan, T5), "probabilities: expected finite numbers, got nan"),
        (lambda: weak_brier(Z, Q - [[1, -1, 0, 0, 0]], T5), "probabilities: expected numbers >= 0"),
        (lambda: weak_brier(Z, [[0.2] * 5, [1.0]], T5), "probabilities: expected rows of equal length"),
        (lambda: weak_brier(Z, Q, np.eye(5)), "transition: expected a tproper.Transition, got ndarray"),
        (lambda: weak_brier(Z, Q, T5, reconstruction="best"), "method: expected one of"),
        (lambda: weak_brier(Z, Q, T5, sample_weight=[1, 2]), "sample_weight: expected 4"),
        (lambda: weak_brier(Z, Q, T5, sample_weight=[1, -2, 1, 1]), "sample_weight: expected 4"),
        (lambda: weak_brier(Z, Q, T5, sample_weight=[0, 0, 0, 0]), "sample_weight: .*got zeros only"),
        (lambda: weak_balanced_accuracy(Z, [0] * 4, T5, prior=[0.5, 0.5]), "prior: expected 5 numbers"),
        (lambda: paired_test(Z, Q, Q, T5, score="f1"), "score: expected one of accuracy, log_loss, brier, got 'f1'"),
        (lambda: paired_test(Z, Q, Q[:2], T5), r"b: expected shape \(4, 5\)"),
        (lambda: weak_scorer("f1", T5), "name: expected one of accuracy"),
        (lambda: weak_scorer("brier", "noise"), "transition: expected one of binary, "),
    ],
)
def test_wrong_inputs(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_classes_that_cannot_be_told_apart_are_refused():
    with pytest.raises(tp.NotReconstructibleError):
        weak_accuracy([0, 1], [0, 1], tp.coarse_labels([[0, 1], [2]]))


def test_predictions_by_name_are_named_in_the_message():
    with refused("predictions"):
        tp.weak_accuracy([0, 1], ["a", "b"], tp.identity(2))
