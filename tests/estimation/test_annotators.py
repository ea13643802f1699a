"""Answers of several annotators: what they say of the classes, of each other, and where they cannot say it."""

import json
import warnings

import numpy as np
import pytest
from refusals import refused

import tproper as tp
from tproper.estimation import dawid_skene
from tproper.estimation.dawid_skene import Crowd
from tproper.transitions import transition_from_dict, transition_to_dict


def confusions(K, seed, good=(0.85, 0.7, 0.6)):
    """T of annotators who are right with about these probabilities."""
    rng = np.random.default_rng(seed)
    out = []
    for g in good:
        T = np.empty((K, K))
        for z in range(K):
            right = g + rng.uniform(-0.08, 0.08)
            T[:, z] = np.insert((1 - right) * rng.dirichlet(np.ones(K - 1)), z, right)
        out.append(T)
    return out


def crowd(n, K, seed, good=(0.85, 0.7, 0.6), missing=0.2):
    """True classes, answers (n, m) and the T of each annotator."""
    rng = np.random.default_rng(seed)
    Ts = confusions(K, seed, good)
    z = rng.choice(K, n, p=rng.dirichlet(np.full(K, 10.0)))
    answers = tp.annotators([tp.Transition(T) for T in Ts]).sample(z, seed)
    answers[rng.random(answers.shape) < missing] = -1
    return z, answers, Ts


def log_loss(p, z):
    return float(-np.log(np.maximum(p[np.arange(len(z)), z], 1e-300)).mean())


def majority(answers, K):
    votes = np.stack([(answers == z).sum(axis=1) for z in range(K)], axis=1) + 0.3
    return votes / votes.sum(axis=1, keepdims=True)


