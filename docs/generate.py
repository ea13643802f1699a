"""Write the pages that records fill in: ``python docs/generate.py`` writes, ``--check`` only compares.

Every number there comes from the stored records, or is computed here; nobody types one in. Two ways:

- a template, ``page.md.j2`` beside its ``page.md``, with the names of ``docs/facts.py`` and the tables below;
- a page that a script of ``benchmarks/`` writes as a whole: its function ``page()``.

What the code blocks of a page print is written by ``docs/pages.py``. ``tests/test_numbers.py`` holds the pages to both.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "benchmarks")]


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table as GitHub writes it."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


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


@cache
def routes() -> dict[str, Any]:
    """What routes through the package visit, from the record that ``tools/routes.py --write`` writes."""
    found: dict[str, Any] = json.loads((ROOT / "benchmarks" / "records" / "routes.json").read_text())
    return found


def drawn(route: str, lines: list[str]) -> str:
    """A route as a tree of rooms, given as "room | words", with the modules in which it visits most functions."""
    rows = []
    for line in lines:
        room, _, words = line.partition(" | ")
        modules = routes()[route]["modules"][room.strip()]
        rows.append((room, ", ".join(modules), words))
    widths = [max(len(row[i]) for row in rows) + 3 for i in (0, 1)]
    return "".join(f"    {room:<{widths[0]}}{modules:<{widths[1]}}{words}\n" for room, modules, words in rows)


def mutants() -> Any:
    """The last draw of `make mutate`, judged."""
    from facts import record

    found = record("mutants.json")
    return found | {"share": 100 * found["killed"] / (found["drawn"] - found["changing_nothing"])}


#: What templates call by name.
TABLES: dict[str, Callable[..., Any]] = {
    "matrix": matrix, "promises": promises, "losses": losses, "routes": routes, "drawn": drawn,
    "mutants": mutants
}  # fmt: skip
#: Pages that a script of benchmarks/ writes as a whole.
WHOLE: dict[str, str] = {
    "docs/boosting.md": "boosting",
    "docs/coverage.md": "coverage",
    "docs/estimation/annotators.md": "annotators",
    "docs/estimation/clean_and_features.md": "estimate_transition",
    "docs/estimation/pu.md": "pu_prior",
    "docs/estimation/real_sources.md": "real_sources",
    "docs/estimation/tests_of_T.md": "check_transition",
    "docs/archive/forward_scores.md": "forward_scores",
    "docs/kinds.md": "kinds_page",
    "docs/archive/learning_rates.md": "learning_rates",
    "docs/methods.md": "method_cards",
    "docs/scale.md": "scale_page",
    "docs/archive/solver_gaps.md": "solver_gaps",
    "docs/weak_table.md": "weak_table",
}


def templates() -> list[str]:
    """The pages that have a template, by the name that the page has."""
    listed = [*(ROOT / "docs").rglob("*.md.j2"), *ROOT.glob("*.md.j2")]
    return sorted(path.relative_to(ROOT).as_posix().removesuffix(".j2") for path in listed)


def pages() -> list[str]:
    """Every page that is made from records."""
    return sorted([*templates(), *WHOLE])


def generated(page: str) -> str:
    """A page made anew."""
    if page in WHOLE:
        made: str = import_module(WHOLE[page]).page()
        return made
    return rendered((ROOT / f"{page}.j2").read_text(encoding="utf-8"))


def rendered(template: str) -> str:
    """The text of a template with its numbers and tables; a name that nobody knows is an error."""
    from facts import FILTERS, NAMES
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.globals |= NAMES | TABLES
    environment.filters |= FILTERS
    return environment.from_string(template).render()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where a page is not what would be written")
    parser.add_argument("page", nargs="*", help="these alone, such as docs/reproduction.md")
    options = parser.parse_args()
    stale = []
    for page in options.page or pages():
        path = ROOT / page
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        new = generated(page)
        if new != old:
            stale.append(page)
            print(page, "is not what the records say" if options.check else "changed")
            if not options.check:
                path.write_text(new, encoding="utf-8")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
