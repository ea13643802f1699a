"""The evidence for and against the scores: the test of T, and how far scores move with T's rates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .._core import FloatArray
from ..data import short
from ..estimation import Sensitivity, TransitionCheck, check_transition, sensitivities
from ..metrics import restrict
from ..transitions import Encoded, Reconstruction
from .labels import Coded, LabelCodec

CHECKED_ROWS = 20_000  # more rows would add nothing
NOTES = 3  # in words: a weak model has one for each class
LIMITS = {"accuracy": (0.0, 1.0), "log_loss": (0.0, float("inf")), "brier": (0.0, 2.0)}
NAMES = {"accuracy": "accuracy", "log_loss": "log loss", "brier": "Brier score"}


@dataclass(frozen=True)
class Trust:
    """The check of T on some rows, and the sensitivity of each score that has one."""

    codec: LabelCodec
    check: TransitionCheck
    moved: dict[str, Sensitivity]

    @property
    def doubts(self) -> list[str]:
        """A warning that cannot be overlooked where labels contradict T."""
        if self.check.plausible:
            return []
        worst = min(self.check.tests, key=lambda test: test.p_value)
        names = "".join(f" {line}" for line in self._names([worst.sentence]))
        return [
            f"T IS DOUBTFUL: labels contradict the transition {self.codec.transition.name} "
            f"(p = {self.check.p_value:.2g}): {worst.sentence}{names}. Do not trust scores and probabilities that rest "
            "on it; tproper.check_transition says more"
        ]

    @property
    def lines(self) -> list[str]:
        """What stands below a table of scores."""
        out = [*self._moves(), *self._verdict()]
        return out if not self.check.plausible else [*out, *self._names(out)]

    def _names(self, lines: Sequence[str]) -> list[str]:
        """What numbers of classes, annotators and sources stand for, where lines have some."""
        if not re.search(r"\b(class|classes|label|annotators?|source) \(?\d", "\n".join(lines)):
            return []
        names = {"classes": self.codec.classes, "annotators": self.codec.annotators, "sources": self.codec.sources}
        return [f"({'; '.join(f'{kind}: {_numbered(n)}' for kind, n in names.items() if n)})"]

    def _moves(self) -> list[str]:
        """How far each score moves, sampling error included, within what is possible."""
        movable = {name: s for name, s in self.moved.items() if s.rate}
        if not movable:
            return ["T has no rates that could be off, so no score moves with them"] if self.moved else []
        moves = list(next(iter(movable.values())).ranges)
        lines = [f"{'if T is off by':<20}" + "".join(f"{m:<22g}" for m in moves) + "the rate that matters most"]
        for name, s in movable.items():
            ends = [tuple(restrict(x, LIMITS[name]) for x in s.intervals[m]) for m in moves]
            cells = "".join(f"{f'{low:.4f} to {high:.4f}':<22}" for low, high in ends)
            lines.append(f"{NAMES[name]:<20}{cells}{s.rate.rstrip(',')}: {0.01 * s.effect:+.4f} for each +.01")
        return lines

    def _verdict(self) -> list[str]:
        if not self.check.plausible:
            return [f"WARNING, of all scores above: {doubt}" for doubt in self.doubts]
        if self.check.anchored and self.check.model_fits:
            unsaid = "" if self.check.confirmed else "; whether the noise differs among other rows is not known"
            return [
                f"no test speaks against T (p = {self.check.p_value:.2g}), and the surest rows have the labels that T "
                f"gives them{unsaid}; an error of T too small for these rows to show moves the scores as above"
            ]
        if not self.check.model_fits:
            return [
                f"no test speaks against T alone (p = {self.check.p_value:.2g}), but labels do not match the model's "
                f"probabilities under it (p = {self.check.model_p_value:.2g}): the model is off, or T is; look at the "
                "lines above"
            ]
        why = [note.rstrip(".") for note in self.check.notes] or ["there are too few of them to tell"]
        more = [f"({len(why) - NOTES} more such notes: --json has them)"] if len(why) > NOTES else []
        return [f"nothing in these labels confirms T, so look at the lines above: {why[0]}", *why[1:NOTES], *more]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"check": self.check.to_dict(), "sensitivity": {name: s.to_dict() for name, s in self.moved.items()}}


def trust(labels: Coded, p: FloatArray, codec: LabelCodec, reconstruction: str | Reconstruction = "auto") -> Trust:
    """From weak labels, and probabilities of models that had not seen them; by the R of their scores."""
    if len(labels) > CHECKED_ROWS:
        some = np.linspace(0, len(labels) - 1, CHECKED_ROWS).round().astype(np.int64)
        labels, p = labels[some], p[some]
    T, names = codec.transition, codec.annotators or None
    read = Encoded(torch.as_tensor(labels))
    moved = sensitivities(read, p, T, reconstruction, classes=codec.classes, annotators=names)
    return Trust(codec, check_transition(read, T, p), moved)


def _numbered(names: Sequence[str]) -> str:
    return short([f"{i} = {name}" for i, name in enumerate(names)], 12)
