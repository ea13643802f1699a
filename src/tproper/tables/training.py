"""From a table with weak labels to a model: encode, hold out, fit, score, describe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .. import __version__
from .._core import held_out_rows
from ..data import Bar
from ..errors import InputError
from ..evaluation import Evaluation, Evaluator
from ..learn import (
    L2,
    WeakLabelClassifier,
    default_grid,
    with_params,
)
from ..metrics import restrict
from ..transitions import Transition, transition_to_dict
from .cards import in_words
from .cross_fit import Unseen, check_groups, cross_fitted, fit_part, held_out, splits_of
from .labels import LabelCodec
from .notes import recorded_warnings, warn
from .options import Settings
from .overlap import kept_digests, repeated_rows
from .richer import needs_more
from .rows import Rows
from .schema import Schema, encoder_of

PENALTIES = (1.0, 3.0, 10.0)  # times the default
ROWS_OF_A_NUMBER = 5  # rows for each number that a model is given, from which on the penalty hardly matters
FEWEST_TO_TUNE = 10  # rows: two in each of five folds


def make_schema(codec: LabelCodec, table: dict[str, Any], told: Sequence[str] | None = None) -> Schema:
    """Everything about the table's labels that scores of the model need; `told` is the order classes were given in."""
    return Schema(
        classes=codec.classes,
        transition=transition_to_dict(codec.transition),
        sources=codec.sources,
        annotators=codec.annotators,
        told=[] if told is None or list(told) == codec.classes else list(told),
        **table,
    )


def make_estimator(settings: Settings, transition: Transition) -> Any:
    """The classifier to fit, for a T that names its classes."""
    given: dict[str, Any] = {"loss": settings.loss, "squeeze": settings.squeezing, "l2": settings.l2}
    given |= {"epochs": settings.epochs, "max_iter": settings.epochs}  # an iteration of the linear solver is a pass
    return WeakLabelClassifier(
        transition=transition,
        model=settings.model,
        random_state=settings.seed,
        tune=tuning_grid(settings) if settings.tune else False,
        calibrate=False if settings.calibrate == "none" else settings.calibrate,
        **{k: v for k, v in given.items() if v is not None},
    )


def tuning_grid(settings: Settings) -> list[dict[str, list[Any]]]:
    """The settings to try: the estimator's own, where the command line does not fix them."""
    loss, squeezing = settings.loss, settings.squeezing
    grids = [g for g in default_grid(settings.model) if loss in (None, *g["loss"])]
    if squeezing is not None:
        grids = [g for g in grids if g["loss"] != ["forward"]]
    grids = grids or [{"loss": [loss], "l2": list(L2)}]
    for grid in grids:
        if settings.l2 is not None:
            grid["l2"] = [settings.l2]
        if squeezing is not None:
            grid["squeeze"] = [squeezing]
    return grids


@dataclass(frozen=True)
class Quality:
    """Scores of rows that the model had not seen, or why there are none."""

    evaluation: Evaluation | None = None
    how: str = ""
    why_none: str = ""
    expected: dict[str, float] | None = None  # the mean probability of each class
    predicted: dict[str, float] | None = None  # how often it is the likeliest

    def facts(self) -> dict[str, Any]:
        """What the first screen of a card tells."""
        found = self.evaluation
        accuracy = None
        if found is not None and (found.clean or found.scores):
            best, bound = (found.clean or found.scores)["accuracy"], found.bounds.get("accuracy")
            (low, high), value = best.interval, best.shown
            known: dict[str, Any] = {"informative": bool(best.informative), "true": bool(found.clean), "bounds": False}
            if bound is not None and not found.clean:
                low, high, value = bound.low, bound.high, (bound.low + bound.high) / 2
                known |= {"informative": True, "bounds": True, "needs": bound.needs, "within": bound.within}
            accuracy = {"value": value, "low": low, "high": high} | known
        said = moved = None
        agree_more = False
        if found is not None and found.check is not None:
            check = found.check
            said = "contradicted" if not check.plausible else "unopposed" if check.model_fits else "model off"
            ranges = found.sensitivity.get("accuracy")
            ends = None if ranges is None or not ranges.rate else next(iter(ranges.intervals.values()), None)
            moved = None if ends is None else [restrict(x, (0.0, 1.0)) for x in ends]
            agree_more = check.sources_agree_more
        of_T = {"trust_in_T": said, "moved": moved, "agree_more": agree_more}
        of_T["bounded"] = found is not None and bool(found.bounds)
        return {"accuracy": accuracy, "expected": self.expected, "predicted": self.predicted} | of_T