def full_em(answers, K, rounds=100):
    """Textbook Dawid-Skene, with no shrinkage: the peer."""
    P = majority(answers, K)
    for _ in range(rounds):
        joint = np.log(P.mean(axis=0))[None].repeat(len(P), axis=0)
        for a in range(answers.shape[1]):
            C = np.stack([P[answers[:, a] == y].sum(axis=0) for y in range(K)]) + 1e-6
            column = np.log(C / C.sum(axis=0))
            seen = answers[:, a] >= 0
            joint[seen] += column[answers[seen, a]]
        P = np.exp(joint - joint.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
    return P


@pytest.mark.parametrize(("n", "K", "m"), [(600, 3, 6), (300, 4, 12)])
def test_better_than_votes_and_than_full_em(n, K, m):
    hits, losses = [], []
    for seed in range(8):
        good = np.random.default_rng(seed).uniform(0.35, 0.85, m)
        z, answers, _ = crowd(n, K, seed, good, missing=0.4)
        ours = tp.estimate_annotators(answers, num_classes=K).posteriors
        all_three = (ours, majority(answers, K), full_em(answers, K))
        hits.append([(p.argmax(1) == z).mean() for p in all_three])
        losses.append([log_loss(p, z) for p in all_three])
        assert losses[-1][0] == min(losses[-1])
    right = np.mean(hits, axis=0)
    assert right[0] >= right[1]
    assert right[0] >= right[2] - 0.005


def test_T_of_each_annotator_with_an_interval_that_covers_it():
    z, answers, Ts = crowd(4000, 3, seed=1, missing=0.0)
    result = tp.estimate_annotators(answers)
    inside = []
    for T, estimate in zip(Ts, result.transitions, strict=True):
        assert isinstance(estimate, tp.EstimatedTransition)
        assert np.abs(estimate.matrix() - T).sum(axis=0).mean() < 0.1
        low, high = estimate.interval(0.999)
        inside.append(((low <= T) & (high >= T)).mean())
    assert np.mean(inside) > 0.8
    assert np.abs(result.prior - np.bincount(z) / len(z)).max() < 0.03
    assert result.posteriors.shape == (4000, 3)
    assert np.allclose(result.posteriors.sum(axis=1), 1)


def test_the_transition_trains_a_model():
    z, answers, _ = crowd(900, 3, seed=2)
    X = np.eye(3)[z] + 0.5 * np.random.default_rng(0).normal(size=(900, 3))
    result = tp.estimate_annotators(answers)
    model = tp.WeakLabelClassifier(result.transition).fit(X, answers)
    assert (model.predict(X) == z).mean() > 0.85
    again = transition_from_dict(json.loads(json.dumps(transition_to_dict(result.transition))))
    assert again.same_as(result.transition)


@pytest.mark.parametrize("K", [2, 4])
def test_with_features(K):
    rng = np.random.default_rng(K)
    z, answers, Ts = crowd(1500, K, seed=3, good=(0.75, 0.65, 0.6))
    X = 1.2 * rng.normal(size=(K, 8))[z] + rng.normal(size=(1500, 8)) * np.array([1.0] * 7 + [1000.0])
    result = tp.estimate_annotators(answers[:1000], X=X[:1000], num_classes=K)
    known = tp.WeakLabelClassifier(tp.annotators([tp.Transition(T) for T in Ts]), l2=3e-3)
    scale = X[:1000].std(axis=0)
    known.fit(X[:1000] / scale, answers[:1000])
    p = result.classifier.predict_proba(X[1000:])
    reached = (p.argmax(1) == z[1000:]).mean()
    assert reached > (known.predict(X[1000:] / scale) == z[1000:]).mean() - 0.03
    assert np.array_equal(result.classifier.predict(X[1000:]), p.argmax(1))
    plain = tp.estimate_annotators(answers[:1000], num_classes=K)
    assert log_loss(result.posteriors, z[:1000]) < log_loss(plain.posteriors, z[:1000])


def test_the_names_of_classes_agree_with_the_answers():
    """Poor annotators of two classes: EM may end at the mirror image, which is as likely."""
    for seed in range(6):
        _, answers, _ = crowd(400, 2, seed, good=(0.75, 0.55, 0.5))
        result = tp.estimate_annotators(answers)
        pooled = sum(t.concentration for t in result.transitions)
        assert np.trace(pooled) >= np.trace(pooled[::-1]) * (1 - 1e-3)


def test_known_classes_are_kept_and_help():
    z, answers, Ts = crowd(800, 4, seed=5, good=(0.6, 0.5, 0.45), missing=0.0)
    true = np.where(np.arange(800) < 300, z, -1)
    result, blind = tp.estimate_annotators(answers, true), tp.estimate_annotators(answers)
    assert np.array_equal(result.posteriors[:300], np.eye(4)[z[:300]])

    def error(r):
        return np.mean([np.abs(t.matrix() - T).sum(axis=0).mean() for t, T in zip(r.transitions, Ts, strict=True)])

    assert error(result) < error(blind)
    assert any("300 items with a known class" in note for note in result.notes)


def test_answers_that_say_what_the_class_is_not():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 4, 3000)
    answers = (z[:, None] + rng.integers(1, 4, (3000, 4))) % 4
    result = tp.estimate_annotators(answers)
    assert max(t.matrix().diagonal().max() for t in result.transitions) < 0.05
    assert (result.posteriors.argmax(1) == z).mean() > 0.5
    assert any("inverted votes" in note for note in result.notes)
    by_hand = tp.estimate_annotators(answers, start="opposite")
    assert np.array_equal(by_hand.posteriors.argmax(1), result.posteriors.argmax(1))


def test_long_and_wide_form_agree():
    _, answers, _ = crowd(200, 3, seed=6)
    item, annotator = np.nonzero(answers >= 0)
    order = np.random.default_rng(0).permutation(len(item))
    item, annotator = item[order], annotator[order]
    names = np.array(["bat", "cat", "dog"])
    heard = np.flatnonzero((answers >= 0).any(axis=1))
    long = tp.Answers([f"i{i:03d}" for i in item], [f"a{a}" for a in annotator], names[answers[item, annotator]])
    assert long.items.tolist() == [f"i{i:03d}" for i in heard]
    assert long.annotators.tolist() == ["a0", "a1", "a2"]
    assert long.classes.tolist() == ["bat", "cat", "dog"]
    assert np.array_equal(long.table(), answers[heard])
    by_name, by_number = tp.estimate_annotators(long), tp.estimate_annotators(answers[heard])
    assert np.allclose(by_name.posteriors, by_number.posteriors, atol=1e-9)
    assert by_name.transitions[0].weak_labels == ["bat", "cat", "dog"]
    first = long.items[0]
    assert tp.estimate_annotators(long, {first: "dog"}).posteriors[0].tolist() == [0, 0, 1]


