"""Markdown as one HTML page that needs nothing besides itself: model cards and reports, in the colours of the site.

Names of classes, columns, files and methods come from whoever made the table: on a page they are text. `markdown_text`
and `markdown_code` are how every page takes them.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Collection, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..errors import InputError, printable
from .style import PAGE_COLOURS

_PICTURES = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg"}

#: Nothing is loaded from anywhere, and nothing runs: what a page needs is inside it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

# What Markdown, or GitHub's, takes for more than itself: an underscore at the end of a word, a colon and a dot in what
# GitHub takes for an address.
_LIVE = re.compile(r"[\\`*\[\]&|~#@]|<(?=[a-z/!?])|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.", re.IGNORECASE)

_STYLE = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 -apple-system, BlinkMacSystemFont,
  "Segoe UI", Helvetica, Arial, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.2rem 1.2rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; letter-spacing: -0.01em; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
a { color: var(--accent); } p, li { max-width: 85ch; overflow-wrap: anywhere; }
nav { background: var(--panel); border: 1px solid var(--line); border-radius: 10px; padding: .7rem 1.1rem; }
nav ul { margin: .3rem 0 0; padding: 0; list-style: none; columns: 22rem; font-size: .92rem; }
.table { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
td, th { border-bottom: 1px solid var(--line); padding: .35rem .7rem; text-align: right; vertical-align: top; }
td { min-width: 3.2rem; } th { color: var(--muted); font-weight: 600; }
td:first-child, th:first-child { text-align: left; position: sticky; left: 0; background: var(--ground); }
code, pre { font: .87em/1.5 "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace; background: var(--code); }
code { padding: .1em .35em; border-radius: 4px; } pre { padding: .8rem 1rem; border-radius: 8px; overflow-x: auto;
  white-space: pre-wrap; }
pre code { padding: 0; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
figure { margin: 0; max-width: 34rem; } figure.wide { grid-column: 1 / -1; max-width: none; overflow-x: auto; }
figure.wide img { min-width: 56rem; }
figure img { width: 100%; height: auto; background: #fff; border: 1px solid var(--line); border-radius: 8px; }
figcaption { color: var(--muted); font-size: .88rem; }
@media (max-width: 40em) { td, th { padding: .3rem .45rem; } pre { font-size: .7rem; padding: .7rem; }
  td:first-child { min-width: 8.2rem; max-width: 9.5rem; overflow-wrap: anywhere; }
  td:last-child { min-width: 6rem; } }
"""


def markdown_text(text: object) -> str:
    """Text as Markdown that shows it, letter by letter, on one line: nothing in it is a link, a picture or HTML."""
    line = printable(str(text), "")
    return _LIVE.sub(r"\\\g<0>", line)


def markdown_code(text: object) -> str:
    """A code span that shows a text on one line, whatever backticks it has."""
    line = printable(str(text), "")
    fence = "`" * (_longest_run(line) + 1)
    space = " " if not line or line[0] in "` " or line[-1] in "` " else ""
    return f"{fence}{space}{line}{space}{fence}"


def markdown_block(text: str, language: str = "text") -> list[str]:
    """The lines of a block of code that ends where the text does."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return [f"{fence}{language}", printable(text), fence]


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def html_page(markdown: str, title: str, folder: Path, pictures: Collection[str] = ()) -> str:
    """A page from Markdown: a contents list, tables that scroll by themselves on a phone, pictures inside the page.

    `pictures` names the files in `folder` that may be shown, and no others are; those of one paragraph stand side by
    side, each with its text as a caption. Raw HTML is shown as text, and the page may load nothing from elsewhere.
    Names that others chose belong into `markdown_text`. Light or dark, as the reader's system is.
    """
    from markdown_it import MarkdownIt  # late: the lab's engine runs without

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(markdown)
    for source in _sources(tokens):
        if source not in pictures:
            raise InputError(f"markdown: expected pictures of the page's own, got {source!r}")
    entries: list[tuple[str, str]] = []
    for token, following in pairwise(tokens):
        if token.type == "heading_open" and token.tag == "h2":
            entries.append((f"section-{len(entries) + 1}", parser.renderer.render([following], parser.options, {})))
            token.attrSet("id", entries[-1][0])
    body = str(parser.renderer.render(tokens, parser.options, {}))
    body = body.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
    body = re.sub(r"(?<=\d) ([±/]) (?=\d)", "&nbsp;\\1&nbsp;", body)  # a value and its error stay on one line
    body = re.sub(r"<p>((?:<img [^>]*>\s*)+)</p>", lambda images: _figures(images[1], folder), body)
    if len(entries) > 2:
        items = "".join(f'<li><a href="#{name}">{text}</a></li>' for name, text in entries)
        contents = f'<nav aria-label="Contents"><strong>Contents</strong><ul>{items}</ul></nav>\n'
        first = body.index("<h2")
        body = body[:first] + contents + body[first:]
    head = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{html.escape(title)}</title>\n"
    head += f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    head += '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head += '<meta name="color-scheme" content="light dark">'
    return f"{head}<style>{_colours()}{_STYLE}</style>\n<main>\n{body}</main></html>\n"


def _sources(tokens: Iterable[Any]) -> list[str]:
    """Where the pictures in a text come from, wherever they stand in it."""
    out = []
    for token in tokens:
        if token.type == "image":
            out.append(unquote(str(token.attrGet("src"))))
        out += _sources(token.children or ())
    return out


def _colours() -> str:
    """The palette as CSS variables, by day and by night."""
    sets = {scheme: "".join(f"--{n}: {c}; " for n, c in colours.items()) for scheme, colours in PAGE_COLOURS.items()}
    return f":root {{ {sets['light']}}}\n@media (prefers-color-scheme: dark) {{ :root {{ {sets['dark']}}} }}"


def _figures(images: str, folder: Path) -> str:
    """The pictures of a paragraph, each inside the page."""
    out = []
    for source, alt in re.findall(r'<img src="([^"]*)" alt="([^"]*)"', images):
        path = folder / unquote(html.unescape(source))
        if path.suffix not in _PICTURES or not path.is_file():
            raise InputError(f"markdown: expected pictures that lie beside the page, got {source!r}")
        content = path.read_bytes()
        data = base64.b64encode(content).decode()
        inside = f'<img alt="{alt}" src="data:{_PICTURES[path.suffix]};base64,{data}">'
        shape = ' class="wide"' if path.suffix == ".png" and _is_wide(content) else ""
        out.append(f"<figure{shape}>{inside}<figcaption>{alt}</figcaption></figure>")
    return f'<div class="figures">{"".join(out)}</div>'


def _is_wide(png: bytes) -> bool:
    """A row of panels has a row of the page to itself; the header of a PNG holds its width and height."""
    width, height = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    return width > 2 * height
