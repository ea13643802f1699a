"""T together with a recalibration of p: what the classifier's own error does to T, and to what is known of it.

Cross-fitted probabilities p are those of a penalised model that has seen a part of the rows: too timid, shifted, and
curved where the model's form is not quite right. T fitted to such p errs with them, and its information given p counts
nothing of it. Conditional on a fold's model the scores are a feature like any other, and labels have the probability
``sum_z T[y, z] q_z`` with q the class probabilities *given the scores*, which a softmax of low order describes:

    q = softmax(W f),   f = (v, (v - mean)^2 / (2 sd), 1),   v = log p, centred over the classes,

W = (I, 0, 0) being p itself. T and W are taken at their joint mode, W with a normal prior about that, so that W's own
doubt is in T's: with ``V`` the covariance of T given q and ``B`` the observed information of T and W together,

    Cov(T) = V + V B (H_W - B^T V B)^-1 B^T V.

With many classes, or few rows, each score depends on its own class alone. Where the squares raise the likelihood by
more than chance would, the classifier's form is not right, and what squares do not mend of that is not in Cov(T).
"""

from __future__ import annotations

import numpy as np

from .._core import FloatArray
from .likelihood import NEVER, Evidence, rule_out
from .softmax import softmax

SLOPE, CURVE, SHIFT = 1.0, 0.5, 2.0  # prior deviations of W
MOST = 300  # free numbers in W, and
ROWS_EACH = 3.0  # rows that each must rest on
STEPS = 200
LEAST = 1e-9  # log p is taken of at least this much