def test_same_data_same_numbers():
    _, answers, _ = crowd(300, 3, seed=7)
    one, two = tp.estimate_annotators(answers), tp.estimate_annotators(answers)
    assert np.array_equal(one.posteriors, two.posteriors)
    state = np.random.get_state()[1].copy()
    tp.estimate_annotators(answers, random_state=3)
    assert np.array_equal(state, np.random.get_state()[1])


def test_the_ranking_and_the_table():
    _, answers, _ = crowd(1500, 3, seed=8, good=(0.55, 0.9, 0.7), missing=0.0)
    result = tp.estimate_annotators(answers)
    assert [r.annotator for r in result.ranking] == [1, 2, 0]
    for r in result.ranking:
        assert r.interval[0] <= r.informativeness <= r.interval[1]
        assert 0 <= r.informativeness <= 1
        assert r.answers == 1500
    text = str(result)
    assert "3 annotators, 1500 items, 4500 answers, 3 classes" in text
    assert "shrunk" in text


def test_independent_answers_are_not_called_dependent():
    few, many = (0.6, 0.5, 0.45), np.linspace(0.5, 0.85, 8)
    for seed in range(10):
        _, answers, _ = crowd(300, 3, seed, good=many if seed % 2 else few, missing=0.3 if seed % 2 else 0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error", tp.DependenceWarning)
            assert tp.estimate_annotators(answers).rho == 0


def test_copied_answers_are_named():
    _, answers, _ = crowd(400, 3, seed=9, good=np.linspace(0.5, 0.8, 6), missing=0.2)
    both = (answers[:, 0] >= 0) & (answers[:, 1] >= 0) & (np.random.default_rng(0).random(400) < 0.7)
    answers[both, 1] = answers[both, 0]
    with pytest.warns(tp.DependenceWarning, match=r"annotators 0 and 1 agree on \d+% of \d+ items, \d+% expected"):
        result = tp.estimate_annotators(answers)
    assert (result.copied[0].first, result.copied[0].second) == (0, 1)
    assert len(result.copied) == 1


def test_hard_items_make_answers_dependent_and_posteriors_modest():
    """A third of the items look like another class to everybody."""
    rng = np.random.default_rng(1)
    z = rng.integers(0, 3, 500)
    looks = np.where(rng.random(500) < 0.3, (z + 1) % 3, z)
    hard = looks != z
    right = np.where(hard[:, None], 0.65, 0.9)
    answers = np.where(rng.random((500, 15)) < right, looks[:, None], z[:, None])
    answers = np.where(rng.random((500, 15)) < 0.1, rng.integers(0, 3, (500, 15)), answers)
    with pytest.warns(tp.DependenceWarning, match=r"answers depend on each other given the class \(rho = 0\.\d+\)"):
        result = tp.estimate_annotators(answers)
    assert result.rho > 0
    T = transition_from_dict(transition_to_dict(result.transition))
    q = np.full((500, 3), 0.1) + 0.7 * np.eye(3)[z]
    scores = (tp.weak_accuracy(answers, z, T), tp.weak_balanced_accuracy(answers, z, T),
              tp.weak_calibration(answers, q, T), tp.paired_test(answers, q, q[:, ::-1].copy(), T))  # fmt: skip
    assert all(f"(rho = {result.rho:.2f}): where annotators err together" in score.note for score in scores)
    assert log_loss(result.posteriors, z) < log_loss(full_em(answers, 3), z)


@pytest.mark.parametrize("single", [False, True])
def test_many_answers_go_through_float32(single, monkeypatch):
    monkeypatch.setattr(dawid_skene, "MANY", 1 if single else 1 << 40)
    z, answers, _ = crowd(500, 3, seed=10)
    result = tp.estimate_annotators(answers)
    assert (result.posteriors.argmax(1) == z).mean() > 0.8
    assert result.posteriors.dtype == np.float64
    monkeypatch.setattr(dawid_skene, "MANY", 1 << 40)
    assert np.allclose(result.posteriors, tp.estimate_annotators(answers).posteriors, atol=1e-4)


def test_more_answers_than_classes_and_items_without_answers():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 400)
    answers = np.where(rng.random((400, 5)) < 0.8, z[:, None], 1 - z[:, None])
    answers[rng.random((400, 5)) < 0.2] = 2  # "cannot say"
    answers[0] = -1
    result = tp.estimate_annotators(answers, num_classes=2)
    assert result.transitions[0].matrix().shape == (3, 2)
    assert result.posteriors.shape == (400, 2)
    assert np.allclose(result.posteriors[0], result.prior)
    assert (result.posteriors[1:].argmax(1) == z[1:]).mean() > 0.87
    assert any("1 items have no answer" in note for note in result.notes)


