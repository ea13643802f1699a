"""How `WeakLabelClassifier` is fitted: by L-BFGS, in minibatches or as boosted trees, then calibrated.

These functions read the settings of a classifier and give back what they have fitted; the classifier takes it over
(`WeakLabelClassifier._take`), and nothing else changes it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from .._core import (
    Before,
    FloatArray,
    Progress,
    check_room,
    checks,
    compact,
    finite_rows,
    gathered_warnings,
    held_out_rows,
    lines_of,
)
from ..errors import InputError
from ..losses import ForwardLoss, WeakLabelLoss
from ..metrics import Z95, weights_of
from ..solvers import (
    RunningScale,
    boosting,
    calibrated_risks,
    cross_fit,
    forward_risk,
    linear,
    matching_scale,
    minibatch,
    not_clearly_worse,
)
from ..transitions import Transition
from .calibrator import (
    FEWEST_ROWS,
    Calibrator,
    as_sure_as_labels,
    fit_calibrator,
    folds,
    identity_calibrator,
    method_of,
    row_counts,
)
from .defaults import (
    NETWORK_L2,
    TREE_L2,
    TREE_LEAVES,
    default_l2,
    default_leaf_rows,
    default_learning_rate,
    default_tree_rate,
    intercept_l2,
    label_information,
    row_count,
    uneven,
)
from .modules import linear_module, mlp_module, same_form, seeded
from .scaling import softmax_above_zero

if TYPE_CHECKING:
    from .classifier import WeakLabelClassifier

AUTO_EARLY_STOPPING = 500  # rows from which early_stopping="auto" holds some out
AUTO_INFORMATION = 5.0  # clean labels that the held-out ones must be worth: with fewer, stopping is left to chance
AUTO_BATCH = (8, 128)  # batch_size="auto" is a tenth of the rows within these
TABLES = 3  # (n, K) tables of float64 that the linear solver holds at least: scores, losses' inputs, gradients
CROSS_FIT_TOL = 3e-5  # gradient of the cross-fitted models: at 1e-4 temperatures were .5% off with ten folds
# Folds of the cross-fit, and the rows from which there may be fewer. A model of a fold knows fewer rows than the one
# that is calibrated, and its scores say less: temperatures fitted to them were 11 to 15% off with 5 folds and 5 to 7%
# with 10 (gLS, 1,200 complementary labels). What a few more rows teach shrinks with n.
MOST_FOLDS, LEAST_FOLDS, FOLD_ROWS = 10, 3, 5_000
SET_FACTORS, SET_FOLDS, SET_ROWS = (1.0, 0.3, 0.1), 3, 10_000  # penalties for candidate sets: `_set_l2`
LARGEST_SPAN = 600.0  # between scores of a row: beyond 745 softmax gives zeros


@dataclass(frozen=True)
class Training:
    """The rows of a fit."""

    X: Any  # (n, d)
    labels: Tensor  # encoded, as `transition` has it
    transition: Transition  # of the weak labels, or of weak labels and known classes together
    loss: nn.Module  # of these labels
    weights: FloatArray | None = None  # positive, with mean one; None where all are equal
    groups: NDArray[np.int64] | None = None
    rows: float = 0.0  # how many all weights of the fit stand for

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, rows: NDArray[np.int64]) -> Training:
        """Some of them."""
        weights = None if self.weights is None else self.weights[rows]
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, X=self.X[rows], labels=self.labels[torch.as_tensor(rows)], weights=weights, groups=groups)


@dataclass(frozen=True)
class Fitted:
    """What a fit, or a pass, has made: each is an attribute of the classifier, under its name and an underscore."""

    module: nn.Module
    l2: float
    history: list[dict[str, Any]]
    n_iter: int
    calibrator: Calibrator | None = None
    learning_rate: float | None = None  # where there is one
    objective: float | None = None  # of the linear model
    minima: list[float] | None = None


def weighted(data: Training, sample_weight: Any) -> tuple[Training, NDArray[np.int64]]:
    """The rows of positive weight, with their weights, and which they are."""
    w = weights_of(sample_weight, len(data))
    if w is None:
        return replace(data, rows=float(len(data))), np.arange(len(data))
    rows, used = row_count(w), np.flatnonzero(w > 0)
    if len(used) < len(w):
        data, w = data.part(used), w[used]
    w = uneven(w)
    return replace(data, weights=None if w is None else w / w.mean(), rows=rows), used


def flag(value: Any) -> Any:
    """True or False, however it is spelled (numpy's, 0 and 1); anything else stays as it is."""
    if isinstance(value, (int, np.integer, np.bool_)) and value in (0, 1):
        return bool(value)
    return value


# Linear models.


def fit_lbfgs(clf: WeakLabelClassifier, data: Training, start: nn.Module | None) -> Fitted:
    """The linear model by L-BFGS, calibrated by cross-fitted scores."""
    if clf.device not in ("auto", "cpu"):
        raise InputError(
            f"device: expected 'auto' or 'cpu' for the linear solver, got {clf.device!r}; "
            "early_stopping=True trains linear models in minibatches on any device"
        )
    assert isinstance(data.loss, WeakLabelLoss)
    X, labels, weights = data.X, data.labels, data.weights
    n, K = len(data), len(clf.classes_)
    check_room(
        8 * TABLES * n * K,
        f"{TABLES} tables of {n:,} rows x {K:,} classes",
        "use fewer rows or classes, or train in minibatches (early_stopping=True)",
    )
    at = None
    if start is not None:
        assert isinstance(start, nn.Linear)
        at = (start.weight.detach().cpu().double().numpy(), start.bias.detach().cpu().double().numpy())
    l2 = default_l2(X, labels, data.loss, weights, data.rows) if clf.l2 == "auto" else float(clf.l2)
    prior = intercept_l2(data.loss, labels, weights, data.rows)
    if (
        clf.l2 == "auto"
        and data.transition.vacuous is not None
        and isinstance(data.loss, ForwardLoss)
        and n >= FEWEST_ROWS
    ):
        l2 = _set_l2(clf, data, l2, prior)
    method = method_of(clf.calibrate)
    more = 0 if method is None or (n < FEWEST_ROWS and method == "auto") else cross_fit_folds(n)
    progress, first = Progress(clf.verbose, __name__), 1 / (1 + more)
    fit = linear.fit_linear(
        X, labels, data.loss, weights, l2, clf.tol, clf.max_iter, at, lines_of(clf.verbose), prior,
        progress.part(0, first),
    )  # fmt: skip
    progress(first)
    found: Calibrator | None = None
    if method is not None and n < FEWEST_ROWS and method == "auto":
        found = uncalibrated(data.loss, np.asarray(X @ fit.coef.T) + fit.intercept, weights, "too few rows")
    elif method is not None:
        found = calibrator(cross_fitted(clf, data, l2, prior, progress.part(first, 0.99)), data, method)
        progress(1.0)
    return Fitted(
        linear_module(fit.coef, fit.intercept), l2, fit.history, max(1, fit.iterations), found,
        objective=fit.objective, minima=fit.minima,
    )  # fmt: skip


def cross_fitted(
    clf: WeakLabelClassifier,
    data: Training,
    penalty: float,
    prior: float,
    progress: Callable[[float], None] = lambda share: None,
    parts: int = 0,
) -> FloatArray:
    """Scores (n, K) of each row by a model that did not see it.

    A fold begins from zero. From the solution for all rows, or a tenth of it, it would end in the same minimum of
    several, and so remember labels that it should not have seen: that minimum was chosen by them (classes that chance
    left out of the labels, where these say little), and seemed better than no knowledge at all when it was worse.
    """
    assert isinstance(data.loss, WeakLabelLoss)
    n, K, loss = len(data), len(clf.classes_), data.loss
    at = (np.broadcast_to(0.0, (K, data.X.shape[1])), np.zeros(K))  # takes no memory

    def scores(_: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> FloatArray:
        fold, more = data.part(train), n / len(train)  # the same prior beside fewer rows
        l2, tol = more * penalty, max(clf.tol, CROSS_FIT_TOL)
        with gathered_warnings(ConvergenceWarning):  # the fit to all rows has warned of it
            fit = linear.fit_linear(
                fold.X, fold.labels, loss, fold.weights, l2, tol, clf.max_iter, at, intercept_l2=more * prior,
                spend=True,
            )  # fmt: skip
        return np.asarray(data.X[test] @ fit.coef.T) + fit.intercept

    return cross_fit(scores, folds(n, data.groups, parts or cross_fit_folds(n)), n, progress=progress)


def _set_l2(clf: WeakLabelClassifier, data: Training, first: float, prior: float) -> float:
    """The penalty for candidate sets: the least of some that cross-validation cannot tell from the best.

    Classes that share many sets (a cow and the grass it stands on) are told apart by few rows alone, and a penalty that
    is right for candidates drawn at random merges them. Labels of rows outside the fit hardly say so, since the mass
    stays inside of their sets. So of the penalties whose calibrated weak risk is not clearly above the best one's, the
    least is taken.
    """
    n = len(data)
    if n > SET_ROWS:
        data = data.part(np.linspace(0, n - 1, SET_ROWS).round().astype(np.int64))
    w = torch.as_tensor(np.ones(len(data)) if data.weights is None else data.weights)
    tried = dict[float, Tensor]()
    for factor in SET_FACTORS:
        penalty = factor * first * n / len(data)
        scores = cross_fitted(clf, data, penalty, prior * n / len(data), parts=SET_FOLDS)
        tried[factor] = torch.as_tensor(calibrated_risks(scores, data.labels, data.transition, data.weights)[0])
    best = min(tried.values(), key=lambda rows: float((w * rows).sum()))
    return first * min(f for f, rows in tried.items() if bool(not_clearly_worse(rows, best, w, Z95)))


def cross_fit_folds(n: int) -> int:
    """As many folds as n rows pay for: 10 up to 5,000 rows, 5 for 10,000, 3 for many."""
    return max(LEAST_FOLDS, min(MOST_FOLDS, math.ceil(MOST_FOLDS * FOLD_ROWS / n)))


# Boosted trees.


def fit_boosting(clf: WeakLabelClassifier, data: Training) -> Fitted:
    """Boosted trees, with as many rounds as cross-fitted scores want, which calibrate them as well."""
    if clf.device not in ("auto", "cpu"):
        raise InputError(f"device: expected 'auto' or 'cpu' for boosted trees, got {clf.device!r}")
    n, K, method = len(data), len(clf.classes_), method_of(clf.calibrate)
    check_room(8 * TABLES * n * K, f"{TABLES} tables of {n:,} rows x {K:,} classes", "use fewer rows or classes")
    information = label_information(data.loss, data.labels, data.weights)
    l2 = TREE_L2 if clf.l2 == "auto" else float(clf.l2)
    rate = default_tree_rate(information) if clf.learning_rate == "auto" else float(clf.learning_rate)
    stop = flag(clf.early_stopping) is not False
    settings = boosting.Settings(
        rounds=clf.max_iter,
        learning_rate=rate,
        l2=l2,
        leaves=TREE_LEAVES if clf.max_leaves == "auto" else int(clf.max_leaves),
        fewest_rows=default_leaf_rows(information, n),
        patience=clf.patience if stop else None,
        verbose=lines_of(clf.verbose),
    )
    progress = Progress(clf.verbose, __name__)
    weights = data.weights  # with mean one; l2 is in rows, and whole weights are repetitions
    if weights is not None or data.rows != n:
        weights = (np.ones(n) if weights is None else weights) * (data.rows / n)
    problem = boosting.Problem(data.X, data.labels, data.loss, K, weights)
    splits = folds(n, data.groups) if stop or method is not None else []
    found = boosting.solve(problem, settings, splits, held_out_risk(data, method), progress.part(0, 0.95))
    map_: Calibrator | None = None
    if method is not None and found.held_out is not None:
        if n < FEWEST_ROWS and method == "auto":
            map_ = uncalibrated(data.loss, found.trees.scores(data.X), data.weights, "too few rows")
        else:
            map_ = calibrator(found.held_out, data, method)
    progress(1.0)
    return Fitted(found.trees, l2, found.history, found.rounds, map_, rate)


def held_out_risk(data: Training, method: str | None) -> boosting.Risk:
    """The weak risk ``-log (T p)_y`` of scores (n, K), at their best temperature where they will be calibrated."""
    n = len(data)
    w = np.ones(n) if data.weights is None else data.weights
    risk = forward_risk(data.transition, data.labels.cpu(), w / w.sum())
    scale = RunningScale(risk)

    def of_scores(V: FloatArray) -> float:
        if method is None and is_softmax(data.loss, V):
            return risk(np.ascontiguousarray(V.T))[0]
        return scale(V)

    return of_scores


# Calibration.


def link_of(loss: nn.Module, scores: FloatArray) -> FloatArray:
    """Probabilities by the loss's own link; softmax where it has none."""
    link = getattr(loss, "probabilities", None)
    v = torch.as_tensor(scores)
    with torch.no_grad():
        return torch.softmax(v, -1).numpy() if link is None else link(v).cpu().numpy()


def own_probabilities(clf: WeakLabelClassifier, scores: FloatArray) -> FloatArray:
    """The model's probabilities (n, K), calibrated: of bags those among the pooled rows, which T takes to labels."""
    own = clf._changes() is None
    p = link_of(clf.loss_, scores) if own else softmax_above_zero(clf._calibrated(scores))
    return finite_rows(p, clf.module_)


def training_shares(clf: WeakLabelClassifier, data: Training) -> FloatArray | None:
    """The mean of the model's probabilities over its training rows (K,); None where it has none that are finite."""
    try:
        p = own_probabilities(clf, scores_of(clf, data.X))
    except InputError:
        return None
    shares = np.average(p, axis=0, weights=data.weights)
    return np.asarray(shares / shares.sum())


def of_population(clf: WeakLabelClassifier, p: FloatArray, prior: Any) -> FloatArray:
    """Probabilities (n, K) of the population with this prior; the transition's, by default, or none."""
    T, K = clf.transition_, p.shape[1]
    wanted = T.prior if prior is None else checks.probability_vector(prior, "prior", K)
    if wanted is None:
        return p
    trained = T.trained_shares
    trained = getattr(clf, "class_prior_", None) if trained is None else trained
    if trained is None:
        raise InputError("prior: expected a model of `fit`, which knows the class shares in training, got another")
    if (trained <= 0).any():
        raise InputError(f"prior: expected every class in training, got none of class {clf.classes_[trained.argmin()]}")
    weighted = p * (wanted / trained)
    return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))


