"""Every page that a record fills in is what its record gives: `make pages` changes nothing."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GENERATE = runpy.run_path(str(ROOT / "docs" / "generate.py"))


@pytest.mark.parametrize("page", GENERATE["pages"]())
def test_a_page_is_what_the_records_say(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert GENERATE["generated"](text, page) == text, f"run `python docs/generate.py {page}`"


def test_a_generated_number_that_someone_changes_is_found():
    """One digit of any generated number or table, and the page is not what the records say."""
    for page in ("docs/theory.md", "README.md", "docs/choose-a-loss.md", "docs/learning_rates.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        spans = [*GENERATE["SPAN"].finditer(text), *re.finditer(r"(\| [^|\n]*\| )()(\d+\.\d+)", text)]
        assert spans, page
        for span in (spans[0], spans[-1]):
            start, end = span.span(3)
            damaged = text[:start] + "7" + text[start:end] + text[end:]
            assert GENERATE["generated"](damaged, page) == text != damaged, page


@pytest.mark.parametrize(
    ("text", "message"),
    [("<!-- = 1 -->1<!-- / -->", "begins with one"), ("x <!-- = 1 -->1", "a number without"),
     ("x <!-- = trials('mlp', 'bc', k=0) : d --><!-- / -->", "expected at least one such trial"),],
)  # fmt: skip
def test_wrong_marks_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        GENERATE["generated"](text, "docs/index.md")
