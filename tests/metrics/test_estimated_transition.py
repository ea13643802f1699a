"""With an estimated T every score, test and calibration widens by T's own error, and says by how much."""

import math

import numpy as np
import pytest
import torch

import tproper as tp
from tproper.evaluation import streamed as table_scores
from tproper.metrics import UNINFORMATIVE, draws_of, uncertainty
from tproper.metrics.statistics import Reweigher
from tproper.transitions import EstimatedPartialLabels

ROUND = {
    "square": tp.pair_noise(3, 0.3),
    "more labels than classes": tp.Transition([[0.6, 0.1, 0.1], [0.1, 0.5, 0.1], [0.1, 0.2, 0.5], [0.2, 0.2, 0.3]]),
}


def estimated(T, rows, seed=0):
    """T from counts in `rows` clean rows of each class."""
    rng, matrix = np.random.default_rng(seed), T.matrix()
    counts = np.column_stack([rng.multinomial(rows, p) for p in matrix.T])
    return tp.Transition.from_counts(counts)


def sharp(T, strength):
    """An estimate that is T itself, known as well as from `strength` rows of each class."""
    return tp.EstimatedTransition(T.matrix(), concentration=T.matrix() * strength + 1e-9)


def data(T, n=1000, seed=0):
    rng, K = np.random.default_rng(seed), T.num_classes
    v = rng.normal(size=(n, K)) * 2
    q = np.exp(v) / np.exp(v).sum(1, keepdims=True)
    z = (q.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=K - 1)
    return T.sample(z, rng), q


def all_scores(y, q, T):
    calibration = tp.weak_calibration(y, q, T)
    return {
        "accuracy": tp.weak_accuracy(y, q.argmax(1), T),
        "balanced": tp.weak_balanced_accuracy(y, q.argmax(1), T),
        "log loss": tp.weak_log_loss(y, q, T),
        "Brier": tp.weak_brier(y, q, T),
        "calibration": calibration.squared_error,
        "overconfidence": calibration.overconfidence,
        "class-wise": tp.weak_calibration(y, q, T, classwise=True).squared_error,
        "paired": tp.paired_test(y, q, np.roll(q, 1, axis=0), T, "brier"),
    }


def width(score):
    return score.interval[1] - score.interval[0]


@pytest.mark.parametrize("T", ROUND.values(), ids=ROUND)
def test_a_draw_costs_one_inverse_and_is_the_score_under_it(T):
    """``tr((R T_s)^-1 R A)`` is the mean of ``<R_s e_y, s>`` for a left inverse R_s of the draw."""
    E = estimated(T, 200)
    y, q = data(T, 300)
    labels, values = E.encode(y), torch.as_tensor(q)
    weigher = Reweigher(E, E.reconstruction(), labels)
    draws = weigher.draws
    table = weigher.target_sums(labels, lambda i: values[i], np.full(300, 1 / 300))
    means = draws.means(table)
    samples, R = E.samples(1000, 0), E.reconstruction().matrix()
    assert len(draws.inverses) == 1000
    for s in range(0, 1000, 250):
        R_s = draws.inverses[s] @ R
        assert R_s @ samples[s] == pytest.approx(np.eye(3), abs=1e-9)
        assert R_s.sum(0) == pytest.approx(np.ones(R.shape[1]))
        assert means[s] == pytest.approx((R_s.T[y] * q).sum(1).mean())
    assert np.einsum("szz->s", draws.targets(table)) == pytest.approx(means)


@pytest.mark.parametrize("T", ROUND.values(), ids=ROUND)
def test_the_less_is_known_of_T_the_wider_the_interval(T):
    y, q = data(T)
    q = q**3 / (q**3).sum(1, keepdims=True)  # overconfident, so that its calibration error has two ends
    known = all_scores(y, q, tp.Transition(T.matrix()))
    certain, likely, vague = (all_scores(y, q, sharp(T, m)) for m in (1e7, 1000, 150))
    for name, score in known.items():
        assert score.stderr_transition == score.from_transition == 0
        assert certain[name].interval == pytest.approx(score.interval, abs=3e-3 * max(width(score), 0.1)), name
        assert width(vague[name]) > width(likely[name]) > width(score), name
        assert likely[name].value == pytest.approx(score.value, abs=0.02 if "cal" in name or "class" in name else 1e-6)
        assert likely[name].stderr > score.stderr, name
        assert vague[name].stderr_transition > likely[name].stderr_transition > 0, name
        assert vague[name].from_transition > 0.05, name
        assert f"{likely[name].from_transition:.0%} of the width comes from T" in str(likely[name])
        assert "comes from T" not in str(score)


def test_the_share_is_that_of_the_width():
    T = tp.symmetric_noise(3, 0.3)
    y, q = data(T)
    score, known = (
        tp.weak_accuracy(y, q.argmax(1), sharp(T, 300)),
        tp.weak_accuracy(y, q.argmax(1), tp.Transition(T.matrix())),
    )
    assert score.from_transition == pytest.approx(1 - width(known) / width(score))
    assert score.stderr == pytest.approx(math.hypot(known.stderr, score.stderr_transition))
    assert score.to_dict()["from_transition"] == score.from_transition


