"""Put numbers into README.md and the pages of the site: ``python docs/generate.py`` writes, ``--check`` only compares.

Every number there comes from the stored records, or is computed here; nobody types one in. Three ways:

- a number in a sentence: ``<!-- = expression : format -->47.2<!-- / -->``, with the names of ``docs/facts.py``;
- a table: ``<!-- begin: name -->`` ... ``<!-- end: name -->``, the blocks below;
- a page that a script of ``benchmarks/`` writes as a whole: its function ``page()``.

What the code blocks of a page print is written by ``docs/pages.py``. ``tests/test_numbers.py`` holds the pages to it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "benchmarks")]


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table as GitHub writes it."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def table_2() -> str:
    """The Table 2 block of docs/reproduction.md, itself the output of ``tproper report lab/results``."""
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
        if "method" not in piece["key"]:  # another section of that page
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


def matrix() -> str:
    """What the test suite did on other Pythons and versions, from the record of ``make test-matrix``."""
    rows = []
    for name, row in json.loads((ROOT / "benchmarks" / "records" / "matrix.json").read_text()).items():
        tests = dict(row["tests"])
        tests.pop("seconds")
        done = ", ".join(f"{n:,} {word}" for word, n in tests.items())
        versions = ", ".join(f"{package} {v.split('+')[0]}" for package, v in row["versions"].items())
        rows.append([name, row["python"], versions, done, f"{row['commit']}, {row['date']}"])
    return markdown(["row", "Python", "versions", "tests", "commit"], rows)


#: The blocks of each page, by the name between their marks.
BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"table 2": table_2},
    "CONTRIBUTING.md": {"matrix": matrix},
    "docs/choose-a-loss.md": {"promises": promises, "losses": losses},
}
#: Pages that a script of benchmarks/ writes as a whole.
WHOLE: dict[str, str] = {
    "docs/coverage.md": "coverage",
    "docs/estimation/annotators.md": "annotators",
    "docs/estimation/clean_and_features.md": "estimate_transition",
    "docs/estimation/pu.md": "pu_prior",
    "docs/estimation/tests_of_T.md": "check_transition",
    "docs/forward_scores.md": "forward_scores",
    "docs/kinds.md": "kinds_page",
    "docs/learning_rates.md": "learning_rates",
    "docs/methods.md": "method_cards",
    "docs/scale.md": "scale_page",
    "docs/solver_gaps.md": "solver_gaps",
    "docs/weak_table.md": "weak_table",
}
#: A number in a sentence: the marks, and what stands between them.
SPAN = re.compile(r"(<!-- = (.*?) -->)(.*?)(<!-- / -->)", re.S)


def pages() -> list[str]:
    """Every page of prose, README among them."""
    written = ((ROOT / "docs").rglob("*.md"), [ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
    names = {path.relative_to(ROOT).as_posix() for paths in written for path in paths}
    return sorted(name for name in names if not name.startswith(("docs/_", "docs/auto_", "docs/explorer")))


def generated(text: str, page: str = "README.md") -> str:
    """A page with its numbers and blocks made anew."""
    if page in WHOLE:
        made: str = import_module(WHOLE[page]).page()
        return made
    for name, make in BLOCKS.get(page, {}).items():
        begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        if not re.search(pattern, text, flags=re.S):
            raise ValueError(f"{page}: expected the marks of the block {name!r}, got none")
        text = re.sub(pattern, lambda _, b=begin, m=make, e=end: f"{b}{m()}\n{e}", text, flags=re.S)
    if re.search(r"^ *<!-- = ", text, flags=re.M):
        raise ValueError(f"{page}: expected a word before a number's mark, got a line that begins with one")
    if text.count("<!-- = ") != len(SPAN.findall(text)):
        raise ValueError(f"{page}: expected <!-- / --> after each number, got a number without")
    return SPAN.sub(_renewed, text)


def _renewed(span: re.Match[str]) -> str:
    from facts import evaluate

    return f"{span[1]}{evaluate(span[2])}{span[4]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where a page is not what would be written")
    parser.add_argument("page", nargs="*", help="these alone, such as docs/reproduction.md")
    options = parser.parse_args()
    stale = []
    for page in options.page or pages():
        path = ROOT / page
        old = path.read_text(encoding="utf-8")
        new = generated(old, page)
        if new != old:
            stale.append(page)
            print(page, "is not what the records say" if options.check else "changed")
            if not options.check:
                path.write_text(new, encoding="utf-8")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
