"""Fold the files of changelog/ into CHANGELOG.md, as the section of a version: ``python tools/changelog.py 0.2.0``."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def entries(folder: Path) -> list[Path]:
    """The fragments, by name."""
    return sorted(path for path in folder.glob("*.md") if path.name != "README.md")


def section(version: str, day: str, texts: list[str]) -> str:
    """A version's section: one item a fragment, its further lines indented below the first."""
    items = ["- " + text.strip().removeprefix("- ").replace("\n", "\n  ") for text in texts]
    return "\n".join([f"## {version} ({day})", "", *items, "", ""])


def folded(changelog: str, new: str) -> str:
    """The changelog with the new section above the others."""
    head, mark, rest = changelog.partition("\n## ")
    return head + "\n" + new + (mark.lstrip("\n") + rest if mark else "")


def main() -> int:
    """Fold, and take the fragments away."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    fragments = entries(ROOT / "changelog")
    if not fragments:
        print("changelog/ holds nothing to fold", file=sys.stderr)
        return 1
    path = ROOT / "CHANGELOG.md"
    new = section(sys.argv[1], date.today().isoformat(), [f.read_text(encoding="utf-8") for f in fragments])
    path.write_text(folded(path.read_text(encoding="utf-8"), new), encoding="utf-8")
    for fragment in fragments:
        fragment.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
