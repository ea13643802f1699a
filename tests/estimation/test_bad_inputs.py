"""Every function that gets T from data, or judges it, meets every fault that its inputs can have.

One table, function by fault. A cell is what happens: an error that names an argument, a warning, or a result that
says so; None where the fault cannot occur, because the function takes no such input.
"""

import warnings

import numpy as np
import pytest

import tproper as tp

FAULTS = (
    "unknown labels",
    "one annotator",
    "no overlap",
    "a class without clean rows",
    "contradictory gold",
    "counts of zero",
    "NaN",
)
nan = np.nan
WEAK = np.arange(40) % 3
TRUE = np.where(np.arange(40) < 20, WEAK, -1)
NO_TWO = np.where(TRUE == 2, -1, TRUE)  # class 2 is never seen
TABLE = np.stack([WEAK, WEAK, (WEAK + (np.arange(40) % 7 == 0)) % 3], axis=1)
ALONE = np.where(np.eye(3, dtype=bool)[np.arange(40) % 3], TABLE, -1)  # no item has two answers
MASKS = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [0, 1, 0]] * 10, dtype=bool)
LABELED, SCORES = np.arange(60) < 30, np.linspace(-1, 1, 60)
BAGS = [[0.5, 0.5], [0.2, 0.8]]
T2, T3 = tp.symmetric_noise(2, 0.2), tp.symmetric_noise(3, 0.2)
PAIR = tp.annotators([T3, T3])
X = np.stack([np.sin(np.arange(40)), np.cos(np.arange(40))], axis=1)


class Error(str):
    """The argument that an input error names."""


class Warns(str):
    """Part of a warning."""


class Says(str):
    """Part of what the result prints, or of its notes."""


Cell = tuple[object, Error | Warns | Says] | None

