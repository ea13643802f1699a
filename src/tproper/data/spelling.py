"""Names that are probably one name, spelled in two ways."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

OFTEN = 20  # times; a name seen once beside a similar one seen so often may be a slip
CLOSE = 0.8  # similarity of two spellings, as difflib measures it
MOST = 500  # names compared with each other: a second at most
_JOINED = re.compile(r"\s*[,;/]\s*|\s+or\s+")
# how programs write what is missing; those spellings of it that are read as missing are no classes
_ABSENT = frozenset(["none", "null", "nil", "na", "<na>", "#na", "n/a", "#n/a", "nan", "-nan", "nat"])
_WHOLE_FLOAT = re.compile(r"-?\d+\.0")
WITH_GAPS = (
    "pandas reads whole numbers beside empty cells as floats and writes 3 as 3.0: write all of them alike, with "
    "table[column].astype('Int64') before to_csv, or read them with dtype=str"
)


def look_alikes(counts: Mapping[str, int]) -> list[str]:
    """Sentences about names that differ in spelling alone: ``1``/``1.0``/``01``, case, Unicode forms, spaces, typos.

    Nothing is changed: whether they are one class is for the reader to say.
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


def misreadings(labels: Iterable[str], classes: Sequence[str]) -> list[str]:
    """Sentences about labels that probably do not mean what they are read as: a class in another spelling, several
    classes in one cell without the separator of sets, the mark of a missing label, or "not a cat" for the
    complementary label ``cat``.
    """
    known = {_key(name): name for name in classes}
    out = []
    spelled = sorted(name for name in set(labels) - set(classes) if _key(name) in known)
    if spelled:
        out.append(
            f"the label {spelled[0]!r}{_others(spelled)} looks like the class {known[_key(spelled[0])]!r} in another "
            "spelling, and counts as another label; write them alike"
        )
    parts = {name: _JOINED.split(name) for name in classes}
    joined = [name for name in classes if len(parts[name]) > 1 and all(_key(part) in known for part in parts[name])]
    if joined:
        out.append(
            f"the class {joined[0]!r}{_others(joined)} looks like several classes in one cell; a candidate set is "
            f"written {'|'.join(parts[joined[0]])!r}"
        )
    absent = [name for name in classes if name.casefold() in _ABSENT]
    if absent:
        out.append(
            f"the class {absent[0]!r}{_others(absent)} looks like the mark of a missing label; if it is one, leave "
            "such cells empty"
        )
    if classes and all(name.casefold().startswith("not ") for name in classes):
        out.append(
            f"every class begins with 'not': {classes[0]!r} is read as the name of a class. A complementary label is "
            "the class that a row is not, written without 'not'"
        )
    return out


def _others(names: Sequence[str]) -> str:
    return f" (and {len(names) - 1} more like it)" if len(names) > 1 else ""


def float_twins(names: Iterable[str]) -> str | None:
    """Why names cannot all be classes, where one is a whole number and another the same number as a float: 3, 3.0."""
    known = set(names)
    twins = sorted(n for n in known if _WHOLE_FLOAT.fullmatch(n) and n[:-2] in known)
    if not twins:
        return None
    return f"both {twins[0][:-2]!r} and {twins[0]!r}{_others(twins)}; {WITH_GAPS}"


def nearest(name: str, names: Sequence[str]) -> str:
    """ "; did you mean ...?" where some name is close, else nothing."""
    same = name[:-2] if _WHOLE_FLOAT.fullmatch(name) else f"{name}.0"
    if same in names and float_twins([name, same]):
        return f"; {same!r} is the same number: {WITH_GAPS}"
    close = difflib.get_close_matches(name, names, n=1)
    if not close:
        return ""
    if unicodedata.normalize("NFC", close[0]) == unicodedata.normalize("NFC", name):
        return f"; {close[0]!a} looks the same, but is {name!a} in another Unicode form: copy it from there"
    spaces = "" if close[0] == close[0].strip() else " (in a list of names, double quotes keep the spaces)"
    return f"; did you mean {close[0]!r}?{spaces}"


def _key(name: str) -> object:
    for number in (int, float):  # a float would round identifiers of 17 digits to one number
        with suppress(ValueError):
            return number(name)
    return " ".join(unicodedata.normalize("NFKC", name).casefold().rstrip(" .!").split())


def _listed(names: list[str], counts: Mapping[str, int]) -> str:
    return " and ".join(f"{ascii(n) if not n.isascii() else repr(n)} ({counts[n]:,} times)" for n in names)
