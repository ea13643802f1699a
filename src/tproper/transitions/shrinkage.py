"""Columns of T from counts: Dirichlet-multinomial, shrunk towards a form that the counts themselves choose.

Given class z the counts of its n_z examples are multinomial with probabilities ``T[:, z] ~ Dirichlet(s m[:, z])``. The
*form* m says what columns look like when nothing else is known of them, the *strength* s how closely they follow it, in
units of examples. Integrating T out leaves the evidence

    log p(counts | s, m) = sum_z [ lgamma(s) - lgamma(s + n_z) + sum_y lgamma(s m_yz + c_yz) - lgamma(s m_yz) ],

and the posterior is Dirichlet again, ``Dirichlet(s m + counts)``. Forms differ in two things: what stands on the
diagonal, and how the other labels share the rest (evenly, or as in all classes together). Each form with q free numbers
pays ``q/2 log N`` for them (BIC). The posterior is the mixture over forms and strengths by their evidence (empirical
Bayes with the choice's own doubt kept), so that few counts are shrunk a lot and many not at all.

One class may differ from all others, and what the others have in common must not hide it. Each column is therefore a
mixture of two: it follows the others, or it stands apart and its own counts decide. The odds are those of the evidence,
but never less than what its own counts leave open: where a test that the column is like the others has p-value p, the
evidence for it is at most ``1 / (-e p log p)`` (Sellke, Bayarri and Berger, 2001), and that bound with prior odds of 3
to 7 counts for columns with p < .1, and for all whose own counts do not exclude a diagonal an eighth away from the
others'. The tails of the mixture then hold what a one-sided test at .08 does not exclude. What the others have in
common is learned from those that follow.

References: Good (1965), The Estimation of Probabilities; Daniels (1999) for uniform priors of a shrinkage; Madigan and
Raftery (1994) for leaving out forms far less probable than the best; Sellke, Bayarri and Berger (2001), Calibration of
p values for testing precise null hypotheses.
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
ALIKE, SAME = 0.7, 1500.0  # prior probability that columns which follow the others hardly vary: as of so many examples
APART = 0.05  # prior probability that a column stands apart ...
OPEN = 0.3  # ... and where its own counts leave that open
AWAY, TEST = 0.125, 0.085  # how far apart, and the level of the test that excludes it
UNLIKE = 0.1  # p-value of "like the others" below which a column may stand apart, however near
ROUNDS, CELLS = (
    (2, 8),
    1 << 22,
)  # of which columns stand apart, and what the others have in common; fewer for large ones


@dataclass(frozen=True)
class Form:
    """What a column looks like before its counts are seen."""

    name: str
    sentence: str
    diagonal: str  # "none": label z is nothing special in class z; "own": a share of its own; "zero": never given
    pooled: bool  # whether the other labels' shares are those of all classes together, or even
    spread: float | None = None  # of classes in an order: a wrong label at distance d has a share like spread^(d-1)

    def parameters(self, M: int) -> int:
        """Free numbers of the form."""
        others = M - 1 if self.diagonal != "none" else M
        return (others - 1 if self.pooled else 0) + (self.diagonal == "own")

    def fits(self, counts: FloatArray) -> bool:
        """Whether the form can have given these counts."""
        M, K = counts.shape
        if self.diagonal == "none":
            return True
        if self.spread is not None and M != K:
            return False
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
        Form("neighbours", "classes in an order: one error rate, errors between adjacent classes", "own", False, 0.05),
        Form("near classes", "classes in an order: one error rate, errors among near classes", "own", False, 0.4),
    )
}
# What a caller may ask for, and the forms that are then compared.
STRUCTURES = {
    "auto": tuple(name for name, form in FORMS.items() if form.spread is None),  # the counts do not order the classes
    "free": ("uniform",),
    "pooled": ("pooled",),
    "symmetric": ("symmetric",),
    "complementary": ("complementary", "biased complementary"),
    "ordinal": ("neighbours", "near classes"),
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
    # The share s/(s + M + typical) is uniform a priori: for few counts a prior of its own, for many the shrinkage
    log_prior = np.log(s) - 2 * np.log(s + M + typical)
    log_prior += np.log1p(-ALIKE) - np.logaddexp.reduce(log_prior)
    # columns that differ stand apart, so that those which follow may well have one form
    same = int(np.searchsorted(s, min(SAME, s[-1])))
    log_prior[same] = np.logaddexp(log_prior[same], np.log(ALIKE))
    fits = [_fit(f, counts, s, log_prior) for f in forms]
    table = np.array([fit.evidence + log_prior for fit in fits])  # (forms, STRENGTHS)
    weight = np.exp(table - table.max())
    by_form = weight.sum(axis=1)
    weight[by_form < WINDOW * by_form.max()] = 0.0
    weight /= weight.sum()
    size = int(np.clip(ENTRIES // (M * K), *COMPONENTS))
    chosen = _systematic(weight.ravel(), size)
    apart = np.array([fit.apart for fit in fits]).reshape(-1, K)[chosen]  # (size, K)
    rng = np.random.default_rng(0)  # a fixed quadrature: the same counts always give the same T
    own = _columns_apart(apart, rng)
    parts = []
    for cell in np.unique(chosen):
        form, strength, here = forms[cell // STRENGTHS], s[cell % STRENGTHS], chosen == cell
        alike = counts * (1 - apart[here][0])
        means = _means(form, alike, strength, int(here.sum()), rng)
        # nobody has seen a class without counts: it may differ more from the others than they do among themselves
        weigh = np.where(n > 0 if seen is None else seen, strength, min(strength, float(M)))
        prior = np.where(own[here][:, None], _own_prior(form, means), weigh * means)
        parts.append(prior + counts)
    kept = {f.name: float(p) for f, p in zip(forms, weight.sum(axis=1), strict=True) if p > 0}
    notes = _notes(kept, weight, s, n)
    differ = np.flatnonzero((apart.mean(axis=0) > 0.5) & (n > 0)).tolist()
    if differ:
        which = ("class " if len(differ) == 1 else "classes ") + ", ".join(map(str, differ))
        notes.append(f"{which}: unlike the others, so the column rests on its own counts")
    return Shrunk(np.concatenate(parts), kept, float((weight * s).sum()), notes)


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


@dataclass(frozen=True)
class _Fit:
    """A form beside the counts."""

    evidence: FloatArray  # (STRENGTHS,)
    apart: FloatArray  # (STRENGTHS, K): probability that a column does not follow the others


def _fit(form: Form, counts: FloatArray, s: FloatArray, log_prior: FloatArray) -> _Fit:
    """log p(counts | s, form) less ``q/2 log N``, for every strength, and which columns stand apart.

    What a column that follows the others looks like is learned from those that do: m and the columns' probabilities
    are found in turn.
    """
    n = counts.sum(axis=0)
    follows = np.ones(counts.shape[1])
    for _ in range(int(np.clip(CELLS // (len(s) * counts.size), *ROUNDS))):
        alike = counts * follows
        m = _mean(form, _diagonal_share(form, alike), _label_weights(form, alike[None])[0], counts.shape)
        usual = np.log1p(-APART) + _log_columns(s[:, None, None] * m, counts)
        other = np.log(APART) + _log_columns(_own_prior(form, m[None]), counts)
        gain = np.logaddexp(usual, other)  # (STRENGTHS, K)
        apart = np.maximum(np.exp(other - gain), _left_open(form, counts, m, s))
        total = gain.sum(axis=1) + log_prior
        weight = np.exp(total - total.max())
        before, follows = follows, 1 - weight @ apart / weight.sum()
        if np.abs(follows - before).max() < 0.01:
            break
    # examples of one class are worth at most s of them in what they say about the form
    worth = (n * (s[:, None] + 1) / (n + s[:, None])).sum(axis=1)
    free = form.parameters(len(counts))
    if form.diagonal == "own" and not counts.diagonal().any():
        free += 1  # a rate at its bound: a uniform prior gives N + 1, not the root of N, against it
    return _Fit(gain.sum(axis=1) - 0.5 * free * np.log1p(worth), apart)


def _log_columns(prior: FloatArray, counts: FloatArray) -> FloatArray:
    """log p(counts of each column), (L, K), by Dirichlet distributions (L, M, K)."""
    from scipy.special import gammaln

    inside = prior > 0
    base = np.where(inside, prior, 1.0)
    gain = np.where(inside, gammaln(base + counts) - gammaln(base), 0.0).sum(axis=1)
    total = prior.sum(axis=1)
    out: FloatArray = gain + gammaln(total) - gammaln(total + counts.sum(axis=0))
    return out


def _own_prior(form: Form, m: FloatArray) -> FloatArray:
    """Of a column that stands apart, (L, M, K) for means m: its diagonal may be anything."""
    if form.diagonal != "own":
        return m
    K = m.shape[2]
    diagonal = np.arange(K)
    rest = 1 - m[:, diagonal, diagonal]  # (L, K)
    out = m / np.maximum(rest, 1e-12)[:, None]
    out[:, diagonal, diagonal] = 1.0
    return out


def _left_open(form: Form, counts: FloatArray, m: FloatArray, s: FloatArray) -> FloatArray:
    """The least probability (STRENGTHS, K) that columns stand apart, for what their own counts leave open.

    By the diagonal: the p-value of "like the others" is that of Jeffreys' posterior, counts being worth what those of
    a column that varies with strength s are.
    """
    from scipy.special import betainc

    n = counts.sum(axis=0)
    if form.diagonal != "own":
        return np.zeros((len(s), len(n)))
    on, usual = counts.diagonal(), m.diagonal()
    least, most = (np.clip(usual + side, 0.0, 1.0) for side in (-AWAY, AWAY))
    own = on + 0.5, n - on + 0.5
    possible = (betainc(*own, least) > TEST) | (1 - betainc(*own, most) > TEST)
    worth = (s[:, None] + 1) / (n + s[:, None])
    below = betainc(on * worth + 0.5, (n - on) * worth + 0.5, usual)
    p = np.maximum(2 * np.minimum(below, 1 - below), 1e-300)
    follows = np.where(p < np.exp(-1), -np.e * p * np.log(p), 1.0) * (1 - OPEN)
    return np.where(possible | (p < UNLIKE), OPEN / (OPEN + follows), 0.0)


def _columns_apart(share: FloatArray, rng: np.random.Generator) -> np.ndarray:
    """Which columns stand apart in each component (C, K), as often as their probabilities (C, K) say."""
    C, K = share.shape
    order = rng.permuted(np.repeat(np.arange(C)[:, None], K, axis=1), axis=0)  # another one for each column
    steps = np.cumsum(np.take_along_axis(share, order, axis=0), axis=0) + 0.5
    hit = np.floor(steps) > np.floor(np.vstack([np.full(K, 0.5), steps[:-1]]))
    out = np.zeros((C, K), dtype=bool)
    np.put_along_axis(out, order, hit, axis=0)
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
    if form.spread is not None:
        m *= form.spread ** np.maximum(np.abs(np.arange(K)[:, None] - np.arange(K)) - 1, 0)
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


def _amount(x: float) -> str:
    """A number of examples: whole from ten on."""
    return f"{x:,.0f}" if x >= 10 else f"{x:.2g}"


def _notes(forms: dict[str, float], weight: FloatArray, s: FloatArray, n: FloatArray) -> list[str]:
    best = max(forms, key=lambda name: forms[name])
    strength = float(np.exp((weight.sum(axis=0) * np.log(s)).sum()))
    typical = float(n[n > 0].mean())
    notes = [
        f"shrunk towards {FORMS[best].sentence} (probability {forms[best]:.2f} among the forms tried), "
        f"with the weight of {_amount(strength)} examples per class beside the {_amount(typical)} counted"
    ]
    empty = np.flatnonzero(n == 0).tolist()
    if empty:
        which = ("class " if len(empty) == 1 else "classes ") + ", ".join(map(str, empty))
        notes.append(f"{which}: no counts, so the column is what the other classes suggest, with a wide interval")
    return notes


def _misfit(structure: str, counts: FloatArray) -> str:
    M, K = counts.shape
    if structure == "ordinal":
        return f"structure: expected as many labels as classes with 'ordinal', got {M} and {K}"
    if M < K:
        return f"structure: expected 'auto', 'free' or 'pooled' with fewer labels ({M}) than classes ({K})"
    z = int(counts.diagonal().argmax())
    return (
        f"structure: expected counts with a zero diagonal for {structure!r}, got {counts[z, z]:g} at row {z}, "
        f"column {z}; use 'auto'"
    )
