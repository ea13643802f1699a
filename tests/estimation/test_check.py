"""The test of T: its level, its power, and what it says where labels cannot tell."""

import json

import numpy as np
import pytest
import torch
from refusals import refused

import tproper as tp
from tproper.estimation.hull import fit_hull, one_hot_block
from tproper.estimation.views import SetLabel, SeveralAnswers

K = 4
FAMILIES = {
    "symmetric": tp.symmetric_noise(4, 0.3),
    "more labels than classes": tp.Transition(
        [[0.6, 0.1, 0.05], [0.1, 0.5, 0.1], [0.1, 0.1, 0.55], [0.1, 0.2, 0.1], [0.1, 0.1, 0.2]]
    ),
    "complementary": tp.complementary(4),
    "PU": tp.positive_unlabeled(0.4),
    "partial": tp.partial_labels(4, 0.3),
    "two excluded": tp.multi_complementary(5, 2),
    "sources": tp.multi_source([tp.symmetric_noise(3, 0.3), tp.pair_noise(3, 0.2)], [0.6, 0.4]),
    "coarse": tp.coarse_labels([[0, 1], [2], [3]]),
}


def problem(classes, n, rng):
    p = rng.dirichlet(np.full(classes, 0.4), n)
    p /= p.sum(axis=1, keepdims=True)
    return p, np.minimum((p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), classes - 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_level_holds_for_a_true_T(family):
    """At most 5%: of 15 samples 4 or more are rejected with probability .005. The benchmark has hundreds."""
    T = FAMILIES[family]
    small, with_p = 0, 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        p, z = problem(T.num_classes, 500, rng)
        y = T.sample(z, rng)
        small += tp.check_transition(y, T).p_value < 0.05
        with_p += tp.check_transition(y, T, p).p_value < 0.05
    assert small <= 3
    assert with_p <= 3


def test_single_tests_reject_five_percent_where_they_can():
    """With tolerance 0 the match is a plain score test; a hull of fewer dimensions than shares is left by chance."""
    T = FAMILIES["more labels than classes"]
    rates = {}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p, z = problem(3, 300, rng)
        for t in tp.check_transition(T.sample(z, rng), T, p, tolerance=0).tests:
            rates.setdefault(t.name, []).append(t.p_value < 0.05)
    for name in ("label shares", "match with T p", "noise within a class"):
        assert 0.01 < np.mean(rates[name]) < 0.14, name


def test_the_statistic_is_zero_inside_of_the_hull_and_counts_dimensions_outside():
    T = tp.symmetric_noise(3, 0.3).matrix()
    inside = one_hot_block(1000 * (T @ [0.2, 0.3, 0.5]), T)
    fit = fit_hull([inside])
    assert fit.statistic < 1e-6
    assert fit.df == 0
    assert fit.p_value == 1
    np.testing.assert_allclose(fit.priors[0], [0.2, 0.3, 0.5], atol=1e-4)
    at_vertex = fit_hull([one_hot_block(np.array([900.0, 50, 50]), T)])  # the vertex allows 700, 150, 150
    assert at_vertex.df == 2
    np.testing.assert_allclose(at_vertex.priors[0], [1, 0, 0], atol=1e-9)
    assert at_vertex.statistic == pytest.approx(200**2 / 700 + 2 * 100**2 / 150)


def test_features_of_candidate_sets_have_the_moments_of_the_family():
    T = tp.partial_labels(4, 0.4)
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    view = SetLabel(T, T.sample(np.zeros(1, dtype=int), 0))
    masks = np.array([[z in s for z in range(4)] for s in T.weak_labels], dtype=float)
    phi, weight = masks / masks.sum(axis=1, keepdims=True), T.matrix() @ prior
    np.testing.assert_allclose(view.second(prior), (phi * weight[:, None]).T @ phi, atol=1e-12)
    np.testing.assert_allclose(view.A @ prior, phi.T @ weight, atol=1e-12)
    np.testing.assert_allclose(view.T @ prior, masks.T @ weight, atol=1e-12)


def test_many_classes_with_few_labels_each_hold_the_level():
    """Cells chosen by the counts themselves would reject here in every sample."""
    T = tp.symmetric_noise(40, 0.3)
    rng = np.random.default_rng(0)
    for _ in range(3):
        z = rng.integers(0, 40, 4000)
        y = T.sample(z, rng)
        p = np.full((4000, 40), 0.3 / 40)
        p[np.arange(4000), np.where(rng.random(4000) < 0.8, z, rng.integers(0, 40, 4000))] += 0.7
        assert tp.check_transition(y, T, p).p_value > 0.05


WRONG = {
    "less noise than T says": (tp.symmetric_noise(4, 0.1), tp.symmetric_noise(4, 0.4)),
    "more noise than T says": (tp.symmetric_noise(4, 0.5), tp.symmetric_noise(4, 0.1)),
    "pair noise taken for symmetric": (tp.pair_noise(4, 0.3), tp.symmetric_noise(4, 0.3)),
    "complementary taken for noisy": (tp.complementary(4), tp.symmetric_noise(4, 0.3)),
    "sizes of sets": (tp.partial_labels(4, 0.3), tp.partial_labels(4, 0.4)),
    "PU, r too small": (tp.positive_unlabeled(0.5), tp.positive_unlabeled(0.35)),
    "shares of sources": (
        tp.multi_source([tp.symmetric_noise(4, 0.3), tp.pair_noise(4, 0.2)], [0.7, 0.3]),
        tp.multi_source([tp.symmetric_noise(4, 0.3), tp.pair_noise(4, 0.2)]),
    ),
}


ONLY_WITH_THE_MODEL = ("more noise than T says",)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_transitions_are_warned_of(name):
    true, used = WRONG[name]
    rng = np.random.default_rng(0)
    p, z = problem(true.num_classes, 4000, rng)
    y = true.sample(z, rng)
    wrong, right = tp.check_transition(y, used, p), tp.check_transition(y, true, p)
    assert right.plausible
    assert right.model_fits
    assert not (wrong.plausible and wrong.model_fits)
    if name in ONLY_WITH_THE_MODEL:  # other class shares in every group would give the same labels
        assert wrong
        assert "The model does not fit these labels under" in str(wrong)
    else:
        assert not wrong
        assert str(wrong).startswith("WARNING: these 4000 labels are unlikely to come from")
    assert str(right).startswith("The 4000 labels may come from")
    for p_value, about in ((wrong.p_value, "T"), (wrong.model_p_value, "model")):
        tests = [t.p_value for t in wrong.tests if t.about == about]
        assert p_value == pytest.approx(min(1, len(tests) * min(tests)))


def test_noise_that_goes_with_confidence():
    """Labels are right where the model is sure and random elsewhere: no one T explains them."""
    rng = np.random.default_rng(0)
    p, z = problem(2, 8000, rng)
    wrong = np.where(p.max(axis=1) > 0.9, 0.0, 0.5)
    y = np.where(rng.random(8000) < wrong, 1 - z, z)
    check = tp.check_transition(y, tp.symmetric_noise(2, float((y != z).mean())), p)
    assert not check.plausible


def test_noise_that_spares_easy_examples_is_seen_in_the_surest():
    """A model trained with T takes hard examples for doubtful ones, ``p = T^-1 P(y | x)``: only sure ones show it."""
    rng, n, K = np.random.default_rng(0), 3000, 10
    T = tp.symmetric_noise(K, 0.17)
    z, ease = rng.integers(K, size=n), rng.random(n)
    wrong = 0.09 + 0.24 * (1 - ease) ** 2  # .17 on average
    y = np.where(rng.random(n) < wrong, (z + rng.integers(1, K, n)) % K, z)
    shares = np.where(np.eye(K)[z] > 0, 1 - wrong[:, None], wrong[:, None] / (K - 1))
    p = np.clip(shares @ np.linalg.inv(T.matrix()).T, 0, None)
    p /= p.sum(axis=1, keepdims=True)
    tests = {t.name: t for t in tp.check_transition(y, T, p).tests}
    surest = tests.pop("labels of the surest examples")
    tests.pop("labels of the two likeliest classes")
    others = [t for t in tests.values() if t.about == "T"]
    assert surest.p_value < 0.001
    assert "T is too noisy, or the noise spares easy examples" in surest.sentence
    assert all(t.p_value > 0.05 for t in others)
    assert tp.check_transition(T.sample(z, seed=0), T, p).p_value > 0.5


def test_an_impossible_label_is_enough():
    T = tp.Transition([[0.7, 0.3], [0.3, 0.7], [0.0, 0.0]])
    check = tp.check_transition([0, 1] * 50 + [2], T)
    assert check.p_value == 0
    assert check.tests[0].sentence == "label 2 occurs 1 times, T says that it never does"


def test_shares_outside_of_the_hull_in_words():
    y = np.repeat([0, 1, 2], [412, 300, 288])
    check = tp.check_transition(y, tp.complementary(3, noise=0.3))
    assert check.tests[0].sentence == (
        "label 0 occurs 412 times in 1000, T with any class shares allows about 350 at most"
    )


def test_an_estimated_transition_brings_its_own_error():
    """T from 30 clean rows a class is off, and plausible all the same; the same numbers taken for exact are not."""
    T = tp.symmetric_noise(4, 0.3)
    exact, estimated = 0, 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        clean = np.repeat(np.arange(4), 30)
        counts = np.zeros((4, 4))
        np.add.at(counts, (T.sample(clean, rng), clean), 1)
        E = tp.EstimatedTransition.from_dirichlet(counts + 0.25)
        p, z = problem(4, 4000, rng)
        y = T.sample(z, rng)
        exact += not tp.check_transition(y, tp.Transition(E.matrix()), p, tolerance=0).plausible
        estimated += not tp.check_transition(y, E, p, tolerance=0).plausible
    assert exact >= 2
    assert estimated < exact
    assert estimated <= 1


def test_an_estimated_rate_of_partial_labels_brings_its_own_error():
    T, z = tp.partial_labels(5, 0.3), np.arange(4000) % 5
    estimated = [tp.estimate_transition(T.sample(z[:100], seed)) for seed in range(6)]
    assert sum(not tp.check_transition(T.sample(z, 9), tp.partial_labels(5, E.p)).plausible for E in estimated) >= 3
    assert all(tp.check_transition(T.sample(z, 9), E).plausible for E in estimated)
    assert not tp.check_transition(tp.partial_labels(5, 0.6).sample(z, 9), estimated[0]).plausible


def annotators(*transitions):
    return tp.annotators(list(transitions))


def answers_of(T, z, rng, missing=0.3):
    answers = np.stack([t.sample(z, rng) for t in T.transitions], axis=1)
    return np.where(rng.random(answers.shape) < missing, -1, answers)


def test_annotators_agree_as_often_as_T_says():
    T = annotators(tp.symmetric_noise(3, 0.2), tp.pair_noise(3, 0.3), tp.symmetric_noise(3, 0.4))
    rejected = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        p, z = problem(3, 400, rng)
        rejected += tp.check_transition(answers_of(T, z, rng), T, p).p_value < 0.05
    assert rejected <= 3


def test_annotators_who_copy_or_are_better_than_T_says_are_warned_of():
    T = annotators(tp.symmetric_noise(3, 0.2), tp.symmetric_noise(3, 0.3), tp.symmetric_noise(3, 0.4))
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 1500)
    honest = answers_of(T, z, rng, 0.0)
    copied = honest.copy()
    copied[:, 2] = np.where(rng.random(1500) < 0.5, copied[:, 1], copied[:, 2])
    assert tp.check_transition(honest, T).plausible
    check = tp.check_transition(copied, T)
    assert not check.plausible
    assert "annotators 1 and 2 give the same answer to" in str(check)
    better = annotators(*[tp.symmetric_noise(3, 0.1)] * 3)
    assert not tp.check_transition(answers_of(better, z, rng), T).plausible


