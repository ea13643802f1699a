"""Weak labels in a table: text on one side, what a transition takes on the other.

In a file a label is the text of its name (`transitions.vocabulary`); candidate sets are written ``a|b|c``. Empty cells
(and NA, N/A, NaN, nan, null) are missing labels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import FloatArray
from ..data import MISSING, nearest, short, texts
from ..errors import InputError
from ..evaluation import Names
from ..transitions import (
    SET_SEPARATOR,
    AnnotatorTransition,
    CandidateSetTransition,
    StackedTransition,
    Transition,
    Vocabulary,
    identity,
)
from .resolving import check_annotators

if TYPE_CHECKING:
    import pyarrow as pa

Encoded = NDArray[Any]  # int64 (n,), bool (n, K) for candidate sets, or int64 (n, m) for answers, -1 = none


NONE = "-1"


@dataclass(frozen=True)
class Answered:
    """Cells of several annotators, as text."""

    codes: NDArray[np.int64]  # (n, k): places among the values; -1 = null
    values: list[str]
    names: list[str]  # of the k annotators
    places: NDArray[np.int64] | None = None  # (n, k): rows of the table, from 0, where answers have rows of their own

    @classmethod
    def of(cls, columns: dict[str, pa.Array]) -> Answered:
        """Columns side by side, one for each annotator."""
        place: dict[str, int] = {}
        parts = []
        for column in columns.values():
            codes, values = texts(column)
            own = np.array([place.setdefault(v, len(place)) for v in values] + [-1], dtype=np.int64)
            parts.append(own[codes])
        out = np.stack(parts, axis=1)
        if NONE in place and all(re.fullmatch(r"-?\d+", text) for text in place if text not in MISSING):
            out[out == place[NONE]] = -1  # among numbers it says that there is no answer
        return cls(out, list(place), list(columns))


class _Texts(Vocabulary):
    """How the labels of one source are written."""

    def __init__(self, transition: Transition, classes: Sequence[str]) -> None:
        super().__init__(transition, classes)
        self.T = transition

    @cached_property
    def rows(self) -> dict[str, int]:
        """The rows of T by the text of their names."""
        names = {str(name): y for y, name in enumerate(self.names)}
        return names | {name: y for name, y in self.index.items() if isinstance(name, str)}

    def knows(self, text: str) -> bool:
        """Whether the text is a name, and so not a missing value however it is spelt."""
        return text in (self.class_index if self.masks or self.sets else self.rows)

    def find(self, text: str) -> int | NDArray[np.bool_]:
        """The row of T, or the candidate mask; a ValueError says what was expected."""
        label = self._members(text) if self.masks or self.sets else self._row(text)
        if isinstance(self.T, CandidateSetTransition):
            possible = np.isfinite(self.T.log_weight[int(np.sum(label))])
        elif self.masks:
            rows = self.T.evidence(torch.as_tensor(label)[None]).logs(torch.float64)
            possible = bool(torch.isfinite(rows).any())
        else:
            possible = np.isfinite(self._log_row_maxima[label])
        if not possible:
            raise InputError(
                f"expected a label that occurs under {self.T.name}, got {text!r}, of probability 0 in every class"
            )
        return label

    @cached_property
    def _log_row_maxima(self) -> FloatArray:
        return self.T.log_row_maxima()

    def _row(self, text: str) -> int:
        if text not in self.rows:
            known = list(self.rows)
            raise InputError(f"expected one of {short(known)}, got {text!r}{nearest(text, known)}")
        return self.rows[text]

    def _members(self, text: str) -> int | NDArray[np.bool_]:
        members = [part.strip() for part in text.split(SET_SEPARATOR)]
        unknown = [m for m in members if m not in self.class_index]
        if unknown:
            raise InputError(
                f"expected classes among {short(self.classes)} separated by {SET_SEPARATOR!r}, got {text!r}"
                f"{nearest(unknown[0], self.classes)}"
            )
        if self.masks:
            return np.isin(self.classes, members)
        if frozenset(members) not in self.index:
            raise InputError(f"expected a set that the transition lists, got {text!r}")
        return self.index[frozenset(members)]

    def text(self, label: Any) -> str:
        """The name of a row of T, or of a candidate mask."""
        if self.masks:
            return SET_SEPARATOR.join(self.classes[z] for z in np.flatnonzero(label))
        name = self.names[int(label)]
        return SET_SEPARATOR.join(c for c in self.classes if c in name) if self.sets else str(name)


def class_codec(classes: Sequence[str]) -> LabelCodec:
    """Reads true classes: labels of T = I."""
    return LabelCodec(identity(len(classes)), classes)


class LabelCodec:
    """Label columns to encoded labels and back, for one transition, one per source, or one per annotator."""

    def __init__(
        self,
        transition: Transition,
        classes: Sequence[str],
        sources: Sequence[str] = (),
        annotators: Sequence[str] = (),
    ) -> None:
        self.transition = transition
        self.classes = list(classes)
        self.sources = list(sources)
        self.annotators = list(annotators)  # in the order of T
        parts = [transition]
        if sources and isinstance(transition, StackedTransition):
            parts = transition.sources
        elif annotators and isinstance(transition, AnnotatorTransition):
            parts = transition.transitions
        self._vocabularies = [_Texts(t, classes) for t in parts]
        if any(SET_SEPARATOR in name for name in classes) and any(v.masks or v.sets for v in self._vocabularies):
            raise InputError(
                f"--classes: expected names without {SET_SEPARATOR!r}, which separates candidates, got one"
            )

    def known_names(self) -> Names:
        """What numbers of classes, annotators and sources stand for."""
        return Names(self.classes, self.annotators, self.sources)

    @property
    def masks(self) -> bool:
        """Whether labels are (n, K) candidate masks."""
        return not self.sources and not self.annotators and self._vocabularies[0].masks

    def encode_answers(self, answered: Answered, first_row: int = 1) -> tuple[Encoded, NDArray[np.bool_]]:
        """Answers (n, m) by the annotators' names, -1 where there is none; and the rows without any."""
        check_annotators(answered.names, self.annotators, "the model or --transition")
        out = np.full((len(answered.codes), len(self.annotators)), -1, dtype=np.int64)
        place = {name: a for a, name in enumerate(self.annotators)}
        for j, name in enumerate(answered.names):
            a, rows = place[name], None if answered.places is None else answered.places[:, j]
            encoded, absent = self._encode(a, answered.codes[:, j], answered.values, first_row, name, rows)
            out[:, a] = np.where(absent, -1, encoded)
        silence = isinstance(self.transition, AnnotatorTransition) and bool((self.transition.silence >= 0).any())
        return out, np.asarray((out < 0).all(axis=1) & (not silence))

    def encode_texts(
        self, codes: NDArray[np.int64], values: list[str], column: str, rows: NDArray[np.int64] | None = None
    ) -> tuple[Encoded, NDArray[np.bool_]]:
        """Labels of one source that are texts already."""
        return self._encode(0, codes, values, 1, column, rows)

    def encode(
        self, labels: pa.Array, sources: pa.Array | None = None, first_row: int = 1, column: str = "label"
    ) -> tuple[Encoded, NDArray[np.bool_]]:
        """Encoded labels, and which rows have none (their encoding is 0 and means nothing)."""
        label_codes, label_values = texts(labels)
        if sources is None:
            return self._encode(0, label_codes, label_values, first_row, column)
        which = self._sources(sources, first_row)
        out = np.zeros(len(label_codes), dtype=np.int64)
        missing = np.zeros(len(label_codes), dtype=bool)
        assert isinstance(self.transition, StackedTransition)
        for d in np.unique(which):
            rows = np.flatnonzero(which == d)
            encoded, absent = self._encode(int(d), label_codes[rows], label_values, first_row, column, rows)
            if self._vocabularies[d].masks:
                encoded[absent] = True  # any valid mask will do
                encoded = self.transition.sources[d].row_index(torch.as_tensor(encoded)).numpy()
            out[rows] = self.transition.offsets[d] + encoded
            missing[rows] = absent
        return out, missing

    def _sources(self, column: pa.Array, first_row: int) -> NDArray[np.int64]:
        codes, values = texts(column)
        known = {name: d for d, name in enumerate(self.sources)}
        table = np.array([known.get(v, -1) for v in values] + [-1])
        sources = table[codes]
        if (sources < 0).any():
            row = int((sources < 0).argmax())
            got = "nothing" if codes[row] < 0 else repr(values[codes[row]])
            raise InputError(
                f"--source-column: expected one of {short(self.sources)}, got {got} at row {first_row + row}"
            )
        return sources

    def _encode(
        self,
        d: int,
        codes: NDArray[np.int64],
        values: list[str],
        first_row: int,
        column: str,
        rows: NDArray[np.int64] | None = None,
    ) -> tuple[Encoded, NDArray[np.bool_]]:
        vocabulary = self._vocabularies[d]
        shape = (len(values) + 1, len(self.classes)) if vocabulary.masks else (len(values) + 1,)
        table = np.zeros(shape, dtype=bool if vocabulary.masks else np.int64)
        absent = np.zeros(len(values) + 1, dtype=bool)
        absent[-1] = True  # where nulls (code -1) look
        for code in np.unique(codes[codes >= 0]):
            text = values[code]
            if text in MISSING and not vocabulary.knows(text):
                absent[code] = True
                continue
            try:
                table[code] = vocabulary.find(text)
            except ValueError as error:
                position = int((codes == code).argmax())
                row = first_row + (position if rows is None else int(rows[position]))
                before, got, after = str(error).rpartition(f"got {text!r}")
                raise InputError(f"column {column!r}: {before}{got} at row {row}{after}") from None
        missing = absent[codes]
        encoded = table[codes]
        if vocabulary.T.positive_unlabeled:  # no label is the label "unlabeled"
            encoded[missing] = 1
            missing = np.zeros_like(missing)
        return encoded, missing

    def decode(self, encoded: Encoded) -> tuple[list[str], list[str] | None]:
        """The texts of encoded labels, and their sources where there are several."""
        distinct, inverse = np.unique(encoded, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        if not self.sources:
            names = [self._vocabularies[0].text(label) for label in distinct]
            return [names[i] for i in inverse], None
        pairs = [self._pair(label) for label in distinct]
        return [pairs[i][1] for i in inverse], [pairs[i][0] for i in inverse]

    def _pair(self, label: Any) -> tuple[str, str]:
        assert isinstance(self.transition, StackedTransition)
        d, y = (int(v) for v in self.transition.pairs([int(label)])[0])
        vocabulary = self._vocabularies[d]
        if vocabulary.masks:
            members = sorted(self.transition.sources[d].weak_labels[y])
            return self.sources[d], SET_SEPARATOR.join(self.classes[z] for z in members)
        return self.sources[d], vocabulary.text(y)

    def name(self, label: Any, annotator: int = 0) -> str:
        """One encoded label, or an annotator's answer, in words."""
        return ": ".join(self._pair(label)) if self.sources else self._vocabularies[annotator].text(label)
