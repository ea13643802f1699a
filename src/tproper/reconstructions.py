"""R: from a weak label back to a target over the classes.

``R`` is classes x weak labels with ``R T = I`` (Assumption (b)); its columns are normalised to sum to one, which
any left inverse allows: ``R + (1/K) 1 (1 - R^T 1)^T`` is again a left inverse, because ``1^T T = 1^T``. The column
``r = R e_y`` is the *target* of label y: its mean given class z is the one-hot vector of z, and it may have
negative entries. Where T has structure so has R, and a target costs O(K) without any table.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from . import _checks
from ._checks import ConditioningWarning, FloatArray, Labels, NotReconstructibleError
from ._numerics import critical_k_of, look_up
from ._sets import mask_sizes
from .structured import CandidateSetTransition, UniformTransition
from .transitions import ENUMERATION_LIMIT, Tables, Transition, dense_guard

METHODS = ("auto", "inverse", "pinv", "min_variance", "tightest")
CONDITION_LIMIT = 1e7  # beyond it a target is rounding noise in float32


class Reconstruction:
    """A left inverse R of T, given as a matrix and checked.

    Parameters
    ----------
    matrix : (K, M) array
        Any left inverse: ``R T = I`` is checked to 1e-6. Its columns are then shifted to sum to one.
    transition : Transition
        The T it belongs to.
    """

    def __init__(self, matrix: ArrayLike | Tensor, transition: Transition, method: str = "given") -> None:
        R = _checks.matrix(matrix, "matrix")
        if not isinstance(transition, Transition):
            raise ValueError(f"transition: expected a Transition, got {type(transition).__name__}")
        T = transition.matrix()
        if R.shape != T.shape[::-1]:
            hint = "; pass the transpose" if R.shape == T.shape else ""
            raise ValueError(
                f"matrix: expected R of shape {T.shape[::-1]} (classes x weak labels), got {R.shape}{hint}"
            )
        self.transition = transition
        self.method = method
        self._R = R + (1 - R.sum(axis=0)) / len(R)
        self._R.setflags(write=False)
        self.residual = float(np.abs(self._R @ T - np.eye(len(R))).max())
        if self.residual > _checks.COLUMN_SUM_TOL:
            raise ValueError(
                f"matrix: expected a left inverse of T (R T = I within 1e-6), got an error of {self.residual:.3g}"
            )

    def __repr__(self) -> str:
        return f"<reconstruction ({self.method}) of {self.transition.name}, max |R T - I| = {self.residual:.2g}>"

    def matrix(self) -> FloatArray:
        """R as a float64 array (K, M), columns in the order of the transition's rows."""
        return self._R.copy()

    def targets(self, labels: Labels, dtype: torch.dtype = torch.float64) -> Tensor:
        """The targets ``R e_y`` (..., K) of weak labels."""
        encoded = self.transition.encode(labels)
        tables = {k: torch.tensor(a, device=encoded.device, dtype=dtype) for k, a in self.tables().items()}
        return self._targets(encoded, tables, dtype)

    def tables(self) -> dict[str, FloatArray]:
        """The arrays that targets are made from; a loss keeps them as buffers."""
        return {"R_T": self._R.T}

    def _targets(self, labels: Tensor, tables: Tables, dtype: torch.dtype) -> Tensor:
        return look_up(tables["R_T"].to(dtype), self.transition.row_index(labels))

    def weigh(self, values: Tensor, labels: Tensor, tables: Tables) -> Tensor:
        """``<R e_y, values>`` over the last axis, for encoded labels."""
        return (self._targets(labels, tables, values.dtype) * values).sum(-1)

    def orbit_columns(self) -> tuple[FloatArray, list[str]]:
        """One target for every kind of weak label that differs from the others by more than a renaming of classes.

        Returns targets (L, K) and a name for each. For a dense R these are simply all its columns.
        """
        return self._R.T.copy(), [f"label {_label_text(name)}" for name in self.transition.weak_labels]

    def per_label(self, per_orbit: FloatArray) -> FloatArray:
        """Spread one value per orbit over the weak labels, in the order of the transition's rows."""
        return per_orbit


