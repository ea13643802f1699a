"""`tp.evaluate`: the scores, what speaks for and against them, and bounds where labels contradict T."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

import tproper as tp
from tproper.evaluation.bounds import candidate_bounds

K = 4


def world(seed, n=1500, sharp=1.0):
    rng = np.random.default_rng(seed)
    v = 2 * rng.standard_normal((n, K))
    p = np.exp(v) / np.exp(v).sum(axis=1, keepdims=True)
    z = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
    return p, z, rng


def test_it_holds_the_scores_of_the_library_and_the_clean_ones_beside_them():
    p, z, _ = world(0)
    T = tp.symmetric_noise(K, 0.3)
    y, groups = T.sample(z, 0), np.arange(1500) // 3
    known = np.where(np.arange(1500) < 400, z, -1)
    found = tp.evaluate(p, y, T, true=known, groups=groups)
    assert found.scores["accuracy"].interval == tp.weak_accuracy(y, p.argmax(1), T, groups=groups).interval
    assert found.scores["log_loss"].stderr == tp.weak_log_loss(y, p, T, groups=groups).stderr
    clean = tp.weak_brier(z[:400], p[:400], tp.identity(K), groups=groups[:400])
    assert found.clean["brier"].interval == clean.interval
    assert found.check.plausible
    assert not found.bounds
    assert found.sensitivity["accuracy"].intervals[0.05][0] < found.scores["accuracy"].interval[0]
    json.dumps(found.to_dict())


def noise_of_a_feature(n=3000):
    """T, an average, is right; errors are rare above the middle of the feature `age`, and frequent below."""
    p, z, rng = world(2, n)
    X = rng.normal(size=(n, 3))
    wrong = np.where(X[:, 1] > 0, 0.05, 0.45)
    y = np.where(rng.random(n) < wrong, (z + rng.integers(1, K, n)) % K, z)
    return p, y, X


@pytest.mark.parametrize("kind", ["array", "sparse", "frame"])
def test_noise_that_varies_with_a_feature_is_found_where_features_are_given(kind):
    p, y, X = noise_of_a_feature()
    T = tp.symmetric_noise(K, 0.25)
    if kind == "frame":
        X = pytest.importorskip("pandas").DataFrame(X, columns=["height", "age", "weight"])
    assert tp.evaluate(p, y, T).check.plausible
    found = tp.evaluate(p, y, T, X=csr_array(X) if kind == "sparse" else X)
    assert not found.check.plausible
    told = " ".join([str(found), *found.doubts])
    assert "the middle of feature 1 have the labels of their predicted classes more often than T allows" in told
    assert ("features: 1 = age" in told) == (kind == "frame")
    some = np.arange(0, 3000, 2)
    gaps = np.array([None] * 3000, dtype=object)
    gaps[some] = y[some]
    left = np.asarray(X)[some]
    assert tp.evaluate(p, gaps, T, X=X).check.p_value == tp.evaluate(p[some], y[some], T, X=left).check.p_value
    with pytest.raises(tp.InputError) as error:
        tp.evaluate(p, y, T, X=left)
    assert error.value.argument == "X"


def test_it_names_what_its_numbers_rest_on():
    p, z, _ = world(1)
    T = tp.symmetric_noise(K, 0.3)
    told = str(tp.evaluate(p, T.sample(z, 0), T))
    assert "Scores from weak labels assume that labels came from symmetric_noise(4, 0.3), and that rows are" in told
    assert "by 5 points, accuracy is" in told
    assert "matters most: check that first." in told
    sure = 0.97 * np.eye(K)[z] + 0.03 / K  # rows as sure as these confirm T
    told = str(tp.evaluate(sure, T.sample(z, 0), T))
    assert "We found no sign that T is wrong. That does not prove it right: if T's rates are off by 5 points" in told
    assert len(told.splitlines()) <= 9  # one line where all is well
    assert "groups are independent" in str(tp.evaluate(p, T.sample(z, 0), T, groups=np.arange(1500) // 2))
    assert "labels are the true classes" in str(tp.evaluate(p, z, tp.identity(K)))


def test_classes_that_look_alike_have_no_scores_but_clean_ones():
    p, z, _ = world(2)
    T = tp.coarse_labels([[0, 1], [2, 3]])
    y = T.sample(z, 0)
    with pytest.raises(tp.NotReconstructibleError, match="true="):
        tp.evaluate(p, y, T)
    found = tp.evaluate(p, y, T, true=[None if i % 2 else c for i, c in enumerate(z)])
    assert not found.scores
    assert "look alike" in found.no_scores
    assert found.clean["accuracy"].n == 750


def dependent_sets(z, rng):
    """Candidates that come in pairs: a class's neighbour is in its set more often than others are."""
    masks = rng.random((len(z), K)) < 0.1
    masks[np.arange(len(z)), (z + 1) % K] |= rng.random(len(z)) < 0.6
    masks[np.arange(len(z)), z] = True
    return masks


