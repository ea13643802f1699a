"""Votes, "not this", "one of these", refusals and soft votes as sources of one item, T of each estimated together."""

import numpy as np
import pytest

import tproper as tp


def drawn(seed, n=2000, K=4):
    """Five sources of four kinds, what they said, and the classes."""
    rng = np.random.default_rng(seed)
    z = rng.choice(K, n, p=[0.4, 0.3, 0.2, 0.1])
    votes = np.where(rng.random(n) < 0.65, z, rng.integers(0, K, n))
    votes[rng.random(n) < 0.1] = K  # a refusal
    second = np.where(rng.random(n) < 0.5, z, rng.integers(0, K, n))
    second[rng.random(n) < 0.3] = -1
    ruled_out = (z + rng.integers(1, K, n)) % K
    slip = rng.random(n) < 0.04
    ruled_out[slip] = z[slip]
    masks = rng.random((n, K)) < 0.35
    masks[np.arange(n), z] = rng.random(n) < 0.95
    T = tp.symmetric_noise(K, 0.4).matrix()
    label = tp.Transition(T).sample(z, rng)
    sharp = rng.uniform(0.5, 1.0, n)
    shares = np.full((n, K), 0.0)
    shares += ((1 - sharp) / (K - 1))[:, None]
    shares[np.arange(n), label] = sharp
    given = {
        "judge": votes,
        "second": second,
        "quiz": (ruled_out, "not this"),
        "filter": (masks, "one of these"),
        "model": tp.SoftLabels(shares),
    }
    return given, z


@pytest.fixture(scope="module")
def found():
    given, z = drawn(0)
    return tp.estimate_annotators(given, num_classes=4), given, z


def test_all_kinds_together_are_better_than_any_of_them(found):
    result, given, z = found
    right = (result.posteriors.argmax(axis=1) == z).mean()
    for name in ("judge", "second"):
        assert right > (given[name] == z).mean() + 0.05
    for left in given:
        some = {k: v for k, v in given.items() if k != left}
        assert (tp.estimate_annotators(some, num_classes=4).posteriors.argmax(axis=1) == z).mean() < right + 0.005
    p = result.posteriors
    assert np.abs(result.prior - np.bincount(z) / len(z)).max() < 0.04
    top = p.max(axis=1)
    assert abs(top.mean() - right) < 0.04
    assert top.max() < 0.99 + 1e-9
    assert "answers alone" not in str(result)
    assert "quiz" in str(result)


def test_T_of_each_source_is_found_with_its_interval():
    inside = []
    judge = np.vstack([0.9 * (0.65 * np.eye(4) + 0.35 / 4), np.full((1, 4), 0.1)])
    second = 0.5 * np.eye(4) + 0.5 / 4
    quiz = 0.04 * np.eye(4) + 0.96 / 3 * ~np.eye(4, dtype=bool)
    model = tp.symmetric_noise(4, 0.4).matrix()
    for seed in range(6):
        result = tp.estimate_annotators(drawn(seed)[0], num_classes=4, random_state=seed)
        for a, true in ((0, judge), (1, second), (2, quiz)):
            low, high = result.transitions[a].interval()
            assert np.abs(result.transitions[a].matrix() - true).max() < 0.1
            inside.append(((low <= true) & (true <= high)).mean())
        spread = result.transitions[4].matrix()
        mean = np.full((4, 4), 0.25 / 3) + np.eye(4) * (0.75 - 0.25 / 3)  # shares are .75 on average
        assert np.abs(spread - mean @ model).max() < 0.1
    assert np.mean(inside) > 0.8  # of 6 crowds; over 40 .94 to .97


def test_a_classifier_is_trained_on_them():
    given, z = drawn(3, n=1200)
    X = np.random.default_rng(0).normal(size=(1200, 4)) + 1.5 * np.eye(4)[z]
    for sources in (given, {k: v for k, v in given.items() if k != "model"}):
        result = tp.estimate_annotators(sources, num_classes=4)
        model = tp.WeakLabelClassifier(result.transition, random_state=0).fit(X[:800], result.answers[:800])
        assert (model.predict(X[800:]) == z[800:]).mean() > 0.65
    assert isinstance(result.answers, np.ndarray)
    assert result.answers.shape == (1200, 4)


def test_known_classes_are_kept_and_names_are_classes():
    given, z = drawn(4)
    names = np.array(["ant", "bee", "cat", "dog"])
    true = np.where(np.arange(len(z)) < 200, names[z], None)
    words = {
        "a": names[np.minimum(given["judge"], 3)],
        "b": (names[given["quiz"][0]], "not this"),
        "c": given["filter"],
    }
    result = tp.estimate_annotators(words, true)
    assert result.classes.tolist() == names.tolist()
    assert (result.labels[:200] == names[z[:200]]).all()
    assert (result.posteriors[:200].max(axis=1) == 1).all()


def test_votes_alone_are_read_as_by_the_estimate_of_votes():
    rng = np.random.default_rng(5)
    z = rng.integers(0, 3, 1500)
    table = np.where(rng.random((1500, 5)) < [0.8, 0.7, 0.6, 0.75, 0.5], z[:, None], rng.integers(0, 3, (1500, 5)))
    plain = tp.estimate_annotators(table)
    mixed = tp.estimate_annotators({a: table[:, a] for a in range(5)})
    assert np.abs(plain.posteriors - mixed.posteriors).mean() < 0.02


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"masks": np.ones((2000, 4), bool)}, "answers"),
        ({"masks": (np.ones((2000, 3), bool), "one of these")}, "answers"),
        ({"short": np.zeros(3, int)}, "answers"),
        ({"words": np.array(["a"] * 2000)}, "answers"),
        ({"kind": (np.zeros(2000, int), "perhaps")}, "answers"),
    ],
)
def test_what_cannot_be_read_is_refused(change, argument):
    given, _ = drawn(6)
    with pytest.raises(tp.InputError) as error:
        tp.estimate_annotators(given | change, num_classes=4)
    assert error.value.argument == argument
    with pytest.raises(tp.InputError) as error:
        tp.estimate_annotators(given, X=np.zeros((2000, 2)), num_classes=4)
    assert error.value.argument == "X"
