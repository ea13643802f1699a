"""Intervals in hard places: labels that all agree, certain models, wrong T, huge weights, rows of weight 0.

Laws: an interval has a width unless the score is constant, is never reversed, lies in the possible range and
holds what is printed.
"""

import json
import math

import numpy as np
import pytest
import torch
from refusals import refused
from scipy.special import ndtri

import tproper as tp
from tproper.metrics import UNINFORMATIVE, clean_scores, forward_risk, reliability, statistics
from tproper.metrics.statistics import Reweigher, estimate
from tproper.metrics.values import halfway, one_hot

TRANSITIONS = [
    tp.identity(3),
    tp.symmetric_noise(3, 0.2),
    tp.complementary(3),
    tp.pair_noise(3, 0.3),
    tp.multi_source([tp.complementary(3), tp.symmetric_noise(3, 0.3)], [0.6, 0.4]),
]
LABEL_PATTERNS = ["all alike", "as predicted", "at random"]
MODELS = ["one-hot", "nearly", "spread", "constant"]


def case(T, labels, model, n, seed=0):
    """Weak labels and probabilities, plausible or not."""
    rng = np.random.default_rng(seed)
    predicted = rng.integers(0, 3, n)
    y = {
        "all alike": np.zeros(n, dtype=int),
        "as predicted": T.sample(predicted, rng),
        "at random": rng.integers(0, T.num_weak_labels, n),
    }[labels]
    if model == "spread":
        return y, rng.dirichlet(np.ones(3), n)
    if model == "constant":
        return y, np.tile([0.7, 0.2, 0.1], (n, 1))
    rest = 0.0 if model == "one-hot" else 1e-9
    q = np.full((n, 3), rest)
    q[np.arange(n), predicted] = 1 - 2 * rest
    return y, q


def all_scores(y, q, T, w=None):
    calibration = tp.weak_calibration(y, q, T, sample_weight=w)
    out = {
        "accuracy": tp.weak_accuracy(y, q.argmax(1), T, sample_weight=w),
        "balanced": tp.weak_balanced_accuracy(y, q.argmax(1), T, sample_weight=w),
        "log loss": tp.weak_log_loss(y, q, T, sample_weight=w),
        "Brier": tp.weak_brier(y, q, T, sample_weight=w),
        "calibration": calibration,
        "overconfidence": calibration.overconfidence,
        "class-wise": tp.weak_calibration(y, q, T, classwise=True, sample_weight=w),
        "paired accuracy": tp.paired_test(y, q, q[:, ::-1], T, "accuracy", sample_weight=w),
        "paired Brier": tp.paired_test(y, q, np.full_like(q, 1 / 3), T, "brier", sample_weight=w),
    }
    if (q > 0).all():
        out["paired log loss"] = tp.paired_test(y, q, np.full_like(q, 1 / 3), T, sample_weight=w)
    return out


@pytest.mark.parametrize(
    ("n", "weight"), [(2, None), (2, 1e300), (2, 1e-300), (3, None), (50, None), (50, 1e300), (50, 1e-300), (400, None)]
)
@pytest.mark.parametrize("T", TRANSITIONS, ids=str)
def test_every_interval_has_a_width_and_holds_what_is_printed(T, n, weight):
    w = None if weight is None else np.full(n, weight)
    for labels in LABEL_PATTERNS:
        for model in MODELS:
            y, q = case(T, labels, model, n)
            for name, score in all_scores(y, q, T, w).items():
                low, high = score.interval
                where = f"{name}, {labels}, {model}: {score}"
                assert low < high, where
                assert not math.isnan(low + high) or math.isinf(high), where
                if not math.isnan(score.value):
                    assert low <= score.shown <= high, where
                if name in ("accuracy", "balanced", "calibration", "class-wise"):
                    assert low >= 0, where
                    assert high <= 1, where
                assert score.informative != score.note.startswith(UNINFORMATIVE), where
                root = getattr(score, "squared_error", score)
                assert score.informative or root.interval == root.limits, where
                if not name.startswith("paired"):
                    stored = json.loads(json.dumps(score.to_dict(), allow_nan=False))
                    if not {None, "inf"} & {stored["value"], *stored["interval"]}:
                        assert stored["interval"][0] <= stored["value"] <= stored["interval"][1], where


def test_a_constant_score_is_the_one_thing_without_a_width():
    """Uniform probabilities: the Brier score is 2/3 whatever the class is."""
    T = tp.complementary(3)
    score = tp.weak_brier(np.arange(60) % 3, np.full((60, 3), 1 / 3), T)
    assert score.interval == pytest.approx((2 / 3, 2 / 3))


