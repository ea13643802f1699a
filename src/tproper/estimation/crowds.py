"""What the classes are and how good each annotator is, from their answers, known classes and features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core import FloatArray, check_room, checks, group_codes, warn
from ..errors import InputError
from ..metrics import A_CROWD, PairedTest
from ..transitions import AnnotatorTransition, EstimatedTransition, Transition, annotators
from .answers import Answers, as_answers, check_order, true_classes
from .arguments import Seed, feature_matrix, generator
from .dawid_skene import Crowd, Fit, choose_start, name_classes, named_by_most, run
from .dependence import MOST_RHO, SIGNIFICANT, Copies, copies, dependence, discounted
from .duplicates import candidates, confirmed, groups_of, merged, same_rows
from .gaps import Gap, in_words, meaning_of_gaps
from .gold import Tempering, smoothed_votes, tempering, without_own
from .identified import coinciding, one_class_each
from .information import concentration
from .mixed import SourcesEstimate, estimate_sources
from .posterior import by_sweep
from .rules import LARGEST, Rules, design_effect, run_rules, tempered
from .softmax import LinearSoftmax
from .versus import versus_vote
from .warnings import DependenceWarning, IdentifiabilityWarning
from .with_features import FOLDS, fit_with_features, taught

RANKING_DRAWS = 200
TELLING = 1.5  # design effect from which a warning says so
SHOWN = 12
UNKNOWN = 0.5  # width of an interval of usefulness from which on it is said to be unknown
UNSEEN = (
    "answers alone cannot show errors that sources make together: where a share of the items is hard for all of them, "
    "as many labels may be wrong, however sure they look; the true class of some items (true=) shows it"
)
SURE = 0.99  # probability that no posterior exceeds unless dependence was looked for, and not found
SHARED = 30  # items with two answers, from which it means something that none of them differ


@dataclass(frozen=True)
class Ranked:
    """One line of the ranking: how much an annotator's answers say about the class."""

    annotator: Any
    informativeness: float  # mutual information of answer and class, as a share of the entropy of the class
    interval: tuple[float, float]  # 95%
    accuracy: float | None  # probability that the answer is the class, where answers are classes
    answers: int


