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
        *_verdict(facts),
        f"**What it does.** For each row of a table it says how probable {_classes(facts['classes'])} is, and which is "
        "the most probable.",
        "",
        f"**From what.** {_from_what(facts)}",
        "",
        f"**What it learned from.** {facts['rows']:,} rows of {markdown_code(facts['data'])}, whose labels are not "
        f"certain to be the true classes.{_no_label(facts)}",
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


def _verdict(facts: dict[str, Any]) -> list[str]:
    """Whether to rely on it, in one line; a model that must not be used is said to be so above."""
    if facts.get("unidentified"):
        return []
    found, trusted = facts.get("accuracy"), facts.get("trust_in_T")
    reasons = []
    if trusted == "contradicted":
        reasons.append("the labels contradict what was assumed of them")
    if found is None:
        reasons.append("nobody has measured how good it is")
    elif not found["informative"]:
        reasons.append("what was measured does not tell how good it is")
    elif found.get("bounds"):
        reasons.append(
            "the number of its right answers is known only between two bounds"
            + ("" if found["needs"] == "candidates" else ", which may be wrong as well")
        )
    elif (always := _always(facts)) and found["low"] <= always[1]:
        reasons.append(f"it may be no better than always answering *{markdown_text(always[0])}*")
    if trusted == "model off":
        reasons.append("its probabilities do not fit the labels")
    if not reasons:
        sure = "rows of known class" if found and found["true"] else "uncertain labels"
        text = (
            f"We found nothing that speaks against using it, as far as {sure} can show; below is how good it is, and "
            "what could be wrong all the same."
        )
    else:
        more = "more" if found is not None and found["true"] else "some"
        again = "measure it" if found is None else "measure again"
        text = (
            f"Do not rely on it yet: {_listed(reasons)}. Before you use it, have somebody check the class of {more} "
            f"rows, and {again}."
        )
    return [f"**In short.** {text}", ""]


def _always(facts: dict[str, Any]) -> tuple[str, float] | None:
    """The class that is the commonest, and how often always answering it would be right."""
    guess = facts.get("expected")
    return max(guess.items(), key=lambda item: item[1]) if guess else None


def _listed(parts: Sequence[str]) -> str:
    return ", and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _from_what(facts: dict[str, Any]) -> str:
    names, words = facts["features"], facts.get("words") or {}
    others = [markdown_code(name) for name in names if name not in words]
    needed = "this column" if len(names) == 1 else "all of these columns"
    parts = []
    if words:
        known = [f"{markdown_code(name)} (it knows {n:,})" for name, n in words.items()]
        parts.append(f"the words in the column{'s' * (len(known) > 1)} {short(known, SHOWN)}")
    if others:
        kinds = "" if words else f" ({markdown_text(facts['columns'])})"
        parts.append(f"the column{'s' * (len(others) > 1)} {short(others, SHOWN)}{kinds}")
    return f"From {', and from '.join(parts)}. A table without {needed} cannot be used."


def _no_label(facts: dict[str, Any]) -> str:
    """How many rows have no label at all, among those that it learned from and beside them."""
    n, dropped, text = facts.get("unlabelled", 0), facts.get("dropped", 0), ""
    if n:
        who = "no source gave any label" if facts.get("answers") else "there is no label at all"
        text += f" In {n:,} of these rows {who}."
    if dropped:
        text += f" {dropped:,} more rows had no label and were left out."
    return text


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
            f"{of_hundred(found['high'])} right{_needed(facts, found)}"
        )
    text = (
        f"Of 100 rows that it had not seen it gets about {of_hundred(found['value'])} right; the number may be "
        f"anywhere between {of_hundred(found['low'])} and {of_hundred(found['high'])}. That was measured from {basis}"
    )
    text += "." if found["true"] else ", and holds as long as the labels are wrong as often as is assumed (see 1)."
    always = _always(facts)
    if always:
        text += f" Always answering *{markdown_text(always[0])}* would get about {of_hundred(always[1])} right."
    return text


def _needed(facts: dict[str, Any], found: dict[str, Any]) -> str:
    """What bounds need, in the sentence that gives them."""
    contradicted = "The labels contradict what was assumed of them (see 1)"
    if found["needs"] == "rates":
        who = "each source gives each answer" if facts.get("answers") else "each class gets each label"
        told = "our estimate of how often" if facts["estimate"] is not None else "what was said of how often"
        return (
            f", but that holds only if {told} {who} is off by at most {of_hundred(found['within'])} in 100, which "
            f"nobody knows. {contradicted}, so that it may be off by more."
        )
    if found["needs"] == "less noise":
        return f", but that holds only if the labels are wrong less often than was assumed. {contradicted}."
    if found["needs"] == "zeros":
        return (
            ", but that holds only if no label stands where it was assumed to be impossible, and on what is said "
            f"beside the scores. {contradicted}."
        )
    return f". {contradicted}, so this was calculated without it; what it needs instead stands beside the scores."


def dangers(facts: dict[str, Any]) -> list[str]:
    """What could be wrong, the gravest first; the last ones hold for every model."""
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
            f"{estimated}, and a test of the labels says that this cannot be so. All numbers of this page that rest on "
            "it, and all probabilities of the model, may be wrong by any amount."
        )
    shared = "**The labels may share a mistake.** "
    if facts.get("agree_more"):
        shared += (
            "Some sources agree with each other more often than was assumed, as those do that make the same mistakes. "
        )
    shared += "What all sources of labels get wrong together, the model gets wrong too, and nothing on this page "
    shared += "shows how often that is." if facts.get("agree_more") else "shows it."
    if facts.get("agree_more"):
        out.append(shared)
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
        "**Other rows than those it learned from.** On rows from elsewhere or later it may do worse; try it there "
        "first. The program warns about some tables that look different, not all.",
        "**Single cases.** Even if its probabilities are right on average, about one in five of the rows to which it "
        "gives 80 of 100 is something else, and it does not know which.",
        *([] if facts.get("agree_more") else [shared]),
    ]


def _shares(facts: dict[str, Any]) -> list[str]:
    predicted = facts.get("predicted")
    if not predicted:
        return []
    parts = [f"{of_hundred(share)} *{markdown_text(name)}*" for name, share in list(predicted.items())[:SHOWN]]
    if len(predicted) > SHOWN:
        parts.append(f"the rest one of {len(predicted) - SHOWN} more classes")
    listed = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    return [f"**What it answers.** Of 100 such rows it calls {listed}; that is not how many truly are.", ""]