def is_softmax(loss: nn.Module, scores: FloatArray) -> bool:
    """Whether the loss's link is softmax, at these scores brought to a size where links can be told apart."""
    near = scores / max(1.0, np.abs(scores[np.isfinite(scores)]).max(initial=0.0))
    softmax = torch.softmax(torch.as_tensor(near), -1).numpy()
    return bool(np.abs(link_of(loss, near) - softmax).max(initial=0.0) <= 1e-9)


def calibrator(scores: FloatArray, data: Training, method: str) -> Calibrator:
    """Fitted to held-out scores; the identity, with a note, where a label cannot occur under T."""
    y, weights = data.labels.cpu(), data.weights
    n = len(y)
    value, _ = forward_risk(data.transition, y, np.full(n, 1.0 / n))(np.zeros((scores.shape[1], n)))
    if not math.isfinite(value):
        return uncalibrated(data.loss, scores, weights, "a label cannot occur under the transition")
    if not np.isfinite(scores).all():
        return identity_calibrator(scores.shape[1], "not calibrated: the model masks classes")
    base, note = _base(data.loss, scores, weights)
    if method == "auto" and data.transition.of_features:
        told = data.transition.speaks(y).numpy()
        if not told.any():
            return uncalibrated(data.loss, scores, weights, "no source speaks of any row")
        w = np.ones(n) if weights is None else weights
        own = as_sure_as_labels(base * scores[told], y[torch.as_tensor(told)], data.transition, w[told])
        return own.on_top_of(base, note)
    w = row_counts(weights, n)
    # a link that is not softmax is replaced in any case: no reason to stay close to what replaces it
    fitted = fit_calibrator(base * scores, y, data.transition.named(None), w, method, data.groups, cautious=not note)
    return fitted.on_top_of(base, note)