@dataclass
class AnnotatorEstimate:
    """What `estimate_annotators` returns: the classes of the items, and T of each annotator. Prints as a table.

    Attributes
    ----------
    posteriors : (n, K) array
        Class probabilities of the items, in the order of ``answers.items``.
    labels : (n,) array
        The likeliest class of each item, by name.
    prior : (K,) array
        Shares of the classes.
    transitions : list of EstimatedTransition
        One for each annotator; `transition` is `annotators` of them, to train with.
    versus_vote : PairedTest
        Whether these labels are better than those of the majority, from the answers alone.
    rho : float
        How much answers depend on each other given the class; 0 where they show no sign of it.
    missing : list
        What a gap was taken for, one for each annotator.
    notes : list of str
        What a reader should know.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng = np.random.default_rng(0)
    >>> z = rng.integers(2, size=300)
    >>> answers = np.where(rng.random((300, 3)) < [0.1, 0.1, 0.3], 1 - z[:, None], z[:, None])
    >>> found = tp.estimate_annotators(answers)
    >>> found.posteriors.shape, len(found.transitions)
    ((300, 2), 3)
    >>> [round(float(T.matrix()[0, 0]), 1) for T in found.transitions]
    [0.9, 0.9, 0.7]
    """

    posteriors: FloatArray  # (n, K), items in the order of `answers.items`
    prior: FloatArray  # (K,) shares of the classes
    answers: Answers
    strength: float  # of shrinkage to the T of all annotators together, in answers for each class
    rho: float  # how much answers depend on each other given the class; 0 where they show no sign of it
    copied: list[Copies]
    classifier: LinearSoftmax | None
    notes: list[str]
    _fit: Fit = field(repr=False)
    _log_prior: FloatArray | None = field(repr=False)
    _seed: int = field(repr=False)
    unidentified: str = ""  # why T does not tell the classes apart; empty where it does
    missing: list[Gap] = field(default_factory=list)  # what gaps were taken for, one for each annotator
    design_effect: float = 1.0  # by which the log odds of sources that abstain were divided, since they err together
    counted_as: NDArray[np.int64] | None = None  # (m,) for near-copies the annotator whose answers stand for theirs
    tempering: Tempering | None = None  # how items of known class changed the posteriors

    @property
    def classes(self) -> NDArray[Any]:
        """(K,) the classes, in the order of the columns of `posteriors`: names where answers are names."""
        K, named = self.posteriors.shape[1], self.answers.classes
        return named[:K] if self.answers.named and len(named) >= K else np.arange(K)

    @property
    def labels(self) -> NDArray[Any]:
        """(n,) the likeliest class of each item by name, in the order of `answers.items`."""
        return self.classes[self.posteriors.argmax(axis=1)]

    @cached_property
    def versus_vote(self) -> PairedTest:
        """Is this better than the majority here? Its accuracy less that of the majority, from the answers alone.

        By the posteriors that T's whole uncertainty leaves, over the items that have an answer (`versus`).
        """
        concentration = self.concentration if isinstance(self._fit, Rules) else None
        return versus_vote(self._fit, self.posteriors, concentration, self._of_evidence, self._seed)

    def _of_evidence(self, evidence: FloatArray, items: NDArray[np.int64]) -> FloatArray:
        """Posteriors of some items by other evidence than that of T itself."""
        given = self._log_prior
        log_prior = np.log(self._fit.prior) if given is None else given[items]
        if isinstance(self._fit, Rules):
            return tempered(evidence, log_prior, self.design_effect)
        return discounted(evidence, log_prior, self._fit.crowd.degree[items], self.rho)

    @cached_property
    def concentration(self) -> FloatArray:
        """(C, m, M, K): Dirichlet parameters of each T's columns, a mixture of C, when first asked for.

        By the posterior of a crowd (`posterior`). A few annotators are none, and answers that depend on each
        other would be taken for more than they are: these have the likelihood's `information` alone (C = 1).
        """
        fit, given = self._fit, self._log_prior
        if isinstance(fit, Rules) or fit.crowd.heard < A_CROWD or self.rho > 0:
            return concentration(fit.crowd, fit, self.posteriors, shares_known=given is not None)[None]
        return by_sweep(fit.crowd, fit, given, self._seed)

    @cached_property
    def transitions(self) -> list[EstimatedTransition]:
        """One T for each annotator, in the order of `answers.annotators`, when first asked for."""
        crowd = self._fit.crowd
        M = crowd.num_answers - bool(len(crowd.silent))  # answers but silence
        names = self.answers.classes.tolist() if self.answers.named and len(self.answers.classes) == M else None
        out = []
        for a, c in enumerate(self.concentration.swapaxes(0, 1)):  # (C, M, K), silence in the last row
            abstains = a in self._abstaining
            rows = c if abstains else c[:, :M]
            own = [*names, "no answer"] if names is not None and abstains else names
            out.append(EstimatedTransition.from_dirichlet(rows if len(rows) > 1 else rows[0], own))
        return out if self.counted_as is None else [out[a] for a in self.counted_as]

    @property
    def _abstaining(self) -> set[int]:
        """Annotators whose silence is an answer, the last row of their T."""
        return set(self._fit.crowd.silent.tolist())

    @cached_property
    def transition(self) -> AnnotatorTransition:
        """`tp.annotators` of the `transitions`: what to train with, on `answers.table()`.

        To score by answers, let them be among those that T is estimated from: then what T got wrong shows in them, and
        scores allow for it. T from a few dozen answers per annotator scores models slightly too high by other answers.
        """
        parts: list[Transition] = list(self.transitions)
        if self.counted_as is not None:  # a copy's answers say nothing beside those that stand for them
            for a in np.flatnonzero(self.counted_as != np.arange(len(parts))):
                T = parts[a].matrix()
                parts[a] = Transition(np.repeat(T.mean(axis=1, keepdims=True), T.shape[1], axis=1))
        whole = annotators(parts, self.rho)
        silence = [len(t.matrix()) - 1 if a in self._abstaining else -1 for a, t in enumerate(parts)]
        return AnnotatorTransition(whole.transitions, whole.rho, self.unidentified, silence)

    @cached_property
    def ranking(self) -> list[Ranked]:
        """The annotators from best to worst, by how much their answers say about the class."""
        counts = np.bincount(self.answers.annotator, minlength=len(self.transitions))
        names, rows = self.answers.annotators.tolist(), []
        for a, t in enumerate(self.transitions):
            low, high = np.quantile(_informativeness(t.samples(RANKING_DRAWS, a), self.prior), [0.025, 0.975])
            T = t.matrix()
            value = float(_informativeness(T[None], self.prior)[0])
            right = float(T.diagonal() @ self.prior) if T.shape[0] == T.shape[1] or a in self._abstaining else None
            if a in self._abstaining and right is not None:  # of its answers
                right /= float(T[:-1].sum(axis=0) @ self.prior)
            rows.append(
                Ranked(names[a], value, (min(float(low), value), max(float(high), value)), right, int(counts[a]))
            )
        return sorted(rows, key=lambda r: -r.informativeness)

    def __str__(self) -> str:
        return self.describe()

    def describe(self, classes: Sequence[Any] | None = None) -> str:
        """The table, with names for the classes where they have any (default: those of the answers)."""
        n, K = self.posteriors.shape
        head = f"{len(self.transitions)} annotators, {n} items, {len(self.answers)} answers, {K} classes"
        own = self.answers.classes.tolist() if len(self.answers.classes) == K else range(K)
        named = zip(own if classes is None else classes, self.prior.tolist(), strict=True)
        shares = [f"{name} {share:.3f}" for name, share in named]
        more = f", ... {K - SHOWN} more" if K > SHOWN else ""
        lines = [head, "-" * len(head), "shares of the classes  " + ", ".join(shares[:SHOWN]) + more]
        lines.append(
            f"{'annotator':<20}{'answers':>8}{'right':>8}{'useful':>8}  (95% interval): 1 tells the class, 0 nothing"
        )
        for r in self.ranking[:SHOWN]:
            right = "-" if r.accuracy is None else f"{r.accuracy:.3f}"
            lines.append(
                f"{str(r.annotator)[:19]:<20}{r.answers:>8}{right:>8}{r.informativeness:>8.3f}  {_shown(r.interval)}"
            )
        if len(self.ranking) > SHOWN:
            lines.append(f"... {len(self.ranking) - SHOWN} more")
        return "\n".join([*lines, *(f"note  {note}" for note in self.notes)])


