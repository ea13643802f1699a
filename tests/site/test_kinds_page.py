"""The map of kinds: its page is what its makers write, and every line of it runs."""

import sys
from pathlib import Path

import pytest

from tproper.transitions import KINDS

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import kinds_page  # noqa: E402


@pytest.mark.parametrize("setting", kinds_page.SETTINGS, ids=lambda s: s.name)
def test_the_lines_of_a_setting_learn_the_classes(setting):
    assert kinds_page.run(setting) > setting.accuracy


def test_there_are_fifteen_settings_and_every_kind():
    assert len(kinds_page.SETTINGS) == 15
    text = (DOCS / "kinds.md").read_text()
    assert text == kinds_page.page()
    for kind in KINDS:
        assert f"`{kind.call}`" in text
