"""Sources that abstain: rules that name a class where they see it, and say nothing elsewhere.

Given that a rule of one class speaks, it says the same whatever the class is: all it tells is *when* it speaks. So its
silence is an answer, a row of its T, and each T is of the rule's own form. With the class c it names in a share q_ac
of the items, and pi_ac the share of these that are right,

    T_a[c, z] = q_ac pi_ac / p_c  for z = c,    q_ac (1 - pi_ac) / (1 - p_c)  for z != c,    silent otherwise.

The T of all annotators together, to which those of a crowd are shrunk, would mean nothing here: every rule names its
own class. What rules share is how often they are right, pi_ac being shrunk towards one pi for all of them. And pi and
the shares p_c are drawn to what is usual of rules (three of four are right; the classes are evenly common) with as much
weight as the data have: votes alone cannot tell rules that err together from rules that are right, nor a rare class
from one that is rarely named, and the likeliest pi and p_c, which take every agreement for truth, were the worst of all
in the label sets of `docs/estimation/real_sources.md`. Items of known class tell these apart, and count as they are.

Where every item has an answer, items that nobody spoke of were left out, and the likelihood is the conditional one:
each step of EM adds as many silent items as T expects.

Rules see the same words, and speak and err together. Let ``D = sum_a (d_a - E d_a)`` be an item's log odds of two
classes less what T expects of one of them. Independent sources have ``E D^2 = sum_a var d_a``; the ratio of the two
sides, over all items and pairs of classes, is the factor (Kish's design effect) by which the log odds are divided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray
from .dawid_skene import Crowd, Fit, normalised

RIGHT = 0.75  # of a rule's answers, as is usual
TOGETHER, TIMES = 2000.0, 8.0  # answers by which a rule's own accuracy is drawn to that of all: at least, and for each
KNOWN = 20.0  # the same in items of known class
EVENLY = 0.5  # items of each class, for each item given, that count as seen
MOST_SILENT = 20.0  # items left out, for each item given
MOST_SPOKEN = 0.98  # of a class's items, by a rule that is silent now and then
LEAST = 1e-6  # of T
OTHER = 0.5  # of an answer that is no class, to each class
ROUNDS = 300
SETTLED = 1e-5  # largest change of a posterior
LARGEST = 2.0  # design effect; beyond, dependence cannot be told from a T that fits badly
STEPS = 20  # between posteriors and the design effect


@dataclass
class Rules(Fit):
    """Where EM stands, with every T in the form of a rule."""

    def __post_init__(self) -> None:
        crowd, K = self.crowd, self.crowd.num_classes
        self.speaks = np.ones(crowd.m, dtype=bool) if crowd.abstains is None else ~crowd.abstains
        times = np.diff(crowd.by_answer.indptr).reshape(crowd.m, crowd.num_answers).astype(np.float64)
        self.times = times[:, :K]  # (m, K) answers for each class
        self.other = times[:, K : crowd.num_answers - bool(len(crowd.silent))]  # answers that are no class
        known = np.zeros((crowd.n, K), dtype=crowd.dtype)
        known[crowd.fixed, crowd.known[crowd.fixed]] = 1.0
        self.checked = crowd.counts(known).astype(np.float64)[:, :K]  # (m, K, K), in items of known class
        self.strength = max(TOGETHER, TIMES * float(self.times.sum()) / max(int((self.times > 0).sum()), 1))
        anchor = known.sum(axis=0, dtype=np.float64) + crowd.named
        self.anchor = anchor / anchor.sum() * crowd.named.sum() * EVENLY * (crowd.n - len(crowd.fixed))
        alone = bool(len(crowd.silent)) and not bool((self.speaks & (times.sum(axis=1) > 0)).any())
        self.left_out = alone and bool((crowd.degree > 0).all())
        self.unseen = np.zeros(K)  # items left out, by class
        self._T: FloatArray | None = None
        super().__post_init__()

    def take(self, P: FloatArray) -> None:
        """Go on from other posteriors."""
        self.P, self._evidence = P, None
        crowd, K = self.crowd, self.crowd.num_classes
        if self.left_out and self._T is not None:
            nobody = self._nobody()
            share = min(float(nobody.sum()), MOST_SILENT / (1 + MOST_SILENT))
            self.unseen = nobody / nobody.sum() * crowd.n * share / (1 - share)
        self.counts = crowd.counts(P)
        whole = P.sum(axis=0, dtype=np.float64) + self.unseen
        prior = whole + self.anchor + crowd.prior_counts
        self.prior = prior / prior.sum()
        self.accuracy, right = self._right(self.counts[:, :K].astype(np.float64))
        self._T = self._form(right, crowd.n + float(self.unseen.sum()))

    def _right(self, counts: FloatArray) -> tuple[float, FloatArray]:
        """How often all rules are right, and each rule's answers for each class (m, K)."""
        hits = np.einsum("acc->ac", counts)
        sure, seen = np.einsum("acc->ac", self.checked), self.checked.sum(axis=2)
        guessed, blind = hits - sure, self.times - seen
        usual = max(float(blind.sum()), 1.0)
        all_ = float((hits.sum() + RIGHT * usual) / (self.times.sum() + usual))
        own = (guessed + self.strength * all_) / (blind + self.strength)
        return all_, (sure + KNOWN * own) / (seen + KNOWN)

    def _form(self, right: FloatArray, items: float) -> FloatArray:
        """T (m, M, K)."""
        crowd, K = self.crowd, self.crowd.num_classes
        p = np.clip(self.prior, LEAST, 1 - LEAST)
        share = self.times / items
        T = np.empty((crowd.m, crowd.num_answers, K))
        T[:, :K] = (share * (1 - right) / (1 - p))[:, :, None]
        T[:, range(K), range(K)] = share * right / p
        T[:, K:] = 0.0
        T[:, K : K + self.other.shape[1]] = ((self.other + OTHER) / items)[:, :, None]
        if len(crowd.silent):
            T[:, -1] = 0.0
            spoken = T[crowd.silent].sum(axis=1, keepdims=True)  # (rules, 1, K)
            T[crowd.silent] *= np.minimum(1.0, MOST_SPOKEN / np.maximum(spoken.max(axis=2, keepdims=True), 1e-300))
            T[crowd.silent, -1] = 1.0 - T[crowd.silent].sum(axis=1)
        T[self.speaks] += LEAST
        T = np.maximum(T, LEAST)
        out: FloatArray = (T / T.sum(axis=1, keepdims=True)).astype(crowd.dtype)
        return out

    def _nobody(self) -> FloatArray:
        """(K,): P(class, nobody speaks)."""
        assert self._T is not None
        out: FloatArray = self.prior * np.exp(np.log(self._T[self.crowd.silent, -1].astype(np.float64)).sum(axis=0))
        return out

    def given_that_some_speak(self) -> float:
        """``-n log P(somebody speaks)``."""
        return -self.crowd.n * float(np.log1p(-min(float(self._nobody().sum()), 1 - 1e-9))) if self.left_out else 0.0

    @property
    def T(self) -> FloatArray:
        """(m, M, K)."""
        assert self._T is not None
        return self._T

    @property
    def before(self) -> FloatArray:
        """(m, M, K): the form, with the weight of the answers that it was drawn to."""
        return self.strength * self.T


