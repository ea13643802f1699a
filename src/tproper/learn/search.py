"""Choosing settings without clean labels: cross-validated weak risk.

The risk of probabilities p on held-out weak labels is the mean of ``-log (T p)_y``. It is T-proper for every T, so its
expectation is smallest at the true posterior, whatever loss the candidates were trained with. Models that will be
calibrated are compared as they will be: after one temperature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, ParameterGrid
from sklearn.utils import _safe_indexing, check_random_state, indexable
from sklearn.utils.validation import _num_samples
from torch import Tensor

from .._core import FloatArray, Progress, Split, checks, gathered_warnings, group_codes, lines_of, random_folds, tell
from ..errors import InputError
from ..metrics import weights_of
from ..solvers import calibrated_risks, cross_fit, row_risks
from ..transitions import Transition, as_given, is_soft, settle_sorted
from .calibrator import method_of
from .defaults import row_count
from .fitting import flag, own_probabilities
from .truth import read_both, take, weak_part, with_truth

Grid: TypeAlias = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
LEAVES = (2, 4, 8, 16, 32)
L2 = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


@dataclass(frozen=True)
class SearchResult:
    """What a search tried and what it chose."""

    results: dict[str, Any]
    best_params: dict[str, Any]
    best_index: int
    transition: Transition  # with the classes of the whole data: folds may miss some


def default_grid(model: Any) -> list[dict[str, list[Any]]]:
    """Forward at several l2; squeezed backward losses at a few; learning rates where minibatches are used.

    Of boosted trees, larger and smaller ones.
    """
    if model == "linear":
        return [
            {"loss": ["forward"], "l2": list(L2)},
            {"loss": ["gls"], "squeeze": [(0.1, 2.0), (1.0, 2.0), (1.0, 1.5)], "l2": ["auto"]},
        ]
    if model == "boosting":
        return [{"loss": ["forward"], "max_leaves": list(LEAVES)}, {"loss": ["gls"], "max_leaves": ["auto"]}]
    return [
        {"loss": ["forward"], "l2": [1e-5, 1e-3], "learning_rate": [1e-3, 3e-3, 1e-2]},
        {"loss": ["gls"], "squeeze": [(0.1, 2.0), (1.0, 2.0), (1.0, 1.5)], "learning_rate": [1e-3]},
    ]


def with_params(estimator: Any, params: Mapping[str, Any], transition: Transition) -> Any:
    """A fresh estimator with these settings, no further tuning, and a T that names its classes."""
    settings = dict(params)
    if settings.get("loss") == "forward":  # the grid's other losses may have set these
        settings = {"potential": "logsumexp", "squeeze": None, "reconstruction": "auto"} | settings
    quiet = {"verbose": 0} if callable(estimator.verbose) else {}  # who asked is told of the whole, not of its parts
    return clone(estimator).set_params(tune=False, transition=transition, classes=None, **(quiet | settings))


def search(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    grid: Grid | None = None,
    cv: Any = 5,
    *,
    true: Any = None,
    groups: Any = None,
) -> SearchResult:
    """Every setting of the grid on every fold; the one with the smallest mean held-out weak risk.

    Where the estimator calibrates, that is the risk after one temperature fitted to all held-out rows (`criterion`
    "calibrated"): a setting that ranks classes better is not called worse for being too sure or too timid. Otherwise it
    is the risk of the probabilities as they are ("log"). A setting whose model calls an observed weak label impossible
    (links that reach probability zero do that) then has an infinite risk. Where one has, the Brier risk
    ``||T p - e_y||^2``, proper as well, ranks them all ("brier").
    """
    try:
        candidates = list(ParameterGrid(default_grid(estimator.model) if grid is None else grid))
    except (TypeError, ValueError) as error:
        raise InputError(f"tune: expected True, False or a grid as for GridSearchCV, got {grid!r} ({error})") from None
    if not candidates:
        raise InputError("tune: expected a grid with at least one setting, got none")
    if flag(estimator.warm_start) is True:
        raise InputError("warm_start: expected False with tune, whose fits all start afresh, got True")
    space = settle_sorted(weak_part(y, true), estimator._transition_or_loss(), estimator.classes, true=true)
    T = told = space.transition
    labels, known, some = read_both(y, true, space)
    if some is not None:  # rows without a label
        X, y, sample_weight, true, groups = (
            None if v is None else take(v, some) for v in (X, y, sample_weight, true, groups)
        )
        labels, known = labels[torch.as_tensor(some)], None if known is None else known[some]
    if known is not None and (known >= 0).any():
        T, labels = with_truth(T, labels, known, estimator.loss == "forward")
    n, codes = len(labels), group_codes(groups, len(labels))
    (X,) = indexable(X)
    if _num_samples(X) != n:
        raise InputError(f"y: expected one label for each of the {_num_samples(X)} rows of X, got {n}")
    data = _Data(X, y, labels, T, weights_of(sample_weight, n), true, groups)
    splits = _folds(cv, X, n, estimator.random_state, codes)
    part = Progress(estimator.verbose, __name__, "search").part(0, 1 - 1 / (len(candidates) * len(splits) + 1))
    risks = _Risks(estimator, candidates, told, data, splits, part)  # the rest is the fit of the winner
    for params, risk in zip(candidates, risks.mean, strict=True):
        tell(__name__, f"{params}: weak risk {risk:.6g}", lines_of(estimator.verbose))
    order = np.argsort(risks.mean_brier if risks.criterion == "brier" else risks.mean, kind="stable")
    best = int(order[0])
    results = _table(candidates, risks, order, best) | {"criterion": risks.criterion}
    return SearchResult(results, dict(candidates[best]), best, told)


@dataclass(frozen=True)
class _Data:
    """The data of a search: labels as they were given, and encoded for T with the known classes among them."""

    X: Any
    y: Any
    labels: Tensor
    transition: Transition
    weights: FloatArray | None
    true: Any
    groups: Any

    def counts(self, train: NDArray[np.int64], test: NDArray[np.int64]) -> bool:
        """Whether a fold has something to learn from, and something to score."""
        return self.weights is None or bool(self.weights[train].any() and self.weights[test].any())

    def part(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        """The keywords of a fit to some rows."""
        values = {"sample_weight": self.weights, "true": self.true, "groups": self.groups}
        return {k: None if v is None else take(v, rows) for k, v in values.items()}


class _Risks:
    """Risks of all settings on rows that their models did not see, and the criterion that they are ranked by.

    One column for each time that a row `at` is held out (settings, columns); of each fold (settings, folds), NaN where
    it has nothing to score.
    """

    def __init__(
        self,
        estimator: Any,
        candidates: list[dict[str, Any]],
        told: Transition,
        data: _Data,
        splits: list[Split],
        progress: Callable[[float], None],
    ) -> None:
        folds = [test if data.counts(train, test) else test[:0] for train, test in splits]
        self.at = np.concatenate(folds)
        if not len(self.at):
            raise InputError("sample_weight: expected positive weights in both parts of some fold, got zeros")
        ends = np.cumsum([len(test) for test in folds])
        self.folds = [slice(end - len(test), end) for test, end in zip(folds, ends, strict=True)]
        self.labels, self.transition = data.labels[torch.as_tensor(self.at)], data.transition
        self.weights = None if data.weights is None else data.weights[self.at]
        shape = (len(candidates), len(self.at))
        # -log (T p)_y as trained, and after one temperature; `brier_risk`
        self.raw, self.rows, self.brier = np.empty(shape), np.empty(shape), np.empty(shape)
        self.temperature = np.ones(len(candidates))
        calibrated = method_of(estimator.calibrate) is not None
        used = np.flatnonzero(np.ones(len(self.at)) if self.weights is None else self.weights)
        columns = [
            (train, np.arange(fold.start, fold.stop))
            for (train, _), fold in zip(splits, self.folds, strict=True)
            if fold.start < fold.stop
        ]
        labels, w = self.labels[torch.as_tensor(used)], None if self.weights is None else self.weights[used]
        for c, params in enumerate(candidates):
            model = with_params(estimator, params, told).set_params(calibrate=False)
            fit = partial(self._fit, c, model, data)
            tell_share = lambda share, c=c: progress((c + share) / len(candidates))  # noqa: E731
            scores = cross_fit(fit, columns, len(self.at), progress=tell_share)  # one table at a time: all may not fit
            self.rows[c] = self.raw[c]
            if calibrated:
                self.rows[c, used], scale = calibrated_risks(scores[used], labels, data.transition, w)
                self.temperature[c] = 1.0 / scale
        self.by_fold = self._means(self.rows)
        self.mean, self.mean_raw, self.mean_brier = (_mean(self._means(r)) for r in (self.rows, self.raw, self.brier))
        self.criterion = "calibrated" if calibrated else "log"
        if not np.isfinite(self.mean).all():
            self.criterion = "brier"

    def _fit(
        self, c: int, unfitted: Any, data: _Data, _: int, train: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> FloatArray:
        """Fit one setting on one fold; its scores of the rows held out, which have these columns."""
        model = clone(unfitted)
        with gathered_warnings(ConvergenceWarning):  # the refit will say so
            model.fit(_safe_indexing(data.X, train), take(data.y, train), **data.part(train))
        held, labels = _safe_indexing(data.X, self.at[columns]), self.labels[torch.as_tensor(columns)]
        scores: FloatArray = model._scores(held)
        p = own_probabilities(model, scores)
        self.raw[c, columns] = row_risks(self.transition, labels, torch.as_tensor(p).log().numpy())
        self.brier[c, columns] = brier_risk(p, labels, self.transition)
        return scores

    def _means(self, rows: FloatArray) -> FloatArray:
        out = np.full((len(rows), len(self.folds)), math.nan)
        for f, fold in enumerate(self.folds):
            if fold.start < fold.stop:
                w = None if self.weights is None else self.weights[fold]
                out[:, f] = np.average(rows[:, fold], axis=1, weights=w)
        return out

    def by_row(self) -> tuple[FloatArray, FloatArray | None]:
        """Mean risks (settings, rows) of the rows that were held out, and their weights."""
        _, first, place, times = np.unique(self.at, return_index=True, return_inverse=True, return_counts=True)
        means = np.stack([np.bincount(place, risks) for risks in self.rows]) / times
        return means, None if self.weights is None else self.weights[first]


def _folds(cv: Any, X: Any, n: int, random_state: Any, groups: NDArray[np.int64] | None) -> list[Split]:
    """Train and test rows: shuffled folds for a number, else what a splitter or a list of splits says."""
    if isinstance(cv, (int, np.integer)):
        k = checks.integer(cv, "cv", 2)
        if n < 2 * k:
            raise InputError(f"cv: expected at least {2 * k} rows for {k}-fold cross-validation, got {n}")
        seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        if groups is not None:
            return random_folds(n, k, np.random.default_rng(seed), groups)
        cv = KFold(k, shuffle=True, random_state=seed)
    try:
        splits = cv.split(X, groups=groups) if hasattr(cv, "split") else cv
        out = [(np.asarray(train), np.asarray(test)) for train, test in splits]
    except TypeError:
        raise InputError(f"cv: expected a number, a splitter or a list of (train, test) rows, got {cv!r}") from None
    if not out:
        raise InputError("cv: expected at least one split, got none")
    return out


def _mean(by_fold: FloatArray) -> FloatArray:
    """Over the folds that were scored."""
    return by_fold[:, ~np.isnan(by_fold).all(axis=0)].mean(axis=1)


def brier_risk(p: FloatArray, labels: Tensor, T: Transition) -> FloatArray:
    """``||T p - e_y||^2`` of each row (n,), p being (n, K) probabilities: T-proper as the log risk is, and finite.

    Candidate sets of more than 12 classes, and rows of answers, cannot be listed; there it is the unbiased
    Brier score by reconstruction.
    """
    if T.separate or not T.listed:
        r = T.reconstruction().targets(as_given(labels)).numpy()
        return (p * p).sum(axis=1) - 2 * (r * p).sum(axis=1) + 1
    matrix = T.matrix()
    row = labels.numpy() @ matrix if is_soft(labels) else matrix[T.row_index(labels).numpy()]
    own = (row * p).sum(axis=1)  # (T p)_y
    return np.einsum("nk,kj,nj->n", p, matrix.T @ matrix, p, optimize=True) - 2 * own + 1


def _standard_error(values: FloatArray, weights: FloatArray | None) -> float:
    """Of a mean over rows; a row of weight 2 counts as the same row twice."""
    w = np.ones(len(values)) if weights is None else weights
    variance = np.average((values - np.average(values, weights=w)) ** 2, weights=w)
    return float(np.sqrt(variance / (row_count(w) - 1)))


def _table(candidates: list[dict[str, Any]], risks: _Risks, order: NDArray[np.int64], best: int) -> dict[str, Any]:
    """Like GridSearchCV's `cv_results_`, with standard errors, also of the difference to the winner."""
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(1, len(order) + 1)
    rows, w = risks.by_row()
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = [_standard_error(r, w) for r in rows]
        behind = [_standard_error(r - rows[best], w) for r in rows]
    out: dict[str, Any] = {"params": candidates}
    for key in sorted({k for c in candidates for k in c}):
        out[f"param_{key}"] = [c.get(key) for c in candidates]
    for f in range(risks.by_fold.shape[1]):
        out[f"split{f}_weak_risk"] = risks.by_fold[:, f]
    return out | {
        "mean_weak_risk": risks.mean,
        "stderr_weak_risk": np.array(spread),
        "stderr_of_difference_to_best": np.array(behind),
        "mean_raw_risk": risks.mean_raw,
        "temperature": risks.temperature,
        "mean_weak_brier": risks.mean_brier,
        "rank": rank,
    }
