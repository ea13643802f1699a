"""What is asked for: columns and their roles, how a model is trained, how a table is weakened.

These hold the mistakes that a request shows by itself, before anything is read; nothing heavy is imported for that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeAlias

from ..errors import InputError

Names: TypeAlias = str | Sequence[str] | None  # names of columns or classes: "a,b" or ["a", "b"]

LOSSES = ("forward", "backward", "gls", "ga")
MODELS = ("linear", "mlp", "boosting")
CALIBRATIONS = ("auto", "none", "identity", "temperature", "bias", "vector", "matrix")
GAPS = ("auto", "random", "answer")  # what a gap among several answers may mean
SOURCES = ("clean", "features", "annotators", "pu", "partial")


def one_of(value: Any, known: Sequence[str], option: str) -> None:
    """Refuse a value that is not among those known."""
    if value not in known:
        raise InputError(f"{option}: expected one of {', '.join(known)}, got {value!r}")


def at_least(value: float | None, low: float, option: str) -> None:
    """Refuse a number below `low`, and one that is none."""
    if value is not None and not low <= value < math.inf:
        raise InputError(f"{option}: expected a number >= {low:g}, got {value:g}")


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Which columns hold labels, and whose they are."""

    label: str | Sequence[str]
    true_label: str | None = None
    item: str | None = None
    annotator: str | None = None
    features_from: Any = None  # a second table, with the features of every item
    source_column: str | None = None
    group: str | None = None

    @property
    def several(self) -> bool:
        """Whether they name answers of several annotators."""
        return self.item is not None or (("," in self.label) if isinstance(self.label, str) else len(self.label) > 1)


@dataclass(frozen=True, kw_only=True)
class TableOptions(LabelOptions):
    """What training is told of a table: its columns, its classes and its T."""

    transition: Any
    features: Names = None
    ignore: Names = None
    classes: Names = None
    missing: str = "drop"
    stream: bool = False
    text: Names = None
    category: Names = None
    numeric: Names = None

    def __post_init__(self) -> None:
        one_of(self.missing, ("drop", "uninformative", *GAPS), "--missing")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is trained, and how it is scored; None where nothing was asked for."""

    loss: str | None = None
    model: str = "linear"
    squeeze: Any = None
    l2: float | None = None
    epochs: int | None = None
    seed: int = 0
    tune: bool = False
    standardize: bool = True
    holdout: float | None = None
    folds: int | None = None
    calibrate: str = "auto"

    def __post_init__(self) -> None:
        one_of(self.calibrate, CALIBRATIONS, "--calibrate")
        if self.loss is not None:
            one_of(self.loss, LOSSES, "--loss")
        one_of(self.model, MODELS, "--model")
        at_least(self.l2, 0, "--l2")
        at_least(self.epochs, 1, "--epochs")
        at_least(self.seed, 0, "--seed")
        at_least(self.folds, 2, "--folds")
        if self.holdout is not None and not 0 <= self.holdout < 1:
            raise InputError(f"--holdout: expected a share in [0, 1), got {self.holdout:g}")
        if self.folds is not None and self.holdout is not None:
            raise InputError("--folds: expected it or --holdout, got both")
        squeezable = self.loss in ("gls", "backward") or (self.tune and self.loss is None)
        if self.squeezing is not None and not squeezable:
            got = self.loss or "forward"
            raise InputError(f"--squeeze: expected it with --loss gls or backward only, got --loss {got}")

    @property
    def squeezing(self) -> tuple[float, float] | None:
        """k and alpha of ``K,ALPHA``."""
        if self.squeeze is None:
            return None
        parts = self.squeeze.split(",") if isinstance(self.squeeze, str) else self.squeeze
        try:
            k, alpha = (float(part) for part in parts)
        except (TypeError, ValueError):
            raise InputError(f"--squeeze: expected K,ALPHA such as 1,2, got {self.squeeze!r}") from None
        if not 0 < k < math.inf:
            raise InputError(f"--squeeze: expected a coefficient k > 0, got {k:g}")
        if not 1 <= alpha < math.inf:
            raise InputError(
                f"--squeeze: expected an exponent alpha >= 1 (below, the loss is not proper), got {alpha:g}"
            )
        return k, alpha


@dataclass(frozen=True, kw_only=True)
class Weakening:
    """How a table of true classes is weakened."""

    label: str
    transition: Any
    seed: int = 0
    column: str = "weak_label"
    keep_true: bool = False
    classes: Names = None
    source_column: str | None = None

    def __post_init__(self) -> None:
        at_least(self.seed, 0, "--seed")

    def passed(self, names: Sequence[str]) -> list[str]:
        """The columns to pass through, of a table's."""
        passed = [n for n in names if self.keep_true or n != self.label]
        for name, option in ((self.column, "--column"), (self.source_column, "--source-column")):
            if name is not None and name in passed:
                raise InputError(f"{option}: expected the name of a new column, got {name!r}, which the table has")
        if self.column == self.source_column:
            raise InputError(f"--source-column: expected another name than the label column's, got {self.column!r}")
        return passed


@dataclass(frozen=True, kw_only=True)
class EstimateOptions(LabelOptions):
    """What T is estimated from."""

    source: str
    features: Names = None
    ignore: Names = None
    classes: Names = None
    sampling: str = "one sample"
    structure: str = "auto"
    missing: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        one_of(str(self.source), SOURCES, "source")
        one_of(self.missing, GAPS, "--missing")
        at_least(self.seed, 0, "--seed")


def listed_specs(transition: Any) -> list[Any]:
    """How labels were weakened: one spec, or a list of texts NAME=SPEC, one for each source.

    A spec is a text, a `Transition`, or a matrix; a mapping of names to specs holds one for each source.
    """
    if isinstance(transition, Mapping) and not {"family", "name"} & set(transition):
        return [(str(name), spec) for name, spec in transition.items()]
    if isinstance(transition, (str, PathLike)):
        return [str(transition)]
    if isinstance(transition, (list, tuple)) and transition and all(isinstance(s, str) for s in transition):
        return list(transition)
    return [transition]
