"""Scores that share R share the draws of an estimated T: made once, the same numbers, and gone with R."""

import gc
import pickle
import weakref

import numpy as np
import pytest
import torch

import tproper as tp
from tproper.estimation import sensitivities
from tproper.evaluation import streamed as table_scores
from tproper.metrics import drawn_labels, draws_of, uncertainty
from tproper.transitions import EstimatedPartialLabels


def counted(T, rows, seed=0):
    rng = np.random.default_rng(seed)
    return tp.Transition.from_counts(np.column_stack([rng.multinomial(rows, p) for p in T.matrix().T]))


def few_answers():
    """Three annotators of their own T, one of them known; every second row lacks an answer."""
    counts = counted(tp.symmetric_noise(3, 0.3), 200), counted(tp.pair_noise(3, 0.2), 90)
    T = tp.annotators([counts[0], tp.symmetric_noise(3, 0.2), counts[1]])
    z = np.random.default_rng(0).integers(3, size=500)
    y = T.sample(z, 1)
    y[::2, 2] = -1
    return T, y, z, "auto"


def crowd():
    rng, n, m, K = np.random.default_rng(0), 400, 40, 3
    z = rng.integers(K, size=n)
    y = np.where(rng.random((n, m)) < rng.uniform(0.5, 0.9, m), z[:, None], rng.integers(K, size=(n, m)))
    y[rng.random((n, m)) < 0.85] = -1
    return tp.estimate_annotators(y, num_classes=K).transition, y, z, "auto"


def single(T, method="auto", n=500):
    z = np.random.default_rng(0).integers(T.num_classes, size=n)
    return T, T.sample(z, 1), z, method


