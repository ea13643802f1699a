"""Every page that a record fills in is what its record gives: `make pages` changes nothing."""

import runpy
from pathlib import Path

import pytest
from jinja2 import UndefinedError

ROOT = Path(__file__).resolve().parent.parent
GENERATE = runpy.run_path(str(ROOT / "docs" / "generate.py"))


@pytest.mark.parametrize("page", GENERATE["pages"]())
def test_a_page_is_what_the_records_say(page):
    assert GENERATE["generated"](page) == (ROOT / page).read_text(encoding="utf-8"), f"docs/generate.py {page}"


def test_there_are_templates_and_they_hold_numbers():
    templates = GENERATE["templates"]()
    assert {"docs/theory.md", "docs/reproduction.md", "docs/choose-a-loss.md", "CONTRIBUTING.md"} <= set(templates)
    for page in templates:
        assert "{{ " in (ROOT / f"{page}.j2").read_text(encoding="utf-8"), page


def test_templates_call_by_name_what_records_hold():
    assert GENERATE["rendered"]("{{ bound(2) | g3 }} {{ trials('mlp', 'gls') | length }}\n") == "-33.4 16\n"
    with pytest.raises(UndefinedError, match="nobody"):
        GENERATE["rendered"]("{{ nobody(2) }}")
    with pytest.raises(ValueError, match="expected at least one such trial"):
        GENERATE["rendered"]("{{ trials('mlp', 'bc', k=0) | mean }}")
