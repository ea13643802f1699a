"""Names that are probably one name, written in two ways."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Mapping

OFTEN = 20  # times; a name seen once beside a similar one seen so often may be a slip
CLOSE = 0.8  # similarity of two spellings, as difflib measures it
MOST = 2000  # names compared with each other


def look_alikes(counts: Mapping[str, int]) -> list[str]:
    """Sentences about names that differ by their spelling alone: ``1``/``1.0``/``01``, case, accents, spaces, slips.

    Nothing is changed: whether they are one class is the reader's to say.
    """
    groups: dict[object, list[str]] = {}
    for name in counts:
        groups.setdefault(_key(name), []).append(name)
    out = [
        f"classes {_listed(names, counts)} look like one written in {len(names)} ways; they count as different classes"
        for names in groups.values()
        if len(names) > 1
    ]
    often = [name for name, n in counts.items() if n >= OFTEN][:MOST]
    for name in [n for n, times in counts.items() if times == 1][:MOST]:
        close = [c for c in difflib.get_close_matches(name, often, n=1, cutoff=CLOSE) if _key(c) != _key(name)]
        if close and not name.isdigit():
            out.append(f"the class {name!r} is seen once, and looks like {close[0]!r}; is it a slip?")
    return out


def _key(name: str) -> object:
    try:
        return float(name)
    except ValueError:
        return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _listed(names: list[str], counts: Mapping[str, int]) -> str:
    return " and ".join(f"{ascii(n) if not n.isascii() else repr(n)} ({counts[n]:,} times)" for n in names)
