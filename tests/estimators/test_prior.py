"""A class prior that changed: probabilities of a population with other class shares."""

import numpy as np
import pytest

import tproper as tp
from tproper.transitions import transition_from_dict, transition_to_dict


def made(n, shares, seed):
    """Two features whose distribution depends on the class, of which the shares are given; and P(class | x)."""
    rng = np.random.default_rng(seed)
    z = rng.choice(3, size=n, p=shares)
    centres = np.array([[0.0, 1.5], [1.5, -1.0], [-1.5, -1.0]])
    X = centres[z] + rng.normal(size=(n, 2))
    like = np.exp(-0.5 * ((X[:, None] - centres) ** 2).sum(-1)) * np.asarray(shares)
    return X, z, like / like.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def fitted():
    T = tp.symmetric_noise(3, 0.3)
    X, z, _ = made(6000, [0.5, 0.3, 0.2], seed=0)
    return T, tp.WeakLabelClassifier(T, calibrate=False).fit(X, T.sample(z, 1))


def test_label_shift_in_five_lines(fitted):
    T, clf = fitted
    X, z, truth = made(6000, [0.1, 0.2, 0.7], seed=2)
    labels = T.sample(z, 3)
    prior = tp.weak_prevalence(labels, T).value
    p = clf.predict_proba(X, prior=prior)
    assert np.abs(prior - [0.1, 0.2, 0.7]).max() < 0.04
    assert np.abs(p - truth).mean() < 0.03
    assert np.abs(clf.predict_proba(X) - truth).mean() > 0.08
    assert np.abs(clf.class_prior_ - [0.5, 0.3, 0.2]).max() < 0.03


def test_a_transition_carries_the_prior_of_a_population(fitted, tmp_path):
    T, clf = fitted
    shares = [0.2, 0.2, 0.6]
    moved = T.with_prior(shares)
    assert T.prior is None
    again = transition_from_dict(transition_to_dict(moved))
    np.testing.assert_array_equal(again.prior, shares)
    X, z, _ = made(6000, [0.5, 0.3, 0.2], seed=0)
    other = tp.WeakLabelClassifier(moved, calibrate=False).fit(X, T.sample(z, 1))
    np.testing.assert_allclose(other.predict_proba(X), clf.predict_proba(X, prior=shares), atol=1e-12)
    assert (other.predict(X) == other.predict_proba(X).argmax(1)).all()
    np.testing.assert_allclose(np.exp(other.predict_log_proba(X)), other.predict_proba(X))
    loaded = tp.load(tp.save(other, tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(
        loaded.predict_proba(X, prior=[0.1, 0.1, 0.8]), other.predict_proba(X, [0.1, 0.1, 0.8])
    )


def test_bags_are_pooled_in_training():
    bags = tp.unlabeled_sets([[0.8, 0.2], [0.3, 0.7]], [500, 500])
    moved = bags.with_prior([0.1, 0.9])
    p = np.array([[0.4, 0.6]])
    np.testing.assert_allclose(
        moved.population(p), tp.unlabeled_sets([[0.8, 0.2], [0.3, 0.7]], [500, 500], prior=[0.1, 0.9]).population(p)
    )
    assert "0.1, 0.9" in moved.name
    assert "pooled" in moved.with_prior(None).name


@pytest.mark.parametrize("prior", [[0.5, 0.5], [0.5, 0.6, -0.1], [0.0, 0.5, 0.5], ["a", "b", "c"]])
def test_a_wrong_prior_is_refused(fitted, prior):
    T, clf = fitted
    for call in (lambda: clf.predict_proba(np.zeros((1, 2)), prior=prior), lambda: T.with_prior(prior)):
        with pytest.raises(tp.InputError) as error:
            call()
        assert error.value.argument == "prior"


def test_a_stream_has_no_shares(fitted):
    T, _ = fitted
    X, z, _ = made(200, [0.5, 0.3, 0.2], seed=0)
    clf = tp.WeakLabelClassifier(T, classes=[0, 1, 2], early_stopping=True).partial_fit(X, T.sample(z, 1))
    with pytest.raises(tp.InputError, match="prior"):
        clf.predict_proba(X, prior=[0.2, 0.2, 0.6])
