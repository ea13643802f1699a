"""From a table with weak labels to a model folder: read, encode, hold out, fit, score, describe."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import __version__
from .._core import FloatArray, atomic_folder, sweep
from ..data import MISSING, Table, look_alikes, texts
from ..learn import L2, WeakLabelClassifier, default_grid, not_replaceable, write_model
from ..plots import html_page
from ..transitions import ENUMERATION_LIMIT, SET_SEPARATOR, CandidateSetTransition, Transition, transition_to_dict
from . import table_scores as scoring
from .cards import in_words, model_card, summary
from .codec import Encoded, LabelCodec, blank_label, resolve
from .progress import watched, working
from .schema import FeatureReader, Schema, standardisation
from .streaming import Trained


@dataclass(frozen=True)
class Rows:
    """A training table in memory: features, encoded weak labels, and how they came about."""

    X: FloatArray  # (n, d), as in the file
    labels: Encoded  # what the loss is given, for `transition`
    transition: Transition
    own: Encoded  # as the codec's transition takes them; where `blank` they mean nothing
    blank: NDArray[np.bool_]  # rows without a label that were kept
    codec: LabelCodec
    dropped: int  # rows without a label that were left out
    notes: list[str]  # what looks odd in the labels

    @property
    def counts(self) -> dict[str, int]:
        """How often every label occurs, by name, the most frequent first."""
        distinct, count = np.unique(self.own[~self.blank], axis=0, return_counts=True)
        order = np.argsort(-count, kind="stable")
        named = {self.codec.name(distinct[i]): int(count[i]) for i in order}
        return named | ({"no label": int(self.blank.sum())} if self.blank.any() else {})


def read_rows(
    table: Table,
    label: str,
    source: str | None,
    features: Sequence[str],
    specs: dict[str, str],
    classes: Sequence[str] | None,
    missing: str,
    loss: str,
) -> Rows:
    """Read a training table: all of it, since every solver goes over it many times."""
    import pyarrow as pa

    reader = FeatureReader(table, features)
    columns = [*features, label] + ([source] if source else [])
    blocks, label_parts, source_parts = [], [], []
    for batch in watched(table.batches(columns), "reading", table.rows, lambda b: b.num_rows):
        X = reader.read(batch)
        if reader.clean:
            blocks.append(X)
            label_parts.append(batch.column(label))
            if source:
                source_parts.append(batch.column(source))
    reader.finish()
    X = np.concatenate(blocks)
    del blocks
    column = pa.chunked_array(label_parts).combine_chunks()
    source_column = pa.chunked_array(source_parts).combine_chunks() if source else None

    codes, values = texts(column)
    used = [values[c] for c in np.unique(codes[codes >= 0])]
    if not set(used) - MISSING:
        raise ValueError(f"--label: expected labels in the column {label!r}, got none in {len(codes)} rows")
    shares = None
    if source_column is not None:
        source_codes, source_values = texts(source_column)
        found = Counter(source_values[c] for c in source_codes if c >= 0)
        shares = {name: found[name] / max(sum(found[n] for n in specs), 1) for name in specs}
    transition, names = resolve(specs, used, classes, shares)
    codec = LabelCodec(transition, names, list(specs) if source else ())
    labels, absent = codec.encode(column, source_column, column=label)
    dropped = 0
    if missing == "drop":
        dropped = int(absent.sum())
        X, labels, absent = X[~absent], labels[~absent], absent[~absent]
    if len(X) < 2:
        raise ValueError(f"{table.path}: expected at least two rows with a label, got {len(X)}")
    present = labels[~absent]
    if len(np.unique(present, axis=0)) < 2:
        only = codec.name(present[0])
        raise ValueError(f"--label: expected at least two different labels in the column {label!r}, got only {only!r}")
    full, given = keep_blank(transition, labels, absent, loss) if absent.any() else (transition, labels)
    times = Counter(codes[codes >= 0].tolist())
    notes = label_notes({values[c]: n for c, n in times.items()}, names)
    return Rows(X, given, full, labels, absent, codec, dropped, notes)


def label_notes(counts: Mapping[str, int], classes: Sequence[str]) -> list[str]:
    """Class names in the labels that are probably one name."""
    times: Counter[str] = Counter()
    for text, n in counts.items():
        for part in {text, *(p.strip() for p in text.split(SET_SEPARATOR))} & set(classes):
            times[part] += n
    return look_alikes(times)


def keep_blank(
    transition: Transition, labels: Encoded, absent: NDArray[np.bool_], loss: str
) -> tuple[Transition, Encoded]:
    """Missing labels as labels that say nothing.

    For candidate sets and forward correction that is the set of all classes, whose loss is a constant. Elsewhere T gets
    one more row, "no label", of the probability that a label is missing: the targets of the others grow to make up for
    it, so that the loss stays proper.
    """
    if isinstance(transition, CandidateSetTransition):
        if loss == "forward":
            labels = labels.copy()
            labels[absent] = True
            return transition, labels
        if transition.num_classes > ENUMERATION_LIMIT:
            raise ValueError(
                f"--missing: expected drop for candidate sets of more than {ENUMERATION_LIMIT} classes with this loss, "
                "got uninformative; --loss forward keeps them"
            )
        filled = labels.copy()
        filled[absent] = labels[~absent][0]
        labels = transition.row_index(torch.as_tensor(filled)).numpy()
    rows = labels.copy()
    rows[absent] = transition.num_weak_labels
    return blank_label(transition, float(absent.mean())), rows


def split(n: int, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Random training and held-out rows."""
    order = np.random.default_rng(seed).permutation(n)
    held = round(share * n)
    return np.sort(order[held:]), np.sort(order[:held])


