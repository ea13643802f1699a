"""Scores of a model with all that speaks for and against them: the test of T, how far they move with T, clean labels.

Every number that rests on T says so in the same block, and where labels contradict T the intervals that rest on it are
replaced by bounds that need less of it (`bounds`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse, vstack
from torch import Tensor

from .._core import FloatArray, Labels, NotReconstructibleError, checks
from ..errors import InputError
from ..estimation import Sensitivity, TransitionCheck, check_transition, feature_matrix, sensitivities
from ..metrics import Calibration, Score, probabilities_of, read_labels, restrict, width_of
from ..transitions import Encoded, Reconstruction, Transition, identity, is_soft, read_transition
from .bounds import LIMITS, Bounds, bounds_without, reconstruction_of
from .legend import Legend
from .streamed import NAMES, UNSCORABLE, Coded, Scores, StreamedScores, scores_of

UNTESTED = "Whether they did was not tested: the tests count labels, and these are shares of labels."
CHECKED_ROWS = 20_000  # more rows would add nothing
NOTES = 2  # in words: a weak model has one for each class
NOTHING = "Nothing in these labels"  # how some notes begin by themselves
ANNOTATOR = "the share of right answers of annotator "
WITHOUT, CLEAN = "from weak labels alone", "from clean labels"


@dataclass(frozen=True)
class Evaluation:
    """How good a model is, from weak labels, and how far that can be believed. Prints as a table and sentences.

    `evaluate` makes it.

    Attributes
    ----------
    scores : dict
        "accuracy", "balanced_accuracy", "log_loss", "brier" (`Score`) and "calibration" (`Calibration`), from weak
        labels and T; empty where T makes some classes look alike (`no_scores` says so).
    clean : dict
        The same from the rows whose class is known; empty where there are none.
    check : TransitionCheck or None
        Whether labels contradict T.
    sensitivity : dict
        How far accuracy, log loss and Brier score move if T's rates are off (`Sensitivity`).
    bounds : dict
        Where labels contradict T: bounds of the same scores that need less than T (`Bounds`). Empty where they do not.
    rows : dict
        How many rows there were, and how many had a weak label and a known class.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng, T = np.random.default_rng(0), tp.symmetric_noise(2, 0.2)
    >>> p = rng.dirichlet([1, 1], size=2000)
    >>> z = (rng.random(2000) < p[:, 1]).astype(int)
    >>> found = tp.evaluate(p, T.sample(z, 1), T)
    >>> sorted(found.scores)
    ['accuracy', 'balanced_accuracy', 'brier', 'calibration', 'log_loss']
    >>> found.check.plausible
    True
    """

    scores: Scores
    clean: Scores
    check: TransitionCheck | None
    sensitivity: dict[str, Sensitivity]
    bounds: dict[str, Bounds]
    transition: str
    rows: dict[str, int] = field(default_factory=dict)
    names: Legend = field(default_factory=Legend)
    grouped: bool = False
    overlap: str | None = None  # rows that the model was trained on, in words

    @property
    def no_scores(self) -> str:
        """Why there are no scores from weak labels; empty where there are some."""
        return "" if self.scores else UNSCORABLE

    @property
    def doubts(self) -> list[str]:
        """A warning that cannot be overlooked where labels contradict T."""
        if self.check is None or self.check.plausible:
            return []
        worst = min((t for t in self.check.tests if t.about == "T"), key=lambda test: test.p_value)
        names = "".join(f" {line}" for line in self.names.lines([worst.sentence]))
        instead = "do not use them"
        if self.bounds:
            needed = next(iter(self.bounds.values())).needs
            which = "do not rest on it" if needed == "candidates" else "need less of it, said beside them,"
            instead = f"bounds that {which} stand in their place"
        return [
            f"T IS DOUBTFUL: labels contradict the transition {self.transition} (p = {self.check.p_value:.2g}): "
            f"{worst.sentence}{names}. Do not trust scores and probabilities that rest on it; of scores, {instead}. "
            "See tproper.check_transition"
        ]

    def __str__(self) -> str:
        return "\n".join([*self._table(), *self._notes(), *self._trust()])

    def _table(self) -> list[str]:
        """Values and intervals, side by side; bounds where labels contradict T."""
        columns: dict[str, dict[str, str]] = {}
        if self.bounds:
            columns[next(iter(self.bounds.values())).heading] = {
                name: f"{b.low:.4f} to {b.high:.4f}" if (b := self.bounds.get(name)) else "not known" for name in NAMES
            }
        elif self.scores:
            columns[WITHOUT] = {name: _cell(score) for name, score in self.scores.items()}
        if self.clean:
            columns[CLEAN] = {name: _cell(score) for name, score in self.clean.items()}
        lines = [f"{'':<20}" + "".join(f"{head:<34}" for head in columns)] if columns else []
        for name in next(iter(columns.values()), {}):
            lines.append(f"{NAMES[name]:<20}" + "".join(f"{cells.get(name, '-'):<34}" for cells in columns.values()))
        return [line.rstrip() for line in lines]

    def _notes(self) -> list[str]:
        """What belongs to single scores."""
        shown = {WITHOUT: {} if self.bounds else self.scores, CLEAN: self.clean}
        shown = {head: scores for head, scores in shown.items() if scores}
        lines, notes = [], dict[tuple[str, str], list[str]]()  # and the columns that they belong to
        for head, scores in shown.items():
            for n, s in scores.items():
                if s.note:
                    notes.setdefault((NAMES[n], s.note), []).append(f", {head}")
        shares = [s.from_transition for scores in shown.values() for s in scores.values() if s.from_transition > 0]
        if shares:
            lines.append(f"of the width of these intervals, {min(shares):.0%} to {max(shares):.0%} comes from T")
        if any(s.at_end for scores in shown.values() for s in scores.values()):
            lines.append("~ cannot be told apart from this end of what is possible: read the interval")
        for (name, note), heads in sorted(notes.items()):
            lines.append(f"* {name}{heads[0] if len(heads) < len(shown) else ''}: {note}")
        if any("outside the possible values" in note for _, note in notes):
            lines.append("  (or the model was trained on these very rows: score it on others)")
        return lines

    def _trust(self) -> list[str]:
        """What the scores from weak labels rest on, and what labels say of that."""
        if not self.scores and not self.bounds:
            return []
        independent = "groups are" if self.grouped else "rows are"
        if self.bounds:
            reasons = list(dict.fromkeys(b.rests_on for b in self.bounds.values()))
            lines = [f"These bounds assume that {independent} independent, and that {'; '.join(reasons)}."]
            return [*lines, *(f"WARNING: {doubt}" for doubt in self.doubts)]
        came = f"that labels came from {self.transition}"
        if self.transition.startswith("identity("):
            came = "that labels are the true classes"
        lines = [f"Scores from weak labels assume {came}, and that {independent} independent."]
        lines += self._verdict()
        return [*lines, *self.names.lines(lines)]

    def _verdict(self) -> list[str]:
        check = self.check
        if check is None:
            return [UNTESTED, *self._range()] if self.scores else []
        if not check.plausible:
            return [f"WARNING, of all scores above: {doubt}" for doubt in self.doubts]
        if check.anchored and check.model_fits:
            unsaid = "" if check.confirmed else " Whether noise differs among other rows is not known."
            return [f"We found no sign that T is wrong. That does not prove it right{self._if_off()}.{unsaid}"]
        if not check.model_fits:
            return [
                f"We found no sign that T alone is wrong (p = {check.p_value:.2g}), but labels do not match the "
                f"model's probabilities under it (p = {check.model_p_value:.2g}): the model is off, or T is.",
                *self._range(),
            ]
        why = [note.rstrip(".") for note in check.notes] or ["there are too few of them to tell"]
        more = [f"({len(why) - NOTES} more such notes in .check.notes, and in --json)"] if len(why) > NOTES else []
        first = why[0] if why[0].startswith(NOTHING) else f"{NOTHING} confirms T: {why[0]}"
        return [f"{first}.", *why[1:NOTES], *more, *self._range()]

    def _moves(self) -> tuple[str, dict[float, tuple[float, float]], str]:
        """What could be off, where accuracy lies then, and what matters most."""
        moved = self.sensitivity.get("accuracy")
        if moved is None or not moved.rate:
            return "", {}, ""
        ends = {
            m: (restrict(a, LIMITS["accuracy"]), restrict(b, LIMITS["accuracy"]))
            for m, (a, b) in moved.intervals.items()
        }
        if moved.rate.startswith(ANNOTATOR):
            who = moved.rate.removeprefix(ANNOTATOR)
            return "we misjudge the annotators", ends, f"Annotator {who} matters most: check these answers first."
        return "T's rates are off", ends, f"{moved.rate} matters most: check that first."

    def _if_off(self) -> str:
        what, ends, _ = self._moves()
        if not ends:
            return ""
        least = min(ends)
        return f": if {what} by {100 * least:.0f} points, accuracy could be as low as {ends[least][0]:.2f}"

    def _range(self) -> list[str]:
        what, ends, first = self._moves()
        if not ends:
            return []
        parts = [f"by {100 * m:.0f} points, accuracy is {low:.2f} to {high:.2f}" for m, (low, high) in ends.items()]
        return [f"If {what} {'; '.join(parts)}. {first}"]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        out: dict[str, Any] = {"rows": dict(self.rows), "transition": self.transition}
        if self.scores:
            out["weak"] = plain_scores(self.scores)
        else:
            out |= {"weak": None, "no_scores": UNSCORABLE}
        if self.clean:
            out["clean"] = plain_scores(self.clean)
        return out | {"trust": self.trust(), "overlap": self.overlap}

    def trust(self) -> dict[str, Any] | None:
        """What speaks for and against the scores, as plain values."""
        if self.check is None and not self.scores:
            return None
        return {
            "check": None if self.check is None else self.check.to_dict(),
            "sensitivity": {name: s.to_dict() for name, s in self.sensitivity.items()},
            "bounds": {name: b.to_dict() for name, b in self.bounds.items()},
        }


def plain_scores(scores: Scores) -> dict[str, Any]:
    """For JSON."""
    return {name: score.to_dict() for name, score in scores.items()}


def _cell(score: Score | Calibration) -> str:
    low, high = score.interval
    mark = "" if score.informative else " *"
    value = "unknown" if math.isnan(score.shown) else f"{'~' * score.at_end}{score.shown:.4f}"
    return f"{value}  ({low:.4f} to {high:.4f}){mark}"


def evaluate(
    probabilities: ArrayLike | Tensor,
    labels: Labels,
    transition: Transition | str,
    *,
    true: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    X: Any = None,
) -> Evaluation:
    """How good is a model? Scores from weak labels, whether labels contradict T, and how far scores move if T is off.

    What ``tproper evaluate`` prints of a table. Where labels contradict T, the printed intervals give way to bounds
    that need less than T, with what they need.

    Parameters
    ----------
    probabilities : (n, K) class probabilities
        Of a model that has not seen these labels (held-out or cross-fitted).
    labels : weak labels as the transition takes them
        One for each row.
    transition : Transition or text
        T.
    true : (n,) classes, -1 or None where unknown, optional
        Scores of these rows stand beside those from weak labels (`clean`).
    groups : (n,) array, optional
        Rows of one group are not independent.
    X : (n, d) array, frame or sparse matrix, optional
        Features of these rows: then whether the noise varies with them is tested, too (`tproper.check_transition`).

    Returns
    -------
    Evaluation
        Prints as a table and sentences.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng, T = np.random.default_rng(0), tp.symmetric_noise(2, 0.2)
    >>> p = rng.dirichlet([1, 1], size=2000)
    >>> z = (rng.random(2000) < p[:, 1]).astype(int)
    >>> found = tp.evaluate(p, T.sample(z, 1), T, true=z)
    >>> low, high = found.scores["accuracy"].interval
    >>> bool(low < found.clean["accuracy"].value < high)
    True
    """
    transition = read_transition(transition, width_of(probabilities))
    read = read_labels(transition, labels)
    y, n, given = read.labels.numpy(), len(read), read.given
    p = probabilities_of(probabilities, transition.num_classes, n, space=read.space).numpy()
    known = None if true is None else read.space.known_classes(true, n)
    if known is not None and not (known >= 0).any():
        raise InputError(f"true: expected the classes of some rows, got none of {n}")
    if known is None and not transition.diagnose().reconstructible:
        raise NotReconstructibleError(f"transition: expected one that tells classes apart, or true=; {UNSCORABLE}")
    of_rows = None if groups is None else checks.array(groups, "groups")
    some = slice(None) if given is None else given  # rows without a label say nothing of it
    legend = Legend(read.space.classes or (), features=tuple(getattr(X, "columns", ())))
    given_X = None if X is None else feature_matrix(X, n, "probabilities", sparse=True)
    evaluator = Evaluator(read.bare, legend, groups=None if of_rows is None else of_rows[some])
    evaluator.add(y[some], p[some], None if given_X is None else given_X[some])
    if known is not None:
        checked = known >= 0
        evaluator.add_known(known[checked], p[checked], None if of_rows is None else of_rows[checked])
    return evaluator.result()


class Evaluator:
    """Scores of rows that come in pieces: `add` them, and ask for the `result`."""

    def __init__(
        self,
        transition: Transition,
        names: Legend | None = None,
        reconstruction: Reconstruction | None = None,
        groups: Any = None,
    ) -> None:
        self.transition, self.names, self.groups = transition, names or Legend(), groups
        self.reconstruction = reconstruction or reconstruction_of(transition)
        streamed = groups is None and self.reconstruction is not None
        self._weak = StreamedScores(transition, self.reconstruction) if streamed else None  # type: ignore[arg-type]
        self._clean = StreamedScores(identity(transition.num_classes))
        self._known_groups: Any = None
        self._whole: list[tuple[Coded, FloatArray]] = []
        self._some = Evenly(CHECKED_ROWS)
        self.labelled = 0

    def add(self, labels: Coded, p: FloatArray, X: Any = None) -> None:
        """Rows with a weak label; features X (n, d) with all of them or with none."""
        self.labelled += len(p)
        if self._weak is not None:
            self._weak.add(labels, p)
        elif self.reconstruction is not None:
            self._whole.append((labels, p))
        self._some.add(labels, p, X)

    def add_known(self, true: NDArray[np.int64], p: FloatArray, groups: Any = None) -> None:
        """Rows whose class is known; groups can only be given with all of them at once."""
        self._clean.add(true, p)
        self._known_groups = groups

    def result(self) -> Evaluation:
        """The scores of all rows that were added, and what speaks for and against them."""
        T, R = self.transition, self.reconstruction
        labels, p, X = self._some.kept()
        rows = None if self.groups is None else np.asarray(self.groups)
        scores: Scores = {}
        if self._weak is not None and self._weak.rows:
            scores = self._weak.scores()
        elif self._whole:
            all_labels, all_p = (np.concatenate(part) for part in zip(*self._whole, strict=True))
            scores = scores_of(T, all_labels, all_p, R or "auto", rows)
        clean: Scores = {}
        if self._clean.rows:
            clean = self._clean.scores() if self._known_groups is None else self._of_known()
        check, moved, bounds = None, dict[str, Sensitivity](), dict[str, Bounds]()
        if scores:
            if len(labels) > CHECKED_ROWS:
                some = np.linspace(0, len(labels) - 1, CHECKED_ROWS).round().astype(np.int64)
                labels, p, X = labels[some], p[some], None if X is None else X[some]
                rows = None if rows is None else rows[self._some.at(some)]
            elif rows is not None:
                rows = rows[self._some.at(np.arange(len(labels)))]
            names = {"classes": self.names.classes or None, "annotators": self.names.annotators or None}
            read = Encoded(torch.as_tensor(labels))
            moved = sensitivities(read, p, T, R or "auto", **names)
            if not is_soft(read.labels):  # the tests count labels
                check = check_transition(read, T, p, X=X, groups=rows)
            if check is not None and not check.plausible:
                bounds = bounds_without(T, labels, p, moved, rows)
        counts = {"all": self.labelled, "weak": self.labelled, "without_label": 0}
        counts |= {"clean": self._clean.rows} if self._clean.rows else {}
        return Evaluation(
            scores, clean, check, moved, bounds, T.name, counts, self.names, grouped=self.groups is not None
        )

    def _of_known(self) -> Scores:
        true, p = self._clean._take()
        return scores_of(self._clean.transition, true, p, groups=self._known_groups)


class Evenly:
    """Labels, probabilities and features of some rows, evenly spread over a table of any length: it may be sorted."""

    def __init__(self, enough: int) -> None:
        self.rows, self.stride, self.enough = 0, 1, enough
        self._kept: list[tuple[Any, ...]] = []  # (labels, p, X) of blocks; without X where there are no features

    def add(self, labels: Coded, p: FloatArray, X: Any = None) -> None:
        """The next rows, of which every `stride`-th is kept: a table that comes as a whole is not copied first."""
        held, n = sum(len(block[0]) for block in self._kept), len(p)
        while held + len(range(-self.rows % self.stride, n, self.stride)) > 2 * self.enough:
            self._kept = [tuple(part[::2].copy() for part in self._joined())] if self._kept else []
            self.stride, held = 2 * self.stride, (held + 1) // 2
        start = -self.rows % self.stride
        rows = [part[start :: self.stride] for part in (labels, p, X) if part is not None]
        self._kept.append(tuple(rows if self.stride == 1 else (part.copy() for part in rows)))
        self.rows += n

    def _joined(self) -> tuple[Any, ...]:
        parts = zip(*self._kept, strict=True)
        return tuple(vstack(part, format="csr") if issparse(part[0]) else np.concatenate(part) for part in parts)

    def kept(self) -> tuple[Coded, FloatArray, Any]:
        """The rows that were kept; None for features that there are none of."""
        if not self._kept:
            return np.empty(0), np.empty((0, 0)), None
        labels, p, *X = self._joined()
        return labels, p, X[0] if X else None

    def at(self, kept: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which of all rows these of the kept ones are."""
        return kept * self.stride
