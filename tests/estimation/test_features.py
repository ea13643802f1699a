"""T from features: close to the truth for every kind of noise, honest where the data cannot tell."""

import re
import warnings

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import tproper as tp
from tproper.estimation import likelihood
from tproper.estimation.softmax import Design, softmax
from tproper.solvers.linear import fit_linear

PIXELS, DIGITS = load_digits(return_X_y=True)
PIXELS = PIXELS / 16


def blobs(n, K, seed, spread=0.5):
    rng = np.random.default_rng(seed)
    z = rng.integers(K, size=n)
    angle = 2 * np.pi * z / K
    return np.c_[np.cos(angle), np.sin(angle)] * 2 + spread * rng.standard_normal((n, 2)), z


def l1(A, B):
    return np.abs(A - B).sum(axis=0).mean()


SKEWED = tp.Transition([[0.9, 0.1, 0.4], [0.05, 0.6, 0.0], [0.05, 0.3, 0.6]])


@pytest.mark.parametrize(
    "T",
    [tp.symmetric_noise(3, 0.3), tp.pair_noise(3, 0.3), SKEWED, tp.complementary(3), tp.identity(3)],
    ids=lambda T: T.name,
)
def test_no_clean_row(T):
    X, z = blobs(3000, 3, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate = tp.estimate_transition(T.sample(z, 77), X=X)
    assert l1(estimate.matrix(), T.matrix()) < 0.08
    assert (estimate.classifier.predict(X) == z).mean() > 0.97
    low, high = estimate.interval(0.99)
    assert ((low - 0.02 <= T.matrix()) & (T.matrix() <= high + 0.02)).all()


def test_biased_complementary_labels():
    weights = np.array([[0, 3, 1, 1], [2, 0, 1, 1], [1, 1, 0, 3], [1, 2, 2, 0]])
    T = tp.complementary(4, weights)
    X, z = blobs(6000, 4, 1)
    estimate = tp.estimate_transition(T.sample(z, 77), X=X)
    assert l1(estimate.matrix(), T.matrix()) < 0.1


def test_cross_fitting_keeps_the_noise():
    """On digits an overfitted model hides noise: plain EM on the training rows is .43 away (mean column L1)."""
    T = tp.symmetric_noise(10, 0.3)
    estimate = tp.estimate_transition(T.sample(DIGITS, 0), X=PIXELS)
    assert l1(estimate.matrix(), T.matrix()) < 0.12
    assert 0.25 < 1 - estimate.matrix().diagonal().mean() < 0.35


def test_clean_rows_say_which_class_is_which():
    """Labels that are right for no class, and more of them than classes: features would call classes otherwise."""
    T = tp.Transition([[0.1, 0.7, 0.1], [0.1, 0.1, 0.6], [0.6, 0.1, 0.1], [0.2, 0.1, 0.2]])
    X, z = blobs(3000, 3, 2)
    weak = T.sample(z, 77)
    true = np.full(3000, -1)
    true[:30] = z[:30]
    with_both = tp.estimate_transition(weak, true, X)
    with_clean = tp.estimate_transition(weak, true)
    assert l1(with_both.matrix(), T.matrix()) < 0.1
    assert l1(with_both.matrix(), T.matrix()) < l1(with_clean.matrix(), T.matrix())
    assert with_both.stderr.max() < with_clean.stderr.max() / 2


def test_where_every_class_is_known_T_is_counted():
    X, z = blobs(300, 3, 0)
    y = SKEWED.sample(z, seed=0)
    T = tp.estimate_transition(y, z, X, random_state=0)
    counted = tp.estimate_transition(y, z)
    np.testing.assert_allclose(T.matrix(), counted.matrix(), atol=1e-3)
    np.testing.assert_allclose(T.stderr, counted.stderr, rtol=0.02)
    assert (T.classifier.predict_proba(X).argmax(axis=1) == z).mean() > 0.9


def test_more_labels_than_classes_without_clean_rows():
    T = tp.Transition([[0.7, 0.1], [0.1, 0.6], [0.2, 0.3]])
    X, z = blobs(2000, 2, 3)
    estimate = tp.estimate_transition(T.sample(z, 77), X=X, num_classes=2)
    assert l1(estimate.matrix(), T.matrix()) < 0.1


@pytest.mark.parametrize(
    "model", [LogisticRegression(), RandomForestClassifier(30, min_samples_leaf=10, random_state=0)]
)
def test_any_classifier(model):
    T = tp.pair_noise(3, 0.3)
    X, z = blobs(900, 3, 4)
    estimate = tp.estimate_transition(T.sample(z, 77), X=X, model=model)
    assert l1(estimate.matrix(), T.matrix()) < 0.25
    assert (estimate.classifier.predict(X) == z).mean() > 0.95


def test_features_that_say_nothing_are_told():
    rng = np.random.default_rng(0)
    T = tp.symmetric_noise(3, 0.3)
    with pytest.warns(tp.IdentifiabilityWarning, match=r"these data do not determine T"):
        estimate = tp.estimate_transition(T.sample(rng.integers(3, size=600), 77), X=rng.standard_normal((600, 4)))
    assert any("do not determine T" in note for note in estimate.notes)


def test_labels_that_tell_one_rate_are_not_asked_for_ninety_numbers():
    """Complementary digits: T's own noise would lead the next model astray, by 15 to 20 points of accuracy."""
    T = tp.complementary(10)
    weak = T.sample(DIGITS[:1200], 1)
    with pytest.warns(tp.IdentifiabilityWarning, match="one rate of T alone: its 89 other numbers raise the log"):
        estimate = tp.estimate_transition(weak, X=PIXELS[:1200])
    assert l1(estimate.matrix(), T.matrix()) < 0.08
    accuracy = [
        (
            tp.WeakLabelClassifier(t, calibrate=False).fit(PIXELS[:1200], weak).predict(PIXELS[1200:]) == DIGITS[1200:]
        ).mean()
        for t in (T, estimate)
    ]
    assert accuracy[1] > accuracy[0] - 0.01


def test_features_that_leave_the_classes_open_are_told():
    """Overlapping classes: a quarter of the 95% intervals held T, and nothing was said."""
    rng = np.random.default_rng(1)
    z = rng.choice(3, size=800, p=[0.5, 0.3, 0.2])
    X = rng.normal(size=(800, 3)) + np.eye(3)[z]
    weak = tp.Transition([[0.7, 0.05, 0.2], [0.2, 0.9, 0.2], [0.1, 0.05, 0.6]]).sample(z, seed=1)
    told = "T rests on the shape .* features leave the classes|these data determine one rate of T alone"
    with pytest.warns(tp.IdentifiabilityWarning, match=told):
        T = tp.estimate_transition(weak, X=X, random_state=0)
    assert any("add clean rows" in note for note in T.notes)
    low, high = T.interval()
    true = np.array([[0.7, 0.05, 0.2], [0.2, 0.9, 0.2], [0.1, 0.05, 0.6]])
    assert ((low <= true) & (true <= high)).mean() >= 0.7


def test_constant_features_are_told():
    z = np.arange(300) % 3
    with pytest.warns(tp.IdentifiabilityWarning):
        estimate = tp.estimate_transition(tp.symmetric_noise(3, 0.3).sample(z, 77), X=np.ones((300, 2)))
    assert estimate.stderr.min() > 0.1


def test_fewer_labels_than_classes_need_clean_rows():
    T = tp.coarse_labels([[0, 1], [2]])
    X, z = blobs(600, 3, 5)
    weak = T.sample(z, 77)
    # labels are taken for classes where nothing says otherwise, so that the third is one that never occurs
    true = np.where(np.arange(600) < 60, z, -1)
    estimate = tp.estimate_transition(weak, true, X)
    assert estimate.matrix().shape == (2, 3)
    assert l1(estimate.matrix(), T.matrix()) < 0.1


def test_same_seed_same_T():
    X, z = blobs(400, 3, 6)
    weak = SKEWED.sample(z, 77)
    one, two = (tp.estimate_transition(weak, X=X, random_state=3) for _ in range(2))
    assert np.array_equal(one.matrix(), two.matrix())
    state = np.random.get_state()[1].copy()
    tp.estimate_transition(weak, X=X, random_state=4)
    assert np.array_equal(state, np.random.get_state()[1])


def test_sparse_features_and_wide_ones():
    X, z = blobs(800, 3, 7)
    weak = SKEWED.sample(z, 77)
    wide = np.hstack([X, 0.01 * np.random.default_rng(0).standard_normal((800, 300))])
    dense, sparse = tp.estimate_transition(weak, X=wide), tp.estimate_transition(weak, X=csr_matrix(wide))
    assert l1(dense.matrix(), SKEWED.matrix()) < 0.15
    assert l1(sparse.matrix(), SKEWED.matrix()) < 0.15
    np.testing.assert_allclose(sparse.classifier.predict_proba(csr_matrix(wide)).sum(axis=1), 1)


def test_a_classifier_asked_for_other_features():
    X, z = blobs(300, 3, 8)
    model = tp.estimate_transition(SKEWED.sample(z, 77), X=X).classifier
    with pytest.raises(ValueError, match=re.escape("X: expected 2 features, got shape (300, 1)")):
        model.predict_proba(X[:, :1])


def test_the_likelihood_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    weak, true = rng.integers(4, size=50), np.where(rng.random(50) < 0.3, rng.integers(3, size=50), -1)
    T, P = rng.dirichlet(np.ones(4), 3).T, rng.dirichlet(np.ones(3), 50).T
    evidence = likelihood.Evidence(weak, true, 4, 3)
    direct = 0.0
    for y, z, p in zip(weak, true, P.T, strict=True):
        direct += np.log(T[y] @ p) if z < 0 else np.log(T[y, z] * p[z])
    np.testing.assert_allclose(evidence.log_likelihood(T, P), direct)


@pytest.mark.parametrize("volume", [0.0, 5.0])
def test_the_update_of_T_is_a_maximum(volume):
    """No T nearby explains the labels better, given the scores."""
    rng = np.random.default_rng(1)
    _, z = blobs(500, 3, 9)
    V = np.log(softmax(3 * np.eye(3)[:, z] + 0.3 * rng.standard_normal((3, 500))))
    evidence = likelihood.Evidence(SKEWED.sample(z, 77), np.full(500, -1), 3, 3)
    T, heat = np.full((3, 3), 0.2) + 0.4 * np.eye(3), 1.0
    for _ in range(20):
        T, heat = likelihood.update(evidence, T, V, heat, volume, "auto")

    def value(T, heat):
        fit = evidence.log_likelihood(T, softmax(heat * V)) + np.log(T).sum() / 3 - 0.5 * np.log(heat) ** 2
        return fit - 0.5 * volume * np.linalg.slogdet(T.T @ T)[1]

    top = value(T, heat)
    for _ in range(50):
        near = T * np.exp(0.05 * rng.standard_normal(T.shape))
        assert value(near / near.sum(axis=0), heat * np.exp(0.05 * rng.standard_normal())) < top + 1e-2


def test_effective_rows_of_certain_rows_are_the_rows():
    z = np.arange(300) % 3
    weak = SKEWED.sample(z, 77)
    evidence = likelihood.Evidence(weak, np.full(300, -1), 3, 3)
    counts = np.zeros((3, 3))
    np.add.at(counts, (weak, z), 1)
    T = (counts + 0.1) / (counts + 0.1).sum(axis=0)
    worth = likelihood.effective_rows(evidence, T, np.eye(3)[:, z])
    np.testing.assert_allclose(worth, 100, rtol=0.05)
    unsure = likelihood.effective_rows(evidence, T, 0.2 + 0.4 * np.eye(3)[:, z])
    assert (unsure < 0.6 * worth).all()


def test_the_linear_model_is_at_its_optimum():
    X, z = blobs(200, 3, 10)
    design = Design(X)
    t = SKEWED.matrix()[SKEWED.sample(z, 77)].T
    W = design.fit(t, design.start(3), 500, l2=0.01)
    ours = design.model(W)
    labels = torch.as_tensor(SKEWED.sample(z, 77))
    theirs = fit_linear(X, labels, tp.ForwardLoss(SKEWED), None, 0.01, 1e-7, 1000)
    expected = torch.softmax(torch.as_tensor(X @ theirs.coef.T + theirs.intercept), -1).numpy()
    np.testing.assert_allclose(ours.predict_proba(X), expected, atol=2e-3)


@pytest.mark.parametrize("units", [(1e-4, 1e-4, 1e-4), (1e4, 1e4, 1e4), (1e5, 1, 1), (1, 1, 1e9)], ids=str)
@pytest.mark.parametrize("store", [np.asarray, csr_matrix], ids=["dense", "sparse"])
def test_units_of_the_features_do_not_matter(units, store):
    """Dollars beside rates: T and the classifier are those of the features in common units."""
    X, z = blobs(2000, 3, 3)
    X = np.c_[X, np.random.default_rng(0).standard_normal(2000)]
    weak = SKEWED.sample(z, 5)
    plain = tp.estimate_transition(weak, X=store(X))
    scaled = tp.estimate_transition(weak, X=store(X * units))
    assert l1(scaled.matrix(), plain.matrix()) < 0.03
    difference = scaled.classifier.predict_proba(X * units) - plain.classifier.predict_proba(X)
    assert np.abs(difference).mean() < 0.02


def test_sparse_features_of_annotators_and_their_progress():
    from scipy.sparse import csr_array

    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 400)
    X = (rng.random((400, 60)) < np.where(np.arange(60) % 3 == z[:, None], 0.3, 0.1)).astype(float)
    answers = np.where(rng.random((400, 3)) < 0.6, z[:, None], rng.integers(0, 3, (400, 3)))
    done = []
    both = [tp.estimate_annotators(answers, X=x, random_state=0, progress=done.append) for x in (X, csr_array(X))]
    plain = tp.estimate_annotators(answers, random_state=0)
    right = [(e.posteriors.argmax(axis=1) == z).mean() for e in (*both, plain)]
    assert min(right[:2]) > right[2] + 0.02
    assert done[-1] == 1.0
    assert both[1].classifier.predict_proba(csr_array(X)).shape == (400, 3)