def _shown(interval: tuple[float, float]) -> str:
    """An interval of usefulness, and in words where it leaves open nearly everything."""
    low, high = interval
    unknown = f": anything from {low:.2g} to {high:.2g} fits, so not known from these data"
    return f"({low:.3f} to {high:.3f})" + (unknown if high - low > UNKNOWN else "")


def _informativeness(T: FloatArray, prior: FloatArray) -> FloatArray:
    """I(y; z) / H(z) of each T (S, M, K)."""
    joint = T * prior
    marginal = joint.sum(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0, joint * np.log(T / marginal), 0.0)
    entropy = -float((prior[prior > 0] * np.log(prior[prior > 0])).sum())
    return terms.sum(axis=(1, 2)) / max(entropy, 1e-300)


@overload
def estimate_annotators(
    answers: Mapping[Any, Any],
    true: ArrayLike | Mapping[Any, Any] | None = None,
    X: Any = None,
    *,
    num_classes: int | None = None,
    random_state: Seed = None,
    prior_counts: ArrayLike = 1.0,
) -> SourcesEstimate: ...


@overload
def estimate_annotators(
    answers: Answers | ArrayLike,
    true: ArrayLike | Mapping[Any, Any] | None = None,
    X: Any = None,
    *,
    missing: Any = "auto",
    num_classes: int | None = None,
    random_state: Seed = None,
    prior_counts: ArrayLike = 1.0,
    start: str = "auto",
    groups: ArrayLike | None = None,
    progress: Callable[[float], None] | None = None,
) -> AnnotatorEstimate: ...


