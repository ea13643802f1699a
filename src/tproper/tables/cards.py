"""What a user is told about a model: its card, in Markdown, and the closing words of `tproper train`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..data import short
from ..plots import markdown_block, markdown_code, markdown_text
from .first_screen import first_screen


def in_words(certificate: Any, estimated: bool = False, known_classes: int = 0) -> str:
    """What a certificate means to somebody who trains a model, and what it rests on."""
    if certificate.strictly_proper:
        first = "If T is right and the model can express the truth, probabilities become right as data grow."
    elif certificate.proper:
        first = (
            "If T is right, the true class probabilities minimise this loss, but other probabilities may do so as well."
        )
    else:
        first = "This loss is not proper: even with unlimited data its minimum may differ from the true probabilities."
    made = "estimated from this table" if estimated else "given"
    checked = (
        f"with {known_classes:,} rows of known class beside it" if known_classes else "not checked against clean labels"
    )
    if certificate.lower_bounded:
        second = "The loss is bounded from below, so training cannot run off to minus infinity."
    else:
        second = (
            "The loss has NO lower bound: training can push it to minus infinity and ruin the model. "
            "Prefer --loss forward."
        )
    return f"{first} T was {made}, {checked}. {second}"


def shown_counts(counts: dict[str, int], limit: int = 12) -> str:
    """ "a 10, b 9, ..." """
    return short([f"{name} {n:,}" for name, n in counts.items()], limit)


def model_card(facts: dict[str, Any], scores: str | None, certificate: str) -> str:
    """A page about the model, in Markdown: data, labels, loss, and what is known of its quality.

    Names of columns and classes, and sentences that hold some, are text there, whatever Markdown they would be.
    """
    unidentified = facts.get("unidentified")
    lines = [
        f"# Model card: {markdown_text(facts['name'])}",
        "",
        *([f"**Do not use this model: {markdown_text(unidentified)}.**", ""] if unidentified else []),
        *first_screen(facts),
        *_pictures(facts),
        *_data(facts),
        "## Labels and training",
        "",
        f"- transition (how a class becomes a label): {markdown_code(facts['transition'])} (asked for as "
        f"{_codes(facts['specs'])})",
        f"- model: {markdown_text(facts['model'])}, loss: {markdown_text(facts['loss'])}",
        f"- settings: {markdown_text(', '.join(f'{k} = {v}' for k, v in facts['settings'].items()))}"
        + (" (chosen by cross-validated weak risk)" if facts["tuned"] else ""),
        *(f"- warning: {markdown_text(w)}" for w in facts["warnings"]),
        "",
        *_estimate(facts),
        *_quality(facts, scores),
        *_use(facts),
        "## What is proven about the loss",
        "",
        *markdown_block(certificate),
        "",
        facts["in_words"],
        "",
    ]
    return "\n".join(lines)


def _pictures(facts: dict[str, Any]) -> list[str]:
    if not facts["picture"]:
        return []
    alt = "reliability: how often it is right, by how sure it is; on the dotted line it is as often right as it says"
    doubted = []
    if facts.get("trust_in_T") == "contradicted":
        doubted = [
            "Do not read this picture as a measurement: what it shows of weak labels was calculated from an assumption "
            "that the labels contradict, and may be wrong by any amount.",
            "",
        ]
    return ["## Pictures", "", *doubted, f"![{alt}]({facts['picture']})", ""]


def _codes(names: Sequence[str], limit: int = 40) -> str:
    return short([markdown_code(name) for name in names], limit)


def _data(facts: dict[str, Any]) -> list[str]:
    return [
        "## Data",
        "",
        f"- file: {markdown_code(facts['data'])}",
        f"- rows: {facts['rows']:,} to train, {facts['held_out']:,} held out; "
        + f"{facts['dropped']:,} left out for having no label"
        + (
            f"; {facts['unlabelled']:,} of those to train have no label"
            if facts["unlabelled"] and not facts["blank"]
            else ""
        )
        + (f"; {facts['known_classes']:,} of known class" if facts["known_classes"] is not None else "")
        + (f"; {facts['groups']:,} groups, never split" if facts["groups"] is not None else "")
        + (f", {facts['blank']:,} without a label kept as uninformative" if facts["blank"] else ""),
        f"- features ({len(facts['features'])}): {_codes(facts['features'])}"
        + (", standardised" if facts["standardized"] else "")
        + f"; {markdown_text(facts['columns'])}",
        f"- classes ({len(facts['classes'])}): {markdown_text(short(facts['classes'], 40))}",
        f"- weak labels, column {markdown_code(facts['label'])}: {markdown_text(shown_counts(facts['labels'], 40))}",
        *(
            [f"- answers of annotators: {markdown_text(shown_counts(facts['answers'], 40))}"]
            if facts["answers"]
            else []
        ),
        "",
    ]


def _estimate(facts: dict[str, Any]) -> list[str]:
    if facts["estimate"] is None:
        return []
    return ["T was estimated from this table:", "", *markdown_block(facts["estimate"]), ""]


def _quality(facts: dict[str, Any], scores: str | None) -> list[str]:
    head = ["## Quality, from weak labels of rows that the model had not seen", ""]
    calibration = ["", "## Calibration, by weak labels", "", *markdown_block(facts["calibration"])]
    if scores is None:
        return [*head, f"Not measured: {markdown_text(facts['no_scores'])}.", *calibration, ""]
    clean = "No"
    if facts["known_classes"]:
        clean = "The column of clean labels is from the rows of known class alone. Elsewhere no"
    rest = (
        "The intervals cover with 95% probability if the\n"
        "transition above is right; a wrong transition makes them wrong too."
    )
    if facts.get("bounded"):
        rest = (
            "The transition above is contradicted by the labels.\nThe bounds are no 95% intervals: they hold only if "
            "what is said beneath them is true."
        )
    return [
        *head,
        f"Measured {facts['how_scored']}:",
        "",
        *markdown_block(scores),
        "",
        f"{clean} clean label was used. {rest}",
        *calibration,
        "",
    ]


def _use(facts: dict[str, Any]) -> list[str]:
    name = facts["name"]
    code = f"import tproper as tp\n\nmodel = tp.load({json.dumps(name)})\n"
    code += "p = model.predict_proba(frame)  # (rows, classes), columns as in model.classes_"
    return [
        "## Use",
        "",
        f"{markdown_code(f'tproper predict {shlex.quote(name)} DATA')}, or in Python, from a frame with the same "
        "columns in any order:",
        "",
        *markdown_block(code, "python"),
        "",
    ]


def summary(facts: dict[str, Any], scores: str | None, certificate: Any, out: Path) -> str:
    """The closing words of `tproper train`."""
    named = {
        "known_classes": "of known class",
        "held_out": "more held out",
        "dropped": "without a label left out",
        "blank": "without a label kept as uninformative",
    }
    more = [f"{facts[name]:,} {words}" for name, words in named.items() if facts[name]]
    if facts["unlabelled"] and not facts["blank"]:
        more.append(f"{facts['unlabelled']:,} of them without any label")
    lines = [
        *([f"DO NOT USE THIS MODEL: {facts['unidentified']}", ""] if facts.get("unidentified") else []),
        f"trained on {facts['rows']:,} rows" + (f" ({', '.join(more)})" if more else ""),
        f"features  {len(facts['features'])}: {short(facts['features'])}",
        f"          {facts['columns']}",
        f"classes   {len(facts['classes'])}: {short(facts['classes'])}",
        f"labels    {facts['transition']}: {shown_counts(facts['labels'])}",
        *([f"answers   {shown_counts(facts['answers'])}"] if facts["answers"] else []),
        "",
        *([f"T, estimated from this table:\n{facts['estimate']}", ""] if facts["estimate"] is not None else []),
        str(certificate),
        "",
        facts["in_words"],
        "",
    ]
    if scores is None:
        lines.append(f"No scores: {facts['no_scores']}.")
    else:
        clean = "" if facts["known_classes"] else ", without one clean label"
        lines += [f"Scores {facts['how_scored']}{clean}:", scores]
    lines += ["", facts["calibration"]]
    picture = ", reliability.png" if facts["picture"] else ""
    lines += ["", f"model in {out} (model_card.md, model_card.html{picture})"]
    if scores is not None and not picture:
        lines.append("no reliability diagram: pip install 'tproper[plots]'")
    return "\n".join(lines)