def overlapping(seed, T, n=1000):
    """Features that leave the classes open."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    p = np.exp(0.7 * X[:, :3])
    p /= p.sum(axis=1, keepdims=True)
    z = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=2)
    return X, tp.Transition(T).sample(z, rng)


def test_labels_that_may_name_the_class_or_what_it_is_not_are_not_named_with_confidence():
    """An order of the classes that is wrong has every entry of T wrong: where both may be, intervals hold both."""
    T, share = np.array([[0.8, 0.17, 0.04], [0.18, 0.81, 0.36], [0.02, 0.02, 0.6]]), []
    for seed in range(12):
        X, y = overlapping(seed, T)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            low, high = tp.estimate_transition(y, X=X, num_classes=3, random_state=0).interval()
        share.append(((low <= T) & (high >= T)).mean())
    assert min(share) > 0.3
    assert np.mean(share) > 0.75


def test_classes_that_features_leave_open_have_no_names_where_no_label_leads():
    from tproper.estimation.features import names

    led = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]])
    order, sentence, other = names(led, "auto", unsure=True)
    assert order.tolist() == [0, 1, 2]
    assert other is None
    assert "most frequent" in sentence
    hole = np.array([[0.55, 0.02, 0.43], [0.43, 0.55, 0.02], [0.02, 0.43, 0.55]])
    assert "rarest" in names(hole, "auto")[1]
    assert "most frequent" in names(hole, "auto", unsure=True)[1]
    flat = np.array([[0.48, 0.07, 0.45], [0.45, 0.48, 0.07], [0.07, 0.45, 0.48]])
    order, sentence, other = names(flat, "auto", unsure=True)
    assert "rarest" in sentence
    assert other.tolist() == [0, 1, 2]
    assert names(flat, "complementary", unsure=True)[2] is None


@pytest.mark.parametrize("problem", ["xor", "quadratic", "linear"])
def test_a_form_that_cannot_be_right_is_told_of_a_thousand_rows(problem):
    """A linear model for classes that no line tells apart: the labels go with squares and products of features."""
    told, T = 0, tp.symmetric_noise(3, 0.3)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1000, 5))
        both = 3 * np.sign(X[:, 0] * X[:, 1])
        v = {"xor": np.c_[both, -both, X[:, 2]], "quadratic": 2 * X[:, :3] ** 2, "linear": 2 * X[:, :3]}[problem]
        p = np.exp(v - v.max(axis=1, keepdims=True))
        z = ((p / p.sum(axis=1, keepdims=True)).cumsum(axis=1) < rng.random((1000, 1))).sum(axis=1).clip(max=2)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            tp.estimate_transition(T.sample(z, rng), X=X, num_classes=3, random_state=0)
        told += any("form does not fit" in str(w.message) for w in said)
    assert told >= 3 if problem != "linear" else told == 0