@dataclass(frozen=True)
class Fitted:
    """A trained classifier with its table's part, what was counted, and what is known of its quality."""

    estimator: Any
    schema: Schema
    facts: dict[str, Any]
    quality: Quality | None


def measure(rows: Rows, unseen: Unseen | None, features: Any, names: Sequence[str]) -> Quality:
    """Scores from weak labels, and from known classes where there are any; `features` (n, d) of all rows have names."""
    if unseen is None:
        return Quality(why_none="no rows were held out")
    classes, p, labelled = rows.codec.classes, unseen.p, ~rows.silent[unseen.rows]
    best = np.bincount(p.argmax(axis=1), minlength=len(classes)) / len(p)
    shares = {"expected": p.mean(axis=0), "predicted": best}
    of_class: dict[str, Any] = {kind: dict(zip(classes, s.tolist(), strict=True)) for kind, s in shares.items()}
    few = "fewer than two of these rows have a weak label" if labelled.sum() < 2 else ""
    own = None if rows.group is None else rows.group[unseen.rows]
    legend = replace(rows.codec.known_names(), features=names)
    scored = Evaluator(rows.codec.transition, legend, groups=None if own is None else own[labelled])
    if not few:
        scored.add(rows.own[unseen.rows][labelled], p[labelled], features[unseen.rows[labelled]])
    if rows.true is not None:
        true = rows.true[unseen.rows]
        known = true >= 0
        if int(known.sum()) > 1:
            scored.add_known(true[known], p[known], None if own is None else own[known])
    result = scored.result()
    return Quality(result, unseen.how, few or result.no_scores, **of_class)


def chooses_penalty(settings: Settings, rows: Rows, features: Any) -> bool:
    """Whether the penalty is chosen by cross-validated weak risk although nobody asked for it.

    Words are many and each of them says little, so that the default, which goes by the features' variance, may be far
    too small for them. Not where rules made the labels: they see the words, and every weak risk calls the model that
    repeats them best.
    """
    if not issparse(features) or settings.model != "linear" or settings.l2 is not None or settings.tune:
        return False
    n, width = features.shape
    return width > n / ROWS_OF_A_NUMBER and n >= FEWEST_TO_TUNE and not rows.transition.of_features