def uncalibrated(loss: nn.Module, scores: FloatArray, weights: FloatArray | None, why: str) -> Calibrator:
    """The identity, or the softmax that comes closest to a link with zeros."""
    base, note = _base(loss, scores, weights)
    return identity_calibrator(scores.shape[1], f"not calibrated: {why}").on_top_of(base, note)


def _base(loss: nn.Module, scores: FloatArray, weights: FloatArray | None) -> tuple[float, str]:
    """The factor at which softmax of the scores comes closest to the loss's link; 1 where that is softmax.

    It is never so large that a probability would be rounded to zero.
    """
    if is_softmax(loss, scores):
        return 1.0, ""
    w = np.ones(len(scores)) if weights is None else weights
    span = float(np.ptp(np.where(np.isfinite(scores), scores, 0.0), axis=1).max(initial=0.0))
    scale = min(matching_scale(scores, link_of(loss, scores), w), LARGEST_SPAN / max(span, 1e-300))
    return scale, "the loss's link, which may say zero, is replaced by the softmax that comes closest to it"


# Minibatches.


def fit_minibatches(clf: WeakLabelClassifier, data: Training, rng: Any, start: nn.Module | None) -> Fitted:
    """Any module by minibatch steps; held-out rows stop it and calibrate it."""
    device = device_of(clf)
    method = method_of(clf.calibrate)
    information = label_information(data.loss, data.labels, data.weights)
    worth = clf.validation_fraction * data.rows * information
    auto = clf.early_stopping == "auto" and clf.model != "linear" and data.rows >= AUTO_EARLY_STOPPING
    stop = flag(clf.early_stopping) is True or (auto and worth >= AUTO_INFORMATION)
    hold = stop or method not in (None, "auto", "identity")  # a method that the caller names needs rows of its own
    train, held = _held_out(len(data), clf.validation_fraction if hold else 0.0, rng, data.groups)
    l2, rate = _network_l2(clf), learning_rate(clf, information)
    with seeded(rng, device, callable(clf.model)) as generator:
        # a copy to start from: a fit that fails must leave the last one alone
        module = (make_module(clf, device, generator) if start is None else copy.deepcopy(start)).to(device)
        data.loss.to(device)

        def part(rows: NDArray[np.int64]) -> tuple[minibatch.Rows, Tensor, Tensor | None]:
            return tensors(data.part(rows), dtype_of(clf), device)

        steps = make_steps(clf, len(train), generator, l2, rate)
        epochs = minibatch.fit_minibatch(
            module,
            data.loss,
            *part(train),
            steps,
            epochs=clf.epochs,
            held_out=part(held) if stop else None,
            patience=clf.patience,
            tol=clf.tol,
            transition=data.transition,
            verbose=lines_of(clf.verbose),
            progress=Progress(clf.verbose, __name__),
        )
    module.eval()  # for good: threads that predict must not switch dropout on for each other
    found: Calibrator | None = None
    if method is not None:
        some = data.part(held if hold else train[:FEWEST_ROWS])
        scores = minibatch.scores_of(module, tensors(some, dtype_of(clf), device)[0]).double().cpu().numpy()
        if not hold and start is None and method == "auto" and FEWEST_ROWS <= len(data) < AUTO_EARLY_STOPPING:
            unseen = _cross_fitted_network(clf, data, int(rng.randint(2**31)), device, l2, rate)
            found = calibrator(unseen, data, method)
        elif hold:
            alone = some.groups is not None and len(np.unique(some.groups)) < 2
            found = calibrator(scores, replace(some, groups=None) if alone else some, method)
        else:
            why = f": they would say as much as {worth:.2g} clean labels" if auto and not stop else ""
            why = f"no rows were held out (early_stopping){why}"
            found = uncalibrated(data.loss, scores, some.weights, why)
    return Fitted(module, l2, steps.history, epochs, found, rate)


