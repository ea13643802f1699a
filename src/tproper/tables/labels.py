"""Weak labels in a table: text on one side, what a transition takes on the other.

In a file a label is the text of its name, as the `LabelSpace` of its transition has it; candidate sets are written
``a|b|c``. Empty cells (and NA, N/A, NaN, nan, null) are missing labels. Names that are all whole numbers are integers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import FloatArray, read_json
from ..data import MISSING, float_twins, look_alikes, misreadings, nearest, short, texts
from ..errors import InputError
from ..evaluation import Legend
from ..transitions import (
    SET_SEPARATOR,
    AnnotatorTransition,
    LabelSpace,
    Names,
    Transition,
    UnknownSizeError,
    annotators,
    identity,
    in_sorted_order,
    make_transition,
    multi_source,
    permuted,
    space_of,
    treats_alike,
)

if TYPE_CHECKING:
    import pyarrow as pa

Coded = NDArray[Any]  # int64 (n,), bool (n, K) for candidate sets, or int64 (n, m) for answers, -1 = none


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


class _Texts:
    """How the labels of one source are written: the texts of their names, as its `LabelSpace` has them."""

    def __init__(self, space: LabelSpace) -> None:
        self.space, self.T = space, space.transition
        self.classes = [str(name) for name in space.class_names]
        self.sets, self.masks = space.of_sets, self.T.vacuous is not None

    @cached_property
    def class_index(self) -> dict[str, int]:
        """The class by the text of its name."""
        return {name: z for z, name in enumerate(self.classes)}

    @cached_property
    def rows(self) -> dict[str, int]:
        """The rows of T by the text of their names."""
        assert isinstance(self.space, Names)
        index = self.space.index.items()
        return {str(name): y for name, y in index if not isinstance(name, (frozenset, tuple))}

    def knows(self, text: str) -> bool:
        """Whether the text is a name, and so not a missing value however it is spelt."""
        return text in (self.class_index if self.sets else self.rows)

    def find(self, text: str) -> int | NDArray[np.bool_]:
        """The row of T, or the candidate mask; a ValueError says what was expected."""
        label = self._members(text) if self.sets else self._row(text)
        if self.masks:
            rows = self.T.evidence(torch.as_tensor(label)[None]).logs(torch.float64)
            possible = bool(torch.isfinite(rows).any())
        else:
            possible = bool(np.isfinite(self._log_row_maxima[label]).all())
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
        mask = np.isin(self.classes, members)
        if self.masks:
            return mask
        own = self.space.class_names
        name = frozenset(own[z] for z in np.flatnonzero(mask))
        if name not in self.space.index:  # type: ignore[attr-defined]
            raise InputError(f"expected a set that the transition lists, got {text!r}")
        return int(self.space.index[name])  # type: ignore[attr-defined]

    def text(self, label: Any) -> str:
        """The name of a row of T, or of a candidate mask."""
        if self.masks:
            return SET_SEPARATOR.join(self.classes[z] for z in np.flatnonzero(label))
        name = self.space.names[int(label)]
        if not self.sets:
            return str(name)
        return SET_SEPARATOR.join(c for c, own in zip(self.classes, self.space.class_names, strict=True) if own in name)


def typed(names: Sequence[str]) -> list[Any]:
    """Names in text: whole numbers, where all of them are."""
    whole = all(re.fullmatch(r"0|-?[1-9]\d{0,17}", name) for name in names)
    return [int(name) for name in names] if whole else list(names)


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
        parts = (transition.sources if sources else transition.separate if annotators else ()) or [transition]
        self._vocabularies = [_Texts(space_of(t, classes)) for t in parts]
        if any(SET_SEPARATOR in name for name in classes) and any(v.masks or v.sets for v in self._vocabularies):
            raise InputError(
                f"--classes: expected names without {SET_SEPARATOR!r}, which separates candidates, got one"
            )

    def known_names(self) -> Legend:
        """What numbers of classes, annotators and sources stand for."""
        return Legend(self.classes, self.annotators, self.sources)

    @property
    def names(self) -> list[Any]:
        """The names of the classes as an estimator has them: integers, where all are whole numbers."""
        return typed(self.classes)

    def in_order(self) -> LabelCodec:
        """The same labels for T with its classes in sorted order, as an estimator has them."""
        T = in_sorted_order(self.transition.named(self.names))
        assert T.classes is not None
        return LabelCodec(T.named(None), [str(name) for name in T.classes], self.sources, self.annotators)

    def in_order_of(self, classes: Sequence[str]) -> LabelCodec:
        """The same labels for T with its classes in another order."""
        if list(classes) == self.classes:
            return self
        T = permuted(self.transition, [self.classes.index(name) for name in classes])
        return LabelCodec(T, classes, self.sources, self.annotators)

    @property
    def masks(self) -> bool:
        """Whether labels are (n, K) candidate masks."""
        return not self.sources and not self.annotators and self._vocabularies[0].masks

    def encode_answers(self, answered: Answered, first_row: int = 1) -> tuple[Coded, NDArray[np.bool_]]:
        """Answers (n, m) by the annotators' names, -1 where there is none; and the rows without any."""
        check_annotators(answered.names, self.annotators, "the model or --transition")
        out = np.full((len(answered.codes), len(self.annotators)), -1, dtype=np.int64)
        place = {name: a for a, name in enumerate(self.annotators)}
        for j, name in enumerate(answered.names):
            a, rows = place[name], None if answered.places is None else answered.places[:, j]
            encoded, absent = self._encode(a, answered.codes[:, j], answered.values, first_row, name, rows)
            out[:, a] = np.where(absent, -1, encoded)
        return out, np.asarray((out < 0).all(axis=1) & (not self.transition.of_features))

    def encode_texts(
        self, codes: NDArray[np.int64], values: list[str], column: str, rows: NDArray[np.int64] | None = None
    ) -> tuple[Coded, NDArray[np.bool_]]:
        """Labels of one source that are texts already."""
        return self._encode(0, codes, values, 1, column, rows)

    def encode(
        self, labels: pa.Array, sources: pa.Array | None = None, first_row: int = 1, column: str = "label"
    ) -> tuple[Coded, NDArray[np.bool_]]:
        """Coded labels, and which rows have none (their encoding is 0 and means nothing)."""
        label_codes, label_values = texts(labels)
        if sources is None:
            return self._encode(0, label_codes, label_values, first_row, column)
        which = self._sources(sources, first_row)
        out = np.zeros(len(label_codes), dtype=np.int64)
        missing = np.zeros(len(label_codes), dtype=bool)
        for d in np.unique(which):
            rows = np.flatnonzero(which == d)
            encoded, absent = self._encode(int(d), label_codes[rows], label_values, first_row, column, rows)
            if self._vocabularies[d].masks:
                encoded[absent] = True  # any valid mask will do
                encoded = self.transition.sources[d].row_index(torch.as_tensor(encoded)).numpy()
            out[rows] = self.transition.source_rows[0][d] + encoded
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
    ) -> tuple[Coded, NDArray[np.bool_]]:
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
        if vocabulary.space.missing_row is not None:  # no label is the label "unlabeled"
            encoded[missing] = vocabulary.space.missing_row
            missing = np.zeros_like(missing)
        return encoded, missing

    def decode(self, encoded: Coded) -> tuple[list[str], list[str] | None]:
        """The texts of encoded labels, and their sources where there are several."""
        distinct, inverse = np.unique(encoded, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        if not self.sources:
            names = [self._vocabularies[0].text(label) for label in distinct]
            return [names[i] for i in inverse], None
        pairs = [self._pair(label) for label in distinct]
        return [pairs[i][1] for i in inverse], [pairs[i][0] for i in inverse]

    def _pair(self, label: Any) -> tuple[str, str]:
        ends, _ = self.transition.source_rows
        d = int(np.searchsorted(ends, int(label), side="right")) - 1
        y = int(label) - int(ends[d])
        vocabulary = self._vocabularies[d]
        if vocabulary.masks:
            members = sorted(self.transition.sources[d].weak_labels[y])
            return self.sources[d], SET_SEPARATOR.join(self.classes[z] for z in members)
        return self.sources[d], vocabulary.text(y)

    def name(self, label: Any, annotator: int = 0) -> str:
        """One encoded label, or an annotator's answer, in words."""
        return ": ".join(self._pair(label)) if self.sources else self._vocabularies[annotator].text(label)


# T and the names of its classes, from --transition, --classes and the texts of labels.


def parse_sources(specs: Sequence[Any], source_column: str | None, several: bool = False) -> dict[str, Any]:
    """``--transition``: one spec, or NAME=SPEC once per source or annotator; keyed by name ("" where there is one)."""
    if specs and all(isinstance(s, tuple) for s in specs):  # named already
        if source_column is None and not several:
            raise InputError(f"--source-column: expected it beside --transition of {specs[0][0]!r}, got none")
        return dict(specs)
    if len(specs) == 1 and not isinstance(specs[0], str) and source_column is None:
        return {"": specs[0]}
    named = [re.fullmatch(r"([^:=,]+)=(.+)", str(s)) for s in specs]
    if source_column is None and not (several and all(named)):
        if len(specs) != 1:
            more = "NAME=SPEC for every annotator" if several else "--source-column with it"
            raise InputError(f"--transition: expected it once (or {more}), got it {len(specs)} times")
        if named[0] and not Path(specs[0]).is_file():  # a path may have = in it
            raise InputError(f"--source-column: expected it beside --transition {specs[0]!r}, which names a source")
        return {"": specs[0]}
    if not all(named):
        raise InputError("--transition: expected NAME=SPEC once per source when --source-column is given")
    out = {m.group(1).strip(): m.group(2) for m in named if m}
    if len(out) != len(specs):
        raise InputError("--transition: expected every source once, got one twice")
    return out


def members_of(values: Iterable[str], sets: bool) -> list[str]:
    """The distinct names in label texts, sorted: by value where all are integers, else by name."""
    members = {part.strip() for v in values for part in (v.split(SET_SEPARATOR) if sets else [v])} - MISSING
    if members and all(re.fullmatch(r"-?\d+", name) for name in members):
        return sorted(members, key=int)
    return sorted(members)


def class_names(values: Iterable[str], sets: bool) -> list[str]:
    """`members_of`, where they are the classes because nobody lists them: none may stand there in two spellings."""
    names = members_of(values, sets)
    twins = float_twins(names)
    if twins is not None:
        raise InputError(
            f"--label: expected every class written in one way, got {twins}; if they are different classes, list all "
            "classes with --classes"
        )
    return names


def resolve(
    specs: dict[str, Any],
    values: Sequence[str],
    classes: Sequence[str] | None,
    shares: dict[str, float] | None = None,
    clean: bool = False,
    truth: Sequence[str] = (),
) -> tuple[Transition, list[str]]:
    """The transition and the class names, from the specs, the label texts of the table and ``--classes``.

    Without ``--classes`` the labels name the classes, together with the true classes of some rows (`truth`). That is
    refused where the order of the classes matters and the labels do not tell it (positive-unlabeled data, a matrix), or
    where a class may not occur among them. `clean` says that the labels are true classes, whatever labels T has.
    """
    parts, names = _parts(specs, values, classes, clean, truth)
    return _stack(parts, list(specs), shares), names


def resolve_answers(
    specs: dict[str, Any],
    columns: Sequence[str],
    values: Sequence[str],
    classes: Sequence[str] | None,
    truth: Sequence[str] = (),
) -> tuple[AnnotatorTransition, list[str], list[str]]:
    """T of several annotators, the class names, and the names of the annotators in the order of T.

    A file of `tproper estimate annotators` knows its annotators by name; another spec holds for every one of them, or
    NAME=SPEC gives each its own.
    """
    parts, names = _parts(specs, values, classes, False, truth)
    known = annotators_of_file(specs[""]) if "" in specs else None
    if known is not None:
        T = cast(AnnotatorTransition, parts[0])
        check_annotators(columns, known, specs[""])
        return T, names, known
    if "" in specs:
        return annotators([parts[0]] * len(columns)), names, list(columns)
    check_annotators(columns, list(specs), "--transition")
    return annotators(parts), names, list(specs)


def check_annotators(columns: Iterable[str], known: Sequence[str], by: str) -> None:
    """Annotators are matched by their names: one that T does not know is refused."""
    strange = [c for c in columns if c not in set(known)]
    if strange:
        like = "" if strange[0].isdigit() else nearest(strange[0], list(known))
        raise InputError(
            f"--label: expected answers of annotators whose T {by} holds ({short(list(known))}), got {strange[0]!r}"
            f"{f' and {len(strange) - 1} others' if len(strange) > 1 else ''}{like}; leave their answers out, or "
            "estimate T with them"
        )


def _parts(
    specs: dict[str, Any], values: Sequence[str], classes: Sequence[str] | None, clean: bool, truth: Sequence[str]
) -> tuple[list[Transition], list[str]]:
    """T of every spec, and the class names."""
    classes = classes_of(list(specs.values())) if classes is None else classes
    if classes is not None:
        names = list(classes)
        if len(names) < 2 or len(set(names)) != len(names) or any(n in ("", SET_SEPARATOR) for n in names):
            raise InputError(
                f"--classes: expected two or more different names separated by commas, got {','.join(names)!r}"
            )
        return [_under(make_transition(spec, len(names)), names, spec) for spec in specs.values()], names
    sets = not clean and any(SET_SEPARATOR in v for v in values)
    labelled, named = members_of(values, sets), class_names([*values, *truth], sets)
    parts = [_sized(spec, named) for spec in specs.values()]
    single = [t for part in parts for t in (part.separate or [part])]
    K = parts[0].num_classes
    own_labels = all(t.num_weak_labels != K and t.size_probability is None for t in single)
    if own_labels and not clean and len(labelled) != K:
        return parts, [str(z) for z in range(K)]  # labels do not name classes
    if len(named) != K:
        raise InputError(
            f"--transition: {parts[0].name} has {K} classes, but the labels name {len(named)} ({short(named)}); "
            "list every class, in order, with --classes"
        )
    symmetric = all(map(treats_alike, single))
    if not symmetric and (K == 2 or named != [str(z) for z in range(K)]):
        order = "POSITIVE,NEGATIVE" if K == 2 else "the order of its columns"
        raise InputError(f"--classes: expected the classes of {parts[0].name} in order ({order}), got none")
    return parts, named


def _under(T: Transition, names: list[str], spec: Any) -> Transition:
    """T with its columns in the order of these names, which a T with names of its own has by name."""
    if T.classes is None:
        return T
    own = [str(name) for name in T.classes]
    if sorted(own) != sorted(names):
        raise InputError(
            f"--transition: expected T of the classes {short(names)}, got {spec}, which names {short(own)}; estimate T "
            f"with --classes {','.join(names)}"
        )
    return T.named(None) if own == names else permuted(T, [own.index(name) for name in names])


def classes_of(specs: Sequence[Any]) -> list[str] | None:
    """The classes that T, or files of `tproper estimate`, name in the order of T's columns; None where one has none."""
    named = []
    for spec in specs:
        names = spec.classes if isinstance(spec, Transition) else _content(spec).get("classes")
        if not isinstance(names, list):
            return None
        named.append([str(name) for name in names])
    if any(sorted(names) != sorted(named[0]) for names in named):
        got = short([*map(str, specs)])
        raise InputError(f"--transition: expected files with the same classes, got {got}; use --classes")
    return named[0]


def annotators_of_file(spec: Any) -> list[str] | None:
    """The names of the annotators whose T a file holds; None where it holds another kind of T."""
    content = _content(spec)
    if content.get("family") != "annotators":
        return None
    names, parts = content.get("columns"), content.get("annotators")
    count = len(parts) if isinstance(parts, list) else 0
    if not isinstance(names, list) or len(names) != count or len({str(n) for n in names}) != count:
        raise InputError(
            f'--transition: expected {spec} to name its {count} annotators once each under "columns", as '
            "`tproper estimate annotators` does"
        )
    return [str(n) for n in names]


def _content(spec: Any) -> Mapping[str, Any]:
    """What a .json file says; nothing where it cannot be read (reading T says what is wrong with it)."""
    if not isinstance(spec, str):
        return {}
    path = Path(spec)
    try:
        content = read_json(path) if path.suffix.lower() == ".json" else None
    except (OSError, ValueError, RecursionError):
        content = None
    return content if isinstance(content, dict) else {}


def _sized(spec: Any, classes: list[str]) -> Transition:
    try:
        return make_transition(spec)
    except UnknownSizeError:  # the number of classes was left to the data
        if len(classes) < 2:
            raise InputError(
                f"--label: expected labels that name two or more classes, got {short(classes) or 'none'}; use --classes"
            ) from None
        return make_transition(spec, len(classes))


def _stack(parts: list[Transition], names: list[str], shares: dict[str, float] | None) -> Transition:
    if names == [""]:
        return parts[0]
    if shares is None:
        return multi_source(parts)
    absent = [n for n in names if shares.get(n, 0.0) <= 0]
    if absent:
        raise InputError(
            f"--transition: expected rows of every source in --source-column, got none of {absent[0]!r}"
            f"{nearest(absent[0], list(shares))}"
        )
    return multi_source(parts, [shares[n] for n in names])


def label_notes(counts: Mapping[str, int], classes: Sequence[str]) -> list[str]:
    """Class names in the labels that are probably one name, and labels that are probably misread."""
    times: Counter[str] = Counter()
    for text, n in counts.items():
        for part in {text, *(p.strip() for p in text.split(SET_SEPARATOR))} & set(classes):
            times[part] += n
    return look_alikes(times) + misreadings(counts, classes)


def blank_label(transition: Transition, share: float) -> Transition:
    """T with one more label, "no label", which `share` of the examples have whatever their class."""
    nothing = Transition(np.ones((1, transition.num_classes)), weak_labels=["no label"])
    nothing.name = "no label"
    return multi_source([transition, nothing], [1.0 - share, share])
