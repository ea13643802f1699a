"""Tables of strings as Markdown, and one HTML page that needs nothing besides itself."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tproper.errors import InputError
from tproper.extension import write_file
from tproper.plots import html_page, markdown_text

Row = list[str]


@dataclass(frozen=True)
class Table:
    """A titled table of strings, shown letter by letter; the note is Markdown, of which names are `markdown_text`."""

    title: str
    note: str
    head: Row
    rows: list[Row]

    def markdown(self) -> str:
        """The table as GitHub writes it."""
        lines = [f"## {markdown_text(self.title)}", "", *([self.note, ""] if self.note else [])]
        head, *rows = ([markdown_text(cell) for cell in row] for row in (self.head, *self.rows))
        for row in (head, ["---"] * len(head), *rows):
            lines.append("| " + " | ".join(row) + " |")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Page:
    """A Markdown file and an HTML file of one title. A file that begins otherwise is not ours, and is not replaced."""

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
                raise InputError(f"{out / name}: expected an older report, got another file; choose another --out")

    def write(self, out: Path, note: str, tables: Sequence[Table], images: Sequence[Path] = ()) -> list[Path]:
        """Both files, each whole or not at all; images are inside the HTML, or linked where there is Markdown alone."""
        pictures = [f"![{markdown_text(p.stem.replace('_', ' '))}]({quote(p.name)})" for p in images]
        linked = [*pictures, ""] if self.html_name is None and pictures else []
        text = "\n".join([f"# {self.title}", "", note, "", *linked, *(t.markdown() for t in tables)])
        texts = {self.markdown_name: text}
        if self.html_name is not None:
            figures = ["", "## Figures", "", "\n".join(pictures), ""] if images else []
            folder = images[0].parent if images else out
            shown = [path.name for path in images]
            texts[self.html_name] = html_page("\n".join([text, *figures]), self.title, folder, shown)
        for name, content in texts.items():
            write_file(out / name, content.encode(), overwrite=True)
        return [out / name for name in texts]


def moments(values: Sequence[float]) -> tuple[float, float, int]:
    """Mean, sample standard deviation (nan for a single value), number."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else math.nan, len(values)
