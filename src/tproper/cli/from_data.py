"""The work of `tproper estimate`: columns of a table to T, and T to a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray, json_text, mark, write_file
from ..data import MISSING, Table, open_table, short, texts
from ..estimation import Answers, estimate_annotators, estimate_pu, estimate_transition
from ..transitions import SET_SEPARATOR, UNLABELED, Transition, transition_from_dict, transition_to_dict
from .codec import members_of
from .errors import spoken
from .estimate import From
from .progress import watched, working
from .schema import FeatureReader, feature_columns, split_names, standardisation

Names = NDArray[Any]  # text, or None where a cell is empty


@dataclass(frozen=True)
class Asked:
    """The options, as they were given."""

    source: From
    label: str
    true_label: str | None
    features: str | None
    ignore: str | None
    classes: str | None
    item: str | None
    annotator: str | None
    sampling: str
    structure: str
    seed: int


def estimate_file(data: Path, asked: Asked, out: Path) -> tuple[str, dict[str, Any]]:
    """Estimate, write T, and give it in words and as plain data."""
    before = mark(out)
    table = open_table(data)
    with spoken():
        if asked.source is From.annotators:
            text, transition, facts = _annotators(table, asked)
        elif asked.source is From.pu:
            text, transition, facts = _pu(table, asked)
        elif asked.source is From.partial:
            text, transition, facts = _partial(table, asked)
        else:
            text, transition, facts = _noisy(table, asked)
    content = transition_to_dict(transition) | facts
    write_file(out, (json_text(content) + "\n").encode(), since=before)
    return text, content


def _noisy(table: Table, asked: Asked) -> tuple[str, Transition, dict[str, Any]]:
    """From rows of known class, from features, or from both."""
    if asked.source is From.clean and asked.true_label is None:
        raise ValueError("--true-label: expected the column with the true classes, got none")
    X, columns = _read(table, asked, [asked.label], with_features=asked.source is From.features)
    weak, true = columns[asked.label], columns.get(asked.true_label or "")
    given = weak != None  # noqa: E711 - elementwise
    labels = members_of([w for w in weak if w is not None], sets=False)
    classes = _classes(asked, labels, true)
    names = [*classes, *(n for n in labels if n not in classes)]
    known = None if true is None else _codes(true, classes, str(asked.true_label))[given]
    with working(f"estimating T from {int(given.sum()):,} rows"):
        T = estimate_transition(
            _codes(weak, names, asked.label)[given],
            known,
            None if X is None else X[given],
            num_classes=len(classes),
            structure=asked.structure,
            random_state=asked.seed,
        )
    own = names[: T.num_weak_labels]
    if own != classes:  # labels with names of their own
        plain = transition_to_dict(T) | {"weak_labels": own}
        del plain["label_kind"]
        T = transition_from_dict(plain)  # type: ignore[assignment]
    clean = 0 if known is None else int((known >= 0).sum())
    head = f"classes {short(classes, 20)}\nfrom {int(given.sum()):,} labels, {clean:,} of them in rows of known class"
    return f"{T}\n{head}", T, {"classes": classes, "rows": int(given.sum()), "clean_rows": clean}


def _classes(asked: Asked, labels: list[str], true: Names | None) -> list[str]:
    """The classes in order: those given, or the names of true classes, or those of labels."""
    given = split_names(asked.classes, "--classes")
    if given is not None:
        return given
    known = [] if true is None else members_of([t for t in true if t is not None], sets=False)
    if asked.source is From.features:
        return members_of([*labels, *known], sets=False)
    strange = [name for name in labels if name not in known]
    if strange:
        raise ValueError(
            f"--classes: expected the classes in order, got none, and the labels {short(strange)} are the names of no "
            "true class in the table"
        )
    return known


def _partial(table: Table, asked: Asked) -> tuple[str, Transition, dict[str, Any]]:
    """Candidate sets, written a|b|c: how often a wrong class is among them."""
    _, columns = _read(table, asked, [asked.label], with_features=False)
    weak, true = columns[asked.label], columns.get(asked.true_label or "")
    given = weak != None  # noqa: E711 - elementwise
    members = [[part.strip() for part in w.split(SET_SEPARATOR)] for w in weak[given]]
    seen = members_of(weak[given].tolist(), sets=True)
    classes = split_names(asked.classes, "--classes") or seen
    strange = [name for name in seen if name not in classes]
    if strange:
        raise ValueError(f"column {asked.label!r}: expected classes among {short(classes)}, got {short(strange)}")
    masks = np.array([[name in candidates for name in classes] for candidates in map(set, members)])
    known = None if true is None else _codes(true, classes, str(asked.true_label))[given]
    T = estimate_transition(masks, known, num_classes=len(classes), random_state=asked.seed)
    return f"{T}\nclasses {short(classes, 20)}", T, {"classes": classes, "rows": len(masks)}


def _pu(table: Table, asked: Asked) -> tuple[str, Transition, dict[str, Any]]:
    classes = split_names(asked.classes, "--classes")
    if classes is None or len(classes) != 2:
        raise ValueError(f"--classes: expected POSITIVE,NEGATIVE for positive-unlabeled data, got {asked.classes!r}")
    X, columns = _read(table, asked, [asked.label], with_features=True)
    codes = _codes(columns[asked.label], [classes[0], classes[1], UNLABELED], asked.label)
    with working(f"estimating the class prior from {len(codes):,} rows"):
        sampling: Any = asked.sampling
        found = estimate_pu(codes == 0, X=X, sampling=sampling, random_state=asked.seed)
    facts = {"classes": classes, "rows": len(codes), "prior": found.prior.to_dict(), "rate": found.rate.to_dict()}
    return str(found), found.transition, facts


def _annotators(table: Table, asked: Asked) -> tuple[str, Transition, dict[str, Any]]:
    """Answers side by side (--label A,B,C), or one answer a row (--item, --annotator)."""
    if (asked.item is None) != (asked.annotator is None):
        raise ValueError("--item: expected --item and --annotator together, got one of them")
    columns = split_names(asked.label, "--label") or []
    long = [c for c in (asked.item, asked.annotator) if c is not None]
    if long and len(columns) != 1:
        raise ValueError(f"--label: expected one column of answers beside --item and --annotator, got {asked.label!r}")
    X, read = _read(table, asked, [*columns, *long], with_features=asked.features is not None and not long)
    answered = [a for c in columns for a in read[c] if a is not None]
    classes = split_names(asked.classes, "--classes") or members_of(answered, sets=False)
    codes = {c: _codes(read[c], classes, c) for c in columns}
    truth = None if asked.true_label is None else _codes(read[asked.true_label], classes, asked.true_label)
    with working(f"estimating T of annotators from {len(answered):,} answers"):
        if not long:
            answers = Answers.from_table(np.stack(list(codes.values()), axis=1))
            found = estimate_annotators(answers, truth, X, num_classes=len(classes), random_state=asked.seed)
            names = columns
        else:
            rows = codes[columns[0]] >= 0
            items, who = (read[c][rows] for c in long)
            answers = Answers(items.astype(str), who.astype(str), codes[columns[0]][rows])
            known = None if truth is None else _by_item(items, truth[rows])
            found = estimate_annotators(answers, known, num_classes=len(classes), random_state=asked.seed)
            names = [str(a) for a in answers.annotators]
    facts = {"classes": classes, "columns": names, "prior": found.prior.tolist(), "notes": found.notes}
    return f"{found}\nclasses {short(classes, 20)}", found.transition, facts


def _by_item(items: Names, classes: NDArray[np.int64]) -> dict[str, int]:
    """The known class of each item; two different ones contradict each other."""
    out: dict[str, int] = {}
    for item, z in zip(items.tolist(), classes.tolist(), strict=True):
        if z >= 0 and out.setdefault(str(item), z) != z:
            raise ValueError(f"--true-label: expected one class for each item, got two for {item!r}")
    return out


def _read(
    table: Table, asked: Asked, columns: Sequence[str], with_features: bool
) -> tuple[FloatArray | None, dict[str, Names]]:
    """The features, standardised, and columns of names."""
    import pyarrow as pa

    for column in columns:
        table.require(column, "--label" if column not in (asked.item, asked.annotator) else "--item")
    wanted = [*columns]
    if asked.true_label is not None:
        wanted.append(table.require(asked.true_label, "--true-label"))
    features: list[str] = []
    if with_features:
        given, left = split_names(asked.features, "--features"), split_names(asked.ignore, "--ignore")
        features = feature_columns(table, wanted, given, left)
    reader = FeatureReader(table, features)
    blocks, parts = [], {c: [] for c in wanted}  # type: ignore[var-annotated]
    for batch in watched(table.batches([*features, *wanted]), "reading", table.rows, lambda b: b.num_rows):
        blocks.append(reader.read(batch))
        for c in wanted:
            parts[c].append(batch.column(c))
    reader.finish()
    out = {}
    for c in wanted:
        codes, values = texts(pa.chunked_array(parts[c]).combine_chunks())
        names = np.array([*(None if v in MISSING else v for v in values), None], dtype=object)
        out[c] = names[codes]
    if not features:
        return None, out
    X = np.concatenate(blocks)
    centre, scale = standardisation(X, features)
    return (X - centre) / scale, out


def _codes(values: Names, names: Sequence[str], column: str) -> NDArray[np.int64]:
    """Positions among the names; -1 where a cell is empty."""
    index: dict[Any, int] = {None: -1} | {name: i for i, name in enumerate(names)}
    unknown = next((i for i, v in enumerate(values) if v not in index), None)
    if unknown is not None:
        raise ValueError(
            f"column {column!r}: expected one of {short(list(names))}, got {values[unknown]!r} at row {unknown + 1}"
        )
    return np.array([index[v] for v in values], dtype=np.int64)
