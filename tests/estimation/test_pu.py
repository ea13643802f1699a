"""Class prior and labeling rate of positive-unlabeled data, how PU labels are coded, and bags with a prior."""

import json
from functools import partial

import numpy as np
import pytest
import torch

import tproper as tp
from tproper.transitions import BagTransition, transition_from_dict, transition_to_dict


def draw(prior, distance, n, rng, d=3):
    positive = rng.random(n) < prior
    X = rng.standard_normal((n, d))
    X[:, 0] += distance * positive
    return X, positive


@pytest.mark.parametrize("prior", [0.25, 0.6])
def test_one_sample(prior):
    rng = np.random.default_rng(1)
    X, positive = draw(prior, 3.0, 4000, rng)
    labeled = positive & (rng.random(4000) < 0.4)
    e = tp.estimate_pu(labeled, X)
    assert e.prior.value == pytest.approx(prior, abs=0.04)
    assert e.rate.value == pytest.approx(0.4, abs=0.05)
    assert e.prior.interval[0] < e.prior.value < e.prior.interval[1]
    assert e.rate.value * e.prior.value == pytest.approx(labeled.mean())
    assert e.upper_bound > prior
    np.testing.assert_allclose(e.transition.matrix()[0], [e.rate.value, 0])
    assert e.transition.stderr[0, 0] == pytest.approx(e.rate.stderr, rel=0.1)
    assert "Assumes that labels are a random sample of the positives" in str(e)


def test_two_samples_give_the_prior_of_the_unlabeled_one():
    rng = np.random.default_rng(2)
    X, _ = draw(0.4, 3.0, 4000, rng)
    more, also = draw(0.5, 3.0, 4000, rng)
    P = more[also][:1000]
    e = tp.estimate_pu(np.arange(5000) < 1000, np.concatenate([P, X]), sampling="two samples")
    assert e.prior.value == pytest.approx(0.4, abs=0.04)
    assert e.rate.value == pytest.approx(1000 / (1000 + 0.4 * 4000), abs=0.04)
    assert any(note.startswith("prior is that of the unlabeled sample") for note in e.notes)


def test_scores_in_place_of_features_and_codings_of_labels():
    rng = np.random.default_rng(3)
    X, positive = draw(0.5, 3.0, 2000, rng)
    labeled = positive & (rng.random(2000) < 0.5)
    first = tp.estimate_pu(labeled, scores=X[:, 0])
    for same in (labeled.astype(int), np.where(labeled, 1, -1), torch.as_tensor(labeled), labeled.astype(float)):
        assert tp.estimate_pu(same, scores=X[:, 0]).to_dict() == first.to_dict()
    assert json.loads(json.dumps(first.to_dict()))["sampling"] == "one sample"
    stretched = tp.estimate_pu(labeled, scores=5 * X[:, 0] - 2)  # only the order and the shape of scores matter
    assert stretched.prior.value == pytest.approx(first.prior.value, rel=1e-3)


def test_positives_that_are_nowhere_alone_make_it_an_upper_bound():
    rng = np.random.default_rng(4)
    X, positive = draw(0.4, 0.8, 4000, rng)
    e = tp.estimate_pu(positive & (rng.random(4000) < 0.5), X)
    assert e.purity < 0.95
    assert any(note.startswith("No group of examples is nearly all positive") for note in e.notes)
    assert e.upper_bound > 0.4


def test_the_estimated_transition_trains_and_is_kept_in_files():
    rng = np.random.default_rng(5)
    X, positive = draw(0.5, 3.0, 2000, rng)
    y = np.where(positive & (rng.random(2000) < 0.5), 0, 1)
    T = tp.estimate_pu(y == 0, X).transition
    model = tp.WeakLabelClassifier(T, random_state=0).fit(X, y)
    assert model.classes_.tolist() == [False, True]
    assert (model.predict(X) == positive).mean() > 0.9
    again = transition_from_dict(json.loads(json.dumps(transition_to_dict(T))))
    assert again.label_kind == "positive/unlabeled"
    np.testing.assert_array_equal(again.draws, T.draws)