class Recalibration:
    """Features f (J, n) of the scores, W (K, J) as it starts, its prior precision, and which of it is free.

    `worth` is what the rows are worth, in rows of known class: few of them leave each score to its own class.
    """

    def __init__(self, P: FloatArray, worth: float, curved: bool = True) -> None:
        K, n = P.shape
        v = np.log(np.maximum(P, LEAST))
        v -= v.mean(axis=0)
        curve = (v - v.mean(axis=1, keepdims=True)) ** 2
        self.f = np.concatenate([v, curve / (2 * max(float(v.std()), 1e-6)), np.ones((1, n))])
        self.start = np.eye(K, 2 * K + 1)
        own = np.hstack([np.eye(K, dtype=bool)] * 2 + [np.ones((K, 1), dtype=bool)])
        whole = own.size <= min(MOST, worth / ROWS_EACH)
        self.free = np.ones_like(own) if whole else own.copy()
        self.curves = K * (K - 1) if whole else K  # numbers of the squares; one common to all scores is none
        self.free[:, K : 2 * K] &= curved
        deviation = np.repeat([SLOPE, CURVE, SHIFT], [K, K, 1])
        self.precision = np.where(own, 1.0, K - 1.0) / deviation**2  # the other classes together weigh like the own one
        self.W = self.start

    def probabilities(self, W: FloatArray, rows: np.ndarray | slice = slice(None)) -> FloatArray:
        """q (K, n)."""
        return softmax(W @ self.f[:, rows])

    def fit(self, evidence: Evidence, T: FloatArray, structure: str) -> tuple[FloatArray, FloatArray]:
        """The joint mode of T and W from T and p: T, and q (K, n)."""
        from scipy.optimize import minimize

        M, K = T.shape
        known, order = evidence._known, evidence._order
        fixed = evidence.clean + 1.0 / M  # one pseudo-count per class keeps T off the boundary
        own = (evidence.true[known], np.arange(len(known)))
        unknown_f, known_f = self.f[:, order], self.f[:, known]

        def weights(x: FloatArray) -> FloatArray:
            W = self.start.copy()
            W[self.free] = x[M * K :]
            return W

        def objective(x: FloatArray) -> tuple[float, FloatArray]:
            now, W = softmax(x[: M * K].reshape(M, K)), weights(x)
            q = softmax(W @ unknown_f)
            gamma = evidence.rows_of(now)
            gamma *= q
            mass = gamma.sum(axis=0)
            gamma /= mass
            counts = evidence.by_label(gamma) + fixed
            off = W - self.start
            value = 0.5 * float((self.precision * off**2).sum())
            value -= float(np.log(mass).sum() + (fixed * np.log(now)).sum())
            q -= gamma
            slope = q @ unknown_f.T + self.precision * off
            if len(known):
                p = softmax(W @ known_f)
                value -= float(np.log(p[own]).sum())
                p[own] -= 1.0
                slope += p @ known_f.T
            return value, np.concatenate([(now * counts.sum(axis=0) - counts).ravel(), slope[self.free]])

        first = np.concatenate([np.log(np.maximum(T, 1e-6)).ravel(), self.start[self.free]])
        options = {"maxiter": STEPS, "maxcor": 20, "ftol": 1e-8, "gtol": 1e-3}
        end = minimize(objective, first, jac=True, method="L-BFGS-B", options=options).x
        self.W = weights(end)
        return rule_out(softmax(end[: M * K].reshape(M, K)), structure), self.probabilities(self.W)

    def at(self, evidence: Evidence, T: FloatArray) -> float:
        """The least of minus the log likelihood and W's log prior at a given T, over W, which stays there."""
        from scipy.optimize import minimize

        known, order = evidence._known, evidence._order
        rows, own = evidence.rows_of(T), (evidence.true[known], np.arange(len(known)))
        unknown_f, known_f = self.f[:, order], self.f[:, known]

        def objective(x: FloatArray) -> tuple[float, FloatArray]:
            W = self.start.copy()
            W[self.free] = x
            q = softmax(W @ unknown_f)
            gamma = rows * q
            mass = gamma.sum(axis=0)
            off = W - self.start
            value = 0.5 * float((self.precision * off**2).sum()) - float(np.log(mass).sum())
            slope = (q - gamma / mass) @ unknown_f.T + self.precision * off
            if len(known):
                p = softmax(W @ known_f)
                value -= float(np.log(p[own]).sum())
                p[own] -= 1.0
                slope += p @ known_f.T
            return value, slope[self.free]

        options = {"maxiter": STEPS, "ftol": 1e-9, "gtol": 1e-3}
        end = minimize(objective, self.W[self.free], jac=True, method="L-BFGS-B", options=options)
        self.W = self.start.copy()
        self.W[self.free] = end.x
        clean = float((evidence.clean * np.log(np.maximum(T, NEVER))).sum())
        return float(end.fun) - clean

    def information(self, evidence: Evidence, T: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of the free numbers of W: B (M, K, F), shared with T's entries, and H_W (F, F) with its prior."""
        M, K = T.shape
        q = self.probabilities(self.W)
        order = evidence._order
        ratio = q[:, order] / (evidence.rows_of(T) * q[:, order]).sum(axis=0)  # q_z / (T q)_y
        gamma = evidence.rows_of(T) * ratio
        f = [self.f[free] for free in self.free]  # of each class
        ends = np.cumsum([0, *(len(g) for g in f)])
        B, H = np.zeros((M, K, ends[-1])), np.diag(self.precision[self.free])
        for k in range(K):
            mine = slice(ends[k], ends[k + 1])
            for y, begin, rows in zip(evidence._labels, evidence._edges, evidence._repeats, strict=True):
                s = slice(begin, begin + rows)
                g = f[k][:, order[s]]
                B[y, :, mine] = (ratio[:, s] * gamma[k, s]) @ g.T
                B[y, k, mine] -= g @ ratio[k, s]
            for j in range(k, K):
                v = -q[k] * q[j]
                v[order] += gamma[k] * gamma[j]
                if j == k:
                    v += q[k]
                    v[order] -= gamma[k]
                part = (f[k] * v) @ f[j].T
                H[mine, ends[j] : ends[j + 1]] += part
                if j != k:
                    H[ends[j] : ends[j + 1], mine] += part.T
        return B, H