def make_schema(codec: LabelCodec, scaling: tuple[FloatArray, FloatArray] | None, table: dict[str, Any]) -> Schema:
    """Everything about the table that prediction needs."""
    d = len(table["features"])
    centre, scale = (np.zeros(d), np.ones(d)) if scaling is None else scaling
    return Schema(
        classes=codec.classes,
        centre=centre.tolist(),
        scale=scale.tolist(),
        transition=transition_to_dict(codec.transition),
        sources=codec.sources,
        **table,
    )


def model_folder(path: Path, force: bool) -> Path:
    """Where the model will be: refuses to overwrite, unless it is a model and `force` says so."""
    sweep(path.parent, path.name)  # a model that a killed run had moved aside counts, too
    if path.exists() or path.is_symlink():
        if not force:
            raise ValueError(f"--out: expected a new folder, got {path}, which exists; --force replaces a model")
        reason = not_replaceable(path)
        if reason is not None:
            raise ValueError(f"--out: --force replaces only a model that tproper made, got {path}, {reason}")
    return path


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line; None where nothing was."""

    loss: str | None
    model: str
    squeeze: tuple[float, float] | None
    l2: float | None
    epochs: int | None
    seed: int
    tune: bool
    standardize: bool
    holdout: float
    force: bool = False  # replace a model that is there

    def estimator(self, transition: Transition, classes: Sequence[str]) -> Any:
        """The classifier to fit."""
        given: dict[str, Any] = {"loss": self.loss, "squeeze": self.squeeze, "l2": self.l2}
        given |= {"epochs": self.epochs, "max_iter": self.epochs}  # an iteration of the linear solver is a pass, too
        return WeakLabelClassifier(
            transition=transition,
            model=self.model,
            random_state=self.seed,
            classes=list(classes),
            tune=self.grid() if self.tune else False,
            **{k: v for k, v in given.items() if v is not None},
        )

    def grid(self) -> list[dict[str, list[Any]]]:
        """The settings to try: the estimator's own, where the command line does not fix them."""
        grids = [g for g in default_grid(self.model) if self.loss in (None, *g["loss"])]
        if self.squeeze is not None:
            grids = [g for g in grids if g["loss"] != ["forward"]]
        grids = grids or [{"loss": [self.loss], "l2": list(L2)}]
        for grid in grids:
            if self.l2 is not None:
                grid["l2"] = [self.l2]
            if self.squeeze is not None:
                grid["squeeze"] = [self.squeeze]
        return grids


