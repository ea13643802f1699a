"""T from weak labels and features: joint maximum likelihood of T and a classifier, with p from held-out folds.

The weak label of an example has the probability ``sum_z T[y, z] p_z(x)``. Both T and p are unknown; EM alternates
between them, with ``gamma_z proportional to T[y, z] p_z(x)`` the share of class z in an example. T is updated with
*cross-fitted* p: that of a row comes from a model that has not seen the row, because an overfitted model explains the
noise away and T would come out too clean (Chernozhukov et al., 2018, for cross-fitting). Given p the likelihood is
concave in T. Rows with a known class have a known gamma. At the end p is recalibrated together with T, and T's
uncertainty is that of both (`recalibration`).

EM starts from several T that fix which class is which: diagonally dominant ones (labels mostly right), one with a weak
diagonal (labels that say what the class is not), and that of the clean rows. For flexible models, which could explain
any label, T pays ``lambda log det(T^T T)/2``: among all T that explain the labels the one of least volume is asked for
(Li, Liu, Han, Niu and Sugiyama, 2021).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtri

from .._core import FloatArray, fold_numbers, warn
from ..errors import InputError
from ..transitions import EstimatedTransition, Shrunk, shrink
from .folds import FOLDS, EstimatorFolds, LinearFolds
from .likelihood import NEVER, Evidence, effective_rows, update
from .recalibration import Recalibration
from .softmax import Design, softmax
from .warnings import IdentifiabilityWarning

ANTI = 0.2  # diagonal of the complementary start, beside an even share
ROUNDS = 8
SETTLED = 5e-3  # mean column L1 between rounds ...
GAIN = 1.0  # ... or gain of log likelihood in a round, below which T is taken as settled
SURE = 0.8  # mean probability of the most probable class from which p is taken to say much ...
OPEN = 0.7  # ... and up to which so little that T's variance is twice what it were if p were known
TIE = 3.0  # log likelihood within which two T are equally good
APART = 0.3  # mean column L1 from which two T are different
NEARLY_NONE = 1.92  # rows that a label must be worth in a class for 0 to be excluded: likelihood ratio 3.84, p = .05
CURVED = 0.001  # level of the test of the form by squares of p's logarithm, which rows far out make speak too often
BENT = 0.01  # level of that by the features, for linear models ...
MATERIAL = 0.005  # ... and the share of the labels' variance from which a misfit matters: none is perfect on real rows
LEAST_COUNT, ROWS_EACH, MOST_AXES = 20, 10, 8  # of a label, and for each correlation, in the test of form; axes in it
MOSTLY = 0.5  # of the rows' worth were p known, below which T's doubt is mostly that of p
STANDS_OUT, LEADS = 0.1, 0.3  # mean leads of a class's own label: some, and so large that it cannot be chance
TRADED, MOST_TRADED, TRADED_DRAWS = 16, 0.9, 1000  # places on either side, the farthest, and draws of T
IMPOSSIBLE = 8.0  # log likelihood below the best from which no farther place is looked at
EITHER_WAY = (
    "these data do not determine T: no label leads clearly in its class, so that labels may say what the class is, or "
    "what it is not; T's draws have both; add clean rows, or pass structure='complementary' if labels say what "
    "the class is not"
)
GIVEN_P = "the range covers chance in the labels, not the classifier's own error"
TOGETHER = "the range covers chance, not a classifier that fits badly"


@dataclass
class Solution:
    """Where EM stands."""

    T: FloatArray
    heat: float
    value: float  # log likelihood of held-out rows
    folds: Any
    P: FloatArray | None = None  # (K, n), cross-fitted
    informed: bool = True  # whether features say anything about the labels
    classifier: tuple[FloatArray, FloatArray] | None = None  # information on p's own numbers, where T was refined
    bent: tuple[float, int] = (0.0, 0)  # what squares of its scores add to the log likelihood, and their free numbers

    def shrunk(self, evidence: Evidence, structure: str, share: float = 1.0) -> tuple[Shrunk, FloatArray]:
        """The posterior of T given p, and what the rows of unknown class are worth, or a share of it."""
        assert self.P is not None
        worth = share * effective_rows(evidence, self.T, self.P, self.classifier)
        if not self.informed:
            worth = np.minimum(worth, 1.0)
        counts = self.T * worth
        counts[self.T < 2 * NEVER] = 0.0
        seen = worth + evidence.fair.sum(axis=0) >= evidence.M
        return shrink(evidence.fair + counts, structure, seen), worth

    def refined(self, evidence: Evidence, structure: str) -> Solution:
        """The same with p recalibrated together with T, and p's own error beside T's."""
        assert self.P is not None
        if not len(evidence._order):
            return self
        worth = float(effective_rows(evidence, self.T, self.P).sum() + evidence.clean.sum())
        p = Recalibration(self.P, worth)
        T, P = p.fit(evidence, self.T, structure)
        straight = Recalibration(self.P, worth, curved=False).fit(evidence, self.T, structure)
        gain = evidence.log_likelihood(T, P) - evidence.log_likelihood(*straight)
        return replace(self, T=T, P=P, classifier=p.information(evidence, T), bent=(gain, p.curves))

    @property
    def unsure(self) -> bool:
        """Whether p says little about the classes, so that T's noise and p's feed each other."""
        return self.certainty < SURE

    @property
    def certainty(self) -> float:
        """Mean probability of the most probable class; 1 as long as there is no p."""
        return 1.0 if self.P is None else float(self.P.max(axis=0).mean())

    @property
    def temper(self) -> float:
        """By how much p's own error makes T's variance larger: from 1 where p is sure to 2 where it says little."""
        return 1.0 + min(max((SURE - self.certainty) / (SURE - OPEN), 0.0), 1.0)

    def renamed(self, order: np.ndarray) -> Solution:
        """The same with the classes renamed: class k is what was class order[k]."""
        assert self.P is not None
        self.folds.rename(order)
        return Solution(self.T[:, order], self.heat, self.value, self.folds, self.P[order], self.informed)


def starts(evidence: Evidence, structure: str) -> list[FloatArray]:
    """T to start from, each of which says which class is which."""
    M, K = evidence.M, evidence.K
    out = []
    if evidence.clean.any():
        out.append(_mean(shrink(evidence.fair, structure)))
    if M >= K:
        for d in (ANTI / M,) if structure == "complementary" else (0.6, 0.85, ANTI / M):
            T = np.full((M, K), (1 - d) / max(M - 1, 1))
            T[np.arange(K), np.arange(K)] = d
            out.append(T / T.sum(axis=0))
    return out


def explore(evidence: Evidence, folds: Any, T: FloatArray, structure: str) -> Solution:
    """A short look at what a start leads to: one model, and T from the rows that it has not seen."""
    V = folds.explore(T)
    held = folds.fold == 0
    part = Evidence(evidence.weak[held], evidence.true[held], evidence.M, evidence.K)
    T, heat = update(part, T, V, 1.0, folds.volume * held.sum(), structure)
    return Solution(T, heat, part.log_likelihood(T, softmax(heat * V)), folds)


def converge(evidence: Evidence, now: Solution, structure: str) -> Solution:
    """Rounds of p given T and T given p, until T has settled."""
    last = -np.inf
    for _ in range(ROUNDS):
        # where p says little, T is shrunk between rounds too; otherwise its noise would become that of the next p
        T = _mean(now.shrunk(evidence, structure)[0]) if now.unsure else now.T
        V = now.folds.scores(T)
        T, heat = update(evidence, T, V, now.heat, now.folds.volume * V.shape[1], structure)
        P = softmax(heat * V)
        new = Solution(T, heat, evidence.log_likelihood(T, P), now.folds, P)
        settled = l1(new.T, now.T) < SETTLED or new.value < last + GAIN
        now, last = new, new.value
        if settled:
            break
    return now


def even(evidence: Evidence, now: Solution, structure: str) -> Solution:
    """The same with one number for all of T: label z has the same share in every class z, the others share the rest."""
    now = Solution(_even(now.T, np.full(evidence.K, 1.0 / evidence.K), structure), 1.0, -np.inf, now.folds.fresh())
    for _ in range(ROUNDS):
        V = now.folds.scores(now.T)
        T, heat = update(evidence, now.T, V, now.heat, 0.0, structure)
        P = softmax(heat * V)
        T = _even(T, P.mean(axis=1), structure)
        new = Solution(T, heat, evidence.log_likelihood(T, P), now.folds, P)
        settled = new.value < now.value + GAIN
        now = new
        if settled:
            break
    return now


def _even(T: FloatArray, shares: FloatArray, structure: str) -> FloatArray:
    M, K = T.shape
    d = NEVER if structure == "complementary" else float(shares @ T.diagonal())
    out = np.full((M, K), (1 - d) / (M - 1))
    np.fill_diagonal(out, d)
    return out


def _mean(posterior: Shrunk) -> FloatArray:
    return EstimatedTransition.from_dirichlet(posterior.concentration).matrix()


def joint(evidence: Evidence, folds: Any, structure: str) -> EstimatedTransition:
    """T, its uncertainty and a classifier."""
    first = starts(evidence, structure)
    if not first:
        raise InputError(
            f"true: expected clean rows where there are fewer weak labels ({evidence.M}) than classes ({evidence.K}): "
            "features alone cannot say which class is which, got none"
        )
    tried = sorted((explore(evidence, folds.fresh(), T, structure) for T in first), key=lambda s: -s.value)
    best = converge(evidence, tried[0], structure)
    doubts, named = [], bool(evidence.clean.any())  # clean rows say which class is which
    for other in tried[1:]:
        # a start that leads elsewhere is followed only where it can still matter
        if apart(other.T, tried[0].T, named) > APART and other.value > tried[0].value - 10 * TIE:
            rival = converge(evidence, other, structure)
            best, rival = (rival, best) if rival.value > best.value else (best, rival)
            away = apart(rival.T, best.T, named)
            if rival.value > best.value - TIE and away > APART:
                doubts.append(
                    f"these data do not determine T: another T, {away:.2f} away (mean L1 of a column), explains the "
                    f"labels as well (log likelihood {rival.value:.1f} and {best.value:.1f})"
                )
    naming: list[str] = []
    mirror: np.ndarray | None = None
    if not named:
        order, sentence, either = names(best.T, structure, best.unsure)
        best, naming = best.renamed(order), [sentence]
        if either is not None:
            mirror = np.argsort(order)[either]
            doubts.append(EITHER_WAY)
    free, whole = 0.5 * (evidence.M - 1) * evidence.K, True
    more = (evidence.M - 1) * evidence.K - 1
    # two labels of two classes have one other number: left out it saves nothing, kept its doubt is in the intervals
    refined = best.refined(evidence, structure)
    others: list[Solution] = []
    unsure = best.unsure or refined.unsure  # a model that is too sure of itself is not, once it is recalibrated
    if unsure and evidence.M >= evidence.K and more > 1 and structure not in ("free", "pooled") and not named:
        plain = even(evidence, best, structure)
        if plain.value > best.value - more:  # each of T's other numbers is worth less than one (Akaike, 1974)
            doubts.append(
                f"these data determine one rate of T alone: its {more} other numbers raise the log likelihood by "
                f"no more than {max(best.value - plain.value, 0.0):.1f}, so half of T's draws spread them evenly; "
                "add clean rows"
            )
            others = [refined]
            if mirror is not None:  # one rate: that of the other order, with its own p, may explain the labels worse
                turned = even(evidence, replace(best, T=best.T[:, mirror]), structure)
                mirror = None
                if turned.value < plain.value - TIE:
                    doubts.remove(EITHER_WAY)
                else:
                    others.append(turned)
            best, free, whole = plain, 0.5, False
    gain = best.value - evidence.without_features()
    best.informed = gain > free + 2 * np.sqrt(free)
    if not best.informed:
        doubts.append(
            f"these data do not determine T: the features say hardly anything about the labels (they raise the log "
            f"likelihood by {gain:.1f}, and chance by up to {free + 2 * np.sqrt(free):.1f}); add clean rows"
        )
    if best.informed and whole:
        best = refined
    out = _estimated(evidence, best, structure, naming, doubts, named, others, mirror)
    out.classifier = best.folds.final(out.matrix())
    return out


def _estimated(
    evidence: Evidence,
    best: Solution,
    structure: str,
    naming: list[str],
    doubts: list[str],
    named: bool,
    others: list[Solution],
    mirror: np.ndarray | None,
) -> EstimatedTransition:
    """The posterior of T with its notes; what is in doubt is also warned of. Solutions that these data cannot tell from
    the best one have as many of its draws, and so has the order `mirror` of its classes where that may be theirs."""
    traded = None
    posterior, worth = best.shrunk(evidence, structure)
    if best.informed and best.unsure:
        every = [(one, one.shrunk(evidence, structure, 1 / one.temper)[0]) for one in (best, *others)]
        traded = np.concatenate([_traded(evidence, *one) for one in every])
    doubts = doubts + (_vague(evidence, worth) if best.informed else [])
    doubts += _bent(evidence, best)
    doubts += _left_open(evidence, best, worth) if not named and not doubts else []
    notes = [
        f"from {len(evidence.weak)} rows with features, {int(evidence.clean.sum())} of known class; the others are "
        f"worth {worth.sum():.0f} rows of known class",
        GIVEN_P if best.classifier is None else TOGETHER,
        *naming,
        *doubts,
        posterior.notes[0],
    ]
    if traded is None and mirror is not None:
        traded = EstimatedTransition.from_dirichlet(posterior.concentration).samples(TRADED_DRAWS, 0)
    if traded is not None:
        mean = traded.mean(axis=0)
        draws = traded if mirror is None else np.concatenate([traded, traded[:, :, mirror]])
        return _warned(EstimatedTransition(mean / mean.sum(axis=0), draws=draws, notes=notes), doubts)
    out = EstimatedTransition.from_dirichlet(posterior.concentration, notes=notes)
    if structure == "auto":
        counted = evidence.fair + best.T * worth
        out.counts = np.where(counted < NEARLY_NONE, 0.0, counted)
    return _warned(out, doubts)


def _warned(out: EstimatedTransition, doubts: list[str]) -> EstimatedTransition:
    for doubt in doubts:
        warn(f"estimate_transition: {doubt}", IdentifiabilityWarning)
    return out


def _traded(evidence: Evidence, best: Solution, posterior: Shrunk) -> FloatArray:
    """Draws of T (S, M, K) where noise and confidence of p can be traded for each other.

    With class shares pi, ``T_l = T + l (T pi 1^T - T)`` has the same label shares for every l, and a p that is surer by
    as much has nearly the same likelihood: what tells l is the shape of p alone. Each l has the likelihood of T_l with
    the recalibration of p that suits it best; beside it T varies as its posterior given p has it.
    """
    assert best.P is not None
    T = _mean(posterior)
    shares = best.P.mean(axis=1)
    towards = np.repeat((T @ shares)[:, None], T.shape[1], axis=1) - T
    falling = towards < 0
    with np.errstate(divide="ignore", invalid="ignore"):
        least = -float(np.where(~falling & (towards > 0), T / towards, np.inf).min())
        least = max(least, -float(np.where(falling, (1 - T) / -towards, np.inf).min()))
    step = np.linspace(0, 1, TRADED)
    up, down = MOST_TRADED * step, 0.999 * least * step[1:]
    worth = float(effective_rows(evidence, best.T, best.P).sum() + evidence.clean.sum())
    found = {}
    for side in (up, down):
        p = Recalibration(best.P, worth)
        lowest = np.inf
        for at in side:
            found[float(at)] = reached = p.at(evidence, T + at * towards)
            lowest = min(lowest, reached)
            if reached > lowest + IMPOSSIBLE:
                break
    at = np.array(sorted(found))
    values = np.array([found[a] for a in at])
    grid = np.linspace(at[0], at[-1], 2000)
    weight = np.exp((values.min() - np.interp(grid, at, values)) / best.temper)
    edges = np.cumsum(weight)
    chosen = grid[np.searchsorted(edges / edges[-1], (np.arange(TRADED_DRAWS) + 0.5) / TRADED_DRAWS)]
    rng = np.random.default_rng(0)
    own = EstimatedTransition.from_dirichlet(posterior.concentration).samples(TRADED_DRAWS, 0)
    out = np.maximum(own + rng.permutation(chosen)[:, None, None] * towards, 0.0)
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def l1(A: FloatArray, B: FloatArray) -> float:
    """Mean L1 distance of the columns."""
    return float(np.abs(A - B).sum(axis=0).mean())


def apart(A: FloatArray, B: FloatArray, named: bool) -> float:
    """The same; where no clean row says which class is which, for the names under which they are closest."""
    if named:
        return l1(A, B)
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    cost = cdist(A.T, B.T, "cityblock")
    return float(cost[linear_sum_assignment(cost)].mean())


def names(T: FloatArray, structure: str, unsure: bool = False) -> tuple[np.ndarray, str, np.ndarray | None]:
    """Which column is which class, for labels with the names of classes: the likelihood is the same for every order.

    Labels are taken to say what the class is where each class can be given a label of its own that leads the others.
    They are taken to say what it is not where none does, or where the lead is small and each class has one label, of
    its own, that it hardly ever gets, unlike all others. Where features leave the classes open (`unsure`), T is known
    too poorly for either: then no rare label is a sign, and where no label leads both orders are returned.
    """
    from scipy.optimize import linear_sum_assignment

    M, K = T.shape
    order = linear_sum_assignment(T[:K], maximize=True)[1]
    top, rest = _split(T[:, order])
    lead = float((top - rest.max(axis=0)).mean())
    anti = linear_sum_assignment(T[:K])[1]
    rare, rest = _split(T[:, anti])
    hole = not unsure and rest.min(axis=0).mean() > max(4 * rare.mean(), 0.3 / M)
    if structure == "complementary" or lead < STANDS_OUT or (hole and lead < LEADS):
        open_to_both = unsure and structure != "complementary" and not np.array_equal(order, anti)
        rarest = "classes are named so that label z is the rarest of class z (complementary labels)"
        return anti, rarest, order if open_to_both else None
    return order, "classes are named so that label z is the most frequent one of class z", None


def _split(T: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The diagonal (K,), and the other entries of each column (M - 1, K)."""
    M, K = T.shape
    return T.diagonal(), T.T[~np.eye(K, M, dtype=bool)].reshape(K, M - 1).T