def _network_l2(clf: WeakLabelClassifier) -> float:
    return NETWORK_L2 if clf.l2 == "auto" else float(clf.l2)


def _cross_fitted_network(
    clf: WeakLabelClassifier, data: Training, seed: int, device: torch.device, l2: float, rate: float
) -> FloatArray:
    """Scores (n, K) of each row by a network that did not see it: few rows are too dear to be held out for good."""

    def scores(_: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> FloatArray:
        with seeded(np.random.RandomState(seed), device, callable(clf.model)) as generator:
            module = make_module(clf, device, generator).to(device)
            minibatch.fit_minibatch(
                module,
                data.loss,
                *tensors(data.part(train), dtype_of(clf), device),
                make_steps(clf, len(train), generator, l2, rate),
                epochs=clf.epochs,
                held_out=None,
                patience=clf.patience,
                tol=clf.tol,
                transition=data.transition,
            )
        module.eval()
        rows = tensors(data.part(test), dtype_of(clf), device)[0]
        return minibatch.scores_of(module, rows).double().cpu().numpy()

    return cross_fit(scores, folds(len(data), data.groups), len(data))


def tensors(data: Training, dtype: torch.dtype, device: torch.device) -> tuple[minibatch.Rows, Tensor, Tensor | None]:
    """Features, labels and weights on the device."""
    w = None if data.weights is None else torch.as_tensor(data.weights).to(device)
    return minibatch.Rows(data.X, dtype, device), data.labels.to(device), w


def _held_out(
    n: int, share: float, rng: Any, groups: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on, and rows to stop and calibrate by; whole groups where there are any."""
    if groups is None or share == 0:
        order = rng.permutation(n)
        kept = n - math.ceil(share * n)
        if kept < 1:
            raise InputError(f"validation_fraction: expected to leave rows to train on, got none of {n}")
        return np.sort(order[:kept]), np.sort(order[kept:])
    return held_out_rows(n, share, np.random.default_rng(rng.randint(2**31)), compact(groups))


@dataclass(frozen=True)
class Pass:
    """What one epoch has left, from which the next goes on."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    learning_rate: float
    l2: float


def one_pass(
    clf: WeakLabelClassifier,
    data: Training,
    rng: Any,
    module: nn.Module | None,
    optimizer: torch.optim.Optimizer | None,
    before: Before,
) -> tuple[Pass, float]:
    """One epoch over the rows given, and its mean loss; undone where it diverges. Without a module it is the first."""
    device, l2 = device_of(clf), _network_l2(clf)
    with seeded(rng, device, callable(clf.model)) as generator:
        module = (make_module(clf, device, generator) if module is None else module).to(device)
        if optimizer is None:
            rate = learning_rate(clf, label_information(data.loss))  # whatever this batch holds
            optimizer = minibatch.make_optimizer(module, rate, l2)
        else:
            rate = clf.learning_rate_
        steps = make_steps(clf, len(data), generator, l2, rate)
        steps.optimizer = optimizer
        before.add(module, optimizer)
        rows = tensors(data, dtype_of(clf), device)
        value = minibatch.train_epoch(module, data.loss.to(device), *rows, steps)
    before.check(value)
    module.eval()
    return Pass(module, optimizer, rate, l2), value


def learning_rate(clf: WeakLabelClassifier, information: float) -> float:
    """The rate that was asked for, or the one that suits the labels."""
    return default_learning_rate(information) if clf.learning_rate == "auto" else float(clf.learning_rate)


def make_steps(clf: WeakLabelClassifier, n: int, generator: torch.Generator, l2: float, rate: float) -> minibatch.Steps:
    """Settings of minibatch training for n rows."""
    low, high = AUTO_BATCH
    size = min(high, max(low, n // 10)) if clf.batch_size == "auto" else int(clf.batch_size)
    return minibatch.Steps(rate, l2, size, generator)


# Modules.


def make_module(clf: WeakLabelClassifier, device: torch.device, generator: torch.Generator | None) -> nn.Module:
    """The model with its first weights; "mlp" draws them from a generator of its own, a callable from torch's."""
    d, K = clf.n_features_in_, len(clf.classes_)
    if clf.model == "linear":
        return linear_module(np.zeros((K, d)), np.zeros(K))
    if clf.model == "mlp":
        own = None if generator is None else torch.Generator().manual_seed(generator.initial_seed())
        return mlp_module(d, K, clf.hidden, own)
    module = clf.model(d, K)  # type: ignore[operator]
    if not isinstance(module, nn.Module):
        raise InputError(f"model: expected the callable to return an nn.Module, got {type(module).__name__}")
    module.to(device).eval()
    with torch.no_grad():
        shape = tuple(module(torch.zeros(2, d, device=device)).shape)
    if shape != (2, K):
        raise InputError(f"model: expected scores of shape (n, {K}), got {shape} for n = 2")
    return module


def check_warm(clf: WeakLabelClassifier, module: nn.Module, features: int, classes: int) -> nn.Module:
    """The module to go on from; a warm start needs data of the same shape, and the same model."""
    if (features, classes) != (clf.n_features_in_, len(clf.classes_)):
        raise InputError(
            f"warm_start: expected the {features} features and {classes} classes of the last fit, got "
            f"{clf.n_features_in_} and {len(clf.classes_)}"
        )
    # one more module must not change anyone's random numbers
    with seeded(np.random.RandomState(0), torch.device("cpu"), callable(clf.model)):
        if not same_form(module, make_module(clf, torch.device("cpu"), None)):
            raise InputError("warm_start: expected the model of the last fit, got another; fit a new estimator")
    return module


def scores_of(clf: WeakLabelClassifier, X: Any) -> FloatArray:
    """The fitted model's scores (n, K) of checked features, before calibration."""
    module = clf.module_
    if isinstance(module, nn.Linear) and clf.model == "linear":
        coef, intercept = (p.detach().cpu().double().numpy() for p in (module.weight, module.bias))
        with np.errstate(over="ignore", invalid="ignore"):  # refused instead
            return finite_rows(np.asarray(X @ coef.T) + intercept, module)
    if isinstance(module, boosting.Trees):
        return finite_rows(module.scores(X), module)
    if clf.model == "mlp":  # in float64 a row's scores do not depend on the rows it is asked for together with
        module = copy.deepcopy(module).cpu().double()
    first = next(module.parameters(), torch.empty(0))
    scores = minibatch.scores_of(module, minibatch.Rows(X, first.dtype, first.device))
    return finite_rows(scores.double().cpu().numpy(), clf.module_, masks=callable(clf.model))


def dtype_of(clf: WeakLabelClassifier) -> torch.dtype:
    """Linear models are trained in double precision."""
    return torch.float64 if clf.model == "linear" else torch.float32


def device_of(clf: WeakLabelClassifier) -> torch.device:
    """Where minibatches are trained."""
    if clf.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() and clf.model != "linear" else "cpu")
    try:
        device = torch.device(clf.device)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device: expected 'auto', 'cpu' or a device of this machine, got {clf.device!r}") from error
    return device
