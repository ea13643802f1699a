"""The registry of wrong calls: every rule about inputs, and the argument that the error names.

What an error says may be improved by anybody; that it is an `InputError`, and which argument it names, may not change.
A call whose error is about no argument, or owes the user a certain advice, says which words must be there.
"""

import math

import numpy as np
import pytest
import torch

import tproper as tp

T3 = tp.symmetric_noise(3, 0.2)
LOSS = tp.BackwardLoss(T3)
V = torch.zeros(2, 3)
SETS = tp.partial_labels(3, 0.2)
TALL = tp.Transition([[0.5, 0.2], [0.3, 0.3], [0.2, 0.5]])

CASES = {
    # T
    "column sums": (
        lambda: tp.Transition([[0.9, 0.2], [0.2, 0.8]]),
        "matrix",
    ),
    "transposed": (
        lambda: tp.Transition([[0.9, 0.1], [0.3, 0.7]]),
        "matrix",
    ),
    "negative": (
        lambda: tp.Transition([[1.1, 0.0], [-0.1, 1.0]]),
        "matrix",
    ),
    "nan": (
        lambda: tp.Transition([[math.nan, 0.0], [0.0, 1.0]]),
        "matrix",
    ),
    "ragged": (
        lambda: tp.Transition([[1.0], [0.5, 0.5]]),
        "matrix",
    ),
    "one class": (
        lambda: tp.Transition([[1.0]]),
        "matrix",
    ),
    "vector": (lambda: tp.Transition([0.5, 0.5]), "matrix"),
    "empty matrix": (
        lambda: tp.Transition(np.zeros((0, 2))),
        "matrix",
    ),
    "words": (lambda: tp.Transition([["a", "b"]]), "matrix"),
    "mask": (
        lambda: tp.Transition(np.ma.masked_equal(np.eye(2), 0)),
        "matrix",
    ),
    "names": (
        lambda: tp.Transition(np.eye(2), weak_labels=["a"]),
        "weak_labels",
    ),
    "same name twice": (
        lambda: tp.Transition(np.eye(3), weak_labels=["a", "b", "a"]),
        "weak_labels",
    ),
    "names that are none": (
        lambda: tp.Transition(np.eye(2), weak_labels=5),
        "weak_labels",
    ),
    "names without an order": (
        lambda: tp.Transition(np.eye(2), weak_labels={"a", "b"}),
        "weak_labels",
    ),
    "names that are lists": (
        lambda: tp.Transition(np.eye(2), weak_labels=[["a"], ["b"]]),
        "weak_labels",
    ),
    "ragged pairs": (lambda: tp.multi_source([T3]).encode([[0], [0, 1]]), "labels"),
    "critical k of an array": (
        lambda: tp.critical_k(np.eye(2)),
        "transition",
    ),
    "decomposition by an array": (
        lambda: tp.decompose(np.ones((2, 3)), np.eye(3)),
        "transition",
    ),
    "decomposition of words": (
        lambda: tp.decompose([["a", "b", "c"]], T3),
        "loss_table",
    ),
    "decomposition of a ragged list": (
        lambda: tp.decompose([[1.0, 2.0, 3.0], [1.0]], T3),
        "loss_table",
    ),
    "one source, no list": (
        lambda: tp.multi_source(T3),
        "transitions",
    ),
    "seed": (lambda: T3.sample([0, 1], 2.5), "seed"),
    "negative seed": (lambda: T3.sample([0], -1), "seed"),
    "calibration weights": (
        lambda: tp.calibrate(np.zeros((2, 3)), [0, 1], T3, sample_weight=["a", "b"]),
        "sample_weight",
    ),
    "masked weights": (
        lambda: tp.calibrate(np.zeros((2, 3)), [0, 1], T3, sample_weight=np.ma.masked_equal([1, 2], 2)),
        "sample_weight",
    ),
    "hidden layers": (
        lambda: tp.WeakLabelClassifier(model="mlp", hidden=None).fit(np.eye(4), [0, 1, 0, 1]),
        "hidden",
    ),
    "complex matrix": (
        lambda: tp.Transition([[1, 1j], [0, 1 - 1j]]),
        "matrix",
    ),
    "R of a matrix": (
        lambda: tp.Reconstruction(np.eye(2), np.eye(2)),
        "transition",
    ),
    "words for class weights": (
        lambda: tp.BackwardLoss(tp.identity(2), class_weights=["a", "b"]),
        "class_weights",
    ),
    "words for weights": (
        lambda: tp.weak_accuracy([0, 1], [0, 1], tp.identity(2), sample_weight=["a", "b"]),
        "sample_weight",
    ),
    "a word for transitions": (
        lambda: tp.BackwardLoss(tp.identity(2))(torch.zeros(1, 2), [0], transitions="x"),
        "transitions",
    ),
    "a number among sets": (
        lambda: tp.ForwardLoss(tp.partial_labels(3, 0.2))(torch.zeros(2, 3), [{1}, 2]),
        "labels",
    ),
    "complex labels": (
        lambda: tp.ForwardLoss(tp.partial_labels(3, 0.2))(torch.zeros(1, 3), np.ones((1, 3), dtype=complex)),
        "labels",
    ),
    "set of unknown classes": (
        lambda: tp.Transition(np.eye(2), weak_labels=[{0}, {2}]),
        "labels",
    ),
    # families
    "K": (lambda: tp.identity(1), "K"),
    "K is no integer": (lambda: tp.complementary(3.5), "K"),
    "K is a bool": (lambda: tp.complementary(True), "K"),
    "p above one": (lambda: tp.symmetric_noise(3, 1.2), "p"),
    "p is a word": (lambda: tp.symmetric_noise(3, "0.2"), "p"),
    "p is nan": (lambda: tp.partial_labels(3, math.nan), "p"),
    "r": (lambda: tp.positive_unlabeled(-0.1), "r"),
    "noise": (lambda: tp.complementary(3, noise=2), "noise"),
    "weights shape": (
        lambda: tp.complementary(3, weights=np.ones((2, 2))),
        "weights",
    ),
    "weights diagonal": (
        lambda: tp.complementary(2, weights=np.ones((2, 2))),
        "weights",
    ),
    "weights negative": (
        lambda: tp.complementary(2, weights=[[0, -1], [1, 0]]),
        "weights",
    ),
    "m": (lambda: tp.multi_complementary(3, 3), "m"),
    "pair of many": (lambda: tp.pair_noise(50_000, 0.1), "K"),
    "sizes": (lambda: tp.unlabeled_sets([[0.5, 0.5]], [0]), "sizes"),
    "sizes in words": (
        lambda: tp.unlabeled_sets([[0.5, 0.5]], ["x"]),
        "sizes",
    ),
    "proportions": (
        lambda: tp.unlabeled_sets([[0.5, 0.6]], [1]),
        "proportions",
    ),
    "class in no bag": (
        lambda: tp.unlabeled_sets([[1.0, 0.0]], [1]),
        "proportions",
    ),
    "groups overlap": (
        lambda: tp.coarse_labels([[0, 1], [1]]),
        "groups",
    ),
    "groups not lists": (
        lambda: tp.coarse_labels([0, 1]),
        "groups",
    ),
    "no sources": (lambda: tp.multi_source([]), "transitions"),
    "sources differ": (
        lambda: tp.multi_source([tp.identity(2), tp.identity(3)]),
        "transitions",
    ),
    "source weights": (
        lambda: tp.multi_source([T3, T3], weights=[0.5, 0.6]),
        "weights",
    ),
    "source weight of zero": (
        lambda: tp.multi_source([T3, T3], weights=[0.0, 1.0]),
        "weights",
    ),
    "enumeration": (
        lambda: tp.partial_labels(13, 0.1).matrix(),
        None,
    ),
    "huge table": (lambda: tp.complementary(50_000).matrix(), None),
    # R
    "method": (
        lambda: T3.reconstruction("inv"),
        "method",
    ),
    "matrix for a method": (lambda: T3.reconstruction(np.eye(3)), "method"),
    "inverse of a tall T": (
        lambda: TALL.reconstruction("inverse"),
        "method",
    ),
    "rank": (
        lambda: tp.coarse_labels([[0, 1], [2]]).reconstruction(),
        "transition",
    ),
    "rank in a loss": (
        lambda: tp.BackwardLoss(tp.symmetric_noise(4, 0.75)),
        "transition",
    ),
    "R": (
        lambda: tp.Reconstruction(np.eye(3), T3),
        "matrix",
    ),
    "R of another shape": (
        lambda: tp.Reconstruction(np.eye(2), T3),
        "matrix",
    ),
    "R transposed": (lambda: tp.Reconstruction(TALL.matrix(), TALL), "matrix"),
    "R of another T": (
        lambda: tp.BackwardLoss(T3, reconstruction=tp.symmetric_noise(3, 0.2 + 1e-9).reconstruction()),
        "reconstruction",
    ),
    "prior sum": (
        lambda: TALL.reconstruction(prior=[0.5, 0.6]),
        "prior",
    ),
    "prior of zero": (
        lambda: TALL.reconstruction(prior=[0.0, 1.0]),
        "prior",
    ),
    "prior length": (lambda: TALL.reconstruction(prior=[1.0]), "prior"),
    "prior unused": (
        lambda: TALL.reconstruction("pinv", prior=[0.5, 0.5]),
        "prior",
    ),
    # F
    "k": (lambda: tp.LogSumExp().squeezed(-1, 2), "k"),
    "k is nan": (lambda: tp.LogSumExp().squeezed(math.nan, 2), "k"),
    "alpha zero": (lambda: tp.LogSumExp().squeezed(1, 0), "alpha"),
    "alpha below one": (
        lambda: tp.LogSumExp().squeezed(1, 0.5),
        "alpha",
    ),
    "Tsallis at one": (lambda: tp.Tsallis(1), "a"),
    "Tsallis below zero": (lambda: tp.Tsallis(-1), "a"),
    "domain": (lambda: tp.Brier(domain="ball"), "domain"),
    "no function": (lambda: tp.ConvexPotential(3, domain="affine"), "function"),
    "no risk": (lambda: tp.BayesRisk(3), "function"),
    "integer scores for F": (
        lambda: tp.LogSumExp().value(torch.zeros(3, dtype=torch.long)),
        "v",
    ),
    "inverse link at the edge": (
        lambda: tp.LogSumExp().inverse_link(torch.tensor([1.0, 0.0])),
        "p",
    ),
    "inverse link outside": (
        lambda: tp.Sparsemax().inverse_link(torch.tensor([1.5, -0.5])),
        "p",
    ),
    # losses
    "transition": (lambda: tp.BackwardLoss(np.eye(3)), "transition"),
    "potential": (
        lambda: tp.BackwardLoss(T3, potential="brier"),
        "potential",
    ),
    "squeeze": (lambda: tp.BackwardLoss(T3, squeeze=1.0), "squeeze"),
    "reduction": (
        lambda: tp.ForwardLoss(T3, reduction="avg"),
        "reduction",
    ),
    "class weights": (
        lambda: tp.BackwardLoss(T3, class_weights=[1, 2]),
        "class_weights",
    ),
    "scores as lists": (lambda: LOSS([[0.0] * 3], [0]), "scores"),
    "integer scores": (
        lambda: LOSS(V.long(), [0, 1]),
        "scores",
    ),
    "scores of other classes": (
        lambda: LOSS(torch.zeros(2, 4), [0, 1]),
        "scores",
    ),
    "empty batch": (lambda: LOSS(torch.zeros(0, 3), []), "scores"),
    "labels with a hole": (
        lambda: T3.encode([0.0, float("nan"), 2.0]),
        "labels",
    ),
    "labels with None": (
        lambda: T3.encode(np.array([0, 1, None, None], dtype=object)),
        "labels",
    ),
    "empty labels": (lambda: T3.encode([]), "labels"),
    "no integer": (lambda: LOSS(V, torch.tensor([0.0, 1.0])), "labels"),
    "booleans": (lambda: LOSS(V, [True, False]), "labels"),
    "names of labels": (
        lambda: LOSS(V, ["cat", "dog"]),
        "labels",
    ),
    "ragged labels": (lambda: LOSS(V, [[0], [1, 2]]), "labels"),
    "masked labels": (lambda: LOSS(V, np.ma.masked_equal([0, 1], 1)), "labels"),
    "label too large": (lambda: LOSS(V, [0, 3]), "labels"),
    "label below zero": (lambda: LOSS(V, [0, -1]), "labels"),
    "number of labels": (
        lambda: LOSS(V, [0, 1, 2]),
        "labels",
    ),
    "class too large": (lambda: T3.sample([0, 3], seed=0), "y"),
    "indices for masks": (
        lambda: SETS.encode([0, 1]),
        "labels",
    ),
    "masks of other numbers": (
        lambda: SETS.encode([[0, 1, 2]]),
        "labels",
    ),
    "empty set": (
        lambda: SETS.encode([[1, 0, 0], [0, 0, 0]]),
        "labels",
    ),
    "set of strange things": (
        lambda: SETS.encode([{"a"}]),
        "labels",
    ),
    "set of the wrong size": (
        lambda: tp.multi_complementary(4, 2).encode([[1, 1, 0, 0], [1, 1, 1, 0]]),
        "labels",
    ),
    "source of a pair": (
        lambda: tp.multi_source([T3, tp.coarse_labels([[0], [1, 2]])]).encode([(0, 2), (1, 2)]),
        "labels",
    ),
    "weights of another shape": (
        lambda: LOSS(V, [0, 1], weights=torch.ones(3)),
        "weights",
    ),
    "weights below zero": (
        lambda: LOSS(V, [0, 1], weights=[1.0, -1.0]),
        "weights",
    ),
    "weights nan": (lambda: LOSS(V, [0, 1], weights=[1.0, math.nan]), "weights"),
    "weights all zero": (
        lambda: LOSS(V, [0, 1], weights=[0.0, 0.0]),
        "weights",
    ),
    "weights in words": (lambda: LOSS(V, [0, 1], weights=["a", "b"]), "weights"),
    "transitions of another shape": (
        lambda: LOSS(V, [0, 1], transitions=torch.eye(4)),
        "transitions",
    ),
    "transitions that are none": (
        lambda: LOSS(V, [0, 1], transitions=torch.ones(2, 3, 3)),
        "transitions",
    ),
    "transitions without rank": (
        lambda: LOSS(V, [0, 1], transitions=torch.stack([torch.eye(3), torch.full((3, 3), 1 / 3)])),
        "transitions",
    ),
    "transitions too few labels": (
        lambda: LOSS(V, [0, 1], transitions=torch.full((2, 2, 3), 0.5)),
        "transitions",
    ),
    # certificates
    "certify nothing": (lambda: tp.certify(3), "loss"),
    "certify without T": (
        lambda: tp.certify(lambda q: q),
        "transition",
    ),
    "certify seed": (lambda: tp.certify(lambda q: -q.log(), T3, seed=-1), "seed"),
    "certify with two": (lambda: tp.certify(LOSS, T3), "transition"),
    "table of another shape": (
        lambda: tp.certify(lambda q: q[:, :2], T3),
        "loss",
    ),
    "decompose": (
        lambda: tp.decompose(np.zeros((2, 4)), T3),
        "loss_table",
    ),
    "counts that are probabilities": (
        lambda: tp.Transition.from_counts(T3.matrix()),
        "counts",
    ),
    "decompose without T": (
        lambda: tp.decompose(np.zeros((2, 3)), np.eye(3)),
        "transition",
    ),
    "critical k of a matrix": (
        lambda: tp.critical_k(np.eye(3)),
        "transition",
    ),
    "comparison of a loss": (lambda: tp.comparison([LOSS]), "certificates"),
    "loss function of lists": (
        lambda: tp.ForwardLoss(T3)([[0.0, 0.0, 0.0]], [0]),
        "scores",
    ),
    "squeezing of a name": (lambda: tp.Squeezed("log", 1, 2), "base"),
    "sensitivity to a matrix": (
        lambda: tp.sensitivity("accuracy", [0, 1], [0, 1], np.eye(2)),
        "transition",
    ),
    "true for a rate": (
        lambda: tp.symmetric_noise(3, True),
        "p",
    ),
    "a table for a rate": (
        lambda: tp.symmetric_noise(3, np.zeros((40, 2))),
        "p",
    ),
    "features in words": (
        lambda: tp.estimate_pu([1, 0] * 20, ["a", "b"] * 20),
        "X",
    ),
    "decompose without points": (
        lambda: tp.decompose(lambda q: q, T3),
        "points",
    ),
}