def test_what_labels_cannot_say_is_said():
    one = tp.check_transition([0] * 60 + [1] * 40, tp.symmetric_noise(2, 0.2))
    assert not one.confirmed
    assert one.notes[0].startswith(
        "Nothing in these labels alone can confirm T: with suitable class shares it allows any share of label 0 from "
        "0.2 to 0.8"
    )
    coarse = tp.check_transition([0, 1] * 50, tp.coarse_labels([[0, 1], [2]]))
    assert "T cannot tell apart classes 0 and 1 (columns of T differ by 0 of at most 2)" in coarse.notes
    close = tp.check_transition([0, 1] * 50, tp.symmetric_noise(2, 0.46))
    assert "T hardly tells apart classes 0 and 1 (columns of T differ by 0.16 of at most 2)" in close.notes
    apart = annotators(tp.symmetric_noise(2, 0.2), tp.symmetric_noise(2, 0.2))
    alone = tp.check_transition(np.array([[0, -1], [-1, 1]] * 40), apart)
    assert alone.notes == ["No item has two answers: nothing in these labels can confirm T"]


def test_a_prior_that_is_too_low_leaves_no_trace_and_the_notes_say_so():
    rng = np.random.default_rng(0)
    p = np.clip(rng.beta(0.2, 0.2, 6000), 1e-4, 1 - 1e-4)
    z = (rng.random(6000) >= p).astype(int)
    y = tp.positive_unlabeled(0.3).sample(z, rng)
    labeled, n = int((y == 0).sum()), len(y)
    both = np.stack([p, 1 - p], axis=1)
    low = tp.positive_unlabeled(prior=0.4, labeled=labeled, n=n)
    r = low.matrix()[0, 0]
    fitted = np.stack([p * 0.3 / r, 1 - p * 0.3 / r], axis=1)  # what a model trained with this T says
    check = tp.check_transition(y, low, fitted)
    assert check.plausible
    assert not check.confirmed
    assert "The surest examples of class 0 do not have the labels of class 0" in check.notes[0]
    X = rng.normal(size=(n, 3))
    T = tp.positive_unlabeled(prior=0.5, labeled=labeled, n=n)
    right = tp.check_transition(y, T, both, X=X)
    assert right.plausible
    assert right.confirmed
    assert right.notes == []
    without = tp.check_transition(y, T, both)
    assert without.plausible
    assert not without.confirmed
    assert without.notes == ["Whether the noise varies with features is not tested; pass X= to test it"]


