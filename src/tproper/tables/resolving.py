"""From ``--transition``, ``--classes`` and the texts of labels to T and the names of its classes and annotators."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..data import MISSING, float_twins, look_alikes, misreadings, nearest, short
from ..errors import InputError
from ..transitions import (
    SET_SEPARATOR,
    AnnotatorTransition,
    CandidateSetTransition,
    Transition,
    UniformTransition,
    UnknownSizeError,
    annotators,
    make_transition,
    multi_source,
)


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
        T = parts[0]
        assert isinstance(T, AnnotatorTransition)
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
    classes = classes_of_files(list(specs.values())) if classes is None else classes
    if classes is not None:
        names = list(classes)
        if len(names) < 2 or len(set(names)) != len(names) or any(n in ("", SET_SEPARATOR) for n in names):
            raise InputError(
                f"--classes: expected two or more different names separated by commas, got {','.join(names)!r}"
            )
        for spec in specs.values():
            own = _content(spec).get("classes")
            if isinstance(own, list) and [str(name) for name in own] != names:
                raise InputError(
                    f"--transition: expected T of the classes {short(names)} in this order, got {spec}, which names "
                    f"{short([str(name) for name in own])}; estimate T with --classes {','.join(names)}"
                )
        return [make_transition(spec, len(names)) for spec in specs.values()], names
    sets = not clean and any(SET_SEPARATOR in v for v in values)
    labelled, named = members_of(values, sets), class_names([*values, *truth], sets)
    parts = [_sized(spec, named) for spec in specs.values()]
    single = [t for part in parts for t in (part.transitions if isinstance(part, AnnotatorTransition) else [part])]
    K = parts[0].num_classes
    own_labels = all(t.num_weak_labels != K and not isinstance(t, CandidateSetTransition) for t in single)
    if own_labels and not clean and len(labelled) != K:
        return parts, [str(z) for z in range(K)]  # labels do not name classes
    if len(named) != K:
        raise InputError(
            f"--transition: {parts[0].name} has {K} classes, but the labels name {len(named)} ({short(named)}); "
            "list every class, in order, with --classes"
        )
    symmetric = all(isinstance(t, (UniformTransition, CandidateSetTransition)) for t in single)
    if not symmetric and (K == 2 or named != [str(z) for z in range(K)]):
        order = "POSITIVE,NEGATIVE" if K == 2 else "the order of its columns"
        raise InputError(f"--classes: expected the classes of {parts[0].name} in order ({order}), got none")
    return parts, named


def classes_of_files(specs: Sequence[Any]) -> list[str] | None:
    """The classes that files of `tproper estimate` name, in the order of T's columns; None where a spec names none."""
    named = []
    for spec in specs:
        names = _content(spec).get("classes")
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            return None
        named.append(names)
    if any(names != named[0] for names in named):
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
        content = json.loads(path.read_text(encoding="utf-8-sig")) if path.suffix.lower() == ".json" else None
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
