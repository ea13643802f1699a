"""Labels as people have them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import tproper as tp
from tproper.learn.labels import encode, resolve
from tproper.learn.truth import encode_both

S = tp.symmetric_noise(3, 0.2)


def both(y: object, transition: object, classes: object = None) -> tuple[list, list]:
    T, names = resolve(y, transition, classes)
    return names.tolist(), encode(y, T, names).tolist()


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        (["b", "a", "c", "a"], ["a", "b", "c"], [1, 0, 2, 0]),
        (np.array([30, 10, 20]), [10, 20, 30], [2, 0, 1]),
        (np.array(["x", "z", "y"], dtype=object), ["x", "y", "z"], [0, 2, 1]),
        (pd.Series(["x", "z", "y"], dtype="category"), ["x", "y", "z"], [0, 2, 1]),
        (torch.tensor([0, 2, 2]), [0, 1, 2], [0, 2, 2]),
        ([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0, 1, 2]),
        (np.array([0, 2], dtype=np.uint8), [0, 1, 2], [0, 2]),
    ],
)
def test_names_of_classes(y: object, classes: list, codes: list) -> None:
    assert both(y, S) == (classes, codes)


def test_given_classes_keep_their_order() -> None:
    assert both(["b", "a"], S, ["c", "b", "a"]) == (["c", "b", "a"], [1, 2])
    assert both([1, 0, 2], S, ["c", "b", "a"])[1] == [1, 0, 2]  # integers index, since no class is one


def test_clean_labels_and_open_number_of_classes() -> None:
    T, names = resolve(["u", "v", "w"], None)
    assert (T.name, names.tolist()) == ("identity(3)", ["u", "v", "w"])
    T, names = resolve([True, False], "complementary")
    assert (T.num_classes, names.tolist()) == (2, [False, True])
    T, _ = resolve(np.ones((4, 7), dtype=bool), "partial:0.3")
    assert T.num_classes == 7
    T, names = resolve([["a"], ["b", "c"]], "partial:0.3")
    assert (T.num_classes, names.tolist()) == (3, ["a", "b", "c"])


def test_candidate_sets() -> None:
    T = tp.partial_labels(3, 0.3)
    mask = [[True, False, True], [False, True, False]]
    for y in (
        np.array(mask),
        mask,
        np.array(mask, dtype=int),
        np.array(mask, dtype=float),
        torch.tensor(mask),
        pd.DataFrame(mask, columns=list("abc")),
        [{0, 2}, {1}],
        [[0, 2], [1]],
        [(0, 2), (1,)],
        np.array([[0, 2], [1]], dtype=object),
        pd.Series([[0, 2], [1]]),
    ):
        assert both(y, T) == ([0, 1, 2], mask)
        assert resolve(y, "partial:0.3")[0].num_classes == 3  # as many as the masks have columns
    assert both([["a", "c"], ["b"]], T) == (["a", "b", "c"], mask)
    assert both([["a", "c"], ["b"]], T, ["c", "b", "a"])[1] == [[True, False, True], [False, True, False]]


def test_weak_labels_of_their_own_kind() -> None:
    assert both([0, 1, 1], tp.positive_unlabeled(0.5)) == ([0, 1], [0, 1, 1])
    assert both([0, 1, 1], tp.positive_unlabeled(0.5), ["spam", "ham"]) == (["spam", "ham"], [0, 1, 1])
    bags = tp.unlabeled_sets([[0.2, 0.8], [0.7, 0.3], [0.5, 0.5]], [1, 1, 1])
    assert both([2, 0], bags, ["n", "p"])[1] == [2, 0]
    named = tp.Transition([[0.5, 0.1], [0.5, 0.2], [0.0, 0.7]], weak_labels=["lo", "mid", "hi"])
    assert both(["hi", "lo"], named)[1] == [2, 0]
    coarse = tp.coarse_labels([[0, 1], [2, 3]])
    assert both([1, 0], coarse)[1] == [1, 0]
    assert both([{"c", "d"}, {"a", "b"}], coarse, list("abcd"))[1] == [1, 0]


def test_several_sources() -> None:
    T = tp.multi_source([tp.symmetric_noise(3, 0.1), tp.partial_labels(3, 0.2), tp.coarse_labels([[0, 1], [2]])])
    rows = T.encode(np.array([[0, 2], [2, 1]])).tolist()
    assert both(np.array([[0, 2], [2, 1]]), T)[1] == rows
    assert both([(0, "c"), (2, 1)], T, ["a", "b", "c"])[1] == rows
    assert both([(0, "c"), (2, {"c"})], T, ["a", "b", "c"])[1] == rows
    index = T.sources[1].candidate_sets().index(frozenset({0, 2}))  # type: ignore[attr-defined]
    assert both([(1, {"a", "c"})], T, ["a", "b", "c"])[1] == [3 + index]
    assert both(rows, T)[1] == rows  # stacked rows


@pytest.mark.parametrize(
    ("y", "transition", "classes", "message"),
    [
        (["a", "d"], S, ["a", "b", "c"], "expected labels among 'a', 'b', 'c', got 'd' at row 1"),
        (["a", "b"], S, None, "expected labels of 3 classes, as the transition has, got 2 distinct ones"),
        ([3, 1, 0], S, [0, 1, 2], "got 3 at row 0"),
        (["a", "a"], None, None, "got only one class: 'a'"),
        (["a", None], None, None, "got a missing one"),
        (["a", "b", np.nan], None, None, r"got a missing one \(NaN or None\) at row 2"),
        (np.ma.masked_equal([0, 1], 1), None, None, "y: expected no masked entries, got 1"),
        (["yes", "unlabeled"], "pu:0.5", ["unlabeled", "yes"], "classes: expected the positive class first"),
        (["a", "b"], None, ["a", "a"], "expected distinct class names"),
        (
            ["no", "yes"],
            tp.binary_noise(0.3, 0.1),
            None,
            "`classes` in the order of T's columns, got labels 'no', 'yes'",
        ),
        (
            [True, False],
            tp.binary_noise(0.3, 0.1),
            None,
            "`classes` in the order of T's columns, got labels False, True",
        ),
        ([-1, 1], tp.binary_noise(0.3, 0.1), None, "`classes` in the order of T's columns, got labels -1, 1"),
        ([1, 2, 3], tp.pair_noise(4, 0.1), None, "in the order of T's columns, got numbers without 0, 1, 2, 3"),
        ([[0], [5]], tp.partial_labels(3, 0.1), None, "expected labels of 3 classes"),
        (
            [["a"], ["q"]],
            tp.partial_labels(3, 0.1),
            list("abc"),
            "expected classes among 'a', 'b', 'c', got 'q' at row 1",
        ),
        ([[0, 1], []], tp.partial_labels(3, 0.1), None, "an empty one at row 1"),
        ([0, 1], tp.partial_labels(3, 0.1), None, "expected candidate sets"),
        ([[0, 1], [2]], S, None, "candidate sets need a transition such as"),
        ([2, 0], tp.positive_unlabeled(0.5), None, "expected labels among 0, 1, got 2 at row 0"),
        ([(5, 0)], tp.multi_source([S, S]), None, "with a source in"),
        ([], None, None, "at least one label"),
        (["a", 1], None, None, "a mix of int, str"),
    ],
)
def test_wrong_labels_are_one_clear_sentence(y: object, transition: object, classes: object, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        both(y, transition, classes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_tensors_with_gradients_and_of_types_numpy_does_not_know_are_features(model):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = torch.tensor(rng.normal(size=(60, 2)) + y[:, None], dtype=torch.bfloat16)
    classifier = tp.WeakLabelClassifier(tp.identity(3), model=model, epochs=3, calibrate=False, random_state=0)
    expected = classifier.fit(X.float().numpy(), y).predict_proba(X.float().numpy())
    p = classifier.fit(X.requires_grad_(), y).predict_proba(X)
    np.testing.assert_array_equal(p, expected)


def test_numbers_as_text_are_not_put_in_the_order_of_their_letters():
    """'10' comes before '2': T's columns would be those of other classes. Where all classes are alike it is all one."""
    y = tp.pair_noise(11, 0.2).sample(np.arange(220) % 11, 0).astype(str)
    with pytest.raises(
        ValueError,
        match=r"^y: expected `classes` in the order of T.s columns, got numbers as text, sorted '0', '1', '10', '2'",
    ):
        resolve(y, tp.pair_noise(11, 0.2))
    names = [str(z) for z in range(11)]
    assert resolve(y, tp.pair_noise(11, 0.2), names)[1].tolist() == names
    assert len(resolve(y, tp.symmetric_noise(11, 0.2))[1]) == 11
    assert resolve(y.astype(object), tp.pair_noise(3, 0.2), ["0", "1", "2"])[1].tolist() == ["0", "1", "2"]


def test_columns_of_candidates_stand_in_the_order_of_the_classes():
    T, names = tp.partial_labels(3, 0.3), np.array(["ant", "bee", "cat"])
    masks = pd.DataFrame(T.sample(np.arange(30) % 3, 0), columns=names)
    np.testing.assert_array_equal(encode(masks, T, names), masks.to_numpy())
    with pytest.raises(ValueError, match=r"^y: expected the columns \['ant', 'bee', 'cat'\], in the order"):
        encode(masks[["cat", "ant", "bee"]], T, names)
    with pytest.raises(ValueError, match=r"^y: expected the columns"):
        encode_both(masks[["cat", "ant", "bee"]], ["ant"] + 29 * [None], T, names)
