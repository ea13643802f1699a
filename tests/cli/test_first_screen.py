"""The first screen of a card: what somebody who decides must find there, whatever the model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import tproper as tp
from tproper.tables.first_screen import dangers, first_screen, of_hundred

ALWAYS = {
    "classes": ["ham", "s*am"], "columns": "numbers: 2", "features": ["x", "`y"], "rows": 1000, "data": "t.csv",
    "estimate": None, "date": "2026-01-01", "version": "1", "no_scores": "no rows were held out",
}  # fmt: skip
GOOD = {"value": 0.9, "low": 0.85, "high": 0.94, "informative": True, "true": False}


def screen(**facts: object) -> str:
    return "\n".join(first_screen(ALWAYS | facts))


def test_every_question_has_its_place() -> None:
    text = screen(accuracy=GOOD, expected={"ham": 0.6, "s*am": 0.4}, predicted={"ham": 0.7, "s*am": 0.3})
    heads = re.findall(r"^\*\*(.*?)\*\*", text, re.M)
    assert heads == [
        "In short.", "What it does.", "From what.", "What it learned from.", "How good it is.",
        "Three things that could be wrong here.", "What it answers.", "When.", "What it is meant for.",
        "What it is not meant for.",
    ]  # fmt: skip
    assert "about 90 right; the number may be anywhere between 85 and 94" in text
    assert "Always answering *ham* would get about 60 right" in text
    assert "Of 100 such rows it calls 70 *ham* and 30 *s\\*am*; that is not how many truly are." in text
    assert "s\\*am" in text
    assert len(re.findall(r"^\d\. ", text, re.M)) == 3


@pytest.mark.parametrize(
    ("facts", "first"),
    [
        ({"unidentified": "no label names b"}, "The classes may be mixed up"),
        ({"trust_in_T": "contradicted", "accuracy": GOOD}, "The labels contradict what was assumed of them"),
        ({"accuracy": GOOD | {"informative": False}}, "Nobody knows how good it is"),
        ({}, "Nobody knows how good it is"),
        ({"accuracy": GOOD, "moved": [0.7, 1.0]}, "may be anything from 70 to 100"),
    ],
)
def test_the_gravest_danger_comes_first(facts: dict[str, object], first: str) -> None:
    assert first in dangers(ALWAYS | facts)[0]


def test_what_cannot_be_known_is_given_no_number() -> None:
    text = screen(accuracy=GOOD | {"informative": False})
    assert "Not known" in text
    assert "90" not in text


BOUNDS = GOOD | {"bounds": True, "low": 0.7, "high": 1.0}


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"trust_in_T": "contradicted", "accuracy": GOOD}, "the labels contradict what was assumed of them."),
        ({}, "nobody has measured how good it is."),
        ({"accuracy": GOOD | {"informative": False}}, "does not tell how good it is."),
        ({"accuracy": BOUNDS | {"needs": "rates", "within": 0.1}}, "between two bounds, which may be wrong as well."),
        ({"accuracy": BOUNDS | {"needs": "candidates"}}, "only between two bounds."),
        ({"accuracy": GOOD, "expected": {"ham": 0.86, "s*am": 0.14}}, "no better than always answering *ham*."),
        ({"accuracy": GOOD, "trust_in_T": "model off"}, "its probabilities do not fit the labels."),
    ],
)
def test_the_first_line_warns_where_there_is_doubt(facts: dict[str, object], told: str) -> None:
    first = screen(**facts).splitlines()[0]
    assert first.startswith("**In short.** Do not rely on it yet: ")
    assert f"{told} Before you use it, have somebody check the class of some rows, and measure" in first


def test_the_first_line_where_all_is_well_and_where_the_model_must_not_be_used() -> None:
    first = screen(accuracy=GOOD, trust_in_T="unopposed", expected={"ham": 0.6, "s*am": 0.4}).splitlines()[0]
    assert first.startswith("**In short.** We found nothing that speaks against using it, as far as uncertain labels")
    assert "In short" not in screen(accuracy=GOOD, unidentified="no label names b"), "said above it"


def test_what_bounds_need_stands_in_their_sentence() -> None:
    rates = BOUNDS | {"needs": "rates", "within": 0.1}
    text = screen(accuracy=rates, trust_in_T="contradicted", estimate="T", answers={"a": 9})
    assert (
        "between 70 and 100 right, but that holds only if our estimate of how often each source gives each answer is "
        "off by at most 10 in 100, which nobody knows."
    ) in text
    assert "without it" not in text
    assert "only if what was said of how often each class gets each label" in screen(accuracy=rates)
    assert "calculated without it" in screen(accuracy=BOUNDS | {"needs": "candidates"})
    for needs in ("zeros", "less noise"):
        text = screen(accuracy=BOUNDS | {"needs": needs})
        assert "100 right, but that holds only if" in text
        assert "without it" not in text


def test_single_cases_do_not_vouch_for_the_probabilities() -> None:
    text = screen(accuracy=GOOD)
    assert "Even if its probabilities are right on average, about one in five" in text


@pytest.mark.parametrize("more", [{}, {"rows": 50, "expected": {"ham": 0.99, "s*am": 0.01}}])
def test_sources_that_agree_too_much_are_among_the_dangers_shown(more: dict[str, object]) -> None:
    facts = {"trust_in_T": "contradicted", "accuracy": GOOD | {"informative": False}} | more
    assert "share a mistake" in screen(**facts, agree_more=True)
    assert "share a mistake" not in screen(**facts, agree_more=False)
    assert sum("share a mistake" in d for d in dangers(ALWAYS | facts | {"agree_more": True})) == 1


def test_words_and_other_columns() -> None:
    text = screen(features=["text"], words={"text": 1293}, columns="text: 1 column, 1,293 terms")
    assert "From the words in the column `text` (it knows 1,293). A table without this column cannot be used." in text
    text = screen(features=["t", "x"], words={"t": 9})
    assert "From the words in the column `t` (it knows 9), and from the column `x`. A table without all of" in text


def test_rows_without_any_label_are_told() -> None:
    assert "In 195 of these rows no source gave any label." in screen(unlabelled=195, answers={"a": 9})
    assert "60 more rows had no label and were left out." in screen(dropped=60)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rules_that_copy_each_other_and_are_silent_on_some_rows() -> None:
    """The whole way: sources that share mistakes agree more than T allows, and silent rows are counted."""
    rng = np.random.default_rng(0)
    n = 900
    z = rng.integers(2, size=n)
    one = np.where(rng.random(n) < 0.3, 1 - z, z)
    said = [one, one, np.where(rng.random(n) < 0.3, 1 - z, z), np.where(rng.random(n) < 0.3, 1 - z, z)]
    silent = np.arange(n) < 90
    names = ["a", "b", "c", "d"]
    frame: dict[str, Any] = {"x": z + rng.normal(size=n)}
    for name, answers in zip(names, said, strict=True):
        frame[name] = [None if q else ("no", "yes")[k] for k, q in zip(answers, silent, strict=True)]
    model = tp.TableModel.fit(
        frame, [f"{s}=symmetric:0.3" for s in names], label=names, folds=2, calibrate="none", missing="uninformative"
    )
    assert model.facts["agree_more"]
    assert model.facts["trust_in_T"] == "contradicted"
    assert model.facts["unlabelled"] == 90
    card = model.card("m")
    assert "2. **The labels may share a mistake.**" in card
    assert "In 90 of these rows no source gave any label." in card
    assert "bounds, T off by up to 10 points" in card
    assert "bounds, without T" not in card


def test_small_shares_are_not_nothing() -> None:
    assert [of_hundred(x) for x in (0.0, 0.001, 0.5, 1.0)] == ["0", "less than 1", "50", "100"]


def test_the_card_begins_with_it_and_ends_with_the_certificate(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=300)
    frame = {"x": z + rng.normal(size=300), "y": ["ab"[k] for k in np.where(rng.random(300) < 0.2, 1 - z, z)]}
    model = tp.TableModel.fit(frame, "symmetric:0.2", label="y", folds=2, calibrate="none")
    card = model.card("m")
    sections = re.findall(r"^#+ (.*)", card, re.M)
    assert sections[0] == "Model card: m"
    assert sections[-1] == "What is proven about the loss"
    assert card.index("**What it does.**") < card.index("## ")
    assert model.facts["predicted"].keys() == {"a", "b"}
    accuracy = model.facts["accuracy"]
    assert f"about {100 * accuracy['value']:.0f} right" in card
