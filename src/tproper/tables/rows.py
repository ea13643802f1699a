"""The rows that a model is trained on: from what was read to labels that a loss takes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import warn
from ..data import MISSING, texts
from ..errors import InputError
from ..inputs import Columns
from ..learn import KINDS
from ..metrics import forward_risk
from ..transitions import (
    ENUMERATION_LIMIT,
    Encoded,
    Transition,
)
from .from_data import Estimate, Question, choose_kind, estimate_read
from .labels import Coded, LabelCodec, blank_label, label_notes, resolve, resolve_answers
from .notes import recorded_warnings
from .options import GAPS, Settings
from .reading import Read
from .schema import identifier_notes, joined_names

ESTIMATE = "estimate"  # the --transition that asks for T from the table itself


@dataclass
class Rows:
    """A training table in memory: features, encoded weak labels, and how they came about."""

    X: Columns  # as in the file
    kinds: dict[str, str]  # what each feature is
    left_out: list[str]  # columns that name rows, and are no features
    labels: Coded  # what the loss is given, for `transition`
    transition: Transition
    own: Coded  # as the codec's transition takes them; where `silent` they mean nothing
    silent: NDArray[np.bool_]  # rows without a weak label: of known class, or kept as uninformative
    codec: LabelCodec
    dropped: int  # rows without a label that were left out
    notes: list[str]  # what looks odd in the labels
    true: NDArray[np.int64] | None = None  # the known classes, -1 where unknown
    group: NDArray[np.int64] | None = None  # rows that belong together
    told: Sequence[str] | None = None  # the classes in the order they were given in, which is that of other T
    estimate: Estimate | None = None  # where T was estimated from this table

    def __len__(self) -> int:
        return len(self.silent)

    def let_go(self) -> None:
        """Forget the columns as they stand in the file."""
        self.X = Columns(np.empty((0, len(self.X.numeric))), self.X.numeric, {})

    @property
    def counts(self) -> dict[str, int]:
        """How often each label occurs, by name, the most frequent first; answers are counted whoever gave them."""
        own = self.own[~self.silent]
        if self.codec.annotators:
            named: Counter[str] = Counter()
            for a in range(own.shape[1]):
                distinct, count = np.unique(own[own[:, a] >= 0, a], return_counts=True)
                for y, n in zip(distinct, count, strict=True):
                    named[self.codec.name(y, a)] += int(n)
            out = dict(named.most_common())
        else:
            distinct, count = np.unique(own, axis=0, return_counts=True)
            order = np.argsort(-count, kind="stable")
            out = {self.codec.name(distinct[i]): int(count[i]) for i in order}
        return out | ({"no label": int(self.silent.sum())} if self.silent.any() else {})

    @property
    def blank(self) -> int:
        """How many rows without any label were kept."""
        return int((self.silent if self.true is None else self.silent & (self.true < 0)).sum())

    @property
    def unlabelled(self) -> NDArray[np.bool_]:
        """Rows (n,) that are kept although no source labels them and their class is not known."""
        none = (self.own < 0).all(axis=1) if self.codec.annotators else self.silent
        return np.asarray(none if self.true is None else none & (self.true < 0))

    @property
    def answers(self) -> dict[str, int]:
        """How many answers each annotator gave."""
        return {name: int((self.own[:, a] >= 0).sum()) for a, name in enumerate(self.codec.annotators)}


def make_rows(
    table: Read,
    specs: dict[str, Any],
    classes: Sequence[str] | None,
    missing: str,
    settings: Settings,
) -> Rows:
    """Names become labels, T is resolved or estimated, rows that say nothing are left out or kept as blank."""
    columns = table.columns
    if not set(table.used) - MISSING:
        n = len(table.rows)
        raise InputError(f"--label: expected labels in the column {columns.label!r}, got none in {n} rows")
    with recorded_warnings() as doubts:  # what an estimate of T cannot tell belongs in the card
        told, estimate = _codec(table, specs, classes, settings.seed, missing)
    codec = told.in_order()
    labels, absent = table.encode(codec)
    true = table.known(codec.classes)
    keep = np.ones(len(absent), dtype=bool)
    if missing != "uninformative":
        keep = ~absent if true is None else ~absent | (true >= 0)
    X, labels, absent = table.X[keep], labels[keep], absent[keep]
    true = None if true is None else true[keep]
    group = None if table.group is None else table.group[keep]
    if len(X) < 2:
        raise InputError(f"{columns.table.path}: expected at least two rows with a label, got {len(X)}")
    _check_variety(labels[~absent], codec, columns.label)
    blank = absent if true is None else absent & (true < 0)  # where the class is known the label adds nothing
    full, given = codec.transition, labels
    if blank.any():
        full, given = keep_blank(full, labels, blank, settings.loss)
    notes = doubts + label_notes(table.named, codec.classes) + identifier_notes(table.X)
    notes += class_notes(X[~absent], codec, labels[~absent])
    return Rows(
        X,
        table.kinds,
        table.left_out,
        given,
        full,
        labels,
        absent,
        codec,
        int((~keep).sum()),
        notes,
        true,
        group,
        told.classes,
        estimate,
    )


def _tell_of_positives(table: Read, classes: Sequence[str] | None) -> None:
    """Two classes, the positive one first, and both of them among the labels: they may be positives and the rest."""
    two = classes is not None and len(classes) == 2 and list(classes) != sorted(classes)
    if two and not table.columns.several and set(table.used) - MISSING == set(classes or ()) and not table.true_names:
        positive, other = classes or ("", "")
        warn(
            f"labels {positive!r} and {other!r} are read as noisy labels of both classes; where {other!r} means that "
            "nothing is known of a row, ask for --transition estimate:pu"
        )


def _codec(
    table: Read, specs: dict[str, Any], classes: Sequence[str] | None, seed: int, missing: str
) -> tuple[LabelCodec, Estimate | None]:
    """How labels are read: by the T of the specs, or by one that is estimated from these rows."""
    kind = estimate_kind(specs)
    gaps = missing in GAPS
    if gaps and (kind is None or not table.columns.several):
        raise InputError(
            f"--missing: expected drop or uninformative, got {missing!r}, which is for --transition estimate with "
            "answers of several annotators"
        )
    if kind is not None:
        settings = {"missing": missing} if gaps else {}
        if not kind:
            _tell_of_positives(table, classes)
        estimate = estimate_read(Question(kind or choose_kind(table), table, classes, seed, settings))
        return LabelCodec(estimate.transition, estimate.classes, annotators=estimate.annotators), estimate
    if table.columns.several:
        assert table.answered is not None
        T, names, who = resolve_answers(specs, table.answered.names, table.used, classes, table.true_names)
        return LabelCodec(T, names, annotators=who), None
    shares = None
    if table.source is not None:
        codes, values = texts(table.source)
        times = Counter(values[c] for c in codes if c >= 0)
        shares = {name: n / max(sum(times[n] for n in specs), 1) for name, n in times.items()}
    transition, names = resolve(specs, table.used, classes, shares, truth=table.true_names)
    return LabelCodec(transition, names, list(specs) if table.source is not None else ()), None


def estimate_kind(specs: dict[str, Any]) -> str | None:
    """The KIND in ``estimate:KIND``, "" where ``estimate`` leaves it open, None for any other spec."""
    asked = [spec for spec in specs.values() if isinstance(spec, str) and spec.split(":")[0].strip() == ESTIMATE]
    if not asked:
        return None
    if list(specs) != [""]:
        raise InputError(
            "--transition: expected estimate once, for all labels, got it for one source; give answers of several "
            "annotators as columns (--label A,B,C) or with --item and --annotator"
        )
    kind = asked[0].partition(":")[2].strip()
    if kind and kind not in KINDS:
        raise InputError(f"--transition: expected estimate:KIND with KIND one of {', '.join(KINDS)}, got {asked[0]!r}")
    return kind


def _check_variety(present: Coded, codec: LabelCodec, column: str) -> None:
    if codec.annotators:
        return  # an annotator may name one class alone; a class that nobody names is the estimate's to see
    if len(np.unique(present, axis=0)) < 2:
        only = codec.name(present[0]) if len(present) else "none"
        raise InputError(f"--label: expected at least two different labels in the column {column!r}, got only {only!r}")


def class_notes(X: Columns, codec: LabelCodec, labels: Coded) -> list[str]:
    """Columns that hold the numbers by which classes are named, and tell of the labels: perhaps the class itself.

    As classes they must make the labels likelier than their own shares do; a feature that happens to have as many
    values does not. Two classes are left alone: good features of two values are nothing odd.
    """
    if not len(X) or len(codec.classes) < 3 or not all(re.fullmatch(r"-?\d{1,9}", name) for name in codec.classes):
        return []
    numbers, T, out = np.array(codec.classes, dtype=np.float64), codec.transition, []
    for name, column in zip(X.numeric, X.numbers.T, strict=True):
        if column[0] in numbers and np.array_equal(np.unique(column), np.sort(numbers)):
            q = (column[:, None] == numbers).astype(np.float64)
            shares = np.tile(q.mean(axis=0), (len(q), 1))
            read = Encoded(torch.as_tensor(labels))
            if forward_risk(read, q, T) < forward_risk(read, shares, T):
                out.append(
                    f"column {name!r} holds the numbers that the classes are named by, tells much of the labels, and "
                    f"is a feature; if it is the class itself, leave it out with --ignore {joined_names([name])}"
                )
    return out


def keep_blank(
    transition: Transition, labels: Coded, absent: NDArray[np.bool_], loss: str | None
) -> tuple[Transition, Coded]:
    """Missing labels as labels that say nothing.

    With candidate sets and forward correction that is the set of all classes, whose loss is a constant. Elsewhere T
    gets one more row, "no label", with the probability that a label is missing: the targets of the other labels grow to
    make up for it, so that the loss stays proper.
    """
    if transition.separate:
        return transition, labels  # a row without answers says nothing as it is
    full = transition.vacuous
    if full is not None:
        filled = labels.copy()
        if loss in (None, "forward"):
            filled[absent] = full.numpy()
            return transition, filled
        if transition.num_classes > ENUMERATION_LIMIT:
            raise InputError(
                f"--missing: expected drop for candidate sets of more than {ENUMERATION_LIMIT} classes with this loss, "
                "got uninformative; --loss forward keeps them"
            )
        filled[absent] = labels[~absent][0]
        labels = transition.row_index(torch.as_tensor(filled)).numpy()
    rows = labels.copy()
    rows[absent] = transition.num_weak_labels
    return blank_label(transition, float(absent.mean())), rows
