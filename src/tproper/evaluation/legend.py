"""What numbers in messages stand for: the names of classes, annotators, sources and features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NAMED = 12  # classes, annotators or sources whose numbers are explained


@dataclass(frozen=True)
class Legend:
    """What numbers of classes, annotators, sources and features stand for."""

    classes: Sequence[Any] = ()
    annotators: Sequence[Any] = ()
    sources: Sequence[Any] = ()
    features: Sequence[Any] = ()

    def lines(self, lines: Sequence[str]) -> list[str]:
        """What the numbers in these lines stand for, where they have some."""
        text, parts = "\n".join(lines), []
        if re.search(r"\b(class|classes|label|annotators?|source) \(?\d", text):
            known = {"classes": self.classes, "annotators": self.annotators, "sources": self.sources}
            parts = [f"{kind}: {_numbered(names)}" for kind, names in known.items() if len(names)]
        told = sorted({int(i) for i in re.findall(r"\bfeature (\d+)", text)})  # there may be thousands of others
        told = [i for i in told if i < len(self.features)]
        if told:
            parts.append("features: " + ", ".join(f"{i} = {self.features[i]}" for i in told))
        return [f"({'; '.join(parts)})"] if parts else []


def _numbered(names: Sequence[Any]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(f"{i} = {name}" for i, name in enumerate(names[:NAMED])) + more