def test_a_second_answer_counts_and_is_told():
    item, annotator = np.repeat(np.arange(50), 4), np.tile([0, 1, 2, 2], 50)
    answers = tp.Answers(item, annotator, np.arange(200) // 4 % 2)
    assert answers.repeated() == 50
    assert any("50 answers repeat" in note for note in tp.estimate_annotators(answers).notes)
    with pytest.raises(ValueError, match="expected one answer of an annotator to an item, got several"):
        answers.table()


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (np.arange(60).reshape(-1, 1) % 3, "there are only 1 of them"),
        (np.arange(60).reshape(-1, 2) % 3, "there are only 2 of them"),
        (np.where(np.eye(3, dtype=bool)[np.arange(60) % 3], 1, -1), "no item has answers from three of them"),
    ],
)
def test_what_cannot_be_identified_is_said(answers, why):
    with pytest.warns(tp.IdentifiabilityWarning, match=f"fewer than three overlapping annotators.*{why}"):
        result = tp.estimate_annotators(answers, num_classes=3)
    assert any(why in note for note in result.notes)
    true = np.arange(len(answers)) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("error", tp.IdentifiabilityWarning)
        tp.estimate_annotators(answers, true, num_classes=3)


def test_one_answer_an_item_rests_on_the_classifier_alone():
    """Three in four of the 95% intervals held T, and nothing was said."""
    z = np.arange(60) % 3
    with pytest.warns(tp.IdentifiabilityWarning, match="no item has two answers: T rests on the classifier alone"):
        estimate = tp.estimate_annotators(z[:, None], X=np.eye(3)[z], random_state=0)
    assert any("give some true classes, or second answers" in note for note in estimate.notes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tp.estimate_annotators([[-1, -1]]), "answers"),
        (lambda: tp.estimate_annotators([[0, -2]]), "answers"),
        (lambda: tp.estimate_annotators([[0.5, np.nan]]), "answers"),
        (lambda: tp.estimate_annotators([["a", 1]]), "answers"),
        (lambda: tp.estimate_annotators([["a ", "a"]]), "answers"),
        (lambda: tp.estimate_annotators([["a", "b"]], ["c"]), "true"),
        (lambda: tp.estimate_annotators([0, 1]), "answers"),
        (lambda: tp.estimate_annotators([[0, 1], [1]]), "answers"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], [3], num_classes=3), "true"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], [0.5]), "true"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], [0, 1]), "true"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], [-3]), "true"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], {7: 1}), "true"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], X=[[1.0], [2.0]]), "X"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], X=[[np.nan]]), "X"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], num_classes=1), "num_classes"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], prior_counts=0), "prior_counts"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], start="up"), "start"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], start=np.ones(2)), "start"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], random_state="x"), "random_state"),
        (lambda: tp.estimate_annotators([[0, 1, 1]], random_state=-1), "random_state"),
        (
            lambda: tp.weak_prevalence([0, 1], tp.identity(2), random_state=-1),
            "random_state",
        ),
        (lambda: tp.Answers([0, 1], [0, 1], [0]), "answer"),
        (lambda: tp.Answers([0], [0], [np.nan]), "answer"),
        (lambda: tp.Answers([0], [None], [1]), "annotator"),
        (lambda: tp.Answers([0, 1], [0, 0], np.ma.masked_equal([1, 2], 2)), "answer"),
        (lambda: tp.Answers([0, 1], [0, 0], [-1, -1]), "answer"),
        (lambda: tp.Answers([0, 1], [0, 0], ["-1", "2"]), "answer"),
        (lambda: tp.Answers([0, 1], [0, 0], [1, 10**9]), "answer"),
        (lambda: tp.estimate_annotators([[0, 10**9]]), "answers"),
        (lambda: tp.Answers([0.0, 1.0], [0, 0], [1, 1]), "item"),
        (lambda: tp.estimate_annotators([[0, 1, 1]] * 5, X=np.ones((5, 1))), "X"),
        (lambda: tp.estimate_annotators([[0, 1, 1]] * 9, X=np.full((9, 1), 1e200)), "X"),
        (lambda: tp.Answers([[0]], [0], [1]), "item"),
    ],
)  # fmt: skip
def test_bad_input(call, message):
    with refused(message):
        call()


