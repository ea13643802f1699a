"""What numbers in messages stand for: the names of classes, annotators and sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NAMED = 12  # classes, annotators or sources whose numbers are explained


@dataclass(frozen=True)
class Legend:
    """What numbers of classes, annotators and sources stand for."""

    classes: Sequence[Any] = ()
    annotators: Sequence[Any] = ()
    sources: Sequence[Any] = ()

    def lines(self, lines: Sequence[str]) -> list[str]:
        """What the numbers in these lines stand for, where they have some."""
        if not re.search(r"\b(class|classes|label|annotators?|source) \(?\d", "\n".join(lines)):
            return []
        known = {"classes": self.classes, "annotators": self.annotators, "sources": self.sources}
        parts = [f"{kind}: {_numbered(names)}" for kind, names in known.items() if len(names)]
        return [f"({'; '.join(parts)})"] if parts else []


def _numbered(names: Sequence[Any]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(f"{i} = {name}" for i, name in enumerate(names[:NAMED])) + more
