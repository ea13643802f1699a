"""Dawid-Skene in log space: EM for the classes of items and the T of each annotator, from their answers alone.

    posterior of item i:  P[i, z]  proportional to  p_z prod over answers (a, y) to i of T_a[y, z]
    T of annotator a:     T_a[:, z] = mean of Dirichlet(C_a[:, z] + s m[:, z] + u / M),   C_a[y, z] = sum of P[i, z]

where m is the T of all annotators together, s the strength by which each of them is shrunk to it, and u half an answer
spread evenly. Items with a known class keep it. All passes are products of one sparse matrix, items x (annotator,
answer), with K columns: nothing of size answers x classes is kept. Many answers go through them in float32.

References: Dawid and Skene (1979), Maximum likelihood estimation of observer error-rates using the EM algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import embedding_bag

from .._core import FloatArray
from .answers import Answers

EVEN = 0.5  # of an answer, spread evenly: no answer is impossible because it was not seen yet
STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # of shrinkage, in answers for each class
ALL, SAMPLE = 200_000, 50_000  # answers that the strength is chosen with: all, up to this many, or a sample
TOLERANCE = 1e-5  # change of log likelihood for each answer, below which EM ends
MOST_ROUNDS = 200
A_HANDFUL = 10  # annotators, up to which EM ends before the strength is chosen
FIRST_ROUNDS = 2  # before the strength is chosen
FEW_ITEMS, FEW_ROUNDS = 5_000, 6  # of EM with one T for all, which tells the two starts apart ...
MORE_ITEMS, MORE_ROUNDS = 50_000, 40  # ... and where that does not tell
MANY = 1 << 21  # answers x classes, from which float32 is used ...
LONGEST = 10_000  # ... where no sum has more terms than this


@dataclass
class Crowd:
    """Answers as a sparse matrix, items x (annotator, answer), with what is known of the items."""

    answers: Answers
    num_answers: int  # M
    num_classes: int  # K
    known: NDArray[np.int64]  # (n,) class, -1 where unknown
    prior_counts: FloatArray  # (K,)

    def __post_init__(self) -> None:
        from scipy.sparse import csr_array

        a = self.answers
        self.n, self.m = len(a.items), len(a.annotators)
        columns = a.annotator * self.num_answers + a.answer
        shape = (self.n, self.m * self.num_answers)
        longest = max(int(np.bincount(x).max()) for x in (a.item, columns))
        self.single = len(a) * self.num_classes >= MANY and longest <= LONGEST
        ones = np.ones(len(a), dtype=np.float32 if self.single else np.float64)
        self.by_item = csr_array((ones, (a.item, columns)), shape=shape)
        self.by_answer = self.by_item.T.tocsr()
        if self.single:  # rows of a table summed by index: four times as fast as the product in float64
            self.bags = [_bag(m) for m in (self.by_item, self.by_answer)]
        self.fixed = np.flatnonzero(self.known >= 0)
        self.degree = np.bincount(a.item, minlength=self.n)

    def counts(self, P: FloatArray) -> FloatArray:
        """C (m, M, K): how often each annotator gave each answer to each class, by the posteriors."""
        return self._product(1, P).reshape(self.m, self.num_answers, self.num_classes)

    def evidence(self, T: FloatArray) -> FloatArray:
        """``sum over the answers of log T_a[y, z]`` (n, K)."""
        return self._product(0, np.log(T).reshape(-1, self.num_classes))

    def _product(self, which: int, table: FloatArray) -> FloatArray:
        """Items x (annotator, answer), or its transpose, times a table."""
        if self.single:
            index, starts, weights = self.bags[which]
            rows = torch.as_tensor(table.astype(np.float32, copy=False))
            return embedding_bag(index, rows, starts, mode="sum", per_sample_weights=weights).numpy()
        return np.asarray((self.by_answer if which else self.by_item) @ table)

    def posterior(self, evidence: FloatArray, log_prior: FloatArray) -> tuple[FloatArray, float]:
        """P (n, K) and the log likelihood of all answers; `log_prior` is (K,) or one row for each item."""
        joint = evidence + log_prior
        value, P = normalised(joint)
        value[self.fixed] = joint[self.fixed, self.known[self.fixed]]
        P[self.fixed] = np.eye(self.num_classes)[self.known[self.fixed]]
        return P, float(value.sum(dtype=np.float64))

    def prior(self, P: FloatArray) -> FloatArray:
        """Shares of the classes (K,), with prior counts."""
        total = np.ones(len(P)) @ P + self.prior_counts
        out: FloatArray = total / total.sum()
        return out

    def given(self, items: NDArray[np.int64] | None = None) -> FloatArray:
        """How often each answer was given to each item, or to some items (n, M)."""
        item, answer = self.answers.item, self.answers.answer
        n = self.n
        if items is not None:
            place = np.full(self.n, -1)
            place[items] = np.arange(len(items))
            place = place[item]
            kept = np.flatnonzero(place >= 0)
            item, answer, n = place[kept], answer[kept], len(items)
        counts = np.bincount(item * self.num_answers + answer, minlength=n * self.num_answers)
        return counts.reshape(n, -1).astype(np.float64)

    def votes(self, given: FloatArray, known: NDArray[np.int64], sign: float) -> FloatArray:
        """A start (n, K): shares of the votes for each class, or with `sign` -1 of votes that are not for it."""
        V = np.zeros((len(given), self.num_classes))
        width = min(self.num_classes, self.num_answers)
        V[:, :width] = given[:, :width]
        V = V + 1.0 / self.num_classes if sign > 0 else np.exp(-2.0 * V)
        V /= V.sum(axis=1, keepdims=True)
        fixed = np.flatnonzero(known >= 0)
        V[fixed] = np.eye(self.num_classes)[known[fixed]]
        return V


def normalised(joint: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``log sum_z exp`` (n,) of log joint probabilities (n, K), and the posteriors (n, K)."""
    scores = torch.as_tensor(joint)
    top = scores.amax(1, keepdim=True)
    P = (scores - top).exp_()
    mass = P @ P.new_ones(P.shape[1], 1)  # of few classes, a product is the fastest sum, and this than softmax
    P /= mass
    return (mass.log_() + top)[:, 0].numpy(), P.numpy()