BOOLEAN = np.array([True, False] * 20)
SCORES = np.linspace(0, 1, 40)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tp.estimate_pu(BOOLEAN), "X: expected either X or scores, got both or neither"),
        (
            lambda: tp.estimate_pu(BOOLEAN, SCORES[:, None], SCORES),
            "X: expected either X or scores, got both or neither",
        ),
        (
            lambda: tp.estimate_pu(BOOLEAN, scores=SCORES, sampling="three"),
            "sampling: expected one of one sample, two samples, got 'three'",
        ),
        (lambda: tp.estimate_pu(BOOLEAN, scores=SCORES[:5]), "scores: expected one number for each of the 40 examples"),
        (lambda: tp.estimate_pu(BOOLEAN, scores=SCORES * np.nan), "scores: expected finite numbers, got nan"),
        (lambda: tp.estimate_pu(BOOLEAN, scores=["a"] * 40), "scores: expected 40 numbers, got"),
        (lambda: tp.estimate_pu(BOOLEAN, scores=0 * SCORES), "scores: expected numbers that differ, got one value"),
        (
            lambda: tp.estimate_pu(BOOLEAN, SCORES[:5, None]),
            "X: expected one row of features for each of the 40 examples",
        ),
        (lambda: tp.estimate_pu(BOOLEAN, SCORES[:, None] * np.nan), "X: expected finite features, got NaN"),
        (
            lambda: tp.estimate_pu(np.arange(40), scores=SCORES),
            r"labeled: expected booleans \(True = labeled positive\), or 1 and 0, or 1 and -1, got \[0, 1, 2, 3, 4\]",
        ),
        (lambda: tp.estimate_pu([BOOLEAN], scores=SCORES), r"labeled: expected booleans \(n,\)"),
        (
            lambda: tp.estimate_pu(BOOLEAN[:30], scores=SCORES[:30]),
            "labeled: expected at least 20 labeled and 20 unlabeled examples, got 15 and 15",
        ),
        (
            lambda: tp.positive_unlabeled(),
            "r: expected r, or prior, labeled and n together, got no prior and no labeled",
        ),
        (lambda: tp.positive_unlabeled(0.5, prior=0.5), "r: expected either r, or prior, labeled and n, got both"),
        (lambda: tp.positive_unlabeled(prior=0.5, n=10), "got no labeled"),
        (
            lambda: tp.positive_unlabeled(prior=0.1, labeled=20, n=100),
            "prior: expected at least labeled / n = 0.2, the share of labeled rows, got 0.1",
        ),
        (
            lambda: tp.positive_unlabeled(prior=0, labeled=0, n=10),
            r"prior: expected a finite number in \(0, 1\], got 0",
        ),
        (lambda: tp.positive_unlabeled(0.5).encode([1, -1]), r"for labels 1 \(positive\) and -1 \(unlabeled\) pass"),
        (lambda: tp.unlabeled_sets([[0.5, 0.5]], [1], prior=[0.5]), "prior: expected 2 numbers, got shape"),
        (lambda: tp.unlabeled_sets([[0.5, 0.5]], [1], prior=[0.5, 0.6]), "prior: expected numbers that sum to 1"),
        (lambda: tp.unlabeled_sets([[0.5, 0.5]], [1]).population([1, 2, 3]), "probabilities: expected shape"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# How PU labels are coded.


def test_r_from_the_prior_and_counts():
    T = tp.positive_unlabeled(prior=0.4, labeled=100, n=1000)
    np.testing.assert_allclose(T.matrix(), tp.positive_unlabeled(0.25).matrix())
    assert T.name == "positive_unlabeled(0.25)"


def test_booleans_mean_labeled_positive():
    T = tp.positive_unlabeled(0.5)
    assert T.encode([True, False]).tolist() == [0, 1]
    assert T.encode(torch.tensor([True, False])).tolist() == [0, 1]
    assert T.encode([0, 1]).tolist() == [0, 1]
    with pytest.raises(ValueError, match="got dtype bool"):  # elsewhere a boolean is no label
        tp.identity(2).encode([True, False])
    scores = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    loss = tp.ForwardLoss(T)
    assert loss(scores, torch.tensor([True, False, True, False])) == loss(scores, torch.tensor([0, 1, 0, 1]))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            lambda positive: np.where(positive, 1, -1),
            r"got -1; for labels 1 \(positive\) and -1 \(unlabeled\) pass y == 1",
        ),
        (
            lambda positive: np.where(positive, 1, 0),
            "y: expected at most a share r = 0.3 of labeled positives .* may be coded the other way",
        ),
    ],
)
def test_the_estimator_refuses_other_codings(labels, message):
    rng = np.random.default_rng(0)
    X, positive = draw(0.5, 2.0, 400, rng)
    labeled = positive & (rng.random(400) < 0.3)
    with pytest.raises(ValueError, match=message):
        tp.WeakLabelClassifier("pu:0.3").fit(X, labels(labeled))