def train(rows: Rows, settings: Settings, columns: dict[str, Any], data: str) -> Fitted:
    """Fit to all rows and score them by cross-fitting, or hold some out."""
    n, share = len(rows), settings.holdout or 0.0
    if settings.tune and n < FEWEST_TO_TUNE:
        raise InputError(f"--tune: expected at least {FEWEST_TO_TUNE} rows with a label, got {n}")
    chosen, held = held_out_rows(n, share, np.random.default_rng(settings.seed), rows.group)
    check_groups(rows, chosen)
    splits = splits_of(rows, settings.folds, settings.seed) if settings.holdout is None and n >= 4 else []
    some = rows.X if len(chosen) == n else rows.X[chosen]
    inputs = encoder_of(some, rows.kinds, settings.standardize, rows.X)
    inputs.left_out = rows.left_out
    features = inputs.encode(rows.X, np.float32 if settings.model == "mlp" else np.float64)
    table = columns | {"features": inputs.names}
    schema = replace(make_schema(rows.codec, table, rows.told), digests=kept_digests(some))
    estimator = make_estimator(settings, rows.transition.named(rows.codec.names))
    alike = repeated_rows(some, features if some is rows.X else features[chosen]) if rows.group is None else ""
    del some
    rows.let_go()  # of many rows the table is large, and features are all that is needed from here
    with recorded_warnings() as doubts, Bar(f"training on {len(chosen):,} rows", 100, "%") as bar:
        warn([alike] * bool(alike))
        estimator.set_params(verbose=lambda share: bar.at(round(100 * share)))
        fit_part(estimator, features, rows, chosen)
        if chooses_penalty(settings, rows, features):
            estimator.set_params(tune={"l2": [factor * estimator.l2_ for factor in PENALTIES]})
            fit_part(estimator, features, rows, chosen)
        estimator.set_params(verbose=0)
    unseen = None
    if splits:
        params, T = getattr(estimator, "best_params_", {}), estimator.transition_
        unseen = cross_fitted(rows, features, lambda: with_params(estimator, params, T), splits, settings.folds)
    elif len(held) > 1:
        unseen = held_out(estimator, features, rows, held)
    estimator.take_columns(inputs)
    quality = measure(rows, unseen, features, inputs.features)
    more = [] if unseen is None or settings.model != "linear" else _more(estimator, quality, rows, features, unseen)
    facts = {
        "data": data,
        "rows": len(chosen),
        "held_out": len(held),
        "dropped": rows.dropped,
        "blank": rows.blank,
        "unlabelled": int(rows.unlabelled[chosen].sum()),
        "labels": rows.counts,
        "answers": rows.answers,
        "known_classes": None if rows.true is None else int((rows.true >= 0).sum()),
        "groups": None if rows.group is None else len(np.unique(rows.group)),
        "transition": rows.codec.transition.name,
        "unidentified": rows.codec.transition.unidentified,
        "estimate": None if rows.estimate is None else rows.estimate.text,
        "warnings": ([] if quality.evaluation is None else quality.evaluation.doubts) + more + rows.notes + doubts,
    }
    return described(estimator, schema, settings, facts, quality)


def _more(estimator: Any, quality: Quality, rows: Rows, features: Any, unseen: Unseen) -> list[str]:
    """Whether a richer model would know more, asked where labels or probabilities say that this one misses much."""
    check = None if quality.evaluation is None else quality.evaluation.check
    if not getattr(estimator.calibrator_, "drawn", 0.0) and (check is None or check.model_fits):
        return []
    given = ~rows.silent[unseen.rows]
    at = unseen.rows[given]
    own = None if rows.group is None else rows.group[at]
    return list(filter(None, [needs_more(features[at], rows.own[at], rows.codec.transition, unseen.p[given], own)]))


def _calibration(estimator: Any) -> str:
    """What the calibration did, and the calibration error before and after, from weak labels."""
    calibrator = getattr(estimator, "calibrator_", None)
    if calibrator is None:
        return "calibration: none, probabilities are the loss's own"
    if calibrator.method != "identity" or not calibrator.reliability:
        return str(calibrator)
    after = calibrator.reliability["after"]
    low, high = after["interval"]
    error = f"calibration error {after['value']:.4g} (95% interval {low:.4g} to {high:.4g})"
    return "\n".join(["calibration: identity", f"{error}, before and after", *calibrator.notes])


def described(estimator: Any, schema: Schema, settings: Settings, facts: dict[str, Any], quality: Quality) -> Fitted:
    """What there is to say of a model, beside what training has counted."""
    certificate = estimator.certificate_
    used = {"l2": estimator.l2_, "iterations": estimator.n_iter_}
    facts = (
        facts
        | {
            "features": schema.features,
            "columns": str(estimator.inputs_),
            "words": {part.name: part.width for part in estimator.inputs_.parts if part.kind == "text"},
            "standardized": settings.standardize,
            "classes": schema.classes,
            "label": schema.label,
            "specs": [f"{name}={spec}" if name else spec for name, spec in schema.specs.items()],
            "model": settings.model,
            "loss": certificate.loss,
            "settings": used | {"seed": settings.seed} | getattr(estimator, "best_params_", {}),
            "tuned": bool(getattr(estimator, "best_params_", None)),
            "calibration": _calibration(estimator),
            "how_scored": quality.how,
            "no_scores": quality.why_none,
            "in_words": in_words(certificate, facts["estimate"] is not None, facts["known_classes"] or 0),
            "picture": None,
            "version": __version__,
            "date": datetime.now(UTC).date().isoformat(),
        }
        | quality.facts()
    )
    return Fitted(estimator, schema, facts, quality)