@pytest.mark.parametrize("seed", range(3))
def test_sets_that_contradict_t_get_bounds_that_hold_the_truth(seed):
    p, z, rng = world(10 + seed)
    masks = dependent_sets(z, rng)
    q = 0.7 * p + 0.3 * np.eye(K)[z]
    found = tp.evaluate(q, masks, tp.partial_labels(K, (masks.sum() / len(z) - 1) / (K - 1)))
    assert not found.check.plausible
    accuracy, inside = (q.argmax(1) == z).mean(), masks[np.arange(len(z)), q.argmax(1)].mean()
    bound = found.bounds["accuracy"]
    assert bound.low <= accuracy <= bound.high
    assert inside <= bound.high <= inside + 0.03  # and its error
    true = {"log_loss": -np.log(q[np.arange(len(z)), z]).mean(), "brier": ((q - np.eye(K)[z]) ** 2).sum(1).mean()}
    for name, value in true.items():
        assert found.bounds[name].low <= value <= found.bounds[name].high
    told = str(found)
    assert "bounds, without T" in told
    assert "from weak labels alone" not in told
    assert "true classes are candidates" in told
    assert "T IS DOUBTFUL" in told
    assert found.to_dict()["trust"]["bounds"]["accuracy"]["high"] == bound.high


def test_bounds_from_sets_of_rows_in_groups_are_wider():
    p, z, rng = world(20)
    masks = np.repeat(dependent_sets(z, rng), 4, axis=0)
    p = np.repeat(p, 4, axis=0)
    alone, grouped = candidate_bounds(masks, p), candidate_bounds(masks, p, np.repeat(np.arange(1500), 4))
    for name in alone:
        assert grouped[name].high > alone[name].high
        assert grouped[name].low < alone[name].low


@pytest.mark.parametrize("seed", range(3))
def test_noisy_labels_that_contradict_t_get_bounds_of_every_noise_that_they_allow(seed):
    p, z, _ = world(30 + seed, n=4000)
    T = tp.symmetric_noise(K, 0.45)  # purer labels than it allows
    y = tp.symmetric_noise(K, 0.2).sample(z, 0)
    found = tp.evaluate(p, y, T)
    assert not found.check.plausible
    bound = found.bounds["accuracy"]
    assert bound.low <= (p.argmax(1) == z).mean() <= bound.high
    assert found.scores["accuracy"].value > (p.argmax(1) == z).mean() + 0.2, "what T would have said"
    assert bound.low <= (p.argmax(1) == y).mean() <= bound.high  # labels may be without errors
    assert "between symmetric_noise(4, 0.45) and labels without errors" in bound.rests_on


def test_labels_that_exclude_a_class_are_sets_of_the_others():
    p, z, rng = world(50, n=4000)
    W = rng.random((K, K)) ** 3
    np.fill_diagonal(W, 0)
    y = tp.complementary(K, W).sample(z, 0)
    found = tp.evaluate(p, y, tp.complementary(K))
    assert not found.check.plausible
    bound = found.bounds["accuracy"]
    assert bound.low <= (p.argmax(1) == z).mean() <= bound.high
    assert bound.high <= (p.argmax(1) != y).mean() + 0.03
    assert "the zeros of complementary(4) are right" in bound.rests_on


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"true": [0, 1]}, "true"),
        ({"true": [K, 0, 0]}, "true"),
        ({"true": [-1, None, -1]}, "true"),
        ({"transition": np.eye(K)}, "transition"),
        ({"probabilities": np.eye(K)}, "probabilities"),
    ],
)
def test_wrong_calls_name_the_argument(given, argument):
    call = {"probabilities": np.full((3, K), 1 / K), "labels": [0, 1, 2], "transition": tp.identity(K)} | given
    with pytest.raises(tp.InputError, match=f"^{argument}"):
        tp.evaluate(**call)
