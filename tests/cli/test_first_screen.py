"""The first screen of a card: what somebody who decides must find there, whatever the model."""

from __future__ import annotations

import re
from pathlib import Path

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
        "What it does.", "From what.", "What it learned from.", "How good it is.",
        "Three things that could be wrong here.", "What it answers.", "When.", "What it is meant for.",
        "What it is not meant for.",
    ]  # fmt: skip
    assert "about 90 right; the number may be anywhere between 85 and 94" in text
    assert "Always answering *ham* would get about 60 right" in text
    assert "*ham* for 70" in text
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