def _vague(evidence: Evidence, worth: FloatArray) -> list[str]:
    """Classes whose column rests on less than one row of known class for each label."""
    total = worth + evidence.clean.sum(axis=0)
    vague = np.flatnonzero(total < evidence.M).tolist()
    if not vague:
        return []
    which = ("class " if len(vague) == 1 else "classes ") + ", ".join(map(str, vague))
    return [
        f"these data do not determine T for {which}: the features hardly say which rows belong there (worth "
        f"{', '.join(f'{total[z]:.1f}' for z in vague)} rows of known class); add clean rows"
    ]


def _bent(evidence: Evidence, best: Solution) -> list[str]:
    """A classifier whose form is not right: what squares do not mend of it is in no interval."""
    gain, numbers = best.bent
    chance = 0.5 * float(chdtri(numbers, CURVED)) if numbers else 0.0
    design = best.folds.design if isinstance(best.folds, LinearFolds) else None
    why = ""
    if gain > chance:
        why = (
            f"squares of its log probabilities raise the log likelihood by {gain:.1f}, and chance by up to {chance:.1f}"
        )
    elif design is not None and best.P is not None and best.informed:
        found = form_test(evidence, best.T, best.P, design.A[:, :-1])
        if found is not None and found[0] < BENT and found[1] > MATERIAL:
            why = f"labels go with squares and products of features as it cannot explain, p-value {found[0]:.1g}"
    if not why:
        return []
    return [
        f"the intervals of T may be too narrow: the classifier's form does not fit these features ({why}); pass a "
        "model that suits them, or add clean rows"
    ]


