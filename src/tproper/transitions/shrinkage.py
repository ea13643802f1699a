"""Columns of T from counts: Dirichlet-multinomial, shrunk towards a form that the counts themselves choose.

Given class z the counts of its n_z examples are multinomial with probabilities ``T[:, z] ~ Dirichlet(s m[:, z])``. The
*form* m says what columns look like when nothing else is known of them, the *strength* s how closely they follow it, in
units of examples. Integrating T out leaves the evidence

    log p(counts | s, m) = sum_z [ lgamma(s) - lgamma(s + n_z) + sum_y lgamma(s m_yz + c_yz) - lgamma(s m_yz) ],

and the posterior is Dirichlet again, ``Dirichlet(s m + counts)``. Forms differ in two things: what stands on the
diagonal, and how the other labels share the rest (evenly, or as in all classes together). Each form with q free numbers
pays ``q/2 log N`` for them (BIC). The posterior is the mixture over forms and strengths by their evidence (empirical
Bayes with the choice's own doubt kept), so that few counts are shrunk a lot and many not at all.

References: Good (1965), The Estimation of Probabilities; Daniels (1999) for uniform priors of a shrinkage; Madigan and
Raftery (1994) for leaving out forms far less probable than the best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .._core import FloatArray, checks
from ..errors import InputError

STRENGTHS = 16  # grid points of s
WINDOW = 0.05  # forms less probable than this share of the best one are left out
COMPONENTS = (16, 64)  # Dirichlet distributions in the mixture; fewer for large tables
ENTRIES = 1 << 17  # of all components together, about


@dataclass(frozen=True)
class Form:
    """What a column looks like before its counts are seen."""

    name: str
    sentence: str
    diagonal: str  # "none": label z is nothing special in class z; "own": a share of its own; "zero": never given
    pooled: bool  # whether the other labels' shares are those of all classes together, or even

    def parameters(self, M: int) -> int:
        """Free numbers of the form."""
        others = M - 1 if self.diagonal != "none" else M
        return (others - 1 if self.pooled else 0) + (self.diagonal == "own")

    def fits(self, counts: FloatArray) -> bool:
        """Whether the form can have given these counts."""
        M, K = counts.shape
        if self.diagonal == "none":
            return True
        return max(K, 2) <= M and (self.diagonal == "own" or not counts.diagonal().any())


FORMS = {
    f.name: f
    for f in (
        Form("uniform", "every label equally likely", "none", False),
        Form("pooled", "the same labels in every class", "none", True),
        Form("symmetric", "symmetric noise: one error rate, errors spread evenly", "own", False),
        Form("shared errors", "one error rate, errors as in all classes together", "own", True),
        Form("complementary", "uniform complementary labels (label z never given to class z)", "zero", False),
        Form("biased complementary", "complementary labels, some labels more popular", "zero", True),
    )
}
# What a caller may ask for, and the forms that are then compared.
STRUCTURES = {
    "auto": tuple(FORMS),
    "free": ("uniform",),
    "pooled": ("pooled",),
    "symmetric": ("symmetric",),
    "complementary": ("complementary", "biased complementary"),
}


@dataclass(frozen=True)
class Shrunk:
    """The posterior of T: an even mixture of Dirichlet distributions of the columns."""

    concentration: FloatArray  # (C, M, K)
    forms: dict[str, float]  # probability of each form kept
    strength: float  # mean s, in examples per class
    notes: list[str]


def structure_of(name: str) -> tuple[str, ...]:
    """The forms that a structure's name stands for."""
    checks.choice(name, "structure", STRUCTURES)
    return STRUCTURES[name]