class UniformReconstruction(Reconstruction):
    """R of uniform noise: ``r_y = 1/K + c (e_y - 1/K)`` with c = 1 / (d - o)."""

    def __init__(self, transition: UniformTransition) -> None:
        self.transition = transition
        self.method = "inverse"
        self.coefficient = 1.0 / transition.gap
        self.residual = abs(self.coefficient * transition.gap - 1.0)

    def matrix(self) -> FloatArray:
        """R as a float64 array (K, K); structured code never calls this."""
        K, c = self.transition.num_classes, self.coefficient
        return c * np.eye(K) + (1 - c) / K * np.ones_like(self.transition.matrix())

    def tables(self) -> dict[str, FloatArray]:
        """Nothing: one number says it all."""
        return {}

    def _targets(self, labels: Tensor, tables: Tables, dtype: torch.dtype) -> Tensor:
        K, c = self.transition.num_classes, self.coefficient
        out = torch.full((*labels.shape, K), (1 - c) / K, dtype=dtype, device=labels.device)
        return out.scatter(-1, labels[..., None], (1 - c) / K + c)

    def weigh(self, values: Tensor, labels: Tensor, tables: Tables) -> Tensor:
        """``c x_y + (1 - c) mean(x)``: no target is built."""
        c = self.coefficient
        own = values.gather(-1, labels[..., None])[..., 0]
        return own if c == 1.0 else c * own + (1 - c) * values.mean(-1)

    def orbit_columns(self) -> tuple[FloatArray, list[str]]:
        """All labels are alike: one target."""
        K, c = self.transition.num_classes, self.coefficient
        column = np.full((1, K), (1 - c) / K)
        column[0, 0] += c
        return column, ["every label"]

    def per_label(self, per_orbit: FloatArray) -> FloatArray:
        """The same value for every label."""
        return np.full(self.transition.num_weak_labels, per_orbit[0])


