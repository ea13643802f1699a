"""What rows say about T: their likelihood, the most likely T given scores of the classes, what rows are worth."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .._core import FloatArray
from .softmax import softmax

STEPS = 10  # iterations for T in a round
UNTOLD = 0.1  # information on a direction of p's numbers that rows leave open
NEVER = 1e-9  # probability of an event that the structure rules out: it still has a logarithm


@dataclass
class Evidence:
    """What is known of the rows: their weak labels, and their classes where somebody looked."""

    weak: np.ndarray  # (n,)
    true: np.ndarray  # (n,), -1 where unknown
    M: int
    K: int
    chosen: bool = False  # whether which classes are known went by the label
    clean: FloatArray = field(init=False)  # counts (M, K) of the rows with a known class
    fair: FloatArray = field(init=False)  # the same, as if these rows had been drawn at random

    def __post_init__(self) -> None:
        known = self.true >= 0
        self.clean = np.zeros((self.M, self.K))
        np.add.at(self.clean, (self.weak[known], self.true[known]), 1.0)
        self.fair = as_if_random(self.clean, np.bincount(self.weak, minlength=self.M)) if self.chosen else self.clean
        rows = np.flatnonzero(~known)
        self._order = rows[np.argsort(self.weak[rows], kind="stable")]  # rows of unknown class, by label
        self._labels, self._edges = np.unique(self.weak[self._order], return_index=True)
        self._repeats = np.diff([*self._edges, len(rows)])
        self._known = np.flatnonzero(known)

    def likelihood(self, T: FloatArray) -> FloatArray:
        """(K, n): the probability of what is known of each row, given each class."""
        out = T[self.weak].T.copy()
        out[:, self._known] = 0.0
        out[self.true[self._known], self._known] = 1.0
        return out

    def ordered(self, P: FloatArray) -> FloatArray:
        """p of the rows of unknown class, sorted by their weak label."""
        return P[:, self._order]

    def by_label(self, values: FloatArray) -> FloatArray:
        """Sums (M, K) over the rows of each label of values (K, n) in that order."""
        out = np.zeros((self.M, self.K))
        if len(self._order):
            out[self._labels] = np.add.reduceat(values, self._edges, axis=1).T
        return out

    def rows_of(self, T: FloatArray) -> FloatArray:
        """T[y] (K, n) in that order."""
        return np.repeat(T[self._labels].T, self._repeats, axis=1)

    def without_features(self) -> float:
        """The log likelihood of the rows' labels and known classes by their frequencies alone."""
        known, free = self.clean.sum(axis=0), np.bincount(self.weak[self._order], minlength=self.M)
        parts = [(c, c / c.sum()) for c in (known, free) if c.any()]
        parts += [(c, c / n) for c, n in zip(self.clean.T, known, strict=True) if n]
        return float(sum((c[c > 0] * np.log(p[c > 0])).sum() for c, p in parts))

    def log_likelihood(self, T: FloatArray, P: FloatArray) -> float:
        """Of all rows, weak labels and known classes."""
        with np.errstate(divide="ignore"):
            mixed = np.log((self.rows_of(T) * self.ordered(P)).sum(axis=0)).sum()
            own = np.log(P[self.true[self._known], self._known]).sum()
            seen = (self.clean * np.log(np.where(self.clean > 0, T, 1.0))).sum()
        return float(mixed + own + seen)


def as_if_random(clean: FloatArray, of_all: np.ndarray) -> FloatArray:
    """Counts (M, K) of rows that were drawn by label, each label weighted to its share of all rows, and a column's sum
    to what its weighted rows are worth (Kish, 1965)."""
    drawn = clean.sum(axis=1)
    weight = np.divide(of_all, drawn, out=np.zeros(len(drawn)), where=drawn > 0)[:, None]
    total, squares = (weight * clean).sum(axis=0), (weight**2 * clean).sum(axis=0)
    out: FloatArray = weight * clean * np.divide(total, squares, out=np.zeros_like(total), where=squares > 0)
    return out