def linear(n, K, rng, d=5):
    X = rng.normal(size=(n, d))
    p = np.exp(3 * X[:, :K])
    p /= p.sum(axis=1, keepdims=True)
    return X, p, np.minimum((p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), K - 1)


def test_errors_that_go_to_the_runner_up_are_seen():
    """T, an average, is right: only that no third class is ever named tells."""
    T, rng = tp.symmetric_noise(4, 0.3), np.random.default_rng(0)
    X, p, z = linear(1000, 4, rng)
    first, second = np.argsort(-p, axis=1)[:, :2].T
    y = np.where(rng.random(1000) < 0.3, np.where(z == first, second, first), z)
    check = tp.check_transition(y, T, p, X=X)
    assert not check.plausible
    assert not check.confirmed
    assert min(check.tests, key=lambda t: t.p_value).name == "labels of the two likeliest classes"
    assert tp.check_transition(T.sample(z, 1), T, p, X=X).plausible


def test_noise_that_a_feature_decides_is_seen_with_that_feature():
    T, rng = tp.symmetric_noise(3, 0.3), np.random.default_rng(1)
    X, p, z = linear(1500, 3, rng)
    wrong = np.where(X[:, 4] > 0, 0.1, 0.5)
    y = np.where(rng.random(1500) < wrong, (z + rng.integers(1, 3, 1500)) % 3, z)
    check = tp.check_transition(y, T, p, X=X)
    assert not check.plausible
    assert "above the middle of feature 4 have the labels of their predicted classes more often" in str(check)
    without = tp.check_transition(y, T, p)
    assert without.plausible
    assert not without.confirmed
    scipy_sparse = pytest.importorskip("scipy.sparse")
    assert tp.check_transition(y, T, p, X=scipy_sparse.csr_array(X)).to_dict() == check.to_dict()
    rare = np.eye(1500, 600)  # of very many features those that vary least are not looked at
    assert "the middle of feature 604 have" in str(tp.check_transition(y, T, p, X=np.hstack([rare, X])))
    wide = scipy_sparse.csr_array(np.hstack([0.1 * rare, X]))
    assert "the middle of feature 604 have" in str(tp.check_transition(y, T, p, X=wide))