# Bags.


def test_bags_with_a_prior_give_probabilities_of_the_population():
    rng = np.random.default_rng(0)
    shares, sizes, prior = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([3000, 3000]), np.array([0.2, 0.8])
    bag = np.repeat([0, 1], sizes)
    z = (rng.random(6000) >= shares[bag, 0]).astype(int)
    X = rng.standard_normal((6000, 2)) + 1.5 * np.eye(2)[z]
    pooled = tp.unlabeled_sets(shares, sizes)
    T = tp.unlabeled_sets(shares, sizes, prior=prior)
    assert isinstance(T, BagTransition)
    assert pooled.name == "unlabeled_sets of 2 bags, probabilities of the pooled bags (class shares 0.75, 0.25)"
    assert T.name == "unlabeled_sets of 2 bags, probabilities of the population with class shares 0.2, 0.8"
    np.testing.assert_array_equal(T.matrix(), pooled.matrix())
    test_z = (rng.random(6000) >= prior[0]).astype(int)
    test = rng.standard_normal((6000, 2)) + 1.5 * np.eye(2)[test_z]
    ours = tp.WeakLabelClassifier(T, random_state=0).fit(X, bag)
    theirs = tp.WeakLabelClassifier(pooled, random_state=0).fit(X, bag)
    assert ours.predict_proba(test)[:, 0].mean() == pytest.approx(0.2, abs=0.05)
    assert theirs.predict_proba(test)[:, 0].mean() > 0.35
    assert (ours.predict(test) == test_z).mean() > (theirs.predict(test) == test_z).mean() + 0.02
    np.testing.assert_array_equal(ours.predict(test), ours.predict_proba(test).argmax(axis=1))
    # labels of bags speak of the pooled rows, whatever population the probabilities are for
    np.testing.assert_allclose(ours.weak_log_likelihood(X, bag), theirs.weak_log_likelihood(X, bag))
    for scorer in (tp.calibrated_scorer, partial(tp.weak_scorer, "log_loss")):
        assert scorer(T)(ours, X, bag) == pytest.approx(scorer(pooled)(theirs, X, bag), abs=1e-9)


