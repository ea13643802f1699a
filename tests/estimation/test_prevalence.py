"""Class shares from weak labels: the inverse where it is in the simplex, else the likelihood; intervals."""

import re

import numpy as np
import pytest

import tproper as tp
from tproper.estimation import prevalence
from tproper.estimation.prevalence import class_shares

T4 = tp.Transition([[0.8, 0.1, 0.05, 0.1], [0.1, 0.7, 0.1, 0.1], [0.05, 0.1, 0.6, 0.2], [0.05, 0.1, 0.25, 0.6]])
SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def test_square_T_is_inverted():
    rng = np.random.default_rng(0)
    y = T4.sample(rng.choice(4, 5000, p=SHARES), 77)
    result = tp.weak_prevalence(y, T4)
    q = np.bincount(y, minlength=4) / 5000
    np.testing.assert_allclose(result.value, np.linalg.solve(T4.matrix(), q))
    assert result.from_transition == 0
    assert not result.next_clean_rows.any()
    assert "T is taken as known" in result.notes[0]


def test_the_shares_are_most_likely():
    """No shares nearby, inside the simplex, give the labels a greater likelihood."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        T, q = rng.dirichlet(np.ones(5), 3).T, rng.dirichlet(np.ones(5))
        pi = class_shares(T[None], q[None])[0]
        np.testing.assert_allclose(pi.sum(), 1)
        top = q @ np.log(T @ pi)
        for _ in range(30):
            near = np.abs(pi + 0.02 * rng.standard_normal(3))
            assert q @ np.log(T @ (near / near.sum())) < top + 1e-6


def test_intervals_stay_in_the_simplex_and_hold_the_estimate():
    y = T4.sample(np.zeros(200, dtype=int), 3)  # one class only
    result = tp.weak_prevalence(y, T4)
    assert (result.interval[1:, 0] == 0).all()  # not 1e-17, which leaves out the truth
    assert (result.interval >= 0).all()
    assert (result.interval <= 1).all()
    assert (result.interval[:, 0] <= result.value).all()
    assert (result.value <= result.interval[:, 1]).all()


def clean_counts(n, rng):
    counts = np.zeros((4, 4))
    z = rng.integers(4, size=n)
    np.add.at(counts, (T4.sample(z, rng), z), 1)
    return counts


@pytest.mark.parametrize("clean", [0, 200])
def test_coverage(clean):
    rng = np.random.default_rng(clean)
    inside = []
    for r in range(40):
        y = T4.sample(rng.choice(4, 1000, p=SHARES), rng)
        T = tp.Transition.from_counts(clean_counts(clean, rng)) if clean else T4
        low, high = tp.weak_prevalence(y, T, random_state=r).interval.T
        inside.append((low <= SHARES) & (high >= SHARES))
    assert 0.9 <= np.mean(inside) <= 0.99


def test_an_estimated_T_widens_the_intervals():
    rng = np.random.default_rng(2)
    y = T4.sample(rng.choice(4, 3000, p=SHARES), 77)
    known = tp.weak_prevalence(y, T4)
    estimated = tp.weak_prevalence(y, tp.Transition.from_counts(clean_counts(100, rng)))
    assert (estimated.stderr > 1.3 * known.stderr).all()
    assert estimated.from_transition > 0.4
    assert estimated.next_clean_rows.sum() == 100
    assert "of the variance comes from T's own error" in estimated.notes[0]


def test_more_rows_go_where_they_help():
    """Class 0 is common and has hardly any clean rows; more of them narrow the intervals, others do not."""
    rng = np.random.default_rng(3)
    base = np.stack([rng.multinomial(n, T4.matrix()[:, z]) for z, n in enumerate((15, 300, 300, 300))], axis=1)
    y = T4.sample(rng.choice(4, 5000, p=SHARES), 77)
    result = tp.weak_prevalence(y, tp.Transition.from_counts(base))
    assert result.next_clean_rows.argmax() == 0

    def width(z):
        more = base.copy()
        more[:, z] += rng.multinomial(100, T4.matrix()[:, z])
        return (tp.weak_prevalence(y, tp.Transition.from_counts(more)).stderr ** 2).sum()

    assert width(0) < 0.7 * min(width(z) for z in (1, 2, 3))


def test_candidate_masks():
    T = tp.partial_labels(4, 0.3)
    z = np.random.default_rng(4).choice(4, 4000, p=SHARES)
    result = tp.weak_prevalence(T.sample(z, 0), T)
    assert np.abs(result.value - SHARES).max() < 4 * result.stderr.max()
    low, high = result.interval.T
    assert ((low - 0.02 <= SHARES) & (high + 0.02 >= SHARES)).all()


def test_printed():
    text = str(tp.weak_prevalence([0, 1, 1, 0, 2, 3], T4))
    assert text.splitlines()[0] == "class shares from 6 weak labels (95% interval)"


def test_labels_of_another_T_are_noticed():
    """Shares outside of the hull of T's columns."""
    result = tp.weak_prevalence(np.zeros(500, dtype=int), tp.symmetric_noise(3, 0.3))
    assert any("not a mixture of T's columns" in note for note in result.notes)