def shrink(counts: FloatArray, structure: str = "auto", seen: np.ndarray | None = None) -> Shrunk:
    """The posterior of T given `counts` (M, K), some of them positive; `seen` (K,): classes with enough counts."""
    M, K = counts.shape
    n = counts.sum(axis=0)
    asked = [FORMS[name] for name in structure_of(structure)]
    forms = [f for f in asked if f.fits(counts)]
    if not forms:
        raise InputError(_misfit(structure, counts))
    typical = float(n[n > 0].mean())
    s = np.geomspace(0.25, 50 * max(typical, 1.0), STRENGTHS)
    # The share s/(s + M) is uniform a priori. A prior that grows with the counts would shrink two or three classes that
    # differ: on so few columns the evidence says little about s.
    log_prior = np.log(s) - 2 * np.log(s + M)
    table = np.array([_log_evidence(f, counts, s) + log_prior for f in forms])  # (forms, STRENGTHS)
    weight = np.exp(table - table.max())
    by_form = weight.sum(axis=1)
    weight[by_form < WINDOW * by_form.max()] = 0.0
    weight /= weight.sum()
    size = int(np.clip(ENTRIES // (M * K), *COMPONENTS))
    chosen = _systematic(weight.ravel(), size)
    rng = np.random.default_rng(0)  # a fixed quadrature: the same counts always give the same T
    parts = []
    for cell in np.unique(chosen):
        form, strength = forms[cell // STRENGTHS], s[cell % STRENGTHS]
        means = _means(form, counts, strength, int((chosen == cell).sum()), rng)
        # nobody has seen a class without counts: it may differ more from the others than they do among themselves
        own = np.where(n > 0 if seen is None else seen, strength, min(strength, float(M)))
        parts.append(own * means + counts)
    kept = {f.name: float(p) for f, p in zip(forms, weight.sum(axis=1), strict=True) if p > 0}
    return Shrunk(np.concatenate(parts), kept, float((weight * s).sum()), _notes(kept, weight, s, n))


def beta_interval(a: ArrayLike, b: ArrayLike, tail: float) -> tuple[FloatArray, FloatArray]:
    """The central interval of ``Beta(a, b)`` with `tail` on either side."""
    from scipy.special import betaincinv

    return betaincinv(a, b, tail), betaincinv(a, b, 1 - tail)


def column_intervals(a: FloatArray, T: FloatArray, tail: float) -> tuple[FloatArray, FloatArray]:
    """Central intervals of the entries of Dirichlet columns a (M, K); an entry known to be 0 or 1, as T has it, has no
    width."""
    rest = a.sum(axis=0) - a
    inside = (a > 0) & (rest > 0)
    low, high = beta_interval(np.where(inside, a, 1), np.where(inside, rest, 1), tail)
    return np.where(inside, low, T), np.where(inside, high, T)


def opened(low: FloatArray, high: FloatArray, counts: FloatArray, tail: float) -> tuple[FloatArray, FloatArray]:
    """Intervals of entries, those without a count from 0 to Jeffreys' upper end of "none of n" at least.

    The form that the other counts suggest cannot exclude that such an entry is 0, nor that it is a rare one.
    """
    _, most = beta_interval(0.5, counts.sum(axis=0) + 0.5, tail)
    return np.where(counts == 0, 0.0, low), np.where(counts == 0, np.maximum(high, most), high)


def _log_evidence(form: Form, counts: FloatArray, s: FloatArray) -> FloatArray:
    """log p(counts | s, form) less ``q/2 log N``, for every strength."""
    from scipy.special import gammaln

    m = _mean(form, _diagonal_share(form, counts), _label_weights(form, counts[None])[0], counts.shape)
    inside = m > 0
    prior = s[:, None, None] * np.where(inside, m, 1.0)
    gain = np.where(inside, gammaln(prior + counts) - gammaln(prior), 0.0).sum(axis=(1, 2))
    n = counts.sum(axis=0)
    gain += (gammaln(s[:, None]) - gammaln(s[:, None] + n)).sum(axis=1)
    # examples of one class are worth at most s of them in what they say about the form
    worth = (n * (s[:, None] + 1) / (n + s[:, None])).sum(axis=1)
    free = form.parameters(len(counts))
    if form.diagonal == "own" and not counts.diagonal().any():
        free += 1  # a rate at its bound: a uniform prior gives N + 1, not the root of N, against it
    out: FloatArray = gain - 0.5 * free * np.log1p(worth)
    return out


def _diagonal_share(form: Form, counts: FloatArray) -> float:
    on, total = float(counts.diagonal().sum()), float(counts.sum())
    return (on + 0.5) / (total + 1) if form.diagonal == "own" else 0.0


def _label_weights(form: Form, counts: FloatArray) -> FloatArray:
    """w (L, M) for counts (L, M, K): the shares of labels, those of class z itself left out where it has its own rule.

    ``P(y | z, y != z) = w_y / (1 - w_z)``: the maximum likelihood solves ``w_y = N_y / sum_{z != y} n_z/(1 - w_z)``.
    """
    L, M, K = counts.shape
    if not form.pooled:
        return np.full((L, M), 1.0 / M)
    if form.diagonal == "none":
        plain = counts.sum(axis=2) + 1.0 / M
        return plain / plain.sum(axis=1, keepdims=True)
    off = counts * ~np.eye(M, K, dtype=bool)
    N, n = off.sum(axis=2) + 1.0 / M, off.sum(axis=1)  # (L, M), (L, K)
    w = N / N.sum(axis=1, keepdims=True)
    for _ in range(8):
        load = n / np.maximum(1 - w[:, :K], 1e-12)  # one label may have all there is, to the last digit
        rest = np.repeat(load.sum(axis=1, keepdims=True), M, axis=1)
        rest[:, :K] -= load
        w = np.where(rest > 0, N / np.where(rest > 0, rest, 1.0), w)
        w /= w.sum(axis=1, keepdims=True)
    return w


def _mean(form: Form, share: float, w: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """m (M, K) for a share on the diagonal and label weights w."""
    K = shape[1]
    m: FloatArray = np.repeat(w[:, None], K, axis=1)
    if form.diagonal == "none":
        return m
    np.fill_diagonal(m, 0.0)
    m *= (1 - share) / m.sum(axis=0)
    m[np.arange(K), np.arange(K)] = share
    return m


def _means(form: Form, counts: FloatArray, s: float, size: int, rng: np.random.Generator) -> FloatArray:
    """`size` draws of m (size, M, K) from its approximate posterior at strength s."""
    M, K = counts.shape
    n = counts.sum(axis=0)
    worth = (s + 1) / (np.where(n > 0, n, 1.0) + s)  # of one example of class z, in what it says about m
    effective = counts * worth
    if form.pooled:
        counted = effective if form.diagonal == "none" else effective * ~np.eye(M, K, dtype=bool)
        total = counted.sum(axis=1)
        noise = rng.standard_gamma(total + 1.0 / M, size=(size, M)) / (total + 1.0 / M)
        w = _label_weights(form, effective[None] * noise[:, :, None])
    else:
        w = _label_weights(form, np.zeros((size, M, K)))
    share = np.zeros(size)
    if form.diagonal == "own":
        on = float(effective.diagonal().sum())
        share = rng.beta(on + 0.5, float(effective.sum()) - on + 0.5, size)
    return np.array([_mean(form, float(d), v, counts.shape) for d, v in zip(share, w, strict=True)])


def _systematic(weight: FloatArray, size: int) -> np.ndarray:
    """`size` indices, each as often as its weight says up to one."""
    edges = np.cumsum(weight)
    return np.searchsorted(edges / edges[-1], (np.arange(size) + 0.5) / size)


def _notes(forms: dict[str, float], weight: FloatArray, s: FloatArray, n: FloatArray) -> list[str]:
    best = max(forms, key=lambda name: forms[name])
    strength = float(np.exp((weight.sum(axis=0) * np.log(s)).sum()))
    typical = float(n[n > 0].mean())
    notes = [
        f"shrunk towards {FORMS[best].sentence} (probability {forms[best]:.2f} among the forms tried), "
        f"with the weight of {strength:.3g} examples per class beside the {typical:.4g} counted"
    ]
    empty = np.flatnonzero(n == 0).tolist()
    if empty:
        which = ("class " if len(empty) == 1 else "classes ") + ", ".join(map(str, empty))
        notes.append(f"{which}: no counts, so the column is what the other classes suggest, with a wide interval")
    return notes


def _misfit(structure: str, counts: FloatArray) -> str:
    M, K = counts.shape
    if M < K:
        return f"structure: expected 'auto', 'free' or 'pooled' with fewer labels ({M}) than classes ({K})"
    z = int(counts.diagonal().argmax())
    return (
        f"structure: expected counts with a zero diagonal for {structure!r}, got {counts[z, z]:g} at row {z}, "
        f"column {z}; use 'auto'"
    )
