"""What is guessed of each row's class before it is checked, from its labels and its features.

Working scores may come from any model: shares stay those of checked rows, stratum by stratum (`metrics.checked`), and
good guesses only make strata purer. Each row is guessed by a softmax regression on checked rows of other folds, on
its features and on what its labels say, so that within a stratum checked rows are like the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, issparse

from .._core import FloatArray, fold_numbers
from ..solvers import cross_fit, splits_of
from .alone import one_thread
from .softmax import AXES, softmax
from .with_features import LEAST, Standardised

FOLDS = 5
PENALTIES = (1e-2, 1e-1, 1.0)  # chosen by held-out checked rows
ROUNDS = 100  # iterations of the solver
FEWEST = 20  # checked rows that a regression is tried with


def guesses_by_features(
    by_labels: FloatArray, true: NDArray[np.int64], X: Any, groups: NDArray[np.int64] | None, seed: int
) -> tuple[FloatArray, str]:
    """P(class | labels, features) (n, K), or `by_labels` where features foretell checked rows no better; and which."""
    checked = np.flatnonzero(true >= 0)
    n, K = by_labels.shape
    if len(checked) < FEWEST:
        return by_labels, f"features are not used: expected {FEWEST} checked rows or more to learn from"
    logs = np.log(np.maximum(by_labels, LEAST))
    logs -= logs.mean(axis=1, keepdims=True)
    wide = hstack([X, csr_array(logs)]).tocsr() if issparse(X) else np.hstack([X, logs])
    fold = fold_numbers(n, FOLDS, np.random.default_rng(seed), groups)
    best, lowest = by_labels, _loss(by_labels, true, checked)
    with one_thread(n * min(wide.shape[1], AXES) * K):
        design = Standardised(wide).design
        for l2 in PENALTIES:

            def guessed(_: int, train: NDArray[np.int64], test: NDArray[np.int64], l2: float = l2) -> FloatArray:
                rows = train[true[train] >= 0]
                targets = np.eye(K)[:, true[rows]]
                W = design.fit(targets, design.start(K), ROUNDS, rows, l2, targets=True)
                return softmax(design.scores(W, test)).T

            P = cross_fit(guessed, splits_of(fold), n)
            loss = _loss(P, true, checked)
            if loss < lowest:
                best, lowest = P, loss
    if best is by_labels:
        return best, "features are not used: they foretell the checked rows no better than the labels alone"
    return best, "rows are grouped by what their labels and features together say"


def _loss(P: FloatArray, true: NDArray[np.int64], checked: NDArray[np.int64]) -> float:
    return -float(np.log(np.maximum(P[checked, true[checked]], LEAST)).mean())
