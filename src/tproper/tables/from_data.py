"""The work of `tproper estimate`: columns of a table to T, and T to a file. `train --transition estimate` shares it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .._core import Mark, json_text, mark, write_file
from ..data import Bar, Table, short
from ..errors import InputError
from ..estimation import AnnotatorEstimate, Answers
from ..learn import Estimated, estimate_labels, transition_of
from ..plots import can_draw, compute_transition_map, draw_transition_map, figure, save_picture
from ..transitions import (
    SET_SEPARATOR,
    UNLABELED,
    AnnotatorTransition,
    EstimatedTransition,
    Transition,
    annotators,
    identity,
    partial_labels,
    transition_from_dict,
    transition_to_dict,
)
from .frames import read_table
from .labels import LabelCodec, class_codec, class_names, label_notes, members_of, typed
from .notes import warn
from .options import EstimateOptions
from .reading import LabelColumns, Read, label_columns, read
from .schema import encoder_of, identifier_notes, joined_names, listed_classes
from .terms import told

MOST_MAPS = 12
SILENCE = "no answer"  # of one whose silence is an answer
NO_PICTURE = "it needs labels that are not sets of classes, and the extra tproper[plots]"


@dataclass(frozen=True)
class Estimate:
    """T with the names that belong to it, in words, and what a file says beside it."""

    text: str
    transition: Transition
    classes: list[str]
    annotators: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    labels: list[tuple[Any, ...]] = field(default_factory=list)  # item, likeliest label, probability, answers

    def save(self, path: str | Path, plot: str | Path | None = None, since: Any = None) -> Path | None:
        """Write T with its names, and its picture beside it or to `plot`; the picture's path, where one can be drawn.

        `since`: what stood at the two places before the work, where nothing newer may be replaced.
        """
        out = Path(path)
        picture = out.with_suffix(".png") if plot is None else Path(plot)
        before, earlier = (mark(out), mark(picture)) if since is None else since
        write_file(out, (json_text(self.to_dict()) + "\n").encode(), since=before)
        return picture if draw(self, picture, earlier) else None

    def save_labels(self, path: str | Path, since: Any = None) -> None:
        """Write the label of each item, as CSV: item, likeliest label, its probability, how many answers."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("item", "label", "probability", "answers"))
        writer.writerows((item, label, f"{p:.6g}", answers) for item, label, p, answers in self.labels)
        write_file(Path(path), out.getvalue().encode(), since=since)

    def to_dict(self) -> dict[str, Any]:
        """What `tproper estimate` writes: `train --transition` reads it, names included."""
        named = {"columns": self.annotators} if self.annotators else {}
        return transition_to_dict(self.transition) | {"classes": typed(self.classes)} | named | self.facts


@told
def estimate_table(data: Any, source: str, **options: Any) -> Estimate:
    """T of a table's weak labels, as the command ``tproper estimate`` finds it.

    Parameters
    ----------
    data : path or frame
        See `tproper.read_table`.
    source : str
        What T is estimated from: "clean" (rows of known class), "features" (with clean rows, if any), "annotators",
        "pu" or "partial".
    label : str or list of str
        The column with the weak labels; one for each annotator.
    true_label, item, annotator, features_from, group : str, optional
        The columns of the true class, of the item and the annotator where every answer has a row of its own, of what
        rows belong together; and a second table with the features of every item.
    features, ignore : list of str, optional
        The feature columns, or all but these.
    classes : list of str, optional
        In the order of T's columns; for "pu" the positive one first.
    sampling, structure, seed
        As in `tproper.estimate_pu` and `tproper.estimate_transition`.

    Returns
    -------
    Estimate
        ``.transition``, ``.classes``, ``.annotators``, ``.text``; ``.save(path)`` writes the file that
        ``train --transition`` and `tproper.TableModel.fit` take, names included.

    Examples
    --------
    >>> import tproper as tp
    >>> table = {"label": ["a"] * 40 + ["b"] * 60, "truth": ["a"] * 35 + ["b"] * 60 + ["a"] * 5}
    >>> found = tp.estimate_table(table, "clean", label="label", true_label="truth")
    >>> found.classes, found.transition.matrix().round(1).tolist()
    (['a', 'b'], [[0.9, 0.1], [0.1, 0.9]])
    """
    return estimate_columns(read_table(data), EstimateOptions(source=str(source), **options))


