"""Several yes/no classes at once, each with its own noise."""

import numpy as np
import pytest

import tproper as tp


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    Z = ((X @ rng.normal(size=(5, 3)) + 0.7 * rng.normal(size=(3000, 3))) > 0).astype(int)
    T = [tp.Transition([[1 - a, b], [a, 1 - b]]) for a, b in ((0.1, 0.3), (0.4, 0.05), (0.0, 0.0))]
    Y = np.stack([t.sample(Z[:, c], c) for c, t in enumerate(T)], axis=1)
    Y[rng.random(Y.shape) < 0.2] = -1
    return X[:2000], Y[:2000], X[2000:], Y[2000:], Z[2000:], T


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_classes_are_learned_through_their_own_noise(problem, model):
    X, Y, X_new, Y_new, Z, T = problem
    clf = tp.MultiLabelClassifier(T, model, epochs=30, random_state=0, names=["a", "b", "c"]).fit(X, Y)
    assert ((clf.predict(X_new) == Z).mean(axis=0) > 0.76).all()
    p = clf.predict_proba(X_new)
    assert p.shape == Z.shape
    assert np.abs(p.mean(axis=0) - Z.mean(axis=0)).max() < 0.08
    scores = clf.weak_scores(X_new, Y_new)
    exact = (clf.predict(X_new) == Z).mean(axis=0)
    for found, true in zip(scores.per_class.values(), exact, strict=True):
        assert abs(found.value - true) < 4 * found.stderr + 0.02
    assert list(scores.per_class) == ["a", "b", "c"]
    assert abs(scores.average - exact.mean()) < 4 * scores.stderr
    assert clf.score(X_new, Y_new) == scores.average


def test_a_linear_model_is_that_of_each_class_alone(problem):
    X, Y, X_new, _, _, T = problem
    clf = tp.MultiLabelClassifier(T, calibrate=False).fit(X, Y)
    rows = Y[:, 1] >= 0
    alone = tp.WeakLabelClassifier(T[1], classes=[0, 1], calibrate=False).fit(X[rows], Y[rows, 1])
    np.testing.assert_allclose(clf.predict_proba(X_new)[:, 1], alone.predict_proba(X_new)[:, 1])


def test_the_error_of_the_average_knows_that_rows_are_shared():
    """The same labels three times are one: the average's error is a class's own, not a third of its square."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 1))
    z = (X[:, 0] > 0).astype(int)
    y = tp.symmetric_noise(2, 0.3).sample(z, 0)
    clf = tp.MultiLabelClassifier("symmetric:2,0.3", calibrate=False).fit(X, np.stack([y] * 3, axis=1))
    scores = clf.weak_scores(X, np.stack([y] * 3, axis=1))
    assert scores.stderr == pytest.approx(scores.per_class[0].stderr, rel=0.05)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda X, Y: tp.MultiLabelClassifier(["symmetric:2,0.1"] * 2).fit(X, Y), "transitions"),
        (lambda X, Y: tp.MultiLabelClassifier("symmetric:3,0.1").fit(X, Y), "transition"),
        (lambda X, Y: tp.MultiLabelClassifier("pu:0.5").fit(X, Y), "transitions"),
        (lambda X, Y: tp.MultiLabelClassifier().fit(X, Y[:, 0]), "Y"),
        (lambda X, Y: tp.MultiLabelClassifier().fit(X[:-1], Y), "Y"),
        (lambda X, Y: tp.MultiLabelClassifier().fit(X, np.where(np.arange(3) == 1, -1, Y)), "Y"),
        (lambda X, Y: tp.MultiLabelClassifier(names=["a"]).fit(X, Y), "names"),
        (lambda X, Y: tp.MultiLabelClassifier(model="forest").fit(X, Y), "model"),
    ],
)
def test_wrong_calls_are_refused(problem, make, argument):
    with pytest.raises(tp.InputError) as error:
        make(*problem[:2])
    assert error.value.argument == argument
