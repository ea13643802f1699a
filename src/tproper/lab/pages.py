"""Tables of strings as Markdown and HTML, and one page that needs nothing besides itself."""

from __future__ import annotations

import base64
import html
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .._core import write_file

Row = list[str]

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { border-bottom: 1px solid #ddd; padding: .3rem .7rem; text-align: right; }
td:first-child, th:first-child { text-align: left; }
img { max-width: 100%; }
"""


@dataclass(frozen=True)
class Table:
    """A titled table of strings; renders as Markdown and as HTML."""

    title: str
    note: str
    head: Row
    rows: list[Row]

    def markdown(self) -> str:
        """The table as GitHub writes it."""
        lines = [f"## {self.title}", "", self.note, ""] if self.note else [f"## {self.title}", ""]
        for row in (self.head, ["---"] * len(self.head), *self.rows):
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """The table as HTML, escaped."""

        def cells(row: Row, tag: str) -> str:
            return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)

        body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in self.rows)
        head = f"<tr>{cells(self.head, 'th')}</tr>"
        title, note = html.escape(self.title), html.escape(self.note)
        return f"<h2>{title}</h2><p>{note}</p><table>{head}{body}</table>"


@dataclass(frozen=True)
class Page:
    """A Markdown file and an HTML file of one title. Files that begin otherwise are another's, and not replaced."""

    title: str
    markdown_name: str
    html_name: str | None

    @property
    def openings(self) -> dict[str, str]:
        """How the files begin, by name."""
        out = {self.markdown_name: f"# {self.title}\n"}
        if self.html_name is not None:
            out[self.html_name] = (
                f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{html.escape(self.title)}</title>\n"
            )
        return out

    def check(self, out: Path) -> None:
        """Refuse to replace what is not an older page of this kind."""
        for name, opening in self.openings.items():
            if (out / name).exists() and not (out / name).read_bytes().startswith(opening.encode()):
                raise ValueError(f"{out / name}: expected an older report, got another file; choose another --out")

    def write(self, out: Path, note: str, tables: Sequence[Table], images: Sequence[Path] = ()) -> list[Path]:
        """Both files, each whole or not at all; the images are inside the HTML."""
        openings = self.openings
        texts = ["\n".join([openings[self.markdown_name].rstrip(), "", note, "", *(t.markdown() for t in tables)])]
        if self.html_name is not None:
            texts.append(self._html(openings[self.html_name], note, tables, images))
        paths = [out / name for name in openings]
        for path, text in zip(paths, texts, strict=True):
            write_file(path, text.encode(), overwrite=True)
        return paths

    def _html(self, opening: str, note: str, tables: Sequence[Table], images: Sequence[Path]) -> str:
        parts = [opening.rstrip()]
        parts += [f"<style>{STYLE}</style><h1>{html.escape(self.title)}</h1><p>{html.escape(note)}</p>"]
        parts += [table.html() for table in tables]
        for path in images:
            data = base64.b64encode(path.read_bytes()).decode()
            parts.append(f"<h2>{path.stem}</h2><img alt='{path.stem}' src='data:image/png;base64,{data}'>")
        return "\n".join(parts) + "\n"


def moments(values: Sequence[float]) -> tuple[float, float, int]:
    """Mean, sample standard deviation (nan for a single value), number."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else math.nan, len(values)