@pytest.mark.parametrize("T", [tp.identity(3), tp.symmetric_noise(3, 0.2), tp.complementary(3)], ids=str)
@pytest.mark.parametrize("right", [0.98, 0.994])
def test_one_hot_predictions_are_covered(T, right):
    """n = 50 and hardly an error: the sample often shows none, and the truth is in the interval all the same."""
    rng, n, sets = np.random.default_rng(5), 50, 300
    hits = {"log loss": 0, "Brier": 0, "calibration": 0, "overconfidence": 0}
    truth = {"log loss": math.inf, "Brier": 2 * (1 - right), "calibration": 1 - right, "overconfidence": 1 - right}
    for _ in range(sets):
        predicted = rng.integers(0, 3, n)
        z = np.where(rng.random(n) < right, predicted, (predicted + rng.integers(1, 3, n)) % 3)
        y, q = T.sample(z, rng), np.eye(3)[predicted]
        calibration = tp.weak_calibration(y, q, T)
        scores = {
            "log loss": tp.weak_log_loss(y, q, T),
            "Brier": tp.weak_brier(y, q, T),
            "calibration": calibration,
            "overconfidence": calibration.overconfidence,
        }
        for name, score in scores.items():
            hits[name] += score.interval[0] <= truth[name] <= score.interval[1]
    for name, count in hits.items():
        assert count / sets >= 0.90, (name, count / sets)


def test_a_log_loss_that_could_be_infinite_has_no_upper_end():
    q = np.array([[1.0, 0.0], [0.5, 0.5], [0.8, 0.2]])
    score = tp.weak_log_loss([0, 1, 0], q, tp.identity(2))
    assert score.value == pytest.approx((math.log(2) - math.log(0.8)) / 3)
    assert score.interval[1] == math.inf
    assert "no upper end" in score.note


@pytest.mark.parametrize("K", [10, 50])
def test_classwise_calibration_of_a_perfect_model_holds_zero(K):
    """2.5% of the intervals should exclude 0; averaging the classes' own limits excluded it in 15% and 78%."""
    out, sets, n = 0, 60, 600
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        q = rng.dirichlet(np.full(K, 0.2), n)
        q = (q + 1e-6) / (1 + K * 1e-6)
        z = (q.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=K - 1)
        out += tp.weak_calibration(z, q, tp.identity(K), classwise=True).interval[0] > 0
    assert out / sets <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / sets)


def test_classwise_traces_do_not_depend_on_the_probes():
    """Random signs (beyond 64 cells) give the interval that all unit vectors give, within a few per cent."""
    from tproper.metrics import classwise

    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(12), 800)
    z = (q**2 / (q**2).sum(1, keepdims=True)).cumsum(1)
    z = (z < rng.random((800, 1))).sum(1).clip(max=11)
    ends = []
    for probes in (64, 10_000):
        classwise.PROBES, kept = probes, classwise.PROBES
        try:
            ends.append(tp.weak_calibration(z, q, tp.identity(12), classwise=True, bins=10).interval)
        finally:
            classwise.PROBES = kept
    assert ends[0] == pytest.approx(ends[1], rel=0.05)


# -- weight 0 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("T", TRANSITIONS, ids=str)
def test_a_row_of_weight_zero_is_left_out_entirely(T):
    """Even where its loss is infinite: value, interval, n and bins are those of the other rows."""
    rng = np.random.default_rng(0)
    y, q = case(T, "at random", "spread", 80)
    w = rng.integers(0, 3, 80) * 1.0
    zero = w == 0
    q[zero] = np.eye(3)[rng.integers(0, 3, zero.sum())]
    kept = ~zero
    ours, theirs = all_scores(y, q, T, w), all_scores(y[kept], q[kept], T, w[kept])
    ours["paired log loss"] = tp.paired_test(y, q, np.full_like(q, 1 / 3), T, sample_weight=w)
    assert ours.keys() == theirs.keys()
    for name in ours:
        a, b = ours[name], theirs[name]
        assert a.n == b.n == kept.sum()
        assert a.interval == b.interval, name
        np.testing.assert_equal(a.value, b.value, err_msg=name)  # NaN equals NaN
    assert forward_risk(y, q, T, w) == pytest.approx(forward_risk(y[kept], q[kept], T, w[kept]))


# -- what is shown -------------------------------------------------------------------------------------------------