def test_candidate_sets_are_not_confirmed_by_features_that_no_test_looks_at():
    rng = np.random.default_rng(0)
    X, p, z = linear(3000, 4, rng)
    T = tp.partial_labels(4, 0.2)
    check = tp.check_transition(T.sample(z, 1), T, p, X=X)
    assert check.plausible
    assert not check.confirmed
    assert any("candidate sets vary with features" in note for note in check.notes)


def test_a_right_T_and_a_wrong_model_are_told_apart():
    T, rng = tp.symmetric_noise(3, 0.3), np.random.default_rng(2)
    _, p, z = linear(2000, 3, rng)
    y = T.sample(z, rng)
    mixed = p[:, [1, 2, 0]]  # the model names the wrong classes
    check = tp.check_transition(y, T, mixed)
    assert check.plausible
    assert not check.model_fits
    assert not check.confirmed
    assert check.to_dict()["model_fits"] is False


@pytest.mark.parametrize(("groups", "size", "shared"), [(100, 5, True), (20, 25, True), (100, 5, False)])
def test_rows_in_groups_do_not_speak_for_themselves(groups, size, shared):
    """A label that is repeated five times counts once: the right T is rejected in 5% of samples, not in most."""
    T, doubted, alone = FAMILIES["more labels than classes"], 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p, z = problem(3, groups, rng)
        of = np.repeat(np.arange(groups), size)
        y = T.sample(z, rng)[of] if shared else T.sample(z[of], rng)
        doubted += tp.check_transition(y, T, p[of], groups=of).p_value < 0.05
        if shared:
            alone += tp.check_transition(y, T, p[of]).p_value < 0.05
    assert doubted <= 3
    assert alone >= 10 or not shared


