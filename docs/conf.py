"""Sphinx settings of the site: `make docs` builds it into docs/_build/html, which opens from a disk with no network."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from torch.nn import Module

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "src"))

import tproper  # noqa: E402
from tproper.plots import PAGE_COLOURS  # noqa: E402

project, author, release = "tproper", "the tproper authors", tproper.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.katex",
]
exclude_patterns = [
    "_build",
    "_vendor",
    "guides/data/README.md",
    "explorer",
    "gallery",
    "playbook",
    "**/GALLERY_HEADER.rst",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
# "ref.python": a word that several classes have as an attribute (labels); links that lead nowhere still fail
suppress_warnings = ["config.cache", "ref.python"]
default_role = "py:obj"  # `name` in a docstring links to what the site knows by that name, and is code otherwise

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
napoleon_numpy_docstring, napoleon_google_docstring = True, False
napoleon_use_rtype, napoleon_use_ivar = False, True
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
routed = [
    f"set_{m}_request" for m in ("fit", "score", "partial_fit", "predict_proba", "predict_frame", "predict_log_proba")
]  # scikit-learn's own
autodoc_default_options = {"members": True, "exclude-members": ", ".join(routed)}
viewcode_line_numbers = True
copybutton_prompt_text, copybutton_exclude = "$ ", ".linenos, .gp, .go"

sphinx_gallery_conf = {
    "examples_dirs": ["gallery", "playbook"],
    "gallery_dirs": ["auto_gallery", "auto_playbook"],
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "notebook_extensions": set(),
    "show_signature": False,
    "min_reported_time": 10_000,
    "show_memory": False,
    "capture_repr": (),  # what an example prints is shown, not the value of its last line
    "write_computation_times": False,  # its page fetches a table script from the network
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "nested_sections": False,
    "thumbnail_size": (480, 300),
}


def variables(scheme: str) -> dict[str, str]:
    """Furo's colours from the palette that reports and model cards have too."""
    colour = PAGE_COLOURS[scheme]
    return {
        "color-brand-primary": colour["accent"],
        "color-brand-content": colour["accent"],
        "color-brand-visited": colour["accent"],
        "color-background-primary": colour["ground"],
        "color-background-secondary": colour["panel"],
        "color-background-border": colour["line"],
        "color-foreground-primary": colour["ink"],
        "color-foreground-secondary": colour["muted"],
        "color-inline-code-background": colour["code"],
    }


def commit() -> str:
    """The commit that the site is built from, in words for the head of every page; nothing outside of a checkout."""
    asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    run = subprocess.run(asked, cwd=DOCS, capture_output=True, text=True)
    return f" ({run.stdout.strip()})" if run.returncode == 0 else ""


