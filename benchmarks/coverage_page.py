"""The page docs/coverage.md, from the pieces that benchmarks/coverage.py and coverage_elsewhere.py recorded.

What does not hold comes first, in words, then in a table; then what holds; then every cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _pieces import totals
from coverage_bound import least_width
from coverage_cells import WIDTHS
from coverage_elsewhere import gains, section, told_elsewhere
from coverage_tables import COVERED, LEVEL_HELD, Figure, figures, head, words

LEVEL, LOW, HIGH = 0.95, 0.93, 0.97  # of intervals, and what is wanted of it
MOST = 0.5  # share of informative scores from which on their coverage is shown
SURE = 0.99  # what the model says, for the scores by a crowd's answers beside accuracy
OF_CROWDS = ("balanced accuracy", "calibration error", "paired test")
ANSWERS, SKILL, RIGHT = 25_000, (0.4, 0.95), 0.9  # of a crowd: answers, how often annotators are right, and the model
AGAINST = {
    "clean": (0.0, 1.0),
    "symmetric .3": (0.3, 0.9),
    "complementary": (0.0, 1 / 3),
}  # P(label against | right, wrong)
RARE, ROWS = 0.01, 100  # labels that name the class after all, and clean rows


def cell(x: float, informative: float = 1.0) -> str:
    """Coverage in per cent; a dash where most intervals are the whole range, which always holds the truth."""
    text = f"{100 * x:.1f}"
    return "-" if informative < MOST else text if LOW <= x <= HIGH else f"**{text}**"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join(['---'] + ['---:'] * (len(head) - 1))} |"]
    return lines + [f"| {' | '.join(r)} |" for r in rows]


def outside(values: list[tuple[str, float]]) -> str:
    """A sentence on the cells outside of 93 to 97%."""
    odd = [(w, x) for w, x in values if not LOW <= x <= HIGH]
    text = f"{len(values) - len(odd)} of {len(values)} cells lie between 93 and 97%"
    if not odd:
        return text + "."
    below, above = [x for x in odd if x[1] < LOW], [x for x in odd if x[1] > HIGH]
    parts = []
    if below:
        worst = min(below, key=lambda x: x[1])
        parts.append(f"{len(below)} below, the lowest {100 * worst[1]:.1f}% ({worst[0]})")
    if above:
        worst = max(above, key=lambda x: x[1])
        parts.append(f"{len(above)} above, the highest {100 * worst[1]:.1f}% ({worst[0]})")
    return f"{text}; {', '.join(parts)}."


def render(pieces: list[dict[str, Any]], bent: list[dict[str, Any]], order: dict[str, list[dict[str, Any]]]) -> str:
    """The page: `pieces` under the assumptions, the cells of each part in the order given, `bent` where they bend."""
    commits = sorted({f"{p['machine']['commit']}, {p['machine']['date']}" for p in [*pieces, *bent]})
    lines = [
        "# Coverage of intervals, level of tests",
        "",
        "How often a 95% interval holds the truth, and how often a test speaks, by simulation: everything is drawn "
        "anew in each data set. Made by `python benchmarks/coverage.py` from `benchmarks/records/coverage.jsonl`, "
        f"`coverage_cells.jsonl` and `coverage_elsewhere.jsonl` (commits {'; '.join(commits)}). Where assumptions "
        "bend, random numbers and settings that nobody knows beforehand (which class differs, how good the model is) "
        "change with the date of the record, and each kind of entry has its own figure: a mean over all entries hides "
        "the one that fails. ± is a standard error.",
    ]
    sections = {
        "known": known_section, "clean_rows": clean_rows_section, "certain": certain_section, "crowd": crowd_section,
    }  # fmt: skip
    every, more = list(figures(bent)), []
    for part, written in sections.items():
        sums = totals([p for p in pieces if p["key"]["part"] == part], list(order[part][0]))
        cells = [key | averaged(sums[at]) for key in order[part] if (at := tuple(key.values())) in sums]
        more += written(cells) if cells else []
        every += [f for key, cell in zip(order[part], cells, strict=True) for f in covered(part, words(key), cell)]
    every += [Figure("gain", cell, "gain", share, tried, COVERED) for cell, share, tried in gains()]
    every += [
        Figure(part, cell, name, share, tried, LEVEL_HELD if part == "level" else COVERED)
        for part, cell, name, share, tried in told_elsewhere()
    ]
    lines += [*head(every), *widths_section(every)]
    lines += ["", "# Every cell where assumptions hold", "", "Bold where coverage is not 93 to 97%. The "
        "p-value of a paired test is below .05 exactly where its interval excludes 0, so that its level is what is "
        "missing to 100.", *more, *section()]  # fmt: skip
    return "\n".join(lines) + "\n"


def widths_section(every: list[Figure]) -> list[str]:
    """Widths where no class differs, beside the least that any method can have."""
    own = [f for f in every if f.part == "outlier"]
    rows = []
    for (K, n), before in WIDTHS.items():
        cell = f"{K} classes, {n} clean rows"
        found = [f.share * before for f in own if f.cell == f"{cell}, none differs" and f.name.startswith("mean width")]
        held = [
            f.share
            for f in own
            if f.cell.startswith(f"{cell}, ") and f.name == "the class that differs" and "none" not in f.cell
        ]
        if found and held:
            figures = (1.1 * before, least_width(K, n), found[0])
            rows.append([str(K), str(n), *(f"{x:.3f}" for x in figures), f"{100 * min(held):.1f}"])
    if not rows:
        return []
    return [
        "",
        "## Widths that cannot be had",
        "",
        "Intervals of T's diagonal from counts are to hold a class that differs at 90%, and to be narrow where none "
        "does. Few counts do not allow both: the least mean width is that of intervals which cover a class that "
        "differs by *any* amount at 90% and know what the others have in common exactly, by Pratt's identity "
        "(`benchmarks/coverage_bound.py`). Narrower ones miss classes that differ by less: ours are made to hold those "
        "that differ by an eighth or more.",
        "",
        *table(
            ["classes", "clean rows", "width asked, at most", "least possible", "found", "differs, covered %"], rows
        ),
    ]


def covered(part: str, name: str, c: dict[str, Any]) -> list[Figure]:
    """Coverages of one cell; scores that are seldom informative are left out."""
    shares = dict(c["cover"] if part in ("known", "certain") else c.get("others", {}))
    shares.pop("tried", None)
    if part == "known" and c["balanced"]["informative"] >= MOST:
        shares["balanced accuracy"] = c["balanced"]["covered"]
    if part == "clean_rows":
        shares = {k: v for k, v in shares.items() if c["said"].get(k, 1.0) >= MOST} | {"accuracy": c["cover"]["with"]}
    if part == "crowd":
        shares["accuracy"] = c["covered"]
    if part == "certain":
        shares.pop("log loss", None)
    return [Figure(part, name, k, v, c.get("sets", 1), COVERED) for k, v in shares.items()]


def averaged(sums: dict[str, Any], tried: float = 0.0) -> dict[str, Any]:
    """Sums over data sets as means; some parts say how many they tried."""
    by = sums.get("tried", sums.get("sets", tried))
    return {
        name: value if name in ("tried", "sets") else averaged(value, by) if isinstance(value, dict) else value / by
        for name, value in sums.items()
    }


def data_sets(tried: list[float]) -> str:
    """How many a cell has, and the standard error that this leaves at 95%."""
    few, many = min(tried), max(tried)
    text = f"{few:.0f}" if few == many else f"{few:.0f} to {many:.0f}"
    return f"{text} data sets a cell (standard error {100 * (0.05 * 0.95 / few) ** 0.5:.1f} points)"


def known_section(cells: list[dict[str, Any]]) -> list[str]:
    names = list(cells[0]["cover"])
    every = [(f"{name}, {c['kind']}, n = {c['n']}", c["cover"][name]) for c in cells for name in names]
    # fmt: off
    rows = [
        [
            c["kind"], str(c["n"]), *(cell(c["cover"][name]) for name in names),
            cell(c["balanced"]["covered"], c["balanced"]["informative"]),
        ]
        for c in cells
    ]
    perfect = [
        [
            c["kind"], str(c["n"]), *(f"{100 * c['blamed'][k]:.1f}" for k in ("top label", "class-wise")),
            f"{100 * c['balanced']['informative']:.0f}", f"{c['balanced']['off'] / c['balanced']['stderr']:.2f}",
        ]
        for c in cells
    ]
    # fmt: on
    return [
        "",
        "## T known",
        "",
        f"Four classes (PU: two), {data_sets([c['sets'] for c in cells])}. {outside(every)}",
        "Balanced accuracy, in the last column, is the one without a known prior: "
        f"{data_sets([c['balanced']['tried'] for c in cells])}. Where labels are too few for a ratio it is not "
        "informative, and its interval is the whole range: a dash where that is so in most data sets.",
        "",
        "A calibration error cannot lie below 0. Its interval passes from one end to two as the error grows (Feldman "
        "and Cousins), so that it covers what the level says at 0 too. Where a bin holds a few rare labels, "
        "which tell its variance poorly, that is rather taken too large: complementary labels, fewest of them.",
        "",
        *table(["labels", "n", *names, "balanced accuracy"], rows),
        "",
        f"How often a perfectly calibrated model is blamed (interval excludes 0; {1 - LEVEL:.0%} is nominal; "
        f"{min(c['blamed']['tried'] for c in cells):.0f} data sets a cell), how often balanced accuracy is "
        "informative, and its bias in standard errors over all samples.",
        "",
        *table(
            ["labels", "n", "blamed, top label %", "blamed, class-wise %", "informative %", "bias / stderr"], perfect
        ),
    ]


def clean_rows_section(cells: list[dict[str, Any]]) -> list[str]:
    every = [(f"{c['family']}, {c['rows']} rows", c["cover"]["with"]) for c in cells]
    others = [name for name in cells[0]["others"] if name != "tried"]
    said = [c.get("said", {}) for c in cells]  # how often a score is informative
    more = [
        (f"{name}, {c['family']}, {c['rows']} rows", c["others"][name])
        for c, told in zip(cells, said, strict=True)
        for name in others
        if told.get(name, 1.0) >= MOST
    ]
    return [
        "",
        "## T from clean rows",
        "",
        f"`weak_accuracy` of a model that is right in 80% of three classes, {cells[0]['labels']:.0f} weak labels, "
        f"T by `tp.Transition.from_counts` from clean rows, {data_sets([c['sets'] for c in cells])}. {outside(every)} "
        "\"Today\" takes the estimate for T, as all scores did before T's own error was carried through. Labels that "
        "never name the class have a diagonal of exact zeros, which no number of clean rows can prove: where "
        f"{RARE:.0%} of labels name it after all, {(1 - RARE) ** ROWS:.0%} of sets of {ROWS} clean rows still show "
        "none, and one interval has to serve both: what it covers too often for exact zeros it needs for such labels.",
        "",
        *table(
            ["family", "clean rows", "covered", "today", "width", "width today", "from T %", "informative %"],
            [
                [
                    c["family"], str(c["rows"]), cell(c["cover"]["with"]), cell(c["cover"]["today"]),
                    f"{c['width']['with']:.3f}", f"{c['width']['today']:.3f}", f"{100 * c['from_transition']:.0f}",
                    f"{100 * c['informative']:.0f}",
                ]
                for c in cells
            ],
        ),
        "",
        f"The other scores, {data_sets([c['others']['tried'] for c in cells])}. {outside(more)} Balanced accuracy "
        "divides by each class's share as the estimated T gives it, which few clean rows hardly tell: its interval is "
        "wider there than it would have to be. A calibration error has no sign: an accuracy that errs past the "
        "confidence gives an interval that holds the truth from the other side. Entries of T are shrunk towards what "
        "the classes have in common: where they have it, their intervals, and those of balanced accuracy with them, "
        "cover more than the level says, and are narrower all the same than those from each class's own counts "
        "(Jeffreys; the last column is the ratio of the widths), which cover the level.",
        "",
        *table(
            ["family", "clean rows", *others, "width of entries to that of own counts"],
            [
                [
                    c["family"], str(c["rows"]), *(cell(c["others"][k], told.get(k, 1.0)) for k in others),
                    f"{c['width']['entries'] / c['width']['own counts']:.2f}" if "entries" in c["width"] else "",
                ]
                for c, told in zip(cells, said, strict=True)
            ],
        ),
    ]  # fmt: skip


def attainable(c: dict[str, Any]) -> str:
    """The coverages next to 95% that ranges of the count of labels against the prediction can have."""
    from scipy.stats import binom

    right, wrong = AGAINST[c["kind"]]
    below = np.concatenate(
        [[0.0], binom.cdf(np.arange(c["n"] + 1), c["n"], c["right"] * right + (1 - c["right"]) * wrong)]
    )
    ranges = below[None, :] - below[:, None]
    return f"{100 * ranges[ranges <= LEVEL].max():.1f}, {100 * ranges[ranges >= LEVEL].min():.1f}"


def certain_section(cells: list[dict[str, Any]]) -> list[str]:
    names = [name for name in cells[0]["cover"] if name != "log loss"]
    return [
        "",
        "## Models that are certain and hardly ever wrong",
        "",
        f"One-hot predictions, {data_sets([c['sets'] for c in cells])}; "
        f"{sum(c['no width'] * c['sets'] for c in cells):.0f} intervals "
        "without width. Such samples show a handful of labels against the prediction, or none: an interval holds the "
        'truth for a range of such counts, whose probability jumps past the level. "Attainable" is the nearest below '
        "and the nearest above that any range of counts has: what is far from the level there no interval brings "
        "nearer. The log loss is not shown: it is infinite as soon as one error is possible, and every interval "
        "without an upper end holds it. The calibration error takes the mean of such counts for a normal variable, and "
        "rather covers too often.",
        "",
        *table(
            ["labels", "n", "right", "attainable", *names],
            [
                [c["kind"], str(c["n"]), f"{c['right']:g}", attainable(c), *(cell(c["cover"][k]) for k in names)]
                for c in cells
            ],
        ),
    ]


def crowd_section(cells: list[dict[str, Any]]) -> list[str]:
    few, many = min(c["sets"] for c in cells), max(c["sets"] for c in cells)
    others = [k for k in OF_CROWDS if all(k in c.get("others", {}) for c in cells)]
    more = f" The last columns: how often intervals of other scores hold it, for a model that says {SURE:g}."
    return [
        "",
        "## T of annotators, from the scored answers themselves",
        "",
        f"`weak_accuracy` of a model that is right in {RIGHT:.0%} of three classes, by {ANSWERS:,} answers of "
        f"annotators who are right with probability {SKILL[0]:g} to {SKILL[1]:g}; their T are estimated "
        "from these same answers by `tp.estimate_annotators`. "
        f"{few:.0f}{'' if few == many else f' to {many:.0f}'} data sets a cell (standard error "
        f"{100 * (0.05 * 0.95 / few) ** 0.5:.1f} points). The T and the scored answers err together; what is known of "
        "the classes corrects both (`tproper.metrics.classes`), so that the error can be smaller than with T known."
        + more * bool(others),
        "",
        *table(
            ["answers an annotator", "answers an item", "covered", "mean error", "RMS error", "with T known", "width",
             *others],
            [
                [
                    str(c["answers"]), str(c["redundancy"]), cell(c["covered"]), f"{c['off']:+.4f}",
                    f"{c['square'] ** 0.5:.4f}", f"{c['known'] ** 0.5:.4f}", f"{c['width']:.4f}",
                    *(cell(c["others"][k]) for k in others),
                ]
                for c in cells
            ],
        ),
    ]  # fmt: skip
