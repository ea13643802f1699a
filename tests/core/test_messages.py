"""Every rule about inputs, and the sentence that a user reads who broke it."""

import math
import re

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
        "matrix: expected every column to sum to 1 (T[y, z] = P(weak label y | class z)), got 1.1 in column 0",
    ),
    "transposed": (
        lambda: tp.Transition([[0.9, 0.1], [0.3, 0.7]]),
        "it looks row-stochastic: T[y, z] = P(weak label y | class z) has one column per class, pass the transpose",
    ),
    "negative": (
        lambda: tp.Transition([[1.1, 0.0], [-0.1, 1.0]]),
        "matrix: expected probabilities >= 0, got -0.1 at row 1, column 0",
    ),
    "nan": (
        lambda: tp.Transition([[math.nan, 0.0], [0.0, 1.0]]),
        "matrix: expected finite entries, got nan at row 0, column 0",
    ),
    "ragged": (
        lambda: tp.Transition([[1.0], [0.5, 0.5]]),
        "matrix: expected rows of equal length, got [[1.0], [0.5, 0.5]]",
    ),
    "one class": (
        lambda: tp.Transition([[1.0]]),
        "matrix: expected a column for each of two or more classes, got shape (1, 1)",
    ),
    "vector": (lambda: tp.Transition([0.5, 0.5]), "matrix: expected a non-empty 2-d matrix, got shape (2,)"),
    "empty matrix": (
        lambda: tp.Transition(np.zeros((0, 2))),
        "matrix: expected a non-empty 2-d matrix, got shape (0, 2)",
    ),
    "words": (lambda: tp.Transition([["a", "b"]]), "matrix: expected a matrix of numbers, got [['a', 'b']]"),
    "mask": (
        lambda: tp.Transition(np.ma.masked_equal(np.eye(2), 0)),
        "matrix: expected no masked entries, got 2; fill them in, or leave their rows out",
    ),
    "names": (
        lambda: tp.Transition(np.eye(2), weak_labels=["a"]),
        "weak_labels: expected 2 names, one per row of the matrix, got 1",
    ),
    "same name twice": (
        lambda: tp.Transition(np.eye(3), weak_labels=["a", "b", "a"]),
        "weak_labels: expected every name once, got 'a' twice",
    ),
    "names that are none": (
        lambda: tp.Transition(np.eye(2), weak_labels=5),
        "weak_labels: expected a list of 2 names, got 5",
    ),
    "names without an order": (
        lambda: tp.Transition(np.eye(2), weak_labels={"a", "b"}),
        "weak_labels: expected a list of 2 names, got {",
    ),
    "names that are lists": (
        lambda: tp.Transition(np.eye(2), weak_labels=[["a"], ["b"]]),
        "weak_labels: expected texts, numbers, sets or tuples, got ['a']",
    ),
    "ragged pairs": (lambda: tp.multi_source([T3]).encode([[0], [0, 1]]), "labels: expected rows of equal length, got"),
    "critical k of an array": (
        lambda: tp.critical_k(np.eye(2)),
        "transition: expected a tproper.Transition, got ndarray",
    ),
    "decomposition by an array": (
        lambda: tp.decompose(np.ones((2, 3)), np.eye(3)),
        "transition: expected a tproper.Transition, got ndarray",
    ),
    "decomposition of words": (
        lambda: tp.decompose([["a", "b", "c"]], T3),
        "loss_table: expected a matrix of numbers, got",
    ),
    "decomposition of a ragged list": (
        lambda: tp.decompose([[1.0, 2.0, 3.0], [1.0]], T3),
        "loss_table: expected rows of equal length, got [[1.0, 2.0, 3.0], [1.0]]",
    ),
    "one source, no list": (
        lambda: tp.multi_source(T3),
        "transitions: expected a non-empty list of Transition objects",
    ),
    "seed": (lambda: T3.sample([0, 1], 2.5), "seed: expected a whole number >= 0 or a numpy Generator, got 2.5"),
    "negative seed": (lambda: T3.sample([0], -1), "seed: expected a whole number >= 0 or a numpy Generator, got -1"),
    "calibration weights": (
        lambda: tp.calibrate(np.zeros((2, 3)), [0, 1], T3, sample_weight=["a", "b"]),
        "sample_weight: expected 2 numbers, got ['a', 'b']",
    ),
    "masked weights": (
        lambda: tp.calibrate(np.zeros((2, 3)), [0, 1], T3, sample_weight=np.ma.masked_equal([1, 2], 2)),
        "sample_weight: expected no masked entries, got 1; fill them in, or leave their rows out",
    ),
    "hidden layers": (
        lambda: tp.WeakLabelClassifier(model="mlp", hidden=None).fit(np.eye(4), [0, 1, 0, 1]),
        "hidden: expected an integer >= 1, got None",
    ),
    "complex matrix": (
        lambda: tp.Transition([[1, 1j], [0, 1 - 1j]]),
        "matrix: expected a matrix of numbers, got [[1, 1j], [0, (1-1j)]]",
    ),
    "R of a matrix": (
        lambda: tp.Reconstruction(np.eye(2), np.eye(2)),
        "transition: expected a tproper.Transition, got ndarray",
    ),
    "words for class weights": (
        lambda: tp.BackwardLoss(tp.identity(2), class_weights=["a", "b"]),
        "class_weights: expected 2 positive numbers, got ['a', 'b']",
    ),
    "words for weights": (
        lambda: tp.weak_accuracy([0, 1], [0, 1], tp.identity(2), sample_weight=["a", "b"]),
        "sample_weight: expected 2 numbers, got ['a', 'b']",
    ),
    "a word for transitions": (
        lambda: tp.BackwardLoss(tp.identity(2))(torch.zeros(1, 2), [0], transitions="x"),
        "transitions: expected an array (n, weak labels, K), got 'x'",
    ),
    "a number among sets": (
        lambda: tp.ForwardLoss(tp.partial_labels(3, 0.2))(torch.zeros(2, 3), [{1}, 2]),
        "labels: expected sets of classes, got 2 at row 1",
    ),
    "complex labels": (
        lambda: tp.ForwardLoss(tp.partial_labels(3, 0.2))(torch.zeros(1, 3), np.ones((1, 3), dtype=complex)),
        "labels: expected real numbers, got complex ones",
    ),
    "set of unknown classes": (
        lambda: tp.Transition(np.eye(2), weak_labels=[{0}, {2}]),
        "labels: expected sets of classes in [0, 2), got 2 at row 1",
    ),
    # families
    "K": (lambda: tp.identity(1), "K: expected an integer >= 2, got 1"),
    "K is no integer": (lambda: tp.complementary(3.5), "K: expected an integer >= 2, got 3.5"),
    "K is a bool": (lambda: tp.complementary(True), "K: expected an integer >= 2, got True"),
    "p above one": (lambda: tp.symmetric_noise(3, 1.2), "p: expected a finite number in [0, 1], got 1.2"),
    "p is a word": (lambda: tp.symmetric_noise(3, "0.2"), "p: expected a finite number in [0, 1], got '0.2'"),
    "p is nan": (lambda: tp.partial_labels(3, math.nan), "p: expected a finite number in [0, 1], got nan"),
    "r": (lambda: tp.positive_unlabeled(-0.1), "r: expected a finite number in [0, 1], got -0.1"),
    "noise": (lambda: tp.complementary(3, noise=2), "noise: expected a finite number in [0, 1], got 2.0"),
    "weights shape": (
        lambda: tp.complementary(3, weights=np.ones((2, 2))),
        "weights: expected a 3 x 3 matrix, got shape (2, 2)",
    ),
    "weights diagonal": (
        lambda: tp.complementary(2, weights=np.ones((2, 2))),
        "weights: expected a zero diagonal (a complementary label is never the class); use `noise`",
    ),
    "weights negative": (
        lambda: tp.complementary(2, weights=[[0, -1], [1, 0]]),
        "weights: expected entries >= 0 and a positive sum in every column",
    ),
    "m": (lambda: tp.multi_complementary(3, 3), "m: expected at most K - 1 = 2 classes to be excluded, got 3"),
    "pair of many": (lambda: tp.pair_noise(50_000, 0.1), "classes for pair noise (its R is dense), got 50000"),
    "sizes": (lambda: tp.unlabeled_sets([[0.5, 0.5]], [0]), "sizes: expected 1 positive numbers, one per bag, got [0]"),
    "sizes in words": (
        lambda: tp.unlabeled_sets([[0.5, 0.5]], ["x"]),
        "sizes: expected 1 positive numbers, one per bag",
    ),
    "proportions": (
        lambda: tp.unlabeled_sets([[0.5, 0.6]], [1]),
        "proportions: expected rows (bags) of non-negative class proportions that sum to 1",
    ),
    "class in no bag": (
        lambda: tp.unlabeled_sets([[1.0, 0.0]], [1]),
        "proportions: expected every class in some bag, got none for class 1",
    ),
    "groups overlap": (
        lambda: tp.coarse_labels([[0, 1], [1]]),
        "groups: expected every class 0 .. K-1 in exactly one group",
    ),
    "groups not lists": (
        lambda: tp.coarse_labels([0, 1]),
        "groups: expected a list of lists of class indices, got [0, 1]",
    ),
    "no sources": (lambda: tp.multi_source([]), "transitions: expected a non-empty list of Transition objects"),
    "sources differ": (
        lambda: tp.multi_source([tp.identity(2), tp.identity(3)]),
        "transitions: expected the same number of classes, got [2, 3]",
    ),
    "source weights": (
        lambda: tp.multi_source([T3, T3], weights=[0.5, 0.6]),
        "weights: expected numbers that sum to 1, got the sum 1.1",
    ),
    "source weight of zero": (
        lambda: tp.multi_source([T3, T3], weights=[0.0, 1.0]),
        "weights: expected strictly positive numbers, got [0.0, 1.0]",
    ),
    "enumeration": (
        lambda: tp.partial_labels(13, 0.1).matrix(),
        "candidate sets are enumerated for at most 12 classes, got 13; "
        "targets, samples, losses and certificates need no enumeration",
    ),
    "huge table": (lambda: tp.complementary(50_000).matrix(), "would not fit; use targets and losses instead"),
    # R
    "method": (
        lambda: T3.reconstruction("inv"),
        "method: expected one of auto, inverse, pinv, min_variance, tightest or a Reconstruction, got 'inv'",
    ),
    "matrix for a method": (lambda: T3.reconstruction(np.eye(3)), "or a Reconstruction, got array("),
    "inverse of a tall T": (
        lambda: TALL.reconstruction("inverse"),
        "method: 'inverse' expects as many weak labels as classes, got 3 and 2; use 'min_variance'",
    ),
    "rank": (
        lambda: tp.coarse_labels([[0, 1], [2]]).reconstruction(),
        "transition: expected rank 3 for 3 classes, got 2, so no R has R T = I: classes {0, 1} cannot be told apart "
        "from these weak labels; merge them, add a source that separates them, or use ForwardLoss "
        "(proper, though not strictly)",
    ),
    "rank in a loss": (
        lambda: tp.BackwardLoss(tp.symmetric_noise(4, 0.75)),
        "classes {0, 1, 2, 3} cannot be told apart",
    ),
    "R": (
        lambda: tp.Reconstruction(np.eye(3), T3),
        "matrix: expected a left inverse of T (R T = I within 1e-6), got an error of 0.2",
    ),
    "R of another shape": (
        lambda: tp.Reconstruction(np.eye(2), T3),
        "matrix: expected R of shape (3, 3) (classes x weak labels), got (2, 2)",
    ),
    "R transposed": (lambda: tp.Reconstruction(TALL.matrix(), TALL), "got (3, 2); pass the transpose"),
    "R of another T": (
        lambda: tp.BackwardLoss(T3, reconstruction=tp.symmetric_noise(3, 0.2 + 1e-9).reconstruction()),
        "reconstruction: expected one made for this transition, got one of another transition",
    ),
    "prior sum": (
        lambda: TALL.reconstruction(prior=[0.5, 0.6]),
        "prior: expected numbers that sum to 1, got the sum 1.1",
    ),
    "prior of zero": (
        lambda: TALL.reconstruction(prior=[0.0, 1.0]),
        "prior: expected strictly positive numbers, got [0.0, 1.0]",
    ),
    "prior length": (lambda: TALL.reconstruction(prior=[1.0]), "prior: expected 2 numbers, got shape (1,)"),
    "prior unused": (
        lambda: TALL.reconstruction("pinv", prior=[0.5, 0.5]),
        "prior: expected None with method 'pinv'; only 'min_variance' depends on a prior",
    ),
    # F
    "k": (lambda: tp.LogSumExp().squeezed(-1, 2), "k: expected a finite number in [0, inf), got -1.0"),
    "k is nan": (lambda: tp.LogSumExp().squeezed(math.nan, 2), "k: expected a finite number in [0, inf), got nan"),
    "alpha zero": (lambda: tp.LogSumExp().squeezed(1, 0), "alpha: expected a finite number in (0, inf), got 0.0"),
    "alpha below one": (
        lambda: tp.LogSumExp().squeezed(1, 0.5),
        "alpha: expected alpha >= 1, got 0.5, where squeezing is not convex and the loss improper; "
        "pass allow_improper=True to study it anyway",
    ),
    "Tsallis at one": (lambda: tp.Tsallis(1), "where it is LogSumExp(), got 1"),
    "Tsallis below zero": (lambda: tp.Tsallis(-1), "a: expected a finite number in (0, 64], got -1.0"),
    "domain": (lambda: tp.Brier(domain="ball"), "domain: expected one of affine, simplex, got 'ball'"),
    "no function": (lambda: tp.ConvexPotential(3, domain="affine"), "function: expected a callable F(v), got int"),
    "no risk": (lambda: tp.BayesRisk(3), "function: expected a callable S(p), got int"),
    "integer scores for F": (
        lambda: tp.LogSumExp().value(torch.zeros(3, dtype=torch.long)),
        "v: expected a floating torch tensor (..., K) with K >= 2, got torch.int64 (3,)",
    ),
    "inverse link at the edge": (
        lambda: tp.LogSumExp().inverse_link(torch.tensor([1.0, 0.0])),
        "p: expected strictly positive probabilities for the inverse link of log-sum-exp, got an entry 0",
    ),
    "inverse link outside": (
        lambda: tp.Sparsemax().inverse_link(torch.tensor([1.5, -0.5])),
        "p: expected probabilities for the inverse link of sparsemax, got an entry -0.5",
    ),
    # losses
    "transition": (lambda: tp.BackwardLoss(np.eye(3)), "transition: expected a tproper.Transition, got ndarray"),
    "potential": (
        lambda: tp.BackwardLoss(T3, potential="brier"),
        "potential: expected a tproper potential such as LogSumExp(), got 'brier'",
    ),
    "squeeze": (lambda: tp.BackwardLoss(T3, squeeze=1.0), "squeeze: expected a pair (k, alpha), got 1.0"),
    "reduction": (
        lambda: tp.ForwardLoss(T3, reduction="avg"),
        "reduction: expected one of none, mean, sum, got 'avg'",
    ),
    "class weights": (
        lambda: tp.BackwardLoss(T3, class_weights=[1, 2]),
        "class_weights: expected 3 positive numbers, got [1, 2]",
    ),
    "scores as lists": (lambda: LOSS([[0.0] * 3], [0]), "scores: expected a floating torch tensor (..., 3), got list"),
    "integer scores": (
        lambda: LOSS(V.long(), [0, 1]),
        "scores: expected a floating torch tensor (..., 3), got torch.int64",
    ),
    "scores of other classes": (
        lambda: LOSS(torch.zeros(2, 4), [0, 1]),
        "scores: expected the last dimension to be the 3 classes, got shape (2, 4)",
    ),
    "empty batch": (lambda: LOSS(torch.zeros(0, 3), []), "scores: expected at least one example, got shape (0, 3)"),
    "labels with a hole": (
        lambda: T3.encode([0.0, float("nan"), 2.0]),
        "labels: expected integers in [0, 3), got dtype float64 with 1 of 3 missing, the first at position 1; ",
    ),
    "labels with None": (
        lambda: T3.encode(np.array([0, 1, None, None], dtype=object)),
        "labels: expected a number for every example, got 2 of 4 missing, the first at position 2; leave these ",
    ),
    "empty labels": (lambda: T3.encode([]), "labels: expected at least one label, got an empty batch"),
    "no integer": (lambda: LOSS(V, torch.tensor([0.0, 1.0])), "labels: expected integers in [0, 3), got dtype float32"),
    "booleans": (lambda: LOSS(V, [True, False]), "labels: expected integers in [0, 3), got dtype bool"),
    "names of labels": (
        lambda: LOSS(V, ["cat", "dog"]),
        "labels: expected numbers, got ['cat', 'dog']; encode names as indices first",
    ),
    "ragged labels": (lambda: LOSS(V, [[0], [1, 2]]), "labels: expected rows of equal length, got [[0], [1, 2]]"),
    "masked labels": (lambda: LOSS(V, np.ma.masked_equal([0, 1], 1)), "labels: expected no masked entries, got 1"),
    "label too large": (lambda: LOSS(V, [0, 3]), "labels: expected integers in [0, 3), got 3"),
    "label below zero": (lambda: LOSS(V, [0, -1]), "labels: expected integers in [0, 3), got -1"),
    "number of labels": (
        lambda: LOSS(V, [0, 1, 2]),
        "labels: expected shape (2,) for scores of shape (2, 3), got (3,)",
    ),
    "class too large": (lambda: T3.sample([0, 3], seed=0), "y: expected integers in [0, 3), got 3"),
    "indices for masks": (
        lambda: SETS.encode([0, 1]),
        "labels: expected boolean candidate masks (n, 3), True = class still possible, got dtype int64 and shape (2,)",
    ),
    "masks of other numbers": (
        lambda: SETS.encode([[0, 1, 2]]),
        "labels: expected masks of 0 and 1 (or booleans), got other integers",
    ),
    "empty set": (
        lambda: SETS.encode([[1, 0, 0], [0, 0, 0]]),
        "labels: expected non-empty candidate sets, got an empty one at row 1",
    ),
    "set of strange things": (
        lambda: SETS.encode([{"a"}]),
        "labels: expected sets of classes in [0, 3), got 'a' at row 0",
    ),
    "set of the wrong size": (
        lambda: tp.multi_complementary(4, 2).encode([[1, 1, 0, 0], [1, 1, 1, 0]]),
        "labels: expected candidate sets of 2 classes (2 excluded), got one of 3 at row 1",
    ),
    "source of a pair": (
        lambda: tp.multi_source([T3, tp.coarse_labels([[0], [1, 2]])]).encode([(0, 2), (1, 2)]),
        "labels: expected labels in [0, 2) from source 1, got 2 at row 1",
    ),
    "weights of another shape": (
        lambda: LOSS(V, [0, 1], weights=torch.ones(3)),
        "weights: expected shape (2,), one per example, got (3,)",
    ),
    "weights below zero": (
        lambda: LOSS(V, [0, 1], weights=[1.0, -1.0]),
        "weights: expected finite numbers >= 0, got values from -1 to 1",
    ),
    "weights nan": (lambda: LOSS(V, [0, 1], weights=[1.0, math.nan]), "weights: expected finite numbers >= 0"),
    "weights all zero": (
        lambda: LOSS(V, [0, 1], weights=[0.0, 0.0]),
        "weights: expected at least one weight > 0, got zeros only",
    ),
    "weights in words": (lambda: LOSS(V, [0, 1], weights=["a", "b"]), "weights: expected (2,) numbers, got ['a', 'b']"),
    "transitions of another shape": (
        lambda: LOSS(V, [0, 1], transitions=torch.eye(4)),
        "transitions: expected shape (2, weak labels, 3) or (weak labels, 3) for scores (2, 3), got (4, 4)",
    ),
    "transitions that are none": (
        lambda: LOSS(V, [0, 1], transitions=torch.ones(2, 3, 3)),
        "transitions: expected every T[i] to have columns of probabilities that sum to 1, got the sum 3 in column 0 of "
        "T[0]",
    ),
    "transitions without rank": (
        lambda: LOSS(V, [0, 1], transitions=torch.stack([torch.eye(3), torch.full((3, 3), 1 / 3)])),
        "transitions: expected rank 3 for every example, got less at row 1; use ForwardLoss (proper, ",
    ),
    "transitions too few labels": (
        lambda: LOSS(V, [0, 1], transitions=torch.full((2, 2, 3), 0.5)),
        "transitions: expected at least as many weak labels as the 3 classes, got 2; use ForwardLoss",
    ),
    # certificates
    "certify nothing": (lambda: tp.certify(3), "loss: expected a tproper loss or a callable on probabilities, got int"),
    "certify without T": (
        lambda: tp.certify(lambda q: q),
        "transition: expected the Transition that the callable loss is for, got none",
    ),
    "certify seed": (lambda: tp.certify(lambda q: -q.log(), T3, seed=-1), "seed: expected an integer >= 0, got -1"),
    "certify with two": (lambda: tp.certify(LOSS, T3), "transition: expected None, since a tproper loss knows its own"),
    "table of another shape": (
        lambda: tp.certify(lambda q: q[:, :2], T3),
        "loss: expected a table of shape (1536, 3) for 1536 probabilities, got (1536, 2)",
    ),
    "decompose": (
        lambda: tp.decompose(np.zeros((2, 4)), T3),
        "loss_table: expected 3 columns, one per weak label, got 4",
    ),
    "counts that are probabilities": (
        lambda: tp.Transition.from_counts(T3.matrix()),
        "counts: expected how often each label was given, got probabilities; use tp.Transition(T)",
    ),
    "decompose without T": (
        lambda: tp.decompose(np.zeros((2, 3)), np.eye(3)),
        "transition: expected a tproper.Transition, got ndarray",
    ),
    "critical k of a matrix": (
        lambda: tp.critical_k(np.eye(3)),
        "transition: expected a tproper.Transition, got ndarray",
    ),
    "comparison of a loss": (lambda: tp.comparison([LOSS]), "certificates: expected {name: tp.certify(loss)}, got ["),
    "loss function of lists": (
        lambda: tp.ForwardLoss(T3)([[0.0, 0.0, 0.0]], [0]),
        "scores: expected a floating torch tensor (..., 3), got list",
    ),
    "squeezing of a name": (lambda: tp.Squeezed("log", 1, 2), "base: expected a potential, as LogSumExp(), got str"),
    "sensitivity to a matrix": (
        lambda: tp.sensitivity("accuracy", [0, 1], [0, 1], np.eye(2)),
        "transition: expected a tproper.Transition, got ndarray",
    ),
    "true for a rate": (
        lambda: tp.symmetric_noise(3, True),
        "p: expected a finite number in [0, 1], got True",
    ),
    "a table for a rate": (
        lambda: tp.symmetric_noise(3, np.zeros((40, 2))),
        "p: expected a finite number in [0, 1], got array([[0., 0.], [0., 0.], ",
    ),
    "features in words": (
        lambda: tp.estimate_pu([1, 0] * 20, ["a", "b"] * 20),
        "X: expected a matrix of numbers (n, d), got ['a', 'b', 'a'",
    ),
    "decompose without points": (
        lambda: tp.decompose(lambda q: q, T3),
        "points: expected the probabilities (n, K) at which to evaluate the callable, got none",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    call, text = CASES[name]
    with pytest.raises(ValueError, match=re.escape(text)):
        call()


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