@pytest.mark.parametrize("name", ["true", "X", "groups"])
def test_tables_that_name_the_items_in_another_order_are_refused(name):
    pandas = pytest.importorskip("pandas")
    answers = tp.Answers(list("aabb"), [0, 1, 0, 1], [0, 1, 1, 0])
    table = pandas.DataFrame({"v": [0, 1]}, index=["b", "a"])
    with pytest.raises(ValueError, match=rf"^{name}: expected rows in the order of answers.items, got a table whose"):
        tp.estimate_annotators(answers, **{name: table if name == "X" else table["v"]})


def test_pandas_says_missing_in_its_own_way():
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(["a", "b", None], dtype="string")
    assert tp.Answers([0, 1, 2], [0, 1, 2], column).items.tolist() == [0, 1]  # a row without an answer is none
    known = pandas.Series(["a", None], dtype="string")
    result = tp.estimate_annotators(tp.Answers([0, 0, 0, 1], [0, 1, 2, 0], ["a", "b", "a", "b"]), true=known)
    assert result.posteriors[0, 0] == 1
    columns = {"u": ["a", "b", None] * 8, "v": ["a", "b", "a"] * 8, "w": ["a", None, "b"] * 8}
    table = pandas.DataFrame(columns, dtype="string")
    T = tp.annotators([tp.symmetric_noise(2, 0.2)] * 3)
    X = np.random.default_rng(0).normal(size=(24, 2))
    by_text = tp.WeakLabelClassifier(T, random_state=0).fit(X, table)
    codes = np.array([[-1 if v is pandas.NA else "ab".index(v) for v in row] for row in table.to_numpy()])
    by_code = tp.WeakLabelClassifier(T, random_state=0).fit(X, codes)
    np.testing.assert_array_equal(by_text.predict_proba(X), by_code.predict_proba(X))


def test_more_than_memory_is_refused_before_the_work():
    with pytest.raises(MemoryError, match=r"^expected room for .* GiB \(T of 3 annotators, 90001 answers x 90001"):
        tp.estimate_annotators([[0, 90_000, 1]])
    with pytest.raises(MemoryError, match=r"^expected room for .* GiB \(T of 100000000001 labels x 2 classes\)"):
        tp.estimate_transition([0, 1, 10**11], [0, 1, 1])


def test_contradictory_gold():
    answers = tp.Answers(["a", "a", "b"], [0, 1, 2], [0, 1, 1])
    with refused("true"):
        tp.estimate_annotators(answers, [0, 1, 1])
    named = tp.Answers(["a", "b"], [0, 1], ["yes", "no"])
    with refused("true"):
        tp.estimate_annotators(named, {"a": "maybe"})


def test_what_an_annotator_takes_back_is_noted():
    item, annotator = [0, 0, 0, 1, 1, 1, 0], [0, 1, 2, 0, 1, 2, 0]
    same = tp.estimate_annotators(tp.Answers(item, annotator, [0, 0, 1, 1, 1, 1, 0])).notes
    other = tp.estimate_annotators(tp.Answers(item, annotator, [0, 0, 1, 1, 1, 1, 1])).notes
    assert "1 answers repeat an annotator's answer to the same item; all are counted" in same
    assert "1 answers contradict an earlier one of the same annotator to the item; all are counted" in other
    assert not any("contradict" in note for note in same)


