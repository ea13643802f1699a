"""The vote of annotators, scored by their own answers, would look nearly perfect."""

import numpy as np
import pytest

import tproper as tp

MADE_FROM = "predictions made from the answers cannot be scored by them"


@pytest.fixture(params=range(4))
def crowd(request):
    """Classes, answers with gaps, T of the annotators, and what their answers say the classes are."""
    rng = np.random.default_rng(request.param)
    K, n, m = (3, 600, 4) if request.param % 2 else (4, 900, 12)
    z, rates = rng.integers(0, K, n), rng.uniform(0.1, 0.45, m)
    parts = [tp.symmetric_noise(K, p) for p in rates]
    answers = np.stack([T.sample(z, 100 * request.param + a) for a, T in enumerate(parts)], axis=1)
    answers[rng.random(answers.shape) < (0.2 if m < 10 else 0.7)] = -1
    return z, answers, tp.annotators(parts), tp.estimate_annotators(answers, random_state=0)


def test_the_vote_is_not_scored_by_its_own_answers(crowd):
    _, answers, T, estimate = crowd
    votes = np.stack([(answers == c).sum(axis=1) for c in range(T.num_classes)], axis=1).argmax(axis=1)
    for predictions in (estimate.posteriors.argmax(axis=1), votes):
        for transition in (T, estimate.transition):
            score = tp.weak_accuracy(answers, predictions, transition)
            assert not score.informative  # also where the estimate lies beyond what is possible
            assert score.interval == (0.0, 1.0)
    assert MADE_FROM in tp.weak_accuracy(answers, votes, estimate.transition).note
    soft = 0.9 * np.eye(T.num_classes)[votes] + 0.1 / T.num_classes
    for score in (tp.weak_brier, tp.weak_log_loss):
        assert not score(answers, soft, estimate.transition).informative


@pytest.mark.parametrize("right", [0.5, 0.9, 1.0])
def test_predictions_made_without_the_answers_are_scored(crowd, right):
    z, answers, T, estimate = crowd
    rng = np.random.default_rng(0)
    predictions = np.where(rng.random(len(z)) < right, z, (z + 1) % T.num_classes)
    for transition in (T, estimate.transition):
        score = tp.weak_accuracy(answers, predictions, transition)
        assert score.informative, score
        assert abs(score.value - (predictions == z).mean()) < 0.1


def test_annotators_who_are_always_right_may_be_agreed_with():
    z = np.arange(200) % 3
    T = tp.annotators([tp.symmetric_noise(3, 0.001)] * 3)
    assert tp.weak_accuracy(np.stack([z] * 3, axis=1), z, T).informative
