"""Left inverses of a matrix T: minimum variance, smallest critical k, one per example."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .._core import FloatArray, NotReconstructibleError, checks, critical_k_of, tracing


def left_inverse(T: FloatArray, method: str, prior: FloatArray | None) -> FloatArray:
    """A left inverse of T by `method`: the inverse where T is square."""
    M, K = T.shape
    if M == K:  # one left inverse: the inverse
        return np.asarray(np.linalg.inv(T), dtype=np.float64)
    if method == "pinv":
        return np.asarray(np.linalg.pinv(T, rcond=checks.RANK_TOL), dtype=np.float64)
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
    return np.linalg.pinv(scaled / size, rcond=checks.RANK_TOL) / size[:, None] / root


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
        solution = linprog(
            np.append(np.zeros(n - 1), 1.0),
            A_ub=vstack([upper, lower]).tocsr(),
            b_ub=np.concatenate([-R0.ravel(), R0.ravel()]),
            A_eq=sums.tocsr(),
            b_eq=np.ones(M),
            bounds=bounds,
            method=solver,
        )
        if solution.x is None:
            continue
        R = R0 + solution.x[: K * free].reshape(K, free) @ N.T
        R += (1 - R.sum(axis=0)) / K
        worst = float(critical_k_of(R.T).max())
        if best is None or worst < critical_k_of(best.T).max():
            best = R
        # Never trust a solver's word: the R it gives must attain the value it claims.
        if abs(worst - solution.fun) <= 1e-7 * (1 + abs(worst)):
            return R
    raise RuntimeError(
        "tightest: the linear program could not be solved to 1e-7; use 'min_variance'"
        + ("" if best is None else f" (best largest critical k found: {critical_k_of(best.T).max():.6g})")
    )


def per_example_targets(transitions: Tensor, labels: Tensor, validate: bool = True) -> Tensor:
    """Targets (n, K) for one T per example (n, M, K), or one for all (1, M, K), by the minimum-variance R.

    ``r = (T^T D^-1 T)^-1 T^T D^-1 e_y``, D = diag(T 1/K), which is the inverse where T is square, through the QR
    decomposition of ``D^-1/2 T``: one for each T, in float64, because forming ``T^T D^-1 T`` would square the condition
    number.
    """
    _, M, K = transitions.shape
    if M < K:
        raise NotReconstructibleError(
            f"transitions: expected at least as many weak labels as the {K} classes, got {M}; use ForwardLoss"
        )
    T = transitions.double()
    mass = T.mean(-1)  # (n, M); zero for labels that never occur
    occurs = mass > 0
    root = torch.where(occurs, mass, 1.0).sqrt()  # the slope of sqrt at 0 is infinite
    Q, U = torch.linalg.qr(torch.where(occurs[..., None], T / root[..., None], 0.0))
    if validate and tracing.readable(U):
        pivots = U.detach().diagonal(dim1=-2, dim2=-1).abs()
        rounding = 4 * torch.finfo(transitions.dtype).eps  # T in float32 cannot be closer to singular than this
        deficient = pivots.amin(-1) <= max(checks.RANK_TOL, rounding) * pivots.amax(-1)
        if bool(deficient.any()):
            raise NotReconstructibleError(
                f"transitions: expected rank {K} for every example, got less at row {int(deficient.nonzero()[0])}; "
                "use ForwardLoss (proper, though not strictly)"
            )
    # R^T e_y of all labels where there is one T, of each example's own label where there are many
    own = Q if len(T) == 1 else Q.gather(1, labels[:, None, None].expand(-1, 1, K))
    R = torch.linalg.solve_triangular(U, own.transpose(-1, -2), upper=True).transpose(-1, -2)
    index = labels[:, None]
    if len(T) == 1:
        R, root, occurs = (x[0].index_select(0, labels) for x in (R, root[..., None], occurs[..., None]))
    else:
        R, root, occurs = R[:, 0], root.gather(1, index), occurs.gather(1, index)
    return torch.where(occurs, R / root, 1.0 / K)