@pytest.mark.parametrize("none", [None, np.nan, "", -1])
def test_a_table_of_names_or_numbers_may_have_gaps(none):
    """However a gap is spelt, and whatever holds the table: the same answers."""
    pandas = pytest.importorskip("pandas")
    T = tp.annotators([tp.symmetric_noise(3, p) for p in (0.1, 0.3, 0.4)])
    z = np.random.default_rng(0).integers(3, size=300)
    rows = T.sample(z, 1)
    rows[np.random.default_rng(2).random(rows.shape) < 0.2] = -1
    known = np.where(np.arange(300) < 30, z, -1)
    plain = tp.estimate_annotators(rows, known)
    for words in (np.array(["ant", "bee", "cat", none], dtype=object), np.array([0, 1, 2, none], dtype=object)):
        table = words[rows]
        for given in (table, pandas.DataFrame(table, columns=list("uvw"))):
            result = tp.estimate_annotators(given, words[known])
            np.testing.assert_allclose(result.posteriors, plain.posteriors)
    assert result.labels.tolist() == plain.labels.tolist()


@pytest.mark.parametrize(("items", "annotators", "answers"), [(50, 7, 400), (20, 5, 900), (300, 200, 900)])
def test_answers_that_repeat_or_contradict_are_counted(items, annotators, answers):
    """Few and many answers an item are counted in two ways, both as many as `Answers.repeated` finds."""
    rng = np.random.default_rng(items)
    given = tp.Answers(*(rng.integers(0, most, answers) for most in (items, annotators, 3)))
    crowd = Crowd(given, 3, 3, np.full(len(given.items), -1), np.ones(3))
    assert crowd.contrary + crowd.again.sum() == given.repeated()


@pytest.mark.parametrize("seed", range(5))
def test_annotators_with_another_code_do_not_turn_the_others_around(seed):
    """Two of five count classes from one: the other three name the class, whatever explains the votes best."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, 400)
    wrong = (0.1, 0.2, 0.3, 0.3, 0.0)
    answers = np.stack([tp.symmetric_noise(3, p).sample(z, 10 * seed + a) for a, p in enumerate(wrong)], axis=1)
    answers[:, 3:] = (answers[:, 3:] + 1) % 3
    estimate = tp.estimate_annotators(answers, random_state=0)
    assert (estimate.posteriors.argmax(axis=1) == z).mean() > 0.9
    assert not any("is not" in note for note in estimate.notes)


@pytest.mark.parametrize("share", [0.5, 0.6, 0.75])
def test_answers_that_prefer_one_wrong_class_still_say_what_the_class_is_not(share):
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 2000)
    T = tp.complementary(3, share * np.roll(np.eye(3), 1, axis=0) + (1 - share) * np.roll(np.eye(3), 2, axis=0))
    answers = np.stack([T.sample(z, seed) for seed in range(5)], axis=1)
    assert (tp.estimate_annotators(answers, random_state=0).posteriors.argmax(axis=1) == z).mean() > 0.9


def test_copied_columns_are_not_called_perfect_without_a_word():
    z = np.random.default_rng(0).integers(0, 3, 200)
    one = tp.symmetric_noise(3, 0.3).sample(z, 1)
    with pytest.warns(tp.IdentifiabilityWarning, match="no two answers to one of 200 items differ"):
        estimate = tp.estimate_annotators(np.stack([one] * 4, axis=1))
    assert "who copy" in str(estimate)


def test_minus_one_in_an_unsigned_type_is_not_class_255():
    table = np.array([[0, 1, -1], [1, 1, 0], [2, -1, 2]] * 10).astype(np.uint8)
    with refused("answers"):
        tp.estimate_annotators(table)


def test_true_classes_of_items_with_one_answer_each_are_not_taken_in_the_wrong_order():
    answers = tp.Answers([3, 1, 2, 0], ["a"] * 4, [0, 1, 1, 0])
    with refused("true"):
        tp.estimate_annotators(answers, true=[0, 1, 1, -1])


def test_luck_of_annotators_is_not_counted_twice():
    """Scored by the answers that their shrunk T come from, the lucky ones must not have the most weight."""
    m, each, K, rng = 60, 40, 3, np.random.default_rng(0)
    n = m * each // 3
    z, item = rng.integers(0, K, n), np.repeat(np.arange(n), 3)
    who = np.concatenate([rng.permutation(m) for _ in range(each)])
    right = rng.random(len(item)) < rng.uniform(0.4, 0.95, m)[who]
    given = np.where(right, z[item], (z[item] + rng.integers(1, K, len(item))) % K)
    y, counts = np.full((n, m), -1), np.zeros((m, K, K))
    y[item, who] = given
    np.add.at(counts, (who, given, z[item]), 1.0)
    shrunk = counts + 10 * counts.sum(0) / counts.sum((0, 1))
    known, estimated = (
        tp.annotators([make(c) for c in shrunk]).reconstruction()
        for make in (lambda c: tp.Transition(c / c.sum(0)), tp.EstimatedTransition.from_dirichlet)
    )
    np.testing.assert_allclose(estimated.weights**2, known.weights)
    accuracy_of_truth = [float(R.targets(y)[np.arange(n), z].mean()) for R in (known, estimated)]
    assert accuracy_of_truth[0] > 1.025
    assert abs(accuracy_of_truth[1] - 1) < 0.015


def one_class_rules(seed, n=1500, K=2, rules=6, right=0.85):
    """Rules that each vote for one class where they see it, and are silent elsewhere: features, answers, classes."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, K, n)
    answers = np.full((n, rules), -1)
    for a in range(rules):
        own = a % K
        speaks = rng.random(n) < np.where(z == own, 0.4 * right, 0.4 * (1 - right))
        answers[speaks, a] = own
    return rng.normal(size=(n, 4)) + 2.0 * np.eye(4)[z], answers, z