def test_groups_that_are_single_rows_change_nothing():
    T, rng = tp.symmetric_noise(3, 0.2), np.random.default_rng(0)
    p, z = problem(3, 400, rng)
    y = T.sample(z, rng)
    alone = tp.check_transition(y, T, p).to_dict()
    assert tp.check_transition(y, T, p, groups=rng.permutation(400)).to_dict() == alone


def test_kinds_of_input_and_plain_data():
    T = tp.symmetric_noise(3, 0.2)
    y = T.sample(np.arange(300) % 3, 0)
    p = np.full((300, 3), 0.1)
    p[np.arange(300), np.arange(300) % 3] = 0.8
    first = tp.check_transition(y, T, p)
    again = tp.check_transition(torch.as_tensor(y), T, torch.as_tensor(p))
    assert first.to_dict() == again.to_dict()
    assert json.loads(json.dumps(first.to_dict()))["plausible"] is first.plausible
    pairs = tp.check_transition([[0, 1], [1, 2]] * 30, tp.multi_source([T, T]))
    assert pairs.n == 60
    huge = tp.check_transition(np.zeros(10, dtype=int), tp.symmetric_noise(5000, 0.2))
    assert huge.notes == ["Not tested: T of 5000 labels x 5000 classes is too large for these tests"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tp.check_transition([0, 1], "T"), "transition"),
        (lambda: tp.check_transition([0, 3], tp.identity(2)), "labels"),
        (lambda: tp.check_transition([], tp.identity(2)), "labels"),
        (lambda: tp.check_transition([[0, 1]], tp.identity(2)), "labels"),
        (
            lambda: tp.check_transition([0, 1], tp.identity(2), [[0.5, 0.5]]),
            "probabilities",
        ),
        (
            lambda: tp.check_transition([0, 1], tp.identity(2), [[0.5, np.nan], [0.5, 0.5]]),
            "probabilities",
        ),
        (
            lambda: tp.check_transition([0, 1], tp.identity(2), tolerance=-1),
            "tolerance",
        ),
        (
            lambda: tp.check_transition([0, 1], tp.identity(2), groups=[0]),
            "groups",
        ),
        (
            lambda: tp.check_transition([0, 1], tp.identity(2), X=np.ones((3, 2))),
            "X",
        ),
        (
            lambda: tp.check_transition([0, 1], tp.identity(2), random_state=-1),
            "random_state",
        ),
        (
            lambda: tp.check_transition([0, 1], annotators(tp.identity(2), tp.identity(2))),
            "labels",
        ),
        (
            lambda: tp.check_transition([[0, 2]], annotators(tp.identity(2), tp.identity(2))),
            "labels",
        ),
        (
            lambda: tp.check_transition([[-1, -1]], annotators(tp.identity(2), tp.identity(2))),
            "labels",
        ),
    ],
)
def test_bad_input(call, message):
    with refused(message):
        call()


