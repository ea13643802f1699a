"""Pages do what they print: this runs the code blocks of a Markdown page, in order, in a folder of its own.

Fences called ``python`` share one namespace a page. Lines of fences called ``console`` begin with ``$ ``, call
``tproper`` and run in the same folder. A fence called ``output`` after one of them is what it printed, and a picture
that the page shows and its code saves is the one that the code drew: ``python docs/pages.py`` writes both anew, and the
tests compare.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: The pages whose code is run. The gallery and the playbook run when the site is built, and the tour of the command
#: line in tests/cli/test_tour.py.
GUIDES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "guides").glob("*.md"))
PAGES = ["README.md", "docs/index.md", *GUIDES]
FENCE = re.compile(r"^```(python|console|output)\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A block of code, what the page says that it prints (None: nothing is said), and where in the text that stands."""

    kind: str
    code: str
    printed: str | None
    span: tuple[int, int] | None  # of the printed text


def blocks(text: str) -> list[Block]:
    """The blocks of code of a page."""
    fences = list(FENCE.finditer(text))
    out = []
    for match, following in zip(fences, [*fences, None][1:], strict=True):
        if match[1] == "output":
            continue
        told = following is not None and following[1] == "output" and not text[match.end() : following.start()].strip()
        printed, span = (following[2], following.span(2)) if told and following is not None else (None, None)
        out.append(Block(match[1], match[2], printed, span))
    return out


def _command(line: str) -> str:
    from typer.testing import CliRunner

    from tproper.cli.main import app

    program, *arguments = shlex.split(line)
    if program != "tproper":
        raise ValueError(f"expected commands of tproper in a console block, got {line!r}")
    result = CliRunner().invoke(app, arguments)
    if result.exit_code:
        raise RuntimeError(f"{line}: exit code {result.exit_code}\n{result.output}")
    return str(result.stdout)


def run_block(block: Block, space: dict[str, Any], name: str) -> str:
    """What a block prints."""
    if block.kind == "console":
        lines = block.code.replace("\\\n", " ").splitlines()
        return "".join(_command(line.removeprefix("$ ")) for line in lines)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(block.code, name, "exec"), space)
    return said.getvalue()


def run_page(path: Path, folder: Path) -> list[tuple[Block, str]]:
    """Every block with what it printed; files are left in `folder`."""
    os.environ.setdefault("MPLBACKEND", "agg")
    space: dict[str, Any] = {"__name__": "__main__"}
    for extract in (path.parent / "data").glob("*.csv"):  # what its reader downloads
        shutil.copyfile(extract, folder / extract.name)
    before = Path.cwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a page that warns its reader has to say so itself
            # what other packages have against each other's versions is not the reader's affair
            warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"(?!tproper|__main__)")
            warnings.filterwarnings("ignore", module="matplotlib")
            found = blocks(path.read_text(encoding="utf-8"))
            return [(block, _plain(run_block(block, space, path.name))) for block in found]
    finally:
        os.chdir(before)


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n"


def pictures(path: Path, folder: Path) -> list[tuple[Path, Path]]:
    """Pictures that a page shows and its code has saved under the same name: (drawn, shown)."""
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", path.read_text(encoding="utf-8"))
    pairs = [(folder / Path(name).name, (path.parent / name).resolve()) for name in shown]
    return [(drawn, shown) for drawn, shown in pairs if drawn.is_file()]


def renew(path: Path) -> bool:
    """Run a page and write what it printed into it, and what it drew beside it; whether anything changed."""
    text = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        results = run_page(path, Path(name))
        for drawn, shown in pictures(path, Path(name)):
            shown.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(drawn, shown)
    new = text
    for block, printed in reversed(results):
        if block.span is not None:
            new = new[: block.span[0]] + printed + new[block.span[1] :]
    path.write_text(new, encoding="utf-8")
    return new != text


NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:[,.]\d+)*(?:e[-+]?\d+)?")


def same(printed: str, now: str) -> bool:
    """Whether two outputs agree: the words exactly, the numbers up to what another processor may change."""
    if NUMBER.sub("#", printed).split() != NUMBER.sub("#", now).split():
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(now), strict=True)
    values = [(float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs]
    return all(abs(a - b) <= 0.02 + 0.05 * max(abs(a), abs(b)) for a, b in values)


def main() -> int:
    """Renew the pages named, or all."""
    for name in sys.argv[1:] or PAGES:
        print(name, "changed" if renew(ROOT / name) else "as it was")
    return 0


if __name__ == "__main__":
    sys.exit(main())
