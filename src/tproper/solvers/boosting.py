"""Gradient-boosted trees on any loss, by LightGBM: a problem in, a solution out.

A round adds one tree for each class (one in all for two classes), fitted to the gradient of the loss in the scores.
Its leaves take Newton steps with a bound on the curvature that does not depend on the labels, so that a forward loss,
which is not convex, is descended as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import issparse
from scipy.special import expit
from torch import Tensor, nn

from .._core import FloatArray, Split, tell
from ..errors import InputError
from ..losses import BackwardLoss, ForwardLoss, WeakLabelLoss
from ..potentials import LogSumExp
from .linear import LEAST_CURVATURE, has_pointwise, is_clean
from .minibatch import batch_loss

# Scores (n, K) to the gradient of the summed loss (n, K).
Slope = Callable[[FloatArray], FloatArray]
# Scores (n, K) to the gradient and a bound on the second derivatives, (n, K) both; the latter (n, 1) for two classes.
Derivatives = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
# Scores (n, K) to the risk of rows that were held out.
Risk = Callable[[FloatArray], float]

CHOOSING = 0.8  # of the work, for five folds
FIRST_ROUNDS = 3  # times the patience, before which nothing ends: one or two trees may seem worse than none by chance
LEAST_FALL = 2e-3  # of all that the held-out risk fell: rounds that together lower it by less are not worth growing
SECANT = 0.5  # how far on either side a potential's curvature is taken: beyond its kinks
JOINT = 1 << 17  # scores up to which the loss is called once for all folds: calls cost more than what is done in them
SMALL = 1 << 21  # numbers in X up to which one thread is as quick as several


def lightgbm() -> Any:
    """The package, which comes with an extra."""
    try:
        import lightgbm
    except ImportError:
        raise ModuleNotFoundError("model='boosting' needs lightgbm: pip install 'tproper[boosting]'") from None
    return lightgbm


@dataclass(frozen=True)
class Settings:
    """How trees are grown."""

    rounds: int  # at most
    learning_rate: float
    l2: float  # beside the sum of a leaf's curvatures
    leaves: int
    fewest_rows: int  # in a leaf
    patience: int | None  # rounds that must lower the held-out risk by `LEAST_FALL` together; None: all rounds
    verbose: int = 0


@dataclass(frozen=True)
class Problem:
    """Rows with their labels under a loss."""

    X: Any  # (n, d), dense or sparse
    labels: Tensor  # encoded
    loss: nn.Module
    num_classes: int
    weights: FloatArray | None = None  # positive; they sum to the rows that they stand for

    def part(self, rows: NDArray[np.int64]) -> Problem:
        """Some of the rows; their X is that of the whole."""
        weights = None if self.weights is None else self.weights[rows]
        return Problem(self.X, self.labels[torch.as_tensor(rows)], self.loss, self.num_classes, weights)


@dataclass
class Solution:
    """Trees, and what was learned on the way to them."""

    trees: Trees
    rounds: int
    history: list[dict[str, float]] = field(default_factory=list)
    held_out: FloatArray | None = None  # (n, K): scores of each row by trees that did not see it


class Trees(nn.Module):
    """Scores (n, K) by boosted trees, held as the text that LightGBM writes; no weights that torch could train."""

    def __init__(self, text: str, num_classes: int) -> None:
        super().__init__()
        self.text, self.num_classes = text, num_classes
        self.booster = lightgbm().Booster(model_str=text)
        per_round = 1 if num_classes == 2 else num_classes
        if self.booster.num_model_per_iteration() != per_round:
            raise InputError(
                f"trees: expected {per_round} a round for {num_classes} classes, got "
                f"{self.booster.num_model_per_iteration()}"
            )

    def scores(self, X: Any) -> FloatArray:
        """Scores (n, K) of rows (n, d), dense or sparse."""
        raw = self.booster.predict(X, raw_score=True, num_threads=threads(X))
        return spread(np.asarray(raw, dtype=np.float64).reshape(X.shape[0], -1), self.num_classes)

    def forward(self, X: Tensor) -> Tensor:
        """The same of a tensor."""
        return torch.as_tensor(self.scores(X.detach().cpu().numpy()), device=X.device)


def spread(raw: FloatArray, num_classes: int) -> FloatArray:
    """Scores (n, K) of the numbers that trees give: for two classes the score of the second minus that of the first."""
    return raw if num_classes > 2 else raw * np.array([[-0.5, 0.5]])


def threads(X: Any) -> int:
    """How many threads serve a table of this size. Results do not depend on it."""
    size = X.nnz if issparse(X) else X.size
    return 1 if size <= SMALL else torch.get_num_threads()


def slope(loss: nn.Module, labels: Tensor, weights: FloatArray | None) -> Slope:
    """The gradient of ``sum_i w_i loss_i`` in the scores; of a loss of whole batches, n times that of one batch."""
    w = None if weights is None else torch.as_tensor(weights)
    if has_pointwise(loss):
        assert isinstance(loss, WeakLabelLoss)
        both = loss.bind(labels, w, class_major=True)
        return lambda V: both(torch.as_tensor(V))[1].numpy()

    def of_batch(V: FloatArray) -> FloatArray:
        v = torch.tensor(np.ascontiguousarray(V), requires_grad=True)
        (gradient,) = torch.autograd.grad(len(v) * batch_loss(loss, v, labels, w), v)
        out: FloatArray = gradient.numpy()
        return out

    return of_batch


def curvature(loss: nn.Module) -> Slope:
    """A bound (n, K) on the loss's second derivatives in the scores, or (n, 1) for two classes; labels have no part.

    ``F(v) - <r, v>`` has the curvature of F: ``p (1 - p)`` for log-sum-exp, and for other F the slope of its link over
    a short way. A forward log loss is ``lse(v) - lse(v + log T_y)``, log-sum-exp less another convex function, so that
    ``p (1 - p)`` bounds it, too. The factor ``K / (K - 1)`` is Friedman's (2001), for steps that are taken in all
    classes at once. Where a backward loss of weak labels falls without end its curvature vanishes, but its gradient
    does not: there steps are those of a small curvature.
    """
    F = loss.potential if isinstance(loss, BackwardLoss) else LogSumExp()
    forward = isinstance(loss, ForwardLoss) or (isinstance(loss, WeakLabelLoss) and is_clean(loss.transition))
    least = 0.0 if forward else LEAST_CURVATURE

    def bound(V: FloatArray) -> FloatArray:
        K = V.shape[1]
        if not isinstance(F, LogSumExp):
            v = torch.as_tensor(V)
            h = np.stack([_secant(F, v, z) for z in range(1 if K == 2 else K)], axis=1)
        elif K == 2:
            p = expit(V[:, 1:] - V[:, :1])
            h = p * (1 - p)
        else:
            p = torch.softmax(torch.as_tensor(V.T), 0).numpy().T  # class-major, as scores come
            h = p * (1 - p)
        if K > 2:
            h *= K / (K - 1)
        return np.maximum(h, least, out=h) if least else h

    return bound


def derivatives(problem: Problem) -> Derivatives:
    """`slope` and `curvature` of a problem, times the weights of its rows."""
    gradient, bound, w = slope(problem.loss, problem.labels, problem.weights), curvature(problem.loss), problem.weights

    def both(V: FloatArray) -> tuple[FloatArray, FloatArray]:
        g, h = gradient(V), bound(V)
        if not np.isfinite(g).all():
            raise InputError("loss: expected finite gradients, got others; use loss='forward', or a squeeze")
        return g, h if w is None else h * w[:, None]

    return both


def _secant(F: Any, v: Tensor, z: int) -> FloatArray:
    """The mean second derivative (n,) of F along the step of class z, within `SECANT` of v."""
    K = v.shape[1]
    step = torch.zeros(K, dtype=v.dtype)
    step[z] = 1.0
    if K == 2:
        step = step - 0.5
    with torch.no_grad():
        rise = (F.link(v + SECANT * step) - F.link(v - SECANT * step)) @ step
    return (rise / (2 * SECANT)).numpy()


def start_of(problem: Problem) -> FloatArray:
    """Scores (K,) of a model without features: the shares of the classes, kept near each other by a normal prior."""
    n, K = len(problem.labels), problem.num_classes
    if not has_pointwise(problem.loss):
        return np.zeros(K)
    assert isinstance(problem.loss, WeakLabelLoss)
    w = np.ones(n) if problem.weights is None else problem.weights
    rows = float(w.sum())
    both = problem.loss.bind(problem.labels, torch.as_tensor(w / w.sum()), class_major=True)

    def objective(b: FloatArray) -> tuple[float, FloatArray]:
        losses, gradient = both(torch.as_tensor(b)[:, None].repeat(1, n).T)
        return float(losses.sum()) + 0.5 * float(b @ b) / rows, gradient.sum(0).numpy() + b / rows

    end = minimize(objective, np.zeros(K), jac=True, method="L-BFGS-B", bounds=[(-3.0, 3.0)] * K)
    b: FloatArray = end.x - end.x.mean()
    return b if np.isfinite(b).all() else np.zeros(K)


class _Growing:
    """One sequence of trees, on the rows of `data`."""

    def __init__(
        self, data: Any, num_classes: int, start: FloatArray, params: dict[str, Any], held: Any = None
    ) -> None:
        self.K, self.start = num_classes, start
        self.booster = lightgbm().Booster(params, data)
        if held is not None:
            self.booster.add_valid(held, "held out")
        self.ended = False

    def grow(self, g: FloatArray, h: FloatArray) -> None:
        """One more round by derivatives at `scores`, unless the last one found nothing to split."""
        if not self.ended:
            of_trees = (g, h) if self.K > 2 else (0.5 * (g[:, 1] - g[:, 0]), h[:, 0])
            self.ended = self.booster.update(fobj=lambda raw, data: of_trees)

    def scores(self) -> FloatArray:
        """Scores (n, K) of the rows that trees grow on, as they stand."""
        return self._look(self.booster.eval_train)

    def held_out(self) -> FloatArray:
        """Scores (m, K) of the rows held out, as they stand."""
        return self._look(self.booster.eval_valid)

    def _look(self, evaluate: Callable[[Any], Any]) -> FloatArray:
        """Scores (n, K), a view of (K, n), as LightGBM gives them to whoever evaluates them."""
        kept: list[FloatArray] = []

        def look(raw: FloatArray, data: Any) -> tuple[str, float, bool]:
            half = 0.5 * (raw + (self.start[1] - self.start[0])) if self.K == 2 else None
            kept.append(raw + self.start if half is None else np.stack([-half, half]).T)
            return "", 0.0, False

        evaluate(look)
        return kept[0]

    def trees(self, rounds: int) -> Trees:
        """The first rounds as a model, with the start in the leaves of the first."""
        first = self.booster.dump_model(num_iteration=1)["tree_info"]
        start = self.start if self.K > 2 else self.start[1:] - self.start[:1]
        for tree, value in zip(first, start.tolist(), strict=True):
            for leaf in range(tree["num_leaves"]):
                before = self.booster.get_leaf_output(tree["tree_index"], leaf)
                self.booster.set_leaf_output(tree["tree_index"], leaf, before + value)
        return Trees(self.booster.model_to_string(num_iteration=rounds), self.K)


def solve(
    problem: Problem,
    settings: Settings,
    splits: Sequence[Split] = (),
    risk: Risk | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Solution:
    """Grow trees on all rows, for as many rounds as suit rows that were held out.

    All `splits` grow side by side, one round after the other. After each, `risk` is asked about the scores of all
    rows, each by trees that did not see it. The rounds end where it was least.
    """
    params = _params(problem, settings)
    data = lightgbm().Dataset(problem.X, np.zeros(problem.X.shape[0]), params=params, free_raw_data=False).construct()
    start = start_of(problem)
    rounds, best = settings.rounds, None
    history: list[dict[str, float]] = []
    done = 0.0
    if len(splits) and risk is not None:
        rounds, history, best = _choose(problem, settings, params, data, start, splits, risk, progress)
        done = CHOOSING
    whole, both = _Growing(data, problem.num_classes, start, params), derivatives(problem)
    for number in range(1, rounds + 1):
        whole.grow(*both(whole.scores()))
        progress(done + (1 - done) * number / rounds)
    return Solution(whole.trees(rounds), rounds, history, best)


def _choose(
    problem: Problem,
    settings: Settings,
    params: dict[str, Any],
    data: Any,
    start: FloatArray,
    splits: Sequence[Split],
    risk: Risk,
    progress: Callable[[float], None],
) -> tuple[int, list[dict[str, float]], FloatArray]:
    """The number of rounds, the history of risks, and the held-out scores (n, K) at that number."""
    splits = [(np.sort(train), np.sort(test)) for train, test in splits]
    folds = [
        _Growing(data.subset(train.tolist()), problem.num_classes, start, params, data.subset(test.tolist()))
        for train, test in splits
    ]
    grow = _side_by_side(folds, problem, [train for train, _ in splits])
    scores = np.tile(start, (len(problem.labels), 1))
    first, least, chosen, best = risk(scores), math.inf, 1, scores
    leasts: list[float] = []
    history: list[dict[str, float]] = []
    for number in range(1, settings.rounds + 1):
        grow()
        for fold, (_, test) in zip(folds, splits, strict=True):
            scores[test] = fold.held_out()
        value = risk(scores)
        history.append({"weak_risk": value})
        tell(__name__, f"round {number:4d}  weak risk {value:.6g}", settings.verbose)
        if value < least or settings.patience is None:
            least, chosen, best = value, number, scores.copy()
        leasts.append(least)
        # how far it is to the end nobody knows: half of what is left is done in as many rounds as there were
        progress(CHOOSING * number / (number + min(number, settings.rounds - number)))
        if all(fold.ended for fold in folds):
            break
        if settings.patience is not None and number >= FIRST_ROUNDS * settings.patience:
            fall = leasts[-1 - settings.patience] - least
            if fall <= LEAST_FALL * max(first - least, 0.0):
                break
    return chosen, history, best


def _side_by_side(folds: list[_Growing], problem: Problem, trains: list[NDArray[np.int64]]) -> Callable[[], None]:
    """What grows one more round of every fold, on these rows each."""
    each = [np.concatenate(trains)]
    if not has_pointwise(problem.loss) or len(each[0]) * problem.num_classes > JOINT:
        each = trains
    of_each = [derivatives(problem.part(rows)) for rows in each]

    def one_by_one() -> None:
        for fold, both in zip(folds, of_each, strict=True):
            fold.grow(*both(fold.scores()))

    def together() -> None:
        g, h = of_each[0](np.concatenate([fold.scores().T for fold in folds], axis=1).T)
        ends = np.cumsum([len(rows) for rows in trains])[:-1]
        for fold, *own in zip(folds, np.split(g, ends), np.split(h, ends), strict=True):
            fold.grow(*own)

    return one_by_one if each is trains else together


def _params(problem: Problem, settings: Settings) -> dict[str, Any]:
    K = problem.num_classes
    return {
        "objective": "none",
        "num_class": 1 if K == 2 else K,
        "learning_rate": settings.learning_rate,
        "lambda_l2": settings.l2,
        "num_leaves": settings.leaves,
        "min_data_in_leaf": settings.fewest_rows,
        "min_sum_hessian_in_leaf": 1e-3,
        "feature_pre_filter": False,
        "deterministic": True,
        "force_col_wise": True,
        "num_threads": threads(problem.X),
        "seed": 0,
        "verbosity": -1,
    }