def run_rules(crowd: Crowd) -> Rules:
    """EM from the votes to its end."""
    start = crowd.votes(crowd.given(), crowd.known, 1.0)
    return settle(Rules(crowd, start, TOGETHER, None if crowd.named.all() else crowd.named))


def settle(fit: Rules, log_prior: FloatArray | None = None, rounds: int = ROUNDS) -> Rules:
    """EM until the posteriors stand still."""
    for _ in range(rounds):
        before = fit.P
        logs = np.log(fit.prior) if log_prior is None else log_prior
        if fit.among is not None:
            logs = np.where(fit.among, logs, -np.inf)
        P, fit.log_likelihood = fit.crowd.posterior(fit.evidence, logs.astype(fit.evidence.dtype))
        fit.take(P)
        if float(np.abs(P - before).max()) < SETTLED:
            break
    return fit


def design_effect(fit: Rules, log_prior: FloatArray) -> tuple[float, float]:
    """By how much more the evidence of items spreads than that of independent sources, and its standard error.

    The weight of each class is its posterior, for which the evidence is divided by the factor already: repeated until
    both agree.
    """
    crowd, K, factor, error = fit.crowd, fit.crowd.num_classes, 1.0, 0.0
    logs, T = np.log(fit.T.astype(np.float64)), fit.T.astype(np.float64)
    mean = np.einsum("ayz,ayz->az", T, logs)[:, :, None] - np.einsum("ayz,ayw->azw", T, logs)  # (m, K, K) of d_a
    square = np.einsum("ayz,ayzw->azw", T, (logs[:, :, :, None] - logs[:, :, None, :]) ** 2)
    observed = _observed(crowd)
    flat = [x.reshape(crowd.m, K * K) for x in (mean, np.maximum(square - mean**2, 0.0))]
    expected, variance = (_over(observed, crowd, x).reshape(-1, K, K) for x in flat)  # (n or 1, K, K)
    evidence = fit.evidence.astype(np.float64)
    beyond = ((evidence[:, :, None] - evidence[:, None, :]) - expected) ** 2
    nobody, hidden = 0.0, 0.0
    if fit.left_out:
        silence = logs[crowd.silent, -1].sum(axis=0)
        nobody = float((fit.unseen[:, None] * ((silence[:, None] - silence) - expected[0]) ** 2).sum())
        hidden = float((fit.unseen[:, None] * variance[0]).sum())
    for _ in range(STEPS):
        P = tempered(evidence, log_prior, factor)
        P[crowd.fixed] = np.eye(K)[crowd.known[crowd.fixed]]
        over = np.einsum("nz,nzw->n", P, beyond)
        under = np.einsum("nz,nzw->n", P, np.broadcast_to(variance, beyond.shape))
        total = float(under.sum()) + hidden
        if total <= 0:
            return 1.0, 0.0
        new = (float(over.sum()) + nobody) / total
        error = float(np.sqrt(((over - new * under) ** 2).sum())) / total
        if abs(min(max(new, 1.0), LARGEST) - factor) < 1e-3:
            break
        factor = (factor + min(max(new, 1.0), LARGEST)) / 2
    return factor, error


