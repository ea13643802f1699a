"""Dawid-Skene's passes against sums written out, and what must not change a result: order, names, empty columns."""

import warnings

import numpy as np
import pytest
from scipy.special import gammaln

import tproper as tp
from tproper.estimation import dawid_skene, posterior


def long_crowd(seed, n=60, m=7, K=3, per=4, repeats=15):
    """Answers in random order, some of them given twice: three columns and the true classes."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, K, n)
    item = np.repeat(np.arange(n), per)
    who = rng.random((n, m)).argsort(axis=1)[:, :per].ravel()
    answer = np.where(rng.random(n * per) < 0.75, z[item], rng.integers(0, K, n * per))
    again = rng.choice(n * per, repeats, replace=False)
    rows = np.stack([item, who, answer], axis=1)
    rows = rng.permutation(np.concatenate([rows, rows[again]]))
    return rows.T, z


@pytest.mark.parametrize("many", [1, 1 << 40], ids=["float32", "float64"])
@pytest.mark.parametrize("seed", range(5))
def test_the_passes_are_the_sums_that_they_stand_for(seed, many, monkeypatch):
    monkeypatch.setattr(dawid_skene, "MANY", many)
    (item, who, answer), _ = long_crowd(seed)
    n, m, K = 60, 7, 3
    crowd = dawid_skene.Crowd(tp.Answers(item, who, answer), K, K, np.full(n, -1), np.ones(K))
    rng = np.random.default_rng(seed)
    P, T = rng.dirichlet(np.ones(K), n), rng.dirichlet(np.ones(K), (m, K)).transpose(0, 2, 1)
    counts, evidence, given = np.zeros((m, K, K)), np.zeros((n, K)), np.zeros((n, K))
    for i, a, y in zip(item, who, answer, strict=True):
        counts[a, y] += P[i]
        evidence[i] += np.log(T[a, y])
        given[i, y] += 1
    close = 1e-5 if many == 1 else 1e-12
    assert np.abs(crowd.counts(P) - counts).max() < close * counts.max()
    assert np.abs(crowd.evidence(T) - evidence).max() < close * np.abs(evidence).max()
    assert np.abs(crowd.prior(P) - (P.sum(axis=0) + 1) / (n + K)).max() < close
    assert (crowd.given() == given).all()
    some = rng.permutation(n)[:20]
    assert (crowd.given(some) == given[some]).all()
    place, column = crowd.of(some)
    rows = sorted(zip(some[place], column // K, column % K, strict=True))
    assert rows == sorted((i, a, y) for i, a, y in zip(item, who, answer, strict=True) if i in some)
    seen: set[tuple[int, int, int]] = set()
    again = np.zeros(n, dtype=int)
    for row in zip(item.tolist(), who.tolist(), answer.tolist(), strict=True):
        again[row[0]] += row in seen
        seen.add(row)
    assert (crowd.again == again).all()
    assert again.sum() == 15


@pytest.mark.parametrize("many", [1, 1 << 40], ids=["float32", "float64"])
def test_the_order_of_the_rows_changes_nothing(many, monkeypatch):
    monkeypatch.setattr(dawid_skene, "MANY", many)
    columns, _ = long_crowd(11, n=200, m=9)
    shuffled = np.random.default_rng(0).permutation(columns.shape[1])
    ordered = np.lexsort(columns[::-1])
    results = [tp.estimate_annotators(tp.Answers(*columns[:, o]), random_state=0) for o in (shuffled, ordered)]
    assert np.abs(results[0].posteriors - results[1].posteriors).max() < (1e-4 if many == 1 else 1e-9)
    assert np.abs(results[0].concentration - results[1].concentration).max() < (1e-3 if many == 1 else 1e-9)
    assert results[0].rho == results[1].rho == 0
    assert results[0].copied == results[1].copied


def test_names_change_nothing():
    columns, _ = long_crowd(12, n=200, m=9)
    names = np.array(["b", "a", "c"])  # of the classes: another order
    plain = tp.estimate_annotators(tp.Answers(*columns), random_state=0)
    named = tp.estimate_annotators(
        tp.Answers([f"i{i:03d}" for i in columns[0]], [f"w{w}" for w in columns[1]], names[columns[2]]), random_state=0
    )
    order = np.argsort(names)
    assert named.answers.classes.tolist() == ["a", "b", "c"]
    assert np.abs(named.posteriors - plain.posteriors[:, order]).max() < 1e-9


def test_an_annotator_without_an_answer_is_the_crowd_and_changes_no_one():
    (item, who, answer), _ = long_crowd(13, n=200, m=9, repeats=0)
    wide = np.full((200, 10), -1)
    wide[item, who] = answer
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        some, all_ = tp.estimate_annotators(wide[:, :9]), tp.estimate_annotators(wide)
    assert np.abs(some.posteriors - all_.posteriors).max() < 1e-9
    silent = all_.transitions[9].matrix()
    pooled = sum(t.matrix() for t in some.transitions)  # diagonally dominant, as the crowd is
    assert (silent.argmax(axis=0) == pooled.argmax(axis=0)).all()


def three_annotators(seed, n=400, K=3, right=(0.85, 0.7, 0.6)):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, K, n)
    T = np.stack([g * np.eye(K) + (1 - g) * (1 - np.eye(K)) / (K - 1) for g in right])
    answers = np.stack([(t[:, z].T.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1) for t in T], axis=1)
    answers[rng.random(answers.shape) < 0.2] = -1
    return z, answers, T


def test_intervals_of_T_hold_though_classes_are_unknown():
    """95% intervals, over the entries of three T in 30 crowds; counts that trust the posteriors cover 78% of them."""
    covered = []
    for seed in range(30):
        _, answers, T = three_annotators(seed)
        result = tp.estimate_annotators(answers, random_state=0)
        low, high = np.array([t.interval() for t in result.transitions]).transpose(1, 0, 2, 3)
        covered.append(((low <= T) & (high >= T)).mean())
    assert 0.92 < np.mean(covered) < 0.99


def test_known_classes_are_worth_themselves():
    """With every class known T is counted, and its information is that of the counts, up to the noise of scores."""
    z, answers, _ = three_annotators(0, n=600)
    result = tp.estimate_annotators(answers, true=z)
    total = result.concentration[0].sum(axis=1)  # (annotators, classes)
    counted = np.array([[((answers[:, a] >= 0) & (z == k)).sum() for k in range(3)] for a in range(3)])
    assert (np.abs(total / (counted + result.strength + 0.5) - 1) < 0.25).all()


def test_the_information_is_the_curvature_of_the_likelihood():
    """Against second differences of the log likelihood in the softmax's parameters, where T is known."""
    from tproper.estimation.information import _information

    z, answers, T = three_annotators(1, n=4000, K=2, right=(0.85, 0.75, 0.65))
    given = tp.Answers.from_table(answers)
    crowd = dawid_skene.Crowd(given, 2, 2, np.full(len(z), -1), np.ones(2))
    log_prior = np.log([0.5, 0.5])

    def value(eta):
        e = np.exp(eta - eta.max(axis=1, keepdims=True))
        return crowd.posterior(crowd.evidence(e / e.sum(axis=1, keepdims=True)), log_prior)[1]

    P, _ = crowd.posterior(crowd.evidence(T), log_prior)
    ours = _information(crowd, T, np.array([0.5, 0.5]), P, True)
    eta, step = np.log(T), 1e-3
    flat = np.eye(T.size).reshape(-1, *T.shape) * step
    theirs = np.array(
        [
            [-(value(eta + a + b) - value(eta + a - b) - value(eta - a + b) + value(eta - a - b)) for b in flat]
            for a in flat
        ]
    ) / (4 * step**2)
    assert np.abs(ours - theirs).max() < 0.08 * np.abs(theirs).max()  # equal in expectation


