"""What the laws are held against: register a potential, a family or a loss here, and every law of its kind tests it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

import tproper as tp
from tproper.transitions import AnnotatorTransition, DenseReconstruction


def random_columns(M: int, K: int, seed: int) -> np.ndarray:
    """A column-stochastic matrix."""
    return np.random.default_rng(seed).dirichlet(np.ones(M), K).T


# Name -> how to make it. Every kind of weak label, square and not, noisy and not.
TRANSITIONS: dict[str, Callable[[], tp.Transition]] = {
    "identity": lambda: tp.identity(4),
    "symmetric": lambda: tp.symmetric_noise(4, 0.3),
    "symmetric, beyond the threshold": lambda: tp.symmetric_noise(3, 0.9),
    "pair": lambda: tp.pair_noise(5, 0.2),
    "binary": lambda: tp.binary_noise(0.1, 0.3),
    "complementary": lambda: tp.complementary(5),
    "complementary of two": lambda: tp.complementary(2),
    "noisy complementary": lambda: tp.complementary(4, noise=0.1),
    "biased complementary": lambda: tp.complementary(3, weights=[[0, 1, 2], [1, 0, 1], [3, 1, 0]]),
    "partial": lambda: tp.partial_labels(4, 0.3),
    "partial, never spurious": lambda: tp.partial_labels(3, 0.0),
    "multi-complementary": lambda: tp.multi_complementary(5, 2),
    "positive-unlabeled": lambda: tp.positive_unlabeled(0.4),
    "bags": lambda: tp.unlabeled_sets([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]], [10, 20, 30]),
    "two sources": lambda: tp.multi_source([tp.complementary(3), tp.symmetric_noise(3, 0.2)], weights=[0.3, 0.7]),
    "two poor sources": lambda: tp.multi_source([tp.coarse_labels([[0], [1, 2]]), tp.coarse_labels([[1], [0, 2]])]),
    "a label that never occurs": lambda: tp.Transition([[0.9, 0.2], [0.0, 0.0], [0.1, 0.8]]),
    "biased and noisy complementary": lambda: tp.complementary(3, weights=[[0, 1, 2], [1, 0, 1], [3, 1, 0]], noise=0.2),
    "partial of two": lambda: tp.partial_labels(2, 0.5),
    "all but one excluded": lambda: tp.multi_complementary(4, 3),
    "three sources": lambda: tp.multi_source(
        [tp.coarse_labels([[0, 1], [2]]), tp.coarse_labels([[0], [1, 2]]), tp.partial_labels(3, 0.2)]
    ),
    "more labels than classes": lambda: tp.Transition(random_columns(7, 3, seed=1)),
    "three annotators": lambda: tp.annotators(
        [
            tp.symmetric_noise(3, 0.3),
            tp.Transition(random_columns(3, 3, seed=4)),
            tp.Transition(random_columns(2, 3, 5)),
        ]
    ),
    "one annotator": lambda: tp.annotators([tp.binary_noise(0.1, 0.3)]),
    "ordinal": lambda: tp.ordinal_noise(4, 0.3),
    "ordinal, spread": lambda: tp.ordinal_noise(5, 0.4, 0.5),
    "noisy partial": lambda: tp.noisy_partial_labels(4, 0.3, 0.1),
    "noisy partial, more noise than truth": lambda: tp.noisy_partial_labels(3, 0.6, 0.7),
    "noisy partial, never noisy": lambda: tp.noisy_partial_labels(3, 0.3, 0.0),
    "yes or no": lambda: tp.yes_no(4),
    "yes or no, with errors": lambda: tp.yes_no(3, 0.1, 0.25),
    "yes or no of two": lambda: tp.yes_no(2, 0.2, 0.1),
    "hierarchy": lambda: tp.hierarchical_labels([[0, 1], [2, 3], [4]], 0.4),
    "hierarchy of two levels": lambda: tp.hierarchical_labels([[[0, 1], [2], [3]], [[0, 1, 2, 3]]], [0.3, 0.2]),
    "open set": lambda: tp.none_of_these(4, 3, 0.1, 0.2),
    "positive, negative, unlabeled": lambda: tp.partly_labeled(2, [0.4, 0.1]),
    "partly labeled": lambda: tp.partly_labeled(3, 0.3),
    "case-control": lambda: tp.case_control_pu(0.3, 40, 100),
    "two coarse annotators": lambda: tp.annotators(
        [tp.coarse_labels([[0, 1], [2, 3]]), tp.coarse_labels([[0, 2], [1, 3]])]
    ),
}

# Those whose R is made of their structure, not of their matrix; that of annotators is another R (test_annotators.py).
STRUCTURED = [
    name
    for name, make in TRANSITIONS.items()
    if type(make().reconstruction()) is not DenseReconstruction and not isinstance(make(), AnnotatorTransition)
]

POTENTIALS: dict[str, Callable[[], tp.Potential]] = {
    "log-sum-exp": tp.LogSumExp,
    "Tsallis 1.5": lambda: tp.Tsallis(1.5),
    "Tsallis 1.1": lambda: tp.Tsallis(1.1),
    "Tsallis 2": lambda: tp.Tsallis(2.0),
    "Tsallis 3": lambda: tp.Tsallis(3.0),
    "Tsallis 0.5": lambda: tp.Tsallis(0.5),
    "Tsallis 0.2": lambda: tp.Tsallis(0.2),
    "sparsemax": tp.Sparsemax,
    "Brier, affine": tp.Brier,
    "Brier, simplex": lambda: tp.Brier(domain="simplex"),
    "spherical, affine": tp.Spherical,
    "spherical, simplex": lambda: tp.Spherical(domain="simplex"),
    "log-sum-exp squeezed 1, 2": lambda: tp.LogSumExp().squeezed(1.0, 2.0),
    "log-sum-exp squeezed 0.3, 1.5": lambda: tp.LogSumExp().squeezed(0.3, 1.5),
    "log-sum-exp squeezed 0.1, 4": lambda: tp.LogSumExp().squeezed(0.1, 4.0),
    "log-sum-exp squeezed 0.05, 1.1": lambda: tp.LogSumExp().squeezed(0.05, 1.1),
    "log-sum-exp squeezed 1, 7": lambda: tp.LogSumExp().squeezed(1.0, 7.0),
    "Tsallis 0.5 squeezed": lambda: tp.Tsallis(0.5).squeezed(0.3, 1.3),
    "Brier, simplex, squeezed": lambda: tp.Brier(domain="simplex").squeezed(1.0, 3.0),
    "Tsallis 1.5 squeezed": lambda: tp.Tsallis(1.5).squeezed(0.5, 2.0),
    "sparsemax squeezed": lambda: tp.Sparsemax().squeezed(0.5, 3.0),
    "Brier squeezed": lambda: tp.Brier().squeezed(0.5, 1.5),
    "spherical squeezed": lambda: tp.Spherical(domain="simplex").squeezed(0.5, 2.0),
    "squeezed twice": lambda: tp.LogSumExp().squeezed(0.5, 2.0).squeezed(0.2, 4.0),
    "squeezed by nothing": lambda: tp.LogSumExp().squeezed(0.0, 2.0),
    "a function": lambda: tp.ConvexPotential(
        lambda v: torch.logsumexp(v, -1) + v.square().sum(-1) / 4, domain="affine"
    ),
    "a function that prefers a class": lambda: tp.ConvexPotential(
        lambda v: torch.logsumexp(v + torch.arange(v.shape[-1], dtype=v.dtype) / 4, -1) + v.square().sum(-1) / 4,
        domain="affine",
    ),
    "a Bayes risk": lambda: tp.BayesRisk(lambda p: torch.xlogy(p, p).sum(-1)),
}

SMOOTH = list(POTENTIALS)  # differentiable at the scores of the laws, once and twice
SYMMETRIC = [name for name in POTENTIALS if "prefers a class" not in name]

LOSSES: dict[str, Callable[[tp.Transition], torch.nn.Module]] = {
    "backward": lambda T: tp.BackwardLoss(T, reduction="none"),
    "backward Brier": lambda T: tp.BackwardLoss(T, potential=tp.Brier(), reduction="none"),
    "backward sparsemax": lambda T: tp.BackwardLoss(T, potential=tp.Sparsemax(), reduction="none"),
    "backward spherical": lambda T: tp.BackwardLoss(T, potential=tp.Spherical(domain="simplex"), reduction="none"),
    "gLS 1, 2": lambda T: tp.BackwardLoss(T, squeeze=(1.0, 2.0), reduction="none"),
    "gLS 0.3, 1.5": lambda T: tp.BackwardLoss(T, squeeze=(0.3, 1.5), reduction="none"),
    "forward": lambda T: tp.ForwardLoss(T, reduction="none"),
}

METHODS = ["auto", "pinv", "min_variance", "tightest"]


def centred(n: int, K: int, seed: int = 0, scale: float = 0.3) -> torch.Tensor:
    """Scores that sum to zero and stay inside the unit ball, where every potential is finite."""
    v = scale * torch.randn(n, K, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    v = v - v.mean(-1, keepdim=True)
    return v / v.norm(dim=-1, keepdim=True).clamp_min(1.0) * 0.9


def inside(n: int, K: int, seed: int = 0) -> torch.Tensor:
    """Probabilities inside the simplex."""
    return 0.9 * torch.as_tensor(np.random.default_rng(seed).dirichlet(np.ones(K), n)) + 0.1 / K


def every_label(T: tp.Transition) -> torch.Tensor:
    """All weak labels that can occur, encoded, in the order of the matrix's rows."""
    labels = T.weak_labels if T.label_shape else list(range(T.num_weak_labels))
    return T.encode(labels)


def table(loss: torch.nn.Module, scores: torch.Tensor) -> torch.Tensor:
    """The losses of all weak labels (n, M) at scores (n, K)."""
    labels = every_label(loss.transition)
    n, M = len(scores), len(labels)
    rows = scores[:, None].expand(n, M, -1).reshape(n * M, -1)
    return loss(rows, labels.repeat(n, *[1] * (labels.ndim - 1))).reshape(n, M)


def dense(T: tp.Transition) -> tp.Transition:
    """The same T as a plain matrix."""
    return tp.Transition(T.matrix())