def estimate_annotators(
    answers: Answers | ArrayLike | Mapping[Any, Any],
    true: ArrayLike | Mapping[Any, Any] | None = None,
    X: Any = None,
    *,
    missing: Any = "auto",
    num_classes: int | None = None,
    random_state: Seed = None,
    prior_counts: ArrayLike = 1.0,
    start: str = "auto",
    groups: ArrayLike | None = None,
    progress: Callable[[float], None] | None = None,
) -> AnnotatorEstimate | SourcesEstimate:
    """The classes of items, and T of each annotator, from answers of unknown quality.

    Dawid and Skene's model by EM in log space, each annotator shrunk to the T of all of them; answers that depend on
    each other given the class count for less; with features the prior of an item is a classifier's cross-fitted p(x).
    Where sources abstain every T has the form of a rule (labelling function) instead. Intervals of T come from a
    sampler that goes on where EM ended, when they are asked for.

    Parameters
    ----------
    answers : (n, m) integers or names, or `tp.Answers(item, annotator, answer)`
        -1, None or an empty cell: no answer. Or sources of different kinds, {source: what it said}: a column of votes;
        ``(column, "not this")``; ``(masks (n, K), "one of these")``; `tp.SoftLabels`. The result is then a
        `SourcesEstimate`.
    true : (n,) classes, -1 where unknown, or {item: class}
        Items with a known class keep it.
    X : (n, d) array or sparse matrix, optional
        Features of the items. Rows in the order of `answers.items`, as those of `true` and `groups`.
    missing : "auto", "random" or "answer", or one of them for each annotator (a list, or {annotator: ...})
        What a gap means: nothing, as for a question that was not asked; or that the source abstained, an answer and a
        row of its T, as rules (labelling functions) do. "auto": in a long table a gap says nothing; in a wide one
        it is an answer for a source that leaves classes unnamed although it has answers enough to have named them
        (less likely than one in a thousand, at the other sources' shares, that any source had not). `.missing` says
        which, and why.
    num_classes : int, optional
        Default: as many as there are different answers. Answers beyond it ("cannot say") are not classes.
    random_state : int, optional
        Seed of the sampler and of the folds.
    prior_counts : float or (K,)
        How many items of each class count as seen before the first answer.
    start : "auto", "majority" or "opposite"
        "opposite" for answers that say what the class is *not*; "auto" tells the two apart by their likelihood.
    groups : (n,) names, optional
        With `X`: items of one group are never in different folds.
    progress : callable, optional
        With `X`: called with the share of the work that is done.

    Returns
    -------
    AnnotatorEstimate
        `posteriors` (n, K), `labels`, `transitions`, `transition` to train with, `notes`; prints as a table.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng = np.random.default_rng(0)
    >>> z = rng.integers(3, size=400)
    >>> wrong = rng.random((400, 4)) < [0.1, 0.2, 0.3, 0.4]
    >>> answers = np.where(wrong, (z[:, None] + rng.integers(1, 3, (400, 4))) % 3, z[:, None])
    >>> found = tp.estimate_annotators(answers)
    >>> bool((found.labels == z).mean() > 0.9)
    True
    """
    checks.choice(start, "start", ("auto", "majority", "opposite"))
    if isinstance(answers, Mapping):
        for name, value, default in (
            ("X", X, None), ("groups", groups, None), ("missing", missing, "auto"), ("start", start, "auto")
        ):  # fmt: skip
            if value is not default and not (isinstance(value, str) and value == default):
                raise InputError(
                    f"{name}: expected the default beside sources of different kinds, got {checks.short(value)}; to "
                    "use features train on estimate.transition and estimate.answers"
                )
        K = None if num_classes is None else checks.integer(num_classes, "num_classes", 2)
        if isinstance(true, Mapping):
            raise InputError("true: expected a class for each item, -1 or None where unknown, got a dict")
        return estimate_sources(answers, true, K, np.asarray(prior_counts), generator(random_state), SURE)
    check_order(answers, true=true, X=X, groups=groups)
    crowd, gaps = _crowd(answers, true, num_classes, prior_counts, missing)
    rng, given, known, K = generator(random_state), crowd.answers, crowd.known, crowd.num_classes
    matrix = None if X is None else feature_matrix(X, len(given.items), "items", sparse=True)
    if matrix is not None and matrix.shape[0] <= FOLDS:
        raise InputError(f"X: expected at least {FOLDS + 1} items to use their features, got {matrix.shape[0]}")
    ruled = bool(len(crowd.silent))
    if ruled and start == "opposite":
        raise InputError("start: expected 'auto' or 'majority' where silence is an answer, got 'opposite'")
    sign = 1.0 if ruled else choose_start(crowd, rng) if start == "auto" else 1.0 if start == "majority" else -1.0
    crowd, head, pairs = _without_copies(crowd, rng) if not ruled and sign > 0 else (crowd, None, [])
    fit = run_rules(crowd) if ruled else run(crowd, sign, rng)
    if ruled:
        pairs = same_rows(given, crowd.silent, crowd.m, crowd.num_answers - 1, fit.T.astype(np.float64), fit.prior)
        if pairs:
            head = groups_of(pairs, crowd.m)
            crowd = replace(crowd, answers=merged(given, head))
            fit = run_rules(crowd)
    direct = sign > 0 or (start == "auto" and named_by_most(crowd, fit))
    notes = [*in_words(gaps), *_notes(crowd, fit, direct, matrix is not None)]
    if direct and not ruled:
        name_classes(crowd, fit)
    classifier = None
    if matrix is not None and not ruled:
        together = group_codes(groups, len(given.items))
        log_prior, classifier = fit_with_features(crowd, fit, matrix, rng, together, progress)
        if direct and not ruled and name_classes(crowd, fit):  # once more, from the names that are right
            log_prior, classifier = fit_with_features(crowd, fit, matrix, rng, together, progress)
    else:
        log_prior = np.log(fit.prior)
    rho = 0.0 if ruled else dependence(crowd, fit, log_prior, sign, rng)
    copied = [] if ruled else copies(crowd, fit, log_prior, rng)
    if isinstance(fit, Rules):
        effect, error = design_effect(fit, log_prior)
        posteriors = tempered(fit.evidence.astype(np.float64), log_prior, effect)
    else:
        effect, error = 1.0, 0.0
        posteriors = discounted(fit.evidence.astype(np.float64), log_prior, crowd.degree, rho)
    told = None
    if len(crowd.fixed):
        own = without_own(fit, crowd.fixed)
        log_own = log_prior if log_prior.ndim == 1 else log_prior[crowd.fixed]
        if isinstance(fit, Rules):
            P = tempered(own, log_own, effect)
        else:
            P = discounted(own, log_own, crowd.degree[crowd.fixed], rho)
        votes = smoothed_votes(crowd)
        told = tempering(P, votes[crowd.fixed], known[crowd.fixed], fit.prior)
        if told is not None:
            posteriors = told.of(posteriors, votes, fit.prior)
            notes.append(str(told))
    else:
        notes.append(UNSEEN)
    tested = effect == 1.0 and rho == 0.0 and bool((crowd.degree >= 2).any())
    if not tested and not len(crowd.fixed):
        posteriors = at_most(posteriors, SURE)
    posteriors[crowd.fixed] = np.eye(K)[known[crowd.fixed]]
    if matrix is not None and ruled:
        classifier = taught(crowd, posteriors, matrix, rng, group_codes(groups, len(given.items)))
        notes.append("rules are made from the features: these teach the classifier, and leave the posteriors alone")
    notes += _dependence_notes(crowd, rho, pairs + copied, len(pairs))
    unidentified = "" if ruled else _unidentified(crowd, fit, log_prior)
    if unidentified:
        notes.insert(0, unidentified)
        warn(unidentified, IdentifiabilityWarning)
    if effect > 1.0 + SIGNIFICANT * error:
        text = (
            f"the evidence of items spreads {effect:.2f} times as much as that of independent rules that are right "
            f"equally often{', or more' if effect >= LARGEST - 1e-2 else ''}: they err together, or differ; log odds "
            "are divided by that"
        )
        notes.append(text)
        if effect > TELLING:
            warn(text, DependenceWarning)
    rest = (fit, None if matrix is None or ruled else log_prior, int(rng.integers(1 << 31)), unidentified, gaps)
    more = (effect, head, told)
    copied = pairs + copied
    named = (posteriors, fit.prior, given, fit.strength, rho, copied, classifier, notes)
    return AnnotatorEstimate(*named, *rest, *more)


