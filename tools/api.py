"""The public names of tproper with their signatures, and what has changed since the last release.

    python tools/api.py --write    write tests/releases/api.txt anew, when a version is released
    python tools/api.py            what has changed since; exit code 1 where a change has no word in changelog/

A name is public if `tproper.__all__` has it; so are the public methods and properties that a class defines.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "releases" / "api.txt"
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def signature(thing: object) -> str:
    """The arguments as one reads them; annotations are left out, since their text depends on the version of Python."""
    try:
        found = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return ADDRESS.sub("", str(inspect.Signature(bare)))


def members(name: str, thing: type) -> list[str]:
    """Methods and properties that are public and that tproper defines, its bases' included."""
    lines = []
    for member in sorted(dir(thing)):
        owner = next((c for c in thing.__mro__ if member in vars(c)), None)
        if member.startswith("_") or owner is None or not owner.__module__.startswith("tproper"):
            continue
        value = inspect.getattr_static(thing, member)
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        called = signature(value) if inspect.isfunction(value) else ""
        lines.append(f"{name}.{member}{called}")
    return lines


def public() -> list[str]:
    """One line a name."""
    import tproper as tp

    lines: list[str] = []
    for name in sorted(tp.__all__):
        thing = getattr(tp, name)
        lines.append(f"{name}{signature(thing) if callable(thing) else ''}")
        if inspect.isclass(thing):
            lines += members(name, thing)
    return lines


def changes(before: list[str], now: list[str]) -> dict[str, str]:
    """Name -> what happened to it, for the names whose line is another or gone (new ones are no promise broken)."""
    name = lambda line: line.partition("(")[0]  # noqa: E731
    after = {name(line): line for line in now}
    return {
        name(line): "gone" if name(line) not in after else f"now {after[name(line)]}"
        for line in before
        if after.get(name(line)) != line
    }


def untold(changed: dict[str, str], texts: list[str]) -> dict[str, str]:
    """The changes that no fragment of the changelog names, by the last part of the name."""
    words = set(re.findall(r"\w+", " ".join(texts)))
    return {name: what for name, what in changed.items() if name.rpartition(".")[2] not in words}


def main() -> int:
    """Write, or compare."""
    now = public()
    if "--write" in sys.argv:
        FILE.write_text("\n".join(now) + "\n", encoding="utf-8")
        return 0
    before = FILE.read_text(encoding="utf-8").splitlines()
    print("\n".join(difflib.unified_diff(before, now, "last release", "now", lineterm="", n=0)))
    texts = [p.read_text(encoding="utf-8") for p in (ROOT / "changelog").glob("*.md")]
    silent = untold(changes(before, now), texts)
    for name, what in silent.items():
        print(f"{name}: {what}; say so in a file of changelog/", file=sys.stderr)
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