def test_value_is_unbiased_and_shown_is_possible():
    """The value of a good model passes 1 in some samples, and its mean over samples is right only with those."""
    rng, T = np.random.default_rng(0), tp.symmetric_noise(5, 0.4)
    z = np.arange(100) % 5
    predicted = np.where(rng.random(100) < 0.97, z, (z + 1) % 5)
    scores = [tp.weak_accuracy(T.sample(z, seed), predicted, T) for seed in range(400)]
    values, shown = np.array([s.value for s in scores]), np.array([s.shown for s in scores])
    truth, error = (predicted == z).mean(), values.std() / 20
    assert (values > 1).any()
    assert abs(values.mean() - truth) < 4 * error
    assert shown.mean() < truth - 4 * shown.std() / 20  # what a mean of restricted values would say
    above = scores[int(values.argmax())]
    assert str(above).startswith("accuracy 1 (95% interval")
    assert above.to_dict()["value"] == 1
    assert above.to_dict()["unbiased"] == above.value > 1


def test_not_informative_is_said_in_one_way():
    T = tp.complementary(10)
    z = np.arange(30) % 10
    y, q = T.sample(z, 0), np.full((30, 10), 0.02) + 0.8 * np.eye(10)[z]
    scores = [
        tp.weak_accuracy(y, z, T),
        tp.weak_balanced_accuracy(y, z, T),
        tp.weak_log_loss(y, q, T),
        tp.weak_calibration(y, q, T),
        tp.paired_test(y, q, np.full_like(q, 0.1), T),
        tp.weak_accuracy([1], [0], T),
        tp.weak_accuracy(np.zeros(500, dtype=int), np.zeros(500, dtype=int), T),
    ]
    for score in scores:
        assert not score.informative
        assert "; not informative: " in str(score)
        root = getattr(score, "squared_error", score)
        assert root.interval == root.limits


# -- choosing ------------------------------------------------------------------------------------------------------


class Fixed:
    """A "classifier" with given probabilities."""

    def __init__(self, p):
        self.p, self.classes_ = p, np.arange(p.shape[1])

    def predict_proba(self, X):
        return self.p


@pytest.mark.parametrize("T", [*TRANSITIONS, tp.partial_labels(3, 0.3)], ids=str)
def test_the_log_loss_scorer_does_not_reward_a_model_that_runs_away(T):
    """Scores grow with confidence under the unbiased estimate; under the forward risk the truth wins."""
    rng, n = np.random.default_rng(0), 4000
    v = rng.normal(size=(n, 3)) * 1.5
    p = np.exp(v) / np.exp(v).sum(1, keepdims=True)
    z = (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=2)
    y = T.sample(z, 0)
    scorer = tp.weak_scorer("log_loss", T)
    found = []
    for temperature in (0.3, 1.0, 3.0, 30.0):
        s = np.exp(v * temperature - (v * temperature).max(1, keepdims=True))
        found.append(scorer(Fixed(s / s.sum(1, keepdims=True)), None, y))
    assert max(found) <= 0
    assert int(np.argmax(found)) == 1


def test_the_unbiased_log_loss_does_reward_it():
    """Why the scorer is another one: a model fitted to its weak labels gets a negative log loss from them."""
    T = tp.complementary(4)
    y = T.sample(np.arange(200) % 4, 0)
    away = np.full((200, 4), 0.999999 / 3)
    away[np.arange(200), y] = 1e-6  # sure of what the label rules out
    assert tp.weak_log_loss(y, away, T).value < 0
    assert tp.weak_scorer("log_loss", T)(Fixed(away), None, y) <= 0


def test_the_forward_risk_needs_no_inverse():
    T = tp.coarse_labels([[0, 1], [2]])
    q = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    assert forward_risk([0, 1], q, T) == pytest.approx(-(math.log(0.5) + math.log(0.8)) / 2)
    assert tp.weak_scorer("log_loss", T)(Fixed(q), None, [0, 1]) == -forward_risk([0, 1], q, T)
    assert forward_risk([0, 0], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], T) == math.inf
    with refused("transition"):
        forward_risk([0], q[:1], np.eye(3))


# -- clean scores --------------------------------------------------------------------------------------------------


def test_clean_scores_are_the_scores_at_the_identity():
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(4), 300)
    z = rng.integers(0, 4, 300)
    scores, T = clean_scores(z, q), tp.identity(4)
    assert scores["accuracy"] == pytest.approx(tp.weak_accuracy(z, q.argmax(1), T).value)
    assert scores["log_loss"] == pytest.approx(tp.weak_log_loss(z, q, T).value)
    assert scores["brier"] == pytest.approx(tp.weak_brier(z, q, T).value)
    weak = tp.weak_calibration(z, q, T, bins=15, strategy="uniform")
    assert scores["ece"] == pytest.approx(weak.ece)
    curve = reliability(z, q)
    used = weak.count > 0
    assert curve.accuracy == pytest.approx(weak.accuracy[used])
    assert curve.confidence == pytest.approx(weak.confidence[used])
    assert clean_scores(torch.as_tensor(z), torch.as_tensor(q)) == scores
    with refused("bins"):
        reliability(z, q, bins=0)
    assert clean_scores(z.tolist(), q.tolist()) == scores


