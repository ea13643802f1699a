"""Several answers to an example tell its class, and so how its targets erred: what a score by them knows beyond T.

The T of annotators mostly come from the very answers that score a model. Then the two err together: whoever was lucky
in these answers has too good a T, and counts for too much. Neither T's error nor the answers' scatter is to be taken
alone, then. But both show in one thing, the mean of the targets ``r_i`` over the examples of a class,

    C[:, z] = mean of r_i over the examples of class z,      G = mean of r_i s_i' = C diag(p) S + rest,

p being the shares of the classes and ``S[z] = E[s | z]``: a prediction made without the answers errs independently of
them, given the class. So the corrected targets ``C^{-1} r`` undo T's error and the answers' luck at once, whatever made
them. C is seen where classes are; of its distribution these are draws: T from its posterior, then the classes of all
examples given T and their answers, then C_s (data augmentation: Tanner and Wong, 1987). The mean of ``C_s^{-1}``
corrects the targets, the draws' scatter about it is the error that is left of T and luck together, and the variance of
the scores that luck alone explains,

    sum_i a_i^2 sum_z P(z | answers of i) <r_i - e_z, S[z]>^2        for weights a_i that sum to one,

is no longer in them: it is taken off that of the sample (`Reweigher.luck`). All this asks for T that were drawn
together, as `estimate_annotators` draws those of a crowd.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from .._core import FloatArray
from ..transitions import AnnotatorTransition

A_CROWD = 30  # annotators, from which on their T can be drawn together (`estimate_annotators`)
ROUNDS = 50  # of EM for the class shares
LEAST = 1e-300  # of a draw of T: no answer is impossible


@dataclass
class Classes:
    """What the answers say of the examples' classes, and how that corrects their targets."""

    posteriors: FloatArray  # (n, K), mean over the draws
    correction: FloatArray  # (K, K): the mean of ``C_s^{-1}``


def class_means(
    transition: AnnotatorTransition,
    labels: Tensor,
    targets: FloatArray,
    weights: FloatArray | None,
    parts: list[FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """C_s (S, K, K) for draws `parts` of each annotator's T (S, M_a, K), and the mean posteriors (n, K)."""
    from scipy.sparse import csr_array
    from scipy.special import softmax

    item, who = (labels >= 0).nonzero(as_tuple=True)
    column = transition.offsets[who.numpy()] + labels[item, who].numpy()
    n, K = targets.shape
    given = csr_array((np.ones(len(column)), (item.numpy(), column)), shape=(n, int(transition.offsets[-1])))
    a = np.ones(n) if weights is None else weights
    rng, index = np.random.default_rng(0), np.arange(n)
    shares = _shares(given @ np.log(np.maximum(np.concatenate([p.mean(0) for p in parts]), LEAST)))
    out, total = [], np.zeros((n, K))
    for s in range(len(parts[0])):
        joint = given @ np.log(np.maximum(np.concatenate([p[s] for p in parts]), LEAST)) + np.log(shares)
        P = softmax(joint, axis=1)
        total += P
        z = (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=K - 1)
        one = np.zeros((n, K))
        one[index, z] = 1.0
        shares = rng.dirichlet(one.sum(axis=0) + 1.0)
        mass = a @ one
        means = targets.T @ (a[:, None] * one) / np.where(mass > 0, mass, 1.0)
        out.append(np.where(mass > 0, means, np.eye(K)))  # a class without examples corrects nothing
    return np.array(out), total / len(out)


def _shares(evidence: FloatArray) -> FloatArray:
    """The shares of the classes (K,) that make the answers likeliest, by EM."""
    from scipy.special import softmax

    shares = np.full(evidence.shape[1], 1.0 / evidence.shape[1])
    for _ in range(ROUNDS):
        shares = np.maximum(softmax(evidence + np.log(shares), axis=1).mean(axis=0), LEAST)
    return shares