def test_accuracy_is_covered_with_T_from_clean_rows_and_was_not():
    T, hits, plain, sets = tp.symmetric_noise(3, 0.3), 0, 0, 200
    rng = np.random.default_rng(0)
    for seed in range(sets):
        E = estimated(T, 100, seed)
        predicted = rng.integers(0, 3, 2000)
        z = np.where(rng.random(2000) < 0.8, predicted, (predicted + rng.integers(1, 3, 2000)) % 3)
        y = T.sample(z, rng)
        for known in (False, True):
            low, high = tp.weak_accuracy(y, predicted, tp.Transition(E.matrix()) if known else E).interval
            plain, hits = plain + known * (low <= 0.8 <= high), hits + (not known) * (low <= 0.8 <= high)
    assert hits / sets >= 0.91  # 95%, three standard errors less
    assert plain / sets < 0.8


def test_a_calibrated_model_is_not_blamed_for_an_error_of_T():
    T, out, blamed, sets = tp.symmetric_noise(3, 0.3), 0, 0, 60
    for seed in range(sets):
        E = estimated(T, 60, seed)
        y, q = data(T, 3000, seed)
        for classwise in (False, True):
            out += tp.weak_calibration(y, q, E, classwise=classwise).interval[0] > 0
            blamed += tp.weak_calibration(y, q, tp.Transition(E.matrix()), classwise=classwise).interval[0] > 0
    assert out / (2 * sets) <= 0.1
    assert blamed > 3 * out


def test_a_T_that_may_be_singular_leaves_no_interval():
    T = tp.Transition([[0.55, 0.45, 0.3], [0.45, 0.55, 0.3], [0.0, 0.0, 0.4]])
    y, q = data(T)
    for name, score in all_scores(y, q, estimated(T, 30)).items():
        assert not score.informative, name
        assert score.note.startswith(UNINFORMATIVE), name
        assert "of its posterior draws cannot be inverted; more clean rows are needed" in score.note, name
    accuracy = tp.weak_accuracy(y, q.argmax(1), estimated(T, 30))
    assert accuracy.interval == (0.0, 1.0)
    test = tp.paired_test(y, q, np.roll(q, 1, axis=0), estimated(T, 30))
    assert test.interval == (-math.inf, math.inf)
    assert test.p_value == 1


def test_p_value_goes_with_the_widened_interval():
    T = tp.symmetric_noise(3, 0.3)
    rng, seen = np.random.default_rng(0), set()
    for seed in range(30):
        y, q = data(T, 300, seed)
        other = q * rng.gamma(1.0, size=q.shape)
        other /= other.sum(1, keepdims=True)
        kind = ["brier", "log_loss", "accuracy"][seed % 3]
        test = tp.paired_test(y, q, other, sharp(T, 100), kind)
        assert (test.p_value < 0.05) == (not test.interval[0] <= 0 <= test.interval[1])
        # no smaller than with T known, and equal where T's error is a mere scale, which moves no difference to 0
        assert test.p_value >= tp.paired_test(y, q, other, tp.Transition(T.matrix()), kind).p_value * (1 - 1e-9)
        seen.add(test.better)
    assert len(seen) > 1


def test_same_data_same_interval():
    T = tp.symmetric_noise(3, 0.3)
    y, q = data(T)
    assert all_scores(y, q, sharp(T, 100)) == all_scores(y, q, sharp(T, 100))


def test_blocks_of_a_long_table_share_the_error_of_T(monkeypatch):
    """T is the same in all blocks: its error must not average out as that of the rows does."""
    T = tp.symmetric_noise(3, 0.3)
    E = sharp(T, 200)
    y, q = data(T, 4000)
    whole = all_scores(y, q, E)
    monkeypatch.setattr(table_scores, "BLOCK_ROWS", 500)
    monkeypatch.setattr(table_scores, "BLOCK_CELLS", 1500)
    streamed = table_scores.StreamedScores(E)
    for part in range(8):
        rows = slice(500 * part, 500 * part + 500)
        streamed.add(y[rows], q[rows])
    scores = streamed.scores()
    pairs = {"accuracy": "accuracy", "log_loss": "log loss", "brier": "Brier"}
    for name, other in pairs.items():
        assert scores[name].value == pytest.approx(whole[other].value)
        assert scores[name].stderr == pytest.approx(whole[other].stderr, rel=0.1)
        assert scores[name].from_transition == pytest.approx(whole[other].from_transition, abs=0.1)
    squared = scores["calibration"].squared_error
    assert squared.stderr_transition == pytest.approx(whole["calibration"].stderr_transition, rel=0.5)
    assert "of the width of these intervals" in str(tp.evaluate(q, y, E))


def test_a_ratio_says_when_T_leaves_its_denominators_open():
    T = tp.symmetric_noise(3, 0.3)
    y, q = data(T, 3000)
    assert tp.weak_balanced_accuracy(y, q.argmax(1), tp.Transition(T.matrix())).informative
    score = tp.weak_balanced_accuracy(y, q.argmax(1), sharp(T, 15))
    assert not score.informative
    assert score.note.startswith("not informative: the share of class ")
    assert ": T is known too poorly for a ratio; " in score.note


