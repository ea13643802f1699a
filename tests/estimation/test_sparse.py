"""Sparse features stand wherever dense ones do, and estimates do not depend on how features are kept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import tproper as tp
from tproper.estimation.softmax import leading_axes


def words(n=600, d=120, seed=0):
    """Counts of words, most of which are zero, whose frequencies depend on the class."""
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=n)
    rate = 0.08 * rng.gamma(2.0, size=(2, d)) / 2
    rate[0, :20] += 0.25
    rate[1, 20:40] += 0.25
    return csr_matrix(rng.poisson(rate[z]).astype(float)), z, rng


def test_leading_axes_span_what_the_singular_vectors_span():
    X, _, _ = words()
    ours, theirs = leading_axes(X, 2), np.linalg.svd(X.toarray(), full_matrices=False)[2][:2].T
    np.testing.assert_allclose(np.linalg.svd(theirs.T @ ours)[1], 1.0, atol=1e-3)


def test_transition_from_sparse_features():
    X, z, rng = words(1500)
    weak = np.where(rng.random(len(z)) < 0.2, 1 - z, z)
    T = tp.estimate_transition(weak, X=X, num_classes=2)
    assert np.abs(T.matrix() - [[0.8, 0.2], [0.2, 0.8]]).max() < 0.1
    assert (T.classifier.predict(X) == z).mean() > 0.85


def test_annotators_with_sparse_features():
    X, z, rng = words()
    answers = np.stack([np.where(rng.random(len(z)) < p, 1 - z, z) for p in (0.2, 0.3, 0.35)], axis=1)
    alone, helped = tp.estimate_annotators(answers), tp.estimate_annotators(answers, X=X)
    assert (helped.posteriors.argmax(1) == z).mean() > (alone.posteriors.argmax(1) == z).mean() + 0.02
    assert (helped.classifier.predict(X) == z).mean() > 0.85


def test_class_prior_of_positive_and_unlabeled_rows_with_sparse_features():
    X, z, rng = words(2000)
    labeled = (z == 0) & (rng.random(len(z)) < 0.5)
    low, high = tp.estimate_pu(labeled, X).prior.interval
    assert low <= (z == 0).mean() <= high
    assert high - low < 0.3


@pytest.mark.parametrize("loss", ["forward", "gls"])
def test_the_classifier_is_that_of_dense_features(loss):
    X, z, rng = words(300, 30)
    weak = np.where(rng.random(len(z)) < 0.2, 1 - z, z)
    model = tp.WeakLabelClassifier("symmetric:0.2", loss, l2=1e-2, tol=1e-8)
    sparse, dense = (model.fit(A, weak).predict_proba(X) for A in (X, X.toarray()))
    np.testing.assert_allclose(sparse, dense, atol=1e-5)


def test_networks_take_sparse_features():
    X, z, _ = words(200, 30)
    model = tp.WeakLabelClassifier(model="mlp", epochs=3, random_state=0)
    sparse, dense = (model.fit(A, z).predict_proba(A) for A in (X, X.toarray()))
    np.testing.assert_allclose(sparse, dense, atol=1e-6)
