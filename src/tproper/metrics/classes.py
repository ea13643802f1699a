"""Several answers to an example tell its class, and so how its targets erred: what a score by them knows beyond T.

The T of annotators mostly come from the very answers that score a model. Then the two err together: whoever was lucky
in these answers has too good a T, and counts for too much. Neither T's error nor the answers' scatter is to be taken
alone, then. But both show in one thing, the mean of the targets ``r_i`` over the examples of a class,

    C[:, z] = mean of r_i over the examples of class z,      G = mean of r_i s_i' = C diag(p) S + rest,

p being the shares of the classes and ``S[z] = E[s | z]``: a prediction made without the answers errs independently of
them, given the class. So the corrected targets ``C^{-1} r`` undo T's error and the answers' luck at once, whatever made
them. C is seen where classes are; of its distribution these are draws: T from its posterior, then the classes of all
examples given T and their answers, then C_s (data augmentation: Tanner and Wong, 1987). The inverse of their mean C
corrects the targets: given the answers G has the mean ``C diag(p) S``, so that nothing is left on average (the mean of
the inverses would be too large, by the inverse's convexity). The scatter of the ``C_s^{-1}`` about it is the error that
is left of T and luck together, and the variance of the scores that luck alone explains,

    sum_i a_i^2 sum_z P(z | answers of i) <r_i - e_z, S[z]>^2        for weights a_i that sum to one,

is no longer in them: it is taken off that of the sample (`Reweigher.luck`). All this asks for T that were drawn
together, as `estimate_annotators` draws those of a crowd.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from .._core import FloatArray, drawn_classes, mixture_shares
from ..transitions import Transition

A_CROWD = 30  # annotators, from which on their T can be drawn together (`estimate_annotators`)
ROUNDS = 50  # of EM for the class shares
LEAST = 1e-300  # of a draw of T: no answer is impossible


@dataclass
class Classes:
    """What the answers say of the examples' classes, and how that corrects their targets."""

    posteriors: FloatArray  # (n, K), mean over the draws
    correction: FloatArray  # (K, K): ``C^{-1}``


def class_means(
    transition: Transition,
    labels: Tensor,
    targets: FloatArray,
    weights: FloatArray | None,
    mixture: FloatArray,
    count: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """C_s (S, K, K) for draws of all T from Dirichlet mixtures (C, rows, K), their mean, and mean posteriors (n, K)."""
    from scipy.sparse import csr_array
    from scipy.special import softmax

    sizes = [t.num_weak_labels for t in transition.separate]
    offsets = np.cumsum([0, *sizes])
    item, who = (labels >= 0).nonzero(as_tuple=True)
    column = offsets[who.numpy()] + labels[item, who].numpy()
    n, K = targets.shape
    given = csr_array((np.ones(len(column)), (item.numpy(), column)), shape=(n, int(offsets[-1])))
    weighed = targets if weights is None else weights[:, None] * targets
    a = np.ones(n) if weights is None else weights
    rng, log_T = np.random.default_rng(0), transition.tables()["log_T"][:-1]  # without that of a missing answer
    shares = _shares(given @ np.maximum(log_T, np.log(LEAST)))
    out, total = [], np.zeros((K, n))
    for s in range(count):
        T = rng.standard_gamma(mixture[s % len(mixture)])
        T /= np.repeat(np.add.reduceat(T, offsets[:-1]), sizes, axis=0)
        logs = np.log(np.maximum(T, LEAST))
        P = softmax((given @ logs).T + np.log(shares)[:, None], axis=0)  # (K, n): sums over few classes are fast
        one = (drawn_classes(P, rng, axis=0) == np.arange(K)[:, None]).astype(np.float64)
        shares = rng.dirichlet(one.sum(axis=1) + 1.0)
        total += P
        out.append(_means(one, a, weighed))
    P = total / count
    return np.array(out), _means(P, a, weighed), P.T


def _means(P: FloatArray, a: FloatArray, weighed: FloatArray) -> FloatArray:
    """Means (K, K) of targets, times their weights a, over the examples of each class, by its probabilities (K, n)."""
    mass = P @ a
    means: FloatArray = (P @ weighed).T / np.where(mass > 0, mass, 1.0)
    return np.where(mass > 0, means, np.eye(len(P)))  # a class without examples corrects nothing


def _shares(evidence: FloatArray) -> FloatArray:
    """The shares of the classes (K,) that make the answers likeliest, by EM."""
    likelihood = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    shares = mixture_shares(likelihood[None], np.ones((1, len(evidence))), rounds=ROUNDS, tolerance=0.0)[0]
    return np.maximum(shares, LEAST)
