"""What it means that a source gave no answer: nothing, or an answer of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import checks
from ..errors import InputError
from .answers import Answers

MEANINGS = ("auto", "random", "answer")
LEVEL = 1e-3  # probability that some source had not named the other classes by chance, below which it leaves them out
SHOWN = 6


@dataclass(frozen=True)
class Gap:
    """What the silence of one source was taken for, and why."""

    annotator: Any
    meaning: str  # "random": a gap says nothing; "answer": silence is a row of T; "none": there are no gaps
    why: str

    def __str__(self) -> str:
        return f"{self.annotator}: {self.meaning} ({self.why})"


def meaning_of_gaps(answers: Answers, num_classes: int, missing: Any) -> tuple[list[Gap], NDArray[np.bool_]]:
    """For each source what a gap means, and whether its silence is an answer (m,)."""
    names, n, m, K = answers.annotators.tolist(), len(answers.items), len(answers.annotators), num_classes
    asked = _asked(missing, names)
    column = answers.annotator * (K + 1) + np.minimum(answers.answer, K)  # classes, and what is none
    times = np.bincount(column, minlength=m * (K + 1)).reshape(m, K + 1)
    given = times.sum(axis=1)
    gaps = given < n
    chance = _chance(times[:, :K])
    told = answers.wide & gaps & (chance * m < LEVEL)
    few = answers.wide & gaps & ~told & ((times[:, :K] > 0).sum(axis=1) < (times[:, :K].sum(axis=0) > 0).sum())
    follow = given[told].sum() > given[gaps & ~told & ~few].sum()  # most of those that can be told abstain
    out, silence = [], np.zeros(m, dtype=bool)
    names_of = (times[:, :K] > 0).sum(axis=1).tolist()
    for a in range(m):
        named = names_of[a]
        if not gaps[a]:
            out.append(Gap(names[a], "none", "it answered every item"))
        elif asked[a] != "auto":
            out.append(Gap(names[a], asked[a], "is read as asked for"))
        elif not answers.wide:
            out.append(Gap(names[a], "random", "in a long table a gap is a question that was not asked"))
        elif told[a]:
            why = f"names {named} of {K} classes in {given[a]} answers, chance {chance[a]:.1g}"
            out.append(Gap(names[a], "answer", why))
        elif few[a] and follow:
            why = f"names {named} of {K} classes in {given[a]} answers, too few to tell, and most of the others abstain"
            out.append(Gap(names[a], "answer", why))
        elif few[a]:
            out.append(Gap(names[a], "random", f"has {given[a]} answers, too few to tell"))
        else:
            out.append(Gap(names[a], "random", "names every class that others name"))
        silence[a] = out[-1].meaning == "answer"
    return out, silence


def _asked(missing: Any, names: Sequence[Any]) -> list[str]:
    """One meaning for each source: of one word, or of one for each of them."""
    if isinstance(missing, str):
        checks.choice(missing, "missing", MEANINGS)
        return [missing] * len(names)
    if not isinstance(missing, (dict, list, tuple)):
        missing = [missing]
    each = [missing.get(name, "auto") for name in names] if isinstance(missing, dict) else list(missing)
    strange = [name for name in missing if name not in names] if isinstance(missing, dict) else []
    if strange or len(each) != len(names):
        raise InputError(
            f"missing: expected one of {', '.join(map(repr, MEANINGS))}, one for each of {len(names)} annotators, or "
            f"{{annotator: one of them}}, got {checks.short(missing)}"
        )
    for one in each:
        checks.choice(one, "missing", MEANINGS)
    return each


def _chance(times: NDArray[np.int64]) -> NDArray[np.float64]:
    """The probability of naming no other class in as many answers, at the other sources' shares (m,)."""
    others = times.sum(axis=0) - times  # (m, K)
    total = others.sum(axis=1)
    named = np.where(times > 0, others, 0).sum(axis=1)
    share = np.where(total > 0, named / np.maximum(total, 1), 1.0)
    out: NDArray[np.float64] = share ** times.sum(axis=1)
    return out


def in_words(gaps: Sequence[Gap]) -> list[str]:
    """For print: one line for each meaning, with the evidence of a few sources."""
    lines = []
    for meaning, what in (("answer", "silence is an answer of"), ("random", "a gap says nothing about the class for")):
        those = [g for g in gaps if g.meaning == meaning]
        if not those or (meaning == "random" and all(g.why.startswith("in a long") for g in those)):
            continue
        who = "every source" if len(those) == len(gaps) else f"{len(those)} of {len(gaps)} sources"
        if len({g.why for g in those}) == 1:
            lines.append(f"{what} {who}: each {those[0].why.removeprefix('it ')}")
            continue
        shown = "; ".join(f"{g.annotator} ({g.why})" for g in those[:SHOWN])
        more = f"; and {len(those) - SHOWN} more" if len(those) > SHOWN else ""
        lines.append(f"{what} {who}: {shown}{more}")
    return lines
