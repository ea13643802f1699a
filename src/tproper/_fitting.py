"""The solvers behind the estimator: L-BFGS for linear models, minibatch steps for everything else.

Both minimise ``sum_i w_i loss(v_i, y_i) / sum_i w_i + l2/2 ||W||^2``, intercepts and biases unpenalised.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from ._checks import FloatArray
from .losses import BackwardLoss, ForwardLoss, WeakLabelLoss, _BatchRiskLoss
from .potentials import Brier, LogSumExp, Squeezed
from .structured import CandidateSetTransition, UniformTransition

# Scores (K, n), class-major, to the weighted mean loss and its gradient (K, n).
ScoreLoss = Callable[[FloatArray], tuple[float, FloatArray]]


def has_pointwise(loss: nn.Module) -> bool:
    """Whether the loss of a data set is a mean of one loss per example."""
    return isinstance(loss, WeakLabelLoss) and not isinstance(loss, _BatchRiskLoss)


# Losses as functions of the scores alone, in closed form. Class-major scores keep every reduction over the classes a
# sum of contiguous rows, and both matrix products in the orientation that BLAS does fastest for few classes.


def score_loss(loss: WeakLabelLoss, labels: Tensor, weights: FloatArray) -> ScoreLoss:
    """The loss of a whole data set as a function of scores (K, n); `weights` (n,) sum to one."""
    if isinstance(loss, BackwardLoss) and loss.class_weights is None:
        targets = loss.reconstruction.targets(labels).numpy().T.copy()  # (K, n)
        F = loss.potential
        if isinstance(F, LogSumExp):
            return _cross_entropy(targets, weights)
        if isinstance(F, Squeezed) and isinstance(F.base, LogSumExp):
            return _squeezed_cross_entropy(targets, weights, F.k, F.alpha)
        return _fenchel_young(loss, targets, weights)
    if isinstance(loss, ForwardLoss):
        transition = loss.transition
        K, n = transition.num_classes, len(labels)
        if isinstance(transition, UniformTransition):
            rows, offset = np.full((K, n), transition.off_diagonal), 0.0
            rows[labels.numpy(), np.arange(n)] = transition.diagonal
            if transition.off_diagonal == 0.0:
                return _cross_entropy(rows, weights)  # clean labels
        elif isinstance(transition, CandidateSetTransition):
            # g(|S|) is a factor of the likelihood, a constant of the loss
            rows = labels.numpy().T.astype(np.float64)
            with np.errstate(invalid="ignore"):
                offset = -float(weights @ transition.log_weight[labels.sum(-1).numpy()])
        else:
            rows, offset = transition.matrix()[labels.numpy()].T.copy(), 0.0
        return _forward(rows, weights, offset, _autograd(loss, labels, weights))
    return _autograd(loss, labels, weights)


def _cross_entropy(targets: FloatArray, weights: FloatArray) -> ScoreLoss:
    """``log sum exp v - <r, v>``; gradient ``softmax(v) - r``."""

    def value(V: FloatArray) -> tuple[float, FloatArray]:
        V = V - V.max(axis=0)
        dot = np.einsum("kn,kn->n", targets, V)
        np.exp(V, out=V)
        total = V.sum(axis=0)
        f = float(weights @ (np.log(total) - dot))
        V /= total
        V -= targets
        V *= weights
        return f, V

    return value


def _squeezed_cross_entropy(targets: FloatArray, weights: FloatArray, k: float, alpha: float) -> ScoreLoss:
    """The same with ``k/2 sum |v|^alpha`` at centred scores."""
    plain = _cross_entropy(targets, weights)

    def value(V: FloatArray) -> tuple[float, FloatArray]:
        f, G = plain(V)
        centred = V - V.mean(axis=0)
        if alpha == 2:
            power, slope = np.einsum("kn,kn->n", centred, centred), centred
        else:
            size = np.abs(centred)
            power = (size**alpha).sum(axis=0)
            slope = np.sign(centred) * size ** (alpha - 1)
            slope -= slope.mean(axis=0)
        G += slope * (k * alpha / 2 * weights)
        return f + k / 2 * float(weights @ power), G

    return value


def _fenchel_young(loss: BackwardLoss, targets: FloatArray, weights: FloatArray) -> ScoreLoss:
    """``F(v) - <r, v>`` for any potential; gradient ``link(v) - r``."""

    def value(V: FloatArray) -> tuple[float, FloatArray]:
        v = torch.as_tensor(np.ascontiguousarray((V - V.mean(axis=0)).T))
        with torch.no_grad():
            F, link = loss.potential.value(v).numpy(), loss.potential.link(v).numpy().T
        dot = np.einsum("kn,kn->n", targets, v.numpy().T)
        return float(weights @ (F - dot)), (link - targets) * weights

    return value


def _forward(rows: FloatArray, weights: FloatArray, offset: float, exact: ScoreLoss) -> ScoreLoss:
    """``-log <t, p>``, t the label's row of T (K, n); gradient ``p - q``, q_z = t_z p_z / <t, p>: prior to posterior.

    Where <t, p> leaves the range of normal numbers the `exact` log-space evaluation takes over.
    """

    def value(V: FloatArray) -> tuple[float, FloatArray]:
        P = V - V.max(axis=0)
        np.exp(P, out=P)
        P /= P.sum(axis=0)
        Q = rows * P
        mass = Q.sum(axis=0)
        if mass.min() < 1e-290:
            return exact(V)
        f = offset - float(weights @ np.log(mass))
        Q /= mass
        P -= Q
        P *= weights
        return f, P

    return value


def _autograd(loss: WeakLabelLoss, labels: Tensor, weights: FloatArray) -> ScoreLoss:
    """Any pointwise loss, in float64."""
    w = torch.as_tensor(weights)

    def value(V: FloatArray) -> tuple[float, FloatArray]:
        v = torch.as_tensor(np.ascontiguousarray(V.T)).requires_grad_()
        total = (loss.pointwise(v, labels) * w).sum()
        (gradient,) = torch.autograd.grad(total, v)
        return float(total.detach()), np.ascontiguousarray(gradient.numpy().T)

    return value


# Linear models.


@dataclass
class LinearFit:
    """A fitted linear model: scores are ``X @ coef.T + intercept``."""

    coef: FloatArray  # (K, d)
    intercept: FloatArray  # (K,)
    objective: float
    gradient: float  # its largest entry at the end, for standardised features
    iterations: int
    converged: bool
    history: list[dict[str, float]]


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
) -> LinearFit:
    """L-BFGS in float64, in coordinates that suit it (`_Coordinates`); the objective stays that of the raw features.

    Stops when no entry of the gradient, taken with respect to the coefficients of standardised features (mean 0,
    variance 1) and the intercepts, is larger than `tol`.
    """
    n = X.shape[0]
    K = loss.transition.num_classes
    w = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    function = score_loss(loss, labels, w)
    space = _Coordinates(X, w, l2, curvature(loss))
    penalty, split = l2 * space.stretch**2, K * space.width
    trace: list[dict[str, float]] = []
    seen = {"loss": math.nan, "gradient": math.inf}

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        u = x * space.unit
        U, b = u[:split].reshape(K, space.width), u[split:] * space.intercept_stretch
        f, E = function(space.scores(U, b))
        by_class = E.sum(axis=1)
        G = space.pull_back(E, by_class)
        G += penalty * U
        seen.update(loss=f, gradient=max(space.standardised(G), float(np.abs(by_class).max())))
        gradient = np.concatenate([G.ravel(), by_class * space.intercept_stretch])
        return f + 0.5 * float(np.einsum("kj,kj,j->", U, U, penalty)), gradient * space.unit

    def note(intermediate_result: Any) -> None:
        trace.append({"objective": float(intermediate_result.fun), **seen})
        if verbose:
            print(
                f"iteration {len(trace):4d}  objective {intermediate_result.fun:.8g}  gradient {seen['gradient']:.2g}"
            )
        if seen["gradient"] <= tol:  # the line search ended at the point it evaluated last
            raise StopIteration

    first = np.zeros(split + K) if start is None else space.enter(*start) / space.unit
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "gtol": 0.0, "ftol": 0.0, "maxcor": 30, "maxls": 50}
    found = minimize(objective, first, jac=True, method="L-BFGS-B", callback=note, options=options)
    if not np.isfinite(found.fun) or not np.isfinite(found.x).all():
        endless = "fell without end; this loss is not bounded from below: use loss='forward', a squeeze, or l2 > 0"
        bounded = loss.lower_bounds().min() > -math.inf
        raise ValueError(
            "loss: the objective " + ("left the finite numbers; scale the features" if bounded else endless)
        )
    value, _ = objective(found.x)
    gradient = seen["gradient"]
    # at the rounding of the objective no line search can go on: that is an end too
    converged = gradient <= tol or (found.nit < max_iter and gradient <= 1e-3)
    if not converged:
        warnings.warn(
            f"the linear solver stopped after {found.nit} iterations at a gradient of {gradient:.2g} > tol={tol:g}; "
            "raise max_iter or l2, or scale the features",
            ConvergenceWarning,
            stacklevel=4,
        )
    end = found.x * space.unit
    coef, intercept = space.leave(end[:split].reshape(K, space.width), end[split:])
    return LinearFit(coef, intercept, value, gradient, int(found.nit), converged, trace)


def curvature(loss: WeakLabelLoss) -> float:
    """A typical second derivative of the loss in the scores, where it has one that does not vanish; else 0."""
    F = loss.potential if isinstance(loss, BackwardLoss) else None
    if isinstance(F, Squeezed):
        return F.k if F.alpha > 1 else 0.0
    return 0.5 if isinstance(F, Brier) and F.domain == "affine" else 0.0


WHITEN_AT_MOST, STANDARDISE_AT_MOST = 2048, 128  # features
FIRST_STEP = 0.25  # standard deviation of the scores after it, at most
LEAST_CURVATURE = 0.05  # that of cross entropy where it is fairly certain


class _Coordinates:
    """Coordinates for L-BFGS: centred features, and intercepts as easy to move as the main direction of the data.

    Centring takes the intercept out of the coefficients' way, which halves the iterations on images. For a loss with
    curvature everywhere (squeezed, Brier) the coordinates are the principal axes, stretched so that the Hessian is
    close to the identity: a handful of iterations then. Otherwise a few features in very different units are stretched
    one by one, and of many features only those in far larger units than the rest: on images, stretching all pixels
    costs more iterations than it saves. Constant features leave: their coefficients are exactly 0, as the penalty
    wants. Sparse X is centred on the fly and never made dense.
    """

    def __init__(self, X: Any, w: FloatArray, l2: float, curvature: float) -> None:
        self.sparse = issparse(X)
        self.d = X.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):  # said below
            self.mean, variance = _moments(X, w)
        if not np.isfinite(variance).all():
            raise ValueError("X: expected features of finite variance, got larger numbers; scale them")
        self.used = variance > 1e-30 * (1 + self.mean**2)
        if self.sparse or not self.used.any():
            self.used = np.ones(self.d, dtype=bool)
        deviation = np.sqrt(variance)
        middle = float(np.median(deviation[deviation > 0])) if (deviation > 0).any() else 1.0
        self.deviation = np.where(deviation > 0, deviation, middle)[self.used]
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
                self.A, self.AT = X.tocsr(), X.T.tocsr()
                self.shift = self.mean * self.stretch
            else:
                self.A = X[:, self.used] - self.mean[self.used]
                if (self.stretch != 1).any():
                    self.A *= self.stretch
            main = self._main_deviation(w) or 1.0
            # half the main standard deviation: between the curvatures of the data's first and middling directions
            self.intercept_stretch = 0.5 * main
        else:
            centred = X[:, self.used] - self.mean[self.used]
            variances, self.axes = np.linalg.eigh((centred * w[:, None]).T @ centred)
            c = curvature + LEAST_CURVATURE
            self.stretch = 1.0 / np.sqrt(c * np.maximum(variances, variances[-1] * 1e-14) + l2)
            self.A = centred @ (self.axes * self.stretch)
            self.intercept_stretch = main = 1.0 / math.sqrt(c)
        # The first step has length one. Scores must not move far in it: where a class's probability has gone to zero
        # the gradient of a forward loss is zero too, and the class would never come back.
        self.unit = FIRST_STEP / main

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
            out: FloatArray = E @ self.A
            return out
        return (self.AT @ E.T).T * self.stretch - np.outer(by_class, self.shift)

    def standardised(self, G: FloatArray) -> float:
        """The largest entry of a gradient (K, width), for features of variance one."""
        raw = G / self.stretch if self.axes is None else (G / self.stretch) @ self.axes.T
        return float(np.abs(raw / self.deviation).max())

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


def _moments(X: Any, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted means and variances of the features."""
    if issparse(X):
        mean = np.asarray(X.T @ w).ravel()
        return mean, np.maximum(np.asarray(X.multiply(X).T @ w).ravel() - mean**2, 0.0)
    mean = w @ X
    variance = np.zeros_like(mean)
    for i in range(0, len(X), 4096):  # blocks: no second copy of X
        variance += w[i : i + 4096] @ np.square(X[i : i + 4096] - mean)
    return mean, variance


