"""The solver of linear models: L-BFGS on a convex, pre-conditioned problem."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import issparse
from scipy.special import softmax
from torch import Tensor, nn

from .._core import FloatArray, tell, warn
from ..errors import InputError
from ..losses import BackwardLoss, BatchRiskLoss, ForwardLoss, WeakLabelLoss, bind_evidence
from ..potentials import Brier, Squeezed
from ..transitions import Rows, Targets, Transition

# Scores (K, n), class-major, to the weighted mean loss and its gradient (K, n).
ScoreLoss = Callable[[FloatArray], tuple[float, FloatArray]]

STARTS, CHEAP = 4, 1 << 19  # far starts at most, taken where n x classes x features is at most this
ROUGH, SAME = 1e-3, 3e-4  # the gradient at which starts are compared, and objectives that are the same there
CLOSE = 0.1  # root mean square over the rows of the distance of two predictions of the same minimum
# Standard deviations of the scores at the first start and the others. The first only leaves the saddle at zero: from a
# tenth, two of eight fits to complementary MNIST ended in a worse minimum, without one or two of the classes.
NEAR, FAR = 0.01, 1.0
WHITEN_AT_MOST, STANDARDISE_AT_MOST = 2048, 128  # features
# Steps that L-BFGS remembers, each two tables of coefficients (and five more): of many coefficients fewer, or they
# outgrow the data. (Sparse X of 50,000 terms: with three steps as quick as with ten.)
REMEMBERED, REMEMBERED_OF_MANY, FEWEST_REMEMBERED, MANY = 30, 10, 3, 1 << 16
FIRST_STEP = 0.25  # standard deviation of the scores after it, at most
LEAST_CURVATURE = 0.05  # that of cross entropy where it is fairly certain
ENDLESS = "this loss is not bounded from below: use loss='forward', a squeeze"


def has_pointwise(loss: nn.Module) -> bool:
    """Whether the loss of a data set is a mean of one loss per example."""
    return isinstance(loss, WeakLabelLoss) and not isinstance(loss, BatchRiskLoss)


def score_loss(loss: WeakLabelLoss, labels: Tensor, weights: FloatArray) -> ScoreLoss:
    """The loss of a whole data set as a function of scores (K, n); `weights` (n,) sum to one.

    Class-major scores keep both matrix products in the orientation that BLAS does fastest for few classes.
    """
    return _of_scores(loss.bind(labels, torch.as_tensor(weights), class_major=True))


def evidence_loss(evidence: Targets | Rows, weights: FloatArray | int) -> ScoreLoss:
    """The same of what is known of each row: targets r, ``logsumexp v - <r, v>``, or likelihoods t, ``-log <t, p>``.

    An integer in place of weights is the number of rows, all of one weight.
    """
    if isinstance(weights, int):
        return _of_scores(bind_evidence(evidence, class_major=True, share=1.0 / weights))
    return _of_scores(bind_evidence(evidence, torch.as_tensor(weights), class_major=True))


def _of_scores(both: Callable[[Tensor], tuple[Tensor, Tensor]]) -> ScoreLoss:
    def value(V: FloatArray) -> tuple[float, FloatArray]:
        losses, gradient = both(torch.as_tensor(V).T)
        return float(losses.sum()), gradient.numpy().T

    return value


@dataclass
class LinearFit:
    """A fitted linear model: scores are ``X @ coef.T + intercept``."""

    coef: FloatArray  # (K, d)
    intercept: FloatArray  # (K,)
    objective: float
    iterations: int
    history: list[dict[str, float]]
    minima: list[float]  # the different ends that its starts met, best first; one entry for a convex objective


def fit_linear(
    X: Any,
    labels: Tensor,
    loss: WeakLabelLoss,
    weights: FloatArray | None,
    l2: float,
    tol: float,
    max_iter: int,
    start: tuple[FloatArray, FloatArray] | None = None,
    verbose: int = 0,
    intercept_l2: float = 0.0,
    progress: Callable[[float], None] | None = None,
    spend: bool = False,
) -> LinearFit:
    """L-BFGS in float64, in coordinates that suit it (`_Coordinates`); the objective stays that of the raw features.

    Stops when no entry of the gradient, taken with respect to the coefficients of standardised features (mean 0,
    variance 1) and the intercepts, is larger than `tol`. `intercept_l2` penalises the scores at the features' mean.
    With `spend`, dense X may be used up: nobody else holds it, and a second table of its size is saved.
    """
    n, K = X.shape[0], loss.transition.num_classes
    w = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    space = _Coordinates(X, w, l2, curvature(loss), spend)
    problem = _Problem(score_loss(loss, labels, w), space, K, l2, intercept_l2)
    problem.progress = progress
    if start is not None:
        firsts = [space.enter(*start) / space.unit]
    else:
        firsts = [np.zeros(problem.size)] if is_convex(loss) else problem.starts(cheap=n * K * space.width <= CHEAP)
    ends = descents(problem, firsts, tol, max_iter, verbose)
    end = ends[0]
    if not np.isfinite(end.fun) or not np.isfinite(end.x).all():
        what = "left the finite numbers; scale the features"
        if loss.lower_bounds().min() == -math.inf:
            what = f"fell without end; {ENDLESS}, or l2 > 0"
        raise InputError(f"loss: the objective {what}")
    value, _ = problem(end.x)
    gradient = problem.gradient
    # where the objective is down to rounding no line search can go on: that is an end too
    if not gradient <= max(tol, 1e-3 if end.nit < max_iter else 0.0):
        runs_away = value < 0 and loss.lower_bounds().min() == -math.inf
        advice = f"{ENDLESS}, or raise l2" if runs_away else "raise max_iter or l2, or scale the features"
        from sklearn.exceptions import ConvergenceWarning  # slow to import

        warn(
            f"the linear solver stopped after {end.nit} iterations at a gradient of {gradient:.2g} > tol={tol:g}; "
            f"{advice}",
            ConvergenceWarning,
        )
    coef, intercept = space.leave(*problem.split(end.x))
    minima = [value, *[float(e.fun) for e in ends[1:]]]
    return LinearFit(coef, intercept, value, int(end.nit), end.history, minima)


def descents(problem: _Problem, firsts: list[FloatArray], tol: float, max_iter: int, verbose: int) -> list[Any]:
    """The different ends of descents from these points, the lowest first.

    The first descent runs to its end. A later one stops as soon as its probabilities are within `CLOSE` of a known
    end, or when it has all but ended (a gradient of `ROUGH`) no lower than the lowest: it has nothing new to tell. The
    first that agrees with a known end is the last, so that a problem with one minimum costs less than two descents,
    and one with several gets up to `STARTS` more.
    """
    ends: list[Any] = []
    for number, first in enumerate(firsts):
        if number:
            tell(__name__, f"start {number + 1} of at most {len(firsts)}", verbose)
        end = problem.descend(first, tol, max_iter, verbose, ends)
        if end.known:
            break
        end.shares = softmax(problem.scores, axis=0) if len(firsts) > 1 else None
        ends.append(end)
    return sorted(ends, key=lambda e: float(e.fun))


class _Problem:
    """``mean loss + l2/2 ||W||^2 + intercept_l2/2 ||b||^2`` and its gradient, in the solver's coordinates."""

    def __init__(
        self, function: ScoreLoss, space: _Coordinates, num_classes: int, l2: float, intercept_l2: float
    ) -> None:
        self.function, self.space, self.K = function, space, num_classes
        self.penalty, self.intercept_l2 = l2 * space.stretch**2, intercept_l2
        self.size = num_classes * (space.width + 1)
        self.progress: Callable[[float], None] | None = None  # told how far the gradient has come, from 0 to 1
        # of the point that was evaluated last
        self.loss, self.gradient, self.scores = math.nan, math.inf, np.empty((num_classes, 0))

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients (K, width) and stretched intercepts (K,) of a point."""
        u = x * self.space.unit
        return u[: -self.K].reshape(self.K, self.space.width), u[-self.K :]

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        space = self.space
        U, b = self.split(x)
        b = b * space.intercept_stretch
        self.scores = space.scores(U, b)
        f, E = self.function(self.scores)
        by_class = E.sum(axis=1)
        G = space.pull_back(E, by_class)
        pull = self.penalty * U
        G += pull
        of_b = by_class + self.intercept_l2 * b
        self.loss, self.gradient = f, max(space.standardised(G), float(np.abs(of_b).max()))
        penalty = np.vdot(U, pull) + self.intercept_l2 * (b @ b)
        del U, pull  # of many features each is a large table
        gradient = np.concatenate([G.ravel(), of_b * space.intercept_stretch])
        gradient *= space.unit
        return f + 0.5 * float(penalty), gradient

    def starts(self, cheap: bool) -> list[FloatArray]:
        """Random points, always the same: zero is a saddle where columns of T are equal."""
        rng, space = np.random.default_rng(0), self.space
        out = []
        width = max(int(space.varies.sum()), 1)
        for spread in [NEAR, *[FAR] * (STARTS if cheap else 0)]:
            # drawn for every feature, so that the point does not depend on how X is stored
            U = (rng.standard_normal((self.K, space.d)) * space.varies / math.sqrt(width))[:, space.used]
            U /= space.deviation * space.stretch
            b = rng.standard_normal(self.K) / space.intercept_stretch
            out.append(spread * np.concatenate([U.ravel(), 0.5 * b]) / space.unit)
        return out

    def descend(self, first: FloatArray, tol: float, max_iter: int, verbose: int, ends: list[Any]) -> Any:
        """L-BFGS from a point, until the gradient is at most `tol` or one of `ends` is met; scipy's result.

        It also has a `history`, and whether the end that it was heading for was `known`.
        """
        history: list[dict[str, float]] = []
        lowest = min((float(e.fun) for e in ends), default=-math.inf)
        known = False

        def note(intermediate_result: Any) -> None:
            # the line search ended at the point it evaluated last
            nonlocal known
            value = float(intermediate_result.fun)
            history.append({"objective": value, "loss": self.loss, "gradient": self.gradient})
            if self.progress is not None and 0 < tol < history[0]["gradient"] and self.gradient > 0:
                begun = history[0]["gradient"]
                self.progress(math.log(begun / self.gradient) / math.log(begun / tol))
            tell(__name__, f"iteration {len(history):4d}  objective {value:.8g}  gradient {self.gradient:.2g}", verbose)
            above = value - lowest if self.gradient <= ROUGH else -math.inf
            known = self.is_near(ends) or 0 <= above <= SAME
            if self.gradient <= tol or known or 0 <= above < math.inf:
                raise StopIteration

        options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "gtol": 0.0, "ftol": 0.0, "maxls": 50}
        options["maxcor"] = self.remembered()
        held = [self]  # scipy leaves rings of objects behind, which must not keep the data until they are swept up
        end = minimize(lambda x: held[0](x), first, jac=True, method="L-BFGS-B", callback=note, options=options)
        held.clear()
        end.hess_inv = None  # two tables of coefficients for every step remembered
        end.history, end.known = history, known
        return end

    def remembered(self) -> int:
        """Steps that L-BFGS remembers."""
        if self.size <= MANY:
            return REMEMBERED
        tables = self.space.bytes // (8 * self.size)
        return int(min(max((tables - 5) // 2, FEWEST_REMEMBERED), REMEMBERED_OF_MANY))

    def is_near(self, ends: list[Any]) -> bool:
        """Whether the point that was evaluated last gives nearly the probabilities of one of `ends`."""
        if not ends:
            return False
        here = softmax(self.scores, axis=0)
        return any(float(np.square(here - e.shares).sum()) <= CLOSE**2 * here.shape[1] for e in ends)


def is_convex(loss: WeakLabelLoss) -> bool:
    """Whether the loss is convex in the scores: all but forward losses of labels that are not clean."""
    return not isinstance(loss, ForwardLoss) or is_clean(loss.transition)


def is_clean(transition: Transition) -> bool:
    """Whether weak labels are the classes themselves."""
    return transition.clean


def curvature(loss: WeakLabelLoss) -> float:
    """A typical second derivative of the loss in the scores, where it has one that does not vanish; else 0."""
    F = loss.potential if isinstance(loss, BackwardLoss) else None
    if isinstance(F, Squeezed):
        return F.k if F.alpha > 1 else 0.0
    return 0.5 if isinstance(F, Brier) and F.domain == "affine" else 0.0


class _Coordinates:
    """Coordinates for L-BFGS: centred features, and intercepts as easy to move as the main direction of the data.

    Centring takes the intercept out of the coefficients' way, which halves the iterations on images. For a loss with
    curvature everywhere (squeezed, Brier) the coordinates are the principal axes, stretched so that the Hessian is
    close to the identity: a handful of iterations then. Otherwise a few features in very different units are stretched
    one by one, and of many features only those in far larger units than the rest: on images, stretching all pixels
    costs more iterations than it saves. Constant features leave: their coefficients are exactly 0, as the penalty
    wants. Sparse X is centred on the fly and never made dense.
    """

    def __init__(self, X: Any, w: FloatArray, l2: float, curvature: float, spend: bool = False) -> None:
        self.sparse = issparse(X)
        self.d = X.shape[1]
        self.mean, variance = moments(X, w)
        if not self.sparse:
            variance[(X[:1] == X).all(axis=0)] = 0.0  # the rounding of a mean is not a spread
        self.used = variance > 1e-30 * (1 + self.mean**2)
        if self.sparse or not self.used.any():
            self.used = np.ones(self.d, dtype=bool)
        deviation = np.sqrt(variance)
        middle = float(np.median(deviation[deviation > 0])) if (deviation > 0).any() else 1.0
        self.varies = deviation > 0
        self.deviation = np.where(self.varies, deviation, middle)[self.used]
        self.width = int(self.used.sum())
        self.axes: FloatArray | None = None
        low, high = float(self.deviation.min()), float(self.deviation.max())
        # a ratio beyond 1e6 would drown the small axes in the rounding of the large ones
        if self.sparse or curvature == 0 or self.width > WHITEN_AT_MOST or high > 1e6 * low:
            uneven = high > 10 * middle or low < 0.1 * middle
            if uneven and self.width <= STANDARDISE_AT_MOST:
                self.stretch = 1.0 / np.sqrt(LEAST_CURVATURE * self.deviation**2 + l2)  # of the Hessian's diagonal
            else:
                self.stretch = 1.0 / np.maximum(1.0, self.deviation / (10 * middle))
            if self.sparse:
                self.A = X.tocsr()
                self.shift = self.mean * self.stretch
            else:
                self.A = _centred(X, self.used, self.mean, spend)
                if (self.stretch != 1).any():
                    self.A *= self.stretch
            main = self._main_deviation(w) or 1.0
            # half the main standard deviation: between the curvatures of the data's first and middling directions
            self.intercept_stretch = 0.5 * main
        else:
            centred = _centred(X, self.used, self.mean, spend)
            variances, self.axes = np.linalg.eigh((centred * w[:, None]).T @ centred)
            c = curvature + LEAST_CURVATURE
            self.stretch = 1.0 / np.sqrt(c * np.maximum(variances, variances[-1] * 1e-14) + l2)
            self.A = centred @ (self.axes * self.stretch)
            self.intercept_stretch = main = 1.0 / math.sqrt(c)
        # The first step has length one. Scores must not move far in it: where a class's probability has gone to zero
        # the gradient of a forward loss is zero too, and the class would never come back.
        self.unit = FIRST_STEP / main

    @property
    def bytes(self) -> int:
        """What the features take."""
        A = self.A
        return int(A.data.nbytes + A.indices.nbytes + A.indptr.nbytes if self.sparse else A.nbytes)

    def scores(self, U: FloatArray, b: FloatArray) -> FloatArray:
        """Scores (K, n)."""
        if not self.sparse:
            V: FloatArray = U @ self.A.T
            V += b[:, None]
            return V
        return np.ascontiguousarray((self.A @ (U * self.stretch).T).T) + (b - U @ self.shift)[:, None]

    def pull_back(self, E: FloatArray, by_class: FloatArray) -> FloatArray:
        """The gradient (K, width) from that of the scores (K, n)."""
        if not self.sparse:
            dense: FloatArray = E @ self.A
            return dense
        out: FloatArray = (self.A.T @ E.T).T
        out *= self.stretch
        for row, total in zip(out, by_class.tolist(), strict=True):  # an outer product would be a table of its own
            row -= total * self.shift
        return out

    def standardised(self, G: FloatArray) -> float:
        """The largest entry of a gradient (K, width), for features of variance one."""
        raw = G / self.stretch if self.axes is None else (G / self.stretch) @ self.axes.T
        raw /= self.deviation
        return float(max(raw.max(), -raw.min()))

    def enter(self, coef: FloatArray, intercept: FloatArray) -> FloatArray:
        """Raw coefficients and intercepts as a point."""
        U = coef[:, self.used] if self.axes is None else coef[:, self.used] @ self.axes
        return np.concatenate([(U / self.stretch).ravel(), (intercept + coef @ self.mean) / self.intercept_stretch])

    def leave(self, U: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The inverse of `enter`."""
        coef = np.zeros((len(U), self.d))
        coef[:, self.used] = U * self.stretch if self.axes is None else (U * self.stretch) @ self.axes.T
        return coef, b * self.intercept_stretch - coef @ self.mean

    def _main_deviation(self, w: FloatArray, steps: int = 4) -> float:
        """Root of the largest eigenvalue of the features' covariance, by power iteration from a fixed start."""
        direction = np.cos(np.arange(self.width))
        for _ in range(steps):
            direction /= np.linalg.norm(direction) or 1.0
            along = self.scores(direction[None], np.zeros(1))
            direction = self.pull_back(along * w, (along * w).sum(axis=1))[0]
        return math.sqrt(float(np.linalg.norm(direction)))


def _centred(X: FloatArray, used: NDArray[np.bool_], mean: FloatArray, spend: bool) -> FloatArray:
    """Some columns less their means: one new table, or none."""
    if used.all() and not spend:
        return X - mean
    out: FloatArray = X if used.all() else X[:, used]
    out -= mean[used]
    return out


def moments(X: Any, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted means and variances of the features."""
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        if issparse(X):
            mean, variance = np.asarray(X.T @ w).ravel(), np.zeros(X.shape[1])
            for i in range(0, X.shape[0], 4096):  # blocks: no second copy of X
                block = X[i : i + 4096]
                variance += np.asarray(block.multiply(block).T @ w[i : i + 4096]).ravel()
            variance = np.maximum(variance - mean**2, 0.0)
        else:
            mean = w @ X
            variance = np.zeros_like(mean)
            for i in range(0, len(X), 4096):  # blocks: no second copy of X
                variance += w[i : i + 4096] @ np.square(X[i : i + 4096] - mean)
    if not np.isfinite(variance).all():
        raise InputError("X: expected features of finite variance, got larger numbers; scale them")
    return mean, variance