@dataclass(frozen=True)
class Report:
    """What training came to: for people, and for machines."""

    text: str
    facts: dict[str, Any]


def fit(estimator: Any, X: FloatArray, labels: Encoded) -> list[str]:
    """Fit; gives the warnings as sentences."""
    with warnings.catch_warnings(record=True) as caught, working(f"training on {len(X):,} rows"):
        warnings.simplefilter("always")
        estimator.fit(X, labels)
    said = [w for w in caught if issubclass(w.category, UserWarning)]  # ConvergenceWarning, ConditioningWarning, ...
    return list(dict.fromkeys(" ".join(str(w.message).split()) for w in said))


def held_out_scores(estimator: Any, schema: Schema, rows: Rows, held: NDArray[np.int64]) -> tuple[Any, str, list[str]]:
    """Scores on held-out weak labels, or why there are none; and what these labels say against T."""
    if len(held) < 2:
        return None, "no rows were held out", []
    why = scoring.why_no_scores(rows.codec.transition)
    if why:
        return None, why, []
    streamed = scoring.StreamedScores(rows.codec.transition)
    kind = " of those with a label" if rows.dropped else ""
    p = Trained(estimator, schema).probabilities(rows.X[held], lambda i: f"{held[i] + 1}{kind}")
    streamed.add(rows.own[held], p)
    return streamed.scores(), "", scoring.doubts_about_transition(rows.own[held], rows.codec.transition, p)


def train(rows: Rows, settings: Settings, columns: dict[str, Any], data: Path, out: Path) -> Report:
    """Fit on all rows but those held out, score on the latter, and write the model folder."""
    chosen, held = split(len(rows.X), settings.holdout, settings.seed)
    held = held[~rows.blank[held]]
    scaling = standardisation(rows.X[chosen], columns["features"]) if settings.standardize else None
    schema = make_schema(rows.codec, scaling, columns)
    estimator = settings.estimator(rows.transition, schema.classes)
    said = fit(estimator, schema.inputs(rows.X[chosen]), rows.labels[chosen])
    scores, why, doubts = held_out_scores(estimator, schema, rows, held)
    facts = {
        "data": str(data),
        "rows": len(chosen),
        "held_out": len(held),
        "dropped": rows.dropped,
        "blank": int(rows.blank.sum()),
        "labels": rows.counts,
        "transition": rows.codec.transition.name,
        "warnings": doubts + rows.notes + said,
        "no_scores": why,
    }
    return finish(estimator, schema, settings, facts, scores, out)


def finish(estimator: Any, schema: Schema, settings: Settings, facts: dict[str, Any], scores: Any, out: Path) -> Report:
    """Write the model folder with its card, and say what became of it."""
    certificate = estimator.certificate_
    used = {"l2": estimator.l2_, "iterations": estimator.n_iter_}
    facts = facts | {
        "name": out.name,
        "features": schema.features,
        "standardized": settings.standardize,
        "classes": schema.classes,
        "label": schema.label,
        "specs": [f"{name}={spec}" if name else spec for name, spec in schema.specs.items()],
        "model": settings.model,
        "loss": certificate.loss,
        "settings": used | {"seed": settings.seed} | getattr(estimator, "best_params_", {}),
        "tuned": settings.tune,
        "in_words": in_words(certificate),
        "picture": None,
        "version": __version__,
    }
    table = None if scores is None else scoring.as_text(scores, None)
    with atomic_folder(out, replaceable=not_replaceable if settings.force else None) as folder:
        write_model(estimator, folder, schema.extra())
        if scores is not None and scoring.can_draw():
            facts["picture"] = "reliability.png"
            scoring.draw(scores, None, folder / "reliability.png")
        card = model_card(facts, table, str(certificate))
        (folder / "model_card.md").write_text(card, encoding="utf-8")
        (folder / "model_card.html").write_text(html_page(card, f"Model card: {out.name}", folder), encoding="utf-8")
    facts |= {"out": str(out), "certificate": certificate.to_dict()}
    facts["scores"] = None if scores is None else scoring.plain(scores)
    return Report(summary(facts, table, certificate, out), facts)