def tempered(evidence: FloatArray, log_prior: FloatArray, factor: float) -> FloatArray:
    """Posteriors (n, K), log odds divided by the factor; the prior of an item (n, K) stays as it is."""
    scores = (evidence + log_prior) / factor if log_prior.ndim == 1 else evidence / factor + log_prior
    return normalised(scores)[1]


def _observed(crowd: Crowd) -> NDArray[np.bool_]:
    """Whether each source answers, silently or not: (n, sources that do not abstain)."""
    speaks = np.setdiff1d(np.arange(crowd.m), crowd.silent)
    out = np.zeros((crowd.n, len(speaks)), dtype=bool)
    place = np.full(crowd.m, -1)
    place[speaks] = np.arange(len(speaks))
    at = place[crowd.answers.annotator]
    out[crowd.answers.item[at >= 0], at[at >= 0]] = True
    return out


def _over(observed: NDArray[np.bool_], crowd: Crowd, values: FloatArray) -> FloatArray:
    """Sums of values (m, ...) over the sources that answer an item, silently or not; (1, ...) where all abstain."""
    speaks = np.setdiff1d(np.arange(crowd.m), crowd.silent)
    silent = values[crowd.silent].sum(axis=0, keepdims=True)
    return silent + observed @ values[speaks] if len(speaks) else silent