def _bag(matrix: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Column indices, where each row starts, and weights where some answer was given twice."""
    index, starts = torch.as_tensor(matrix.indices), torch.as_tensor(matrix.indptr[:-1])
    return index, starts, None if matrix.data.max() == 1 else torch.as_tensor(matrix.data.astype(np.float32))


@dataclass
class Fit:
    """Where EM stands."""

    P: FloatArray  # (n, K) posteriors
    counts: FloatArray  # (m, M, K)
    prior: FloatArray  # (K,)
    strength: float
    evidence: FloatArray  # (n, K), by T
    log_likelihood: float = -np.inf
    rounds: int = 0

    @property
    def pooled(self) -> FloatArray:
        """T (M, K) of all annotators together."""
        total = torch.as_tensor(self.counts).sum(0).double().numpy() + EVEN / self.counts.shape[1]
        out: FloatArray = total / total.sum(axis=0)
        return out

    @property
    def concentration(self) -> FloatArray:
        """(m, M, K): Dirichlet parameters of the columns of each T."""
        return self.counts + (self.strength * self.pooled + EVEN / self.counts.shape[1]).astype(self.counts.dtype)

    @property
    def T(self) -> FloatArray:
        """(m, M, K)."""
        out = torch.as_tensor(self.concentration)
        out /= out.sum(1, keepdim=True)
        return out.numpy()


def first(crowd: Crowd, P: FloatArray, strength: float) -> Fit:
    """From posteriors to a fit."""
    fit = Fit(P, crowd.counts(P), crowd.prior(P), strength, np.empty(0))
    fit.evidence = crowd.evidence(fit.T)
    return fit


def advance(crowd: Crowd, fit: Fit, rounds: int = MOST_ROUNDS, log_prior: FloatArray | None = None) -> Fit:
    """EM from `fit`, until the log likelihood gains less than the tolerance."""
    for _ in range(rounds):
        logs = np.log(fit.prior) if log_prior is None else log_prior
        P, value = crowd.posterior(fit.evidence, logs.astype(fit.evidence.dtype))
        gain = value - fit.log_likelihood
        fit.P, fit.log_likelihood = P, value
        fit.counts, fit.prior = crowd.counts(P), crowd.prior(P)
        fit.evidence = crowd.evidence(fit.T)
        fit.rounds += 1
        if abs(gain) < TOLERANCE * len(crowd.answers):  # shrunk, the likelihood need not rise
            break
    return fit


def run(crowd: Crowd, sign: float, rng: np.random.Generator) -> Fit:
    """Start from the votes, choose the strength, and go on to the end.

    Votes of a handful of annotators cannot tell these apart, each being a large part of every vote: strong shrinkage
    would win by mistake. There EM goes to its end first, all but unshrunk, and once more from the votes with the
    strength that was chosen: what it learned of each annotator without it is not to stay.
    """
    handful = crowd.m < A_HANDFUL
    start = crowd.votes(crowd.given(), crowd.known, sign)
    fit = advance(crowd, first(crowd, start, STRENGTHS[0]), MOST_ROUNDS if handful else FIRST_ROUNDS)
    strength = choose_strength(crowd, fit, rng)
    if handful:
        return fit if strength == STRENGTHS[0] else advance(crowd, first(crowd, start, strength))
    fit.strength = strength
    fit.evidence, fit.log_likelihood = crowd.evidence(fit.T), -np.inf
    return advance(crowd, fit)


def name_classes(crowd: Crowd, fit: Fit) -> bool:
    """Give the classes the names that agree with the most answers; the likelihood is the same for all names.

    Returns whether names were exchanged. Classes of known items have their names.
    """
    from scipy.optimize import linear_sum_assignment

    K = crowd.num_classes
    if len(crowd.fixed) or crowd.num_answers < K:
        return False
    agree = fit.counts.sum(axis=0, dtype=np.float64)[:K]  # (answer, class)
    _, order = linear_sum_assignment(-agree)
    if np.trace(agree[:, order]) <= np.trace(agree) * (1 + 1e-3):
        return False
    fit.P, fit.counts, fit.evidence = fit.P[:, order], fit.counts[:, :, order], fit.evidence[:, order]
    fit.prior = fit.prior[order]
    return True


def choose_strength(crowd: Crowd, fit: Fit, rng: np.random.Generator) -> float:
    """The least shrinkage whose held-out likelihood is within one standard error of the best.

    Every answer (of a sample) is left out in turn, from its annotator's counts and from its item's posterior, and
    predicted from the rest: ``log sum_z P^-[i, z] T_a^-[y, z]``. Standard errors are those of sums over items.
    """
    a = crowd.answers
    some = np.arange(len(a)) if len(a) <= ALL else np.sort(rng.choice(len(a), SAMPLE, replace=False))
    i, who, y = a.item[some], a.annotator[some], a.answer[some]
    own, m, u = fit.P[i], fit.pooled.astype(fit.P.dtype)[y], EVEN / crowd.num_answers
    given, total = fit.counts[who, y], torch.as_tensor(fit.counts).sum(1).numpy()[who]
    rest = own * (total + fit.strength + EVEN) / (given + fit.strength * m + u)  # the posterior over T_a[y, z]
    rest /= rest.sum(axis=1, keepdims=True)
    given, total = np.maximum(given - own, 0.0), np.maximum(total - own, 0.0)
    values = np.stack(
        [np.log((rest * (given + s * m + u) / (total + s + EVEN)).sum(axis=1)) for s in STRENGTHS]
    )  # (grid, answers)
    best = int(values.mean(axis=1).argmax())
    for g in range(best):
        behind = np.bincount(i, weights=values[best] - values[g])
        if behind.sum() <= np.sqrt((behind**2).sum()):
            return STRENGTHS[g]
    return STRENGTHS[best]


def choose_start(crowd: Crowd, rng: np.random.Generator) -> float:
    """+1: start from the votes; -1: from votes turned around, for answers that say what the class is not.

    Two runs of EM with one T for all annotators that differ in their start alone; the turned one must fit better, by
    more than three standard errors. Few rounds on some items often tell; later both may reach the same likelihood, as
    it does not see names of classes exchanged. Where they do not tell, more rounds on more items may; else votes count.
    """
    if crowd.num_classes == 2:  # "not this one" is "the other one"
        return 1.0
    for items, rounds, clear in ((FEW_ITEMS, FEW_ROUNDS, -5.0), (MORE_ITEMS, MORE_ROUNDS, 0.0)):
        gain = _turned_gain(crowd, items, rounds, rng)
        error = np.sqrt((gain**2).sum())
        if gain.sum() > 3.0 * error and gain.sum() > 1.0:
            return -1.0
        if gain.sum() < clear * error:
            break
    return 1.0


def _turned_gain(crowd: Crowd, items: int, rounds: int, rng: np.random.Generator) -> FloatArray:
    """Log likelihood of each item (of a sample) after EM from the turned votes, minus that from the votes."""
    chosen = np.arange(crowd.n) if crowd.n <= items else np.sort(rng.choice(crowd.n, items, replace=False))
    given = crowd.given(chosen)
    fixed = np.flatnonzero(crowd.known[chosen] >= 0)
    known = crowd.known[chosen][fixed]
    value: dict[float, FloatArray] = {}
    for sign in (1.0, -1.0):
        P = crowd.votes(given, crowd.known[chosen], sign)
        for _ in range(rounds):
            pooled = given.T @ P + EVEN / crowd.num_answers
            joint = given @ np.log(pooled / pooled.sum(axis=0)) + np.log(crowd.prior(P))
            value[sign], P = normalised(joint)
            P[fixed] = np.eye(crowd.num_classes)[known]
        value[sign][fixed] = joint[fixed, known]
    return value[-1.0] - value[1.0]