class SetReconstruction(Reconstruction):
    """R of candidate sets: ``r_S = 1/K + c(|S|) (1_S - |S|/K)``, one coefficient per set size.

    R T = I holds iff ``sum_j P(|S| = j) c(j) (K - j)/(K - 1) = 1``. By symmetry and convexity the best R of each
    criterion is of this form (average an optimal one over all renamings of the classes), which gives

    * minimum variance, uniform prior:  ``c(j) = c / j``;
    * Moore-Penrose:                    ``c(j) = g(j) / sum_i g(i)^2 C(K-2, i-1)``;
    * tightest, critical k being ``max(0, c(j) - 1/j)``:  ``c(j) = t + 1/j``.
    """

    def __init__(self, transition: CandidateSetTransition, method: str) -> None:
        K = transition.num_classes
        self.transition: CandidateSetTransition = transition
        self.method = method
        sizes = np.maximum(np.arange(K + 1), 1)
        share = transition.size_probability * (K - np.arange(K + 1)) / (K - 1)  # weights of R T = I
        if method == "pinv":
            self.coefficient = np.exp(transition.log_weight - transition.log_centred_gram())
        elif method == "min_variance":
            self.coefficient = 1.0 / sizes / (share / sizes).sum()
        else:
            self.coefficient = max(0.0, (1 - (share / sizes).sum()) / share.sum()) + 1.0 / sizes
        self.coefficient[transition.size_probability == 0] = 0.0  # a label that never occurs: its target is 1/K
        self.residual = abs(float((share * self.coefficient).sum()) - 1.0)

    def matrix(self) -> FloatArray:
        """R by enumeration of the candidate sets (at most 12 classes)."""
        masks = _checks.masks_of_sets(self.transition.candidate_sets(), self.transition.num_classes)
        return self.targets(masks).numpy().T.copy()

    def tables(self) -> dict[str, FloatArray]:
        """The coefficient by set size."""
        return {"coefficient": self.coefficient}

    def _two_values(self, labels: Tensor, tables: Tables, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """The size of each label's set, and what the target is inside and outside of it.

        In float64: with many classes one is the small difference of c and the other, both large.
        """
        size = mask_sizes(labels)
        c = look_up(tables["coefficient"].double(), size)
        outside = (1 - c * size) / self.transition.num_classes
        return size, (c + outside).to(dtype), outside.to(dtype)

    def _targets(self, labels: Tensor, tables: Tables, dtype: torch.dtype) -> Tensor:
        _, inside, outside = self._two_values(labels, tables, dtype)
        return torch.where(labels, inside[..., None], outside[..., None])

    def weigh(self, values: Tensor, labels: Tensor, tables: Tables) -> Tensor:
        """``mean(x) + <r, x - mean(x)>``: r may be large and of both signs; what all x share is taken out first."""
        mean = values.mean(-1, keepdim=True)
        return mean[..., 0] + (self._targets(labels, tables, values.dtype) * (values - mean)).sum(-1)

    def orbit_columns(self) -> tuple[FloatArray, list[str]]:
        """Sets of one size are alike: one target per size."""
        K = self.transition.num_classes
        sizes = np.array(self.transition.set_sizes())
        dense_guard(len(sizes), K, "targets of all set sizes")
        c = self.coefficient[sizes, None]
        columns = c * (np.arange(K) < sizes[:, None]) + (1 - c * sizes[:, None]) / K
        return columns, [f"candidate sets of size {j}" for j in sizes]

    def per_label(self, per_orbit: FloatArray) -> FloatArray:
        """By size of the set. Beyond 12 classes labels cannot be listed: then one value per set size stays."""
        if self.transition.num_classes > ENUMERATION_LIMIT:
            return per_orbit
        by_size = dict(zip(self.transition.set_sizes(), per_orbit, strict=True))
        return np.array([by_size[len(s)] for s in self.transition.candidate_sets()])


def _label_text(name: object) -> str:
    return "{" + ", ".join(map(str, sorted(name))) + "}" if isinstance(name, (set, frozenset)) else str(name)


def reconstruct(
    transition: Transition, method: str | Reconstruction = "auto", prior: ArrayLike | None = None
) -> Reconstruction:
    """The reconstruction of T by `method`; ``Transition.reconstruction`` calls this.

    ``"inverse"`` (square T), ``"pinv"``, ``"min_variance"`` (smallest variance of the targets for a class
    `prior`, uniform by default: ``(T^T D^-1 T)^-1 T^T D^-1`` with D = diag(T prior)), ``"tightest"`` (smallest
    largest critical k), or ``"auto"``: the inverse where T is square, else minimum variance.
    """
    if isinstance(method, Reconstruction):
        if method.transition is not transition and not _same(method.transition, transition):
            raise ValueError("reconstruction: expected one made for this transition, got one of another transition")
        if prior is not None:
            raise ValueError("prior: expected None with a given reconstruction, which a prior cannot change")
        return method
    if not isinstance(method, str) or method not in METHODS:
        got = _checks.short(method)
        raise ValueError(f"method: expected one of {', '.join(METHODS)} or a Reconstruction, got {got}")
    K, M = transition.num_classes, transition.num_weak_labels
    weights = None if prior is None else _checks.probability_vector(prior, "prior", K)
    square = M == K
    if weights is not None and not square and method not in ("auto", "min_variance"):
        raise ValueError(f"prior: expected None with method {method!r}; only 'min_variance' depends on a prior")
    if method == "inverse" and not square:
        raise ValueError(
            f"method: 'inverse' expects as many weak labels as classes, got {M} and {K}; use 'min_variance'"
        )

    diagnosis = transition.diagnose()
    if not diagnosis.reconstructible:
        raise NotReconstructibleError(
            f"transition: expected rank {K} for {K} classes, got {diagnosis.rank}, so no R has R T = I: "
            f"{diagnosis.confusion()} cannot be told apart from these weak labels; merge them, add a source that "
            "separates them, or use ForwardLoss (proper, though not strictly)"
        )
    if diagnosis.condition_number > CONDITION_LIMIT:
        warnings.warn(
            f"{transition.name}: T is close to singular (condition number {diagnosis.condition_number:.2g}); "
            "targets are huge and learning needs correspondingly more data",
            ConditioningWarning,
            stacklevel=3,
        )

    if method == "auto":
        method = "inverse" if square else "min_variance"
    if isinstance(transition, UniformTransition):  # square, so R is unique
        return UniformReconstruction(transition)
    if isinstance(transition, CandidateSetTransition) and (weights is None or np.ptp(weights) == 0):
        return SetReconstruction(transition, method if method != "inverse" else "min_variance")
    return Reconstruction(_dense(transition.matrix(), method, weights), transition, method=method)


def _same(a: Transition, b: Transition) -> bool:
    """Whether two transition objects describe the same T."""
    if (type(a), a.num_classes, a.num_weak_labels, a.name) != (
        type(b),
        b.num_classes,
        b.num_weak_labels,
        b.name,
    ):
        return False
    if isinstance(a, UniformTransition) and isinstance(b, UniformTransition):
        return a.diagonal == b.diagonal
    ours, theirs = a.tables(), b.tables()
    return all(np.array_equal(ours[k], theirs[k]) for k in ours)


def _dense(T: FloatArray, method: str, prior: FloatArray | None) -> FloatArray:
    M, K = T.shape
    if M == K:  # one left inverse: the inverse
        return np.asarray(np.linalg.inv(T), dtype=np.float64)
    if method == "pinv":
        return np.asarray(np.linalg.pinv(T, rcond=_checks.RANK_TOL), dtype=np.float64)
    occurs = T.sum(axis=1) > 0  # a label that never occurs says nothing: its target is 1/K
    R = np.full((K, M), 1.0 / K)
    R[:, occurs] = _tightest(T[occurs]) if method == "tightest" else _min_variance(T[occurs], prior)
    return R


def _min_variance(T: FloatArray, prior: FloatArray | None) -> FloatArray:
    """``(T^T D^-1 T)^-1 T^T D^-1``, D = diag(T prior), through the pseudo-inverse of D^-1/2 T (better conditioned)."""
    K = T.shape[1]
    root = np.sqrt(T @ (np.full(K, 1.0 / K) if prior is None else prior))
    scaled = T / root[:, None]
    size = np.linalg.norm(scaled, axis=0)  # a class of prior 1e-20 makes its column huge, not T singular
    return np.linalg.pinv(scaled / size, rcond=_checks.RANK_TOL) / size[:, None] / root


def _tightest(T: FloatArray) -> FloatArray:
    """R with the smallest ``max_y k*(R e_y)``: a linear program over ``R = R0 + B N^T``, N a basis of coker T.

    ``k*(r) = min_p max(r - p) - min(r - p)`` over p in the simplex, so with one p_y and one offset a_y per label:
    minimise t subject to ``0 <= r_y - p_y - a_y <= t``. Writing R through N keeps R T = I exactly and leaves no
    redundant equations, on which solvers have been seen to fail.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, hstack, kron, vstack
    from scipy.sparse import eye_array as sparse_eye

    M, K = T.shape
    R0 = _min_variance(T, None)
    N = np.linalg.svd(T)[0][:, K:]  # (M, M - K): T^T N = 0
    free = M - K
    if free == 0:
        return R0
    # variables: B (K x free, by rows), p (K x M, by rows), a (M), t
    r_minus_p = hstack([kron(sparse_eye(K), N), -sparse_eye(K * M)])
    offset = kron(np.ones((K, 1)), sparse_eye(M))
    t = np.ones((K * M, 1))
    upper = hstack([r_minus_p, -offset, coo_array(-t)])
    lower = hstack([-r_minus_p, offset, coo_array(0 * t)])
    sums = hstack([coo_array((M, K * free)), kron(np.ones((1, K)), sparse_eye(M)), coo_array((M, M + 1))])
    n = K * free + K * M + M + 1
    bounds = np.array(
        [(-np.inf, np.inf)] * (K * free) + [(0, np.inf)] * (K * M) + [(-np.inf, np.inf)] * M + [(0, np.inf)]
    )
    best: FloatArray | None = None
    for solver in ("highs", "highs-ipm", "highs-ds"):
        found = linprog(
            np.append(np.zeros(n - 1), 1.0),
            A_ub=vstack([upper, lower]).tocsr(),
            b_ub=np.concatenate([-R0.ravel(), R0.ravel()]),
            A_eq=sums.tocsr(),
            b_eq=np.ones(M),
            bounds=bounds,
            method=solver,
        )
        if found.x is None:
            continue
        R = R0 + found.x[: K * free].reshape(K, free) @ N.T
        R += (1 - R.sum(axis=0)) / K
        worst = float(critical_k_of(R.T).max())
        if best is None or worst < critical_k_of(best.T).max():
            best = R
        # Never trust a solver's word: the R it gives must attain the value it claims.
        if abs(worst - found.fun) <= 1e-7 * (1 + abs(worst)):
            return R
    raise RuntimeError(
        "tightest: the linear program could not be solved to 1e-7; use 'min_variance'"
        + ("" if best is None else f" (best largest critical k found: {critical_k_of(best.T).max():.6g})")
    )


Transition._reconstruct = staticmethod(reconstruct)


def per_example_targets(transitions: Tensor, labels: Tensor, validate: bool = True) -> Tensor:
    """Targets (n, K) for one T per example (n, M, K): the minimum-variance R (the inverse where T is square).

    ``r = (T^T D^-1 T)^-1 T^T D^-1 e_y``, D = diag(T 1/K), through the QR decomposition of ``D^-1/2 T``: one per
    example, in float64, because forming ``T^T D^-1 T`` would square the condition number.
    """
    n, M, K = transitions.shape
    if M < K:
        raise NotReconstructibleError(
            f"transitions: expected at least as many weak labels as the {K} classes, got {M}; use ForwardLoss"
        )
    T = transitions.double()
    root = T.mean(-1, keepdim=True).sqrt()  # (n, M, 1); zero for labels that never occur
    scaled = torch.where(root > 0, T / torch.where(root > 0, root, 1.0), 0.0)
    Q, U = torch.linalg.qr(scaled)
    if validate and _checks.readable(U):
        pivots = U.detach().diagonal(dim1=-2, dim2=-1).abs()
        rounding = 4 * torch.finfo(transitions.dtype).eps  # T in float32 cannot be closer to singular than this
        deficient = pivots.amin(-1) <= max(_checks.RANK_TOL, rounding) * pivots.amax(-1)
        if bool(deficient.any()):
            raise NotReconstructibleError(
                f"transitions: expected rank {K} for every example, got less at row {int(deficient.nonzero()[0])}; "
                "use ForwardLoss (proper, though not strictly)"
            )
    index = labels[:, None, None]
    own = Q.gather(1, index.expand(n, 1, K)).transpose(-1, -2)  # (n, K, 1): Q^T e_y
    mass = root.gather(1, index)[:, 0]  # (n, 1)
    target = torch.linalg.solve_triangular(U, own, upper=True)[..., 0] / torch.where(mass > 0, mass, 1.0)
    return torch.where(mass > 0, target, 1.0 / K)
