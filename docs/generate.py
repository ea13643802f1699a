"""Put the generated tables into README.md and the pages of the site: ``python docs/generate.py`` writes, ``--check``
only compares.

Every number there comes from the stored records, or is computed here; nobody types one in. (What the code blocks of a
page print is written by ``docs/pages.py``.)
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table as GitHub writes it."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def table_2() -> str:
    """The Table 2 block of docs/reproduction.md, itself the output of ``tproper report results``."""
    page = (ROOT / "docs" / "reproduction.md").read_text()
    section = page.split("\n## Table 2\n", 1)[1].split("\n## ", 1)[0]
    return "\n".join(line for line in section.splitlines() if line.startswith("|"))


def promises() -> str:
    """Certificates of the losses for complementary labels of ten classes."""
    import tproper as tp

    T = tp.complementary(10)
    losses = {
        "forward": tp.ForwardLoss(T),
        "BC: backward cross entropy": tp.BackwardLoss(T),
        "BC+gLS: squeezed, k = 1, alpha = 2": tp.BackwardLoss(T, squeeze=(1.0, 2.0)),
        "BC with Brier": tp.BackwardLoss(T, tp.Brier()),
        "BC+GA: gradient ascent": tp.GradientAscentLoss(T),
    }
    rows = []
    for name, loss in losses.items():
        found = loss.certify()
        bound = f"{min(found.bounds):.2f}" if found.lower_bounded else "none"
        words = {True: "yes", False: "no", None: "unknown"}
        rows.append([name, words[found.proper], words[found.strictly_proper], bound, found.evidence])
    return markdown(["loss", "T-proper", "strictly", "greatest lower bound", "evidence"], rows)


def losses() -> str:
    """Accuracy and calibration error by loss, mean over seeds, from the record of ``benchmarks/weak_table.py``."""
    lines = (ROOT / "benchmarks" / "records" / "weak_table.jsonl").read_text().splitlines()
    cells: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for piece in map(json.loads, lines):
        if "links" in piece["key"]:
            continue
        block = f"{piece['key']['data']}, {piece['key']['kind']}"
        for row in piece["result"]:
            cells[block, " / ".join((row["method"], row["chosen by"], row["calibrated"]))].append(row)
    columns = {
        "forward, the default": "forward / nothing: the default / yes",
        "BC": "BC / weak risk / no",
        "BC+gLS, calibrated": "BC+gLS / weak risk / yes",
        "BC+GA": "GA / weak risk / no",
        "labels trusted": "naive / - / no",
    }
    rows = []
    for block in dict.fromkeys(block for block, _ in cells):
        shown = [block]
        for key in columns.values():
            runs = cells[block, key]
            if not runs:
                raise ValueError(f"weak_table.jsonl: expected rows of {key!r} for {block}, got none")
            shown.append(f"{100 * fmean(r['accuracy'] for r in runs):.1f} / {fmean(r['ece'] for r in runs):.3f}")
        rows.append(shown)
    return markdown(["accuracy, % / ECE", *columns], sorted(rows, key=lambda row: row[0].lower()))


#: The blocks of each page, by the name between their marks.
BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"table 2": table_2},
    "docs/choose-a-loss.md": {"promises": promises, "losses": losses},
}


def generated(text: str, page: str = "README.md") -> str:
    """A page with its blocks made anew."""
    for name, make in BLOCKS[page].items():
        begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        if not re.search(pattern, text, flags=re.S):
            raise ValueError(f"{page}: expected the marks of the block {name!r}, got none")
        text = re.sub(pattern, lambda _, b=begin, m=make, e=end: f"{b}{m()}\n{e}", text, flags=re.S)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where a page is not what would be written")
    check = parser.parse_args().check
    stale = []
    for page in BLOCKS:
        path = ROOT / page
        old = path.read_text()
        new = generated(old, page)
        if new != old:
            stale.append(page)
            if not check:
                path.write_text(new)
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
