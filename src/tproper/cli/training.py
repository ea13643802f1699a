"""From a table with weak labels to a model folder: read, encode, hold out, fit, score, describe."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from .._core import FloatArray, atomic_folder, sweep
from ..learn import L2, WeakLabelClassifier, default_grid, not_replaceable, write_model
from ..plots import html_page
from ..transitions import Transition, transition_to_dict
from . import table_scores as scoring
from .cards import in_words, model_card, summary
from .codec import Encoded, LabelCodec
from .progress import working
from .rows import Rows
from .schema import Schema, standardisation
from .streaming import Trained


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
        annotators=codec.annotators,
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
    held = held[~rows.silent[held]]
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
        "blank": rows.blank,
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
