"""No page, message or help text needs a glossary: words that this project's authors coined for themselves stay out."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import tproper as tp

ROOT = Path(__file__).parents[2]
# What a stranger would have to translate.
COINED = re.compile(
    r"\b(rooms?|told T|epochs? by weak|sealed|neighbou?rs|floors?|taught|bent|heat(?! map)|the line"
    r"|rules of the house|house words?)\b",
    re.I,
)
PLAIN = {  # where the words are plain English: a place in memory, or a line of a file
    "expected room for ", "and the line", "at the line", "leave room", "no room", "the line of",
}  # fmt: skip
PAGES = sorted(
    p
    for place in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "changelog", "docs", "examples", "lab/README.md")
    for p in ([ROOT / place] if (ROOT / place).is_file() else (ROOT / place).rglob("*"))
    if p.suffix in (".md", ".j2", ".rst", ".html") and not {"_build", "_vendor", "vendor", "api"} & set(p.parts)
    and not any(part.startswith("auto_") for part in p.parts)
)  # fmt: skip
SOURCES = [
    p for root in ("src", "lab/src", "docs/gallery", "docs/playbook", "examples") for p in (ROOT / root).rglob("*.py")
]


def coined(text: str) -> list[str]:
    """Coined words in a text, but not in names: code between backticks, addresses, attributes of HTML."""
    prose = re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|<[^>]*>|https?://\S+", " ", text, flags=re.S)
    for words in PLAIN:
        prose = prose.replace(words, " ")
    return [m[0] for m in COINED.finditer(prose)]


def messages(tree: ast.Module) -> list[str]:
    """Texts of a program that are not docstrings, identifiers or keys: what it may say to somebody."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {id(n.body[0].value) for n in ast.walk(tree) if isinstance(n, owners) and isinstance(n.body[0], ast.Expr)}
    texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [n.value for n in texts if id(n) not in docs and " " in n.value.strip()]


def test_the_list_finds_them():
    assert coined("the room's floor, told T; a heat map") == ["room", "floor", "told T"]
    assert coined("`monitor.floor` and ```room```") == []
    assert messages(ast.parse('"""A room."""\nraise E(f"no floor below {x}")\nx["room"]')) == ["no floor below "]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages(page):
    assert coined(page.read_text(encoding="utf-8")) == []


def test_messages_and_help():
    found = {str(p.relative_to(ROOT)): coined("\n".join(messages(ast.parse(p.read_text())))) for p in SOURCES}
    assert {p: words for p, words in found.items() if words} == {}


def test_examples_of_the_site():
    gallery = [p for p in SOURCES if "docs" in p.parts or "examples" in p.parts]
    assert {p.name: found for p in gallery if (found := coined(p.read_text()))} == {}


def test_docstrings_of_public_names_and_packages():
    values = {name: getattr(tp, name) for name in tp.__all__}
    for room in sorted(set(tp._LAZY.values())):
        values[room] = importlib.import_module(f"tproper.{room}")
    docs = {name: coined(inspect.getdoc(value) or "") for name, value in values.items()}
    for name, value in list(values.items()):  # what help(tp.Name) lists below it
        if isinstance(value, type):
            own = {k: v for k, v in vars(value).items() if not k.startswith("_")}
            docs |= {f"{name}.{k}": coined(getattr(v, "__doc__", None) or "") for k, v in own.items()}
    assert {name: words for name, words in docs.items() if words} == {}
