"""Choosing settings without clean labels: cross-validated weak risk.

The risk of probabilities p on held-out weak labels is the mean of ``-log (T p)_y``. It is T-proper for every T, so its
expectation is smallest at the true posterior, whatever loss the candidates were trained with.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, ParameterGrid
from sklearn.utils import _safe_indexing, check_random_state, indexable
from sklearn.utils.validation import _num_samples

from .._core import FloatArray, checks
from ..transitions import ENUMERATION_LIMIT, AnnotatorTransition
from . import labels as _labels
from .modules import row_weights

L2 = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


@dataclass(frozen=True)
class Found:
    """What a search tried and what it chose."""

    results: dict[str, Any]
    best_params: dict[str, Any]
    best_index: int
    names: NDArray[Any]  # the class names of the whole data: folds may miss some


def default_grid(model: Any) -> list[dict[str, list[Any]]]:
    """Forward at several l2; squeezed backward losses at a few; learning rates where minibatches are used."""
    if model == "linear":
        return [
            {"loss": ["forward"], "l2": list(L2)},
            {"loss": ["gls"], "squeeze": [(0.1, 2.0), (1.0, 2.0), (1.0, 1.5)], "l2": [1e-4, 1e-2]},
        ]
    return [
        {"loss": ["forward"], "l2": [1e-5, 1e-3], "learning_rate": [1e-3, 3e-3, 1e-2]},
        {"loss": ["gls"], "squeeze": [(0.1, 2.0), (1.0, 2.0), (1.0, 1.5)], "learning_rate": [1e-3]},
    ]


def with_params(estimator: Any, params: Mapping[str, Any], names: NDArray[Any]) -> Any:
    """A fresh estimator with these settings, no further tuning, and all class names known."""
    settings = dict(params)
    if settings.get("loss") == "forward":  # the grid's other losses may have set these
        settings = {"potential": "logsumexp", "squeeze": None, "reconstruction": "auto"} | settings
    return clone(estimator).set_params(tune=False, classes=names, **settings)


def search(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] | None = None,
    cv: Any = 5,
    verbose: int = 0,
) -> Found:
    """Every setting of the grid on every fold; the one with the smallest mean held-out weak risk.

    A setting whose model calls an observed weak label impossible (links that reach probability zero do that) has an
    infinite log risk. Where one has, the Brier risk ``||T p - e_y||^2``, proper as well, ranks them all; the results
    keep both, and ``criterion`` says which it was.
    """
    try:
        candidates = list(ParameterGrid(default_grid(estimator.model) if grid is None else grid))
    except (TypeError, ValueError) as error:
        raise ValueError(f"tune: expected True, False or a grid as for GridSearchCV, got {grid!r} ({error})") from None
    if not candidates:
        raise ValueError("tune: expected a grid with at least one setting, got none")
    _, names = _labels.resolve(y, estimator._transition_or_loss(), estimator.classes)
    n = _labels.count(y)
    (X,) = indexable(X)
    if _num_samples(X) != n:
        raise ValueError(f"y: expected one label for each of the {_num_samples(X)} rows of X, got {n}")
    folds = _folds(cv, X, n, estimator.random_state)
    weights = None if sample_weight is None else row_weights(sample_weight, X)
    log_risk, brier = (np.full((len(candidates), len(folds)), math.nan) for _ in range(2))
    per_row: list[FloatArray] = []
    for c, params in enumerate(candidates):
        rows = np.full(n, math.nan)  # rows that no fold holds out stay so
        for f, (train, test) in enumerate(folds):
            if weights is not None and not (weights[train].any() and weights[test].any()):
                continue  # nothing to learn from, or nothing to score: the fold says nothing
            model = with_params(estimator, params, names)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the refit will say so
                model.fit(_safe_indexing(X, train), _labels.take(y, train), None if weights is None else weights[train])
            held, labels = _safe_indexing(X, test), _labels.take(y, test)
            w = None if weights is None else weights[test]
            rows[test] = -model.weak_log_likelihood(held, labels)
            log_risk[c, f] = np.average(rows[test], weights=w)
            brier[c, f] = np.average(weak_brier_risk(model, held, labels), weights=w)
        per_row.append(rows)
        if verbose or estimator.verbose:
            print(f"{params}: weak risk {np.nanmean(log_risk[c]):.6g}")
    if np.isnan(log_risk).all():
        raise ValueError("sample_weight: expected positive weights in both parts of some fold, got zeros")
    criterion = "log" if np.isfinite(_mean(log_risk)).all() else "brier"
    order = np.argsort(_mean(log_risk if criterion == "log" else brier), kind="stable")
    best = int(order[0])
    results = _table(candidates, log_risk, brier, per_row, order, best) | {"criterion": criterion}
    return Found(results, dict(candidates[best]), best, names)


def _folds(cv: Any, X: Any, n: int, random_state: Any) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Train and test rows: shuffled folds for a number, else what a splitter or a list of splits says."""
    if isinstance(cv, (int, np.integer)):
        k = checks.integer(cv, "cv", 2)
        if n < 2 * k:
            raise ValueError(f"cv: expected at least {2 * k} rows for {k}-fold cross-validation, got {n}")
        seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        cv = KFold(k, shuffle=True, random_state=seed)
    try:
        splits = cv.split(X) if hasattr(cv, "split") else cv
        return [(np.asarray(train), np.asarray(test)) for train, test in splits]
    except TypeError:
        raise ValueError(f"cv: expected a number, a splitter or a list of (train, test) rows, got {cv!r}") from None


