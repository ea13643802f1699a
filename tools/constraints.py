"""The versions this project is tested with: what pyproject's dependencies and extras need, and nothing else.

    python tools/constraints.py            compare constraints.txt with what they need
    python tools/constraints.py --write    write it anew, with the versions that are installed

What a package needs is what its installed metadata say, for this Python and this machine.
"""

from __future__ import annotations

import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (ROOT, ROOT / "lab")
FILE = ROOT / "constraints.txt"
HEADER = "# Versions this project is tested with, all together, on Python 3.11 (CPU). `make` installs from them.\n"
HEADER += "# Made by `python tools/constraints.py --write`: all that pyproject's dependencies and extras need.\n"


def declared() -> list[str]:
    """All requirements of both packages' pyproject.toml, extras included; the packages themselves left out."""
    lists = []
    for folder in PACKAGES:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        lists += [project["dependencies"], *project["optional-dependencies"].values()]
    return [line for group in lists for line in group if Requirement(line).name not in ("tproper", "tproper-lab")]


def needed(requirements: list[str]) -> set[str]:
    """Names of all packages that these need, directly or through others."""
    todo = [(Requirement(line), frozenset([""])) for line in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    absent = []
    while todo:
        requirement, asked = todo.pop()
        if requirement.marker is not None and not any(requirement.marker.evaluate({"extra": e}) for e in asked):
            continue
        name, extras = canonicalize_name(requirement.name), frozenset(["", *requirement.extras])
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            todo += [(Requirement(line), extras) for line in metadata.requires(name) or []]
        except metadata.PackageNotFoundError:
            absent.append(name)
    if absent:
        raise ValueError(f"expected everything in the extra 'dev' to be installed, got no {', '.join(sorted(absent))}")
    return {name for name, _ in seen}


def pinned() -> dict[str, str]:
    """Name -> line of constraints.txt."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(line.partition("==")[0]): line for line in lines if line and not line.startswith("#")}


def main() -> int:
    """Compare, or write."""
    names = needed(declared())
    if "--write" in sys.argv[1:]:
        # a local version (2.13.0+cpu) is found in no index but its own
        lines = [f"{name}=={metadata.version(name).partition('+')[0]}\n" for name in sorted(names)]
        FILE.write_text(HEADER + "".join(lines), encoding="utf-8")
        return 0
    missing, needless = sorted(names - set(pinned())), sorted(set(pinned()) - names)
    for what, found in [("missing", missing), ("needed by nothing", needless)]:
        if found:
            print(f"constraints.txt: {what}: {', '.join(found)}")
    return 1 if missing or needless else 0


if __name__ == "__main__":
    sys.exit(main())
