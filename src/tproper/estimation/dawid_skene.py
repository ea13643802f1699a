"""Dawid-Skene in log space: EM for the classes of items and the T of each annotator, from their answers alone.

    posterior of item i:  P[i, z]  proportional to  p_z prod over answers (a, y) to i of T_a[y, z]
    T of annotator a:     T_a[:, z] = mean of Dirichlet(C_a[:, z] + s m[:, z] + u / M),   C_a[y, z] = sum of P[i, z]

where m is the T of all annotators together, s the strength by which each of them is shrunk to it, and u half an answer
spread evenly. Items with a known class keep it. All passes are products of one sparse matrix, items x (annotator,
answer), with K columns: nothing of size answers x classes is kept. Many answers go through them in float32.

References: Dawid and Skene (1979), Maximum likelihood estimation of observer error-rates using the EM algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
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
UNLIKE, FEWEST_ANSWERS = 1.7, 5  # standard errors (p = .09), and answers, from which an annotator is unlike others
OWN_RATE = 10.0  # answers for each class by which such a one is shrunk to a rate of right answers of its own
ENOUGH = 400_000  # answers that unlike annotators are looked for in
LOOKS, MOST_APART, CHUNK = 3, 0.3, 1 << 24  # rounds, share of the annotators, entries at a time
A_HANDFUL = 10  # annotators, up to which EM ends before the strength is chosen
FIRST_ROUNDS = 2  # before the strength is chosen
FEW_ITEMS, FEW_ROUNDS = 5_000, 6  # of EM with one T for all, which tells the two starts apart ...
MORE_ITEMS, MORE_ROUNDS = 50_000, 40  # ... and where that does not tell
MANY = 1 << 21  # answers x classes, from which float32 is used ...
LONGEST = 10_000  # ... where no sum has more terms than this
FEW = 32  # answers per item, up to which they are compared with each other


@dataclass
class Crowd:
    """Answers as a sparse matrix, items x (annotator, answer), with what is known of the items."""

    answers: Answers
    num_answers: int  # M >= K: every class is an answer
    num_classes: int  # K
    known: NDArray[np.int64]  # (n,) class, -1 where unknown
    prior_counts: FloatArray  # (K,)
    abstains: NDArray[np.bool_] | None = None  # (m,) whose silence is an answer, the last one; by default nobody's

    def __post_init__(self) -> None:
        from scipy.sparse import csr_array

        a = self.answers
        self.n, self.m = len(a.items), len(a.annotators)
        self.degree = np.bincount(a.item, minlength=self.n)
        small = max(len(a), self.m * self.num_answers) < 1 << 31
        columns: NDArray[Any] = a.annotator.astype(np.int32 if small else np.int64)
        columns *= self.num_answers
        columns += a.answer.astype(columns.dtype, copy=False)
        starts = np.concatenate([[0], self.degree.cumsum()]).astype(columns.dtype)
        if (a.item[1:] < a.item[:-1]).any():
            columns = columns[_order(a.item, self.n)]
        ones = np.ones(len(a), dtype=np.float32)
        # An answer given twice stands there twice: summing both is faster than weighting one.
        self.by_item = csr_array((ones, columns, starts), shape=(self.n, self.m * self.num_answers))
        self.by_answer = self.by_item.T.tocsr()
        longest = max(int(self.degree.max()), int(np.diff(self.by_answer.indptr).max()))
        self.single = len(a) * self.num_classes >= MANY and longest <= LONGEST
        self.dtype = np.float32 if self.single else np.float64
        if self.single:  # rows of a table summed by index: four times as fast as the product in float64
            both = (self.by_item, self.by_answer)  # column indices, and where each row starts
            self.bags = [(torch.as_tensor(m.indices), torch.as_tensor(m.indptr[:-1])) for m in both]
        else:
            for m in (self.by_item, self.by_answer):
                m.data = m.data.astype(np.float64)  # `m.astype` would merge what stands there twice
        self.fixed = np.flatnonzero(self.known >= 0)
        seen = np.diff(self.by_answer.indptr).reshape(self.m, -1).sum(axis=0) > 0  # (M,)
        self.named = seen[: self.num_classes].copy()  # (K,) classes that some answer, or some known item, names
        self.named[self.known[self.fixed]] = True
        self.named |= ~self.named.any()
        self.silent = np.flatnonzero(np.zeros(self.m, dtype=bool) if self.abstains is None else self.abstains)
        self.heard = int((np.diff(self.by_answer.indptr[:: self.num_answers]) > 0).sum())  # annotators with an answer

    @cached_property
    def again(self) -> NDArray[np.int64]:
        """(n,) how many answers to each item repeat the same annotator's same answer."""
        items, starts = self.by_answer.indices, self.by_answer.indptr  # items of each answer in order
        same = np.concatenate([[False], items[1:] == items[:-1]])
        same[starts[starts < len(same)]] = False
        return np.bincount(items[same], minlength=self.n)

    @cached_property
    def contrary(self) -> int:
        """How many answers contradict an earlier one of the same annotator to the same item."""
        annotator = self.by_item.indices // self.num_answers
        item = np.repeat(np.arange(self.n, dtype=annotator.dtype), self.degree)
        most = int(self.degree.max())
        if most > FEW:
            pair = np.sort(item.astype(np.int64) * self.m + annotator)
            second = pair[1:] == pair[:-1]
        else:  # several times as fast as sorting
            second = np.zeros(len(item), dtype=bool)
            for lag in range(1, most):
                second[lag:] |= (annotator[lag:] == annotator[:-lag]) & (item[lag:] == item[:-lag])
        return int(second.sum()) - int(self.again.sum())

    def of(self, items: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The answers to some items: place of the item among them, and column (annotator, answer)."""
        degree = self.degree[items]
        place = np.repeat(np.arange(len(items)), degree)
        first = self.by_item.indptr[items] - (degree.cumsum() - degree)
        return place, self.by_item.indices[first[place] + np.arange(len(place))].astype(np.int64)

    def counts(self, P: FloatArray) -> FloatArray:
        """C (m, M, K): how often each annotator gave each answer to each class, by the posteriors."""
        out = self._product(1, P).reshape(self.m, self.num_answers, self.num_classes)
        if len(self.silent):  # silence is what is left
            spoken = out[self.silent].sum(axis=1)
            out[self.silent, -1] = np.maximum(torch.as_tensor(P).sum(0).double().numpy() - spoken, 0.0)
        return out

    def evidence(self, T: FloatArray) -> FloatArray:
        """``sum over the answers of log T_a[y, z]`` (n, K)."""
        logs = np.log(T)
        if not len(self.silent):
            return self._product(0, logs.reshape(-1, self.num_classes))
        silence = logs[self.silent, -1]  # of all of them, replaced where there is an answer
        logs[self.silent] -= silence[:, None]
        return self._product(0, logs.reshape(-1, self.num_classes)) + silence.sum(axis=0).astype(self.dtype)

    def _product(self, which: int, table: FloatArray) -> FloatArray:
        """Items x (annotator, answer), or its transpose, times a table."""
        if self.single:
            rows = torch.as_tensor(table.astype(np.float32, copy=False))
            index, starts = self.bags[which]
            return embedding_bag(index, rows, starts, mode="sum").numpy()
        return np.asarray((self.by_answer if which else self.by_item) @ table)

    def posterior(self, evidence: FloatArray, log_prior: FloatArray) -> tuple[FloatArray, float]:
        """P (n, K) and the log likelihood of all answers; `log_prior` is (K,) or one row for each item."""
        joint = evidence + log_prior
        own = joint[self.fixed, self.known[self.fixed]]
        value, P = normalised(joint)
        if len(self.fixed):
            value[self.fixed] = own
            P[self.fixed] = np.eye(self.num_classes)[self.known[self.fixed]]
        return P, float(value.sum(dtype=np.float64))

    def prior(self, P: FloatArray) -> FloatArray:
        """Shares of the classes (K,), with prior counts."""
        total = torch.as_tensor(P).sum(0).double().numpy() + self.prior_counts  # torch sums by pairs
        out: FloatArray = total / total.sum()
        return out

    def given(self, items: NDArray[np.int64] | None = None) -> FloatArray:
        """How often each answer was given to each item, or to some items (n, M)."""
        if items is None:
            n, item, answer = self.n, self.answers.item, self.answers.answer
        else:
            n, (item, column) = len(items), self.of(items)
            answer = column % self.num_answers
        counts = np.bincount(item * self.num_answers + answer, minlength=n * self.num_answers)
        return counts.reshape(n, -1).astype(self.dtype if items is None else np.float64)

    def votes(self, given: FloatArray, known: NDArray[np.int64], sign: float) -> FloatArray:
        """A start (n, K): shares of the votes for each class, or with `sign` -1 of votes that are not for it.

        A class that nobody names starts with nothing.
        """
        V = given[:, : self.num_classes]
        V = V + self.named / V.dtype.type(self.num_classes) if sign > 0 else np.exp(-2.0 * V)
        V /= sums(V)
        fixed = np.flatnonzero(known >= 0)
        V[fixed] = np.eye(self.num_classes)[known[fixed]]
        return V


def normalised(joint: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``log sum_z exp`` (n,) of log joint probabilities (n, K), and the posteriors (n, K), which take their place."""
    P = torch.as_tensor(joint)
    top = P.amax(1, keepdim=True)
    P.sub_(top).exp_()
    mass = torch.as_tensor(sums(P.numpy()))
    P /= mass  # for few classes faster than softmax
    return (mass.log_() + top)[:, 0].numpy(), P.numpy()


def sums(table: FloatArray) -> FloatArray:
    """Sums of the rows (n, 1): for few columns a product is the fastest sum."""
    return table @ np.ones((table.shape[1], 1), dtype=table.dtype)


def _order(key: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """``argsort(key, kind="stable")`` of keys below n, by counting."""
    from scipy.sparse import csr_array

    each = csr_array((np.ones(len(key), dtype=bool), key, np.arange(len(key) + 1)), shape=(len(key), n))
    return each.tocsc().indices


@dataclass
class Fit:
    """Where EM stands: posteriors, and what follows from them."""

    crowd: Crowd = field(repr=False)
    P: FloatArray  # (n, K) posteriors
    strength: float
    among: NDArray[np.bool_] | None = None  # (K,) classes that items can have while EM runs; all by default
    log_likelihood: float = -np.inf
    apart: NDArray[np.bool_] | None = None  # (m,) annotators unlike the others, who are not shrunk to them

    def __post_init__(self) -> None:
        self.take(self.P)

    def take(self, P: FloatArray) -> None:
        """Go on from other posteriors."""
        self.P, self.counts, self.prior = P, self.crowd.counts(P), self.crowd.prior(P)  # (m, M, K) and (K,)
        self._evidence: FloatArray | None = None

    def shrink(self, strength: float) -> None:
        """Take another strength."""
        self.strength, self.log_likelihood, self._evidence = strength, -np.inf, None

    def rename(self, order: NDArray[np.int64]) -> None:
        """Class z becomes what class `order[z]` was."""
        self._evidence = self.evidence[:, order]
        self.P, self.counts, self.prior = self.P[:, order], self.counts[:, :, order], self.prior[order]

    @property
    def evidence(self) -> FloatArray:
        """(n, K): ``sum over the answers of log T_a[y, z]``, computed when it is first asked for."""
        if self._evidence is None:
            self._evidence = self.crowd.evidence(self.T)
        return self._evidence

    def given_that_some_speak(self) -> float:
        """What is to be added to the log likelihood where items that nobody spoke of were left out."""
        return 0.0

    @property
    def total(self) -> FloatArray:
        """Counts (M, K) of all annotators together."""
        return torch.as_tensor(self.counts).sum(0).double().numpy()

    @property
    def strengths(self) -> FloatArray:
        """(m,): by which each annotator is shrunk to the others."""
        own = np.full(len(self.counts), self.strength)
        if self.apart is not None:
            own[self.apart] = min(self.strength, OWN_RATE)
        return own

    @property
    def pooled(self) -> FloatArray:
        """T (M, K) of all annotators together, but of those who are unlike the others."""
        total = self.total
        if self.apart is not None and not self.apart.all():
            total = total - torch.as_tensor(self.counts[self.apart]).sum(0).double().numpy()
        total = np.maximum(total, 0.0) + EVEN / self.counts.shape[1]
        out: FloatArray = total / total.sum(axis=0)
        return out

    @property
    def concentration(self) -> FloatArray:
        """(m, M, K): Dirichlet parameters of the columns of each T."""
        return self.counts + self.before

    @property
    def before(self) -> FloatArray:
        """(m, M, K): what the concentration is before an annotator's own answers are counted."""
        pooled, even = self.pooled, EVEN / self.counts.shape[1]
        if self.apart is None:
            one = (self.strength * pooled + even).astype(self.counts.dtype)
            return np.broadcast_to(one, self.counts.shape)
        m = np.repeat(pooled[None], len(self.counts), axis=0)
        m[self.apart] = self._own_rates(m[self.apart])
        return (self.strengths[:, None, None] * m + even).astype(self.counts.dtype)

    def _own_rates(self, m: FloatArray) -> FloatArray:
        """The T of all (a, M, K), with the rate of right answers of each annotator who is apart."""
        counts, diagonal = self.counts[self.apart].astype(np.float64), np.arange(self.crowd.num_classes)
        right = counts[:, diagonal, diagonal].sum(axis=1) + EVEN
        rate = (right / (counts.sum(axis=(1, 2)) + 2 * EVEN))[:, None]  # (a, 1)
        m = m * ((1 - rate) / np.maximum(1 - m[:, diagonal, diagonal], 1e-12))[:, None]
        m[:, diagonal, diagonal] = rate
        return m

    @property
    def T(self) -> FloatArray:
        """(m, M, K)."""
        out = torch.as_tensor(self.concentration)
        out /= out.sum(1, keepdim=True)
        return out.numpy()


def advance(fit: Fit, rounds: int = MOST_ROUNDS, log_prior: FloatArray | None = None) -> Fit:
    """EM from `fit`, until the log likelihood gains less than the tolerance."""
    for _ in range(rounds):
        logs = np.log(fit.prior) if log_prior is None else log_prior
        if fit.among is not None:
            logs = np.where(fit.among, logs, -np.inf)
        P, value = fit.crowd.posterior(fit.evidence, logs.astype(fit.evidence.dtype))
        value += fit.given_that_some_speak()
        gain = value - fit.log_likelihood
        fit.take(P)
        fit.log_likelihood = value
        if abs(gain) < TOLERANCE * len(fit.crowd.answers):  # shrunk, the likelihood need not rise
            break
    return fit


def from_votes(crowd: Crowd, sign: float, strength: float) -> Fit:
    """Where EM starts.

    A class that nobody names is left out until EM ends: nothing shows how its items would be answered, and EM would
    take any share of another class for it at the same likelihood.
    """
    start = crowd.votes(crowd.given(), crowd.known, sign)
    return Fit(crowd, start, strength, None if sign < 0 or crowd.named.all() else crowd.named)


def run(crowd: Crowd, sign: float, rng: np.random.Generator) -> Fit:
    """Start from the votes, choose the strength, and go on to the end.

    Votes of a handful of annotators cannot tell these apart, each being a large part of every vote: strong shrinkage
    would win by mistake. There EM goes to its end first, all but unshrunk, and once more from the votes with the
    strength that was chosen: what it learned of each annotator without it is not to stay.
    """
    handful = crowd.heard < A_HANDFUL
    fit = advance(from_votes(crowd, sign, STRENGTHS[0]), MOST_ROUNDS if handful else FIRST_ROUNDS)
    strength = choose_strength(crowd, fit, rng)
    if handful:
        return fit if strength == STRENGTHS[0] else with_unlike(advance(from_votes(crowd, sign, strength)))
    fit.shrink(strength)
    return with_unlike(advance(fit))


def with_unlike(fit: Fit) -> Fit:
    """EM once more where annotators are unlike the others: these rest on their own answers.

    One strength for all would make them like the others (of twenty, nineteen of whom are right with .85, one with .40
    was told .7). Beyond `ALL` answers that would take too long: there the sampler's types of annotators do it alone.
    """
    if fit.strength == STRENGTHS[0] or fit.crowd.heard < 3 or len(fit.crowd.answers) > ALL:
        return fit
    for _ in range(LOOKS):
        found = unlike(fit)
        if fit.apart is not None:
            found |= fit.apart
        if not found.any() or found.mean() > MOST_APART or (fit.apart is not None and (found == fit.apart).all()):
            break
        fit.apart = found
        fit.shrink(fit.strength)
        fit = advance(fit)
    return fit


def unlike(fit: Fit) -> NDArray[np.bool_]:
    """(m,) whose answers agree with those of others to the same items more, or less often than the T of all has it.

    An answer's agreement is the posterior of the class that it names, from the other answers to the item; its mean and
    variance under the T of all follow from that posterior, and those who follow the others vary by the strength.
    """
    crowd, m = fit.crowd, fit.crowd.m
    pooled: FloatArray = fit.pooled.astype(crowd.dtype)
    log_T = np.log(fit.T)
    log_prior: FloatArray = np.log(fit.prior).astype(crowd.dtype)
    off, variance, times = np.zeros(m), np.zeros(m), np.zeros(m)
    step = max(1, CHUNK // (crowd.num_answers * crowd.num_classes * max(int(crowd.degree.max()), 1)))
    items = np.flatnonzero(crowd.degree >= 2)
    share = ENOUGH / max(int(crowd.degree[items].sum()), 1)
    if share < 1:
        items = items[np.random.default_rng(0).random(len(items)) < share]
    K = crowd.num_classes
    evidence = fit.evidence
    for some in (items[i : i + step] for i in range(0, len(items), step)):
        place, column = crowd.of(some)
        who, answer = np.divmod(column, crowd.num_answers)
        rest = normalised(evidence[some[place]] - log_T[who, answer] + log_prior)[1]  # (N, K)
        named = rest
        if crowd.num_answers > K:
            named = np.zeros((len(who), crowd.num_answers), dtype=crowd.dtype)
            named[:, :K] = rest
        q = rest @ pooled.T  # (N, M): what the T of all gives
        q *= named
        mean = sums(q)[:, 0]
        off += np.bincount(who, named[np.arange(len(who)), answer] - mean, m)
        variance += np.bincount(who, np.einsum("ny,ny->n", q, named) - mean**2, m)
        times += np.bincount(who, minlength=m)
    spread = 1 + np.maximum(times / K - 1, 0) / (fit.strength + 1)
    far = np.abs(off) > UNLIKE * np.sqrt(variance * spread)
    return np.asarray(far & (times >= FEWEST_ANSWERS))


def name_classes(crowd: Crowd, fit: Fit) -> bool:
    """Give the classes the names that agree with the most answers; the likelihood is the same for all names.

    Returns whether names were exchanged. Classes of known items have their names.
    """
    agree = fit.total[: crowd.num_classes]  # (answer, class)
    order = _names(crowd, fit)
    if order is None or np.trace(agree[:, order]) <= np.trace(agree) * (1 + 1e-3):
        return False
    fit.rename(order)
    return True


def named_by_most(crowd: Crowd, fit: Fit) -> bool:
    """Whether most answers name the class after all, although the inverted votes explain them best.

    So they do where a few annotators answer by another code. The others then name every class more often than not,
    under some names for the classes, and err in all directions; who says what the class is *not* spares one.
    """
    order = _names(crowd, fit)
    if order is None:
        return False
    K = crowd.num_classes
    most = (np.diagonal(fit.T[:, :K, order], axis1=1, axis2=2) > 0.5).all(axis=1)  # (m,)
    named = torch.as_tensor(fit.counts[most]).sum(0).double().numpy()[:K]  # (answer, class), inverted
    own, right = np.trace(named), np.trace(named[:, order])
    spared = own < 0.5 * (named.sum() - own - right) / (K - 2)
    return bool(named.sum() > 0.5 * len(crowd.answers) and not spared)


def _names(crowd: Crowd, fit: Fit) -> NDArray[np.int64] | None:
    """The order of the classes in which most answers name them; None where they have their names."""
    from scipy.optimize import linear_sum_assignment

    if len(crowd.fixed) or crowd.num_answers < crowd.num_classes:
        return None
    return np.asarray(linear_sum_assignment(-fit.total[: crowd.num_classes])[1])


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
    rest /= sums(rest)
    given, total = np.maximum(given - own, 0.0), np.maximum(total - own, 0.0)
    values = np.stack(
        [np.log(sums(rest * (given + s * m + u) / (total + s + EVEN))[:, 0]) for s in STRENGTHS]
    )  # (grid, answers)
    best = int(values.mean(axis=1).argmax())
    for g in range(best):
        behind = np.bincount(i, weights=values[best] - values[g])
        if behind.sum() <= np.sqrt((behind**2).sum()):
            return STRENGTHS[g]
    return STRENGTHS[best]


def choose_start(crowd: Crowd, rng: np.random.Generator) -> float:
    """+1: start from the votes; -1: from the inverted votes, for answers that say what the class is not.

    Two runs of EM with one T for all annotators that differ in their start alone; the inverted one must fit better, by
    more than three standard errors. Few rounds on some items often tell; later both may reach the same likelihood, as
    it does not see names of classes exchanged. Where they do not tell, more rounds on more items may; else votes count.
    """
    if crowd.num_classes == 2 or not crowd.named.all():  # "not this one" is "the other one"; all are "not" something
        return 1.0
    for items, rounds, clear in ((FEW_ITEMS, FEW_ROUNDS, -5.0), (MORE_ITEMS, MORE_ROUNDS, 0.0)):
        gain = _inverted_gain(crowd, items, rounds, rng)
        error = np.sqrt((gain**2).sum())
        if gain.sum() > 3.0 * error and gain.sum() > 1.0:
            return -1.0
        if gain.sum() < clear * error:
            break
    return 1.0


def _inverted_gain(crowd: Crowd, items: int, rounds: int, rng: np.random.Generator) -> FloatArray:
    """Log likelihood of each item (of a sample) after EM from the inverted votes, minus that from the votes."""
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
            own = joint[fixed, known]
            value[sign], P = normalised(joint)
            P[fixed] = np.eye(crowd.num_classes)[known]
        value[sign][fixed] = own
    return value[-1.0] - value[1.0]
