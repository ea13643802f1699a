"""Put the generated tables into README.md: ``python docs/generate.py`` writes, ``--check`` only compares.

Every number there comes from the stored records; nobody types one in.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def table_2() -> str:
    """The Table 2 block of docs/reproduction.md, itself the output of ``tproper report results``."""
    page = (ROOT / "docs" / "reproduction.md").read_text()
    section = page.split("\n## Table 2\n", 1)[1].split("\n## ", 1)[0]
    return "\n".join(line for line in section.splitlines() if line.startswith("|"))


def generated(readme: str) -> str:
    """README with its blocks made anew."""
    begin, end = "<!-- begin: table 2 -->\n", "\n<!-- end: table 2 -->"
    head, rest = readme.split(begin, 1)
    return head + begin + table_2() + end + rest.split(end.strip(), 1)[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where README.md is not what would be written")
    check = parser.parse_args().check
    path = ROOT / "README.md"
    old = path.read_text()
    new = generated(old)
    if check:
        return int(old != new)
    path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
