"""What the answers leave open of all T together: draws of the classes and, given them, the T of every annotator.

EM ends at the likeliest T. With few answers per annotator there are thousands of numbers in them, and the likeliest are
not the typical ones (Neyman and Scott, 1948): the posteriors of the classes are too sure, and all T err alike. So from
where EM ended a Gibbs sampler goes on (Tanner and Wong, 1987), in turn

    classes     z_i      from their posterior given every T,
    crowd       m        sum of v_a C_a, columns normalised, v_a ~ Exp(1): the Bayesian bootstrap (Rubin, 1981),
    types       j_a      from what each says of annotator a's counts C_a given the classes, T integrated out,
    T           T_a[:, z] ~ Dirichlet(C_a[:, z] + s_j m_j[:, z] + a tenth of an answer, spread evenly),

with m_j the crowd's T raised to the power q_j, columns normalised: 0 guesses, 1 is like the crowd, above 1 is better
than it, below 0 misleads. Someone good at one class mostly is at the others, which the columns of a Dirichlet prior
alone would not know; s_j says how closely an annotator follows the type, and the crowd how common each type is (as the
communities of Venanzi and others, 2014). Given its classes a sweep leaves a Dirichlet of every column: the mixture of
those of some sweeps is kept, in which one number picks the sweep for all annotators. Sweeps remember those before them
(the fewer annotators, the longer), so that some lie between those that are kept.

References: Rubin (1981), The Bayesian bootstrap; Tanner and Wong (1987), The calculation of posterior distributions by
data augmentation; Stephens (2000), Dealing with label switching in mixture models; Venanzi, Guiver, Kazai, Kohli and
Shokouhi (2014), Community-based Bayesian aggregation models for crowdsourcing.
"""

from __future__ import annotations

import numpy as np

from .._core import FloatArray, drawn_classes
from .dawid_skene import Crowd, Fit, normalised

POWERS = np.array([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0])
STRENGTHS = np.array([3.0, 20.0, 150.0])  # in answers for each class
EVEN = 0.1  # of an answer: no answer is impossible
FIRST, BETWEEN = 50, (6, 20)  # sweeps before the first that is kept, and from one to the next ...
QUICK = 600_000  # ... answers x classes of these at most, but for the six
KEPT, ENTRIES = (8, 50), 1 << 22  # how many are kept, as memory allows
WORK = 3e8  # answers x classes of all sweeps, about, beyond which there are fewer
LEAST = 1e-30  # of T


def by_sweep(crowd: Crowd, fit: Fit, log_prior: FloatArray | None, seed: int) -> FloatArray:
    """Dirichlet parameters (C, m, M, K) of the columns of every T, by sweep.

    `log_prior` (n, K) is that of each item where features give it; else the shares of the classes are drawn, too.
    """
    rng, K = np.random.default_rng(seed), crowd.num_classes
    kept = int(np.clip(ENTRIES // fit.counts.size, *KEPT))
    size = len(crowd.answers) * K
    between = int(np.clip(QUICK // size, *BETWEEN))
    share = min(1.0, WORK / (size * (FIRST + between * kept)))
    first, between = max(int(FIRST * share), 10), max(int(between * share), 1)
    types, T, out = Types(crowd), fit.T.astype(np.float64), []
    logs = np.log(fit.prior) if log_prior is None else log_prior
    for sweep in range(first + between * kept):
        one = _classes(crowd, crowd.evidence(T) + logs, rng)
        if log_prior is None and not len(crowd.fixed):
            one = _named_alike(one, fit.P)
        counts = crowd.counts(one).astype(np.float64)
        keep = sweep >= first and (sweep - first) % between == 0
        if sweep < first or keep:
            before = types.draw(counts, rng)
        parameters = counts + before
        if keep:
            out.append(parameters)
        T = rng.standard_gamma(parameters)
        T = np.maximum(T / T.sum(axis=1, keepdims=True), LEAST)
        if log_prior is None:
            logs = np.log(rng.dirichlet(one.sum(axis=0, dtype=np.float64) + crowd.prior_counts))
    return np.array(out)


def _classes(crowd: Crowd, joint: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A class for every item from its posterior, as one-hot rows (n, K); known ones stay."""
    P = normalised(joint.astype(crowd.dtype))[1]
    z = drawn_classes(P, rng)
    z[crowd.fixed] = crowd.known[crowd.fixed]
    one = np.zeros(P.shape, dtype=crowd.dtype)
    one[np.arange(crowd.n), z] = 1.0
    return one


def _named_alike(one: FloatArray, P: FloatArray) -> FloatArray:
    """The drawn classes under the names by which they agree most with EM's posteriors P (n, K).

    Other names are as likely, and where few answers tell the classes a chain exchanges them (Stephens, 2000).
    """
    from scipy.optimize import linear_sum_assignment

    agree = P.T @ one
    return one[:, linear_sum_assignment(-agree)[1]] if (agree.argmax(axis=1) != np.arange(len(agree))).any() else one


class Types:
    """How common each type of annotator is, and which one everybody has."""

    def __init__(self, crowd: Crowd) -> None:
        self.size = len(POWERS) * len(STRENGTHS)
        self.shares = np.full(self.size, 1.0 / self.size)
        self.m, self.M, self.K = crowd.m, crowd.num_answers, crowd.num_classes

    def draw(self, counts: FloatArray, rng: np.random.Generator) -> FloatArray:
        """What each annotator's Dirichlet parameters are before their own counts (m, M, K)."""
        A = self._parameters(np.tensordot(rng.standard_exponential(self.m), counts, 1))
        logs = self._evidence(counts, A) + np.log(self.shares)
        P = normalised(logs)[1]
        chosen = drawn_classes(P, rng)
        seen = np.bincount(chosen, minlength=self.size)
        self.shares = np.maximum(rng.dirichlet(seen + 1.0 / self.size), LEAST)
        return A[chosen]

    def _parameters(self, total: FloatArray) -> FloatArray:
        """(types, M, K) for counts (M, K) of all annotators together."""
        logs = np.log(total + EVEN) * POWERS[:, None, None]
        powers = np.exp(logs - logs.max(axis=1, keepdims=True))
        powers /= powers.sum(axis=1, keepdims=True)
        return (powers[:, None] * STRENGTHS[:, None, None]).reshape(self.size, self.M, self.K) + EVEN / self.M

    def _evidence(self, counts: FloatArray, A: FloatArray) -> FloatArray:
        """log p(counts of annotator a | type), T integrated out (m, types): only answers that were given matter.

        Few different (answer, class, how often) turn up, and columns of all powers sum to the strength.
        """
        from scipy.sparse import csr_array
        from scipy.special import gammaln

        who, y, z = np.nonzero(counts)
        kinds, place = np.unique((counts[who, y, z] * self.M + y) * self.K + z, return_inverse=True)
        often, cell = np.divmod(kinds, self.M * self.K)
        a = A.reshape(self.size, -1)[:, cell.astype(np.int64)].T  # (kinds, types)
        starts = np.searchsorted(who, np.arange(self.m + 1))
        given = csr_array((np.ones(len(who)), place, starts), shape=(self.m, len(kinds)))
        totals, n = STRENGTHS + EVEN, counts.sum(axis=1)[..., None]
        beyond = (gammaln(n + totals) - gammaln(totals)).sum(axis=1)  # (m, strengths)
        each = given @ (gammaln(often[:, None] + a) - gammaln(a))
        return np.asarray(each - np.tile(beyond, len(POWERS)))
