"""Is T plausible? Tests of a transition from weak labels, with a model's probabilities or without.

Each test asks one question that T answers, and holds its level: with the true T its p-value is below .05 in at most 5%
of samples. Where labels cannot confirm T, the notes say so: some wrong T leave no trace in the labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import FloatArray, Labels, checks, count_text
from ..metrics import probabilities_of
from ..transitions import AnnotatorTransition, CandidateSetTransition, StackedTransition, Transition
from .agreement import pair_fits, total_agreement
from .groups import Group, make_groups
from .hull import fit_hull, one_hot_block
from .limits import anchors, confusions, purity, testable
from .matching import MOST_ROWS, ScoreTests
from .views import Index, OneLabel, SetLabel, SeveralAnswers, View, view_of

PLAUSIBLE = 0.01
MOST_MATCHED = 200  # classes up to which labels are matched with T p
MOST_CLASSES = 1000  # beyond this many classes (or 4,000 x 1,000 entries of T) nothing is tested


@dataclass(frozen=True)
class TransitionTest:
    """One question put to the labels."""

    name: str
    statistic: float
    p_value: float
    sentence: str


@dataclass(frozen=True)
class TransitionCheck:
    """What labels say about a transition. Prints as sentences."""

    p_value: float
    tests: list[TransitionTest]
    notes: list[str]
    name: str
    n: int
    confirmed: bool  # plausible, and some labels look as pure as T says they can; otherwise nothing here confirms T

    @property
    def plausible(self) -> bool:
        """Whether the labels may come from this T: p >= .01."""
        return self.p_value >= PLAUSIBLE

    def __bool__(self) -> bool:
        return self.plausible

    def __str__(self) -> str:
        verdict = (
            f"The {self.n} labels may come from {self.name} (p = {self.p_value:.2g} over all tests)."
            if self.plausible
            else f"WARNING: these {self.n} labels are unlikely to come from {self.name} (p = {self.p_value:.2g}). "
            "Every score and probability that rests on this T is in doubt."
        )
        lines = [f"- {t.name}: {t.sentence} (p = {t.p_value:.2g})." for t in self.tests]
        return "\n".join([verdict, *lines, *(f"- {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "transition": self.name,
            "n": self.n,
            "p_value": self.p_value,
            "plausible": self.plausible,
            "confirmed": self.confirmed,
            "tests": [asdict(t) for t in self.tests],
            "notes": list(self.notes),
        }


def check_transition(
    labels: Labels,
    transition: Transition,
    probabilities: ArrayLike | Tensor | None = None,
    *,
    tolerance: float = 0.05,
    random_state: int = 0,
) -> TransitionCheck:
    """May these labels come from this transition?

    From labels alone: are the label shares in the hull of T's columns (`hull.py`); are the sizes of candidate sets, and
    the shares of sources, those of T; do annotators agree as often as T says. With a model's probabilities also: are
    the label shares in the hull in every group of like predictions, and the labels of the surest examples no purer than
    T allows (`limits.purity`), both whatever the model's calibration; do labels match ``T p`` in groups
    (`matching.py`), and does the residual vary with confidence (noise that differs within a class), both after
    recalibration and up to a calibration error of `tolerance`. An estimated T brings its own error into every test.
    `p_value` is Bonferroni's over all tests.

    Parameters
    ----------
    labels : weak labels as the transition takes them
    transition : Transition
    probabilities : (n, K) array, optional
        Class probabilities of a model that has not seen these labels (held-out or cross-fitted).
    tolerance : float
        Root mean square error of groups' mean class probabilities that the model is allowed after recalibration.
    random_state : int
        Seed of the labels drawn for covariances; the same seed gives the same p-values.
    """
    tolerance = checks.real(tolerance, "tolerance", 0, 1)
    seed = checks.integer(random_state, "random_state", 0)
    if _too_large(transition):
        n = len(transition.encode(labels))
        size = f"{count_text(transition.num_weak_labels)} labels x {transition.num_classes} classes"
        note = f"Not tested: T of {size} is too large for these tests"
        return TransitionCheck(1.0, [], [note], transition.name, n, False)
    view = view_of(labels, transition)
    p = None if probabilities is None else probabilities_of(probabilities, view.num_classes, view.n).numpy()
    tests = [*_impossible(view), *_structure(view, transition)]
    tests += _annotators(view) if isinstance(view, SeveralAnswers) else [_overall(view)]
    notes = confusions(view)
    if p is not None:
        groups = make_groups(p, view.features)
        tests += [*_in_groups(view, groups), *_surest(view, p)]
        if view.num_classes <= MOST_MATCHED:
            tests += _matches(view, p, groups, tolerance, seed)
        else:
            notes.append(f"Whether labels match T p is tested for at most {MOST_MATCHED} classes")
    confirmed, more = testable(view) if p is None else anchors(view, p)
    tests = [t for t in tests if not np.isnan(t.p_value)]
    p_value = _bonferroni(tests)
    return TransitionCheck(p_value, tests, notes + more, transition.name, view.n, confirmed and p_value >= PLAUSIBLE)


def _bonferroni(tests: Sequence[TransitionTest]) -> float:
    """The p-value of all tests together."""
    return min(1.0, len(tests) * min((t.p_value for t in tests), default=1.0))


def _too_large(transition: Transition) -> bool:
    if isinstance(transition, AnnotatorTransition) or not isinstance(transition, Transition):
        return False
    K, M = transition.num_classes, transition.num_weak_labels
    return K > MOST_CLASSES or (not isinstance(transition, CandidateSetTransition) and M * K > 4000 * MOST_CLASSES)


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
    if isinstance(transition, StackedTransition) and isinstance(view, OneLabel):
        index = np.searchsorted(transition.offsets, view.index, side="right") - 1
        counts = np.bincount(index, minlength=len(transition.sources))
        return _fixed("shares of sources", counts, transition.weights, [f"source {d}" for d in range(len(counts))])
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
        tests.append(TransitionTest("agreement of all annotators", total.z, total.p_value, text))
    pairs = [
        TransitionTest("answers of pairs of annotators", pair.fit.statistic, pair.fit.p_value, pair.gap)
        for pair in pair_fits(view)
    ]
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
    z, p_value, n = purity(view, p)
    text = "the surest examples have no purer labels than T allows"
    if p_value < 0.05:
        text = (
            f"the {n} surest examples have the labels of their predicted classes more often than T allows even if all "
            f"are of these classes, by {z:.1f} standard errors: T is too noisy, or the noise spares easy examples"
        )
    return [TransitionTest("labels of the surest examples", z, p_value, text)] if n else []


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
        TransitionTest("match with T p", match.statistic, match.p_value, text),
        TransitionTest("noise within a class", trend.statistic, trend.p_value, along),
    ]
