"""Laws of T and R: sampling, structure, reconstructions."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tproper as tp
from tproper.transitions import DenseTransition, transition_from_dict, transition_to_dict

from . import laws
from .registry import METHODS, STRUCTURED, TRANSITIONS, dense, every_label, random_columns

EVERY = pytest.mark.parametrize("name", TRANSITIONS)
EVERY_METHOD = pytest.mark.parametrize("method", METHODS)


@EVERY
def test_columns_are_distributions(name):
    T = TRANSITIONS[name]().matrix()
    assert (T >= 0).all()
    assert np.abs(T.sum(axis=0) - 1).max() < 1e-12


@EVERY
def test_samples_follow_the_matrix(name):
    laws.samples_follow_the_matrix(TRANSITIONS[name]())


@EVERY
def test_samples_are_independent_of_classes_of_the_same_seed(name):
    laws.samples_are_independent_of_classes_of_the_same_seed(TRANSITIONS[name]())


@EVERY
def test_samples_are_reproducible_and_keep_their_shape(name):
    T = TRANSITIONS[name]()
    y = np.arange(12).reshape(3, 4) % T.num_classes
    first = T.sample(y, seed=5)
    assert np.array_equal(first, T.sample(y, seed=5))
    certain = bool((T.matrix()[:, 0] == 1).any())  # class 0 always gets the same label: nothing is drawn
    assert np.array_equal(T.sample(np.zeros(500, int), 1), T.sample(np.zeros(500, int), 2)) == certain
    assert first.shape[:2] == (3, 4)


@EVERY
def test_diagnosis_is_that_of_the_matrix(name):
    T = TRANSITIONS[name]()
    ours, theirs = T.diagnose(), dense(T).diagnose()
    assert ours.rank == theirs.rank
    assert ours.reconstructible == theirs.reconstructible
    assert ours.disjoint_supports == theirs.disjoint_supports
    assert ours.smallest_singular_value == pytest.approx(theirs.smallest_singular_value, abs=1e-12)
    assert ours.condition_number == pytest.approx(theirs.condition_number, rel=1e-9)
    assert ours.kernel_basis.shape == theirs.kernel_basis.shape
    assert "rank" in str(ours)
    assert ours.to_dict()["rank"] == ours.rank


@pytest.mark.parametrize(("K", "p"), [(20_000, 0.1), (3_000, 0.5), (40, 0.3)])
def test_a_singular_value_that_no_float_holds_is_told(K, p):
    """``(1 - p) (p^2 + (1 - p)^2)^((K - 2) / 2)`` over the share of sets that are not empty of other classes."""
    d = tp.partial_labels(K, p).diagnose()
    log = np.log1p(-p) + (K - 2) / 2 * np.log(p**2 + (1 - p) ** 2)
    assert d.rank == K
    assert d.log_smallest_singular_value == pytest.approx(log, rel=1e-9)
    if log < -745:
        assert f"smallest singular value  about 10^{log / np.log(10):.0f}" in str(d)
        assert d.to_dict()["smallest_singular_value"] == f"about 10^{log / np.log(10):.0f}"
    else:
        assert d.smallest_singular_value == pytest.approx(np.exp(log))
        assert d.to_dict()["smallest_singular_value"] == d.smallest_singular_value


@pytest.mark.parametrize(
    "T", [tp.partial_labels(4, 0.3), tp.multi_complementary(5, 2), tp.coarse_labels([[0, 2], [1]])]
)
def test_ambiguity_degree_by_counting(T):
    masks = np.array([[z in s for z in range(T.num_classes)] for s in T.weak_labels])
    together = masks.T.astype(float) @ T.matrix()
    np.fill_diagonal(together, 0)
    assert T.diagnose().ambiguity_degree == pytest.approx(together.max())


@EVERY
@EVERY_METHOD
def test_left_inverse(name, method):
    laws.left_inverse(TRANSITIONS[name](), method)


@EVERY
@EVERY_METHOD
def test_targets_are_unbiased(name, method):
    laws.targets_are_unbiased(TRANSITIONS[name](), method)


@EVERY
@EVERY_METHOD
def test_adjointness(name, method):
    laws.adjointness(TRANSITIONS[name](), method)


@EVERY
@EVERY_METHOD
def test_targets_agree_with_themselves(name, method):
    laws.targets_agree_with_themselves(TRANSITIONS[name](), method)


@EVERY
def test_rows_agree_with_themselves(name):
    laws.rows_agree_with_themselves(TRANSITIONS[name]())


@pytest.mark.parametrize("name", STRUCTURED)
@pytest.mark.parametrize("method", ["auto", "pinv", "min_variance"])
def test_structured_reconstructions_are_the_dense_ones(name, method):
    T = TRANSITIONS[name]()
    used = T.matrix().sum(axis=1) > 0  # of a label that never occurs, R may say anything
    ours, theirs = (t.reconstruction(method).matrix()[:, used] for t in (T, dense(T)))
    assert np.abs(ours - theirs).max() < 1e-9


@EVERY
def test_tightest_is_tightest(name):
    T = TRANSITIONS[name]()
    best = tp.critical_k(T, reconstruction="tightest").max()
    for method in ("pinv", "min_variance"):
        used = T.matrix().sum(axis=1) > 0
        assert best <= tp.critical_k(T, reconstruction=method)[used].max() + 1e-7
    if name in ("partial", "multi-complementary"):  # the closed form attains what the linear program finds
        assert best == pytest.approx(tp.critical_k(dense(T), reconstruction="tightest").max(), abs=1e-7)


def test_minimum_variance_is_minimal_among_random_left_inverses():
    laws.minimum_variance_is_minimal()


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(0, 4), st.integers(0, 10_000))
def test_random_transitions(K, more, seed):
    T = tp.Transition(random_columns(K + more, K, seed))
    assume(T.diagnose().condition_number < 1e6)
    for method in ("auto", "pinv", "min_variance"):
        R = T.reconstruction(method)
        assert R.residual < 1e-8
        assert np.abs(R.matrix().sum(axis=0) - 1).max() < 1e-8


def test_any_left_inverse_is_normalised():
    T = tp.Transition(random_columns(5, 3, seed=2))
    R = np.linalg.pinv(T.matrix())
    assert np.abs(R.sum(axis=0) - 1).max() > 1e-3
    ours = tp.Reconstruction(R, T).matrix()
    assert np.abs(ours.sum(axis=0) - 1).max() < 1e-12
    assert np.abs(ours @ T.matrix() - np.eye(3)).max() < 1e-9


def test_large_families_build_no_table():
    uniform = tp.complementary(50_000), tp.symmetric_noise(50_000, 0.2)
    for T in (*uniform, tp.partial_labels(1000, 0.01), tp.multi_complementary(1000, 5)):
        y = np.arange(40) * 7 % T.num_classes
        labels = T.sample(y, seed=0)
        targets = T.reconstruction().targets(labels)
        assert targets.shape == (40, T.num_classes)
        assert (targets.sum(-1) - 1).abs().max() < 1e-9
        assert T.diagnose().reconstructible
        with pytest.raises(ValueError, match=r"would not fit|at most 12 classes"):
            T.matrix()


def test_a_label_that_never_occurs_has_the_uniform_target():
    T = tp.Transition([[0.9, 0.2], [0.0, 0.0], [0.1, 0.8]])
    for method in METHODS:
        assert T.reconstruction(method).targets([1])[0].tolist() == pytest.approx([0.5, 0.5])


def test_sources_by_pairs_and_by_rows():
    T = TRANSITIONS["two sources"]()
    rows = torch.arange(T.num_weak_labels)
    pairs = T.pairs(rows.numpy())
    assert torch.equal(T.encode(pairs), rows)
    assert torch.equal(T.encode([tuple(p) for p in pairs]), rows)
    assert [tuple(p) for p in pairs] == T.weak_labels


def test_candidate_sets_as_masks_and_as_sets():
    T = tp.partial_labels(4, 0.3)
    assert torch.equal(T.encode([{0, 2}, {3}]), torch.tensor([[True, False, True, False], [False, False, False, True]]))
    assert torch.equal(T.row_index(every_label(T)), torch.arange(15))


def test_near_the_singular_point_conditioning_is_reported():
    with pytest.warns(tp.ConditioningWarning, match="close to singular"):
        tp.symmetric_noise(10, 0.9 - 1e-9).reconstruction()
    assert "near singular" in str(tp.symmetric_noise(10, 0.9 - 1e-8).diagnose())


def test_the_same_t_is_the_same_whatever_its_class():
    """And another one is another, whatever they share: every pair of the registry."""
    made = {name: make() for name, make in TRANSITIONS.items()}
    for name, T in made.items():
        assert T.same_as(TRANSITIONS[name]())
        for other, U in made.items():
            assert T.same_as(U) == (name == other), (name, other)
    C = tp.complementary(3)
    assert C.same_as(tp.Transition(C.matrix()))
    assert tp.Transition(C.matrix(), weak_labels=["a", "b", "c"]).same_as(C)
    sets = tp.partial_labels(3, 0.2)
    assert not sets.same_as(tp.Transition(sets.matrix()))  # masks are no indices
    assert not tp.positive_unlabeled(0.4).same_as(tp.Transition([[0.4, 0.0], [0.6, 1.0]]))
    assert not tp.pair_noise(4, 0.3).same_as(tp.Transition(tp.pair_noise(4, 0.3).matrix()[::-1]))
    assert tp.complementary(100_000).same_as(tp.complementary(100_000))
    assert not tp.complementary(100_000).same_as(tp.symmetric_noise(100_000, 0.9))
    assert not tp.annotators([tp.symmetric_noise(2, 0.2)] * 2).same_as(tp.Transition(np.eye(4, 2)))


def test_sources_of_sources_draw_each_for_themselves():
    counts = np.array([[30, 5], [10, 25]])

    def estimated():
        return tp.Transition.from_counts(counts)

    inner = [tp.multi_source([estimated(), estimated()]) for _ in range(2)]
    draws = tp.multi_source([*inner, estimated()]).draws_of_posterior(2000)
    parts = [draws[:, 2 * i, 0] for i in range(5)]
    correlation = np.corrcoef(parts) - np.eye(5)
    assert np.abs(correlation).max() < 0.15


class Mine(DenseTransition):
    """Not what its parent is."""

    def matrix(self):
        return super().matrix()[::-1]


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_subclass_is_not_written_as_its_parent(name):
    T = TRANSITIONS[name]()
    assert type(transition_from_dict(transition_to_dict(T))) is type(T)
    T.__class__ = type("Other", (type(T),), {})
    with pytest.raises(tp.InputError) as error:
        transition_to_dict(T)
    assert error.value.argument == "transition"
    with pytest.raises(tp.InputError):
        transition_to_dict(Mine(np.eye(2)))
