"""Labels as people have them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import get_scorer, roc_auc_score

import tproper as tp
from tproper.transitions import settle, settle_sorted

S = tp.symmetric_noise(3, 0.2)


def both(y: object, transition: object, classes: object = None) -> tuple[list, list]:
    """The names of the classes in sorted order, and the labels as an estimator has them."""
    space = settle_sorted(y, transition, classes)
    return space.class_names, space.encode(y).tolist()


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        (["b", "a", "c", "a"], ["a", "b", "c"], [1, 0, 2, 0]),
        (np.array(["x", "z", "y"], dtype=object), ["x", "y", "z"], [0, 2, 1]),
        (pd.Series(["x", "z", "y"], dtype="category"), ["x", "y", "z"], [0, 2, 1]),
        (torch.tensor([0, 2, 2]), [0, 1, 2], [0, 2, 2]),
        ([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0, 1, 2]),
        (np.array([0, 2], dtype=np.uint8), [0, 1, 2], [0, 2]),
    ],
)
def test_names_of_classes(y: object, classes: list, codes: list) -> None:
    assert both(y, S) == (classes, codes)


def test_given_classes_name_the_columns_of_T_and_are_sorted() -> None:
    assert both(["b", "a"], S, ["c", "b", "a"]) == (["a", "b", "c"], [1, 0])
    T = tp.pair_noise(3, 0.2)
    space = settle(["b", "a"], T, ["c", "b", "a"])
    assert (space.class_names, space.encode(["b", "a"]).tolist()) == (["c", "b", "a"], [1, 2])
    ours = settle_sorted(["b", "a"], T, ["c", "b", "a"]).transition
    np.testing.assert_array_equal(ours.matrix(), T.matrix()[::-1, ::-1])
    assert T.classes is None  # the caller's T stays as it was
    with pytest.raises(tp.InputError, match=r"among 'c', 'b', 'a', got 1 at row 0; if these are rows of T, pass T.lab"):
        settle([1, 0, 2], T, ["c", "b", "a"]).encode([1, 0, 2])


def test_clean_labels_and_open_number_of_classes() -> None:
    space = settle(["u", "v", "w"], None)
    assert (space.transition.name, space.class_names) == ("identity(3)", ["u", "v", "w"])
    space = settle([True, False], "complementary")
    assert (space.transition.num_classes, space.class_names) == (2, [False, True])
    assert settle(np.ones((4, 7), dtype=bool), "partial:0.3").transition.num_classes == 7
    space = settle([["a"], ["b", "c"]], "partial:0.3")
    assert (space.transition.num_classes, space.class_names) == (3, ["a", "b", "c"])


def test_candidate_sets() -> None:
    T = tp.partial_labels(3, 0.3)
    mask = [[True, False, True], [False, True, False]]
    for y in (
        np.array(mask),
        mask,
        np.array(mask, dtype=int),
        np.array(mask, dtype=float),
        torch.tensor(mask),
        pd.DataFrame(mask),
        [{0, 2}, {1}],
        [[0, 2], [1]],
        [(0, 2), (1,)],
        np.array([[0, 2], [1]], dtype=object),
        pd.Series([[0, 2], [1]]),
    ):
        assert both(y, T) == ([0, 1, 2], mask)
        assert settle(y, "partial:0.3").transition.num_classes == 3  # as many as the masks have columns
    assert both([["a", "c"], ["b"]], T) == (["a", "b", "c"], mask)
    assert both([["a", "c"], ["b"]], T, ["c", "b", "a"])[1] == [[True, False, True], [False, True, False]]
    assert both([[30, 10], [20]], "partial:0.3") == ([10, 20, 30], mask)
    assert both(["a|c", "b"], T) == (["a", "b", "c"], mask)


def test_weak_labels_of_their_own_kind() -> None:
    bags = tp.unlabeled_sets([[0.2, 0.8], [0.7, 0.3], [0.5, 0.5]], [1, 1, 1])
    assert both([2, 0], bags, ["n", "p"])[1] == [2, 0]
    named = tp.Transition([[0.5, 0.1], [0.5, 0.2], [0.0, 0.7]], weak_labels=["lo", "mid", "hi"])
    assert both(["hi", "lo"], named)[1] == [2, 0]
    coarse = tp.coarse_labels([[0, 1], [2, 3]])
    assert both([1, 0], coarse)[1] == [1, 0]
    assert both([{"c", "d"}, {"a", "b"}], coarse, list("abcd"))[1] == [1, 0]
    assert both(["c|d", "b|a"], coarse, list("abcd"))[1] == [1, 0]
    assert coarse.encode([frozenset([2, 3]), {0, 1}]).tolist() == [1, 0]  # in a loss, too


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        ([True, False, True], None, [0, 1, 0]),
        (pd.Series([True, False, pd.NA], dtype="boolean"), None, [0, 1, 1]),
        ([True, None, np.nan], None, [0, 1, 1]),
        (["yes", "", None], None, [0, 1, 1]),
        (["yes", "unlabeled"], None, [0, 1]),
        ([0, 1, 1], None, [0, 1, 1]),  # rows of T, which is given
        ([True, False], ["spam", "ham"], [0, 1]),
        (["spam", None, "ham"], ["spam", "ham"], [0, 1, 1]),
        ([1, 0, 0], [1, 0], [0, 1, 1]),  # by name: 1 is the positive one
    ],
)
def test_positive_and_unlabeled(y: object, classes: object, codes: list) -> None:
    """True is a labeled positive; what is missing is unlabeled, never left out."""
    T = tp.positive_unlabeled(0.9)
    names, rows = both(y, T, classes)
    assert rows == codes
    assert names == ([False, True] if classes is None else sorted(classes))
    assert settle_sorted(y, T, classes).transition.matrix()[0].max() == 0.9
    assert not settle(y, T, classes).missing(y).any()


def test_several_sources() -> None:
    T = tp.multi_source([tp.symmetric_noise(3, 0.1), tp.partial_labels(3, 0.2), tp.coarse_labels([[0, 1], [2]])])
    rows = T.encode(np.array([[0, 2], [2, 1]])).tolist()
    assert both(np.array([[0, 2], [2, 1]]), T)[1] == rows
    assert both([(0, "c"), (2, "c")], T, ["a", "b", "c"])[1] == rows
    assert both([(0, "c"), (2, {"c"})], T, ["a", "b", "c"])[1] == rows
    index = T.sources[1].candidate_sets().index(frozenset({0, 2}))  # type: ignore[attr-defined]
    assert both([(1, {"a", "c"})], T, ["a", "b", "c"])[1] == [3 + index]
    assert both(rows, T)[1] == rows  # stacked rows


@pytest.mark.parametrize(
    ("y", "transition", "classes", "message"),
    [
        (["a", "d"], S, ["a", "b", "c"], "expected labels among 'a', 'b', 'c', got 'd' at row 1"),
        (["A", "b"], S, ["a", "b", "c"], "got 'A' at row 0; did you mean 'a'"),
        (["a", "b"], S, None, "expected labels of 3 classes, as the transition has, got 2 distinct ones"),
        ([3, 1, 0], S, [0, 1, 2], "got 3 at row 0"),
        (["a", "a"], None, None, "got only one class: 'a'"),
        (np.ma.masked_equal([0, 1], 1), None, None, "y: expected no masked entries, got 1"),
        (["yes", "unlabeled"], "pu:0.5", ["unlabeled", "yes"], "classes: expected the positive class first"),
        (["a", "b"], None, ["a", "a"], "expected distinct class names"),
        # T treats classes differently: names need its columns' own
        (["no", "yes"], tp.binary_noise(0.3, 0.1), None, r"does not treat them alike .* write T.named\("),
        ([True, False], tp.binary_noise(0.3, 0.1), None, r"does not treat them alike .* got False, True"),
        (["0", "1", "10", "2"] * 9, tp.pair_noise(4, 0.1), None, r"does not treat them alike"),
        ([-1, 1], tp.binary_noise(0.3, 0.1), None, r"expected integers in \[0, 2\), got labels -1, 1"),
        # -1 is no class of a T that is known, and no gap
        ([-1, 0, 1, 2], tp.symmetric_noise(4, 0.1), None, r"expected integers in \[0, 4\), got -1"),
        ([1, 2, 3], tp.pair_noise(3, 0.1), None, r"expected integers in \[0, 3\), got 3"),
        ([10, 20, 30], S, None, r"expected integers in \[0, 3\), got 10; they are rows of a T without names"),
        (["Barolo ", "barolo", "nebbiolo"], None, None, "'Barolo ' beside 'barolo', which differ by spaces"),
        ([[0], [5]], tp.partial_labels(3, 0.1), None, "expected labels of 3 classes"),
        ([["a"], ["q"]], tp.partial_labels(3, 0.1), list("abc"), "classes among 'a', 'b', 'c', got 'q' at row 1"),
        ([[0, 1], []], tp.partial_labels(3, 0.1), None, "an empty one at row 1"),
        ([0, 1], tp.partial_labels(3, 0.1), None, "expected candidate sets"),
        ([[0, 1], [2]], S, None, "candidate sets need a transition such as"),
        ([2, 0], tp.positive_unlabeled(0.5), None, "got 2 at row 0"),
        ([-1, 1], tp.positive_unlabeled(0.5), None, "expected True = labeled positive .* pass y == 1"),
        ([0, 1], tp.positive_unlabeled(0.5), ["yes", "no"], "among 'yes', 'unlabeled', got 0"),  # whose numbers?
        (["yes", "no"], tp.positive_unlabeled(0.5), None, "say which class is positive"),
        ([True] * 90 + [False] * 10, tp.positive_unlabeled(0.2), None, "coded the other way round"),
        ([(5, 0)], tp.multi_source([S, S]), None, "with a source in"),
        ([], None, None, "at least one label"),
        (["a", 1], None, None, "a mix of int, str"),
        ([0.5, 1.0], S, None, "Unknown label type"),
        ([["a", "b"], ["b", "q"]], tp.annotators([S, S]), list("abc"), "got 'q' at row 1"),
        ([[0, 1], [3, 1]], tp.annotators([S, S]), None, r"expected answers in \[0, 3\)"),
    ],
)
def test_wrong_labels_are_one_clear_sentence(y: object, transition: object, classes: object, message: str) -> None:
    with pytest.raises(tp.InputError, match=message) as caught:
        both(y, transition, classes)
    assert "\n" not in str(caught.value)


GAPS = ([None, "a", "b", "c"], [np.nan, "a", "b", "c"], pd.Series([pd.NA, "a", "b", "c"]), ["", "a", "b", "c"],
        np.array([" ", "a", "b", "c"]), pd.Categorical([None, "a", "b", "c"]))  # fmt: skip


@pytest.mark.parametrize("y", GAPS, ids=repr)
def test_a_missing_label_is_one_wherever_data_are_read(y: object) -> None:
    space = settle(y, S)
    labels, missing = space.read(y)
    assert missing.tolist() == [True, False, False, False]
    assert labels[1:].tolist() == [0, 1, 2]
    with pytest.raises(tp.InputError, match=r"got a missing one \(NaN or None\) at row 0"):
        space.encode(y)


@pytest.mark.parametrize("y", [np.array([0, 1, np.nan]), pd.Series([0, 1, pd.NA], dtype="Int64"), [0, 1, None]])
def test_numbers_beside_a_gap_stay_rows(y: object) -> None:
    assert settle(y, tp.pair_noise(3, 0.2)).missing(y).tolist() == [False, False, True]


def test_case_alone_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="'Cat' and 'cat' differ by case alone"):
        assert both(["cat", "dog", "Cat"], None)[0] == ["Cat", "cat", "dog"]


def test_numbers_are_names_where_they_say_how_many_classes_there_are() -> None:
    for T in ("symmetric:0.2", None):
        assert both(np.array([30, 10, 20]), T) == ([10, 20, 30], [2, 0, 1])


def test_a_coding_of_two_classes_is_taken_as_such() -> None:
    assert both([1, -1, 1], tp.symmetric_noise(2, 0.1)) == ([-1, 1], [1, 0, 1])
    assert both([1, -1, 1], None) == ([-1, 1], [1, 0, 1])


def test_tables_name_classes_and_labels() -> None:
    table = pd.DataFrame([[0.9, 0.3], [0.1, 0.7]], index=["ham", "spam"], columns=["ham", "spam"])
    T = tp.Transition(table)
    assert (T.classes, T.label_kind) == (["ham", "spam"], "classes")
    turned = tp.Transition(table.loc[["spam", "ham"], ["spam", "ham"]])
    for t in (T, turned, tp.Transition(table.loc[["spam", "ham"]])):
        ours = settle_sorted(["ham", "spam"], t)
        by_name = ours.transition.matrix()[ours.encode(["ham", "spam"])]
        np.testing.assert_array_equal(by_name, table.to_numpy())


@pytest.mark.parametrize("names", [("weak", "true"), ("label", "class"), ("noisy", None), (None, "y_true")])
def test_a_table_of_counts_is_read_by_the_names_of_its_axes(names: tuple) -> None:
    counts = pd.DataFrame([[30, 5], [2, 40]], index=["a", "b"], columns=["a", "b"])
    counts.index.name, counts.columns.name = names
    T = tp.Transition.from_counts(counts)
    np.testing.assert_allclose(T.matrix(), tp.Transition.from_counts(counts.T).matrix())
    np.testing.assert_allclose(T.matrix(), tp.Transition.from_counts(counts.to_numpy()).matrix())
    assert T.classes == ["a", "b"]


def test_other_answers_need_someone_to_say_what_classes_are() -> None:
    y = ["a", "b", "unsure"] * 30
    T = tp.Transition([[0.8, 0.1], [0.1, 0.6], [0.1, 0.3]], weak_labels=["a", "b", "unsure"]).named(["a", "b"])
    assert both(y, T)[1][:3] == [0, 1, 2]
    X = np.random.default_rng(0).normal(size=(90, 2))
    true = np.array(["a", "b", None] * 30, dtype=object)
    with pytest.warns(UserWarning, match="'unsure' names no class"):
        clf = tp.WeakLabelClassifier("estimate", calibrate=False).fit(X, y, true=true)
    assert clf.classes_.tolist() == ["a", "b"]
    assert clf.transition_.labels.names == ["a", "b", "unsure"]
    with pytest.raises(tp.InputError, match="got 'never' at row 0"):
        clf.score(X[:1], ["never"])


def test_what_a_table_of_labels_is_nobody_guesses() -> None:
    X, masks = np.zeros((40, 2)), np.eye(4, dtype=bool)[np.arange(40) % 4]
    for y in (masks, masks.tolist(), masks.astype(object), pd.DataFrame(masks), [["a", "b"]] * 40):
        with pytest.raises(tp.InputError, match=r"y: expected a kind of label beside .*'annotators'.*'partial'"):
            tp.WeakLabelClassifier("estimate").fit(X, y)


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_tensors_with_gradients_and_of_types_numpy_does_not_know_are_features(model):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = torch.tensor(rng.normal(size=(60, 2)) + y[:, None], dtype=torch.bfloat16)
    classifier = tp.WeakLabelClassifier(tp.identity(3), model=model, epochs=3, calibrate=False, random_state=0)
    expected = classifier.fit(X.float().numpy(), y).predict_proba(X.float().numpy())
    p = classifier.fit(X.requires_grad_(), y).predict_proba(X)
    np.testing.assert_array_equal(p, expected)


def test_columns_of_candidates_are_taken_by_name():
    T, names = tp.partial_labels(3, 0.3), ["ant", "bee", "cat"]
    masks = pd.DataFrame(T.sample(np.arange(30) % 3, 0), columns=names)
    space = T.named(names).labels
    np.testing.assert_array_equal(space.encode(masks), masks.to_numpy())
    np.testing.assert_array_equal(space.encode(masks[["cat", "ant", "bee"]]), masks.to_numpy())
    with pytest.raises(tp.InputError, match=r"^y: expected the columns \['ant', 'bee', 'cat'\] by name"):
        space.encode(masks.rename(columns={"ant": "aunt"}))
    with pytest.raises(tp.InputError, match="got an array, whose columns would be read in sorted order"):
        T.named(["cat", "ant", "bee"]).labels.encode(masks.to_numpy())


@pytest.mark.parametrize("names", [[1, 0], ["yes", "no"], [True, False], ["a", "b"]], ids=str)
@pytest.mark.parametrize("given", ["classes", "T", "frame"])
def test_scikit_learn_scores_find_the_columns_where_they_take_them_to_be(names: list, given: str):
    """In whatever order the names of T's columns stand: roc_auc said .004 for .996."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=600)
    X, T = rng.normal(size=(600, 3)) + 2.5 * (z == 0)[:, None], tp.binary_noise(0.1, 0.3)
    clean, weak = np.array(names)[z], np.array(names)[T.sample(z, 1)]
    if given == "frame":
        T = tp.Transition(pd.DataFrame(T.matrix(), index=names, columns=names))
    elif given == "T":
        T = T.named(names)
    settings = {"classes": names} if given == "classes" else {}
    clf = tp.WeakLabelClassifier(T, calibrate=False, **settings).fit(X, weak)
    assert clf.classes_.tolist() == sorted(names)
    assert get_scorer("neg_log_loss")(clf, X, clean) > -0.3
    assert roc_auc_score(clean == clf.classes_[1], clf.predict_proba(X)[:, 1]) > 0.99
    if names == [1, 0]:
        assert get_scorer("roc_auc")(clf, X, clean) > 0.99
    assert (clf.transition_.matrix() == tp.binary_noise(0.1, 0.3).matrix()[::-1, ::-1]).all() or sorted(names) == names
    again = tp.WeakLabelClassifier(T, calibrate=False, **settings).fit(X, weak)
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))  # T itself is as it was