ADVICE = {  # words that must be there beside
    "transposed": "pass the transpose",
    "R transposed": "pass the transpose",
    "matrix for a method": "Reconstruction",
    "inverse of a tall T": "min_variance",
    "rank in a loss": "cannot be told apart",
    "prior unused": "min_variance",
    "Tsallis at one": "LogSumExp",
    "weights diagonal": "noise",
    "counts that are probabilities": "tp.Transition(T)",
    "enumeration": "at most 12 classes, got 13",
    "huge table": "use targets and losses instead",
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_call_names_its_argument(name):
    call, argument = CASES[name]
    with pytest.raises(tp.InputError) as caught:
        call()
    if argument is not None:
        assert (caught.value.argument, bool(caught.value.expected)) == (argument, True)
    assert ADVICE.get(name, "") in str(caught.value)


def test_rank_deficiency_is_its_own_error():
    with pytest.raises(tp.NotReconstructibleError):
        tp.partial_labels(3, 1.0).reconstruction()


def test_accepted_where_it_is_within_tolerance():
    T = np.array([[0.9, 0.2], [0.1, 0.8]])
    assert np.array_equal(tp.Transition(T * (1 + 5e-7)).matrix(), T * (1 + 5e-7))  # as it is, not repaired
    with pytest.raises(ValueError, match="column 0"):
        tp.Transition(T * (1 + 5e-6))


def test_checks_of_labels_can_be_switched_off():
    loss = tp.ForwardLoss(tp.partial_labels(3, 0.2), validate=False)
    assert torch.isposinf(loss(V[:1], torch.zeros(1, 3, dtype=torch.bool)))  # the empty set cannot occur