CASES = {
    "one label": lambda: single(counted(tp.pair_noise(3, 0.3), 100)),
    "sources": lambda: single(tp.multi_source([counted(tp.pair_noise(3, 0.3), 100), tp.symmetric_noise(3, 0.2)])),
    "sets": lambda: single(EstimatedPartialLabels(14, 30.0, 70.0)),
    "few annotators": few_answers,
    "complete rows": lambda: (*few_answers()[:3], "tightest"),
    "a crowd": crowd,
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    T, y, z, method = CASES[request.param]()
    K = T.num_classes
    predicted = np.where(np.random.default_rng(2).random(len(z)) < 0.8, z, (z + 1) % K)
    return T, y, predicted, 0.8 * np.eye(K)[predicted] + 0.2 / K, method


@pytest.fixture
def makings(monkeypatch):
    """How often draws are made."""
    made = []
    for name in ("_inverted", "_from_classes"):
        plain = getattr(uncertainty, name)
        monkeypatch.setattr(uncertainty, name, lambda *a, name=name, plain=plain: made.append(name) or plain(*a))
    return made


def scores(T, y, predicted, q, R, **more):
    return [
        tp.weak_accuracy(y, predicted, T, reconstruction=R, **more),
        tp.weak_balanced_accuracy(y, predicted, T, reconstruction=R, **more),
        tp.weak_log_loss(y, q, T, reconstruction=R, **more),
        tp.weak_brier(y, q, T, reconstruction=R, **more),
        tp.weak_calibration(y, q, T, reconstruction=R, **more),
        tp.weak_calibration(y, q, T, classwise=True, reconstruction=R, **more),
        tp.paired_test(y, q, q[:, ::-1].copy(), T, reconstruction=R, **more),
    ]


def plain(found):
    return [str(s.to_dict()) for s in found]


def test_draws_are_made_once_and_give_the_same_numbers(case, makings):
    T, y, predicted, q, method = case
    apart = scores(T, y, predicted, q, method)
    once = len(makings) // len(apart)
    assert len(makings) == once * len(apart)
    makings.clear()
    together = scores(T, y, predicted, q, T.reconstruction(method))
    assert len(makings) == once
    assert plain(together) == plain(apart)


def test_an_evaluation_draws_once(case, makings):
    T, y, _, q, _ = case
    draws_of(T, T.reconstruction(), T.encode(y))
    once = len(makings)
    makings.clear()
    streamed = table_scores.StreamedScores(T)
    streamed.add(np.asarray(y), q)
    found = streamed.scores()
    assert len(makings) == once
    assert plain(found.values()) == plain(table_scores.scores_of(T, np.asarray(y), q).values())


def test_a_checked_evaluation_draws_once():
    """The scores at moved T of annotators have draws of their own: none here, where one label is given."""
    T, y, predicted, _ = single(counted(tp.pair_noise(3, 0.3), 100))
    q, R = 0.8 * np.eye(3)[predicted] + 0.2 / 3, T.reconstruction()
    tp.weak_accuracy(y, predicted, T, reconstruction=R)
    kept = draws_of(T, R)
    moved = sensitivities(y, q, T, R)
    assert draws_of(T, R) is kept
    apart = {name: tp.sensitivity(name, y, q.argmax(1) if name == "accuracy" else q, T) for name in moved}
    assert {name: s.to_dict() for name, s in moved.items()} == {name: s.to_dict() for name, s in apart.items()}
    assert list(moved) == ["accuracy", "log_loss", "brier"]


@pytest.mark.parametrize("case", ["few annotators", "a crowd"], indirect=True)
def test_other_labels_or_weights_have_draws_of_their_own(case):
    T, y, predicted, q, method = case
    R, w = T.reconstruction(method), np.random.default_rng(0).uniform(0.5, 1.5, len(y))
    other = np.where((np.arange(len(y)) % 3 == 0)[:, None] & (np.arange(y.shape[1]) == 0), -1, y)
    for labels, more in ((y, {}), (other, {}), (y, {"sample_weight": w}), (y, {})):
        shared = scores(T, labels, predicted, q, R, **more)
        assert plain(shared) == plain(scores(T, labels, predicted, q, method, **more))


def test_labels_that_change_in_place_are_other_labels():
    T, y, z, _ = few_answers()
    y, R = torch.as_tensor(y), T.reconstruction()
    before = tp.weak_accuracy(y, z, T, reconstruction=R)
    y[:400, 0] = -1
    after = tp.weak_accuracy(y, z, T, reconstruction=R)
    assert after.to_dict() == tp.weak_accuracy(y, z, T).to_dict()
    assert after.stderr_transition != before.stderr_transition


def test_draws_belong_to_one_T():
    """R of a T serves another with the same matrix; what is known of that T is its own."""
    matrix = tp.pair_noise(3, 0.3).matrix()
    well, poorly = (tp.EstimatedTransition(matrix, concentration=matrix * s + 1e-9) for s in (5000, 50))
    _, y, z, _ = single(well)
    R = well.reconstruction()
    apart = [tp.weak_accuracy(y, z, T).stderr_transition for T in (well, poorly, well)]
    assert [tp.weak_accuracy(y, z, T, reconstruction=R).stderr_transition for T in (well, poorly, well)] == apart
    assert apart[0] < apart[1]


def test_what_was_drawn_goes_with_R():
    T, y, z, _ = single(counted(tp.pair_noise(3, 0.3), 100))
    R = T.reconstruction()
    tp.weak_accuracy(y, z, T, reconstruction=R)
    drawn = weakref.ref(draws_of(T, R).inverses)
    size = len(uncertainty._LAST)
    gc.collect()
    assert drawn() is not None
    del R
    gc.collect()
    assert drawn() is None
    assert len(uncertainty._LAST) < size


def test_what_is_known_of_T_does_not_change():
    T = counted(tp.pair_noise(3, 0.3), 100)
    with pytest.raises(ValueError, match="read-only"):
        T.concentration[...] = 1.0
    S = tp.EstimatedTransition(T.matrix(), draws=T.samples(20))
    with pytest.raises(ValueError, match="read-only"):
        S.draws[0] = 0.5


# The note of answers that depend on each other.


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("kind", ["known", "estimated", "a crowd"])
def test_every_score_by_dependent_answers_says_so(kind, monkeypatch):
    T, y, z, _ = crowd() if kind == "a crowd" else few_answers()
    if kind == "known":
        T = tp.annotators([tp.Transition(t.matrix()) for t in T.transitions])
    dependent = tp.annotators(T.transitions, rho=0.25)
    predicted = np.where(np.random.default_rng(2).random(len(z)) < 0.8, z, (z + 1) % 3)
    q = 0.8 * np.eye(3)[predicted] + 0.2 / 3
    note = "answers depend on each other given the class (rho = 0.25): where annotators err together"

    def every(T):
        found = scores(T, y, predicted, q, "auto")
        found.append(tp.weak_balanced_accuracy(y, predicted, T, prior=[0.3, 0.3, 0.4]))
        found.append(tp.weak_log_loss(y, np.eye(3)[predicted], T))  # infinite
        found.append(tp.weak_accuracy(y[:3], predicted[:3], T))  # too few
        with monkeypatch.context() as small:
            small.setattr(table_scores, "BLOCK_ROWS", 100)
            small.setattr(table_scores, "BLOCK_CELLS", 300)
            for p in (q, np.eye(3)[predicted]):
                streamed = table_scores.StreamedScores(T)
                streamed.add(np.asarray(y), p)
                found += streamed.scores().values()
        return [*found, *(s.overconfidence for s in found if getattr(s, "overconfidence", None) is not None)]

    with_note, without = every(dependent), every(T)
    assert len(with_note) == 21
    assert all(s.note.count(note) == 1 for s in with_note)
    assert not any(note in s.note for s in without)
    ends = [np.array([[s.value, *s.interval] for s in found]) for found in (with_note, without)]
    np.testing.assert_array_equal(*ends)
    assert all(s.note.startswith("not informative: ") != s.informative for s in with_note)


class Says:
    """An estimator that says what it was given."""

    def __init__(self, q):
        self.q = q

    def predict_proba(self, X):
        return self.q

    def predict(self, X):
        return self.q.argmax(axis=1)


@pytest.mark.parametrize("prior", [None, [0.2, 0.3, 0.5]])
@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "brier"])
def test_a_scorer_draws_once_for_all_folds(name, prior, makings):
    T, y, z, _ = single(tp.Transition.from_counts([[80, 10, 5], [10, 70, 5], [5, 10, 60], [5, 10, 30]]))
    models = [Says(np.random.default_rng(i).dirichlet(np.ones(3), len(z))) for i in range(4)]
    scorer = pickle.loads(pickle.dumps(tp.weak_scorer(name, T, prior=prior)))
    found = [scorer(model, z, y) for model in models]
    assert len(makings) == (4 if name == "balanced_accuracy" and prior is not None else 1)
    function = getattr(tp, f"weak_{name}")
    given = [model.q if name == "brier" else model.predict(z) for model in models]
    sign = -1 if name == "brier" else 1
    assert found == [sign * function(y, q, T, prior=prior).value for q in given]


