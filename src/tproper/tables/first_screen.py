"""The first screen of a model's card: what a person who decides needs, in words that take no statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..data import short
from ..plots import markdown_code, markdown_text

RARE = 0.05  # of the rows: a class that is expected in fewer
FEW = 200  # rows
DANGERS = 3
SHOWN = 12  # classes


def first_screen(facts: dict[str, Any]) -> list[str]:
    """What the model predicts, from what, how well, what could be wrong, for what it is meant."""
    return [
        f"**What it does.** For each row of a table it says how probable {_classes(facts['classes'])} is, and which is "
        "the most probable.",
        "",
        f"**From what.** The columns {short([markdown_code(name) for name in facts['features']], SHOWN)} "
        f"({markdown_text(facts['columns'])}). Rows to be predicted must have them all.",
        "",
        f"**What it learned from.** {facts['rows']:,} rows of {markdown_code(facts['data'])}, whose labels are not "
        "certain to be the true classes.",
        "",
        f"**How good it is.** {_how_good(facts)}",
        "",
        "**Three things that could be wrong here.**",
        "",
        *(f"{i}. {danger}" for i, danger in enumerate(dangers(facts)[:DANGERS], 1)),
        "",
        *_shares(facts),
        f"**When.** Trained on {facts['date']} with tproper {facts['version']}.",
        "",
        "**What it is meant for.** _To be filled in: who uses it, for which decision, on which rows, until when._",
        "",
        "**What it is not meant for.** _To be filled in._",
        "",
    ]


def _classes(names: Sequence[str]) -> str:
    shown = [f"*{markdown_text(name)}*" for name in names[:SHOWN]]
    if len(names) > SHOWN:
        return f"each of {len(names)} classes ({', '.join(shown)} and {len(names) - SHOWN} more)"
    return f"{', '.join(shown[:-1])} or {shown[-1]}"


def of_hundred(share: float) -> str:
    """A share as a number of cases out of a hundred."""
    return "less than 1" if 0 < share < 0.005 else f"{100 * share:.0f}"


def _how_good(facts: dict[str, Any]) -> str:
    found = facts.get("accuracy")
    if found is None:
        return f"Not known: {markdown_text(facts['no_scores'])}. Do not rely on it before that was measured."
    basis = "the true classes of some rows" if found["true"] else "the uncertain labels alone, by calculation"
    if not found["informative"]:
        return (
            f"Not known: what was measured, from {basis}, allows no statement. Do not rely on the model before it was "
            "tried on rows whose class somebody has checked."
        )
    if found.get("bounds"):
        return (
            f"Of 100 rows that it had not seen it gets between {of_hundred(found['low'])} and "
            f"{of_hundred(found['high'])} right. The labels contradict what was assumed of them (see 1), so this "
            "was calculated without it; what it needs instead stands beside the scores."
        )
    text = (
        f"Of 100 rows that it had not seen it gets about {of_hundred(found['value'])} right; the number may be "
        f"anywhere between {of_hundred(found['low'])} and {of_hundred(found['high'])}. That was measured from {basis}"
    )
    text += "." if found["true"] else ", and holds as long as the labels are wrong as often as is assumed (see 1)."
    guess = facts.get("expected")
    if guess:
        name = max(guess, key=guess.__getitem__)
        text += f" Always answering *{markdown_text(name)}* would get about {of_hundred(guess[name])} right."
    return text


def dangers(facts: dict[str, Any]) -> list[str]:
    """What could be wrong, the gravest first; the last three hold for every model."""
    out = []
    found, moved, trusted = facts.get("accuracy"), facts.get("moved"), facts.get("trust_in_T")
    estimated = "was estimated from these same rows" if facts["estimate"] is not None else "is what somebody said"
    if facts.get("unidentified"):
        out.append(
            "**The classes may be mixed up.** The labels do not tell some classes apart: "
            f"{markdown_text(facts['unidentified'])}. Do not use the model."
        )
    if trusted == "contradicted":
        out.append(
            "**The labels contradict what was assumed of them.** How often they are wrong "
            f"{estimated}, and a test of the labels says that this cannot be so. All numbers of this page but bounds "
            "that do without it, and all probabilities of the model, may be wrong by any amount."
        )
    if found is None or not found["informative"]:
        out.append(
            "**Nobody knows how good it is.** Try it on rows whose class somebody has checked, before it is used."
        )
    if trusted != "contradicted":
        text = f"**The labels may be wrong more often than assumed.** How often they are wrong {estimated}"
        text += "; no test speaks against it." if trusted == "unopposed" else "."
        if moved is not None:
            text += (
                f" If that is off by 5 in 100, the number of right answers in 100 may be anything from "
                f"{of_hundred(moved[0])} to {of_hundred(moved[1])}."
            )
        out.append(text)
    if trusted == "model off":
        out.append(
            "**Its probabilities do not fit the labels.** Where it says 80 of 100, another number may be true: use the "
            "order of its answers rather than their size."
        )
    rare = [name for name, share in (facts.get("expected") or {}).items() if share < RARE]
    if rare:
        out.append(
            f"**Some classes are rare** ({markdown_text(short(rare, 4))}): fewer than 5 of 100 rows each. Most errors "
            "in them do not show in the number above."
        )
    if facts["rows"] < FEW:
        out.append(f"**It has seen {facts['rows']:,} rows only**, and may not know cases that are common elsewhere.")
    return [
        *out,
        "**Other rows than those it learned from.** For another time, place or source, none of these numbers holds. "
        "`tproper predict` warns of tables that look different, and cannot see every difference.",
        "**Single cases.** Its probabilities are right on average over many rows, at best. Of the rows to which it "
        "gives 80 of 100, about one in five is something else, and it does not know which.",
        "**The labels may share a mistake.** What all sources of labels get wrong together, the model gets wrong too, "
        "and nothing on this page shows it.",
    ]


def _shares(facts: dict[str, Any]) -> list[str]:
    predicted = facts.get("predicted")
    if not predicted:
        return []
    parts = [f"*{markdown_text(name)}* for {of_hundred(share)}" for name, share in list(predicted.items())[:SHOWN]]
    more = f", and others for the rest ({len(predicted) - SHOWN} more classes)" if len(predicted) > SHOWN else ""
    return [f"**What it answers.** Of 100 rows like those it learned from: {', '.join(parts)}{more}.", ""]
