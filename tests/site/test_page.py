"""Markdown as a page of its own: pictures inside, nothing from elsewhere, names that can do no harm."""

import html
import re

import pytest

from tproper.errors import printable
from tproper.plots import PAGE_COLOURS, html_page, markdown_block, markdown_code, markdown_text

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
    page = html_page(TEXT, "A <card>", folder, ["a.png"])
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
    page = html_page(TEXT, "card", folder, ["a.png"])
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_both_colour_schemes_are_the_palette(folder):
    page = html_page(TEXT, "card", folder, ["a.png"])
    for scheme in ("light", "dark"):
        assert all(f"--{name}: {colour};" in page for name, colour in PAGE_COLOURS[scheme].items())


def test_a_picture_that_is_not_there_or_not_the_pages_own_is_refused(tmp_path, folder):
    with pytest.raises(ValueError, match=r"markdown: expected pictures that lie beside the page, got 'a\.png'"):
        html_page(TEXT, "card", tmp_path / "elsewhere", ["a.png"])
    for source in ("https://x/a.png", "../a.png", "/etc/hostname", "a.png"):
        for text in (f"![x]({source})", f"words ![x]({source}) words", f"- [![x]({source})](#y)"):
            with pytest.raises(ValueError, match=r"markdown: expected pictures of the page's own, got"):
                html_page(text, "card", folder)


def test_a_page_may_load_nothing(folder):
    policy = re.findall(
        r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html_page(TEXT, "c", folder, ["a.png"])
    )
    assert len(policy) == 1
    assert "default-src 'none'" in policy[0]
    assert "script" not in policy[0]
    assert "http" not in policy[0]


LIVE = [
    "![x](http://evil.example/x.png)", "[go](https://evil.example)", "<img src=x onerror=alert(1)>", "a\n\n# top",
    "&lt;b&gt;", "`code`", "``", "```\nend", "**bold**", "_it_", "a_b_c", "~~gone~~", "a|b", "\\", "\\[x](y)", "# x #",
    "<https://evil.example>", "https://evil.example", "www.evil.example", "me@evil.example", "\r\nx", "\x1b[31m",
    "caf\udce9", "![x]", "[x]: http://evil", "- x", "1. x", "plain", "\u202egpj.exe",
]  # fmt: skip
PLACES = ["- name: {} and more", "# {}", "| a | b |\n| --- | --- |\n| {} | 1 |", "**not {}.**"]


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize("place", PLACES)
def test_a_name_is_shown_letter_by_letter_wherever_it_stands(name, place):
    """Nothing that a name holds becomes a tag: the page's text is the name, control characters as their escapes."""
    from markdown_it import MarkdownIt

    def page(markdown):
        return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)

    for made in (markdown_text(name), *([] if "|" in place else [markdown_code(name)])):  # no code in tables
        made.encode()  # a file can hold it
        text = html.unescape(re.sub(r"</?code>", "", page(place.format(made))))
        assert text.split() == page(place.format("NAME")).replace("NAME", printable(name, "")).split()


@pytest.mark.parametrize(
    "name", ["http://evil.example", "see https://evil.example/x", "WWW.evil.example", "a@evil.example"]
)
def test_github_makes_no_link_of_a_name(name):
    """Its extended autolinks begin with these, in text that is not escaped."""
    assert not re.search(r"(?<!\\)://|www\.|(?<!\\)@", markdown_text(name), re.IGNORECASE)


@pytest.mark.parametrize("text", ["```", "x\n```\n![x](http://evil)", "````python\n```", "caf\udce9\x1b"])
def test_a_block_of_code_ends_where_its_text_does(text):
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse("\n".join([*markdown_block(text), "", "after"]))
    assert [t.type for t in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert tokens[0].content.rstrip("\n") == printable(text)
