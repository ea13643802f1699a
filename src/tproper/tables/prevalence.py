"""The work of `tproper prevalence`: label columns of a table to the shares of its classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..estimation import Prevalence, weak_prevalence
from ..transitions import annotators, identity
from .frames import read_table
from .labels import LabelCodec, class_codec, class_names, members_of, parse_sources, resolve, resolve_answers
from .options import LabelOptions, Names
from .reading import Read, label_columns, read
from .rows import estimate_kind
from .schema import encoder_of, listed_classes, split_names
from .terms import told


@dataclass(frozen=True, kw_only=True)
class PrevalenceOptions(LabelOptions):
    """Which columns hold labels, features and checked classes, and what T is, where it is known."""

    transition: Any = None
    features: Names = None
    ignore: Names = None
    classes: Names = None
    seed: int = 0


@told
def prevalence_table(data: Any, **options: Any) -> Prevalence:
    """Shares of the classes in the population that a table's weak labels come from, as ``tproper prevalence`` prints.

    Parameters
    ----------
    data : path or frame
        See `tproper.read_table`.
    label, true_label, item, annotator, features_from, group, classes
        As in `estimate_table`; the class of some rows in `true_label`, or `transition`, or both.
    features, ignore : list of str, optional
        Feature columns, used where they are named.
    transition : optional
        As `tproper train --transition` takes it.

    Returns
    -------
    Prevalence
        With the names of the classes; see `tproper.weak_prevalence`.

    Examples
    --------
    >>> import tproper as tp
    >>> table = {"judge": ["good"] * 700 + ["bad"] * 300}
    >>> found = tp.prevalence_table(table, label="judge", transition="symmetric:0.2")
    >>> found.classes, found.value.round(3).tolist()
    (['bad', 'good'], [0.167, 0.833])
    """
    asked = PrevalenceOptions(**options)
    columns = label_columns(read_table(data), asked)
    if columns.true is None and asked.transition is None:
        raise InputError("--true-label: expected the column with the class of some rows, or --transition, got neither")
    wants = asked.features is not None or asked.ignore is not None
    chosen = columns.features(asked.features, asked.ignore) if wants else []
    if wants and columns.true is None:
        raise InputError("--features: expected them beside --true-label, whose rows they are learned from, got none")
    table = read(columns, chosen)
    classes = listed_classes(asked.classes)
    codec, names, T = _codec(table, asked, classes)
    labels, absent = table.encode(codec)
    true = table.known(names)
    keep = ~absent if true is None else ~absent | (true >= 0)
    if not keep.any():
        raise InputError(f"--label: expected labels in the column {columns.label!r}, got none")
    labels = labels[keep]
    if absent[keep].any() and labels.ndim == 1:
        if T is not None:
            raise InputError("--label: expected a label in every checked row beside --transition, got a gap")
        labels = np.where(absent[keep], -1, labels)
    X = None
    if chosen:
        X = encoder_of(table.X, table.kinds).encode(table.X)[keep]
    found = weak_prevalence(
        labels,
        T,
        true=None if true is None else true[keep],
        X=X,
        num_classes=len(names) if T is None else None,
        groups=None if table.group is None else table.group[keep],
        random_state=asked.seed,
    )
    return replace(found, classes=names)


def _codec(table: Read, asked: PrevalenceOptions, classes: list[str] | None) -> tuple[LabelCodec, list[str], Any]:
    """How labels are read, and T where one is given. Without T true classes say what the classes are, and labels."""
    if asked.transition is not None:
        specs = parse_sources(
            asked.transition if isinstance(asked.transition, list) else [asked.transition], None, table.columns.several
        )
        if estimate_kind(specs) is not None:
            raise InputError("--transition: expected a T that is known, or a file, got estimate; leave it out")
        if table.answered is not None:
            both, names, who = resolve_answers(specs, table.answered.names, table.used, classes, table.true_names)
            return LabelCodec(both, names, annotators=who), names, both
        T, names = resolve(specs, table.used, classes, truth=table.true_names)
        return LabelCodec(T, names), names, T
    names = list(classes) if classes is not None else class_names([*table.used, *table.true_names], sets=False)
    words = [*names, *(n for n in members_of(table.used, sets=False) if n not in names)]
    if table.answered is not None:
        who = table.answered.names
        return LabelCodec(annotators([identity(len(words))] * len(who)), words, annotators=who), names, None
    return class_codec(words), names, None


def pair(text: Any, option: str) -> list[str]:
    """Two classes of ``A,B``."""
    names = split_names(text, option)
    if names is None or len(names) != 2:
        raise InputError(f"{option}: expected two classes, A,B, got {text!r}")
    return names