def test_sources_and_annotators_bring_their_own_errors():
    """One estimated source among known ones widens the interval; annotators by how much they count."""
    T, n = tp.symmetric_noise(3, 0.3), 1500
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, n)
    predicted = np.where(rng.random(n) < 0.8, z, (z + 1) % 3)
    E, plain = sharp(T, 60), tp.Transition(T.matrix())

    def score(transition):
        y = transition.sample(z, 0)
        return tp.weak_accuracy(y, predicted, transition)

    for combine in (lambda *parts: tp.multi_source(list(parts), [0.5, 0.5]), lambda *parts: tp.annotators(list(parts))):
        none, one, both = (score(combine(*parts)) for parts in ((plain, plain), (plain, E), (E, E)))
        assert none.stderr_transition == 0
        assert none.value == pytest.approx(both.value)
        assert 0 < one.stderr_transition < both.stderr_transition
        assert width(none) < width(one) < width(both)
    single = score(E)
    assert score(tp.annotators([E])).stderr_transition == pytest.approx(single.stderr_transition)
    assert score(tp.annotators([E, E])).stderr_transition < single.stderr_transition  # two independent errors


def test_an_annotator_who_never_answers_brings_no_error():
    T = tp.symmetric_noise(3, 0.3)
    z = np.random.default_rng(0).integers(0, 3, 500)
    y = tp.annotators([tp.Transition(T.matrix()), sharp(T, 20)]).sample(z, 0)
    y[:, 1] = -1
    score = tp.weak_accuracy(y, z, tp.annotators([tp.Transition(T.matrix()), sharp(T, 20)]))
    assert score.stderr_transition == pytest.approx(0, abs=1e-12)


def test_candidate_sets_with_an_estimated_rate():
    """Beyond 12 classes the sets are not listed: the closed form gives what listing gives, and any K works."""
    T = EstimatedPartialLabels(6, 30.0, 70.0)
    listed = draws_of(T, T.reconstruction()).inverses
    closed = np.linalg.inv(T.posterior.symmetric_confusions(T.reconstruction(), uncertainty._count(36)))
    assert closed[: len(listed)] == pytest.approx(listed, abs=1e-9)
    many = EstimatedPartialLabels(40, 30.0, 70.0)
    z = np.random.default_rng(0).integers(0, 40, 800)
    y = many.sample(z, 0)
    score = tp.weak_accuracy(y, z, many)
    assert score.stderr_transition > 0
    assert width(score) > width(tp.weak_accuracy(y, z, tp.partial_labels(40, 0.3)))
    assert many.describe(range(40)) == str(many)


def test_answers_that_tell_the_classes_correct_what_made_T():
    """A crowd's T and its answers err together: luck is taken off the score's error, and T is nearer than EM's."""
    rng, K, n, m = np.random.default_rng(0), 3, 800, 80
    z = rng.integers(0, K, n)
    right = np.where(np.arange(m) < 20, 1 / K, rng.uniform(0.5, 0.95, m))[:, None, None]
    tables = right * np.eye(K) + (1 - right) / (K - 1) * (1 - np.eye(K))
    answers = np.full((n, m), -1)
    for i in range(n):
        who = rng.choice(m, 5, replace=False)
        answers[i, who] = (tables[who, :, z[i]].cumsum(1) < rng.random((5, 1))).sum(1)
    predicted = np.where(rng.random(n) < 0.9, z, (z + 1) % K)
    estimate = tp.estimate_annotators(answers, num_classes=K)
    score = tp.weak_accuracy(answers, predicted, estimate.transition)
    known = tp.weak_accuracy(answers, predicted, tp.annotators([tp.Transition(T) for T in tables]))
    assert score.interval[0] <= (predicted == z).mean() <= score.interval[1]
    assert math.sqrt(score.stderr**2 - score.stderr_transition**2) < 0.9 * known.stderr  # luck is taken off
    em, ours = estimate._fit.T, np.array([t.matrix() for t in estimate.transitions])
    assert np.abs(ours - tables).sum() < 0.75 * np.abs(em - tables).sum()
    labels = torch.as_tensor(answers)
    weigher = Reweigher(estimate.transition, estimate.transition.reconstruction(), labels)
    P = weigher.classes.posteriors  # by which corrected targets are those of the classes, on average
    np.testing.assert_allclose(weigher.targets(labels).numpy().T @ P, np.diag(P.sum(axis=0)), atol=1e-8)


@pytest.mark.parametrize("m", [3, 40])
def test_T_that_were_counted_one_by_one_are_not_taken_for_a_crowds(m):
    """Their draws do not know the scored answers: corrected by these, intervals held the truth in four of five sets."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(40, [0.2, 0.2, 0.6], size=(m, 3)).swapaxes(1, 2)
    T = tp.annotators([tp.Transition.from_counts(np.roll(c, 1, axis=0)) for c in counts])
    answers = torch.as_tensor(T.sample(rng.integers(3, size=50), seed=0))
    draws = draws_of(T, T.reconstruction(), answers)
    assert draws is not None
    assert draws.classes is None