def test_the_likelihood_of_a_crowds_answers_is_the_product_of_its_answers():
    """Of the T given and of every draw of each: annotators with other labels, gaps, zeros."""
    rng = np.random.default_rng(0)
    counts = [rng.integers(0, 9, (m, 3)) + np.eye(m, 3, dtype=int) for m in (3, 4, 3)]
    crowd = [*map(tp.Transition.from_counts, counts), tp.Transition(np.eye(3))]
    answers = np.stack([rng.integers(-1, len(t.matrix()), 50) for t in crowd], axis=1)
    answers[0] = -1
    view = SeveralAnswers(crowd, answers)

    def product(tables):
        out = np.ones((len(answers), 3))
        for a, T in enumerate(tables):
            given = answers[:, a] >= 0
            out[given] *= T[answers[given, a]]
        return out

    plain = product(view.tables)
    factor = np.where(plain.max(axis=1, keepdims=True) > 0, plain.max(axis=1, keepdims=True), 1.0)
    np.testing.assert_allclose(view.likelihood(answers), plain / factor, rtol=1e-12)
    for s, drawn in enumerate(view.likelihoods(answers)):
        tables = [T if d is None else d[s] for T, d in zip(view.tables, view.each_draws, strict=True)]
        np.testing.assert_allclose(drawn, product(tables) / factor, rtol=1e-10)


def test_pairs_of_annotators_with_very_many_classes_are_not_crossed(monkeypatch):
    """Draws of the pairs' T would have 200 x 75^3 entries, 0.7 GB; agreement over all is tested all the same."""
    monkeypatch.setattr(SeveralAnswers, "pair", lambda *pair: pytest.fail("crossed"))
    z = np.random.default_rng(0).integers(0, 75, 300)
    T = tp.Transition.from_counts(np.full((75, 75), 1) + 200 * np.eye(75, dtype=int))
    answers = np.stack([T.sample(z, seed) for seed in (1, 2)], axis=1)
    check = tp.check_transition(answers, tp.annotators([T, T]))
    assert [test.name for test in check.tests].count("agreement of all annotators") == 1


def test_without_probabilities_nothing_is_said_of_a_model():
    T = tp.partial_labels(4, 0.3)
    check = tp.check_transition(T.sample(np.arange(400) % 4, 0), T)
    assert check.model_p_value == 1
    assert "The model does not fit" not in str(check)


def test_shares_that_explain_every_pair_leave_no_evidence():
    """Annotators without errors: all that is left of the difference is rounding, which is not divided by rounding."""
    T = tp.annotators([tp.coarse_labels([[0, 1], [2, 3]]), tp.coarse_labels([[0], [1, 2, 3]])])
    z = np.random.default_rng(0).integers(0, 4, 160)
    tests = {t.name: t for t in tp.check_transition(T.sample(z, seed=1), T).tests}
    assert tests["agreement of all annotators"].p_value == 1