# Everything else: minibatches.


@dataclass
class Steps:
    """Settings of minibatch training, and what it remembers between calls."""

    learning_rate: float
    l2: float
    batch_size: int
    generator: torch.Generator
    device: torch.device
    optimizer: torch.optim.Optimizer | None = None
    history: list[dict[str, float]] = field(default_factory=list)


def make_optimizer(module: nn.Module, learning_rate: float, l2: float) -> torch.optim.Optimizer:
    """Adam; its `weight_decay` adds ``l2 W`` to the gradient, that of the penalty. Biases and norms are left alone."""
    weights = [p for p in module.parameters() if p.requires_grad and p.ndim > 1]
    others = [p for p in module.parameters() if p.requires_grad and p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": l2}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.Adam([g for g in groups if g["params"]], lr=learning_rate)


class Rows:
    """Rows of X as tensors: a dense array goes to the device once, sparse rows are made dense batch by batch."""

    def __init__(self, X: Any, dtype: torch.dtype, device: torch.device) -> None:
        self.device, self.dtype = device, dtype
        self.sparse = X.tocsr() if issparse(X) else None
        self.dense = None if self.sparse is not None else torch.as_tensor(X, dtype=dtype).to(device)

    def __len__(self) -> int:
        return self.sparse.shape[0] if self.sparse is not None else len(self.dense)  # type: ignore[arg-type]

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        if self.sparse is not None:
            index = rows if isinstance(rows, slice) else rows.cpu().numpy()
            return torch.as_tensor(self.sparse[index].toarray(), dtype=self.dtype).to(self.device)
        assert self.dense is not None
        return self.dense[rows]


def train_epoch(
    module: nn.Module, loss: nn.Module, X: Rows, labels: Tensor, weights: Tensor | None, steps: Steps
) -> float:
    """One pass over the data in random order; the mean training loss. Batches differ in size by at most one row."""
    assert steps.optimizer is not None
    module.train()
    n = len(X)
    order = torch.randperm(n, generator=steps.generator).to(steps.device)
    batches = torch.tensor_split(order, max(1, math.ceil(n / steps.batch_size)))
    total = torch.zeros((), dtype=torch.float64, device=steps.device)
    for rows in batches:
        steps.optimizer.zero_grad(set_to_none=True)
        value = batch_loss(loss, module(X[rows]), labels[rows], None if weights is None else weights[rows])
        value.backward()
        steps.optimizer.step()
        total += value.detach().double() * len(rows)
    return float(total) / n


def batch_loss(loss: nn.Module, scores: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    """The loss of a batch. Weights have mean one over the whole data, so a batch's weights need not."""
    if has_pointwise(loss):
        losses: Tensor = loss.pointwise(scores, labels)  # type: ignore[operator]
        return losses.mean() if weights is None else (losses * weights.to(losses)).mean()
    if isinstance(loss, WeakLabelLoss):
        total: Tensor = loss(scores, labels, weights)
        return total
    if weights is not None:
        raise ValueError(
            f"sample_weight: expected None with a loss of type {type(loss).__name__}, which takes no weights"
        )
    value = loss(scores, labels)
    return value if value.ndim == 0 else value.mean()


def weak_risk(loss: nn.Module, scores: Tensor, labels: Tensor, weights: Tensor | None) -> float:
    """The held-out weak risk that early stopping watches.

    The loss itself where it is one per example; for losses of whole batches, which are not proper, ``-log (T p)_y``.
    """
    if isinstance(loss, _BatchRiskLoss):
        loss = ForwardLoss(loss.transition, validate=False).to(scores.device)
    with torch.no_grad():
        return float(batch_loss(loss, scores.double(), labels, weights))


def scores_of(module: nn.Module, X: Rows, block: int = 4096) -> Tensor:
    """Scores in evaluation mode, block by block."""
    module.eval()
    with torch.no_grad():
        return torch.cat([module(X[i : i + block]) for i in map(int, range(0, len(X), block))])


def fit_minibatch(
    module: nn.Module,
    loss: nn.Module,
    X: Rows,
    labels: Tensor,
    weights: Tensor | None,
    steps: Steps,
    epochs: int,
    held_out: tuple[Rows, Tensor, Tensor | None] | None,
    patience: int,
    tol: float,
    verbose: int = 0,
) -> int:
    """Adam with a cosine schedule for `epochs` passes; with `held_out` data, the weights of the epoch with the
    smallest held-out weak risk, and an end after `patience` epochs without an improvement by `tol`. Returns epochs.
    """
    steps.optimizer = make_optimizer(module, steps.learning_rate, steps.l2)
    best, best_state, waited = math.inf, None, 0
    for epoch in range(epochs):
        for group in steps.optimizer.param_groups:
            group["lr"] = steps.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / epochs))
        record = {"loss": train_epoch(module, loss, X, labels, weights, steps)}
        if not math.isfinite(record["loss"]):
            raise ValueError(
                f"loss: expected finite values, got {record['loss']} in epoch {epoch}; lower learning_rate"
            )
        if held_out is not None:
            Xv, yv, wv = held_out
            record["weak_risk"] = weak_risk(loss, scores_of(module, Xv), yv, wv)
        steps.history.append(record)
        if verbose:
            print(f"epoch {epoch + 1:4d}  " + "  ".join(f"{k} {v:.6g}" for k, v in record.items()))
        if held_out is None:
            continue
        waited = 0 if record["weak_risk"] < best - tol else waited + 1
        if record["weak_risk"] < best:
            best, best_state = record["weak_risk"], copy.deepcopy(module.state_dict())
        if waited >= patience:
            break
    if best_state is not None:
        module.load_state_dict(best_state)
    return len(steps.history)