CASES: dict[str, list[Cell]] = {
    "estimate_transition": [
        (lambda: tp.estimate_transition(["a", "b"], true=[0, 1]), Error("weak")),
        None,
        (lambda: tp.estimate_transition(WEAK, true=np.full(40, -1)), Error("true")),
        (lambda: tp.estimate_transition(WEAK, true=NO_TWO, num_classes=3), Says("class 2: no counts, so the column")),
        None,
        (lambda: tp.estimate_transition([], true=[]), Error("weak")),
        (
            lambda: tp.estimate_transition(WEAK, true=np.where(TRUE < 0, nan, TRUE)),
            Error("true"),
        ),
    ],
    "estimate_transition, features": [
        (lambda: tp.estimate_transition([0.5] * 40, X=X), Error("weak")),
        None,
        None,
        (lambda: tp.estimate_transition(WEAK, true=NO_TWO, X=X, random_state=0), Warns("these data do not")),
        None,
        (lambda: tp.estimate_transition(WEAK * 0, X=X), Error("num_classes")),
        (lambda: tp.estimate_transition(WEAK, X=X * nan), Error("X")),
    ],
    "estimate_transition, candidate sets": [
        (lambda: tp.estimate_transition(MASKS * 2), Error("labels")),
        None,
        None,
        (
            lambda: tp.estimate_transition(MASKS & [True, True, False] | [False, True, False]),
            Warns("that all classes are included at the same rate has p = "),
        ),
        (
            lambda: tp.estimate_transition(MASKS, true=np.where(np.arange(40) == 0, 2, -1)),
            Error("true"),
        ),
        (lambda: tp.estimate_transition(MASKS & False), Error("labels")),
        (lambda: tp.estimate_transition(MASKS * nan), Error("labels")),
    ],
    "Transition.from_counts": [
        (lambda: tp.Transition.from_counts([["a", "b"], ["c", "d"]]), Error("counts")),
        None,
        None,
        (lambda: tp.Transition.from_counts([[9, 0], [1, 0]]), Says("class 1: no counts, so the column is what")),
        None,
        (lambda: tp.Transition.from_counts(np.zeros((2, 2))), Error("counts")),
        (lambda: tp.Transition.from_counts([[9, nan], [1, 0]]), Error("counts")),
    ],
    "annotators": [
        (lambda: PAIR.encode([[0, 3]]), Error("labels")),
        (lambda: tp.annotators([]), Error("transitions")),
        (
            lambda: tp.weak_accuracy(np.full((4, 2), -1), [0, 0, 1, 1], PAIR),
            Error("labels"),
        ),
        None,
        None,
        None,
        (lambda: PAIR.encode([[0, nan]]), Error("labels")),
    ],
    "estimate_annotators": [
        (lambda: tp.estimate_annotators([["a", 1]]), Error("answers")),
        (lambda: tp.estimate_annotators(TABLE[:, :1]), Warns("there are only 1 of them")),
        (lambda: tp.estimate_annotators(ALONE), Warns("no item has answers from three of them")),
        (lambda: tp.estimate_annotators(TABLE, true=NO_TWO), Says("14 items with a known class keep it")),
        (
            lambda: tp.estimate_annotators(tp.Answers([0, 0, 1], [0, 1, 2], [0, 1, 1]), [0, 1, 1]),
            Error("true"),
        ),
        (lambda: tp.estimate_annotators(TABLE * 0 - 1), Error("answers")),
        (lambda: tp.estimate_annotators(TABLE * nan), Error("answers")),
    ],
    "estimate_pu": [
        (lambda: tp.estimate_pu(["p", "u"] * 30, scores=SCORES), Error("labeled")),
        None,
        None,
        (lambda: tp.estimate_pu(LABELED & False, scores=SCORES), Error("labeled")),
        None,
        (lambda: tp.estimate_pu(LABELED | True, scores=SCORES), Error("labeled")),
        (lambda: tp.estimate_pu(np.where(LABELED, 1, nan), scores=SCORES), Error("labeled")),
    ],
    "positive_unlabeled(prior=)": [
        (lambda: tp.positive_unlabeled(0.5).encode([0, 2]), Error("labels")),
        None,
        None,
        None,
        (
            lambda: tp.positive_unlabeled(prior=0.1, labeled=20, n=100),
            Error("prior"),
        ),
        (lambda: tp.positive_unlabeled(prior=0.5, labeled=0, n=0), Error("n")),
        (lambda: tp.positive_unlabeled(prior=nan, labeled=1, n=9), Error("prior")),
    ],
    "unlabeled_sets(prior=)": [
        (lambda: tp.unlabeled_sets(BAGS, [1, 1]).encode([2]), Error("labels")),
        None,
        None,
        (
            lambda: tp.unlabeled_sets([[1, 0], [1, 0]], [1, 1], prior=[0.5, 0.5]),
            Error("proportions"),
        ),
        None,
        (lambda: tp.unlabeled_sets(BAGS, [0, 1], prior=[0.5, 0.5]), Error("sizes")),
        (lambda: tp.unlabeled_sets(BAGS, [1, 1], prior=[nan, 0.5]), Error("prior")),
    ],
    "check_transition": [
        (lambda: tp.check_transition(["a", "b", "c"], T2), Error("labels")),
        (lambda: tp.check_transition(TABLE[:, :1], tp.annotators([T3])), Says("No item has two answers")),
        (lambda: tp.check_transition(ALONE[:, :2], PAIR), Says("No item has two answers")),
        (lambda: tp.check_transition(WEAK % 2, tp.Transition.from_counts([[9, 0], [1, 0]])), Says("may come")),
        None,
        (lambda: tp.check_transition([], T2), Error("labels")),
        (lambda: tp.check_transition([nan, nan], T2), Error("labels")),
    ],
    "weak_prevalence": [
        (lambda: tp.weak_prevalence([0, 4], T3), Error("labels")),
        (lambda: tp.weak_prevalence(TABLE[:, :1], tp.annotators([T3])), Says("class shares from 40 weak labels")),
        (lambda: tp.weak_prevalence(ALONE[:, :2], PAIR), Says("class shares from 27 weak labels")),
        (
            lambda: tp.weak_prevalence(WEAK % 2, tp.Transition.from_counts([[90, 0], [10, 0]])),
            Says("100 of class 1 would help most"),
        ),
        None,
        (
            lambda: tp.weak_prevalence(np.full((4, 2), -1), PAIR),
            Error("labels"),
        ),
        (lambda: tp.weak_prevalence([nan, nan], T3), Error("labels")),
    ],
}  # fmt: skip
CELLS = [
    pytest.param(*cell, id=f"{function}: {fault}")
    for function, row in CASES.items()
    for fault, cell in zip(FAULTS, row, strict=True)
    if cell is not None
]


@pytest.mark.parametrize(("call", "expected"), CELLS)
def test_every_function_meets_every_fault(call, expected):
    if isinstance(expected, Error):
        with pytest.raises(tp.InputError) as caught:
            call()
        assert caught.value.argument == expected
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    if isinstance(expected, Warns):
        assert any(expected in str(w.message) for w in caught), [str(w.message) for w in caught]
    else:
        assert expected in "\n".join([str(result), *getattr(result, "notes", [])])