html_theme = "furo"
html_title = f"tproper {release}{commit()}"
html_static_path = ["_static", "_build/generated"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
html_show_sphinx, html_show_copyright = False, False
html_theme_options = {
    "light_css_variables": variables("light"),
    "dark_css_variables": variables("dark"),
    "navigation_with_keys": True,
}
pygments_style, pygments_dark_style = "friendly", "github-dark"
katex_css_path = "katex.css"

#: What a room is called on the site, in the order of the rooms.
ROOMS = {
    "transitions": "Weak labels and T",
    "potentials": "Potentials F",
    "losses": "Losses",
    "certificates": "Certificates",
    "metrics": "Scores from weak labels",
    "estimation": "T from data, and trust in it",
    "learn": "Classifier and calibration",
    "evaluation": "How good a model is",
    "inputs": "Columns of features",
    "tables": "Tables of weak labels",
    "_core": "Errors and warnings",
}


def write_katex() -> None:
    """KaTeX's style sheet with its fonts inside: a browser may refuse fonts of another folder on a disk."""
    folder = DOCS / "_vendor" / "katex"

    def inside(match: re.Match[str]) -> str:
        font = folder / "fonts" / f"{match[2]}.woff2"
        if not font.is_file():
            return ""  # a face that no page uses
        data = base64.b64encode(font.read_bytes()).decode()
        return f'{match[1]}src:url(data:font/woff2;base64,{data}) format("woff2")}}'

    style = (folder / "katex.min.css").read_text(encoding="utf-8")
    style = re.sub(r"(@font-face\{[^}]*?)src:url\(fonts/([\w-]+)\.woff2\)[^}]*\}", inside, style)
    (DOCS / "_build" / "generated").mkdir(parents=True, exist_ok=True)
    (DOCS / "_build" / "generated" / "katex.css").write_text(style, encoding="utf-8")


def copy_explorer(app: Any, error: Exception | None) -> None:
    """The Explorer is a site of its own, beside index.html, as it is."""
    shutil.copytree(DOCS / "explorer", Path(app.outdir) / "explorer", dirs_exist_ok=True)


def write_api() -> None:
    """One page a room, of every public name: what `tproper` exports is what the site documents."""
    names = defaultdict(list)
    for name, room in tproper._LAZY.items():
        names["_core" if room == "errors" else room].append(name)
    folder = DOCS / "api"
    folder.mkdir(exist_ok=True)
    assert set(names) == set(ROOMS), "docs/conf.py: a room of public names has no title"
    entries = []
    for room, title in ROOMS.items():
        opening = (import_module(f"tproper.{room}").__doc__ or "").split("\n\nImports from", 1)[0].strip()
        parts = [title, "=" * len(title), "", opening, ""]
        for name in names[room]:
            value = getattr(tproper, name)
            kind = "autofunction" if callable(value) and not isinstance(value, type) else "autoclass"
            if isinstance(value, type) and issubclass(value, Exception):
                kind = "autoexception"
            parts += [f".. {kind}:: tproper.{name}"]
            if isinstance(value, type) and issubclass(value, Module):  # what losses share, and nothing of torch
                parts += ["   :inherited-members: Module", "   :exclude-members: extra_repr"]
            parts += [""]
        entries.append(room.strip("_"))
        (folder / f"{entries[-1]}.rst").write_text("\n".join(parts), encoding="utf-8")
    extension = import_module("tproper.extension")
    parts = ["For packages that extend tproper", "=" * 32, "", (extension.__doc__ or "").strip(), ""]
    entries.append("extension")
    (folder / "extension.rst").write_text("\n".join(parts), encoding="utf-8")
    body = ["API", "===", "", "Every public name, by subject. ``import tproper as tp``.", ""]
    body += ["An argument that breaks a rule raises ``ValueError``, whose message names the argument, the rule and the"]
    body += [
        "value. *Raises* lists the errors that have a class of their own; they are all kinds of ``ValueError``.",
        "",
    ]
    body += [".. toctree::", "   :maxdepth: 2", "", *(f"   {entry}" for entry in entries), ""]
    (folder / "index.rst").write_text("\n".join(body), encoding="utf-8")


def list_other_pages(app: Any, name: str, source: list[str]) -> None:
    """Pages that benchmarks add to docs/ stand with the evidence, without a change to a list."""
    if name == "evidence":
        listed = [*source[0].split(), *(DOCS / "index.md").read_text(encoding="utf-8").split()]
        others = [p.stem for p in sorted(DOCS.glob("*.md")) if p.stem not in (*listed, "index")]
        source[0] = source[0].replace("EVERY OTHER PAGE", "\n".join(others))


def link_names(app: Any, tree: Any) -> None:
    """`tp.Name` in the text of a page leads to what the API says of it."""
    for node in list(tree.findall(nodes.literal)):
        name = re.match(r"(?:tp\.)?(\w+)", node.astext())
        if name is None or name[1] not in tproper.__all__ or isinstance(node.parent, (nodes.reference, pending_xref)):
            continue
        link = pending_xref("", refdomain="py", reftype="obj", reftarget=f"tproper.{name[1]}", refexplicit=True)
        node.replace_self(link)
        link += node


def keep_together(app: Any, tree: Any) -> None:
    """A value and its error, "95.3 ± 0.2" or "95.3 / 0.020", stay on one line of a narrow table."""
    for cell in tree.findall(nodes.entry):
        for text in list(cell.findall(nodes.Text)):
            joined = re.sub(r" (±) |(?<=\d) (/) (?=\d)", "\N{NO-BREAK SPACE}\\1\\2\N{NO-BREAK SPACE}", text)
            if joined != text:
                text.parent.replace(text, nodes.Text(joined))


def mark_wide_pictures(app: Any, tree: Any) -> None:
    """A row of panels keeps a size at which it can be read; on a phone it scrolls."""
    for picture in tree.findall(nodes.image):
        path = Path(app.srcdir) / picture["candidates"].get("*", picture["uri"])
        if path.suffix == ".png":
            width, height = (int.from_bytes(path.read_bytes()[i : i + 4], "big") for i in (16, 20))  # of its header
            picture["classes"] += ["wide"] if width > 2 * height else []


def setup(app: Any) -> None:
    """Make what is generated before Sphinx looks for sources."""
    app.connect("source-read", list_other_pages)
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", keep_together)
    app.connect("doctree-read", mark_wide_pictures)
    app.connect("build-finished", copy_explorer)
    write_katex()
    write_api()