def test_a_calibrator_draws_once_for_before_and_after(makings):
    T, y, z, _ = single(counted(tp.pair_noise(3, 0.3), 100))
    calibrator = tp.calibrate(4 * np.eye(3)[z] + np.random.default_rng(0).normal(size=(len(z), 3)), y, T)
    assert set(calibrator.reliability) == {"before", "after"}
    assert len(makings) == 1


def test_a_column_that_a_draw_leaves_empty_is_the_estimates():
    """Gamma variables with a tiny parameter are all 0 at times: the draw of that column is T's."""
    matrix = np.array([[0.6, 0.3], [0.4, 0.7]])
    T = tp.EstimatedTransition(matrix, concentration=np.array([[1e-320, 3.0], [1e-320, 7.0]]))
    draws = T.samples(50)
    np.testing.assert_array_equal(draws[:, :, 0], np.tile(matrix[:, 0], (50, 1)))
    np.testing.assert_allclose(draws.sum(axis=1), 1.0, rtol=1e-15)
    assert draws[:, 0, 1].std() > 0


def test_sources_of_annotators_carry_their_error():
    """Annotators whose T were estimated, as a source beside another: a stack has their draws too."""
    crowd = tp.annotators([tp.Transition.from_counts([[40, 5], [6, 45]]), tp.Transition([[0.8, 0.3], [0.2, 0.7]])])
    stack = tp.multi_source([crowd, tp.symmetric_noise(2, 0.2)], [0.5, 0.5])
    draws = stack.draws_of_posterior(50)
    rows = np.array(crowd.weak_labels)
    first, second = (t.matrix() for t in crowd.transitions)
    # rows that differ in the first annotator's answer alone: their ratio is that of a draw of its T
    ratio = draws[:, :4] / (0.5 * second[rows[:, 1]])
    np.testing.assert_allclose(ratio[:, 0], ratio[:, 1])
    np.testing.assert_allclose(ratio[:, 0] + ratio[:, 2], 1)
    assert np.abs(ratio[:, rows[:, 1] == 0].mean(0) - first).max() < 0.02
    assert ratio[:, 0].std(axis=0) == pytest.approx(crowd.transitions[0].stderr[0], rel=0.5)
    assert not np.allclose(draws[0, :4], 0.5 * first[rows[:, 0]] * second[rows[:, 1]])
    np.testing.assert_allclose(draws.sum(axis=1), 1)
    y = stack.sample(np.random.default_rng(0).integers(0, 2, 2000), 0)
    assert tp.weak_accuracy(y, np.zeros(2000, int), stack).stderr_transition > 0


def test_the_reference_answers_where_the_sample_does():
    """Three of two hundred annotators answer: a reference in which all do would scatter an eighth as much."""
    T = tp.annotators([tp.symmetric_noise(3, 0.4)] * 200)
    rng = np.random.default_rng(0)
    like = torch.full((500, 200), -1)
    for i in range(500):
        like[i, torch.as_tensor(rng.choice(200, 3, replace=False))] = 0
    drawn, _ = drawn_labels(T, torch.full((500, 3), 1 / 3, dtype=torch.float64), like, rng)
    assert torch.equal(drawn < 0, like < 0)
    assert len(drawn[drawn >= 0].unique()) == 3
