"""Partial labels: the probability that a wrong class is a candidate, and whether the sets look like that family.

In the family `partial_labels(K, p)` a set S holds the true class and every other class independently with probability
p, so ``|S| - 1`` is binomial with K - 1 trials: p needs neither clean rows nor features. Class-wise rates p_y are those
of ``P(S | z) = prod_{y != z} p_y^{s_y} (1 - p_y)^{1 - s_y}`` for z in S, with class shares pi, by EM:

    gamma_z proportional to s_z pi_z / p_z,   pi = mean of gamma,   p_y = sum (s_y - gamma_y) / sum (1 - gamma_y).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core import FloatArray, warn
from ..errors import InputError
from ..transitions import EstimatedPartialLabels, FamilyTest
from .hull import chi_square
from .softmax import Design
from .warnings import FamilyWarning

STEPS = 200
LEVEL = 0.01  # p-value below which the sets do not look like their family
SIMULATED, DRAWS = 1 << 20, 199  # entries of the masks up to which a test draws its own distribution, and how often


@dataclass(frozen=True)
class Rates:
    """P(class is a wrong candidate) of each class, the class shares, and the log likelihood."""

    rates: FloatArray  # (K,)
    shares: FloatArray  # (K,)
    value: float


def from_masks(masks: np.ndarray, true: np.ndarray, X: Any = None) -> EstimatedPartialLabels:
    """p with its uncertainty, the class-wise rates, and tests of the family; a classifier where there is X."""
    n, K = masks.shape
    known = np.flatnonzero(true >= 0)
    wrong = known[~masks[known, true[known]]]
    if len(wrong):
        raise InputError(
            f"true: expected every known class among the candidates of its row, got class {true[wrong[0]]} at row "
            f"{wrong[0]}, which is not; these are not candidate sets that hold the true class"
        )
    sizes = masks.sum(axis=1)
    extra = float((sizes - 1).sum())
    a, b = extra + 0.5, n * (K - 1) - extra + 0.5  # Jeffreys' prior
    rates, p_value = _same_rates(masks, true, a / (a + b))
    tests = [
        FamilyTest("set sizes are binomial", _binomial_sizes(sizes, K, a / (a + b))),
        FamilyTest("all classes are included at the same rate", p_value),
    ]
    notes = [
        f"from {n} candidate sets of {K} classes, {len(known)} of known class; p has a Beta({a:g}, {b:g}) posterior"
    ]
    for test in tests:
        if test.p_value < LEVEL:
            spread = f" (rates from {rates.min():.3f} to {rates.max():.3f})" if "rate" in test.name else ""
            note = (
                f"the candidate sets do not look like partial_labels({K}, p): the test that {test.name} has p = "
                f"{test.p_value:.2g}{spread}"
            )
            notes.append(note)
            warn(f"estimate_transition: {note}", FamilyWarning)
    out = EstimatedPartialLabels(K, a, b, notes=notes, flip_rates=rates, tests=tests)
    if X is not None:
        design = Design(X)
        likelihood = masks.T.astype(np.float64)
        likelihood[:, known] = 0.0
        likelihood[true[known], known] = 1.0
        out.classifier = design.model(design.fit(likelihood, design.start(K), 100, l2=1e-3))
    return out


def class_wise(masks: np.ndarray, true: np.ndarray, same: bool = False) -> Rates:
    """Rates p_y, each class by itself or all the `same`, with class shares and log likelihood."""
    kinds, counts = np.unique(np.column_stack([masks, true]), axis=0, return_counts=True)
    s, z = kinds[:, :-1].astype(np.float64), kinds[:, -1].astype(np.int64)
    K, weight = s.shape[1], counts.astype(np.float64)
    allowed = np.where((z >= 0)[:, None], np.arange(K) == z[:, None], s > 0)
    pi, value = np.full(K, 1.0 / K), -np.inf
    p = np.full(K, np.clip((s.sum(axis=1) - 1) @ weight / weight.sum() / (K - 1), 1e-6, 1 - 1e-6))
    for _ in range(STEPS):
        log = s @ np.log(p) + (1 - s) @ np.log1p(-p)
        terms = allowed * (pi / p)
        mass = terms.sum(axis=1)
        last, value = value, float(weight @ (log + np.log(mass)))
        gamma = terms / mass[:, None]
        pi = weight @ gamma / weight.sum()
        hits, trials = weight @ (s - gamma), weight @ (1 - gamma)
        ratio = np.full(K, hits.sum() / trials.sum()) if same else hits / np.maximum(trials, 1e-300)
        p = np.clip(ratio, 1e-9, 1 - 1e-9)
        if value - last < 1e-3:  # of a log likelihood: a change that no test could see
            break
    return Rates(p, pi, value)


def _same_rates(masks: np.ndarray, true: np.ndarray, p: float) -> tuple[FloatArray, float]:
    """The rates, and the p-value of the likelihood ratio test that they are all the same.

    Chi-square is far off where a class is rarely included. Where it speaks against the family, and the data are not too
    large for it, the ratio is held against those of sets drawn from the family itself.
    """
    n, K = masks.shape
    free, alike = class_wise(masks, true), class_wise(masks, true, same=True)
    ratio = 2 * (free.value - alike.value)
    p_value = chi_square(ratio, K - 1)
    if p_value > 0.05 or n * K > SIMULATED:
        return free.rates, p_value
    rng, known, above, draws = np.random.default_rng(0), true >= 0, 0, 0
    while draws < DRAWS and above < 10:  # ten above it settle the matter
        draws += 1
        z = np.where(known, true, rng.choice(K, n, p=alike.shares / alike.shares.sum()))
        again = rng.random((n, K)) < p
        again[np.arange(n), z] = True
        above += 2 * (class_wise(again, true).value - class_wise(again, true, same=True).value) >= ratio
    return free.rates, (1 + above) / (1 + draws)


def _binomial_sizes(sizes: np.ndarray, K: int, p: float) -> float:
    """Pearson's test: ``|S| - 1`` is binomial; sizes expected fewer than five times are pooled."""
    from scipy.stats import binom

    expected = len(sizes) * binom.pmf(np.arange(K), K - 1, p)
    observed = np.bincount(sizes - 1, minlength=K).astype(np.float64)
    rare = expected < 5
    cells = [*zip(observed[~rare], expected[~rare], strict=True)]
    if expected[rare].sum() > 0:
        cells.append((observed[rare].sum(), expected[rare].sum()))
    statistic = sum((o - e) ** 2 / e for o, e in cells)
    return chi_square(statistic, len(cells) - 2)
