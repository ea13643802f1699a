"""What holds and what does not, worst cells first: the head of docs/coverage.md, from all records of coverage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from _pieces import totals
from coverage_cells import CELLS, KNOWN_WELL, REQUIRED, WIDTHS, WRONG_FORM, Required

FEWEST = 20  # tries that make a figure
COVERED = Required(least=0.92)  # of 95% intervals under their own assumptions
LEVEL_HELD = Required(most=0.06)
TITLES = {
    "known": "T known",
    "clean_rows": "T from clean rows",
    "certain": "A model that is hardly ever wrong",
    "crowd": "T of annotators, from the scored answers",
    "gain": "Gain of a calibrator",
    "pu": "Priors of positive-unlabeled data",
    "shares": "Class shares",
    "level": "Tests of T",
    "outlier": "T from counts, one class unlike the others",
    "odd_annotator": "T of twenty annotators, one unlike the others",
    "groups": "Rows in groups",
    "rare": "Rare classes",
    "wrong_model": "Right T, wrong model",
    "wrong_T": "Wrong T, right model",
    "depends_on_x": "Noise that depends on x",
    "by_group": "T by groups, three answers a row",
    "from_features": "T from features",
    "class_shares": "Beside the class shares",
    "conformal": "Prediction sets",
}


@dataclass(frozen=True)
class Figure:
    """How often something was so in one cell."""

    part: str
    cell: str
    name: str
    share: float
    tried: float
    required: Required
    square: float | None = None  # of shares that each data set has for itself, the mean

    @property
    def holds(self) -> bool:
        return self.required.holds(self.share)

    @property
    def margin(self) -> float:
        return self.required.margin(self.share)

    @property
    def clear(self) -> bool:
        """Whether it misses by more than two standard errors: the samples leave no doubt."""
        return not self.holds and (self.name.startswith("mean width") or 100 * self.margin < -2 * self.error)

    @property
    def error(self) -> float:
        """Standard error, in points; of 0 and 1 that of half a count."""
        if self.square is not None:
            return float(100 * (max(self.square - self.share**2, 0.0) / max(self.tried - 1, 1)) ** 0.5)
        p = min(max(self.share, 0.5 / self.tried), 1 - 0.5 / self.tried)
        return 100 * (p * (1 - p) / self.tried) ** 0.5


def words(cell: dict[str, Any]) -> str:
    """The settings of a cell as text."""
    names = {
        "K": "{} classes", "rows": "{} clean rows", "low": "one right in {}", "groups": "{} groups",
        "each": "of {} rows", "n": "n = {}", "share": "share {}", "answers": "{} answers each",
        "redundancy": "{} an item", "right": "right in {}", "hard": "hard rows wrong in {}",
    }  # fmt: skip
    said = []
    for name, value in cell.items():
        if name == "shared":
            said.append("one label a group" if value else "own labels")
        elif name == "low" and value == 0.9:
            said.append("none differs")
        else:
            said.append(names.get(name, "{}").format(f"{value:g}" if isinstance(value, float) else value))
    return ", ".join(said)


def latest(pieces: list[dict[str, Any]], part: str, names: list[str]) -> list[dict[str, Any]]:
    """A part's pieces by this version of the library: of each cell those of the date that was recorded last.

    A date may have a word behind it ("2026-11-19-second"): other seeds and settings, after the code has changed.
    """
    own = [p for p in pieces if p["key"]["part"] == part and not p["key"].get("code")]
    last = {tuple(p["key"].get(name) for name in names): p["key"]["date"] for p in own}
    return [p for p in own if p["key"]["date"] == last[tuple(p["key"].get(name) for name in names)]]


def figures(pieces: list[dict[str, Any]]) -> Iterator[Figure]:
    """Every figure of `coverage_cells` of which something is asked."""
    before = {
        case: totals_of(part)["T called doubtful"]
        for (case,), part in totals([p for p in pieces if p["key"].get("code")], ["case"]).items()
    }
    for part, (_, cells) in CELLS.items():
        sums = totals(latest(pieces, part, list(cells[0])), list(cells[0]))
        for cell in cells:
            found = sums.get(tuple(cell.values()))
            if found is None:
                continue
            shares, required = totals_of(found), REQUIRED[part]
            if cell.get("noise") == "none":
                required = REQUIRED["depends_on_x, none"]
            if cell.get("problem") in WRONG_FORM and part == "from_features":
                required = REQUIRED["from_features, wrong form"]
            if part == "conformal" and found["means"]["standard error of the weak mean"] < KNOWN_WELL * found["sets"]:
                required = REQUIRED["conformal, known well"]
            if part == "wrong_T" and cell["case"] in before:
                so, tried = before[cell["case"]]
                error = 2 * (2 * max(so / tried * (1 - so / tried), 0.01) / tried) ** 0.5  # of two shares
                name = "T, or the model, called doubtful as often as by the tests before"
                yield Figure(
                    part, words(cell), name, *pair(shares["the model, or T, called doubtful"]),
                    Required(least=max(so / tried - error, 0.0)),
                )  # fmt: skip
            for name, asked in required.items():
                if name in shares and shares[name][1] >= FEWEST:
                    so, tried = shares[name]
                    square = found["figures"][name].get("square")
                    mean = None if square is None else square / tried
                    # entries of one data set go together: their number is that of the data sets
                    yield Figure(part, words(cell), name, so / tried, min(tried, found["sets"]), asked, mean)
            if part == "outlier" and cell["low"] == 0.9 and (limit := WIDTHS.get((cell["K"], cell["rows"]))):
                width = found["means"]["width of the diagonal"] / found["sets"]
                name = f"mean width of the diagonal, as a share of {limit:g}"
                yield Figure(part, words(cell), name, width / limit, found["sets"], Required(most=1.10))


def totals_of(found: dict[str, Any]) -> dict[str, tuple[float, float]]:
    return {name: (f["so"], f["tried"]) for name, f in found["figures"].items()}


def pair(counts: tuple[float, float]) -> tuple[float, float]:
    return counts[0] / counts[1], counts[1]


def table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join(['---'] * (len(head) - 2) + ['---:'] * 2)} |"]
    return lines + [f"| {' | '.join(r)} |" for r in rows]


def percent(f: Figure) -> str:
    return f"{100 * f.share:.1f} ± {f.error:.1f}" if not f.name.startswith("mean width") else f"{100 * f.share:.0f}"


def head(every: list[Figure]) -> list[str]:
    """The failing cells in words, the table of what does not hold, and that of what holds."""
    failing = sorted((f for f in every if not f.holds), key=lambda f: (not f.clear, f.margin))
    clear = [f for f in failing if f.clear]
    lines = ["", "## What does not hold", ""]
    if failing:
        lines += [
            f"{len(failing)} of {len(every)} figures miss what is asked of them, {len(clear)} by more than two "
            f"standard errors (fewer than {FEWEST} tries are no figure). These in words, the worst first:",
            "",
        ]
        lines += [sentence(part, clear, every) for part in dict.fromkeys(f.part for f in clear)]
        if len(clear) < len(failing):
            lines += [
                "",
                "The others, which stand last in the table, miss by less than two standard errors: one such cell says "
                "little, but many of one kind together can lie below 95% where none does by itself.",
            ]
        lines += [
            "",
            *table(
                ["where", "cell", "what", "asked, %", "found, %"],
                [
                    [TITLES[f.part], f.cell, f.name, str(f.required), percent(f) if f.clear else f"{percent(f)} ?"]
                    for f in failing
                ],
            ),
        ]
    else:
        lines += [f"None of {len(every)} figures misses what is asked of it."]
    lines += [
        "",
        "## What meets its bar",
        "",
        "Each line is a figure over all its cells that hold (of how many), with the worst of them.",
        "",
    ]
    by_name: dict[tuple[str, str], list[Figure]] = {}
    cells = Counter((f.part, f.name) for f in every)
    for f in every:
        if f.holds:
            by_name.setdefault((f.part, f.name), []).append(f)
    rows = []
    for (part, name), some in sorted(by_name.items(), key=lambda item: min(f.margin for f in item[1])):
        worst = min(some, key=lambda f: f.margin)
        of = f"{len(some)} of {cells[part, name]}"
        rows.append([TITLES[part], name, of, worst.cell, str(worst.required), percent(worst)])
    lines += table(["where", "what", "cells that hold", "worst of them", "asked, %", "there, %"], rows)
    return lines


def sentence(part: str, failing: list[Figure], every: list[Figure]) -> str:
    """The failing figures of a part in words: how many, and the worst."""
    mine = [f for f in failing if f.part == part]
    worst, of = mine[0], sum(f.part == part for f in every)
    asked = f"{worst.required}%"
    names = list(dict.fromkeys(f.name for f in mine))
    also = f" Others: {'; '.join(names[1:4])}{' ...' if len(names) > 4 else ''}." if len(names) > 1 else ""
    if all(f.name.startswith("mean width") for f in mine):
        also += (
            ' No method that covers a class which differs by any amount has such widths: "Widths that cannot be had", '
            "below."
        )
    return (
        f"- **{TITLES[part]}**: {len(mine)} of {of}. The worst is {worst.name}, {worst.cell}: {100 * worst.share:.1f}% "
        f"where {asked} is asked ({worst.tried:.0f} data sets).{also}"
    )