def test_a_sweep_holds_the_counts_of_known_classes_and_a_type():
    """With every class known T is counted: every sweep holds the counts, and a type beside them."""
    z, answers, _ = three_annotators(0, n=200, right=np.linspace(0.5, 0.9, 30))
    result = tp.estimate_annotators(answers, true=z)
    assert result.rho == 0
    counted = np.array(
        [[[((answers[:, a] == y) & (z == k)).sum() for k in range(3)] for y in range(3)] for a in range(30)]
    )
    types = result.concentration - counted  # (sweeps, annotators, answers, classes)
    assert types.min() > 0
    assert set(np.round(types.sum(axis=2).ravel(), 6)) <= {s + posterior.EVEN for s in posterior.STRENGTHS}


def test_types_are_weighed_by_what_they_say_of_the_counts():
    """The Dirichlet-multinomial, written out; and drawn classes keep the names of the posteriors."""
    rng = np.random.default_rng(0)
    (item, who, answer), z = long_crowd(0)
    crowd = tp.estimate_annotators(tp.Answers(item, who, answer))._fit.crowd
    types, counts = posterior.Types(crowd), crowd.counts(np.eye(3)[z])
    A = types._parameters(counts.sum(axis=0))
    c, a = counts[:, None], A[None]  # (annotators, types, answers, classes)
    each = (gammaln(a + c) - gammaln(a)).sum(axis=2) + gammaln(a.sum(axis=2)) - gammaln((a + c).sum(axis=2))
    np.testing.assert_allclose(types._evidence(counts, A), each.sum(axis=2), atol=1e-9)
    one, order = np.eye(3)[z], rng.permutation(3)
    np.testing.assert_array_equal(posterior._named_alike(one[:, order], 0.8 * one + 0.1), one)


