"""Weak labels in a table: text on one side, what a transition takes on the other.

In a file a label is the text of its name (`transitions.vocabulary`); candidate sets are written ``a|b|c``. Empty cells
(and NA, N/A, NaN, nan, null) are missing labels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import FloatArray
from ..data import MISSING, nearest, short, texts
from ..transitions import (
    SET_SEPARATOR,
    CandidateSetTransition,
    StackedTransition,
    Transition,
    UniformTransition,
    UnknownSizeError,
    Vocabulary,
    multi_source,
    parse_transition,
)

if TYPE_CHECKING:
    import pyarrow as pa

Encoded = NDArray[Any]  # int64 (n,), or bool (n, K) for candidate sets


class _Texts(Vocabulary):
    """How the labels of one source are written."""

    def __init__(self, transition: Transition, classes: Sequence[str]) -> None:
        super().__init__(transition, classes)
        self.of = transition

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
        T = self.of
        if isinstance(T, CandidateSetTransition):
            possible = np.isfinite(T.log_weight[int(np.sum(label))])
        else:
            possible = np.isfinite(self._log_row_maxima[label])
        if not possible:
            raise ValueError(
                f"expected a label that occurs under {T.name}, got {text!r}, of probability 0 in every class"
            )
        return label

    @cached_property
    def _log_row_maxima(self) -> FloatArray:
        return self.of.log_row_maxima()

    def _row(self, text: str) -> int:
        if text not in self.rows:
            known = list(self.rows)
            raise ValueError(f"expected one of {short(known)}, got {text!r}{nearest(text, known)}")
        return self.rows[text]

    def _members(self, text: str) -> int | NDArray[np.bool_]:
        members = [part.strip() for part in text.split(SET_SEPARATOR)]
        unknown = [m for m in members if m not in self.class_index]
        if unknown:
            raise ValueError(
                f"expected classes among {short(self.classes)} separated by {SET_SEPARATOR!r}, got {text!r}"
                f"{nearest(unknown[0], self.classes)}"
            )
        if self.masks:
            return np.isin(self.classes, members)
        if frozenset(members) not in self.index:
            raise ValueError(f"expected a set that the transition lists, got {text!r}")
        return self.index[frozenset(members)]

    def text(self, label: Any) -> str:
        """The name of a row of T, or of a candidate mask."""
        if self.masks:
            return SET_SEPARATOR.join(self.classes[z] for z in np.flatnonzero(label))
        name = self.names[int(label)]
        return SET_SEPARATOR.join(c for c in self.classes if c in name) if self.sets else str(name)


class LabelCodec:
    """Label columns to encoded labels and back, for one transition or one per source."""

    def __init__(self, transition: Transition, classes: Sequence[str], sources: Sequence[str] = ()) -> None:
        self.transition = transition
        self.classes = list(classes)
        self.sources = list(sources)
        parts = transition.sources if sources and isinstance(transition, StackedTransition) else [transition]
        self._vocabularies = [_Texts(t, classes) for t in parts]
        if any(SET_SEPARATOR in name for name in classes) and any(v.masks or v.sets for v in self._vocabularies):
            raise ValueError(
                f"--classes: expected names without {SET_SEPARATOR!r}, which separates candidates, got one"
            )

    @property
    def masks(self) -> bool:
        """Whether labels are (n, K) candidate masks."""
        return not self.sources and self._vocabularies[0].masks

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
            found, absent = self._encode(int(d), label_codes[rows], label_values, first_row, column, rows)
            if self._vocabularies[d].masks:
                found[absent] = True  # any valid mask will do
                found = self.transition.sources[d].row_index(torch.as_tensor(found)).numpy()
            out[rows] = self.transition.offsets[d] + found
            missing[rows] = absent
        return out, missing

    def _sources(self, column: pa.Array, first_row: int) -> NDArray[np.int64]:
        codes, values = texts(column)
        known = {name: d for d, name in enumerate(self.sources)}
        table = np.array([known.get(v, -1) for v in values] + [-1])
        found = table[codes]
        if (found < 0).any():
            row = int((found < 0).argmax())
            got = "nothing" if codes[row] < 0 else repr(values[codes[row]])
            raise ValueError(
                f"--source-column: expected one of {short(self.sources)}, got {got} at row {first_row + row}"
            )
        return found

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
                raise ValueError(f"column {column!r}: {error} at row {row}") from None
        missing = absent[codes]
        encoded = table[codes]
        if vocabulary.of.positive_unlabeled:  # no label is the label "unlabeled"
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

    def name(self, label: Any) -> str:
        """One encoded label in words, for counts and cards."""
        return ": ".join(self._pair(label)) if self.sources else self._vocabularies[0].text(label)


def parse_sources(specs: Sequence[str], source_column: str | None) -> dict[str, str]:
    """``--transition``: one spec, or NAME=SPEC once per source; keyed by source ("" where there is one)."""
    named = [re.fullmatch(r"([^:=,]+)=(.+)", s) for s in specs]
    if source_column is None:
        if len(specs) != 1:
            raise ValueError(f"--transition: expected it once (or --source-column with it), got it {len(specs)} times")
        if named[0] and not Path(specs[0]).is_file():  # a path may have = in it
            raise ValueError(f"--source-column: expected it beside --transition {specs[0]!r}, which names a source")
        return {"": specs[0]}
    if not all(named):
        raise ValueError("--transition: expected NAME=SPEC once per source when --source-column is given")
    out = {m.group(1).strip(): m.group(2) for m in named if m}
    if len(out) != len(specs):
        raise ValueError("--transition: expected every source once, got one twice")
    return out


def members_of(values: Iterable[str], sets: bool) -> list[str]:
    """The distinct names in label texts, sorted: by value where all are integers, else by name."""
    found = {part.strip() for v in values for part in (v.split(SET_SEPARATOR) if sets else [v])} - MISSING
    if found and all(re.fullmatch(r"-?\d+", name) for name in found):
        return sorted(found, key=int)
    return sorted(found)


def resolve(
    specs: dict[str, str],
    values: Sequence[str],
    classes: Sequence[str] | None,
    shares: dict[str, float] | None = None,
    clean: bool = False,
) -> tuple[Transition, list[str]]:
    """The transition and the class names, from the specs, the label texts of the table and ``--classes``.

    Without ``--classes`` the labels name the classes. That is refused where the order of the classes matters and the
    labels do not tell it (positive-unlabeled data, a matrix), or where a class may not occur among them.
    `clean` says that the labels are true classes, whatever labels T has.
    """
    classes = classes_of_files(list(specs.values())) if classes is None else classes
    if classes is not None:
        names = list(classes)
        if len(names) < 2 or len(set(names)) != len(names) or any(n in ("", SET_SEPARATOR) for n in names):
            raise ValueError(
                f"--classes: expected two or more different names separated by commas, got {','.join(names)!r}"
            )
        parts = [parse_transition(spec, len(names)) for spec in specs.values()]
        return _stack(parts, list(specs), shares), names
    found = members_of(values, sets=not clean and any(SET_SEPARATOR in v for v in values))
    parts = [_sized(spec, found) for spec in specs.values()]
    K = parts[0].num_classes
    own_labels = all(t.num_weak_labels != K and not isinstance(t, CandidateSetTransition) for t in parts)
    if own_labels and not clean and len(found) != K:
        return _stack(parts, list(specs), shares), [str(z) for z in range(K)]  # labels do not name classes
    if len(found) != K:
        raise ValueError(
            f"--transition: {parts[0].name} has {K} classes, but the labels name {len(found)} ({short(found)}); "
            "list every class, in order, with --classes"
        )
    symmetric = all(isinstance(t, (UniformTransition, CandidateSetTransition)) for t in parts)
    if not symmetric and (K == 2 or found != [str(z) for z in range(K)]):
        order = "POSITIVE,NEGATIVE" if K == 2 else "the order of its columns"
        raise ValueError(f"--classes: expected the classes of {parts[0].name} in order ({order}), got none")
    return _stack(parts, list(specs), shares), found


def classes_of_files(specs: Sequence[str]) -> list[str] | None:
    """The classes that files of `tproper estimate` name, in the order of T's columns; None where a spec names none."""
    told = []
    for spec in specs:
        path = Path(spec)
        try:
            content = json.loads(path.read_text(encoding="utf-8-sig")) if path.suffix.lower() == ".json" else None
        except (OSError, ValueError, RecursionError):  # reading T says what is wrong with it
            content = None
        names = content.get("classes") if isinstance(content, dict) else None
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            return None
        told.append(names)
    if any(names != told[0] for names in told):
        raise ValueError(f"--transition: expected files with the same classes, got {short(specs)}; use --classes")
    return told[0]


def _sized(spec: str, found: list[str]) -> Transition:
    try:
        return parse_transition(spec)
    except UnknownSizeError:  # the number of classes was left to the data
        if len(found) < 2:
            raise ValueError(
                f"--label: expected labels that name two or more classes, got {short(found) or 'none'}; use --classes"
            ) from None
        return parse_transition(spec, len(found))


def _stack(parts: list[Transition], names: list[str], shares: dict[str, float] | None) -> Transition:
    if names == [""]:
        return parts[0]
    if shares is None:
        return multi_source(parts)
    absent = [n for n in names if shares.get(n, 0.0) <= 0]
    if absent:
        raise ValueError(f"--transition: expected rows of every source in --source-column, got none of {absent[0]!r}")
    return multi_source(parts, [shares[n] for n in names])


def blank_label(transition: Transition, share: float) -> Transition:
    """T with one more label, "no label", which `share` of the examples have whatever their class."""
    nothing = Transition(np.ones((1, transition.num_classes)), weak_labels=["no label"])
    nothing.name = "no label"
    return multi_source([transition, nothing], [1.0 - share, share])
