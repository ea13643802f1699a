"""What is proven of a benchmark's methods, kept beside its records."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tproper.errors import InputError
from tproper.extension import json_text, write_file
from tproper.transitions import Transition

from .methods import Card, LibraryLoss, find_method
from .protocol import TrialConfig


class Verdicts:
    """What is proven of methods for a T; slow ones are kept in a file beside the records.

    Certificates of the library's own losses are exact and quick. A function is decided by a search of many seconds,
    which is made where `decide` says so.
    """

    def __init__(self, file: Path | None = None, decide: bool = False):
        self.file, self.decide = file, decide
        self.known: dict[str, dict[str, Any]] = {}
        if file is not None and file.exists():
            try:
                self.known = json.loads(file.read_text(encoding="utf-8"))
                for card in self.known.values():
                    Card(**card)
            except (ValueError, TypeError, AttributeError) as error:
                raise InputError(f"{file}: expected kept certificates, got something else; remove it") from error

    def of(self, config: TrialConfig, told: Transition) -> Card | None:
        """The card of a configuration's method; None where it is not decided here."""
        try:
            method = find_method(config.loss)
        except ValueError:  # another user's own
            return None
        problem = config.problem
        assert problem is not None
        text = json_text([config.loss, problem.told or problem.labels, problem.merged, config.code])
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        if key in self.known:
            return Card(**self.known[key])
        quick = method.decide is None or isinstance(method.build(told), LibraryLoss)
        if not quick and not self.decide:
            return None
        card = method.card(told)
        if not quick:
            self.known[key] = {k: v for k, v in card.to_dict().items() if k != "certificate"}
        return card

    def save(self) -> None:
        """Keep what was decided."""
        if self.file is not None and self.decide:
            write_file(self.file, (json_text(self.known, indent=1, sort_keys=True) + "\n").encode(), overwrite=True)


def is_proper_and_bounded(card: Card | None) -> bool:
    """Whether both are certified."""
    return card is not None and card.proper is True and card.bounded is True


def short_verdict(card: Card | None) -> str:
    """A verdict for a cell of a table."""
    if card is None:
        return "not decided here"
    if card.proper is None or card.bounded is None:
        return "no certificate applies"
    bounded = "bounded" if card.bounded else "unbounded"
    return f"{'proper' if card.proper else 'not proper'}, {bounded} ({card.evidence})"