@pytest.mark.parametrize(("K", "m"), [(3, 3), (3, 6), (5, 12)])
@pytest.mark.parametrize("with_features", [False, True])
def test_a_class_that_nobody_names_takes_nothing_from_the_others(K, m, with_features):
    rng = np.random.default_rng(K + m)
    z = rng.integers(0, 2, 300)
    answers = np.where(rng.random((300, m)) < 0.8, z[:, None], 1 - z[:, None])
    X = np.eye(2)[z] + 0.5 * rng.normal(size=(300, 2)) if with_features else None
    with_it = tp.estimate_annotators(answers, X=X, num_classes=K, random_state=0)
    without = tp.estimate_annotators(answers, X=X, num_classes=2, random_state=0)
    assert with_it.posteriors[:, 2:].max() < 0.02
    assert (with_it.posteriors.argmax(axis=1) == without.posteriors.argmax(axis=1)).mean() > 0.985
    names = ", ".join(map(str, range(2, K)))
    note = f"no answer names class {names}: nothing shows how its items would be answered"
    assert note in with_it.notes
    assert not any("no answer names" in n for n in without.notes)


def test_one_class_only():
    result = tp.estimate_annotators(np.zeros((30, 3), dtype=int))
    assert result.posteriors[:, 0].min() > 0.98
    assert "no answer names class 1: nothing shows how its items would be answered" in result.notes


def test_two_annotators_who_always_agree():
    """They may both be right, or one may copy the other: what they say is taken, and the doubt is told."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 200)
    with pytest.warns(tp.IdentifiabilityWarning, match="there are only 2 of them"):
        result = tp.estimate_annotators(np.stack([z, z], axis=1))
    assert (result.posteriors.argmax(axis=1) == z).all()
    assert all((t.interval()[1].diagonal() > 0.95).all() for t in result.transitions)


def test_an_annotator_who_never_answers_is_not_a_third():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 100)
    answers = np.stack([z, np.where(rng.random(100) < 0.7, z, 0), np.full(100, -1)], axis=1)
    with pytest.warns(tp.IdentifiabilityWarning, match="there are only 2 of them"):
        tp.estimate_annotators(answers)