def _without_copies(crowd: Crowd, rng: np.random.Generator) -> tuple[Crowd, NDArray[np.int64] | None, list[Copies]]:
    """The crowd with near-copies counted as one source, whose answers stand for theirs, and the pairs."""
    given, m, M = crowd.answers, crowd.m, crowd.num_answers
    pairs, found = candidates(given, m, M), []
    head = groups_of(pairs, m)
    for first in np.unique(head[[p.first for p in pairs]]) if pairs else []:
        outside = head[given.annotator] != first
        own = [p for p in pairs if head[p.first] == first]
        if len(np.unique(given.annotator[outside])) < 3:
            found += own
            continue
        others = given.replaced(given.answer[outside])
        others.item, others.annotator = given.item[outside], given.annotator[outside]
        P = run(replace(crowd, answers=others), 1.0, rng).P.astype(np.float64)
        found += [c for c in (confirmed(p, given, P, M) for p in own) if c is not None]
    if not found:
        return crowd, None, []
    head = groups_of(found, m)
    return replace(crowd, answers=merged(given, head)), head, sorted(found, key=lambda c: c.p_value)


def at_most(P: FloatArray, most: float) -> FloatArray:
    """Posteriors (n, K), the largest of a row cut at `most`, what is cut off shared among the others as they stand."""
    P = P.copy()
    rows, top = np.arange(len(P)), P.argmax(axis=1)
    high = P[rows, top] > most
    rows, top = rows[high], top[high]
    others = P[rows]
    others[np.arange(len(rows)), top] = 0.0
    total = others.sum(axis=1, keepdims=True)
    even = (np.arange(P.shape[1]) != top[:, None]) / (P.shape[1] - 1)
    P[rows] = (1 - most) * np.where(total > 1e-300, others / np.maximum(total, 1e-300), even)
    P[rows, top] = most
    return P