def test_silence_without_a_meaning_leaves_nothing_to_tell_the_classes_by():
    X, answers, z = one_class_rules(0)
    told = ~(answers < 0).all(axis=1)
    X, answers, z = X[told], answers[told], z[told]
    with pytest.warns(tp.IdentifiabilityWarning, match="one class only"):
        result = tp.estimate_annotators(answers, missing="random")
    for score in (
        tp.weak_accuracy(answers, result.posteriors.argmax(axis=1), result.transition),
        tp.weak_log_loss(answers, np.full((len(z), 2), 0.5), result.transition),
        tp.weak_calibration(answers, np.full((len(z), 2), 0.5), result.transition),
        tp.paired_test(answers, np.full((len(z), 2), 0.5), np.tile([0.9, 0.1], (len(z), 1)), result.transition),
    ):
        assert not score.informative
        assert "not informative" in str(score)
    again = transition_from_dict(json.loads(json.dumps(transition_to_dict(result.transition))))
    assert again.unidentified == result.transition.unidentified != ""


def test_columns_that_coincide_are_named():
    """Classes 1 and 2 are answered alike, 0 is not."""
    rng = np.random.default_rng(1)
    z = rng.integers(0, 3, 600)
    low = np.where(z == 0, 0, 1 + rng.integers(0, 2, (4, 600))).T
    answers = np.where(rng.random((600, 4)) < 0.1, rng.integers(0, 3, (600, 4)), low)
    with pytest.warns(tp.IdentifiabilityWarning, match="classes 1 and 2 coincide"):
        assert "1 and 2" in tp.estimate_annotators(answers).unidentified


@pytest.mark.parametrize("K", [2, 5])
def test_sources_that_tell_the_classes_are_not_called_unidentified(K):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        z = rng.integers(0, K, 150)
        answers = np.where(rng.random((150, 5)) < 0.65, z[:, None], rng.integers(0, K, (150, 5)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tp.DependenceWarning)
            assert tp.estimate_annotators(answers).unidentified == ""


def test_an_annotator_who_differs_is_not_made_like_the_others():
    """Twenty annotators with a hundred answers, nineteen right with .85 and one with .40."""
    told, held, others = [], 0, 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n, m, K = 500, 20, 4
        skill = np.full(m, 0.85)
        skill[7] = 0.4
        z, answers = rng.integers(0, K, n), np.full((n, m), -1)
        for i in range(n):
            who = rng.choice(m, 4, replace=False)
            answers[i, who] = np.where(rng.random(4) < skill[who], z[i], (z[i] + rng.integers(1, K, 4)) % K)
        found = tp.estimate_annotators(answers, num_classes=K, missing="random")
        T = found.transitions[7]
        low, high = (side.diagonal() for side in T.interval())
        told.append(T.matrix().diagonal().mean())
        held += int(((low <= 0.4) & (high >= 0.4)).sum())
        others += int(found._fit.apart is not None and found._fit.apart.sum() > 6)
        assert any("unlike the others" in note and "7" in note for note in found.notes)
    assert 0.35 < np.mean(told) < 0.47
    assert held >= 35  # of 40
    assert others == 0
