"""Do features hold more than a linear model can use? A richer one is tried where labels do not match the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import FloatArray, gathered_warnings, random_folds, standardised
from ..learn import WeakLabelClassifier
from ..solvers import calibrated_risks, cross_fit
from ..transitions import Encoded, Transition

MOST_ROWS, FEWEST_ROWS, FOLDS = 3000, 100, 3
MOST_MULTIPLIED = 20  # features whose products are tried; of more, this many random bends of them:
BENDS = 200
CLEARLY = 2.5  # standard errors
RICHER = "--model mlp"


def richer_features(X: FloatArray) -> FloatArray:
    """Features (n, d) in units of their spread, with their products, or random bends of many of them."""
    Z = standardised(X)[0]
    Z = Z[:, Z.std(axis=0) > 0.5]  # without constants
    if Z.shape[1] > MOST_MULTIPLIED:
        rng = np.random.default_rng(0)
        W = rng.standard_normal((Z.shape[1], BENDS)) / np.sqrt(Z.shape[1])
        return np.hstack([Z, np.maximum(Z @ W + rng.standard_normal(BENDS), 0)])
    i, j = np.triu_indices(Z.shape[1])
    return np.hstack([Z, Z[:, i] * Z[:, j]])


def needs_more(X: Any, labels: Any, transition: Transition, p: FloatArray, groups: Any = None) -> str:
    """What to say where a linear model of more features foretells held-out labels better than `p` does; else nothing.

    `p` (n, K) are probabilities by models that had not seen these rows.
    """
    if hasattr(X, "tocsr") or len(X) < FEWEST_ROWS:
        return ""
    some = np.unique(np.linspace(0, len(X) - 1, min(len(X), MOST_ROWS)).round().astype(np.int64))
    F, y, p = richer_features(np.asarray(X, dtype=np.float64)[some]), labels[some], p[some]
    own = None if groups is None else np.unique(np.asarray(groups)[some], return_inverse=True)[1]
    if own is not None and own.max() < FOLDS:
        return ""

    def richer(_: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> FloatArray:
        model = WeakLabelClassifier(transition, classes=list(range(transition.num_classes)), calibrate=False)
        with gathered_warnings():
            return model.fit(F[train], Encoded(torch.as_tensor(y[train]))).predict_proba(F[test])

    q = cross_fit(richer, random_folds(len(F), FOLDS, np.random.default_rng(0), own), len(F))
    tiny = np.finfo(np.float64).tiny
    read = torch.as_tensor(y)
    old, new = (calibrated_risks(np.log(np.maximum(x, tiny)), read, transition)[0] for x in (p, q))
    gain = old - new if own is None else np.bincount(own, weights=old - new)
    if not gain.mean() > CLEARLY * gain.std(ddof=1) / np.sqrt(len(gain)):
        return ""
    return (
        "these features hold more than a linear model can use: with products of features it foretells labels that it "
        f"had not seen clearly better; try {RICHER}"
    )