def _crowd(
    answers: Answers | ArrayLike, true: Any, num_classes: int | None, prior_counts: ArrayLike, missing: Any
) -> tuple[Crowd, list[Gap]]:
    """Who answered what, checked, beside the known classes, and what gaps mean."""
    given = as_answers(answers)
    known = true_classes(true, given)
    K = _number_of_classes(num_classes, given, known)
    m, M = len(given.annotators), max(len(given.classes), K)
    check_room(
        5 * 8.0 * K * (m * M + len(given.items)),
        f"T of {m} annotators, {M} answers x {K} classes, and the posteriors of {len(given.items)} items",
        "name classes 0, 1, 2, ..., and leave out annotators with few answers",
    )
    gaps, silence = meaning_of_gaps(given, K, missing)
    counts = _prior_counts(prior_counts, K)
    return Crowd(given, M + bool(silence.any()), K, known, counts, silence if silence.any() else None), gaps


def _notes(crowd: Crowd, fit: Fit, direct: bool, with_features: bool) -> list[str]:
    """What a reader should know; warns where the answers cannot tell T."""
    if isinstance(fit, Rules):
        together = f"{fit.accuracy:.2f} of all answers are right"
        if not (crowd.known >= 0).any():
            together += ", and each rule is drawn to that: answers alone hardly tell which are better (true= does)"
        notes = [f"each source's T has the form of a rule; {together}"]
    else:
        how = f"with the weight of {fit.strength:g} answers per class"
        notes = [f"each annotator's T is shrunk towards that of all, {how}"]
        if fit.apart is not None:
            names = crowd.answers.annotators[fit.apart].tolist()
            listed = ", ".join(map(str, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")
            notes.append(f"unlike the others, so that their T rest on their own answers: annotators {listed}")
    if not direct:
        notes.append("the answers seem to name classes that the item is not: EM started from the inverted votes")
    if len(crowd.fixed):
        notes.append(f"{len(crowd.fixed)} items with a known class keep it")
    unnamed = np.flatnonzero(~crowd.named)
    if direct and len(unnamed):
        classes = ", ".join(str(z) for z in unnamed[:SHOWN].tolist()) + (", ..." if len(unnamed) > SHOWN else "")
        notes.append(f"no answer names class {classes}: nothing shows how its items would be answered")
    silent = int((crowd.degree == 0).sum())
    if silent:
        what = "what silence says" if len(crowd.silent) else "the prior"
        notes.append(f"{silent} items have no answer: their posterior is {what}")
    repeated = int(crowd.again.sum())
    if repeated:
        notes.append(f"{repeated} answers repeat an annotator's answer to the same item; all are counted")
    if crowd.contrary:
        what = "contradict an earlier one of the same annotator to the item; all are counted"
        notes.append(f"{crowd.contrary} answers {what}")
    enough = int((crowd.degree >= 3).sum())
    if not len(crowd.fixed) and not with_features and (crowd.heard < 3 or not enough):
        why = f"there are only {crowd.heard} of them" if crowd.heard < 3 else "no item has answers from three of them"
        text = (
            f"answers of fewer than three overlapping annotators do not determine their T ({why}): very different T "
            "explain them equally well; give some true classes, features X, or a third answer"
        )
        warn(text, IdentifiabilityWarning)
        notes.append(text)
    shared = int((crowd.degree >= 2).sum())
    if not len(crowd.fixed) and with_features and not shared:
        text = (
            "no item has two answers: T rests on the classifier alone, and its intervals, which leave out the "
            "classifier's own error, are too narrow; give some true classes, or second answers"
        )
        warn(text, IdentifiabilityWarning)
        notes.append(text)
    if not len(crowd.fixed) and shared >= SHARED and ((crowd.given() > 0).sum(axis=1) <= 1).all():
        text = (
            f"no two answers to one of {shared} items differ: annotators who are always right and annotators who copy "
            "one answer look the same; give some true classes to tell them apart"
        )
        warn(text, IdentifiabilityWarning)
        notes.append(text)
    return notes


def _unidentified(crowd: Crowd, fit: Fit, log_prior: FloatArray) -> str:
    """Why T does not tell the classes apart, and the way out; empty where it does."""
    if one_class_each(crowd):
        return (
            "every annotator names one class only, and -1 is read as an answer that is missing for no reason: given "
            "that such a source speaks, it says the same whatever the class is, so T's columns coincide and nothing "
            "tells the classes apart. What rules that abstain tell is when they speak: missing='answer' reads it"
        )
    pairs = coinciding(crowd, fit, log_prior)
    if not pairs:
        return ""
    which = ", ".join(f"{a} and {b}" for a, b in pairs[:SHOWN]) + (", ..." if len(pairs) > SHOWN else "")
    return (
        f"the columns of T for classes {which} coincide within their error: the answers do not tell these classes "
        "apart; give the true class of some items, or more sources that do"
    )


def _dependence_notes(crowd: Crowd, rho: float, copied: list[Copies], counted: int) -> list[str]:
    notes = []
    names = crowd.answers.annotators
    for i, c in enumerate(copied[:5]):
        what = "near-copies, counted as one source"
        if i >= counted:
            what = "one copies the other, or both err on the same items"
        notes.append(
            f"annotators {names[c.first]} and {names[c.second]} agree on {c.agreed:.0%} of {c.shared} items, "
            f"{c.expected:.0%} expected (p = {c.p_value:.2g}): {what}"
        )
    if len(copied) > 5:
        notes.append(f"{len(copied) - 5} more pairs of annotators agree more often than expected")
    if rho > 0:
        k = float(np.median(crowd.degree[crowd.degree > 0]))
        notes.append(
            f"answers depend on each other given the class (rho = {rho:.2f}): {k:.0f} answers are worth "
            f"{k / (1 + (k - 1) * rho):.1f} independent ones, and the posteriors count them so"
            + ("; rho is at its cap: beyond, dependence cannot be told from a T that fits badly" * (rho >= MOST_RHO))
        )
    if notes:
        warn("; ".join(notes), DependenceWarning)
    return notes


# Inputs.


def _number_of_classes(num_classes: int | None, given: Answers, known: NDArray[np.int64]) -> int:
    highest = int(known.max(initial=-1))
    if num_classes is None:
        return max(2, len(given.classes), highest + 1)
    K = checks.integer(num_classes, "num_classes", 2)
    if highest >= K:
        raise InputError(f"true: expected classes in [0, {K}), got {highest}")
    return K


def _prior_counts(value: Any, K: int) -> FloatArray:
    try:
        out = np.broadcast_to(np.asarray(value, dtype=np.float64), (K,)).copy()
    except (TypeError, ValueError):
        out = np.zeros(0)
    if not len(out) or not np.isfinite(out).all() or (out <= 0).any():
        raise InputError(f"prior_counts: expected a number > 0, or one for each of the {K} classes, got {value!r}")
    return out