def test_clean_bins_are_left_open_and_zeros_are_counted():
    q = np.array([[0.8, 0.2], [0.6, 0.4], [1.0, 0.0]])
    assert reliability([0, 0, 1], q, bins=5).error == pytest.approx((0.2 + 0.4 + 1.0) / 3)
    assert reliability([0, 0, 1], q, bins=5).count.tolist() == [1, 1, 1]
    assert clean_scores([0, 0, 1], q)["log_loss"] == math.inf
    floored = clean_scores([0, 0, 1], q, floor=1e-3)
    assert floored["zeros"] == 1
    assert floored["log_loss"] == pytest.approx(-np.log([0.8, 0.6, 1e-3]).mean())
    with refused("probabilities"):
        clean_scores([0, 1], q)
    with refused("labels"):
        clean_scores([0, 0, -1], q)  # not the last class


def test_a_perfect_model_is_covered_though_labels_scatter_least_for_it():
    """Variance falls towards accuracy 1, but not below that of labels given their class."""
    T, rng = tp.pair_noise(5, 0.45), np.random.default_rng(0)
    held = 0
    for _ in range(200):
        z = rng.integers(0, 5, 100)
        held += tp.weak_accuracy(T.sample(z, rng), z, T).interval[1] == 1.0
    assert held / 200 > 0.94


def test_few_labels_that_decide_an_accuracy_leave_few_degrees_of_freedom():
    """One positive in ten is labeled, with a target of 10: eight labels of two hundred carry most of the variance."""
    rng, n, sets, T = np.random.default_rng(6), 200, 600, tp.positive_unlabeled(0.1)
    z = (rng.random((sets, n)) > 0.2).astype(int)
    predicted = torch.as_tensor(np.where(rng.random(z.shape) < 0.8, z, 1 - z).ravel())
    y = T.encode(T.sample(z.ravel(), rng))
    weigher, hit = Reweigher(T, T.reconstruction()), one_hot(predicted, 2)
    found = estimate(weigher, hit, halfway(hit), y, batch=(sets, n), student=False, few_decide=True)
    assert found.freedom.max() < n / 2
    low, high = found.interval()
    assert 0.935 < ((low <= 0.8) & (high >= 0.8)).mean() < 0.97
    two = tp.symmetric_noise(3, 0.3)  # a target for right, one for wrong: Wilson's interval, with no such doubt
    hit = one_hot(predicted[:n], 3)
    alike = estimate(Reweigher(two, two.reconstruction()), hit, halfway(hit), y[:n], student=False, few_decide=True)
    assert alike.freedom > 1e9


def test_models_that_differ_in_few_rows_are_compared_with_few_degrees_of_freedom():
    """Sharp models differ where they are unsure, in a row of twenty: the variance of sixty rows is that of three."""
    rng = np.random.default_rng(5)
    scores = 12 * rng.normal(size=(4000, 2))
    p = torch.softmax(torch.as_tensor(scores), -1).numpy()
    q = torch.softmax(torch.as_tensor(scores + rng.normal(size=scores.shape)), -1).numpy()
    truth = float((p * (2 * (q - p) + (p**2 - q**2).sum(axis=1, keepdims=True))).sum(axis=1).mean())
    T, held = tp.partial_labels(2, 0.44), 0
    for _ in range(200):
        rows = rng.integers(0, 4000, 60)
        y = T.sample((rng.random(60) < p[rows, 1]).astype(int), rng)
        low, high = tp.paired_test(y, p[rows], q[rows], T, "brier").interval
        held += low <= truth <= high
    assert held / 200 > 0.92


def test_the_lower_tail_leaves_out_what_is_least_likely():
    """With a in the lower tail, t = z(.95 + a) and s = z(1 - a), ``away^2 - 2 s away + t^2 = 0``."""
    statistics._tails.cache_clear()
    for a in (1e-9, 1e-5, 0.001, 0.01, 0.02, 0.0249):
        t, s = ndtri(0.95 + a), ndtri(1 - a)
        away = s - np.sqrt(s**2 - t**2)
        assert statistics.lower_tail(away) == pytest.approx(a, rel=0.02)
    assert statistics.lower_tail(0.0) == 0.0
    assert statistics.lower_tail(1.97) == statistics.lower_tail(50.0) == pytest.approx(0.025)