def _mean(by_fold: FloatArray) -> FloatArray:
    """Over the folds that were scored; NaN where none was."""
    scored = ~np.isnan(by_fold).all(axis=0)
    return by_fold[:, scored].mean(axis=1) if scored.any() else np.full(len(by_fold), math.nan)


def weak_brier_risk(model: Any, X: Any, y: Any) -> FloatArray:
    """``||T p - e_y||^2`` of each row: T-proper as the log risk is, and never infinite.

    Candidate sets of more than 12 classes, and rows of answers, cannot be listed; there it is the unbiased
    Brier score by reconstruction.
    """
    p = model.predict_proba(X)
    T = model.transition_
    labels = _labels.encode(y, T, model.classes_)
    if isinstance(T, AnnotatorTransition) or (T.per_class_labels and T.num_classes > ENUMERATION_LIMIT):
        r = T.reconstruction().targets(labels).numpy()
        return (p * p).sum(axis=1) - 2 * (r * p).sum(axis=1) + 1
    matrix, rows = T.matrix(), T.row_index(labels).numpy()
    own = (matrix[rows] * p).sum(axis=1)  # (T p)_y
    return np.einsum("nk,kj,nj->n", p, matrix.T @ matrix, p, optimize=True) - 2 * own + 1


def _table(
    candidates: list[dict[str, Any]],
    log_risk: FloatArray,
    brier: FloatArray,
    per_row: list[FloatArray],
    order: NDArray[np.int64],
    best: int,
) -> dict[str, Any]:
    """In the manner of GridSearchCV's `cv_results_`, with standard errors, also of the difference to the winner."""
    seen = ~np.isnan(per_row[0])
    n = int(seen.sum())
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(1, len(order) + 1)
    with np.errstate(invalid="ignore"):
        spread = [float(np.std(r[seen], ddof=1) / math.sqrt(n)) for r in per_row]
        behind = [float(np.std(r[seen] - per_row[best][seen], ddof=1) / math.sqrt(n)) for r in per_row]
    out: dict[str, Any] = {"params": candidates}
    for key in sorted({k for c in candidates for k in c}):
        out[f"param_{key}"] = [c.get(key) for c in candidates]
    for f in range(log_risk.shape[1]):
        out[f"split{f}_weak_risk"] = log_risk[:, f]
    return out | {
        "mean_weak_risk": _mean(log_risk),
        "stderr_weak_risk": np.array(spread),
        "stderr_of_difference_to_best": np.array(behind),
        "mean_weak_brier": _mean(brier),
        "rank": rank,
    }