def estimate_columns(data: Table, options: EstimateOptions) -> Estimate:
    """`estimate_table`, of a table that is open."""
    columns = label_columns(data, options)
    kind, label = str(options.source), options.label
    if columns.several and kind != "annotators":
        raise InputError(f"--label: expected one column to estimate T from {kind}, got {label!r}; use annotators")
    classes = listed_classes(options.classes)
    if kind == "pu":
        positive_negative(classes)
    if kind == "clean" and columns.true is None:
        raise InputError("--true-label: expected the column with the true classes, got none")
    if kind == "annotators":
        columns = columns.of_annotators()
    wants = kind in ("features", "pu")
    if kind == "annotators":
        wants = options.features is not None or columns.items is not None or options.ignore is not None
    features = columns.features(options.features, options.ignore) if wants else []
    if kind == "annotators" and not wants:
        _tell_unused(columns)
    table = read(columns, features)
    settings: dict[str, Any] = {"structure": options.structure} if kind in ("clean", "features") else {}
    settings |= {"sampling": options.sampling} if kind == "pu" else {}
    settings |= {"missing": options.missing} if kind == "annotators" else {}
    estimate = estimate_read(Question(kind, table, classes, options.seed, settings))
    warn([*label_notes(table.named, estimate.classes), *identifier_notes(table.X)])
    return estimate


def _tell_unused(columns: LabelColumns) -> None:
    """Without --features and --ignore the answers alone count: say what that leaves out, and how to use it."""
    numeric, text = columns.unused()
    if not numeric:
        return
    left = short([*text, *numeric])
    how = f"--ignore {joined_names(text)} (all columns but these)" if text else "--features all"
    note = (
        f"note: T comes from the answers alone; left out: {left}. To use features too, give {how}, or name some with "
        f"--features {joined_names(numeric[:2])}"
    )
    warn([note])