def update(
    evidence: Evidence, T: FloatArray, V: FloatArray, heat: float, volume: float, structure: str
) -> tuple[FloatArray, float]:
    """The most likely T at fixed scores V (K, n), together with the inverse temperature that makes them calibrated.

    A penalised model is too sure of nothing and an overfitted one of everything; either would be taken for noise or for
    the lack of it. ``p = softmax(heat V)`` leaves that to the likelihood. L-BFGS over ``log heat`` and the logarithms
    of T, of which column z gets ``N_z - T_z n_z`` for a gradient, N the expected counts; the volume's is
    ``lambda n (T * (T (T^T T)^-1) - T)``.
    """
    from scipy.optimize import minimize

    M, K = T.shape
    V = V - V.max(axis=0)
    order, known = evidence._order, evidence._known
    sorted_V, known_V = V[:, order], V[:, known]
    fixed = evidence.clean + 1.0 / M  # one pseudo-count per class keeps T off the boundary
    own = (evidence.true[known], np.arange(len(known)))

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        heat, now = float(np.exp(x[0])), softmax(x[1:].reshape(M, K))
        P = softmax(heat * sorted_V)
        gamma = evidence.rows_of(now)
        gamma *= P
        mass = gamma.sum(axis=0)
        gamma /= mass
        counts = evidence.by_label(gamma) + fixed
        value = -float(np.log(mass).sum() + (fixed * np.log(now)).sum()) + 0.5 * float(x[0]) ** 2
        slope = now * counts.sum(axis=0) - counts
        P -= gamma
        rise = float(np.einsum("kn,kn->", P, sorted_V))
        if len(known):
            p = softmax(heat * known_V)
            value -= float(np.log(p[own]).sum())
            p[own] -= 1.0
            rise += float(np.einsum("kn,kn->", p, known_V))
        if volume:
            value += 0.5 * volume * float(np.linalg.slogdet(now.T @ now)[1])
            slope += volume * (now * np.linalg.pinv(now).T - now)
        return value, np.concatenate([[heat * rise + float(x[0])], slope.ravel()])

    first = np.concatenate([[np.log(heat)], np.log(np.maximum(T, 1e-6)).ravel()])
    # entries that have hardly any counts need not settle: what matters is the value
    options = {"maxiter": STEPS, "maxcor": 15, "ftol": 1e-7, "gtol": 1e-3}
    bounds = [(-3.0, 3.0), *[(None, None)] * (M * K)]
    end = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return rule_out(softmax(np.asarray(end.x[1:]).reshape(M, K)), structure), float(np.exp(end.x[0]))


def rule_out(T: FloatArray, structure: str) -> FloatArray:
    """T without what the structure rules out."""
    if structure == "complementary":
        np.fill_diagonal(T, NEVER)
        T /= T.sum(axis=0)
    return T


def effective_rows(
    evidence: Evidence, T: FloatArray, P: FloatArray, classifier: tuple[FloatArray, FloatArray] | None = None
) -> FloatArray:
    """How many rows of known class the rows of unknown class are worth for each column of T, given p (K,).

    The observed information of row y of T is ``H_y = sum_{i: y_i = y} p_i p_i^T / (T p_i)_y^2``. With ``C_y`` its
    inverse and the constraint that columns sum to one, ``V_y = C_y - C_y (sum_y C_y)^-1 C_y`` is the covariance of T_y.
    `classifier` is what p's own numbers share with T and what is known of them, (M, K, F) and (F, F): their doubt comes
    on top (`recalibration`). n_z rows of known class would give ``sum_y T_yz (1 - T_yz) / n_z`` for the sum of a
    column's variances: this is solved for n_z, and the clean rows, which tell T and p apart, are taken off.
    """
    p = evidence.ordered(P)
    mixed = (evidence.rows_of(T) * p).sum(axis=0)
    scaled = p / mixed
    H = np.zeros((evidence.M, evidence.K, evidence.K))
    for y, begin, rows in zip(evidence._labels, evidence._edges, evidence._repeats, strict=True):
        H[y] = scaled[:, begin : begin + rows] @ scaled[:, begin : begin + rows].T
    clean = np.zeros_like(T) if classifier is None else evidence.clean
    prior = (clean + 1.0 / evidence.M) / np.maximum(T, 1e-4) ** 2  # one pseudo-count per class bounds what is unknown
    C = np.linalg.inv(H + np.einsum("yz,zw->yzw", prior, np.eye(evidence.K)))
    S = C.sum(axis=0)
    variance = np.einsum("yzz->yz", C - C @ np.linalg.solve(S, C))
    if classifier is not None:
        variance = variance + _from_classifier(C, S, *classifier)
    spread = (T * (1 - T)).sum(axis=0)
    most = evidence.by_label(evidence.rows_of(T) * p / mixed).sum(axis=0)  # expected rows of each class
    worth = spread / np.maximum(variance.sum(axis=0), 1e-300) - clean.sum(axis=0)
    out: FloatArray = np.clip(worth, 0.0, most)
    return out


def _from_classifier(C: FloatArray, S: FloatArray, B: FloatArray, H: FloatArray) -> FloatArray:
    """The diagonal (M, K) of ``V B (H - B^T V B)^-1 B^T V``, V given by C and its sum S.

    Where the rows leave p and T exchangeable the inverse is that of what is known beforehand: H's least eigenvalues are
    those of its prior, and what is left of them is taken to be a tenth at least.
    """
    moved = C @ B  # V B (M, K, F)
    moved = moved - C @ np.linalg.solve(S, moved.sum(axis=0))
    values, vectors = np.linalg.eigh(H - np.einsum("yzf,yzg->fg", B, moved))
    half = moved @ (vectors / np.sqrt(np.maximum(values, UNTOLD)))
    out: FloatArray = np.einsum("yzf,yzf->yz", half, half)
    return out
