"""Markdown as a page of its own: pictures inside, nothing from elsewhere, names that can do no harm."""

import re

import pytest

from tproper.plots import PAGE_COLOURS, html_page

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
TEXT = """# A card

Words, and <b>raw</b> <script>alert(1)</script>.

## Data & labels

| name | value |
| --- | --- |
| `a` | 1 |

## Pictures

![one](a.png)
![two](a.png)

## Use
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.png").write_bytes(PIXEL)
    return tmp_path


def test_contents_tables_and_pictures(folder):
    page = html_page(TEXT, "A <card>", folder)
    assert page.startswith("<!doctype html><html lang='en'><meta charset='utf-8'><title>A &lt;card&gt;</title>\n")
    assert re.findall(r'<li><a href="#(section-\d)">(.*?)</a>', page) == [
        ("section-1", "Data &amp; labels"),
        ("section-2", "Pictures"),
        ("section-3", "Use"),
    ]
    assert page.count(' id="section-') == 3
    assert '<div class="table"><table>' in page
    assert page.count("data:image/png;base64,") == 2
    assert re.search(r'<div class="figures"><figure>.*</figure><figure>.*</figure></div>', page)
    assert not re.search(r"(src|href)=['\"](?!data:|#)", page)


def test_raw_html_is_text(folder):
    page = html_page(TEXT, "card", folder)
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_both_colour_schemes_are_the_palette(folder):
    page = html_page(TEXT, "card", folder)
    for scheme in ("light", "dark"):
        assert all(f"--{name}: {colour};" in page for name, colour in PAGE_COLOURS[scheme].items())


def test_a_picture_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"markdown: expected pictures that lie beside the page, got 'a\.png'"):
        html_page(TEXT, "card", tmp_path)
    with pytest.raises(ValueError, match=r"expected pictures that lie beside the page, got 'https://x/a\.png'"):
        html_page("![x](https://x/a.png)", "card", tmp_path)