@pytest.mark.parametrize("loss", ["forward", "backward"])
def test_a_prior_changes_predictions_and_not_how_well_the_model_explains_its_bags(loss):
    shares, sizes = [[0.7, 0.3], [0.2, 0.8]], [300, 100]
    plain, shifted = tp.unlabeled_sets(shares, sizes), tp.unlabeled_sets(shares, sizes, prior=[0.1, 0.9])
    rng = np.random.default_rng(0)
    z = (rng.random(400) > plain.pooled[0]).astype(int)
    X, bags = rng.normal(size=(400, 2)) + 1.5 * z[:, None], plain.sample(z, 0)
    grid = {"l2": [1e-3, 1e-1]}
    one, other = (
        tp.WeakLabelClassifier(T, loss, calibrate=False, tune=grid, random_state=0).fit(X, bags)
        for T in (plain, shifted)
    )
    assert (one.predict(X) != other.predict(X)).any()
    np.testing.assert_allclose(other.weak_log_likelihood(X, bags), one.weak_log_likelihood(X, bags), rtol=1e-12)
    np.testing.assert_allclose(other.cv_results_["mean_weak_risk"], one.cv_results_["mean_weak_risk"], rtol=1e-12)
    scorer = tp.calibrated_scorer()
    assert scorer(other, X, bags) == pytest.approx(scorer(one, X, bags), rel=1e-9)
    assert other.score(X, bags) == pytest.approx(tp.weak_accuracy(bags, other.predict(X), shifted).value)


def test_population_is_bayes_rule():
    T = tp.unlabeled_sets([[0.7, 0.3], [0.2, 0.8]], [1, 3], prior=[0.5, 0.5])
    p = np.array([[0.4, 0.6], [0.0, 1.0]])
    odds = p[:, 0] / p[:, 1] * (0.5 / T.pooled[0]) / (0.5 / T.pooled[1])
    np.testing.assert_allclose(T.population(p)[:, 0], odds / (1 + odds))
    np.testing.assert_allclose(T.pooled, [0.325, 0.675])
    again = transition_from_dict(json.loads(json.dumps(transition_to_dict(T))))
    assert isinstance(again, BagTransition)
    assert again.name == T.name
    np.testing.assert_array_equal(again.prior, T.prior)
    np.testing.assert_array_equal(again.matrix(), T.matrix())


@pytest.mark.parametrize("sampling", ["one sample", "two samples"])
def test_no_interval_is_a_point_where_the_estimate_is_at_an_end(sampling):
    """Labels coded the other way round: every draw says r = 1, and the interval is that of the bound."""
    rng = np.random.default_rng(0)
    z = rng.random(800) < 0.4
    X = rng.standard_normal((800, 2)) + 2 * z[:, None]
    labeled = z & (rng.random(800) < 0.5)
    result = tp.estimate_pu(np.where(labeled, 0, 1), X, sampling=sampling)
    for score in (result.prior, result.rate):
        low, high = score.interval
        assert low <= score.value <= high
        assert high - low > 0.01
    assert any("if 1 stands for unlabeled in these labels, pass labels == 0" in note for note in result.notes)


def test_a_curve_that_ran_to_its_end_says_no_more_than_the_bound():
    """No score is pure, and the likeliest curve says r = 1: the interval was .09 to .39 for a prior of .9."""
    rng = np.random.default_rng(3)
    positive = rng.random(1000) < 0.9
    labeled = positive & (rng.random(1000) < 0.2)
    X = rng.standard_normal((1000, 3))
    X[:, 0] += 2 * positive
    result = tp.estimate_pu(labeled, X)
    assert result.prior.interval[0] < 0.9 < result.prior.interval[1] == result.upper_bound
    assert result.rate.interval[0] == pytest.approx(labeled.mean())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scores_that_separate_the_classes_give_the_prior(seed):
    """Where all positives are far above, a slope among them is chance: the prior came out as .11 and .22 for .4."""
    rng = np.random.default_rng(seed)
    positive = rng.random(500) < 0.4
    scores, labeled = rng.normal(size=500) + 50 * positive, positive & (rng.random(500) < 0.3)
    result = tp.estimate_pu(labeled, scores=scores)
    assert abs(result.prior.value - positive.mean()) < 0.02
    assert result.prior.interval[0] < 0.4 < result.prior.interval[1]