def draw(estimate: Estimate, path: Path, since: Mark | str) -> bool:
    """T as a heat map with intervals, one for each annotator (of the first twelve); whether it could be drawn."""
    T = estimate.transition
    parts = T.separate or [T]
    if not can_draw() or any(t.label_shape for t in parts):
        return False
    titles = estimate.annotators or ["P(label | class), with 95% intervals"]
    drawn = zip(parts[:MOST_MAPS], titles[:MOST_MAPS], strict=True)  # intervals of hundreds would take seconds
    maps = [compute_transition_map(t, estimate.classes, name) for t, name in drawn]
    columns = min(3, len(maps))
    rows = -(-len(maps) // columns)
    width = min(6.0, 1.5 + 0.55 * len(estimate.classes))
    canvas = figure(figsize=(width * columns, width * rows), layout="constrained")
    for i, data in enumerate(maps):
        draw_transition_map(canvas.add_subplot(rows, columns, i + 1), data)
    save_picture(canvas, path, since)
    return True


def choose_kind(table: Read) -> str:
    """What T of these labels can be estimated from."""
    if table.columns.several:
        return "annotators"
    if any(SET_SEPARATOR in text for text in table.used):
        return "partial"
    if len(set(members_of(table.used, sets=False)) - {UNLABELED}) == 1 and not table.true_names:
        return "pu"
    return "features"


@dataclass(frozen=True)
class Question:
    """What T is asked for: the kind of estimate, and the table that was read, with its features, if any."""

    kind: str
    table: Read
    classes: Sequence[str] | None
    seed: int
    settings: dict[str, Any] = field(default_factory=dict)

    def estimate(self, labels: Any, classes: Sequence[str], rows: NDArray[Any], **more: Any) -> Estimated:
        """What the estimation room makes of the encoded labels of some rows; features are at unit scale."""
        X, group = None, None if self.table.group is None else self.table.group[rows]
        if self.table.kinds:
            X = encoder_of(self.table.X, self.table.kinds).encode(self.table.X)[rows]
        return estimate_labels(
            self.kind, labels, len(classes), self.known(classes, rows), X, self.seed, group, **self.settings, **more
        )

    def known(self, classes: Sequence[str], rows: NDArray[Any]) -> NDArray[np.int64] | None:
        """The true classes of some rows, -1 where they are unknown; None without a column of them."""
        known = self.table.known(classes)
        return None if known is None else known[rows]


def estimate_read(question: Question) -> Estimate:
    """T of the labels that were read, by the estimator of this kind."""
    return {"annotators": _annotators, "pu": _pu, "partial": _partial}.get(question.kind, _noisy)(question)


def _noisy(question: Question) -> Estimate:
    """From rows of known class, from features, or from both."""
    table = question.table
    if question.kind == "clean" and table.columns.true is None:
        raise InputError("--true-label: expected the column with the true classes, got none")
    labels = members_of(table.used, sets=False)
    names = _classes(question.kind, labels, table, question.classes)
    words = [*names, *(n for n in labels if n not in names)]
    weak, absent = table.encode(class_codec(words))
    rows = int((~absent).sum())
    with Bar(f"estimating T from {rows:,} rows"):
        T = transition_of(question.estimate(weak[~absent], names, ~absent))
    truth = question.known(names, ~absent)
    own = words[: T.num_weak_labels]
    if own != names:  # labels with names of their own
        plain = transition_to_dict(T) | {"weak_labels": own}
        del plain["label_kind"]
        T = transition_from_dict(plain)
    clean = 0 if truth is None else int((truth >= 0).sum())
    seen = set() if truth is None else set(truth.tolist())
    lacking = [name for z, name in enumerate(names) if z not in seen]
    if lacking and question.kind == "clean":
        warn([f"no row of class {short(lacking)} is known: T's column is what other classes suggest"])
    head = f"classes {short(names, 20)}\nfrom {rows:,} labels, {clean:,} of them in rows of known class"
    return Estimate(
        f"{cast(EstimatedTransition, T).describe(names)}\n{head}", T, names, facts={"rows": rows, "clean_rows": clean}
    )


def _classes(kind: str, labels: list[str], table: Read, classes: Sequence[str] | None) -> list[str]:
    """The classes in order: those given, or the names of true classes, or those of labels."""
    if classes is not None:
        return list(classes)
    known = members_of(table.true_names, sets=False)
    every = class_names([*labels, *known], sets=False)
    if kind == "features":
        return every
    strange = [name for name in labels if name not in known]
    if strange:
        raise InputError(
            f"--classes: expected the classes in order, got none, and the labels {short(strange)} name no true class "
            "in the table"
        )
    return known


def _partial(question: Question) -> Estimate:
    """Candidate sets, written a|b|c: how often a wrong class is among them."""
    table, classes = question.table, question.classes
    seen = members_of(table.used, sets=True)
    names = class_names(table.used, sets=True) if classes is None else list(classes)
    strange = [name for name in seen if name not in names]
    if strange:
        raise InputError(f"column {table.columns.label!r}: expected classes among {short(names)}, got {short(strange)}")
    masks, absent = table.encode(LabelCodec(partial_labels(len(names), 0.5), names))
    T = transition_of(question.estimate(masks[~absent], names, ~absent))
    return Estimate(f"{T}\nclasses {short(names, 20)}", T, names, facts={"rows": int((~absent).sum())})


def positive_negative(classes: Sequence[str] | None) -> list[str]:
    """The two classes of positive-unlabeled data."""
    if classes is None or len(classes) != 2:
        given = "none" if classes is None else ",".join(classes)
        raise InputError(f"--classes: expected POSITIVE,NEGATIVE for positive-unlabeled data, got {given}")
    return list(classes)


def _pu(question: Question) -> Estimate:
    """Labeled rows are positive; the others may be either."""
    names = positive_negative(question.classes)
    weak, absent = question.table.encode(class_codec([*names, UNLABELED]))
    labels = np.where(absent | (weak > 0), 1, 0)
    with Bar(f"estimating the class prior from {len(labels):,} rows"):
        pu: Any = question.estimate(labels, names, np.arange(len(labels)))
    facts = {"rows": len(labels), "prior": pu.prior.to_dict(), "rate": pu.rate.to_dict()}
    return Estimate(str(pu), pu.transition, names, facts=facts)


def _annotators(question: Question) -> Estimate:
    """Answers side by side, or one answer per row."""
    table, classes = question.table, question.classes
    names = class_names([*table.used, *table.true_names], sets=False) if classes is None else list(classes)
    if len(names) < 2:
        raise InputError(f"--label: expected answers that name two or more classes, got {short(names) or 'none'}")
    answers = _answers(table, names)
    total = 100 if table.kinds else None  # without features it takes a moment
    with Bar(f"estimating T of annotators from {len(answers):,} answers", total, "%") as bar:
        # with one answer per row, the items that have some
        crowd = question.estimate(answers, names, answers.items, progress=lambda share: bar.at(round(100 * share)))
    assert isinstance(crowd, AnnotatorEstimate)
    who = [str(a) for a in answers.annotators]
    versus = crowd.versus_vote
    facts = {
        "prior": crowd.prior.tolist(),
        "notes": crowd.notes,
        "missing": {str(g.annotator): [g.meaning, g.why] for g in crowd.missing},
        "versus_vote": versus.to_dict(),
    }
    items = table.answer_rows.items if table.answer_rows is not None else [str(row + 1) for row in table.rows.tolist()]
    top, times = crowd.posteriors.argmax(axis=1), np.bincount(answers.item, minlength=len(answers.items))
    best, places = crowd.posteriors.max(axis=1).tolist(), answers.items.tolist()
    labels = [(items[i], names[z], p, k) for i, z, p, k in zip(places, top.tolist(), best, times.tolist(), strict=True)]
    text = f"{crowd.describe(names)}\nvote  {versus}"
    return Estimate(text, _named(crowd.transition, names), names, who, facts, labels)


def _named(T: AnnotatorTransition, names: Sequence[str]) -> Transition:
    """T of annotators, where one whose silence is an answer has a name for it beside those of the classes."""
    parts = []
    for part, silence in zip(T.transitions, T.silence.tolist(), strict=True):
        plain = transition_to_dict(part) | {"weak_labels": [*names, SILENCE]}
        plain.pop("label_kind", None)
        parts.append(transition_from_dict(plain) if silence == len(names) else part)
    return AnnotatorTransition(parts, T.rho, T.unidentified, T.silence.tolist())


def _answers(table: Read, names: Sequence[str]) -> Answers:
    """Who answered what, by class; items are the rows of `got`."""
    if table.answer_rows is None:
        assert table.side_by_side is not None
        who = table.side_by_side.names
        codec = LabelCodec(annotators([identity(len(names))] * len(who)), names, annotators=who)
        out = Answers.from_table(codec.encode_answers(table.side_by_side)[0])
        out.annotators = np.array(who)
        return out
    rows = table.answer_rows
    codes, absent = class_codec(names).encode_texts(rows.codes, rows.values, table.columns.label)
    given = np.flatnonzero(~absent)
    return Answers(rows.item[given], np.array(rows.annotators)[rows.who[given]], codes[given])
