"""Is T plausible? Tests of a transition from weak labels, with a model's probabilities or without.

Each test asks one question that T answers, and holds its level: with the true T its p-value is below .05 in at most 5%
of samples. Tests of T hold that level whatever the model is; tests of the model given T are told apart from them, for
they reject a right T too where the model is not calibrated. Where labels cannot confirm T, the notes say so: some wrong
T leave no trace in the labels.

Rows of one group are not independent, and tests of independent rows reject a right T far too often. One row of each
group is: the tests are made on several such draws, and twice the median of their p-values is a p-value again
(Meinshausen, Meier and Buehlmann, 2009, p-values for high-dimensional regression).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from torch import Tensor

from .._core import FloatArray, Labels, checks, count_text
from ..errors import InputError
from ..metrics import probabilities_of, read_labels, width_of
from ..transitions import SoftLabels, Transition, read_transition
from .agreement import pair_fits, total_agreement
from .arguments import feature_matrix
from .groups import Group, make_groups
from .hull import fit_hull, one_hot_block
from .limits import anchors, confusions, purity, purity_by_feature, testable
from .matching import MOST_ROWS, ScoreTests
from .views import Index, OneLabel, SetLabel, SeveralAnswers, View, view_of

PLAUSIBLE = 0.01
MOST_MATCHED = 200  # classes up to which labels are matched with T p
MOST_PAIRED = 100  # classes up to which the two likeliest are taken together
MOST_FEATURES = 500  # that are looked at one by one
DRAWS_OF_GROUPS = 11  # of one row for each group
FEWEST_HARD, HARD = 100, 0.8  # rows whose likeliest class has a lower probability, for T to be confirmed by them too
MOST_CLASSES = 1000  # beyond this many classes (or 4,000 x 1,000 entries of T) nothing is tested


@dataclass(frozen=True)
class TransitionTest:
    """One question put to the labels."""

    name: str
    statistic: float
    p_value: float
    sentence: str
    about: str = "T"  # or "model": of the model's probabilities given T
    excess: float = 0.0  # of sources: the share of answers that agree, above what T says


@dataclass(frozen=True)
class TransitionCheck:
    """What labels say about a transition: whether they may come from it. `check_transition` makes it.

    It prints as sentences.

    Attributes
    ----------
    plausible : bool
        Whether the labels may come from this T, whatever the model is: p >= .01.
    p_value : float
        Of all tests of T together.
    model_fits : bool
        Whether labels match the model's probabilities under T: if not, the model is off, or T is.
    tests : list
        Each test with its own p-value.
    notes : list of str
        What a reader should know.

    Examples
    --------
    >>> import tproper as tp
    >>> found = tp.check_transition([0] * 950 + [1] * 50, tp.symmetric_noise(2, 0.2))
    >>> found.plausible  # label 1 is at least a fifth of all labels, if T is right
    False
    """

    p_value: float  # of all tests of T together, which hold whatever the model is
    tests: list[TransitionTest]
    notes: list[str]
    name: str
    n: int
    confirmed: bool  # no test speaks against T or the model, and easy and hard rows have the labels that T gives them
    model_p_value: float = 1.0  # of all tests of the model given T together
    anchored: bool = False  # the surest rows of each class have the labels that T gives them

    @property
    def plausible(self) -> bool:
        """Whether the labels may come from this T, whatever the model is: p >= .01."""
        return self.p_value >= PLAUSIBLE

    @property
    def model_fits(self) -> bool:
        """Whether labels match the model's probabilities under T: if not, the model is off, or T is."""
        return self.model_p_value >= PLAUSIBLE

    @property
    def sources_agree_more(self) -> bool:
        """Whether sources agree with each other more than T allows, as those do that share mistakes."""
        return any(t.excess > 0 and t.p_value < PLAUSIBLE for t in self.tests)

    def __bool__(self) -> bool:
        return self.plausible

    def __str__(self) -> str:
        verdict = (
            f"The {self.n} labels may come from {self.name} (p = {self.p_value:.2g} over all tests of T)."
            if self.plausible
            else f"WARNING: these {self.n} labels are unlikely to come from {self.name} (p = {self.p_value:.2g}). "
            "Every score and probability that rests on this T is in doubt."
        )
        misfit = (
            []
            if self.model_fits
            else [
                f"The model does not fit these labels under {self.name} (p = {self.model_p_value:.2g}): its "
                "probabilities are off, or T is in a way that no test of T alone sees."
            ]
        )
        lines = [f"- {t.name}: {t.sentence} (p = {t.p_value:.2g})." for t in self.tests]
        return "\n".join([verdict, *misfit, *lines, *(f"- {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "transition": self.name,
            "n": self.n,
            "p_value": self.p_value,
            "plausible": self.plausible,
            "model_p_value": self.model_p_value,
            "model_fits": self.model_fits,
            "anchored": self.anchored,
            "confirmed": self.confirmed,
            "tests": [asdict(t) for t in self.tests],
            "notes": list(self.notes),
        }


def check_transition(
    labels: Labels,
    transition: Transition | str,
    probabilities: ArrayLike | Tensor | None = None,
    *,
    X: Any = None,
    groups: ArrayLike | None = None,
    tolerance: float = 0.05,
    random_state: int = 0,
) -> TransitionCheck:
    """May these labels come from this transition?

    From labels alone: whether the shares of the labels are a mixture of T's columns; whether the sizes of candidate
    sets, and the shares of sources, are those of T; whether annotators agree as often as T says. With a model's
    probabilities also: whether the shares are such a mixture in every group of like predictions, and the labels of the
    surest examples no purer than T allows, for their likeliest class and for the two likeliest together. With features
    also: whether labels are purer on one side of a feature than T allows. All these hold whatever the model's
    calibration is; `p_value` and `plausible` are theirs. `model_fits` is about the model given T: whether labels match
    ``T p`` in groups, and whether the residual varies with confidence, both after recalibration and up to a calibration
    error of `tolerance`. An estimated T brings its own error into every test. P-values are Bonferroni's.

    Parameters
    ----------
    labels : weak labels as the transition takes them
        One for each row.
    transition : Transition or text
        T.
    probabilities : (n, K) array, optional
        Class probabilities of a model that has not seen these labels (held-out or cross-fitted).
    X : (n, d) array or sparse matrix, optional
        Features. Without them nothing tells whether the noise varies with features, and nothing is confirmed.
    groups : (n,) array, optional
        Rows with the same entry are not independent.
    tolerance : float
        Root mean square error of groups' mean class probabilities that the model is allowed after recalibration.
    random_state : int
        Seed of the labels drawn for covariances; the same seed gives the same p-values.

    Returns
    -------
    TransitionCheck
        `plausible`, `p_value`, `model_fits`, `tests`; prints as sentences.

    Examples
    --------
    >>> import tproper as tp
    >>> labels = [0] * 300 + [1] * 700
    >>> tp.check_transition(labels, tp.symmetric_noise(2, 0.2)).plausible
    True
    >>> tp.check_transition(labels, tp.symmetric_noise(2, 0.4)).plausible
    False
    """
    tolerance = checks.real(tolerance, "tolerance", 0, 1)
    seed = checks.integer(random_state, "random_state", 0)
    if isinstance(labels, SoftLabels):
        checks.array(labels, "labels")  # which refuses them: these are tests of counts
    transition = read_transition(transition, None if probabilities is None else width_of(probabilities))
    read = read_labels(transition, labels)
    if _too_large(transition):
        n = len(read)
        size = f"{count_text(transition.num_weak_labels)} labels x {transition.num_classes} classes"
        note = f"Not tested: T of {size} is too large for these tests"
        return TransitionCheck(1.0, [], [note], transition.name, n, False)
    K, n, given = transition.num_classes, len(read), read.given
    p = None if probabilities is None else probabilities_of(probabilities, K, n, space=read.space).numpy()
    looked_at, which = (None, np.arange(0)) if X is None else _looked_at(X, n)
    y, labels_named = read.labels.numpy(), None if read.space.classes is None else read.space.names
    if given is not None:  # rows without a label
        y, p, looked_at = y[given], _some(p, given), _some(looked_at, given)
        groups = None if groups is None else checks.array(groups, "groups")[given]
    if transition.separate and (y < 0).all():
        raise InputError("labels: expected at least one answer, got none")
    transition = read.bare
    view = view_of(y, transition, labels_named)
    parts = [np.arange(view.n)] if groups is None else _one_of_each(groups, view.n, seed)
    if len(parts) == 1 and len(parts[0]) == view.n:
        views = [view]
    else:
        views = [view_of(y[rows], transition, labels_named) for rows in parts]
    found = [
        _tests(v, transition, _some(p, rows), _some(looked_at, rows), which, tolerance, seed)
        for v, rows in zip(views, parts, strict=True)
    ]
    tests = [*_impossible(view), *_together(found)]
    notes = confusions(view)
    if p is not None and view.num_classes > MOST_MATCHED:
        notes.append(f"Whether labels match T p is tested for at most {MOST_MATCHED} classes")
    p_value, of_model = (_bonferroni([t for t in tests if t.about == about]) for about in ("T", "model"))
    q = _some(p, parts[0])
    anchored, more = testable(views[0]) if q is None else anchors(views[0], q)
    blind = [] if not anchored or q is None else _untested(views[0], q, looked_at is not None)
    confirmed = anchored and not blind and min(p_value, of_model) >= PLAUSIBLE
    notes += more + blind
    return TransitionCheck(p_value, tests, notes, transition.name, view.n, confirmed, of_model, anchored)


def _untested(view: View, p: FloatArray, with_features: bool) -> list[str]:
    """What these tests have not looked at, and could be wrong with T."""
    if isinstance(view, SeveralAnswers):
        return []
    if isinstance(view, SetLabel):
        return ["Whether candidate sets vary with features is not tested"]
    if not with_features:
        return ["Whether the noise varies with features is not tested; pass X= to test it"]
    hard = int((p.max(axis=1) < HARD).sum())
    if hard and (hard < FEWEST_HARD or view.num_classes > MOST_MATCHED):
        return [f"The labels of hard rows are hardly tested: {hard} have no class with a probability of {HARD:g}"]
    return []


def _tests(
    view: View,
    transition: Transition,
    p: FloatArray | None,
    X: FloatArray | None,
    which: Index,
    tolerance: float,
    seed: int,
) -> list[TransitionTest]:
    """All tests of rows that are independent."""
    tests = _structure(view, transition)
    tests += _annotators(view) if isinstance(view, SeveralAnswers) else [_overall(view)]
    if p is not None:
        groups = make_groups(p, view.features)
        tests += [*_in_groups(view, groups), *_surest(view, p), *_by_feature(view, p, X, which)]
        if view.num_classes <= MOST_MATCHED:
            tests += _matches(view, p, groups, tolerance, seed)
    return [t for t in tests if not np.isnan(t.p_value)]


def _some(values: FloatArray | None, rows: Index) -> FloatArray | None:
    return None if values is None else values[rows]


def _looked_at(X: Any, n: int) -> tuple[FloatArray, Index]:
    """The features (n, d) that are looked at one by one, and which they are: of very many those that vary most."""
    X = feature_matrix(X, n, "labels", sparse=True)
    which = np.arange(X.shape[1])
    if issparse(X):
        mean = np.asarray(X.mean(axis=0)).ravel()
        spread = np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2
        which = np.sort(np.argsort(-spread, kind="stable")[:MOST_FEATURES])
        return X.tocsc()[:, which].toarray(), which
    if X.shape[1] > MOST_FEATURES:
        reach = np.maximum(np.ptp(X, axis=0), 1e-300)
        which = np.sort(np.argsort(-(X / reach).var(axis=0), kind="stable")[:MOST_FEATURES])
        X = X[:, which]
    return X, which


def _one_of_each(groups: ArrayLike, n: int, seed: int) -> list[Index]:
    """Draws of one row of each group; a single one where every row is a group of its own."""
    names = np.asarray(groups)
    if names.shape != (n,):
        raise InputError(f"groups: expected {n} entries, one for each label, got shape {names.shape}")
    of = np.unique(names, return_inverse=True)[1]
    if of.max(initial=0) + 1 == n:
        return [np.arange(n)]
    rng, out = np.random.default_rng(seed), []
    for _ in range(DRAWS_OF_GROUPS):
        order = rng.permutation(n)
        out.append(np.sort(order[np.unique(of[order], return_index=True)[1]]))
    return out


def _together(found: Sequence[list[TransitionTest]]) -> list[TransitionTest]:
    """Tests of several draws of independent rows as one of each name, with twice the median p-value."""
    if len(found) == 1:
        return found[0]
    by_name: dict[str, list[TransitionTest]] = {}
    for test in (t for tests in found for t in tests):
        by_name.setdefault(test.name, []).append(test)
    out = []
    for tests in by_name.values():
        tests = sorted(tests, key=lambda t: t.p_value)
        if len(tests) > len(found) // 2:  # a draw without the test has p = 1
            middle = tests[len(found) // 2]
            out.append(replace(middle, p_value=min(1.0, 2 * middle.p_value)))
    return out


def _bonferroni(tests: Sequence[TransitionTest]) -> float:
    """The p-value of all tests together; 1 where there are none."""
    return min(1.0, max(len(tests), 1) * min((t.p_value for t in tests), default=1.0))


def _too_large(transition: Transition) -> bool:
    if transition.separate:
        return False
    K, M = transition.num_classes, transition.num_weak_labels
    return K > MOST_CLASSES or (transition.size_probability is None and M * K > 4000 * MOST_CLASSES)


# Tests from labels alone.


def _impossible(view: View) -> list[TransitionTest]:
    """Labels of probability zero under every class: one is enough."""
    counts: np.ndarray
    if isinstance(view, OneLabel):
        counts = view.counts(np.arange(view.n))
        wrong = np.flatnonzero(~view.T.any(axis=1) & (counts > 0))
        texts = [f"{view.names[y]} occurs {counts[y]:.0f} times, T says that it never does" for y in wrong[:1]]
    elif isinstance(view, SetLabel):
        counts = view.sizes
        wrong = np.flatnonzero((view.size_probability == 0) & (counts > 0))
        texts = [f"sets of {j} classes occur {counts[j]:.0f} times, T says that they never do" for j in wrong[:1]]
    else:
        counts = np.array([(~view.likelihood(view.answers).any(axis=1)).sum()])
        wrong = np.flatnonzero(counts)
        texts = [f"{counts[i]} items have answers that no class can give together" for i in wrong]
    return [TransitionTest("impossible labels", float(counts[wrong].sum()), 0.0, text) for text in texts]


def _structure(view: View, transition: Any) -> list[TransitionTest]:
    """The sizes of candidate sets, and the shares of sources: fixed by T whatever the classes are."""
    if isinstance(view, SetLabel):
        names = [f"sets of {j} classes" for j in range(len(view.sizes))]
        return _fixed("sizes of candidate sets", view.sizes, view.size_probability, names, view.draws)
    ends, weights = transition.source_rows
    if len(weights) > 1 and isinstance(view, OneLabel):
        index = np.searchsorted(ends, view.index, side="right") - 1
        counts = np.bincount(index, minlength=len(weights))
        return _fixed("shares of sources", counts, weights, [f"source {d}" for d in range(len(counts))])
    return []


def _fixed(
    name: str, counts: np.ndarray, shares: FloatArray, names: list[str], draws: FloatArray | None = None
) -> list[TransitionTest]:
    """Counts beside the shares that T fixes, or `draws` of them: Pearson's test, rare cells taken together."""
    block = one_hot_block(counts.astype(np.float64), shares[:, None])
    if block is None:
        return []
    moved = None if draws is None or block.cells is None else draws @ block.cells.T
    fit = fit_hull([block], None if moved is None else lambda priors: moved * priors[0])
    n = counts.sum()
    far = int(np.argmax(np.abs(counts - n * shares) / np.sqrt(np.maximum(n * shares, 1))))
    text = f"{names[far]} in {counts[far]} of {n} examples, T says {n * shares[far]:.0f}"
    return [TransitionTest(name, fit.statistic, fit.p_value, text)]


def _overall(view: OneLabel | SetLabel) -> TransitionTest:
    rows = np.arange(view.n)
    block = view.block(rows)
    if block is None:
        return TransitionTest("label shares", 0.0, 1.0, "too few labels to test")
    fit = fit_hull([block], view.shifts([block]))
    text = _farthest(view, [(None, rows, fit.priors[0])])
    return TransitionTest("label shares", fit.statistic, fit.p_value, text)


def _farthest(view: OneLabel | SetLabel, fitted: list[tuple[Group | None, Index, FloatArray]]) -> str:
    """The label that is farthest from what T allows, in words."""
    worst: tuple[float, str] = (-1.0, "nothing to compare")
    T = view.T
    for group, rows, prior in fitted:
        counts = view.counts(rows)
        n, q = len(rows), T @ (prior / max(prior.sum(), 1e-300))
        gap = np.abs(counts - n * q) / np.sqrt(np.maximum(n * q * (1 - q), 1.0))
        y = int(gap.argmax())
        if gap[y] <= worst[0]:
            continue
        low, high = n * T[y].min(), n * T[y].max()
        where = "" if group is None else f"among {group}, "
        if counts[y] > high:
            limit = f"T with any class shares allows about {high:.0f} at most"
        elif counts[y] < low:
            limit = f"T with any class shares gives about {low:.0f} at least"
        else:
            limit = f"T with the class shares that fit best gives {n * q[y]:.0f}"
        worst = (float(gap[y]), f"{where}{view.names[y]} occurs {counts[y]:.0f} times in {n}, {limit}")
    return worst[1]


def _annotators(view: SeveralAnswers) -> list[TransitionTest]:
    tests = []
    total = total_agreement(view)
    if total is not None:
        text = (
            f"{total.observed:.0f} of {total.pairs:.0f} pairs of answers to one item agree, T says {total.expected:.0f}"
        )
        excess = (total.observed - total.expected) / max(total.pairs, 1.0)
        tests.append(TransitionTest("agreement of all annotators", total.z, total.p_value, text, excess=excess))
    pairs = [
        TransitionTest(
            "answers of pairs of annotators", pair.fit.statistic, pair.fit.p_value, pair.gap,
            excess=pair.agreed - pair.expected,
        )
        for pair in pair_fits(view)
    ]  # fmt: skip
    if pairs:
        return tests + _worst(pairs)
    answered = np.flatnonzero(view.has.any(axis=0)).tolist()
    return tests + _worst([_of_annotator(a, _overall(view.one(a)[0])) for a in answered])


def _of_annotator(a: int, test: TransitionTest) -> TransitionTest:
    return replace(test, sentence=f"annotator {a}: {test.sentence}")


def _worst(tests: Sequence[TransitionTest]) -> list[TransitionTest]:
    """The test with the least p-value, multiplied by their number; none of none."""
    worst = min(tests, key=lambda test: test.p_value, default=None)
    return [] if worst is None else [replace(worst, p_value=_bonferroni(tests))]


# Tests with a model's probabilities.


def _in_groups(view: View, groups: list[Group]) -> list[TransitionTest]:
    if isinstance(view, SeveralAnswers):
        tests = []
        for a in view.busiest(10):
            one, rows = view.one(a)
            place = np.full(view.n, -1)
            place[rows] = np.arange(len(rows))
            answered = [replace(g, rows=place[g.rows][view.has[g.rows, a]]) for g in groups]
            tests += [_of_annotator(a, t) for t in _in_groups(one, [g for g in answered if len(g.rows) >= 20])]
        return _worst(tests)
    blocks = [(g, view.block(g.rows, g.mean)) for g in groups]
    used = [(g, b) for g, b in blocks if b is not None]
    if not used:
        return []
    fit = fit_hull([b for _, b in used], view.shifts([b for _, b in used]))
    text = _farthest(view, [(g, g.rows, prior) for (g, _), prior in zip(used, fit.priors, strict=True)])
    return [TransitionTest("label shares in groups of predictions", fit.statistic, fit.p_value, text)]


def _surest(view: View, p: FloatArray) -> list[TransitionTest]:
    if not isinstance(view, OneLabel):
        return []
    tests = []
    z, p_value, n = purity(view, p)
    if n:
        text = "the surest examples have no purer labels than T allows"
        if p_value < 0.05:
            text = (
                f"the {n} surest examples have the labels of their predicted classes more often than T allows even if "
                f"all are of these classes, by {z:.1f} standard errors: T is too noisy, or the noise spares easy "
                "examples"
            )
        tests.append(TransitionTest("labels of the surest examples", z, p_value, text))
    if 3 <= view.num_classes <= MOST_PAIRED:
        z, p_value, n = purity(view, p, likeliest=2)
        if n:
            text = "labels name the two likeliest classes no more often than T allows"
            if p_value < 0.05:
                text = (
                    f"the labels of the {n} surest examples name one of their two likeliest classes more often than T "
                    f"allows whatever their classes are, by {z:.1f} standard errors: errors go to the runner-up"
                )
            tests.append(TransitionTest("labels of the two likeliest classes", z, p_value, text))
    return tests


def _by_feature(view: View, p: FloatArray, X: FloatArray | None, which: Index) -> list[TransitionTest]:
    """Labels that are purer on one side of a feature than T allows."""
    if not isinstance(view, OneLabel) or X is None:
        return []
    z, p_value, n, feature, above = purity_by_feature(view, p, X)
    if not n:
        return []
    name = which[feature]
    text = "labels are nowhere purer than T allows, above or below the middle of a feature"
    if p_value < 0.05:
        side = "above" if above else "below"
        text = (
            f"{n} examples {side} the middle of feature {name} have the labels of their predicted classes more "
            f"often than T allows, by {z:.1f} standard errors: the noise varies with this feature, or T is too noisy"
        )
    return [TransitionTest("noise by features", z, p_value, text)]


def _matches(view: View, p: FloatArray, groups: list[Group], tolerance: float, seed: int) -> list[TransitionTest]:
    group = np.full(len(p), -1)
    for i, g in enumerate(groups):
        group[g.rows] = i
    rows = np.flatnonzero(group >= 0)
    if len(rows) < 100:
        return []
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_ROWS, replace=False))
    used, index = np.unique(group[rows], return_inverse=True)
    tests = ScoreTests(view, rows, p[rows], index, tolerance, seed)
    match, trend = tests.match(), tests.instance_dependence()
    text = f"labels match T p in groups of predictions, up to a calibration error of {tolerance:g}"
    if match.p_value < 0.05:
        excess = tests.excess()
        far, z = np.unravel_index(int(np.abs(excess).argmax()), excess.shape)
        more = "more" if excess[far, z] > 0 else "less"
        text = (
            f"even recalibrated, the labels of {groups[used[far]]} point to class {z} {more} often than T p does, by "
            f"{abs(excess[far, z]):.1f} standard errors"
        )
    up = "falls" if tests.sums[-1] < 0 else "grows"
    along = (
        f"within a predicted class the noise {up} with confidence beyond what T p explains; noise that differs within "
        "a class looks like this, and so does a badly calibrated model"
        if trend.p_value < 0.05
        else "the noise does not vary with confidence beyond what T p explains"
    )
    return [
        TransitionTest("match with T p", match.statistic, match.p_value, text, "model"),
        TransitionTest("noise within a class", trend.statistic, trend.p_value, along, "model"),
    ]