def form_test(evidence: Evidence, T: FloatArray, P: FloatArray, A: FloatArray) -> tuple[float, float] | None:
    """The p-value of "labels have the probabilities T p, whatever the features", a test of p's form, and the share
    of the labels' variance that it finds unexplained, beyond chance.

    Under it ``1[y_i = k] - (T p_i)_k`` has mean 0 given x_i, so that no function of the features is correlated with it:
    here squares and products of their leading axes, which a linear model has not been fitted to (Bierens, 1990). Axes
    are turned to normal scores, so that few rows far out do not decide. Hotelling's T^2 of all correlations together;
    None where rows are too few.
    """
    from scipy.special import fdtrc, ndtri
    from scipy.stats import rankdata

    rows = np.flatnonzero((evidence.weak >= 0) & (evidence.true < 0))
    n, weak = len(rows), evidence.weak[rows]
    kept = np.flatnonzero(np.bincount(weak, minlength=evidence.M) >= LEAST_COUNT)[1:]
    count = int((np.sqrt(1 + 8 * n / (ROWS_EACH * max(len(kept), 1))) - 1) / 2)
    order = np.argsort(-A.var(axis=0), kind="stable")[: min(count, MOST_AXES)]
    order = order[A.var(axis=0)[order] > 0]
    if len(order) < 2 or not len(kept):
        return None
    axes = A if A.shape[1] <= MOST_AXES else (A - A.mean(axis=0)) @ np.linalg.eigh(np.cov(A.T))[1][:, ::-1]
    Z = ndtri((rankdata(axes[rows][:, order], axis=0) - 0.5) / n)
    one, two = np.triu_indices(len(order))
    Q = Z[:, one] * Z[:, two]
    Q -= Q.mean(axis=0)
    residual = (weak[:, None] == kept) - (T @ P[:, rows]).T[:, kept]
    F = (residual[:, :, None] * Q[:, None, :]).reshape(n, -1)
    mean, m = F.mean(axis=0), F.shape[1]
    covariance = np.atleast_2d(np.cov(F.T))
    statistic = n * float(mean @ np.linalg.pinv(covariance, hermitian=True) @ mean)
    by_label = mean.reshape(len(kept), -1)
    explained = float(np.sum(by_label @ np.linalg.pinv(np.atleast_2d(np.cov(Q.T)), hermitian=True) * by_label))
    explained -= float(residual.var(axis=0).sum()) * Q.shape[1] / n
    share = explained / float((weak[:, None] == kept).var(axis=0).sum())
    return float(fdtrc(m, n - m, statistic * (n - m) / (m * (n - 1)))), share


def _left_open(evidence: Evidence, best: Solution, worth: FloatArray) -> list[str]:
    """Classes that the features leave open: T is then read off the shape of p, which nothing here can confirm."""
    assert best.P is not None
    if not best.unsure and worth.sum() > MOSTLY * effective_rows(evidence, best.T, best.P).sum():
        return []
    return [
        "T rests on the shape of the classifier's probabilities: features leave the classes open (the likeliest one "
        f"has probability {best.certainty:.2f} on average), and T's intervals hold only where that shape is right; "
        "add clean rows"
    ]


def from_features(
    evidence: Evidence, X: Any, model: Any, structure: str, rng: Any, groups: np.ndarray | None = None
) -> EstimatedTransition:
    """The joint estimate with the model asked for; folds keep groups whole."""
    fold = fold_numbers(len(evidence.weak), FOLDS, rng, groups)
    linear = isinstance(model, str)
    folds = LinearFolds(Design(X), evidence, fold) if linear else EstimatorFolds(model, X, evidence, fold)
    return joint(evidence, folds, structure)