@pytest.mark.parametrize(
    ("labels", "transition", "message"),
    [
        ([0, 4], T4, "labels: expected integers in [0, 4), got 4"),
        ([], T4, "labels: expected at least one label, got an empty batch"),
        ([0.5, 1.0], T4, "labels: expected names or whole numbers, got"),
        ([0, 1], np.eye(2), "transition: expected a tproper.Transition, got ndarray"),
        ([0, 1], tp.coarse_labels([[0, 1], [2]]), "transition: expected rank 3 for 3 classes, got 2: the shares of"),
        ([0, 0], tp.Transition([[1.0, 1.0]]), "transition: expected rank 2 for 2 classes, got 1"),
        (
            np.zeros((3, 4), bool),
            tp.partial_labels(4, 0.3),
            "labels: expected non-empty candidate sets, got an empty one",
        ),
    ],
)
def test_bad_input(labels, transition, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        tp.weak_prevalence(labels, transition)


def test_answers_of_several_annotators():
    """The most likely shares by brute force; with T estimated the intervals are wider, and cover."""
    rng = np.random.default_rng(3)
    shares = np.array([0.2, 0.3, 0.5])
    Ts = [tp.symmetric_noise(3, p) for p in (0.2, 0.3, 0.4)]
    T = tp.annotators(Ts)
    z = rng.choice(3, 2000, p=shares)
    answers = T.sample(z, rng)
    answers[rng.random(answers.shape) < 0.3] = -1
    known = tp.weak_prevalence(answers, T)
    assert known.n == int((answers >= 0).any(axis=1).sum())
    likelihood = np.ones((2000, 3))
    for a, t in enumerate(Ts):
        has = answers[:, a] >= 0
        likelihood[has] *= t.matrix()[answers[has, a]]
    pi = np.full(3, 1 / 3)
    for _ in range(2000):
        P = likelihood * pi
        pi = (P / P.sum(axis=1, keepdims=True))[(answers >= 0).any(axis=1)].mean(axis=0)
    assert np.abs(known.value - pi).max() < 1e-4
    assert ((known.interval[:, 0] <= shares) & (shares <= known.interval[:, 1])).all()
    assert "T is taken as known" in str(known)
    counts = [np.array([rng.multinomial(40, c) for c in t.matrix().T]).T for t in Ts]
    estimated = tp.weak_prevalence(answers, tp.annotators([tp.Transition.from_counts(c) for c in counts]))
    assert (np.ptp(estimated.interval, axis=1) > np.ptp(known.interval, axis=1)).all()
    assert ((estimated.interval[:, 0] <= shares) & (shares <= estimated.interval[:, 1])).all()
    assert "of the variance comes from T's own error" in str(estimated)


def test_one_annotator_is_his_labels():
    T = tp.symmetric_noise(3, 0.2)
    labels = T.sample(np.arange(300) % 3, 0)
    alone, plain = tp.weak_prevalence(labels[:, None], tp.annotators([T])), tp.weak_prevalence(labels, T)
    assert np.abs(alone.value - plain.value).max() < 1e-4
    assert np.abs(alone.interval - plain.interval).max() < 1e-3


def test_a_stack_with_an_estimated_source_carries_its_error():
    T = tp.symmetric_noise(2, 0.2)
    estimated = tp.Transition.from_counts([[20, 4], [5, 21]])
    labels = tp.multi_source([T, T]).sample(np.arange(600) % 2, 0)
    known = tp.weak_prevalence(labels, tp.multi_source([T, T]))
    carried = tp.weak_prevalence(labels, tp.multi_source([T, estimated]))
    assert known.from_transition == 0
    assert carried.from_transition > 0.05


@pytest.mark.parametrize(
    ("label", "T"),
    [
        (1, tp.identity(3)),
        (1, tp.symmetric_noise(3, 0.2)),
        (0, tp.complementary(3)),
        (1, tp.positive_unlabeled(0.3)),
        (0, tp.Transition.from_counts([[50, 3], [4, 50]])),
        ([True, False, False], tp.partial_labels(3, 0.3)),
        ([1, -1], tp.annotators([tp.symmetric_noise(3, 0.2)] * 2)),
        (4, tp.multi_source([tp.identity(3), tp.symmetric_noise(3, 0.2)])),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.parametrize("n", [1, 10, 300])
def test_no_interval_is_a_point(label, T, n):
    """Labels that are all the same are no certainty: others have not occurred yet."""
    result = tp.weak_prevalence([label] * n, T)
    width = result.interval[:, 1] - result.interval[:, 0]
    assert (width >= 0.9 * (1 - 0.025 ** (1 / n)) / (1 + (n > 1))).all()
    assert (result.stderr > 0.1 * width).all()
    assert ((result.interval[:, 0] <= result.value) & (result.value <= result.interval[:, 1])).all()


def test_coverage_of_a_class_that_few_have_named():
    T, shares = tp.symmetric_noise(3, 0.02), np.array([0.75, 0.24, 0.01])
    rng, inside = np.random.default_rng(0), []
    for s in range(200):
        y = T.sample(rng.choice(3, 40, p=shares), s)
        low, high = tp.weak_prevalence(y, T).interval.T
        inside.append((low <= shares) & (shares <= high))
    assert (np.mean(inside, axis=0) > 0.9).all()


@pytest.mark.parametrize(
    ("labels", "T", "free"),
    [
        ([[True, True, False]] * 30 + [[False, False, True]] * 10, tp.partial_labels(3, 0.3), [0, 1]),
        ([[-1, 0]] * 30 + [[-1, 1]] * 10, tp.annotators([tp.identity(3), tp.coarse_labels([[0, 1], [2]])]), [0, 1]),
        ([3] * 30 + [4] * 10, tp.multi_source([tp.identity(3), tp.coarse_labels([[0, 1], [2]])]), [0, 1]),
        (
            [[True] * 20 + [False] * 40] * 30 + [[False] * 20 + [True] * 40] * 10,
            tp.partial_labels(60, 0.3),
            list(range(60)),
        ),
    ],
    ids=["sets", "answers", "sources", "many classes"],
)
def test_what_the_labels_leave_open_is_not_determined(labels, T, free):
    """Labels that occur, and never tell two classes apart, leave all of their common share open to each of them."""
    result = tp.weak_prevalence(labels, T)
    note = "not determined: other shares of the classes " + ", ".join(map(str, free[:12]))
    assert any(n.startswith(note) for n in result.notes)
    top = result.value[: 20 if len(free) > 2 else 2].sum()
    assert (result.interval[: 20 if len(free) > 2 else 2, 0] < 1e-6).all()
    assert (result.interval[: 20 if len(free) > 2 else 2, 1] >= top - 1e-6).all()
    assert (result.stderr[free] > 0.03).all()
    if len(free) == 2:
        assert np.ptp(result.interval[2]) < 0.4


def test_shares_that_fit_as_well_are_the_ends_of_a_polytope():
    """Against samples of the polytope: none lies beyond the ends, and full rank leaves a point."""
    from tproper.estimation.prevalence import equally_likely

    rng = np.random.default_rng(0)
    T, value = rng.dirichlet(np.ones(3), 5).T, rng.dirichlet(np.ones(5))
    low, high = equally_likely(T, value).T
    kernel = np.linalg.svd(np.vstack([T, np.ones(5)]))[2][3:]
    steps = value + rng.standard_normal((200_000, 2)) @ kernel
    inside = steps[(steps >= 0).all(axis=1)]
    assert len(inside) > 100
    assert (inside >= low - 1e-6).all()
    assert (inside <= high + 1e-6).all()
    assert (inside.max(axis=0) > high - 0.1 * (high - low)).all()
    square = rng.dirichlet(np.ones(5), 5).T
    assert np.ptp(equally_likely(square, value), axis=1).max() == 0


def test_coverage_of_few_candidate_sets():
    """Repetitions of the draw alone covered 82% in all: a class at share 0 hardly ever left it."""
    T, shares = tp.multi_complementary(5, 2), np.array([0.5, 0.2, 0.2, 0.05, 0.05])
    rng, inside = np.random.default_rng(0), []
    for s in range(25):
        low, high = tp.weak_prevalence(T.sample(rng.choice(5, 8, p=shares), s), T).interval.T
        inside.append((low <= shares) & (shares <= high))
    assert np.mean(inside) > 0.92


@pytest.mark.parametrize("kind", ["one label", "annotators", "known"])
def test_repetitions_in_blocks_are_those_of_all_at_once(kind, monkeypatch):
    """Draws of T for every kind of label would fill the memory where answers hardly repeat."""
    rng = np.random.default_rng(0)
    known = tp.pair_noise(3, 0.2)
    T = tp.Transition.from_counts(np.column_stack([rng.multinomial(60, p) for p in known.matrix().T]))
    T = {"one label": T, "annotators": tp.annotators([T] * 6), "known": known}[kind]
    y = T.sample(rng.integers(3, size=400), 1)
    U = len(np.unique(np.reshape(y, (400, -1)), axis=0))
    shapes = []
    plain = prevalence.class_shares
    monkeypatch.setattr(prevalence, "class_shares", lambda T, q: shapes.append(T.shape) or plain(T, q))
    monkeypatch.setattr(prevalence, "ENTRIES", 200 * 3 * U)
    whole = tp.weak_prevalence(y, T)
    monkeypatch.setattr(prevalence, "ENTRIES", 30 * 3 * U)
    shapes.clear()
    parts = tp.weak_prevalence(y, T)
    assert max(np.prod(shape) for shape in shapes) <= 30 * 3 * U
    np.testing.assert_array_equal(parts.value, whole.value)
    np.testing.assert_allclose(parts.interval, whole.interval, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(parts.stderr, whole.stderr, rtol=1e-12)
    assert parts.notes == whole.notes


def test_the_old_name_of_random_state_is_told():
    with pytest.raises(TypeError, match="'seed'; seed is random_state here"):
        tp.weak_prevalence([0, 1], tp.identity(2), seed=1)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'sead'$"):
        tp.weak_prevalence([0, 1], tp.identity(2), sead=1)


def test_known_rows_without_a_label_count_by_their_class():
    rng = np.random.default_rng(0)
    T = tp.Transition([[0.8, 0.1, 0.2], [0.1, 0.7, 0.1], [0.1, 0.2, 0.7]]).named(["a", "b", "c"])
    z = rng.choice(3, 400, p=[0.2, 0.3, 0.5])
    names = np.array(["a", "b", "c"], dtype=object)
    y = np.where(rng.random(400) < 0.2, None, names[T.sample(z, seed=1)])
    true = np.where(rng.random(400) < 0.3, names[z], None)
    whole, labelled = tp.weak_prevalence(y, T, true=true), np.array([v is not None for v in y])
    nothing = np.array([v is None and t is None for v, t in zip(y, true, strict=True)])
    assert whole.n == 400 - nothing.sum()
    assert whole.checked == sum(t is not None for t in true)
    np.testing.assert_allclose(whole.value, tp.weak_prevalence(y[~nothing], T, true=true[~nothing]).value)
    some = np.where(labelled, true, None)  # then rows without a label say nothing at all
    found, kept = tp.weak_prevalence(y, T, true=some), tp.weak_prevalence(y[labelled], T, true=some[labelled])
    assert str(found) == str(kept)
